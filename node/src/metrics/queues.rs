//! How the queues stand: over all of them, and one by one for the first by name.
//!
//! Callers name queues, so only so many get a series of their own; the others are summed. The state is looked at in
//! pieces: apply never waits for a scrape longer than [`HOLD`] and what one queue takes.

use lease::State;
use lease::names::{QueueName, SpaceName};
use lease::numbers::{ItemNo, QueueNo, Time};
use lease::standing::StateKind;
use lease::views::QueueStats;
use raft_store::state::StateStore;
use raft_store::state::disk::StateDisk;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Queues with series of their own.
pub(super) const NAMED: usize = 100;
/// How long the state is held at a time.
const HOLD: Duration = Duration::from_millis(1);
/// Items with a line that are looked at in one step.
const LINES_PER_STEP: usize = 500;

/// What one queue, or several, count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Depth {
    pub(super) by_state: BTreeMap<StateKind, u64>,
    pub(super) leases: u64,
    pub(super) ready: u64,
    pub(super) oldest_ready_since: Option<Time>,
    pub(super) lines: u64,
    pub(super) waiting: u64,
}

impl From<&QueueStats> for Depth {
    fn from(stats: &QueueStats) -> Self {
        Self {
            by_state: stats.by_state.clone(),
            leases: u64::from(stats.leases),
            ready: stats.ready,
            oldest_ready_since: stats.oldest_ready_since,
            lines: stats.items_with_line,
            waiting: 0,
        }
    }
}

impl Depth {
    fn add(&mut self, other: &Self) {
        for (state, count) in &other.by_state {
            *self.by_state.entry(*state).or_default() += count;
        }
        self.leases += other.leases;
        self.ready += other.ready;
        self.oldest_ready_since = [self.oldest_ready_since, other.oldest_ready_since].into_iter().flatten().min();
        self.lines += other.lines;
        self.waiting += other.waiting;
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Queues {
    pub(super) count: u64,
    pub(super) all: Depth,
    pub(super) named: BTreeMap<(SpaceName, QueueName), Depth>,
    /// Those without a series of their own, if there are any.
    pub(super) other: Option<Depth>,
}

impl Queues {
    pub(super) fn look<D: StateDisk>(store: &StateStore<D>) -> io::Result<Self> {
        let mut walk = Walk::default();
        let hold = |walk: &mut Walk, state: &State| {
            let began = Instant::now();
            while walk.step(state) {
                if began.elapsed() >= HOLD {
                    return true;
                }
            }
            false
        };
        while store.read(|state, _| hold(&mut walk, state))? {}
        Ok(walk.seen)
    }

    pub(super) fn add(&mut self, queue: (SpaceName, QueueName), depth: Depth) {
        self.count += 1;
        self.all.add(&depth);
        self.named.insert(queue, depth);
        if self.named.len() > NAMED
            && let Some((_, last)) = self.named.pop_last()
        {
            self.other.get_or_insert_default().add(&last);
        }
    }
}

/// On the way through the queues, in the order of their numbers.
#[derive(Default)]
struct Walk {
    next: u32,
    /// The queue whose lines are being counted, and behind which item.
    counting: Option<(QueueNo, (SpaceName, QueueName), Depth, ItemNo)>,
    seen: Queues,
}

impl Walk {
    /// Goes on a little; false: there is nothing more.
    fn step(&mut self, state: &State) -> bool {
        let Some((no, queue, mut depth, after)) = self.counting.take() else {
            let Some((no, space, stats)) = state.queue_from(QueueNo(self.next)) else { return false };
            self.next = no.0 + 1;
            let depth = Depth::from(&stats);
            let queue = (space.clone(), stats.queue);
            if depth.lines == 0 {
                self.seen.add(queue, depth);
            } else {
                self.counting = Some((no, queue, depth, ItemNo(0)));
            }
            return true;
        };
        let (waiting, more) = state.waiting_behind(no, after, LINES_PER_STEP);
        depth.waiting += waiting;
        match more {
            Some(after) => self.counting = Some((no, queue, depth, after)),
            None => self.seen.add(queue, depth),
        }
        true
    }
}
