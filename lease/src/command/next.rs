//! The claim on whatever item a queue has for the caller.

use crate::item::{Mirrors, RunsIn};
use crate::names::{ItemId, Label, Phase, QueueName};
use crate::numbers::{ItemNo, Span};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    pub queue: QueueName,
    pub filter: Filter,
    pub lease_for: Option<Span>,
    pub count: u32,
    pub order: Order,
    /// Where an earlier call stopped examining.
    pub cursor: Option<Cursor>,
    pub action: Option<String>,
    pub mirrors: Mirrors,
}

impl Next {
    #[must_use]
    pub fn new(queue: QueueName) -> Self {
        Self {
            queue,
            filter: Filter::default(),
            lease_for: None,
            count: 1,
            order: Order::Priority,
            cursor: None,
            action: None,
            mirrors: Mirrors::ALL,
        }
    }
}

/// The items of a queue that a caller wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The item must have all of these.
    pub labels: Vec<Label>,
    /// The caller's capabilities, which must include all needs of the item. None: those that its worker is registered
    /// with.
    pub capabilities: Option<Vec<Label>>,
    pub phase: Option<Phase>,
    /// None: the mode that its worker is registered with, or any if there is no such worker.
    pub mode: Option<RunsIn>,
    pub parent: Option<ItemId>,
    pub ancestor: Option<ItemId>,
    pub priority_min: Option<u8>,
    pub priority_max: Option<u8>,
}

impl Filter {
    /// The items whose descendants are searched.
    pub(crate) fn tree_roots(&self) -> impl Iterator<Item = &ItemId> {
        self.parent.iter().chain(&self.ancestor)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Highest priority, then oldest.
    #[default]
    Priority,
    Oldest,
    Newest,
}

/// The last candidate examined. The next call continues after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub priority: u8,
    pub item: ItemNo,
}
