//! The result of a checker.

use crate::history::Micros;
use std::time::Duration;

/// At most this many violations are kept as text; the rest is only counted.
const KEPT: usize = 100;

#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub id: &'static str,
    pub name: &'static str,
    /// The number of facts that were compared with the invariant. 0: nothing was checked.
    pub facts: u64,
    /// The number of violations; `violations` has the first of them.
    pub violated: u64,
    pub violations: Vec<Violation>,
    /// Facts that could not be decided within the time allowed.
    pub undecided: u64,
    /// The number of facts that were searched.
    pub searched: Option<u64>,
    /// Further information for the reader, in sentences.
    pub notes: Vec<String>,
    pub measured: Vec<Measured>,
    pub took: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub at: Micros,
    /// A description of what happened.
    pub what: String,
    /// The operations involved, by their index in the history.
    pub operations: Vec<usize>,
    /// The events involved, by number.
    pub events: Vec<String>,
}

/// A measured quantity in milliseconds, in addition to the verdict.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub name: String,
    pub millis: Vec<i64>,
}

impl Verdict {
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violated == 0
    }

    /// Nothing was checked.
    #[must_use]
    pub fn is_vacuous(&self) -> bool {
        self.facts == 0 && self.violated == 0
    }

    pub fn fact(&mut self) {
        self.facts += 1;
    }

    pub fn violate(&mut self, at: Micros, what: String, operations: &[usize]) {
        self.violate_with(at, what, operations, Vec::new());
    }

    pub fn violate_with(&mut self, at: Micros, what: String, operations: &[usize], events: Vec<String>) {
        self.violated += 1;
        if self.violations.len() < KEPT {
            self.violations.push(Violation { at, what, operations: operations.to_vec(), events });
        }
    }
}

impl Measured {
    /// The value of this percentile.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<i64> {
        let mut sorted = self.millis.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        sorted.get(last * percent / 100).copied()
    }
}

/// A moment as text.
#[must_use]
pub fn seconds(at: Micros) -> String {
    format!("{}.{:03} s", at / 1_000_000, at / 1_000 % 1_000)
}
