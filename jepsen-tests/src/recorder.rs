//! Collects what callers and watchers see while they run. Each has its own buffer and hands it over in chunks, so that
//! recording makes nobody wait. Progress is counted separately.

use crate::history::{History, Micros, Operation, Outcome, Process, Seen};
use client::{Clock, Moment};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of records that are handed over together.
const CHUNK: usize = 4_096;

/// The clock of a run, shared by everyone in it.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    origin: Instant,
}

impl RunClock {
    #[must_use]
    pub fn since(origin: Instant) -> Self {
        Self { origin }
    }

    #[must_use]
    pub fn begin() -> Self {
        Self { origin: Instant::now() }
    }

    #[must_use]
    pub fn now(self) -> Micros {
        micros(self.origin.elapsed())
    }

    /// The clock for clients, so that their times are the run's.
    #[must_use]
    pub fn of_client(self) -> Clock {
        Clock::new(move || Moment(self.origin.elapsed()))
    }

    /// The time until then; zero when it has passed.
    #[must_use]
    pub fn until(self, then: Micros) -> Duration {
        Duration::from_micros(then.saturating_sub(self.now()))
    }
}

#[must_use]
pub fn micros(span: Duration) -> Micros {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// The maximum number of records. A caller that reaches it ends: nothing happens that is not in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub operations: u64,
    /// Events that were seen, of all watchers.
    pub seen: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { operations: 5_000_000, seen: 1_500_000 }
    }
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Begun operations: at most the operations in progress more than the sum of the others.
    pub operations: u64,
    pub ok: u64,
    pub refused: u64,
    pub unavailable: u64,
    pub unknown: u64,
    /// Leases that were granted.
    pub grants: u64,
    /// Writes with an old token that were refused by the store or by the guarded resource.
    pub fenced: u64,
    /// Leases that their holders let expire.
    pub lapses: u64,
    /// Claims that got a place in a line.
    pub waits: u64,
    /// Requests that were sent again under their ids.
    pub repeats: u64,
    pub seen: u64,
}

macro_rules! counters {
    ($($name:ident),+) => {
        #[derive(Debug, Default)]
        struct Counters {
            $($name: AtomicU64),+
        }

        impl Counters {
            fn progress(&self) -> Progress {
                Progress { $($name: self.$name.load(Ordering::Relaxed)),+ }
            }
        }
    };
}

counters! { operations, ok, refused, unavailable, unknown, grants, fenced, lapses, waits, repeats, seen }

/// The destination of all buffers of a run.
#[derive(Debug)]
pub struct Recorder {
    bounds: Bounds,
    counters: Counters,
    processes: AtomicU32,
    watchers: AtomicU32,
    operations: Mutex<Vec<Vec<Operation>>>,
    seen: Mutex<Vec<Vec<Seen>>>,
}

impl Recorder {
    #[must_use]
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            counters: Counters::default(),
            processes: AtomicU32::new(0),
            watchers: AtomicU32::new(0),
            operations: Mutex::default(),
            seen: Mutex::default(),
        })
    }

    #[must_use]
    pub fn progress(&self) -> Progress {
        self.counters.progress()
    }

    /// Whether no further operation may begin.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.counters.operations.load(Ordering::Relaxed) >= self.bounds.operations
    }

    /// A number that was not used before.
    pub fn process(&self) -> Process {
        self.processes.fetch_add(1, Ordering::Relaxed)
    }

    /// A holder made no calls for longer than its lease.
    pub fn lapsed(&self, leases: u64) {
        add(&self.counters.lapses, leases);
    }

    #[must_use]
    pub fn log(self: &Arc<Self>) -> Log {
        Log { recorder: self.clone(), operations: Vec::new(), open: 0 }
    }

    #[must_use]
    pub fn sight(self: &Arc<Self>) -> Sight {
        let watcher = self.watchers.fetch_add(1, Ordering::Relaxed);
        Sight { recorder: self.clone(), watcher, seen: Vec::new() }
    }

    /// All records that were handed over: complete once all callers have ended.
    #[must_use]
    pub fn take(&self) -> History {
        let mut operations: Vec<_> = std::mem::take(&mut *lock(&self.operations)).into_iter().flatten().collect();
        operations.sort_unstable_by_key(|operation| (operation.invoked, operation.process, operation.completed));
        let mut seen: Vec<_> = std::mem::take(&mut *lock(&self.seen)).into_iter().flatten().collect();
        // A stable sort: events that one watcher saw within a microsecond keep their order.
        seen.sort_by_key(|seen| seen.at);
        History { operations, seen, ..History::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// The operations of one caller. Dropping this hands them over.
#[derive(Debug)]
pub struct Log {
    recorder: Arc<Recorder>,
    operations: Vec<Operation>,
    /// Begun and not ended.
    open: usize,
}

/// An operation that has begun.
#[derive(Debug)]
#[must_use]
pub struct Begun(usize);

impl Log {
    /// It stays open, whatever happens to its caller, until [`Log::end`] sets how it ended.
    pub fn begin(&mut self, operation: Operation) -> Begun {
        // Not while one of them is open: a batch begins many operations before it ends the first.
        if self.operations.len() >= CHUNK && self.open == 0 {
            self.hand_over();
        }
        self.open += 1;
        let counters = &self.recorder.counters;
        add(&counters.operations, 1);
        add(&counters.repeats, u64::from(operation.is_repeat));
        self.operations.push(operation);
        Begun(self.operations.len() - 1)
    }

    pub fn end(&mut self, begun: Begun, completed: Micros, outcome: Outcome) {
        let counters = &self.recorder.counters;
        match &outcome {
            Outcome::Ok(answered) => {
                add(&counters.ok, 1);
                let granted = answered.grants.iter().filter(|grant| !grant.renewed && grant.expires_in_ms > 0).count();
                add(&counters.grants, granted as u64);
                add(&counters.waits, u64::from(answered.place.is_some()));
            }
            Outcome::Refused { code } => {
                add(&counters.refused, 1);
                add(&counters.fenced, u64::from(code == "stale_token"));
            }
            Outcome::Unavailable => add(&counters.unavailable, 1),
            Outcome::Unknown => add(&counters.unknown, 1),
        }
        self.open = self.open.saturating_sub(1);
        if let Some(operation) = self.operations.get_mut(begun.0) {
            let is_open = outcome == Outcome::Unknown;
            operation.completed = (!is_open).then_some(completed);
            operation.outcome = outcome;
        }
    }

    fn hand_over(&mut self) {
        let operations = std::mem::take(&mut self.operations);
        lock(&self.recorder.operations).push(operations);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// The events of one watcher. Dropping this hands them over.
#[derive(Debug)]
pub struct Sight {
    recorder: Arc<Recorder>,
    watcher: u32,
    seen: Vec<Seen>,
}

impl Sight {
    /// Returns false if the maximum was reached and this event is not kept.
    pub fn see(&mut self, at: Micros, event: api::event::Event) -> bool {
        let before = self.recorder.counters.seen.fetch_add(1, Ordering::Relaxed);
        if before >= self.recorder.bounds.seen {
            return false;
        }
        self.seen.push(Seen { watcher: self.watcher, at, event });
        if self.seen.len() >= CHUNK {
            let seen = std::mem::take(&mut self.seen);
            lock(&self.recorder.seen).push(seen);
        }
        true
    }
}

impl Sight {
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.recorder.counters.seen.load(Ordering::Relaxed) >= self.recorder.bounds.seen
    }
}

impl Drop for Sight {
    fn drop(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        lock(&self.recorder.seen).push(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Answered, Asked};

    fn operation(process: Process, invoked: Micros) -> Operation {
        Operation {
            process,
            actor: "ada".into(),
            session: None,
            node: Some(1),
            request_id: None,
            is_repeat: false,
            invoked,
            completed: None,
            asked: Asked::RenewAll,
            outcome: Outcome::Unknown,
            batch: None,
            due: None,
        }
    }

    #[test]
    fn operations_of_all_callers_are_sorted_by_their_start() {
        let recorder = Recorder::new(Bounds::default());
        let (mut one, mut other) = (recorder.log(), recorder.log());
        for at in 0..10_000 {
            let log = if at % 3 == 0 { &mut one } else { &mut other };
            let begun = log.begin(operation(recorder.process(), 10_000 - at));
            log.end(begun, 10_001 - at, Outcome::Ok(Answered::default()));
        }
        drop((one, other));
        let history = recorder.take();
        assert_eq!(history.operations.len(), 10_000);
        assert!(history.operations.is_sorted_by_key(|operation| operation.invoked));
        assert_eq!((recorder.progress().operations, recorder.progress().ok), (10_000, 10_000));
    }

    #[test]
    fn an_operation_whose_caller_is_dropped_stays_open() {
        let recorder = Recorder::new(Bounds { operations: 2, seen: 0 });
        let mut log = recorder.log();
        let begun = log.begin(operation(0, 1));
        let _ = log.begin(operation(1, 2));
        log.end(begun, 5, Outcome::Unavailable);
        assert!(recorder.is_full());
        drop(log);
        let history = recorder.take();
        assert_eq!((&history.operations[0].outcome, history.operations[0].completed), (&Outcome::Unavailable, Some(5)));
        assert_eq!((&history.operations[1].outcome, history.operations[1].completed), (&Outcome::Unknown, None));
    }
}
