//! The activities of an item: what its holder has reported about the work.

use crate::names::ActorId;
use crate::numbers::{Time, Wall};
use serde::{Deserialize, Serialize};

/// The kind of an activity, with which observers follow the work on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ActivityKind {
    Progress,
    PlanUpdated,
    ExternalUrlUpdated,
    AwaitingInput,
    Completed,
    Failed,
    PolicyDecision,
}

/// One of the last activities of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    pub kind: ActivityKind,
    pub by: ActorId,
    pub at: Time,
    pub wall: Wall,
    pub note: String,
}
