//! By how much the cluster's time may lag behind: a second per change of leader, the time without a leader, the time in which the leader
//! stood still or had no quorum, and what clocks lose that run too slowly. What is allowed beside that is said here and nowhere else.
//!
//! Whether a leader stood still is not told by faults but by what was served: between two commands that were acknowledged within a step of
//! the leader's clock of each other it did not. Time in which no such pair is known is not held against it.

use super::promise::Promises;
use super::spans::Spans;
use crate::history::{Answered, Asked, Fault, History, Micros, Operation};

/// Between a deadline and the entry that works it off.
const ALWAYS: Micros = 1_000_000;
/// What a change of leader may cost beside the time without one.
const PER_CHANGE: Micros = 1_000_000;
/// A leader charges no more than this from one look at its clock to the next.
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
        // What is done to callers alone makes no node late.
        let of_nodes = |fault: &&Fault| !fault.kind.starts_with("callers-") && fault.kind != "backup";
        let span = |fault: &Fault| (fault.began, fault.ended.unwrap_or(Micros::MAX));
        Self {
            changes: leaders.iter().map(|leader| leader.at).collect(),
            standing: Spans::new(standing),
            faulty: Spans::new(history.faults.iter().filter(of_nodes).map(span).collect()),
            promises: Promises::new(history),
        }
    }

    /// What may come so much later when it was due between those moments.
    #[must_use]
    pub fn between(&self, from: Micros, to: Micros) -> Micros {
        let changes = PER_CHANGE * self.changes_within(from, to) as Micros;
        ALWAYS + changes + self.standing.within(from, to) + self.promises.slow_by(from, to)
    }

    /// How often leadership changed between those moments.
    #[must_use]
    pub fn changes_within(&self, from: Micros, to: Micros) -> usize {
        self.changes.partition_point(|at| *at <= to).saturating_sub(self.changes.partition_point(|at| *at < from))
    }

    /// No fault is under way then.
    #[must_use]
    pub fn is_calm(&self, from: Micros, to: Micros) -> bool {
        self.faulty.is_free(from, to)
    }
}

/// The times in which nothing is known to have been committed for longer than a step. Each acknowledged command was committed between when
/// it was asked and when it was answered.
fn stalls(history: &History) -> Vec<(Micros, Micros)> {
    let is_command = |op: &&Operation| {
        let is_other = matches!(
            op.asked,
            Asked::Read { .. } | Asked::ReadLocally { .. } | Asked::Line { .. } | Asked::Write { .. }
        );
        // That there is nothing to hand out may be said without an entry.
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
    fn a_fault_that_stops_nobody_excuses_nothing() {
        let slack = Slack::new(&tell("fault kill 1s..5s\nbusy 0s..9s"));
        assert_eq!(slack.between(S, 8 * S), ALWAYS);
        assert!(!slack.is_calm(4 * S, 8 * S) && slack.is_calm(5 * S, 8 * S));
    }

    #[test]
    fn time_in_which_nothing_was_committed_is_excused() {
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
