//! Checks whether a history keeps every promise. There is one file per invariant; each uses the facts that `facts`
//! derived from the history, and reports how many it could check and which of them violate the invariant.
//!
//! Soundness comes first. An operation took effect between its start and its end; one of unknown outcome took effect at
//! any time after its start, or never. A history that such freedom can explain is not a violation.

pub mod coverage;
pub mod ends;
pub mod facts;
pub mod i01_mutual_exclusion;
pub mod i02_rising_tokens;
pub mod i03_never_early;
pub mod i04_bounded_late;
pub mod i05_nothing_lost;
pub mod i06_no_double_dispatch;
pub mod i07_ends_once;
pub mod i08_first_come;
pub mod i09_no_stuck_line;
pub mod i10_one_effect;
pub mod i11_linearizable;
pub mod i13_batches;
pub mod i16_event_stream;
pub mod i17_assignment;
pub mod i18_lease_intervals;
pub mod i19_conservation;
pub mod i20_same_hash;
pub mod i21_caps;
pub mod i22_service_resumes;
pub mod i23_members;
pub mod i24_no_death;
pub mod i25_ready;
pub mod i26_woken;
pub mod i27_sent_on_once;
pub mod i28_local_reads;
pub mod i29_leases_kept;
pub mod i30_bounded_latency;
pub mod i31_bounded_machine;
pub mod i32_no_intruder;
pub mod i33_plain_refusals;
pub mod line;
#[cfg(test)]
pub mod load;
pub mod promise;
pub mod restored;
pub mod slack;
pub mod spans;
pub mod standing;
#[cfg(test)]
pub mod story;
pub mod stream;
pub mod verdict;
pub mod waits;

use crate::history::History;
use facts::Facts;
use verdict::Verdict;

/// One promise and its checker.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    pub id: &'static str,
    pub name: &'static str,
    pub check: fn(&Facts<'_>) -> Verdict,
}

macro_rules! invariants {
    ($($id:literal $name:literal $module:ident;)+) => {
        /// Every invariant that a history can violate.
        pub const ALL: &[Invariant] = &[$(Invariant { id: $id, name: $name, check: $module::check }),+];
    };
}

invariants! {
    "I1" "Mutual exclusion by token" i01_mutual_exclusion;
    "I2" "Tokens only increase" i02_rising_tokens;
    "I3" "No lease ends early" i03_never_early;
    "I4" "Expired leases end in bounded time" i04_bounded_late;
    "I5" "Nothing acknowledged is lost" i05_nothing_lost;
    "I6" "No double dispatch" i06_no_double_dispatch;
    "I7" "Ends once, with the current token" i07_ends_once;
    "I8" "First come, first granted" i08_first_come;
    "I9" "No stuck line, no dead waiter granted" i09_no_stuck_line;
    "I10" "One request, one effect, one answer" i10_one_effect;
    "I11" "Linearizable reads" i11_linearizable;
    "I13" "all_or_none grants all or none" i13_batches;
    "I16" "Events in order, unique, without gaps" i16_event_stream;
    "I17" "The assignment survives an expired lease" i17_assignment;
    "I18" "Leases never overlap and end once" i18_lease_intervals;
    "I19" "Created = live + terminal + purged" i19_conservation;
    "I20" "Replicas have the same hash" i20_same_hash;
    "I21" "Caps hold" i21_caps;
    "I22" "Service resumes after healing" i22_service_resumes;
    "I23" "Members are what was acknowledged" i23_members;
    "I24" "No node exits by itself" i24_no_death;
    "I25" "Only ready items are granted" i25_ready;
    "I26" "Waiting workers are woken" i26_woken;
    "I27" "A call is forwarded once" i27_sent_on_once;
    "I28" "A local read is no older than stated" i28_local_reads;
    "I29" "Honest holders keep their leases" i29_leases_kept;
    "I30" "Latency of honest callers is bounded" i30_bounded_latency;
    "I31" "Memory and disk are bounded" i31_bounded_machine;
    "I32" "No node joins without admission" i32_no_intruder;
    "I33" "Refusals use codes of the closed list" i33_plain_refusals;
}

/// Runs every checker on a history.
#[must_use]
pub fn check(history: &History) -> Vec<Verdict> {
    check_facts(&Facts::new(history), |_| {})
}

/// Like [`check`], but calls `begins` before each checker.
pub fn check_facts(facts: &Facts<'_>, mut begins: impl FnMut(&Invariant)) -> Vec<Verdict> {
    let one = |invariant: &Invariant| {
        begins(invariant);
        let began = std::time::Instant::now();
        let mut verdict = (invariant.check)(facts);
        (verdict.id, verdict.name) = (invariant.id, invariant.name);
        verdict.took = began.elapsed();
        verdict
    };
    ALL.iter().map(one).collect()
}
