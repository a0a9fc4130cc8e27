//! Holding: renewing, extending, releasing and reserving; and the operations of operators on leases of others.

use crate::answer::answer;
use crate::dates::Date;
use crate::names;
use crate::words::ItemState;
use lease::Command;
use lease::command::{Extend as CoreExtend, Release as CoreRelease, Renew as CoreRenew, RenewAll as CoreRenewAll};
use lease::command::{Reserve as CoreReserve, Revoke as CoreRevoke};
use lease::names::{ActorId, ItemId};
use lease::numbers::{Span, Token};
use lease::outcome::Outcome;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    #[schema(value_type = names::Token)]
    pub token: Token,
    /// Lease length. Default: the length with which the item was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub lease_for_ms: Option<u64>,
}

impl Renew {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Renew(CoreRenew { item, token: self.token, lease_for: self.lease_for_ms.map(Span) })
    }
}

/// Renews every lease of the caller's session. This is also a worker's heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewAll {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub lease_for_ms: Option<u64>,
    /// The leases that the caller believes it holds. Those that it does not hold are reported in `lost`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub expected: Vec<Expected>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    #[schema(value_type = names::Token)]
    pub token: Token,
}

impl RenewAll {
    #[must_use]
    pub fn into_command(self) -> Command {
        let expected = self.expected.into_iter().map(|expected| (expected.item, expected.token)).collect();
        Command::RenewAll(CoreRenewAll { lease_for: self.lease_for_ms.map(Span), expected })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Extend {
    #[schema(value_type = names::Token)]
    pub token: Token,
    /// The lease lasts at least this long from now.
    #[schema(value_type = names::Millis)]
    pub for_ms: u64,
}

impl Extend {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Extend(CoreExtend { item, token: self.token, by: Span(self.for_ms) })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Release only the lease with this token. Default: the lease of the caller's actor and session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Token>)]
    pub token: Option<Token>,
    #[serde(default)]
    pub keep_assignment: bool,
}

impl Release {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Release(self.into_release(item))
    }

    pub(crate) fn into_release(self, item: ItemId) -> CoreRelease {
        CoreRelease { item, token: self.token, keep_assignment: self.keep_assignment }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    #[schema(value_type = names::Token)]
    pub token: Token,
    /// How long to reserve the item. Default: the queue's `reservation_max_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Millis>)]
    pub for_ms: Option<u64>,
}

impl Reserve {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Reserve(CoreReserve { item, token: self.token, span: self.for_ms.map(Span) })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Revoke {
    #[schema(max_length = 1024)]
    pub reason: String,
    /// Move the assignment to this actor. Default: keep the assignment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub assign_to: Option<ActorId>,
}

impl Revoke {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Revoke(CoreRevoke { item, reason: self.reason, assign_to: self.assign_to })
    }
}

/// The actor to which an item is assigned, or from which it is unassigned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Assign {
    #[schema(value_type = names::ActorId)]
    pub actor: ActorId,
}

impl Assign {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Assign { item, actor: self.actor }
    }

    /// The command that removes the assignment.
    #[must_use]
    pub fn into_unassign(self, item: ItemId) -> Command {
        Command::Unassign { item, actor: self.actor }
    }
}

/// Moves the named actors to the head of the line, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    #[schema(value_type = Vec<names::ActorId>, max_items = 1000)]
    pub actors: Vec<ActorId>,
}

impl Reorder {
    #[must_use]
    pub fn into_command(self, item: ItemId) -> Command {
        Command::Reorder { item, actors: self.actors }
    }
}

/// A lease that was renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Renewed {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    #[schema(value_type = names::Token)]
    pub token: Token,
    /// Count this from the moment the request was sent.
    pub expires_in_ms: u64,
    pub expires_at_ms: u64,
    pub expires_at: Date,
    /// When to renew again.
    pub renew_after_ms: u64,
    pub line_length: u32,
    /// A cancel of the item was requested: stop work on it within 30 s.
    pub cancel_requested: bool,
    /// The worker should take no new items.
    pub drain: bool,
}

answer! { Renewed, with: Outcome::Renewed(renewal) =>
    Self {
        item: renewal.item,
        token: renewal.token,
        expires_in_ms: renewal.expires_in.0,
        expires_at_ms: renewal.expires_at.0,
        expires_at: with.calendar.after(renewal.expires_in),
        renew_after_ms: renewal.renew_after.0,
        line_length: renewal.line_length,
        cancel_requested: renewal.cancel_requested,
        drain: renewal.drain,
    }
}

/// The leases of a session that were renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewedAll {
    pub renewed: u32,
    /// The items in `expected` that the caller does not hold.
    #[schema(value_type = Vec<names::ItemId>)]
    pub lost: Vec<ItemId>,
    #[schema(value_type = Vec<names::ItemId>)]
    pub cancel_requested: Vec<ItemId>,
    /// When the lease that ends first expires. Count this from the moment the request was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_after_ms: Option<u64>,
    pub drain: bool,
}

answer! { RenewedAll: Outcome::RenewedAll(all) =>
    Self {
        renewed: all.renewed,
        lost: all.lost,
        cancel_requested: all.cancel_requested,
        expires_in_ms: all.expires_in.map(|span| span.0),
        renew_after_ms: all.renew_after.map(|span| span.0),
        drain: all.drain,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Extended {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    #[schema(value_type = names::Token)]
    pub token: Token,
    pub expires_in_ms: u64,
    pub expires_at_ms: u64,
    pub expires_at: Date,
    /// The lease was cut to the queue's `lease_max_ms`.
    pub capped: bool,
    /// The queue's `lease_max_ms`, if the lease was cut to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_max_ms: Option<u64>,
    pub cancel_requested: bool,
}

answer! { Extended, with: Outcome::Extended { item, token, expires_at, expires_in, capped_to, cancel_requested } =>
    Self {
        item,
        token,
        expires_in_ms: expires_in.0,
        expires_at_ms: expires_at.0,
        expires_at: with.calendar.after(expires_in),
        capped: capped_to.is_some(),
        lease_max_ms: capped_to.map(|span| span.0),
        cancel_requested,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Released {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    /// false: the caller had no lease to release.
    pub released: bool,
    /// The caller's assignment was removed.
    pub unassigned: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ItemState>,
}

answer! { Released: Outcome::Released { item, released, unassigned, state } =>
    Self { item, released, unassigned, state: state.map(Into::into) }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reserved {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    pub until_ms: u64,
    pub until: Date,
    pub for_ms: u64,
    pub state: ItemState,
}

answer! { Reserved, with: Outcome::Reserved { item, until, span, state } =>
    Self {
        item,
        until_ms: until.0,
        until: with.calendar.date(until),
        for_ms: span.0,
        state: state.into(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Withdrawn {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    /// false: the caller had no place in the line.
    pub withdrawn: bool,
}

answer! { Withdrawn: Outcome::Withdrawn { item, withdrawn } => Self { item, withdrawn } }

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reordered {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    pub line_length: u32,
}

answer! { Reordered: Outcome::Reordered { item, line_length } => Self { item, line_length } }

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    /// false: nobody held the item.
    pub revoked: bool,
    pub state: ItemState,
}

answer! { Revoked: Outcome::Revoked { item, revoked, state } => Self { item, revoked, state: state.into() } }

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Assigned {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    #[schema(value_type = names::ActorId)]
    pub actor: ActorId,
}

answer! { Assigned: Outcome::Assigned { item, actor } => Self { item, actor } }

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Unassigned {
    #[schema(value_type = names::ItemId)]
    pub item: ItemId,
    /// false: the item was not assigned to this actor.
    pub unassigned: bool,
}

answer! { Unassigned: Outcome::Unassigned { item, unassigned } => Self { item, unassigned } }
