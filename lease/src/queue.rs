//! A queue: a named, ordered pool of items with its own policy.

use crate::names::{ActorId, QueueName};
use crate::numbers::{QueueNo, SpaceNo, Time};
use crate::policy::Policy;
use serde::{Deserialize, Serialize};

/// The stored record of a queue. Its items are in indexes that are built from the items themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    pub no: QueueNo,
    pub space: SpaceNo,
    pub name: QueueName,
    pub flow: Flow,
    pub version: u64,
    pub policy: Policy,
}

impl Queue {
    /// A new queue with the default policy.
    pub(crate) fn new(no: QueueNo, space: SpaceNo, name: QueueName) -> Self {
        Self { no, space, name, flow: Flow::Open, version: 0, policy: Policy::default() }
    }
}

/// The creator of a queue and what keeps the queue, in a record next to the queue's own. An empty queue is removed
/// after a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub made_by: ActorId,
    /// The number of its terminal items that are still stored.
    pub terminal: u64,
    /// When the queue was created, paused or opened, or one of its items ended or left.
    pub used_at: Time,
}

/// Whether a queue grants leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flow {
    Open,
    /// No grants. Holders continue and waiters keep their places.
    Paused,
    /// No grants. Waiters are rejected. Becomes drained when nothing is held any more.
    Draining,
    /// Nothing is held any more. An operator's unpause starts grants again.
    Drained,
}

impl Flow {
    #[must_use]
    pub fn is_open(self) -> bool {
        self == Self::Open
    }

    #[must_use]
    pub fn is_draining(self) -> bool {
        matches!(self, Self::Draining | Self::Drained)
    }
}
