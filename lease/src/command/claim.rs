//! Claims on named items.

use super::Release;
use crate::item::Mirrors;
use crate::names::ItemId;
use crate::numbers::Span;
use serde::{Deserialize, Serialize};

/// What a claim does when it cannot be granted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnConflict {
    #[default]
    Fail,
    Wait {
        /// Give up after this long.
        wait_for: Option<Span>,
        /// Do not join a line already this long.
        line_max: Option<u32>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub item: ItemId,
    pub lease_for: Option<Span>,
    /// What the holder is doing and to which part of the item. Only shown to observers.
    pub action: Option<String>,
    pub field: Option<String>,
    pub on_conflict: OnConflict,
    /// If another session of the same actor holds the item, end its lease and grant a new one.
    pub takeover: bool,
    /// The mirrors that this holder allows. Only mirrors that the policy has can take effect.
    pub mirrors: Mirrors,
}

impl Claim {
    #[must_use]
    pub fn new(item: ItemId) -> Self {
        Self {
            item,
            lease_for: None,
            action: None,
            field: None,
            on_conflict: OnConflict::Fail,
            takeover: false,
            mirrors: Mirrors::ALL,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimMany {
    pub claims: Vec<Claim>,
    /// Leases to release in the same step. The claims may use the capacity that they free.
    pub releases: Vec<Release>,
    pub all_or_none: bool,
}
