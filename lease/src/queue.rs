//! A queue: a named, ordered pool of items with its own policy.

use crate::names::QueueName;
use crate::numbers::{QueueNo, SpaceNo};
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
