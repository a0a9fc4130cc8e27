//! A chunk: entries that are applied one after another and written at once.

use crate::types::NodeId;
use lease::changes::{Change, Changes};
use lease::record;
use std::collections::BTreeSet;

/// The changes of a chunk's entries, in order.
#[derive(Debug, Default)]
pub struct Chunk {
    pub(crate) changes: Vec<Changes>,
    /// Every node that was a member in any membership of the chunk.
    pub(crate) members: BTreeSet<NodeId>,
}

impl Chunk {
    /// The changes of one entry, without members.
    #[must_use]
    pub fn of(changes: Changes) -> Self {
        Self { changes: vec![changes], members: BTreeSet::new() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.changes.iter().flat_map(Changes::iter)
    }

    /// The keys of this chunk that a removal by prefix may match: only bodies and activities are removed this way.
    pub(crate) fn removable_puts(&self) -> BTreeSet<&[u8]> {
        self.iter()
            .filter_map(|change| match change {
                Change::Put { key, .. } if matches!(key.first(), Some(&(record::BODY | record::ACTIVITY))) => Some(key),
                _ => None,
            })
            .collect()
    }
}
