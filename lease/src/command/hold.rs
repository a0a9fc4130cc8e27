//! Commands on a lease: keep it, end it, or take it away.

use crate::names::{ActorId, ItemId};
use crate::numbers::{Span, Token};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    pub item: ItemId,
    pub token: Token,
    pub lease_for: Option<Span>,
}

/// Renews every lease of the caller's session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewAll {
    pub lease_for: Option<Span>,
    /// The leases that the caller believes it holds. The answer names the items that it does not hold.
    pub expected: Vec<(ItemId, Token)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    pub item: ItemId,
    pub token: Token,
    pub by: Span,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub item: ItemId,
    pub token: Option<Token>,
    pub keep_assignment: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    pub item: ItemId,
    pub token: Token,
    /// How long to reserve the item. None: the policy's `reservation_max`.
    pub span: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoke {
    pub item: ItemId,
    pub reason: String,
    /// Move the assignment to this actor. None: keep it.
    pub assign_to: Option<ActorId>,
}
