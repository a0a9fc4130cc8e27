//! The queues by number. A removed queue leaves a gap, and a new queue takes the lowest free number, so that numbers
//! depend only on the records.

use crate::bounds::QUEUE_KEPT_FOR;
use crate::numbers::{QueueNo, Time};
use crate::state::{LiveQueue, State};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub(crate) struct Queues {
    slots: Vec<Option<LiveQueue>>,
    /// The free numbers.
    free: BTreeSet<QueueNo>,
}

fn number(slot: usize) -> QueueNo {
    QueueNo(u32::try_from(slot).expect("fewer than four billion queues"))
}

impl Queues {
    pub(crate) fn find(&self, no: QueueNo) -> Option<&LiveQueue> {
        self.slots.get(no.0 as usize)?.as_ref()
    }

    pub(crate) fn get(&self, no: QueueNo) -> &LiveQueue {
        self.slots[no.0 as usize].as_ref().expect("the number of a queue")
    }

    pub(crate) fn get_mut(&mut self, no: QueueNo) -> &mut LiveQueue {
        self.slots[no.0 as usize].as_mut().expect("the number of a queue")
    }

    /// All queues, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LiveQueue> {
        self.slots.iter().flatten()
    }

    /// The first queue with this number or a higher one.
    pub(crate) fn from(&self, no: QueueNo) -> Option<&LiveQueue> {
        self.slots.get(no.0 as usize..)?.iter().flatten().next()
    }

    pub(crate) fn numbers(&self) -> Vec<QueueNo> {
        self.iter().map(|queue| queue.queue.no).collect()
    }

    /// The number of the next new queue.
    pub(crate) fn first_free(&self) -> QueueNo {
        self.free.first().copied().unwrap_or_else(|| number(self.slots.len()))
    }

    /// Adds a queue under its number, which must be free.
    pub(crate) fn insert(&mut self, queue: LiveQueue) {
        let slot = queue.queue.no.0 as usize;
        while self.slots.len() <= slot {
            self.free.insert(number(self.slots.len()));
            self.slots.push(None);
        }
        self.free.remove(&queue.queue.no);
        self.slots[slot] = Some(queue);
    }

    pub(crate) fn remove(&mut self, no: QueueNo) -> LiveQueue {
        let queue = self.slots[no.0 as usize].take().expect("the number of a queue");
        self.free.insert(no);
        queue
    }
}

impl LiveQueue {
    /// Whether the queue is empty and has no settings of its own, so that a new queue with its name would be the same.
    pub(crate) fn is_blank(&self) -> bool {
        self.is_empty() && self.queue.version == 0 && self.queue.flow.is_open()
    }

    /// Whether the queue has no items, live or terminal.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.first().is_none() && self.usage.as_ref().is_some_and(|usage| usage.terminal == 0)
    }

    /// When the queue will be removed if it does not change.
    fn goes_at(&self) -> Option<Time> {
        let usage = self.usage.as_ref().filter(|_| self.is_blank())?;
        Some(usage.used_at.after(QUEUE_KEPT_FOR))
    }
}

impl State {
    /// Adds a queue to the deadlines if it is blank. A queue that is no longer blank stays there until its time comes,
    /// when [`State::is_queue_due`] checks it.
    pub(crate) fn note_blank(&mut self, no: QueueNo) {
        let goes_at = self.queue(no).goes_at();
        if let Some(time) = goes_at {
            self.deadlines.queues.insert((time, no));
        }
    }

    /// Called with the queue at the head of the deadlines. Removes it from the deadlines and returns whether the queue
    /// is to be removed now.
    pub(crate) fn is_queue_due(&mut self, time: Time, no: QueueNo) -> bool {
        self.deadlines.queues.remove(&(time, no));
        self.queues.find(no).and_then(LiveQueue::goes_at) == Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::QueueName;
    use crate::numbers::SpaceNo;
    use crate::queue::Queue;

    fn queue(no: u32) -> LiveQueue {
        let name = QueueName::new(&no.to_string()).unwrap();
        LiveQueue::new(Queue::new(QueueNo(no), SpaceNo(0), name), None)
    }

    #[test]
    fn new_queues_take_the_lowest_free_number_also_after_loading() {
        let mut queues = Queues::default();
        for no in 0..5 {
            assert_eq!(queues.first_free(), QueueNo(no));
            queues.insert(queue(no));
        }
        for no in [3, 1, 4] {
            queues.remove(QueueNo(no));
        }
        let mut loaded = Queues::default();
        queues.numbers().into_iter().for_each(|no| loaded.insert(queue(no.0)));
        for expected in [1, 3, 4, 5] {
            for queues in [&mut queues, &mut loaded] {
                assert_eq!(queues.first_free(), QueueNo(expected));
                queues.insert(queue(expected));
            }
        }
        assert_eq!(queues.numbers(), loaded.numbers());
    }
}
