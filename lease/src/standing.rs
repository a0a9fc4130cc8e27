//! The standing of an item: its state, its assignment, its lease, and what is remembered of earlier leases.

use crate::caller::{ActorKind, Caller, Holder};
use crate::item::{FieldRevisions, Mirrors};
use crate::names::{ActorId, SessionId};
use crate::numbers::{ItemNo, Revision, Span, Time, Token, Wall};
use crate::remembered::RequestKey;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub state: ItemState,
    pub revision: Revision,
    /// The newest token minted for this item, zero before the first. A command with a lower token is refused, because
    /// its lease has ended.
    pub newest_token: Token,
    /// How many leases expired or failed since the last reset.
    pub attempts: u32,
    /// How many activities have ever been recorded.
    pub activities: u64,
    pub since: Time,
    pub assignment: Option<Box<Assignment>>,
    pub lease: Option<Box<Lease>>,
    pub past: Option<Box<Past>>,
    pub cancel: Option<Box<Cancel>>,
    /// Its position in the queue's settle list, if it has a line that cannot move because the queue does not grant now.
    pub settle: Option<NonZeroU64>,
    pub changed: Option<Box<FieldRevisions>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ItemState {
    Pending(Box<Waits>),
    Queued,
    Active,
    AwaitingInput,
    /// Its lease expired. Claimable.
    Stale,
    Reserved(Box<Reservation>),
    Blocked(BlockedBy),
    Complete,
    Error,
    Cancelled,
}

impl ItemState {
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    #[must_use]
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Pending(_) => StateKind::Pending,
            Self::Queued => StateKind::Queued,
            Self::Active => StateKind::Active,
            Self::AwaitingInput => StateKind::AwaitingInput,
            Self::Stale => StateKind::Stale,
            Self::Reserved(_) => StateKind::Reserved,
            Self::Blocked(_) => StateKind::Blocked,
            Self::Complete => StateKind::Complete,
            Self::Error => StateKind::Error,
            Self::Cancelled => StateKind::Cancelled,
        }
    }

    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Complete | Self::Error | Self::Cancelled)
    }

    #[must_use]
    pub fn is_claimable(&self) -> bool {
        matches!(self, Self::Queued | Self::Stale)
    }
}

/// An item's state without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StateKind {
    Pending,
    Queued,
    Active,
    AwaitingInput,
    Stale,
    Reserved,
    Blocked,
    Complete,
    Error,
    Cancelled,
}

impl StateKind {
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Queued,
        Self::Active,
        Self::AwaitingInput,
        Self::Stale,
        Self::Reserved,
        Self::Blocked,
        Self::Complete,
        Self::Error,
        Self::Cancelled,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::Active => "active",
            Self::AwaitingInput => "awaiting_input",
            Self::Stale => "stale",
            Self::Reserved => "reserved",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What a pending item waits for. It is queued when nothing is left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Dependencies that have not been resolved yet.
    pub dependencies: Vec<ItemNo>,
    pub not_before: Option<Wall>,
    /// The end of a delay or of a backoff.
    pub until: Option<Time>,
}

impl Waits {
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.dependencies.is_empty() && self.not_before.is_none() && self.until.is_none()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockedBy {
    /// No attempts left.
    Attempts,
    /// A dependency that can no longer complete.
    Dependency,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub until: Time,
    /// The assignee. Also stored here, so that a later assignment cannot silently move the reservation.
    pub actor: ActorId,
}

/// Durable ownership: this item belongs to this actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub actor: ActorId,
    pub since: Time,
}

/// Temporary: this holder is working on the item now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub holder: Holder,
    pub kind: ActorKind,
    pub token: Token,
    pub claimed_at: Time,
    /// Stored in a separate record, so that a renewal, the most frequent command, writes nothing else.
    #[serde(skip)]
    pub expires_at: Time,
    /// The length for a renewal that names none.
    pub lease_for: Span,
    pub doing: Option<Box<Doing>>,
    /// The mirrors that this holder allows.
    pub mirrors: Mirrors,
    /// Set while the lease is a grant from the line that its holder has not picked up yet.
    pub pickup: Option<Box<Pickup>>,
}

/// What the holder says it is doing, and to which part of the item. Only shown to observers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doing {
    pub action: Option<Box<str>>,
    pub field: Option<Box<str>>,
}

impl Doing {
    pub(crate) fn new(action: Option<&str>, field: Option<&str>) -> Option<Box<Self>> {
        let doing = Self { action: action.map(Into::into), field: field.map(Into::into) };
        (action.is_some() || field.is_some()).then(|| Box::new(doing))
    }
}

/// The item's state before the grant, and the request to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pickup {
    pub was_stale: bool,
    /// The waiting claim that gets its answer when the grant is picked up or lost.
    pub request: Option<RequestKey>,
}

/// What is remembered of earlier leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// The actor that last held (and picked up) the item, and since when it has done so without another actor in
    /// between.
    pub origin: Option<(ActorId, Time)>,
    /// Only this actor may claim before this time, because the last lease ended uncleanly.
    pub delay: Option<Box<(ActorId, Time)>>,
    /// The holder whose lease expired with nothing else since. It may still complete or fail the item.
    pub late: Option<Box<LateRight>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateRight {
    pub actor: ActorId,
    pub session: Option<SessionId>,
    pub token: Token,
    /// The mirrors that its lease allowed. A late command allows no others.
    pub mirrors: Mirrors,
}

/// A cancel requested while the item is held. It ends the lease soon, or cancels the item when the lease ends by
/// itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub reason: Box<str>,
    /// When the cancel was shown to the holder.
    pub shown_at: Option<Time>,
}

impl Standing {
    #[must_use]
    pub fn new(state: ItemState, revision: Revision, since: Time) -> Self {
        Self {
            state,
            revision,
            newest_token: Token(0),
            attempts: 0,
            activities: 0,
            since,
            assignment: None,
            lease: None,
            past: None,
            cancel: None,
            settle: None,
            changed: None,
        }
    }

    #[must_use]
    pub fn is_assigned_to(&self, actor: &ActorId) -> bool {
        self.assignment.as_ref().is_some_and(|assignment| assignment.actor == *actor)
    }

    pub(crate) fn past_mut(&mut self) -> &mut Past {
        self.past.get_or_insert_default()
    }

    /// Call this when anything happens to the item after its last lease expired.
    pub(crate) fn forget_late_right(&mut self) {
        if let Some(past) = &mut self.past {
            past.late = None;
        }
    }

    /// The earliest moment of cluster time at which something happens to this item by itself.
    #[must_use]
    pub fn due_at(&self) -> Time {
        if let Some(lease) = &self.lease {
            return match self.cancel.as_ref().and_then(|cancel| cancel.shown_at) {
                Some(shown) => lease.expires_at.min(shown.after(crate::bounds::CANCEL_GRACE)),
                None => lease.expires_at,
            };
        }
        let own = match &self.state {
            ItemState::Pending(waits) => waits.until.unwrap_or(Time::NEVER),
            ItemState::Reserved(reservation) => reservation.until,
            _ => Time::NEVER,
        };
        self.delay().map_or(own, |(_, until)| own.min(*until))
    }

    /// The only actor that may claim, and until when.
    pub(crate) fn delay(&self) -> Option<&(ActorId, Time)> {
        self.past.as_ref()?.delay.as_deref()
    }

    /// Whether another actor holds the item.
    pub(crate) fn is_held_by_other(&self, caller: &Caller) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.holder.actor != caller.actor)
    }

    pub(crate) fn late_right(&self) -> Option<&LateRight> {
        self.past.as_ref()?.late.as_deref()
    }
}
