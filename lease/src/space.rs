//! A space: the data of one tenant. No command crosses spaces.

use crate::names::SpaceName;
use crate::numbers::SpaceNo;
use crate::policy::SpacePolicy;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    pub no: SpaceNo,
    pub name: SpaceName,
    /// The sequence number of its last event.
    pub last_event: u64,
    pub version: u64,
    pub policy: SpacePolicy,
    pub counts: SpaceCounts,
}

/// Conservation: created = live + terminal + purged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceCounts {
    pub created: u64,
    pub live: u64,
    pub terminal: u64,
    pub purged: u64,
    pub body_bytes: u64,
    pub queues: u64,
    pub workers: u64,
}
