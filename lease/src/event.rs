//! The events: what happened, named in the past tense. They are numbered per space, without gaps.

use crate::caller::{ActorKind, Caller, Holder};
use crate::item::{ActivityKind, Field, MirrorSkip, Transition};
use crate::names::{ActorId, ItemId, Phase, QueueName, SpaceName};
use crate::numbers::{Epoch, EventNumber, Time, Token, Wall};
use crate::refusal::Code;
use crate::standing::{BlockedBy, StateKind};
use crate::words::variant_names;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub space: SpaceName,
    pub number: EventNumber,
    pub at: Time,
    pub wall: Wall,
    /// The caller whose command caused the event. None: time caused it.
    pub by: Option<Who>,
    pub queue: Option<QueueName>,
    pub item: Option<ItemId>,
    /// The owner of a local item, which is visible only to callers that work for that person.
    pub local_to: Option<ActorId>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub actor: ActorId,
    pub kind: ActorKind,
    pub parent: Option<ActorId>,
}

impl From<&Caller> for Who {
    fn from(caller: &Caller) -> Self {
        Self { actor: caller.actor.clone(), kind: caller.kind, parent: caller.parent.clone() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    Created,
    Updated {
        fields: Vec<Field>,
    },
    /// The item no longer waits for anything.
    Queued,
    Granted {
        holder: Holder,
        token: Token,
        expires_at: Time,
        from_line: bool,
        was_assigned_to: Option<ActorId>,
    },
    PickedUp {
        holder: Holder,
        token: Token,
    },
    NotPickedUp {
        holder: Holder,
        token: Token,
    },
    Extended {
        holder: Holder,
        token: Token,
        expires_at: Time,
    },
    Released {
        holder: Holder,
        token: Token,
    },
    /// The lease expired.
    Expired {
        holder: Holder,
        token: Token,
        attempt: bool,
    },
    TakenOver {
        holder: Holder,
        token: Token,
    },
    Revoked {
        holder: Option<Holder>,
        token: Option<Token>,
        reason: String,
    },
    /// A restore ended the lease.
    Voided {
        holder: Holder,
        token: Token,
    },
    /// The lease became a reservation for its assignee.
    Reserved {
        holder: Holder,
        token: Token,
        until: Time,
    },
    ReservationEnded {
        actor: ActorId,
    },
    Joined {
        holder: Holder,
        place: u32,
    },
    /// The place ended without a grant. `answer` is the code that its waiter gets. None: the waiter withdrew.
    LeftLine {
        holder: Holder,
        answer: Option<Code>,
    },
    Reordered {
        first: Vec<ActorId>,
    },
    Assigned {
        actor: ActorId,
    },
    Unassigned {
        actor: ActorId,
    },
    ActivityRecorded {
        kind: ActivityKind,
        note: String,
    },
    AwaitedInput {
        token: Token,
    },
    Resumed {
        token: Token,
    },
    HandedOn {
        holder: Holder,
        token: Token,
        phase: Phase,
    },
    Completed {
        holder: Holder,
        token: Token,
        late: bool,
    },
    Failed {
        holder: Holder,
        token: Token,
        is_final: bool,
        late: bool,
    },
    Blocked {
        by: BlockedBy,
    },
    CancelRequested {
        reason: String,
    },
    Cancelled {
        reason: String,
        holder: Option<Holder>,
        token: Option<Token>,
    },
    Reopened,
    Retried,
    /// The item left the archive. Its history stays in the events.
    Purged {
        state: StateKind,
    },
    /// This item's phase followed a transition of an item whose target it is.
    Mirrored {
        of: ItemId,
        transition: Transition,
        phase: Phase,
    },
    /// A transition of this item did not move its target.
    MirrorSkipped {
        transition: Transition,
        why: MirrorSkip,
    },
    PolicyChanged {
        version: u64,
    },
    Paused,
    Unpaused,
    DrainStarted,
    Drained,
    SpacePolicyChanged {
        version: u64,
    },
    WorkerRegistered {
        worker: Holder,
    },
    WorkerDrained {
        worker: Holder,
    },
    WorkerGone {
        worker: Holder,
    },
    WorkerRemoved {
        worker: Holder,
    },
    EpochBegun {
        epoch: Epoch,
    },
    Activated,
}

variant_names! {
    What::{KINDS, kind}
    Created = "created";
    Updated = "updated";
    Queued = "queued";
    Granted = "granted";
    PickedUp = "picked_up";
    NotPickedUp = "not_picked_up";
    Extended = "extended";
    Released = "released";
    Expired = "expired";
    TakenOver = "taken_over";
    Revoked = "revoked";
    Voided = "voided";
    Reserved = "reserved";
    ReservationEnded = "reservation_ended";
    Joined = "joined";
    LeftLine = "left_line";
    Reordered = "reordered";
    Assigned = "assigned";
    Unassigned = "unassigned";
    ActivityRecorded = "activity_recorded";
    AwaitedInput = "awaited_input";
    Resumed = "resumed";
    HandedOn = "handed_on";
    Completed = "completed";
    Failed = "failed";
    Blocked = "blocked";
    CancelRequested = "cancel_requested";
    Cancelled = "cancelled";
    Reopened = "reopened";
    Retried = "retried";
    Purged = "purged";
    Mirrored = "mirrored";
    MirrorSkipped = "mirror_skipped";
    PolicyChanged = "policy_changed";
    Paused = "paused";
    Unpaused = "unpaused";
    DrainStarted = "drain_started";
    Drained = "drained";
    SpacePolicyChanged = "space_policy_changed";
    WorkerRegistered = "worker_registered";
    WorkerDrained = "worker_drained";
    WorkerGone = "worker_gone";
    WorkerRemoved = "worker_removed";
    EpochBegun = "epoch_begun";
    Activated = "activated";
}

impl What {
    /// The lease that this event ended, if any. Each grant ends exactly once.
    #[must_use]
    pub fn ended_lease(&self) -> Option<Token> {
        match self {
            Self::Released { token, .. }
            | Self::Expired { token, .. }
            | Self::NotPickedUp { token, .. }
            | Self::TakenOver { token, .. }
            | Self::Voided { token, .. }
            | Self::Reserved { token, .. }
            | Self::HandedOn { token, .. } => Some(*token),
            Self::Completed { token, late, .. } | Self::Failed { token, late, .. } => (!late).then_some(*token),
            Self::Revoked { token, .. } | Self::Cancelled { token, .. } => *token,
            _ => None,
        }
    }
}
