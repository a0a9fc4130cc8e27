//! How much the cluster's time may lag behind: a second for each change of leader, the time without a leader, the time
//! in which the leader was stalled or had no quorum, and the loss of slow clocks. Every allowance is defined here and
//! nowhere else.
//!
//! Served commands, not faults, prove that a leader was not stalled: between two commands that were acknowledged within
//! a step of the leader's clock it was not. Time without such a pair is allowed as lag.

use super::promise::Promises;
use super::spans::Spans;
use crate::history::{Answered, Asked, Fault, History, Micros, Operation};

/// From a deadline to the entry that handles it.
const ALWAYS: Micros = 1_000_000;
/// The cost of a change of leader in addition to the time without one.
const PER_CHANGE: Micros = 1_000_000;
/// A leader charges at most this much between two looks at its clock.
const STEP: Micros = 250_000;

#[derive(Debug, Default)]
pub struct Slack {
    changes: Vec<Micros>,
    /// No leader, or none that is known to have committed anything.
    standing: Spans,
    faulty: Spans,
    promises: Promises,
}

impl Slack {
    #[must_use]
    pub fn new(history: &History) -> Self {
        let mut leaders = history.leaders.clone();
        leaders.sort_by_key(|leader| leader.at);
        let mut standing = stalls(history);
        for (at, leader) in leaders.iter().enumerate().filter(|(_, leader)| leader.node.is_none()) {
            standing.push((leader.at, leaders.get(at + 1).map_or(Micros::MAX, |next| next.at)));
        }
        // A fault of callers only does not make a node late.
        let of_nodes = |fault: &&Fault| !fault.kind.starts_with("callers-") && fault.kind != "backup";
        let span = |fault: &Fault| (fault.began, fault.ended.unwrap_or(Micros::MAX));
        Self {
            changes: leaders.iter().map(|leader| leader.at).collect(),
            standing: Spans::new(standing),
            faulty: Spans::new(history.faults.iter().filter(of_nodes).map(span).collect()),
            promises: Promises::new(history),
        }
    }

    /// How much later something may come that was due between those moments.
    #[must_use]
    pub fn between(&self, from: Micros, to: Micros) -> Micros {
        let changes = PER_CHANGE * self.changes_within(from, to) as Micros;
        ALWAYS + changes + self.standing.within(from, to) + self.promises.slow_by(from, to)
    }

    /// The number of leader changes between those moments.
    #[must_use]
    pub fn changes_within(&self, from: Micros, to: Micros) -> usize {
        self.changes.partition_point(|at| *at <= to).saturating_sub(self.changes.partition_point(|at| *at < from))
    }

    /// No fault is active between those moments.
    #[must_use]
    pub fn is_calm(&self, from: Micros, to: Micros) -> bool {
        self.faulty.is_free(from, to)
    }
}

/// The times in which no commit is known for longer than a step. Each acknowledged command was committed between its
/// request and its answer.
fn stalls(history: &History) -> Vec<(Micros, Micros)> {
    let is_command = |op: &&Operation| {
        let is_other = matches!(
            op.asked,
            Asked::Read { .. } | Asked::ReadLocally { .. } | Asked::Line { .. } | Asked::Write { .. }
        );
        // The answer that nothing is available may need no entry.
        let is_empty = |answered: &Answered| matches!(op.asked, Asked::Next { .. }) && answered.grants.is_empty();
        !is_other && op.answered().is_some_and(|answered| !is_empty(answered))
    };
    let committed = history.operations.iter().filter(is_command);
    let mut windows: Vec<(Micros, Micros)> =
        committed.filter_map(|op| op.completed.map(|completed| (op.invoked, completed))).collect();
    windows.retain(|(invoked, completed)| completed - invoked < STEP);
    windows.sort_unstable();
    let mut stalls = Vec::new();
    let mut last = 0;
    for (invoked, completed) in windows {
        if completed > last + STEP {
            stalls.push((last, completed));
        }
        last = invoked;
    }
    stalls.push((last, Micros::MAX));
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::story::tell;

    const S: Micros = 1_000_000;

    #[test]
    fn a_fault_without_a_stall_allows_no_lag() {
        let slack = Slack::new(&tell("fault kill 1s..5s\nbusy 0s..9s"));
        assert_eq!(slack.between(S, 8 * S), ALWAYS);
        assert!(!slack.is_calm(4 * S, 8 * S) && slack.is_calm(5 * S, 8 * S));
    }

    #[test]
    fn time_without_commits_is_allowed_as_lag() {
        let slack = Slack::new(&tell("busy 0s..3s\nbusy 7s..9s"));
        let between = slack.between(S, 8 * S);
        assert!((4 * S + ALWAYS..4 * S + ALWAYS + STEP).contains(&between), "{between}");
    }

    #[test]
    fn a_clock_that_is_slow_may_lag_by_a_hundredth() {
        let slack = Slack::new(&tell("fault drift 0s..9s\nbusy 0s..9s"));
        assert_eq!(slack.between(S, 6 * S), ALWAYS + 5 * S / 100);
    }
}
