//! Disclosure: which callers may see which holders. Pure functions of the data, the viewer and the queue's policy.
//! Every surface that shows a holder uses them. What the viewer may not see is omitted.

use crate::caller::{Caller, Role};
use crate::event::{Event, What, Who};
use crate::item::{Content, Links};
use crate::names::{ActorId, ItemId, QueueName, SpaceName};
use crate::numbers::{EventNumber, Span, Time, Token, Wall};
use crate::policy::Disclosure;
use crate::queue::Queue;
use crate::refusal::{Conflict, HolderView, NamedHolder, Refusal};
use crate::standing::Lease;
use std::ops::Deref;
use std::sync::Arc;

/// How much a viewer may see of what others hold in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// Only counts and booleans.
    Nothing,
    /// The kind of the actor.
    Kind,
    All,
}

/// What a conflict may show to the viewer.
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

/// What a list, a peek, a line or an event may show to the viewer.
#[must_use]
pub fn sight_of_list(viewer: &Caller, queue: &Queue) -> Sight {
    match sight_of_conflict(viewer, queue) {
        Sight::All => Sight::All,
        Sight::Kind | Sight::Nothing => Sight::Nothing,
    }
}

/// Everything about a holder. Must be reduced to what the viewer may see before it is shown.
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

/// What a viewer in conflict with this holder may see of it. A viewer always sees its own holdings.
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

/// The content of an item as a viewer may see it. Links to items that are hidden from the viewer are omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentView {
    content: Arc<Content>,
    /// Omitted if disclosure shows nothing of others.
    pub created_by: Option<ActorId>,
}

impl Deref for ContentView {
    type Target = Content;

    fn deref(&self) -> &Content {
        &self.content
    }
}

/// The content of an item for a viewer. `may_name`: whether the viewer may know of an item that this one refers to.
#[must_use]
pub fn content(
    content: &Arc<Content>,
    viewer: &Caller,
    queue: &Queue,
    mut may_name: impl FnMut(&ItemId) -> bool,
) -> ContentView {
    let is_own = content.created_by == viewer.actor;
    let shows_creator = is_own || sight_of_conflict(viewer, queue) != Sight::Nothing;
    let created_by = shows_creator.then(|| content.created_by.clone());
    let Some(links) = &content.links else { return ContentView { content: Arc::clone(content), created_by } };
    let shown = Links {
        parent: links.parent.clone().filter(&mut may_name),
        target: links.target.clone().filter(&mut may_name),
        depends_on: links.depends_on.iter().filter(|id| may_name(id)).cloned().collect(),
        not_before: links.not_before,
    };
    let content = if shown == **links {
        Arc::clone(content)
    } else {
        let links = (shown != Links::default()).then(|| Box::new(shown));
        Arc::new(Content { links, ..Content::clone(content) })
    };
    ContentView { content, created_by }
}

/// An event as a viewer may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventView {
    pub space: SpaceName,
    pub number: EventNumber,
    pub at: Time,
    pub wall: Wall,
    pub queue: Option<QueueName>,
    pub item: Option<ItemId>,
    pub kind: &'static str,
    /// Omitted if the viewer may not see it.
    pub by: Option<Who>,
    /// Omitted if it names others or contains their text. A token that the viewer may not see is replaced by 0, which
    /// no lease has.
    pub what: Option<What>,
}

/// The event as this viewer may see it. None: the viewer may not see it at all. `queue` is the queue that the event
/// names. `may_name`: whether the viewer may know of an item that the event refers to.
#[must_use]
pub fn event(
    event: &Event,
    viewer: &Caller,
    queue: Option<&Queue>,
    may_name: impl FnOnce(&ItemId) -> bool,
) -> Option<EventView> {
    let sees_all = match queue {
        Some(queue) if !viewer.can_see(&queue.name) => return None,
        Some(queue) => sight_of_list(viewer, queue) == Sight::All,
        // Events of the space, its workers or the cluster are for operators of the whole space and for the worker
        // itself.
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
    let shows_what = (sees_all || (names_only_viewer && (is_by_viewer || !event.what.has_words())))
        && event.what.refers_to().is_none_or(may_name);
    // Operators need the token to find out which lease wrote to a resource. Otherwise only the holder sees it, as in
    // every view.
    let is_operator = queue.is_some_and(|queue| viewer.has_role(Role::Operator, &queue.name));
    let shows_token = is_operator || event.is_of_lease_of(&viewer.actor);
    let what = || if shows_token { event.what.clone() } else { event.what.clone().without_token() };
    Some(EventView {
        space: event.space.clone(),
        number: event.number,
        at: event.at,
        wall: event.wall,
        queue: event.queue.clone(),
        item: event.item.clone(),
        kind: event.what.kind(),
        by: event.by.clone().filter(|_| sees_all || is_by_viewer),
        what: shows_what.then(what),
    })
}

impl Event {
    /// Whether the token in the event, if there is one, belongs to a lease of this actor.
    fn is_of_lease_of(&self, actor: &ActorId) -> bool {
        match &self.what {
            // Only the holder can cause these events.
            What::AwaitedInput { .. } | What::Resumed { .. } => self.by.as_ref().is_some_and(|by| by.actor == *actor),
            what => what.names().first() == Some(&actor),
        }
    }
}

impl What {
    /// The other item that the event names, if any.
    fn refers_to(&self) -> Option<&ItemId> {
        match self {
            Self::Mirrored { of, .. } => Some(of),
            _ => None,
        }
    }

    fn without_token(mut self) -> Self {
        match &mut self {
            Self::Granted { token, .. }
            | Self::PickedUp { token, .. }
            | Self::NotPickedUp { token, .. }
            | Self::Extended { token, .. }
            | Self::Released { token, .. }
            | Self::Expired { token, .. }
            | Self::TakenOver { token, .. }
            | Self::Voided { token, .. }
            | Self::Reserved { token, .. }
            | Self::AwaitedInput { token }
            | Self::Resumed { token }
            | Self::HandedOn { token, .. }
            | Self::Completed { token, .. }
            | Self::Failed { token, .. }
            | Self::Revoked { token: Some(token), .. }
            | Self::Cancelled { token: Some(token), .. } => *token = Token::default(),
            Self::Revoked { token: None, .. }
            | Self::Cancelled { token: None, .. }
            | Self::Created
            | Self::Updated { .. }
            | Self::Queued
            | Self::ReservationEnded { .. }
            | Self::Joined { .. }
            | Self::LeftLine { .. }
            | Self::Reordered { .. }
            | Self::Assigned { .. }
            | Self::Unassigned { .. }
            | Self::ActivityRecorded { .. }
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
            | Self::WorkerRegistered { .. }
            | Self::WorkerDrained { .. }
            | Self::WorkerGone { .. }
            | Self::WorkerRemoved { .. }
            | Self::EpochBegun { .. }
            | Self::Activated => {}
        }
        self
    }

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

    /// Whether the event contains free text, which may name anyone.
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
