//! The content of an item, which a dispatcher sets.

use super::{Mode, Part, Parts};
use crate::names::{ActorId, ItemId, Label, Phase};
use crate::numbers::{Time, Wall};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The current content of an item. Shared with the item snapshots in grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub title: Box<str>,
    pub priority: u8,
    pub label_sets: Arc<LabelSets>,
    pub mode: Mode,
    pub phase: Option<Phase>,
    pub links: Option<Box<Links>>,
    /// The size of each part of the body. The parts themselves are separate records and not held in memory.
    pub parts: Parts,
    /// Shown only as far as disclosure allows.
    pub(crate) created_by: ActorId,
    pub created_at: Time,
    pub created_wall: Wall,
    /// A hash of the item as it was created. Distinguishes a repeated creation from another item with the same id.
    pub fingerprint: u64,
}

/// The labels on an item and the capabilities that it needs. Items with equal sets share one copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LabelSets {
    pub labels: Arc<[Label]>,
    pub needs: Arc<[Label]>,
}

/// Links and dates, which most items do not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    pub parent: Option<ItemId>,
    pub target: Option<ItemId>,
    pub depends_on: Box<[ItemId]>,
    pub not_before: Option<Wall>,
}

impl Content {
    #[must_use]
    pub fn parent(&self) -> Option<&ItemId> {
        self.links.as_ref()?.parent.as_ref()
    }

    #[must_use]
    pub fn target(&self) -> Option<&ItemId> {
        self.links.as_ref()?.target.as_ref()
    }

    #[must_use]
    pub fn depends_on(&self) -> &[ItemId] {
        self.links.as_ref().map_or(&[], |links| &links.depends_on)
    }

    #[must_use]
    pub fn not_before(&self) -> Option<Wall> {
        self.links.as_ref()?.not_before
    }

    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| u64::from(bytes)).sum()
    }

    /// Records the size of a part. An empty part does not exist.
    pub(crate) fn set_part(&mut self, part: Part, bytes: usize) {
        self.parts.set(part, bytes);
    }
}

/// Sorts labels, so that equal sets compare as equal.
pub(crate) fn sorted(labels: &[Label]) -> Arc<[Label]> {
    let mut labels = labels.to_vec();
    labels.sort_unstable();
    labels.dedup();
    labels.into()
}
