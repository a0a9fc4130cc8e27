//! Who may see whom. Pure functions of (what is to be shown, the viewer, the queue's policy): no surface shows a
//! holder but through them. What is not shown is left out.

use crate::caller::{Caller, Role};
use crate::event::{Event, What, Who};
use crate::names::{ActorId, ItemId, QueueName, SpaceName};
use crate::numbers::{EventNumber, Span, Time, Wall};
use crate::policy::Disclosure;
use crate::queue::Queue;
use crate::refusal::{Conflict, HolderView, NamedHolder, Refusal};
use crate::standing::Lease;

/// How much of others' holdings a viewer sees in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// Counts and booleans.
    Nothing,
    /// What kind of actor it is.
    Kind,
    All,
}

/// What a conflict may show.
#[must_use]
pub fn sight_of_conflict(viewer: &Caller, queue: &Queue) -> Sight {
    if viewer.has_role(Role::Operator, &queue.name) {
        return Sight::All;
    }
    match queue.policy.disclosure {
        Disclosure::Open => Sight::All,
        Disclosure::Fleet => Sight::Kind,
        Disclosure::CrossOrg => Sight::Nothing,
    }
}

/// What a list, a peek, a line or an event may show.
#[must_use]
pub fn sight_of_list(viewer: &Caller, queue: &Queue) -> Sight {
    match sight_of_conflict(viewer, queue) {
        Sight::All => Sight::All,
        Sight::Kind | Sight::Nothing => Sight::Nothing,
    }
}

/// All there is to show of a holder; to be cut before it leaves.
pub(crate) fn full_view(lease: &Lease) -> HolderView {
    HolderView {
        kind: lease.kind,
        named: Some(NamedHolder {
            holder: lease.holder.clone(),
            expires_at: lease.expires_at,
            action: lease.doing.as_ref().and_then(|doing| doing.action.as_ref()).map(ToString::to_string),
            field: lease.doing.as_ref().and_then(|doing| doing.field.as_ref()).map(ToString::to_string),
        }),
    }
}

/// What a viewer who is in conflict with this holder may see of it. One's own is always seen.
#[must_use]
pub fn holder(view: HolderView, viewer: &Caller, queue: &Queue) -> Option<HolderView> {
    let is_own = view.actor() == Some(&viewer.actor);
    match if is_own { Sight::All } else { sight_of_conflict(viewer, queue) } {
        Sight::All => Some(view),
        Sight::Kind => Some(HolderView { kind: view.kind, named: None }),
        Sight::Nothing => None,
    }
}

pub(crate) fn conflict(retry_after: Span, view: Option<HolderView>, viewer: &Caller, queue: &Queue) -> Refusal {
    Refusal::AlreadyClaimed(Conflict { retry_after, holder: view.and_then(|view| holder(view, viewer, queue)) })
}

/// An event as a viewer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventView {
    pub space: SpaceName,
    pub number: EventNumber,
    pub at: Time,
    pub wall: Wall,
    pub queue: Option<QueueName>,
    pub item: Option<ItemId>,
    pub kind: &'static str,
    /// Left out where it is not the viewer's to see.
    pub by: Option<Who>,
    /// Left out where it names others or carries words of theirs.
    pub what: Option<What>,
}

/// An event as this viewer may see it; none: not at all. `queue` is the queue the event names.
#[must_use]
pub fn event(event: &Event, viewer: &Caller, queue: Option<&Queue>) -> Option<EventView> {
    let sees_all = match queue {
        Some(queue) if !viewer.can_see(&queue.name) => return None,
        Some(queue) => sight_of_list(viewer, queue) == Sight::All,
        // Of the space, its workers or the cluster: for operators of the whole space, and for the worker itself.
        None => viewer.runs_space(),
    };
    let is_open = event.local_to.as_ref().is_none_or(|owner| viewer.works_for(owner));
    if !is_open && queue.is_none_or(|queue| !viewer.has_role(Role::Operator, &queue.name)) {
        return None;
    }
    let is_by_viewer = event.by.as_ref().is_none_or(|by| by.actor == viewer.actor);
    let names = event.what.names();
    let names_only_viewer = names.iter().all(|name| **name == viewer.actor);
    if queue.is_none() && !sees_all && (names.is_empty() || !names_only_viewer) {
        return None;
    }
    let shows_what = sees_all || (names_only_viewer && (is_by_viewer || !event.what.has_words()));
    Some(EventView {
        space: event.space.clone(),
        number: event.number,
        at: event.at,
        wall: event.wall,
        queue: event.queue.clone(),
        item: event.item.clone(),
        kind: event.what.kind(),
        by: event.by.clone().filter(|_| sees_all || is_by_viewer),
        what: shows_what.then(|| event.what.clone()),
    })
}

impl What {
    /// Every actor that the event names.
    fn names(&self) -> Vec<&ActorId> {
        match self {
            Self::Granted { holder, was_assigned_to, .. } => {
                [&holder.actor].into_iter().chain(was_assigned_to).collect()
            }
            Self::PickedUp { holder, .. }
            | Self::NotPickedUp { holder, .. }
            | Self::Extended { holder, .. }
            | Self::Released { holder, .. }
            | Self::Expired { holder, .. }
            | Self::TakenOver { holder, .. }
            | Self::Voided { holder, .. }
            | Self::Reserved { holder, .. }
            | Self::Joined { holder, .. }
            | Self::LeftLine { holder, .. }
            | Self::HandedOn { holder, .. }
            | Self::Completed { holder, .. }
            | Self::Failed { holder, .. } => vec![&holder.actor],
            Self::Revoked { holder, .. } | Self::Cancelled { holder, .. } => {
                holder.iter().map(|holder| &holder.actor).collect()
            }
            Self::ReservationEnded { actor } | Self::Assigned { actor } | Self::Unassigned { actor } => vec![actor],
            Self::Reordered { first } => first.iter().collect(),
            Self::WorkerRegistered { worker }
            | Self::WorkerDrained { worker }
            | Self::WorkerGone { worker }
            | Self::WorkerRemoved { worker } => vec![&worker.actor],
            Self::Created
            | Self::Updated { .. }
            | Self::Queued
            | Self::ActivityRecorded { .. }
            | Self::AwaitedInput { .. }
            | Self::Resumed { .. }
            | Self::Blocked { .. }
            | Self::CancelRequested { .. }
            | Self::Reopened
            | Self::Retried
            | Self::Purged { .. }
            | Self::Mirrored { .. }
            | Self::MirrorSkipped { .. }
            | Self::PolicyChanged { .. }
            | Self::Paused
            | Self::Unpaused
            | Self::DrainStarted
            | Self::Drained
            | Self::SpacePolicyChanged { .. }
            | Self::EpochBegun { .. }
            | Self::Activated => Vec::new(),
        }
    }

    /// Whether it carries free text, which may name anybody.
    fn has_words(&self) -> bool {
        matches!(
            self,
            Self::Revoked { .. }
                | Self::ActivityRecorded { .. }
                | Self::CancelRequested { .. }
                | Self::Cancelled { .. }
        )
    }
}
