//! Computes how long a lease is promised from an answered `expires_in_ms`. This is the only place that decides how
//! faults shorten or extend a promise; every checker that compares a promised end uses it.
//!
//! - The cluster counts whole milliseconds.
//! - `drift` makes the monotonic clocks of nodes run up to half a percent too fast. Holders leave a hundredth for that,
//!   so a hundredth of the time under the fault is not promised.
//! - Time without a quorum is withheld: nobody can renew in it, so it is not charged to holders. If faults separated
//!   every node from every other one, a lease that was alive then ends later by that time.
//! - Callers' clocks change no promise: I1 and I3 handle a holder with a wrong clock (`Belief`).

use super::spans::Spans;
use crate::history::{Fault, History, Micros};

/// The cluster counts in whole milliseconds.
pub const GRAIN: Micros = 1_000;
/// One part in this many of the time under `drift` is not promised.
const DRIFT_PART: Micros = 100;
/// Faults that separate every node from every other one while they are in force.
const WITHOUT_QUORUM: &[&str] = &["isolate-all", "kill-followers", "kill-all", "power-loss-all"];
/// Faults that start or reconnect a node at their end or before: together with one of these a quorum may return early.
const STARTS_NODES: &[&str] =
    &["kill-", "power-loss-", "full-disk", "join-", "move-", "grow-", "replace-", "snapshot-"];
/// What a leader may still charge when it loses its quorum and when it gets it back: entries that it accepted before it
/// noticed, and the steps of its clock.
const QUORUM_GRACE: Micros = 5_000_000;
/// A place in a line lives for this long after its last poll, in cluster time.
const PLACE_LIFE: Micros = 30_000_000;
/// A request id is remembered for this long, in cluster time.
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

    /// Until when nobody else may have an item, if the answer that its holder asked for at `sent` promises `until`.
    #[must_use]
    pub fn end(&self, sent: Micros, until: Micros) -> Micros {
        let mut end = until;
        for (began, ended) in self.without_quorum.all() {
            // A lease with less time left than the grace may have been charged all of it.
            if *began >= sent && end > began.saturating_add(QUORUM_GRACE) {
                end = end.saturating_add((ended - began).saturating_sub(QUORUM_GRACE));
            }
        }
        self.less_drift(sent, end)
    }

    /// The earliest moment at which this much cluster time can have passed, if none was withheld.
    fn less_drift(&self, from: Micros, to: Micros) -> Micros {
        to.saturating_sub(self.drifting.within(from, to) / DRIFT_PART).saturating_sub(GRAIN)
    }

    /// How much cluster time may lag behind because clocks were slow.
    #[must_use]
    pub fn slow_by(&self, from: Micros, to: Micros) -> Micros {
        self.drifting.within(from, to) / DRIFT_PART
    }

    /// Until when a place in a line certainly lives after a poll that was sent then.
    #[must_use]
    pub fn place_lives_until(&self, polled: Micros) -> Micros {
        self.less_drift(polled, polled.saturating_add(PLACE_LIFE))
    }

    /// The moment after which a place is over, if its last poll ended then, without the cluster's lag.
    #[must_use]
    pub fn place_is_over(&self, polled: Micros) -> Micros {
        polled.saturating_add(PLACE_LIFE)
    }

    /// Until when a request that was first sent then is certainly remembered.
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
    fn only_time_under_drift_is_promised_less() {
        let promises = promises("fault drift 10s..20s");
        assert_eq!(promises.end(0, 5 * S), 5 * S - GRAIN);
        assert_eq!(promises.end(12 * S, 14 * S), 14 * S - 2 * S / 100 - GRAIN);
        assert_eq!(promises.end(15 * S, 40 * S), 40 * S - 5 * S / 100 - GRAIN);
    }

    #[test]
    fn time_without_a_quorum_is_added_to_a_lease_that_was_alive() {
        let promises = promises("fault isolate-all 10s..40s");
        assert_eq!(promises.end(5 * S, 20 * S), 45 * S - GRAIN);
        // It had less time left than may be charged.
        assert_eq!(promises.end(5 * S, 14 * S), 14 * S - GRAIN);
        // It was requested in that time, so a quorum answered it, before or after.
        assert_eq!(promises.end(11 * S, 20 * S), 20 * S - GRAIN);
    }

    #[test]
    fn together_with_a_fault_that_starts_nodes_nothing_is_added() {
        let promises = promises("fault isolate-all 10s..40s\nfault move-and-remove 20s..25s");
        assert_eq!(promises.end(5 * S, 20 * S), 20 * S - GRAIN);
    }

    #[test]
    fn a_fault_without_effect_adds_nothing() {
        assert_eq!(promises("fault isolate-all 10s..40s missed").end(5 * S, 20 * S), 20 * S - GRAIN);
    }
}
