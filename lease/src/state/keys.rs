//! The position of an item in every index, which is a function of the item alone. Each change of an item goes through
//! [`State::change`], which moves the item to its new positions.

use crate::item::Content;
use crate::names::ActorId;
use crate::numbers::{ItemNo, QueueNo, Time, Wall};
use crate::standing::{ItemState, StateKind};
use crate::state::State;
use crate::state::holdings::HeldLease;
use crate::state::item_key::ItemKey;
use crate::state::items::Item;
use std::cmp::Reverse;
use std::num::NonZeroU64;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) state: StateKind,
    pub(crate) is_ready: bool,
    pub(crate) own: Option<ActorId>,
    pub(crate) lease: Option<HeldLease>,
    pub(crate) assigned: Option<ActorId>,
    pub(crate) has_line: bool,
    pub(crate) settle: Option<NonZeroU64>,
    pub(crate) calendar: Option<Wall>,
    pub(crate) waits_for: Vec<ItemNo>,
}

impl Keys {
    pub(crate) fn of(item: &Item) -> Self {
        let standing = &item.standing;
        let is_free = item.is_free();
        let delayed_for = standing.delay().map(|(actor, _)| actor);
        let assigned = standing.assignment.as_ref().map(|assignment| &assignment.actor);
        let holder = standing.lease.as_ref().map(|lease| &lease.holder.actor);
        let own = match &standing.state {
            ItemState::Reserved(reservation) => Some(&reservation.actor),
            _ if is_free => delayed_for.or(assigned),
            _ => None,
        };
        Self {
            state: standing.state.kind(),
            is_ready: is_free && delayed_for.is_none(),
            own: own.cloned(),
            lease: standing.lease.as_ref().map(|lease| HeldLease {
                holder: lease.holder.clone(),
                token: lease.token,
                is_taken: lease.pickup.is_none(),
            }),
            assigned: assigned.filter(|actor| holder != Some(*actor)).cloned(),
            has_line: item.has_line(),
            settle: standing.settle,
            calendar: match &standing.state {
                ItemState::Pending(waits) => waits.not_before,
                _ => None,
            },
            waits_for: match &standing.state {
                ItemState::Pending(waits) => waits.dependencies.clone(),
                _ => Vec::new(),
            },
        }
    }
}

impl State {
    /// Changes an item's standing and keeps every index up to date.
    pub(crate) fn change<R>(&mut self, key: ItemKey, change: impl FnOnce(&mut Item) -> R) -> R {
        let item = self.items.get_mut(key);
        let before = Keys::of(item);
        let result = change(item);
        let after = Keys::of(item);
        self.move_keys(key, &before, &after);
        self.note_opening(key, &before, &after);
        self.keep_due(key);
        result
    }

    /// Changes an item's content, which may change its class and priority.
    pub(crate) fn change_content(&mut self, key: ItemKey, change: impl FnOnce(&mut Content)) {
        self.unindex(key);
        let parent = self.items.get(key).content.parent().cloned();
        change(Arc::make_mut(&mut self.items.get_mut(key).content));
        self.index(key);
        if self.items.get(key).content.parent() != parent.as_ref() {
            self.note_family(key);
        }
    }

    /// Adds a new or loaded item to every index.
    pub(crate) fn index(&mut self, key: ItemKey) {
        let item = self.items.get_mut(key);
        let content = Arc::make_mut(&mut item.content);
        content.label_sets = self.label_sets.take(&content.label_sets);
        let bytes = content.body_bytes();
        content.created_by = self.makers.change(item.space, &content.created_by, |made| {
            made.items += 1;
            made.body_bytes += bytes;
        });
        let (queue, space, after) = (item.queue, item.space, Keys::of(item));
        if let Some(parent) = item.content.parent() {
            self.children.entry((space, parent.clone())).or_default().insert(key);
        }
        let content = Arc::clone(&item.content);
        let live_queue = self.queues.get_mut(queue);
        let class = live_queue.ready.join(&content);
        live_queue.counts[after.state as usize] += 1;
        live_queue.items.insert(key);
        self.items.get_mut(key).class = class;
        let before = Keys::none(after.state);
        self.move_keys(key, &before, &after);
        self.note_opening(key, &before, &after);
        self.keep_due(key);
    }

    /// Removes an item from every index, before it is removed or replaced.
    pub(crate) fn unindex(&mut self, key: ItemKey) {
        let item = self.items.get(key);
        let (queue, space, before) = (item.queue, item.space, Keys::of(item));
        let content = Arc::clone(&item.content);
        self.label_sets.give_back(&content.label_sets);
        self.makers.change(space, &content.created_by, |made| {
            made.items -= 1;
            made.body_bytes -= content.body_bytes();
        });
        if let Some(parent) = content.parent() {
            let family = (space, parent.clone());
            if let Some(children) = self.children.get_mut(&family) {
                children.remove(&key);
                if children.is_empty() {
                    self.children.remove(&family);
                }
            }
        }
        self.move_keys(key, &before, &Keys::none(before.state));
        let class = self.items.get(key).class;
        let live_queue = self.queues.get_mut(queue);
        live_queue.counts[before.state as usize] -= 1;
        live_queue.items.remove(key);
        live_queue.ready.leave(class, &content);
        let item = self.items.get_mut(key);
        let indexed = std::mem::replace(&mut item.indexed_due, Time::NEVER);
        self.deadlines.items.remove((indexed, key));
    }

    /// Makes sure that the item's entry in the deadlines is not too late.
    pub(crate) fn keep_due(&mut self, key: ItemKey) {
        let item = self.items.get_mut(key);
        let due = item.standing.due_at();
        if due < item.indexed_due {
            let indexed = std::mem::replace(&mut item.indexed_due, due);
            if indexed != Time::NEVER {
                self.deadlines.items.remove((indexed, key));
            }
            self.deadlines.items.insert((due, key));
        }
    }

    /// Called with the item at the head of the deadlines. Moves its entry to its real deadline, and returns whether it
    /// was already there.
    pub(crate) fn is_really_due(&mut self, key: ItemKey) -> bool {
        let item = self.items.get_mut(key);
        let due = item.standing.due_at();
        let indexed = std::mem::replace(&mut item.indexed_due, due);
        if due == indexed {
            return true;
        }
        self.deadlines.items.remove((indexed, key));
        if due != Time::NEVER {
            self.deadlines.items.insert((due, key));
        }
        false
    }

    fn move_keys(&mut self, key: ItemKey, before: &Keys, after: &Keys) {
        let item = self.items.get(key);
        let (space, queue_no, class, priority) = (item.space, item.queue, item.class, item.content.priority);
        let queue = self.queues.get_mut(queue_no);
        let max_leases = i64::from(queue.queue.policy.max_leases);
        let mut was_capped = false;
        if before.state != after.state {
            queue.counts[before.state as usize] -= 1;
            queue.counts[after.state as usize] += 1;
        }
        match (before.is_ready, after.is_ready) {
            (false, true) => queue.ready.insert(class, priority, key),
            (true, false) => queue.ready.remove(class, priority, key),
            _ => {}
        }
        if before.has_line != after.has_line {
            if after.has_line {
                queue.lined.insert(key);
            } else {
                queue.lined.remove(&key);
            }
        }
        if before.settle != after.settle {
            if let Some(seq) = before.settle {
                queue.settle.remove(&seq);
            }
            if let Some(seq) = after.settle {
                queue.settle.insert(seq, key);
            }
        }
        let leases_before = queue.leases;
        queue.leases -= u32::from(before.lease.is_some());
        queue.leases += u32::from(after.lease.is_some());
        if leases_before != queue.leases || before.settle != after.settle || before.has_line != after.has_line {
            self.note_work(queue_no);
        }
        if before.calendar != after.calendar {
            if let Some(date) = before.calendar {
                self.deadlines.calendar.remove(&(date, key));
            }
            if let Some(date) = after.calendar {
                self.deadlines.calendar.insert((date, key));
            }
        }
        if before.waits_for != after.waits_for {
            for dependency in &before.waits_for {
                if let Some(dependents) = self.dependents.get_mut(dependency) {
                    dependents.remove(&key);
                    if dependents.is_empty() {
                        self.dependents.remove(dependency);
                    }
                }
            }
            for dependency in &after.waits_for {
                self.dependents.entry(*dependency).or_default().insert(key);
            }
        }
        let position = (queue_no, Reverse(priority), key);
        if before.lease != after.lease || before.assigned != after.assigned || before.own != after.own {
            // Usually only one actor is involved, so its holdings are looked up once for everything that it loses and
            // gains.
            let actors = [before.actors(), after.actors()];
            let actors = actors.as_flattened();
            for (index, actor) in actors.iter().enumerate() {
                let Some(actor) = actor.filter(|_| !actors[..index].contains(actor)) else { continue };
                let (had, has) = (before.lease_of(actor), after.lease_of(actor));
                let of = |whose: &Option<ActorId>| whose.as_ref() == Some(actor);
                self.holdings.change(space, actor, |holdings| {
                    if had != has {
                        if let Some(lease) = had {
                            was_capped |=
                                has.is_none() && max_leases > 0 && holdings.leases_in(queue_no).all() >= max_leases;
                            holdings.remove_lease(lease, queue_no);
                        }
                        if let Some(lease) = has {
                            holdings.add_lease(lease, key, queue_no);
                        }
                    }
                    match (of(&before.assigned), of(&after.assigned)) {
                        (true, false) => _ = holdings.assigned.remove(&key),
                        (false, true) => _ = holdings.assigned.insert(key),
                        _ => {}
                    }
                    match (of(&before.own), of(&after.own)) {
                        (true, false) => _ = holdings.own.remove(&position),
                        (false, true) => _ = holdings.own.insert(position),
                        _ => {}
                    }
                });
            }
        }
        if was_capped {
            self.openings.note_capped(queue_no);
        }
    }

    /// Call this when it may have changed whether a queue has lines to settle or to reject.
    pub(crate) fn note_work(&mut self, queue: QueueNo) {
        if self.queues.get(queue).has_work(self.meta.activated) {
            self.busy_queues.insert(queue);
        } else {
            self.busy_queues.remove(&queue);
        }
    }
}

impl Keys {
    fn lease_of(&self, actor: &ActorId) -> Option<&HeldLease> {
        self.lease.as_ref().filter(|lease| lease.holder.actor == *actor)
    }

    /// The actors whose holdings contain the item.
    fn actors(&self) -> [Option<&ActorId>; 3] {
        [self.lease.as_ref().map(|lease| &lease.holder.actor), self.assigned.as_ref(), self.own.as_ref()]
    }

    /// The keys of an item that is in no index.
    fn none(state: StateKind) -> Self {
        Self {
            state,
            is_ready: false,
            own: None,
            lease: None,
            assigned: None,
            has_line: false,
            settle: None,
            calendar: None,
            waits_for: Vec::new(),
        }
    }
}
