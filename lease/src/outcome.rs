//! The outcomes: the answers to commands, one per command, in order.

use crate::command::Cursor;
use crate::item::Content;
use crate::names::{ActorId, ItemId, QueueName};
use crate::numbers::{Epoch, ItemNo, Revision, Span, Time, Token};
use crate::queue::Flow;
use crate::refusal::Refusal;
use crate::standing::StateKind;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Refused(Refusal),
    Created {
        item: ItemId,
        created: bool,
        revision: Revision,
        state: StateKind,
    },
    CreatedMany(Vec<Outcome>),
    Granted(Box<Grant>),
    /// The claim is in the wait line. A repeat with the same request id is a poll.
    Waiting {
        item: ItemId,
        place: u32,
        line_length: u32,
        poll_within: Span,
    },
    ClaimedMany {
        claims: Vec<Outcome>,
        releases: Vec<Outcome>,
    },
    Dispatched(Vec<Grant>),
    Empty {
        why: EmptyReason,
        retry_after: Span,
        cursor: Option<Cursor>,
    },
    Renewed(Renewal),
    RenewedAll(RenewalOfAll),
    Extended {
        item: ItemId,
        token: Token,
        expires_at: Time,
        expires_in: Span,
        capped_to: Option<Span>,
        cancel_requested: bool,
    },
    Released {
        item: ItemId,
        released: bool,
        unassigned: bool,
        state: Option<StateKind>,
    },
    Reserved {
        item: ItemId,
        until: Time,
        span: Span,
        state: StateKind,
    },
    Withdrawn {
        item: ItemId,
        withdrawn: bool,
    },
    Reordered {
        item: ItemId,
        line_length: u32,
    },
    Revoked {
        item: ItemId,
        revoked: bool,
        state: StateKind,
    },
    Assigned {
        item: ItemId,
        actor: ActorId,
    },
    Unassigned {
        item: ItemId,
        unassigned: bool,
    },
    /// `grant`: the lease, if the update set the item to in-progress.
    Updated {
        item: ItemId,
        revision: Revision,
        grant: Option<Box<Grant>>,
    },
    /// The item moved to this state.
    Moved {
        item: ItemId,
        state: StateKind,
        revision: Revision,
    },
    /// The item is cancelled, or will be as soon as its holder has stopped its work, at the latest at `ends_by`.
    Cancelled {
        item: ItemId,
        state: StateKind,
        ends_by: Option<Time>,
    },
    PolicySet {
        queue: QueueName,
        version: u64,
    },
    FlowSet {
        queue: QueueName,
        flow: Flow,
    },
    SpacePolicySet {
        version: u64,
    },
    WorkerRegistered {
        alive_for: Span,
        draining: bool,
    },
    WorkerDraining {
        known: bool,
    },
    WorkerRemoved {
        removed: bool,
    },
    EpochBegun {
        epoch: Epoch,
        tokens_above: Token,
    },
    Activated,
    RulesRaised {
        version: u32,
    },
}

/// A lease, as shown to its holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub item: ItemId,
    pub token: Token,
    pub expires_at: Time,
    /// The caller counts this from the moment it sent the request. Zero: the lease has already ended (a repeat of an
    /// old request).
    pub expires_in: Span,
    pub lease_for: Span,
    /// The requested length was cut to the policy's `lease_max`.
    pub cut: bool,
    /// The caller already held the item, and its lease was renewed.
    pub renewed: bool,
    pub claimed_at: Time,
    pub originally_claimed_at: Time,
    pub line_length: u32,
    pub cancel_requested: bool,
    /// The item whose lease was released to make room for this one.
    pub released: Option<ItemId>,
    /// The item at the time of this answer. Not remembered with the request.
    pub snapshot: Option<Box<ItemSnapshot>>,
}

/// The item from which the work starts. The parts of its body are read from the store under `no`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemSnapshot {
    pub no: ItemNo,
    pub queue: QueueName,
    pub state: StateKind,
    pub revision: Revision,
    pub attempts: u32,
    pub content: Arc<Content>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    pub item: ItemId,
    pub token: Token,
    pub expires_at: Time,
    pub expires_in: Span,
    pub renew_after: Span,
    pub line_length: u32,
    pub cancel_requested: bool,
    pub drain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewalOfAll {
    pub renewed: u32,
    /// The items that the caller believed it held and does not hold.
    pub lost: Vec<ItemId>,
    pub cancel_requested: Vec<ItemId>,
    /// When the lease that ends first expires.
    pub expires_in: Option<Span>,
    pub renew_after: Option<Span>,
    pub drain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EmptyReason {
    NothingQueued,
    /// There are items, but none that matches the filter and the caller's capabilities.
    NothingEligible,
    /// Nothing among the candidates examined by this call. Call again with the cursor.
    ExaminedEnough,
    QueuePaused,
    QueueFull,
    TooManyLeases,
    WorkerDraining,
}

impl Outcome {
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    #[must_use]
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Granted(grant) => Some(grant),
            _ => None,
        }
    }

    /// Every lease in this outcome.
    pub fn grants(&self) -> Vec<&Grant> {
        match self {
            Self::Granted(grant) => vec![grant],
            Self::Updated { grant: Some(grant), .. } => vec![grant],
            Self::Dispatched(grants) => grants.iter().collect(),
            Self::ClaimedMany { claims, .. } => claims.iter().filter_map(Self::grant).collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn for_each_grant(&mut self, mut change: impl FnMut(&mut Grant)) {
        match self {
            Self::Granted(grant) | Self::Updated { grant: Some(grant), .. } => change(grant),
            Self::Dispatched(grants) => grants.iter_mut().for_each(change),
            Self::ClaimedMany { claims, .. } => {
                for claim in claims {
                    if let Self::Granted(grant) = claim {
                        change(grant);
                    }
                }
            }
            _ => {}
        }
    }
}

impl From<Result<Outcome, Refusal>> for Outcome {
    fn from(result: Result<Outcome, Refusal>) -> Self {
        result.unwrap_or_else(Self::Refused)
    }
}
