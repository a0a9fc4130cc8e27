//! The measurements of a run with hostile callers: its phases, the resources that each node used, what the hostile
//! callers did, and the limits for all of it.

use super::Micros;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    pub bounds: Bounds,
    /// One after another.
    pub phases: Vec<Phase>,
    pub samples: Vec<Sample>,
    pub tallies: Vec<Tally>,
    pub intruders: Vec<Intruder>,
    /// Why hostile callers were stopped early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// The limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The maximum p99 of honest callers in any phase, as a multiple of the first phase's. 0: it is measured but not
    /// checked.
    pub latency_times: f64,
    /// Resident memory of a node, its data directory, and the log's part of it.
    pub memory_mib: u64,
    pub disk_mib: u64,
    pub log_mib: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    pub name: String,
    /// The kinds of hostile callers at work. Empty: the phase is undisturbed.
    pub kinds: Vec<String>,
    pub began: Micros,
    pub ended: Micros,
}

/// The resources that a node used at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub at: Micros,
    /// The seat; 0 for all hostile callers together, for which only `cpu_ms` and `resident_kib` are known, and
    /// [`Sample::SUITE`] for this suite.
    pub seat: u32,
    pub resident_kib: u64,
    /// Since the start of its process.
    pub cpu_ms: u64,
    /// A file with several names counts once.
    pub disk_kib: u64,
    pub log_kib: u64,
    pub open_files: u64,
}

impl Sample {
    pub const HOSTILE: u32 = 0;
    pub const SUITE: u32 = u32::MAX;
}

/// What the hostile callers of one kind did to one node in one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub phase: String,
    pub kind: String,
    pub seat: u32,
    /// Requests that were sent completely, or opened connections for kinds without requests.
    pub asked: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Answers by status and code (`429 rate_limited`), and other results: `closed`, `not answered`.
    pub answers: BTreeMap<String, u64>,
}

/// An intruder: a node with a certificate of the cluster's CA that was not admitted and tries to join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intruder {
    pub node: u64,
    /// The host in its certificate.
    pub certificate: String,
    pub began: Micros,
    pub ended: Micros,
    /// The cluster listed it as a member.
    pub was_member: bool,
    /// It learned which cluster this is: it has created a directory.
    pub was_let_in: bool,
    /// Its last log lines.
    pub said: String,
}

impl Soak {
    /// The phases before the first one with hostile callers.
    #[must_use]
    pub fn undisturbed(&self) -> Option<&Phase> {
        self.phases.first().filter(|phase| phase.kinds.is_empty())
    }

    #[must_use]
    pub fn phase_at(&self, at: Micros) -> Option<&Phase> {
        self.phases.iter().find(|phase| (phase.began..phase.ended).contains(&at))
    }

    /// The samples of a seat within a phase.
    pub fn samples_of(&self, seat: u32, phase: &Phase) -> impl Iterator<Item = &Sample> {
        let (from, to) = (phase.began, phase.ended);
        self.samples.iter().filter(move |sample| sample.seat == seat && (from..to).contains(&sample.at))
    }

    /// The seats of sampled nodes.
    #[must_use]
    pub fn seats(&self) -> Vec<u32> {
        let all = self.samples.iter().map(|sample| sample.seat);
        let mut seats: Vec<u32> = all.filter(|seat| ![Sample::HOSTILE, Sample::SUITE].contains(seat)).collect();
        seats.sort_unstable();
        seats.dedup();
        seats
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::tell;
    use crate::history::lines;

    #[test]
    fn measurements_survive_a_round_trip() {
        let history = tell(
            "bounds latency=3 memory=100 disk=100 log=100
            phase 0s..10s views hostile
            1s ada renew disk token=1 due=1s -> for=60s
            node 1 5s memory=50 disk=60 log=20
            tally views views times=3 answer=429_rate_limited
            intruder 9000 1s..5s told
            stopped no room",
        );
        let mut bytes = Vec::new();
        lines::write(&history, &mut bytes).unwrap();
        let again = lines::read(bytes.as_slice()).unwrap();
        assert_eq!((again.soak, again.operations[0].due), (history.soak, Some(1_000_000)));
    }
}
