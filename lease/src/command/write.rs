//! Writes to an item: its content, its activities and its end.

use crate::item::{ActivityKind, Edit};
use crate::names::{ItemId, Phase};
use crate::numbers::{Revision, Token};
use serde::{Deserialize, Serialize};

/// The fields that every write under a lease has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub item: ItemId,
    pub token: Option<Token>,
    /// The revision the caller has read.
    pub read_at: Option<Revision>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    pub write: Write,
    pub edits: Vec<Edit>,
    /// Set the item to in-progress. This claims the item, and the answer contains the grant.
    pub start: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    pub write: Write,
    pub kind: ActivityKind,
    /// For `plan_updated` and `external_url_updated`: the new text, which is also written to the body.
    pub note: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitInput {
    pub write: Write,
    pub question: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOn {
    pub write: Write,
    pub phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    pub write: Write,
    pub result: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fail {
    pub write: Write,
    pub error: Option<String>,
    /// Do not try the item again, whatever attempts are left.
    pub is_final: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub item: ItemId,
    pub reason: String,
    /// End a live lease at once instead of waiting for its holder.
    pub force: bool,
}
