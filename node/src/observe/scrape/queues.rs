//! The depths of the queues: summed over all, and one by one for the first ones by name.
//!
//! Callers name queues, so only [`NAMED`] queues get their own series; the others are summed. The state is read in
//! pieces: apply never waits for a scrape longer than [`HOLD`] plus the time for one queue.

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

/// Queues with their own series.
pub(super) const NAMED: usize = 100;
/// How long the state is held at a time.
const HOLD: Duration = Duration::from_millis(1);
/// Items with a line that one step reads.
const LINES_PER_STEP: usize = 500;

/// The numbers of one queue, or the sums of several.
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
    /// The sum of the queues without their own series, if there are any.
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

/// A walk through the queues, in the order of their numbers.
#[derive(Default)]
struct Walk {
    next: u32,
    /// The queue whose lines are being counted, and the item after which to continue.
    counting: Option<(QueueNo, (SpaceName, QueueName), Depth, ItemNo)>,
    seen: Queues,
}

impl Walk {
    /// Takes one step. Returns false when the walk is finished.
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
