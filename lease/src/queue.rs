//! A queue: a named, ordered pool of items with its own policy.

use crate::names::{ActorId, QueueName};
use crate::numbers::{QueueNo, SpaceNo, Time};
use crate::policy::Policy;
use serde::{Deserialize, Serialize};

/// What is stored of a queue. Its items stand in indexes that are made from the items themselves.
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
    /// As it springs into being.
    pub(crate) fn new(no: QueueNo, space: SpaceNo, name: QueueName) -> Self {
        Self { no, space, name, flow: Flow::Open, version: 0, policy: Policy::default() }
    }
}

/// Who made a queue, and what keeps it: a record beside its own. One that is empty goes away after a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub made_by: ActorId,
    /// Its terminal items, as long as they are kept.
    pub terminal: u64,
    /// When it was made, paused or opened, or one of its items ended or left.
    pub used_at: Time,
}

/// Whether a queue grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flow {
    Open,
    /// No grants; holders go on, waiters keep their places.
    Paused,
    /// No grants; waiters are sent away; ends when nothing is held.
    Draining,
    /// Nothing is held any more. Grants begin again with an operator's unpause.
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
