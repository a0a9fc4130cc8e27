//! Events, as shown to a viewer.

use crate::code::Code;
use crate::dates::Date;
use crate::names::{self, Number};
use crate::words::{ActivityKind, ActorKind, BlockedBy, ItemState, MirrorSkip, Transition};
use crate::worker::WorkerName;
use lease::disclose::EventView;
use lease::event::What;
use lease::names::{ActorId, ItemId, Phase, QueueName};
use lease::numbers::Token;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that happened. Events are numbered per space, without gaps within an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub number: Number,
    /// In cluster time.
    pub at_ms: u64,
    /// By the wall clock of the leader that accepted the entry.
    pub at: Date,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::QueueName>)]
    pub queue: Option<QueueName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ItemId>)]
    pub item: Option<ItemId>,
    /// The caller whose command caused the event. Omitted if time caused it, or if the viewer may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// The details of the event. Omitted if the event has no details, or if the viewer may not see them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<Details>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct By {
    #[schema(value_type = names::ActorId)]
    pub actor: ActorId,
    pub kind: ActorKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub parent: Option<ActorId>,
}

/// The details of an event. Fields that do not apply to its kind are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Details {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<WorkerName>,
    /// The lease's token. Shown only to its holder and to operators of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Token>)]
    pub token: Option<Token>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_line: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub was_assigned_to: Option<ActorId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub actor: Option<ActorId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// The error code that the waiter gets. Omitted if the waiter withdrew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Code>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<names::ActorId>>)]
    pub first: Option<Vec<ActorId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Phase>)]
    pub phase: Option<Phase>,
    /// The lease had already expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "final")]
    pub is_final: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockedBy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ItemState>,
    /// The item whose transition moved the phase of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ItemId>)]
    pub of: Option<ItemId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transition: Option<Transition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<MirrorSkip>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
}

impl From<What> for Details {
    fn from(what: What) -> Self {
        let details = Self::of(what);
        // No lease has the token 0: it marks a token that the viewer may not see.
        Self { token: details.token.filter(|token| *token != Token::default()), ..details }
    }
}

impl Details {
    fn of(what: What) -> Self {
        let none = Self::default();
        let of_lease = |holder: lease::caller::Holder, token| Self {
            holder: Some(holder.into()),
            token: Some(token),
            ..Self::default()
        };
        match what {
            What::Granted { holder, token, expires_at, from_line, was_assigned_to } => Self {
                expires_at_ms: Some(expires_at.0),
                from_line: Some(from_line),
                was_assigned_to,
                ..of_lease(holder, token)
            },
            What::PickedUp { holder, token }
            | What::NotPickedUp { holder, token }
            | What::Released { holder, token }
            | What::TakenOver { holder, token }
            | What::Voided { holder, token } => of_lease(holder, token),
            What::Extended { holder, token, expires_at } => {
                Self { expires_at_ms: Some(expires_at.0), ..of_lease(holder, token) }
            }
            What::Expired { holder, token, attempt } => Self { attempt: Some(attempt), ..of_lease(holder, token) },
            What::Reserved { holder, token, until } => Self { until_ms: Some(until.0), ..of_lease(holder, token) },
            What::HandedOn { holder, token, phase } => Self { phase: Some(phase), ..of_lease(holder, token) },
            What::Completed { holder, token, late } => Self { late: Some(late), ..of_lease(holder, token) },
            What::Failed { holder, token, is_final, late } => {
                Self { late: Some(late), is_final: Some(is_final), ..of_lease(holder, token) }
            }
            What::Revoked { holder, token, reason } | What::Cancelled { reason, holder, token } => {
                Self { holder: holder.map(Into::into), token, reason: Some(reason), ..none }
            }
            What::CancelRequested { reason } => Self { reason: Some(reason), ..none },
            What::Updated { fields } => {
                Self { fields: Some(fields.into_iter().map(|field| field.name().to_owned()).collect()), ..none }
            }
            What::ReservationEnded { actor } | What::Assigned { actor } | What::Unassigned { actor } => {
                Self { actor: Some(actor), ..none }
            }
            What::Joined { holder, place } => Self { holder: Some(holder.into()), place: Some(place), ..none },
            What::LeftLine { holder, answer } => {
                Self { holder: Some(holder.into()), answer: answer.map(Into::into), ..none }
            }
            What::Reordered { first } => Self { first: Some(first), ..none },
            What::ActivityRecorded { kind, note } => Self { activity: Some(kind.into()), note: Some(note), ..none },
            What::AwaitedInput { token } | What::Resumed { token } => Self { token: Some(token), ..none },
            What::Blocked { by } => Self { blocked_by: Some(by.into()), ..none },
            What::Purged { state } => Self { state: Some(state.into()), ..none },
            What::Mirrored { of, transition, phase } => {
                Self { of: Some(of), transition: Some(transition.into()), phase: Some(phase), ..none }
            }
            What::MirrorSkipped { transition, why } => {
                Self { transition: Some(transition.into()), skipped: Some(why.into()), ..none }
            }
            What::PolicyChanged { version } | What::SpacePolicyChanged { version } => {
                Self { version: Some(version), ..none }
            }
            What::WorkerRegistered { worker }
            | What::WorkerDrained { worker }
            | What::WorkerGone { worker }
            | What::WorkerRemoved { worker } => Self { worker: Some(worker.into()), ..none },
            What::EpochBegun { epoch } => Self { epoch: Some(epoch.0), ..none },
            What::Created
            | What::Queued
            | What::Reopened
            | What::Retried
            | What::Paused
            | What::Unpaused
            | What::DrainStarted
            | What::Drained
            | What::Activated => none,
        }
    }
}

impl From<EventView> for Event {
    fn from(view: EventView) -> Self {
        let what = view.what.map(Details::from).filter(|what| *what != Details::default());
        Self {
            number: Number(view.number),
            at_ms: view.at.0,
            at: Date(view.wall),
            kind: view.kind.to_owned(),
            queue: view.queue,
            item: view.item,
            by: view.by.map(|by| By { actor: by.actor, kind: by.kind.into(), parent: by.parent }),
            what,
        }
    }
}

/// A page of the events of a space, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    pub events: Vec<Event>,
    /// Where the next page starts: after the last event that was examined, shown or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<Number>,
}
