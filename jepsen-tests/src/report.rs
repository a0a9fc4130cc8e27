//! The report of a run: a self-contained page, and lines for a terminal.

pub mod chart;
pub mod page;
pub mod series;
pub mod soak;
pub mod terminal;
pub mod words;

use crate::checkers::coverage::Covered;
use crate::checkers::facts::Facts;
use crate::checkers::verdict::Verdict;
use crate::checkers::{self, Invariant, coverage};

/// The contents of a report.
#[derive(Debug)]
pub struct Report<'f, 'h> {
    pub facts: &'f Facts<'h>,
    pub verdicts: Vec<Verdict>,
    pub coverage: Vec<Covered>,
    /// The command that repeats the run.
    pub replay: String,
}

/// The overall result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amounts {
    /// Every promise was kept.
    Kept,
    /// A promise was broken.
    Broken,
    /// Inconclusive: no promise was broken, but something that had to happen did not.
    Worthless,
}

impl<'f, 'h> Report<'f, 'h> {
    /// Runs every checker.
    #[must_use]
    pub fn new(facts: &'f Facts<'h>, replay: String, begins: impl FnMut(&Invariant)) -> Self {
        let verdicts = checkers::check_facts(facts, begins);
        let coverage = coverage::check(facts, &verdicts);
        Self { facts, verdicts, coverage, replay }
    }

    #[must_use]
    pub fn amounts(&self) -> Amounts {
        if self.verdicts.iter().any(|verdict| !verdict.holds()) {
            Amounts::Broken
        } else if self.coverage.iter().any(Covered::is_missing) {
            Amounts::Worthless
        } else {
            Amounts::Kept
        }
    }

    /// A page that loads no other files.
    #[must_use]
    pub fn html(&self) -> String {
        page::page(self)
    }

    /// One line for each invariant, then missing coverage and the overall result.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        terminal::lines(self)
    }
}

#[cfg(test)]
mod tests;
