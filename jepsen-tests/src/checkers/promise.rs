//! What an answered `expires_in_ms` promises in the time of a run. The only place that decides what faults take from a promise and
//! what they add to it; every checker that compares a promised end asks here.
//!
//! - The cluster counts whole milliseconds.
//! - `drift` makes the steady clocks of nodes run up to half a percent too fast. Holders leave a hundredth for that, so a
//!   hundredth of the time under the fault is not promised.
//! - Time without a quorum is withheld: nobody can renew in it, so it is not charged to holders. Where faults kept every
//!   node from every other one, a lease that was alive then ends so much later.
//! - Clocks of callers promise nothing and take nothing: a holder that counts by a wrong clock is looked at by I1 and I3
//!   (`Belief`).

use super::spans::Spans;
use crate::history::{Fault, History, Micros};

/// The cluster counts in whole milliseconds.
pub const GRAIN: Micros = 1_000;
/// How much of the time under `drift` is not promised: one part in so many.
const DRIFT_PART: Micros = 100;
/// Faults that leave no node with another one, for as long as they are in force.
const WITHOUT_QUORUM: &[&str] = &["isolate-all", "kill-followers", "kill-all", "power-loss-all"];
/// Faults that start a node, or put one where nothing is cut, when they end or before: beside one of these a quorum may come back early.
const STARTS_NODES: &[&str] =
    &["kill-", "power-loss-", "full-disk", "join-", "move-", "grow-", "replace-", "snapshot-"];
/// What a leader may still charge when it loses its quorum and when it gets it back: entries that it took before it noticed, and the
/// steps of its clock.
const QUORUM_GRACE: Micros = 5_000_000;
/// A place in a line lives so long past its last poll, in cluster time.
const PLACE_LIFE: Micros = 30_000_000;
/// A request id is remembered so long, in cluster time.
const REQUEST_MEMORY: Micros = 120_000_000;

#[derive(Clone, Debug, Default)]
pub struct Promises {
    drifting: Spans,
    without_quorum: Spans,
}

impl Promises {
    #[must_use]
    pub fn new(history: &History) -> Self {
        let drifting = history.faults.iter().filter(|fault| fault.kind == "drift");
        let drifting = drifting.map(|fault| (fault.began, fault.ended.unwrap_or(Micros::MAX))).collect();
        let is_alone = |fault: &Fault| {
            let overlaps = |other: &&Fault| {
                let ended = |fault: &Fault| fault.ended.unwrap_or(Micros::MAX);
                *other != fault && other.began <= ended(fault) && fault.began <= ended(other)
            };
            let starts = |other: &Fault| STARTS_NODES.iter().any(|kind| other.kind.starts_with(kind));
            !history.faults.iter().filter(overlaps).any(starts)
        };
        let isolated =
            |fault: &&Fault| fault.took_hold && WITHOUT_QUORUM.contains(&fault.kind.as_str()) && is_alone(fault);
        let without_quorum = history.faults.iter().filter(isolated).filter_map(|fault| fault.in_force).collect();
        Self { drifting: Spans::new(drifting), without_quorum: Spans::new(without_quorum) }
    }

    /// Until when nobody else may have an item whose holder was told at `sent` that its lease lasts until `until`.
    #[must_use]
    pub fn end(&self, sent: Micros, until: Micros) -> Micros {
        let mut end = until;
        for (began, ended) in self.without_quorum.all() {
            // One that had less left than the grace may have been charged all of it.
            if *began >= sent && end > began.saturating_add(QUORUM_GRACE) {
                end = end.saturating_add((ended - began).saturating_sub(QUORUM_GRACE));
            }
        }
        self.less_drift(sent, end)
    }

    /// When so much cluster time can have passed at the earliest, if none was withheld.
    fn less_drift(&self, from: Micros, to: Micros) -> Micros {
        to.saturating_sub(self.drifting.within(from, to) / DRIFT_PART).saturating_sub(GRAIN)
    }

    /// By how much cluster time may lag behind because clocks were slow.
    #[must_use]
    pub fn slow_by(&self, from: Micros, to: Micros) -> Micros {
        self.drifting.within(from, to) / DRIFT_PART
    }

    /// Until when a place in a line certainly lives whose last poll was asked then.
    #[must_use]
    pub fn place_lives_until(&self, polled: Micros) -> Micros {
        self.less_drift(polled, polled.saturating_add(PLACE_LIFE))
    }

    /// After which a place cannot live any more whose last poll was over then, the cluster's lag aside.
    #[must_use]
    pub fn place_is_over(&self, polled: Micros) -> Micros {
        polled.saturating_add(PLACE_LIFE)
    }

    /// Until when a request is certainly remembered that was first asked then.
    #[must_use]
    pub fn remembered_until(&self, asked: Micros) -> Micros {
        self.less_drift(asked, asked.saturating_add(REQUEST_MEMORY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::story::tell;

    const S: Micros = 1_000_000;

    fn promises(story: &str) -> Promises {
        Promises::new(&tell(story))
    }

    #[test]
    fn only_the_time_under_a_drift_is_worth_less() {
        let promises = promises("fault drift 10s..20s");
        assert_eq!(promises.end(0, 5 * S), 5 * S - GRAIN);
        assert_eq!(promises.end(12 * S, 14 * S), 14 * S - 2 * S / 100 - GRAIN);
        assert_eq!(promises.end(15 * S, 40 * S), 40 * S - 5 * S / 100 - GRAIN);
    }

    #[test]
    fn time_without_a_quorum_is_added_to_a_lease_that_was_alive() {
        let promises = promises("fault isolate-all 10s..40s");
        assert_eq!(promises.end(5 * S, 20 * S), 45 * S - GRAIN);
        // It had less left than may be charged.
        assert_eq!(promises.end(5 * S, 14 * S), 14 * S - GRAIN);
        // It was asked for in that time: what was answered then was answered by a quorum, before or after.
        assert_eq!(promises.end(11 * S, 20 * S), 20 * S - GRAIN);
    }

    #[test]
    fn beside_a_fault_that_starts_nodes_nothing_is_added() {
        let promises = promises("fault isolate-all 10s..40s\nfault move-and-remove 20s..25s");
        assert_eq!(promises.end(5 * S, 20 * S), 20 * S - GRAIN);
    }

    #[test]
    fn a_fault_that_did_not_take_hold_adds_nothing() {
        assert_eq!(promises("fault isolate-all 10s..40s missed").end(5 * S, 20 * S), 20 * S - GRAIN);
    }
}
