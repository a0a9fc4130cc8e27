//! How this replica names a live item.

use crate::numbers::ItemNo;
use std::cmp::Ordering;

/// A live item's number and its slot in this replica. Ordered by the number alone, because slots differ between
/// replicas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemKey {
    pub(crate) no: ItemNo,
    pub(super) slot: u32,
}

impl ItemKey {
    /// Sorts before every key; for ranges.
    pub(crate) const FIRST: Self = Self { no: ItemNo(0), slot: 0 };
    pub(crate) const LAST: Self = Self { no: ItemNo(u64::MAX), slot: 0 };

    /// The same slot under another number: for another order, and reversible.
    pub(crate) fn numbered(self, no: ItemNo) -> Self {
        Self { no, ..self }
    }

    /// A position among keys. Must not be used for lookups.
    pub(crate) fn position(no: ItemNo) -> Self {
        Self { no, slot: u32::MAX }
    }
}

impl PartialEq for ItemKey {
    fn eq(&self, other: &Self) -> bool {
        self.no == other.no
    }
}

impl Eq for ItemKey {}

impl PartialOrd for ItemKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ItemKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.no.cmp(&other.no)
    }
}
