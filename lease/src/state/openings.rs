//! What a step makes available to `next`: noted while the indexes change and reported at the end of the step. Not in
//! any record or hash, and empty between steps.

use crate::names::{ItemId, QueueName, SpaceName};
use crate::numbers::{QueueNo, SpaceNo};
use crate::state::State;
use crate::state::item_key::ItemKey;
use crate::state::items::Item;
use crate::state::keys::Keys;
use std::collections::BTreeSet;

/// The most descendants of one item that a step examines. If there are more, every caller in the space is woken.
const DESCENDANTS: usize = 1_000;

/// A queue in which `next` may find something that was not available, or not to everyone, before this step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub space: SpaceName,
    pub queue: QueueName,
    /// How many callers may find something: one for each item and for each lease that made room for another.
    pub callers: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Openings {
    /// Items that became free, and items whose lease ended, which makes room for another lease.
    items: Vec<(QueueNo, ItemKey)>,
    /// Items whose descendants may be granted to more callers than before, because a lease on them has ended or their
    /// parent has changed.
    families: Vec<(SpaceNo, ItemId)>,
    /// Queues whose flow or policy changed.
    queues: BTreeSet<QueueNo>,
    /// Queues in which an actor at its limit of leases released one.
    capped: BTreeSet<QueueNo>,
}

impl Openings {
    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.families.is_empty() && self.queues.is_empty() && self.capped.is_empty()
    }

    pub(crate) fn note_item(&mut self, queue: QueueNo, key: ItemKey) {
        self.items.push((queue, key));
    }

    pub(crate) fn note_queue(&mut self, queue: QueueNo) {
        self.queues.insert(queue);
    }

    pub(crate) fn note_capped(&mut self, queue: QueueNo) {
        self.capped.insert(queue);
    }

    /// Removes the last note if it is about this item.
    pub(crate) fn forget(&mut self, key: ItemKey) {
        self.items.pop_if(|(_, last)| *last == key);
    }
}

impl State {
    /// Notes an item that became available or that makes room for another.
    pub(crate) fn note_opening(&mut self, key: ItemKey, before: &Keys, after: &Keys) {
        let is_free = !before.is_ready && (after.is_ready || after.own.is_some() && after.own != before.own);
        let has_ended = before.lease.is_some() && after.lease.is_none();
        if is_free || has_ended {
            self.openings.note_item(self.items.get(key).queue, key);
        }
        if has_ended {
            self.note_family(key);
        }
    }

    /// Notes an item whose descendants may have become available, because an item is granted only while nobody else
    /// holds one of its ancestors.
    pub(crate) fn note_family(&mut self, key: ItemKey) {
        if self.children.is_empty() {
            return;
        }
        let item = self.items.get(key);
        let family = (item.space, item.id.clone());
        if self.children.contains_key(&family) {
            self.openings.families.push(family);
        }
    }

    /// The queues that have something for waiting callers, in the order of their numbers.
    pub(crate) fn take_openings(&mut self) -> Vec<Opening> {
        if self.openings.is_empty() {
            return Vec::new();
        }
        let mut noted = std::mem::take(&mut self.openings);
        let mut everywhere = BTreeSet::new();
        for family in noted.families.drain(..) {
            if !self.add_descendants(&family, &mut noted.items) {
                everywhere.insert(family.0);
            }
        }
        if !everywhere.is_empty() {
            let in_spaces = self.queue_numbers.iter().filter(|((space, _), _)| everywhere.contains(space));
            noted.queues.extend(in_spaces.map(|(_, queue)| *queue));
        }
        noted.items.sort_unstable();
        // An item that ended and was reopened in this step has one number and two slots.
        noted.items.dedup_by(|other, kept| {
            let is_same = other == kept;
            if is_same && !self.items.is_live(kept.1) {
                *kept = *other;
            }
            is_same
        });
        let mut openings = Vec::new();
        for items in noted.items.chunk_by(|(one, _), (next, _)| one == next) {
            let queue = items[0].0;
            if !noted.queues.contains(&queue) {
                openings.push((queue, self.callers_for(queue, items, noted.capped.contains(&queue))));
            }
        }
        if !noted.queues.is_empty() {
            openings.extend(noted.queues.iter().map(|queue| (*queue, u32::MAX)));
            openings.sort_unstable();
        }
        // The allocation is reused.
        noted.items.clear();
        noted.queues.clear();
        noted.capped.clear();
        self.openings = noted;
        let told = openings.into_iter().filter_map(|(queue, callers)| self.opening(queue, callers));
        told.collect()
    }

    fn opening(&self, no: QueueNo, callers: u32) -> Option<Opening> {
        let callers = callers.min(self.room_for_next(no));
        let queue = &self.queue(no).queue;
        let of = || Opening { space: self.space(queue.space).name.clone(), queue: queue.name.clone(), callers };
        (callers > 0).then(of)
    }

    /// How many callers these items of a queue can serve.
    fn callers_for(&self, no: QueueNo, items: &[(QueueNo, ItemKey)], was_capped: bool) -> u32 {
        let queue = self.queue(no);
        let is_free = |key: ItemKey| self.items.get_live(key).is_some_and(Item::is_free_for_someone);
        let free = items.iter().filter(|(_, key)| is_free(*key)).count();
        // The other items made room, which matters only if there was too little of it.
        let was_full =
            queue.queue.policy.concurrency > 0 && queue.room_behind(queue.settle.len()) <= items.len() as i64;
        let callers = if was_full || was_capped { items.len() } else { free };
        u32::try_from(callers).unwrap_or(u32::MAX)
    }

    /// How many leases `next` may now grant in a queue.
    fn room_for_next(&self, no: QueueNo) -> u32 {
        let queue = self.queue(no);
        if !self.meta.activated || !queue.queue.flow.is_open() {
            return 0;
        }
        u32::try_from(queue.room_behind(queue.settle.len()).max(0)).unwrap_or(u32::MAX)
    }

    /// Adds the descendants that may be granted. Returns false if there are too many to examine. Descendants under a
    /// terminal parent are not found: callers that wait for one ask again when their wait is over.
    fn add_descendants(&self, family: &(SpaceNo, ItemId), items: &mut Vec<(QueueNo, ItemKey)>) -> bool {
        let mut families = vec![family.clone()];
        let mut seen = 0;
        while let Some(family) = families.pop() {
            for key in self.children.get(&family).into_iter().flatten() {
                seen += 1;
                if seen > DESCENDANTS {
                    return false;
                }
                let item = self.items.get(*key);
                if item.is_free_for_someone() {
                    items.push((item.queue, *key));
                }
                families.push((item.space, item.id.clone()));
            }
        }
        true
    }
}

impl Item {
    /// Whether `next` may grant the item to anyone, or to the actor for which it is kept.
    pub(crate) fn is_free_for_someone(&self) -> bool {
        self.is_free() || matches!(self.standing.state, crate::standing::ItemState::Reserved(_))
    }
}
