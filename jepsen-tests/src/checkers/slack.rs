//! By how much the cluster's time may lag behind: a second per change of leader, the time without one, and the time of faults.
//! What is allowed beside that is said here and nowhere else.

use super::spans::Spans;
use crate::history::{History, Micros};

/// Between a deadline and the entry that works it off.
const ALWAYS: Micros = 1_000_000;
/// What a change of leader may cost beside the time without one.
const PER_CHANGE: Micros = 1_000_000;
/// After a fault, until everybody is as before it.
const PER_FAULT: Micros = 2_000_000;

#[derive(Debug, Default)]
pub struct Slack {
    changes: Vec<Micros>,
    without_leader: Spans,
    faulty: Spans,
    fault_begins: Vec<Micros>,
    fault_ends: Vec<Micros>,
}

impl Slack {
    #[must_use]
    pub fn new(history: &History) -> Self {
        let mut leaders = history.leaders.clone();
        leaders.sort_by_key(|leader| leader.at);
        let mut without = Vec::new();
        for (at, leader) in leaders.iter().enumerate().filter(|(_, leader)| leader.node.is_none()) {
            without.push((leader.at, leaders.get(at + 1).map_or(Micros::MAX, |next| next.at)));
        }
        let span = |fault: &crate::history::Fault| (fault.began, fault.ended.unwrap_or(Micros::MAX));
        let of_nodes = |fault: &&crate::history::Fault| !fault.kind.starts_with("callers-") && fault.kind != "backup";
        // What is done to callers alone makes no node late.
        let faults: Vec<_> = history.faults.iter().filter(of_nodes).map(span).collect();
        let (mut fault_begins, mut fault_ends): (Vec<_>, Vec<_>) = faults.iter().copied().unzip();
        fault_begins.sort_unstable();
        fault_ends.sort_unstable();
        Self {
            changes: leaders.iter().map(|leader| leader.at).collect(),
            without_leader: Spans::new(without),
            faulty: Spans::new(faults),
            fault_begins,
            fault_ends,
        }
    }

    /// What may come so much later when it was due between those moments.
    #[must_use]
    pub fn between(&self, from: Micros, to: Micros) -> Micros {
        let within = |all: &[Micros]| {
            all.partition_point(|at| *at <= to).saturating_sub(all.partition_point(|at| *at < from)) as Micros
        };
        let over = self.fault_ends.partition_point(|ended| ended.saturating_add(PER_FAULT) < from);
        let faults = self.fault_begins.partition_point(|began| *began <= to).saturating_sub(over) as Micros;
        ALWAYS
            + PER_CHANGE * within(&self.changes)
            + self.without_leader.within(from, to)
            + self.faulty.within(from, to)
            + PER_FAULT * faults
    }

    /// How often leadership changed between those moments.
    #[must_use]
    pub fn changes_within(&self, from: Micros, to: Micros) -> usize {
        self.changes.partition_point(|at| *at <= to).saturating_sub(self.changes.partition_point(|at| *at < from))
    }

    /// No fault is under way then, nor was in the time after one.
    #[must_use]
    pub fn is_calm(&self, from: Micros, to: Micros) -> bool {
        let over = self.fault_ends.partition_point(|ended| *ended <= from);
        self.fault_begins.partition_point(|began| *began < to) == over
    }
}
