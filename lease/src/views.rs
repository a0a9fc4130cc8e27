//! Read-only views, reduced to what the viewer may see. Each is a function of the state and the viewer, and none makes
//! decisions. Views that may examine much do so in bounded parts, so that others do not have to wait for the state.

mod claim_walk;
mod list;

pub use claim_walk::ClaimWalk;
pub use list::{ClaimStatus, Page, Query};

use crate::archive::Archive;
use crate::bounds::NEXT_COUNT;
use crate::caller::{ActorKind, Caller, Holder};
use crate::command::Next;
use crate::disclose::{self, ContentView, EventView, Sight};
use crate::event::Event;
use crate::item::Content;
use crate::names::{ActorId, ItemId, QueueName, SessionId, SpaceName};
use crate::numbers::{ItemNo, QueueNo, Revision, SpaceNo, Span, Time, Token, Wall};
use crate::policy::{Policy, SpacePolicy};
use crate::queue::{Flow, Queue};
use crate::record::Archived;
use crate::refusal::{HolderView, Refusal};
use crate::rights::{Need, Whereabouts};
use crate::space::{Counts, Space};
use crate::standing::{BlockedBy, ItemState, Standing, StateKind};
use crate::state::State;
use crate::state::items::ItemKey;
use crate::worker::{Liveness, Worker};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// How many links to other items a view checks if it is not made in parts.
const LINKS_PER_LOOK: u32 = 10_000;

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

/// The items that a caller is assigned to, holds or has reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carrying {
    pub assigned: Vec<ItemView>,
    pub leased: Vec<ItemView>,
    pub reserved: Vec<ItemView>,
}

/// A waiter in a line. Place 0 is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceView {
    pub place: u32,
    pub is_yours: bool,
    pub joined_at: Time,
    pub kind: Option<ActorKind>,
    pub waiter: Option<Holder>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStats {
    pub queue: QueueName,
    pub flow: Flow,
    pub version: u64,
    pub policy: Policy,
    pub by_state: BTreeMap<StateKind, u64>,
    pub leases: u32,
    /// Items that `next` could grant.
    pub ready: u64,
    pub oldest_ready_since: Option<Time>,
    pub items_with_line: u64,
    /// Free items whose line waits until the queue may grant.
    pub unsettled: u64,
    pub claims: ClaimSummary,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimSummary {
    pub active: u64,
    pub expired: u64,
    pub unclaimed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceStats {
    pub space: SpaceName,
    pub counts: Counts,
    pub policy: SpacePolicy,
    pub version: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    pub worker: Worker,
    pub liveness: Liveness,
    pub leases: u32,
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

    /// The event as this viewer may see it. None: the viewer may not see it at all.
    #[must_use]
    pub fn view_event(&self, archive: &dyn Archive, viewer: &Caller, event: &Event) -> Option<EventView> {
        let space = self.space_numbers.get(&event.space).copied();
        let may_name = |id: &ItemId| space.is_some_and(|space| self.may_name(archive, viewer, space, id));
        disclose::event(event, viewer, self.queue_of_event(event).as_deref(), may_name)
    }

    /// Whether the viewer may know of an item that something else refers to: it exists and the viewer may see it. An
    /// operator of the whole space may also know of items that no longer exist.
    fn may_name(&self, archive: &dyn Archive, viewer: &Caller, space: SpaceNo, id: &ItemId) -> bool {
        viewer.runs_space()
            || match self.items.find(space, id) {
                Some(key) => self.is_shown(viewer, key),
                None => archive.item(space, id).is_some_and(|archived| {
                    let queue = self.queues.find(archived.queue);
                    queue.is_some_and(|indexed| is_open_to(viewer, &indexed.queue, &archived.content))
                }),
            }
    }

    /// Whether the viewer may see the actors in the events of a queue's items.
    #[must_use]
    pub fn sees_all_of(&self, viewer: &Caller, space: &SpaceName, queue: &QueueName) -> bool {
        let no = self.space_no(space).and_then(|space| self.queue_numbers.get(&(space, queue.clone())));
        no.is_some_and(|no| disclose::sight_of_list(viewer, &self.queue(*no).queue) == Sight::All)
    }

    fn is_shown(&self, viewer: &Caller, key: ItemKey) -> bool {
        let item = self.item(key);
        is_open_to(viewer, &self.queue(item.queue).queue, &item.content)
    }

    fn show(&self, archive: &dyn Archive, viewer: &Caller, key: ItemKey) -> Option<ItemView> {
        let space = self.item(key).space;
        self.show_naming(viewer, key, |id| self.may_name(archive, viewer, space, id))
    }

    fn show_naming(&self, viewer: &Caller, key: ItemKey, may_name: impl FnMut(&ItemId) -> bool) -> Option<ItemView> {
        let item = self.item(key);
        let queue = &self.queue(item.queue).queue;
        let view = Shown { viewer, queue, id: &item.id, no: item.no, line_length: item.line_len() };
        view.of(&item.content, &item.standing, may_name)
    }

    /// The items that the viewer is assigned to, holds or has reserved in this space, at most `limit` of each.
    #[must_use]
    pub fn carrying(&self, archive: &dyn Archive, viewer: &Caller, space: &SpaceName, limit: usize) -> Carrying {
        let Some(holdings) = self.space_numbers.get(space).and_then(|space| self.holdings.get(*space, &viewer.actor))
        else {
            return Carrying::default();
        };
        // Each link may need a lookup on disk while others wait for the state, so the last of thousands are omitted.
        let links_left = Cell::new(LINKS_PER_LOOK);
        let show_one = |key: ItemKey| {
            let space = self.item(key).space;
            self.show_naming(viewer, key, |id| {
                links_left.set(links_left.get().saturating_sub(1));
                links_left.get() > 0 && self.may_name(archive, viewer, space, id)
            })
        };
        let show = |keys: &mut dyn Iterator<Item = ItemKey>| keys.filter_map(show_one).take(limit).collect::<Vec<_>>();
        let is_assigned = |key: &ItemKey| self.item(*key).standing.is_assigned_to(&viewer.actor);
        let mut assigned: Vec<_> = holdings.leases().map(|(_, _, key)| key).filter(is_assigned).collect();
        // No more of them than this can be among the first `limit`.
        assigned.extend(holdings.assigned.iter().filter(|key| self.is_shown(viewer, **key)).take(limit));
        assigned.sort_unstable();
        Carrying {
            assigned: show(&mut assigned.into_iter()),
            leased: show(&mut holdings.leases().map(|(_, _, key)| key)),
            reserved: show(
                &mut holdings
                    .own
                    .iter()
                    .map(|(_, _, key)| *key)
                    .filter(|key| matches!(self.item(*key).standing.state, ItemState::Reserved(_))),
            ),
        }
    }

    /// The waiters of an item, without its holder.
    ///
    /// # Errors
    /// `not_found`.
    pub fn line(&self, viewer: &Caller, space: &SpaceName, id: &ItemId) -> Result<Vec<PlaceView>, Refusal> {
        let space = self.space_numbers.get(space).copied().ok_or(Refusal::NotFound)?;
        let key = self.items.find(space, id).ok_or(Refusal::NotFound)?;
        if !self.is_shown(viewer, key) {
            return Err(Refusal::NotFound);
        }
        let item = self.item(key);
        let sight = disclose::sight_of_list(viewer, &self.queue(item.queue).queue);
        let places = item.line.iter().flat_map(|line| line.iter()).zip(0..).map(|((_, place), number)| {
            let is_yours = place.holder.actor == viewer.actor;
            let is_shown = is_yours || sight == Sight::All;
            PlaceView {
                place: number,
                is_yours,
                joined_at: place.joined_at,
                kind: is_shown.then_some(place.kind),
                waiter: is_shown.then(|| place.holder.clone()),
            }
        });
        Ok(places.collect())
    }

    /// The items that `next` would grant, without granting them.
    ///
    /// # Errors
    /// `not_found` or `forbidden`.
    pub fn peek(
        &self,
        archive: &dyn Archive,
        viewer: &Caller,
        space: &SpaceName,
        next: &Next,
    ) -> Result<Vec<ItemView>, Refusal> {
        Need::of_peek(&next.queue).check(viewer, |_| None)?;
        let Some(space) = self.space_numbers.get(space).copied() else { return Ok(Vec::new()) };
        let Some(queue) = self.queue_numbers.get(&(space, next.queue.clone())) else { return Ok(Vec::new()) };
        let parent_in_archive = |id: &ItemId| archive.item(space, id)?.content.parent().cloned();
        let count = next.count.min(NEXT_COUNT) as usize;
        let is_hidden = |id: &ItemId| match self.items.find(space, id) {
            Some(key) => !self.is_shown(viewer, key),
            None => archive.item(space, id).is_some_and(|_| !self.may_name(archive, viewer, space, id)),
        };
        if next.filter.tree_roots().any(is_hidden) {
            return Ok(Vec::new());
        }
        let search = self.search(viewer, *queue, next, count, &parent_in_archive);
        Ok(search.found.into_iter().filter_map(|key| self.show(archive, viewer, key)).collect())
    }

    /// The queues of a space that the viewer may see.
    #[must_use]
    pub fn queues(&self, viewer: &Caller, space: &SpaceName) -> Vec<QueueStats> {
        self.queues_after(viewer, space, None, usize::MAX)
    }

    /// The queues of a space that the viewer may see, in the order of their names, after one of them.
    #[must_use]
    pub fn queues_after(
        &self,
        viewer: &Caller,
        space: &SpaceName,
        after: Option<&QueueName>,
        limit: usize,
    ) -> Vec<QueueStats> {
        let Some(space) = self.space_numbers.get(space) else { return Vec::new() };
        let after = after.cloned().unwrap_or_else(QueueName::before_all);
        self.queue_numbers
            .range((Bound::Excluded((*space, after)), Bound::Unbounded))
            .take_while(|((of, _), _)| of == space)
            .filter(|((_, name), _)| viewer.can_see(name))
            .take(limit)
            .map(|(_, no)| self.queue_stats(*no))
            .collect()
    }

    /// One queue, if it exists and the viewer may see it.
    #[must_use]
    pub fn queue_named(&self, viewer: &Caller, space: &SpaceName, name: &QueueName) -> Option<QueueStats> {
        let space = *self.space_numbers.get(space)?;
        let no = self.queue_numbers.get(&(space, name.clone())).filter(|_| viewer.can_see(name))?;
        Some(self.queue_stats(*no))
    }

    /// The first queue of any space with this number or a higher one, for monitoring of the whole store.
    #[must_use]
    pub fn queue_from(&self, no: QueueNo) -> Option<(QueueNo, &SpaceName, QueueStats)> {
        let queue = &self.queues.from(no)?.queue;
        Some((queue.no, &self.space(queue.space).name, self.queue_stats(queue.no)))
    }

    /// How many claims wait for items of a queue, counted over the first `limit` items with a line after this one, and
    /// the last of these items if there may be more. Zero for a queue that does not exist.
    #[must_use]
    pub fn waiting_behind(&self, no: QueueNo, after: ItemNo, limit: usize) -> (u64, Option<ItemNo>) {
        let Some(queue) = self.queues.find(no) else { return (0, None) };
        let behind = (Bound::Excluded(ItemKey::position(after)), Bound::Unbounded);
        let (mut waiting, mut examined, mut last) = (0, 0, None);
        for key in queue.lined.range(behind).take(limit) {
            waiting += u64::from(self.item(*key).line_len());
            examined += 1;
            last = Some(key.no);
        }
        (waiting, last.filter(|_| examined == limit))
    }

    fn queue_stats(&self, no: QueueNo) -> QueueStats {
        let queue = self.queue(no);
        let count = |kind: StateKind| queue.counts[kind as usize];
        let oldest = queue.ready.oldest();
        let live: u64 = queue.counts.iter().sum();
        QueueStats {
            queue: queue.queue.name.clone(),
            flow: queue.queue.flow,
            version: queue.queue.version,
            policy: queue.queue.policy.clone(),
            by_state: StateKind::ALL.into_iter().map(|kind| (kind, count(kind))).collect(),
            leases: queue.leases,
            ready: queue.ready.len() as u64,
            oldest_ready_since: oldest.map(|key| self.item(key).standing.since),
            items_with_line: queue.lined.len() as u64,
            unsettled: queue.settle.len() as u64,
            claims: ClaimSummary {
                active: u64::from(queue.leases),
                expired: count(StateKind::Stale),
                unclaimed: live - u64::from(queue.leases) - count(StateKind::Stale),
            },
        }
    }

    #[must_use]
    pub fn spaces(&self) -> Vec<SpaceStats> {
        self.spaces.iter().map(SpaceStats::from).collect()
    }

    /// One space, if anything has ever happened in it.
    #[must_use]
    pub fn space_named(&self, name: &SpaceName) -> Option<SpaceStats> {
        self.space_numbers.get(name).map(|no| SpaceStats::from(self.space(*no)))
    }

    /// The registered workers: all of them for an operator of the whole space, only itself for a worker.
    #[must_use]
    pub fn workers(&self, viewer: &Caller, space: &SpaceName) -> Vec<WorkerView> {
        self.workers_after(viewer, space, None, usize::MAX)
    }

    /// Like [`State::workers`], in the order of their names, after one of them.
    #[must_use]
    pub fn workers_after(
        &self,
        viewer: &Caller,
        space: &SpaceName,
        after: Option<&Holder>,
        limit: usize,
    ) -> Vec<WorkerView> {
        let Some(space) = self.space_numbers.get(space).copied() else { return Vec::new() };
        let sees_all = viewer.runs_space();
        let before_all = || Holder::new(ActorId::before_all(), None);
        let after = (space, after.cloned().unwrap_or_else(before_all));
        self.workers
            .range((Bound::Excluded(after), Bound::Unbounded))
            .take_while(|((of, _), _)| *of == space)
            .filter(|((_, who), _)| sees_all || who.actor == viewer.actor)
            .take(limit)
            .map(|((_, who), worker)| WorkerView {
                worker: worker.clone(),
                liveness: worker.liveness(self.now()),
                leases: self.leases_of(space, who),
            })
            .collect()
    }

    fn leases_of(&self, space: SpaceNo, who: &Holder) -> u32 {
        let session: &Option<SessionId> = &who.session;
        let holdings = self.holdings.get(space, &who.actor);
        holdings.map_or(0, |holdings| u32::try_from(holdings.of_session(session).count()).unwrap_or(u32::MAX))
    }

    /// The queue that an event names, for [`disclose::event`].
    #[must_use]
    pub fn queue_of_event(&self, event: &Event) -> Option<Cow<'_, Queue>> {
        let space = *self.space_numbers.get(&event.space)?;
        let name = event.queue.clone()?;
        let Some(no) = self.queue_numbers.get(&(space, name.clone())) else {
            // The queue has been removed, so it had no policy of its own.
            return Some(Cow::Owned(Queue::new(self.queues.first_free(), space, name)));
        };
        Some(Cow::Borrowed(&self.queue(*no).queue))
    }
}

impl From<&Space> for SpaceStats {
    fn from(space: &Space) -> Self {
        Self { space: space.name.clone(), counts: space.counts, policy: space.policy.clone(), version: space.version }
    }
}

/// An item to be shown to a viewer.
struct Shown<'a> {
    viewer: &'a Caller,
    queue: &'a Queue,
    id: &'a ItemId,
    no: ItemNo,
    line_length: u32,
}

/// Whether the viewer may see an item of a queue.
fn is_open_to(viewer: &Caller, queue: &Queue, content: &Content) -> bool {
    Whereabouts { queue: &queue.name, is_open: content.mode.is_open_to(viewer) }.is_visible_to(viewer)
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
        let sight = disclose::sight_of_list(self.viewer, self.queue);
        let lease = standing.lease.as_deref();
        let is_own = lease.is_some_and(|lease| lease.holder.actor == self.viewer.actor);
        let sees_lease = is_own || sight == Sight::All;
        let seen = lease.filter(|_| sees_lease);
        let origin = standing.past.as_ref().and_then(|past| past.origin.as_ref());
        let assignee = standing.assignment.as_ref().map(|assignment| &assignment.actor);
        Some(ItemView {
            no: self.no,
            id: self.id.clone(),
            queue: self.queue.name.clone(),
            state: standing.state.kind(),
            content: disclose::content(content, self.viewer, self.queue, may_name),
            revision: standing.revision,
            attempts: standing.attempts,
            since: (lease.is_none() || sees_lease).then_some(standing.since),
            claimed: lease.is_some(),
            holder: seen.map(disclose::full_view),
            token: seen.filter(|lease| lease.holder.is(self.viewer)).map(|lease| lease.token),
            claimed_at: seen.map(|lease| lease.claimed_at),
            originally_claimed_at: origin.filter(|_| seen.is_some()).map(|(_, since)| *since),
            assignee: assignee.filter(|actor| sight == Sight::All || **actor == self.viewer.actor).cloned(),
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
