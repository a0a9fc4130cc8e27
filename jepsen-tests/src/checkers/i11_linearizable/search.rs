//! Searches for a linearization, one segment of an item's history after another. A segment ends where no operation is
//! in progress. The state at its end is not passed on: the next segment may begin with any state. This misses
//! violations that span two segments, but never reports a false one.

use crate::checkers::facts::OpNo;
use crate::history::Micros;
use porcupine_rs::{CheckResult, Model, Operation, check_operations_timeout};
use std::time::{Duration, Instant};

/// The minimum number of operations in a segment, if the item has as many.
const STRETCH: usize = 48;
const FOR_A_STRETCH: Duration = Duration::from_millis(1_500);
/// The search time of a run with at most `OF_A_RUN` operations; a longer run gets more.
const FOR_A_RUN: Duration = Duration::from_secs(20);
const OF_A_RUN: usize = 200_000;

#[derive(Debug)]
pub struct Search {
    allowed: Duration,
    until: Option<Instant>,
    pub decided: u64,
    pub undecided: u64,
}

/// A step that happened between two moments.
#[derive(Clone, Debug)]
pub struct Step<O> {
    pub begin: Micros,
    /// `None`: at any time.
    pub end: Option<Micros>,
    pub op: O,
    pub no: Option<OpNo>,
}

impl Search {
    /// The search time of a run with this number of operations.
    #[must_use]
    pub fn new(operations: usize) -> Self {
        let rounds = u32::try_from(operations / OF_A_RUN + 1).unwrap_or(1);
        Self { allowed: FOR_A_RUN * rounds, until: None, decided: 0, undecided: 0 }
    }

    /// The segments without a valid order: their operations.
    pub fn contradictions<M: Model>(&mut self, mut steps: Vec<Step<M::Op>>) -> Vec<Vec<Step<M::Op>>> {
        steps.sort_by_key(|step| step.begin);
        let mut found = Vec::new();
        let mut stretch: Vec<Step<M::Op>> = Vec::new();
        let mut latest = Some(0);
        for step in steps {
            if stretch.len() >= STRETCH && latest.is_some_and(|latest| latest < step.begin) {
                self.judge::<M>(std::mem::take(&mut stretch), &mut found);
                latest = Some(0);
            }
            latest = latest.zip(step.end).map(|(latest, end)| latest.max(end));
            stretch.push(step);
        }
        self.judge::<M>(stretch, &mut found);
        found
    }

    fn judge<M: Model>(&mut self, stretch: Vec<Step<M::Op>>, found: &mut Vec<Vec<Step<M::Op>>>) {
        if stretch.len() < 2 {
            return;
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.allowed);
        let left = until.saturating_duration_since(Instant::now()).min(FOR_A_STRETCH);
        if left.is_zero() {
            self.undecided += 1;
            return;
        }
        let time = |moment: Micros| i64::try_from(moment).unwrap_or(i64::MAX);
        let history: Vec<Operation<M>> = stretch
            .iter()
            .map(|step| Operation {
                client_id: None,
                call_time: time(step.begin),
                return_time: step.end.map_or(i64::MAX, time),
                op: step.op.clone(),
                metadata: None,
            })
            .collect();
        match check_operations_timeout::<M>(&history, left) {
            CheckResult::Ok => self.decided += 1,
            CheckResult::Unknown => self.undecided += 1,
            CheckResult::Illegal => {
                self.decided += 1;
                found.push(stretch);
            }
        }
    }
}
