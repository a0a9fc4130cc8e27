//! What a step gives `next` to hand out: noted while the indexes change, told when the step is over. In no record and
//! no hash, and empty between steps.

use crate::names::{ItemId, QueueName, SpaceName};
use crate::numbers::{QueueNo, SpaceNo};
use crate::state::State;
use crate::state::items::{Item, ItemKey};
use crate::state::keys::Keys;
use std::collections::BTreeSet;

/// Descendants of one item that a step looks at. If there are more, every caller in the space is told to look.
const DESCENDANTS: usize = 1_000;

/// A queue in which `next` may find something that was not there, or not for everyone, before this step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub space: SpaceName,
    pub queue: QueueName,
    /// How many callers may find something: one for each item, or for each lease that made room for another.
    pub callers: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Openings {
    /// Items that became free, and items whose lease ended: that makes room for another.
    items: Vec<(QueueNo, ItemKey)>,
    /// Items whose descendants may be handed out to more callers than before: a lease on them has ended, or they have
    /// another parent.
    families: Vec<(SpaceNo, ItemId)>,
    /// Queues with another flow or policy.
    queues: BTreeSet<QueueNo>,
    /// Queues in which an actor gave a lease back who had as many as it may.
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

    /// Forgets the last note, if it was about this item.
    pub(crate) fn forget(&mut self, key: ItemKey) {
        self.items.pop_if(|(_, last)| *last == key);
    }
}

impl State {
    /// An item stands where it may be handed out, or makes room for another one.
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

    /// A descendant is handed out only while nobody else holds one of its ancestors.
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

    /// Which queues have something for whom, in the order of their numbers.
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
        // An item that ended and was reopened in this step has one number and two places.
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
        // The room is used again.
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

    /// How many callers these items of a queue are for.
    fn callers_for(&self, no: QueueNo, items: &[(QueueNo, ItemKey)], was_capped: bool) -> u32 {
        let queue = self.queue(no);
        let is_free = |key: ItemKey| self.items.get_live(key).is_some_and(Item::is_free_for_someone);
        let free = items.iter().filter(|(_, key)| is_free(*key)).count();
        // The others made room, which matters where there was too little of it.
        let was_full =
            queue.queue.policy.concurrency > 0 && queue.room_behind(queue.settle.len()) <= items.len() as i64;
        let callers = if was_full || was_capped { items.len() } else { free };
        u32::try_from(callers).unwrap_or(u32::MAX)
    }

    /// How many leases `next` may grant in a queue now.
    fn room_for_next(&self, no: QueueNo) -> u32 {
        let queue = self.queue(no);
        if !self.meta.activated || !queue.queue.flow.is_open() {
            return 0;
        }
        u32::try_from(queue.room_behind(queue.settle.len()).max(0)).unwrap_or(u32::MAX)
    }

    /// Adds the descendants that may be handed out; false when they are too many to look at. Those behind a terminal
    /// parent are not found: the callers who wait for one ask again when their wait is over.
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
    /// Whether `next` may hand it out: to anyone, or to the one it is kept for.
    pub(crate) fn is_free_for_someone(&self) -> bool {
        self.is_free() || matches!(self.standing.state, crate::standing::ItemState::Reserved(_))
    }
}
