//! Deadlines: what happens by itself, and when.
//!
//! Each item has one entry in the deadlines, at a time never later than its real deadline. A renewal only moves the
//! real deadline later, so it does not change the index. Code that finds an item too early moves its entry to the right
//! time. That costs no step, so it does not matter how early the entry was: replicas agree.

use crate::caller::Holder;
use crate::line::PlaceNo;
use crate::numbers::{QueueNo, SpaceNo, Time, Wall};
use crate::state::item_key::ItemKey;
use crate::state::ordered_set::OrderedSet;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    pub(crate) items: OrderedSet<(Time, ItemKey)>,
    pub(crate) places: BTreeSet<(Time, ItemKey, PlaceNo)>,
    pub(crate) workers: BTreeSet<(Time, SpaceNo, Holder)>,
    /// Every blank queue, and some that are no longer blank.
    pub(crate) queues: BTreeSet<(Time, QueueNo)>,
    /// Items that wait for a date.
    pub(crate) calendar: BTreeSet<(Wall, ItemKey)>,
}

/// The first deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Item(ItemKey),
    Place(ItemKey, PlaceNo),
    Worker(SpaceNo, Holder),
    Queue(QueueNo),
}

impl Deadlines {
    /// The first deadline. At the same time: items before places before workers before queues.
    pub(crate) fn first(&self) -> Option<(Time, Due)> {
        let item = self.items.first().map(|(time, key)| (time, Due::Item(key)));
        let place = self.places.first().map(|(time, key, no)| (*time, Due::Place(*key, *no)));
        let worker = self.workers.first().map(|(time, space, who)| (*time, Due::Worker(*space, who.clone())));
        let queue = self.queues.first().map(|(time, no)| (*time, Due::Queue(*no)));
        [item, place, worker, queue].into_iter().flatten().min_by_key(|(time, _)| *time)
    }

    pub(crate) fn first_time(&self) -> Option<Time> {
        let item = self.items.first().map(|(time, _)| time);
        let place = self.places.first().map(|(time, _, _)| *time);
        let worker = self.workers.first().map(|(time, _, _)| *time);
        let queue = self.queues.first().map(|(time, _)| *time);
        [item, place, worker, queue].into_iter().flatten().min()
    }
}
