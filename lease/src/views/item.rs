//! Single items.

use super::is_open_to;
use crate::archive::Archive;
use crate::caller::Caller;
use crate::disclose::{self, ContentView, Sight};
use crate::item::Content;
use crate::names::{ActorId, ItemId, QueueName, SpaceName};
use crate::numbers::{ItemNo, Revision, Span, Time, Token, Wall};
use crate::queue::Queue;
use crate::record::Archived;
use crate::refusal::{HolderView, Refusal};
use crate::standing::{BlockedBy, ItemState, Lease, Standing, StateKind};
use crate::state::State;
use crate::state::item_key::ItemKey;
use std::sync::Arc;

/// An item as a viewer may see it. What the viewer may not see is omitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemView {
    /// The number under which the store keeps the parts of its body and its activities.
    pub no: ItemNo,
    pub id: ItemId,
    pub queue: QueueName,
    pub state: StateKind,
    pub content: ContentView,
    pub revision: Revision,
    pub attempts: u32,
    /// When the item entered its state. Omitted for a claimed item whose holder the viewer may not see, because it
    /// shows when the item was claimed.
    pub since: Option<Time>,
    pub claimed: bool,
    pub holder: Option<HolderView>,
    /// The token of the lease, if it is the viewer's own.
    pub token: Option<Token>,
    pub claimed_at: Option<Time>,
    pub originally_claimed_at: Option<Time>,
    pub assignee: Option<ActorId>,
    pub line_length: u32,
    pub cancel_requested: bool,
    pub waits_for: Option<WaitsFor>,
    pub blocked_by: Option<BlockedBy>,
    pub reserved_until: Option<Time>,
}

/// What a pending item waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitsFor {
    pub dependencies: u32,
    pub not_before: Option<Wall>,
    pub until: Option<Time>,
}

/// What a reader gets for an item that somebody holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfClaimed {
    /// The item. Reading is never blocked.
    #[default]
    Return,
    /// The refusal `already_claimed`. A waiting reader asks again with this setting after each event of the item.
    Fail,
}

impl State {
    /// # Errors
    /// `not_found`, also for an item that the viewer may not see; `already_claimed` with [`IfClaimed::Fail`].
    pub fn view_item(
        &self,
        archive: &dyn Archive,
        viewer: &Caller,
        space: &SpaceName,
        id: &ItemId,
        if_claimed: IfClaimed,
    ) -> Result<ItemView, Refusal> {
        let space = self.space_numbers.get(space).copied().ok_or(Refusal::NotFound)?;
        let Some(key) = self.items.find(space, id) else {
            let archived = archive.item(space, id).ok_or(Refusal::NotFound)?;
            return self.view_archived(archive, viewer, id, &archived).ok_or(Refusal::NotFound);
        };
        let view = self.show(archive, viewer, key).ok_or(Refusal::NotFound)?;
        if view.claimed && if_claimed == IfClaimed::Fail {
            let item = self.item(key);
            let lease = item.standing.lease.as_ref();
            let retry_after = lease.map_or(Span(1), |lease| self.now().until(lease.expires_at).max(Span(1)));
            let holder = lease.map(|lease| disclose::full_view(lease));
            return Err(disclose::conflict(retry_after, holder, viewer, &self.queue(item.queue).queue));
        }
        Ok(view)
    }

    /// An archived item, as the viewer may see it. None: the viewer may not see it.
    #[must_use]
    pub fn view_archived(
        &self,
        archive: &dyn Archive,
        viewer: &Caller,
        id: &ItemId,
        archived: &Archived,
    ) -> Option<ItemView> {
        let queue = &self.queues.find(archived.queue)?.queue;
        let may_name = |id: &ItemId| self.may_name(archive, viewer, queue.space, id);
        let shown = Shown { viewer, queue, id, no: archived.no, line_length: 0 };
        shown.of(&archived.content, &archived.standing, may_name)
    }

    /// The content of an item in a grant, as its holder may see it. None: this state does not have the item's queue
    /// yet.
    #[must_use]
    pub fn view_content(
        &self,
        archive: &dyn Archive,
        viewer: &Caller,
        space: &SpaceName,
        queue: &QueueName,
        content: &Arc<Content>,
    ) -> Option<ContentView> {
        let space = *self.space_numbers.get(space)?;
        let queue = &self.queue(*self.queue_numbers.get(&(space, queue.clone()))?).queue;
        Some(disclose::content(content, viewer, queue, |id| self.may_name(archive, viewer, space, id)))
    }

    pub(super) fn show(&self, archive: &dyn Archive, viewer: &Caller, key: ItemKey) -> Option<ItemView> {
        let space = self.item(key).space;
        self.show_naming(viewer, key, |id| self.may_name(archive, viewer, space, id))
    }

    pub(super) fn show_naming(
        &self,
        viewer: &Caller,
        key: ItemKey,
        may_name: impl FnMut(&ItemId) -> bool,
    ) -> Option<ItemView> {
        let item = self.item(key);
        let queue = &self.queue(item.queue).queue;
        let view = Shown { viewer, queue, id: &item.id, no: item.no, line_length: item.line_len() };
        view.of(&item.content, &item.standing, may_name)
    }
}

/// The lease of an item, if the viewer may see its holder in a list.
pub(super) fn seen_lease<'s>(viewer: &Caller, queue: &Queue, standing: &'s Standing) -> Option<&'s Lease> {
    let is_seen = |lease: &&Lease| lease.holder.actor == viewer.actor || sees_all(viewer, queue);
    standing.lease.as_deref().filter(is_seen)
}

/// The assignee of an item, if the viewer may see it in a list.
pub(super) fn seen_assignee<'s>(viewer: &Caller, queue: &Queue, standing: &'s Standing) -> Option<&'s ActorId> {
    let assignee = standing.assignment.as_ref().map(|assignment| &assignment.actor);
    assignee.filter(|actor| **actor == viewer.actor || sees_all(viewer, queue))
}

fn sees_all(viewer: &Caller, queue: &Queue) -> bool {
    disclose::sight_of_list(viewer, queue) == Sight::All
}

/// An item to be shown to a viewer.
struct Shown<'a> {
    viewer: &'a Caller,
    queue: &'a Queue,
    id: &'a ItemId,
    no: ItemNo,
    line_length: u32,
}

impl Shown<'_> {
    fn of(
        &self,
        content: &Arc<Content>,
        standing: &Standing,
        may_name: impl FnMut(&ItemId) -> bool,
    ) -> Option<ItemView> {
        if !is_open_to(self.viewer, self.queue, content) {
            return None;
        }
        let lease = standing.lease.as_deref();
        let seen = seen_lease(self.viewer, self.queue, standing);
        let origin = standing.past.as_ref().and_then(|past| past.origin.as_ref());
        Some(ItemView {
            no: self.no,
            id: self.id.clone(),
            queue: self.queue.name.clone(),
            state: standing.state.kind(),
            content: disclose::content(content, self.viewer, self.queue, may_name),
            revision: standing.revision,
            attempts: standing.attempts,
            since: (lease.is_none() || seen.is_some()).then_some(standing.since),
            claimed: lease.is_some(),
            holder: seen.map(disclose::full_view),
            token: seen.filter(|lease| lease.holder.is(self.viewer)).map(|lease| lease.token),
            claimed_at: seen.map(|lease| lease.claimed_at),
            originally_claimed_at: origin.filter(|_| seen.is_some()).map(|(_, since)| *since),
            assignee: seen_assignee(self.viewer, self.queue, standing).cloned(),
            line_length: self.line_length,
            cancel_requested: standing.cancel.is_some(),
            waits_for: match &standing.state {
                ItemState::Pending(waits) => Some(WaitsFor {
                    dependencies: u32::try_from(waits.dependencies.len()).unwrap_or(u32::MAX),
                    not_before: waits.not_before,
                    until: waits.until,
                }),
                _ => None,
            },
            blocked_by: match &standing.state {
                ItemState::Blocked(by) => Some(*by),
                _ => None,
            },
            reserved_until: match &standing.state {
                ItemState::Reserved(reservation) => Some(reservation.until),
                _ => None,
            },
        })
    }
}
