//! Finds what makes a run inconclusive: a scheduled fault that never took effect, no expired lease, no unknown outcome,
//! no rejected late write, an invariant that the workload must exercise but that had nothing to check, or a search that
//! was not decided.

use super::facts::Facts;
use super::i01_mutual_exclusion::is_fenced;
use super::i03_never_early::is_misled;
use super::verdict::Verdict;
use crate::history::{Asked, Fault, Micros, Operation, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// A mixed run of this length covers everything that is required of it. A shorter run must only check the end of the
/// run.
const SURE_AFTER: Micros = 90_000_000;
/// In a run of this length callers retry requests after nodes have forgotten them.
const LATE_REPEATS_AFTER: Micros = 240_000_000;
/// In `mixed`, callers' clocks that are wrong for this long mislead at least one holder.
const MISLED_AFTER: Micros = 20_000_000;
/// A fault that was done this many times took effect at least once, whatever other faults ran.
const OFTEN: usize = 3;
/// The percentage of the segments searched for I11 that must be decided.
const DECIDED: u64 = 95;

/// How often something happened, and how often it had to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    pub what: String,
    pub times: u64,
    /// The required number: 0 if not required.
    pub least: u64,
}

impl Covered {
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.times < self.least
    }
}

#[must_use]
pub fn check(facts: &Facts<'_>, verdicts: &[Verdict]) -> Vec<Covered> {
    let about = &facts.history.about;
    let workload = about.workload.as_str();
    let has_faults = !matches!(about.nemesis.as_str(), "" | "none");
    let invoked = |op: Option<&Operation>| op.map_or(0, |op| op.invoked);
    let operations = &facts.history.operations;
    let lasted = invoked(operations.last()).saturating_sub(invoked(operations.first()));
    let is_long_mixed = workload == "mixed" && lasted >= SURE_AFTER;
    let is_of = |workloads: &[&str]| workloads.contains(&workload) || is_long_mixed;
    let mut all = Vec::new();
    let mut cover = |what: &str, times: u64, is_needed: bool| {
        all.push(Covered { what: what.to_owned(), times, least: u64::from(is_needed) });
    };
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for fault in &facts.history.faults {
        *kinds.entry(&fault.kind).or_default() += u64::from(fault.took_hold);
    }
    if has_faults {
        cover("faults that took effect", kinds.values().sum(), true);
    }
    for (kind, times) in kinds {
        cover(&format!("fault: {kind}"), times, had_a_chance(&facts.history.faults, kind));
    }
    let count = |is: &dyn Fn(&Operation) -> bool| operations.iter().filter(|op| is(op)).count() as u64;
    let lapse = is_of(&["mutex", "expiry", "parked"]) || (has_faults && is_of(&["dispatch", "assignment"]));
    cover("expired leases", lapses(facts), lapse);
    let unknown = count(&|op| op.outcome == Outcome::Unknown);
    cover("unknown outcomes", unknown, has_faults || is_of(&["idempotency"]));
    cover("rejected writes with an old token", count(&is_fenced), is_of(&["mutex", "expiry", "flow"]));
    misled(facts, workload, is_long_mixed, &mut cover);
    if facts.history.faults.iter().any(|fault| fault.kind == "backup") {
        cover("restored backups", u64::from(facts.history.restored.is_some()), true);
    }
    cover("requests retried under the same id", count(&|op| op.is_repeat), is_of(&["idempotency"]));
    let is_late = |(no, op): &(usize, &Operation)| {
        op.is_repeat && op.invoked > facts.promises.remembered_until(facts.begin(*no)).saturating_add(1_000_000)
    };
    let late = facts.ops().filter(is_late).count() as u64;
    let has_late = lasted >= LATE_REPEATS_AFTER && is_of(&["idempotency"]);
    cover("requests retried after nodes had forgotten them", late, has_late);
    cover("operations that succeeded", count(&|op| op.answered().is_some()), true);
    for verdict in verdicts.iter().filter(|verdict| exercised(workload, is_long_mixed).contains(&verdict.id)) {
        cover(&format!("facts checked for {}", verdict.id), verdict.facts, true);
    }
    if let Some(soak) = &facts.history.soak {
        let kinds: BTreeSet<&String> = soak.phases.iter().flat_map(|phase| &phase.kinds).collect();
        for kind in kinds {
            let asked = soak.tallies.iter().filter(|tally| tally.kind == *kind).map(|tally| tally.asked).sum();
            cover(&format!("hostile callers: {kind}"), asked, true);
        }
    }
    for verdict in verdicts {
        if let Some(searched) = verdict.searched.filter(|searched| *searched > 0) {
            let decided = (searched - verdict.undecided) * 100 / searched;
            let what = format!("percentage of the segments searched for {} that were decided", verdict.id);
            all.push(Covered { what, times: decided, least: DECIDED });
        }
    }
    all
}

/// Whether a fault must have taken effect: it was done alone, or often enough. Other faults at the same time may
/// prevent its effect.
fn had_a_chance(faults: &[Fault], kind: &str) -> bool {
    let ended = |fault: &Fault| fault.ended.unwrap_or(Micros::MAX);
    let is_alone = |fault: &Fault| {
        let overlaps = |other: &&Fault| *other != fault && other.began <= ended(fault) && fault.began <= ended(other);
        !faults.iter().any(|other| overlaps(&other))
    };
    let tried = || faults.iter().filter(|fault| fault.kind == kind);
    tried().count() >= OFTEN || tried().any(is_alone)
}

/// If callers' clocks were wrong: counts the holders that relied on a lease because of a wrong clock.
fn misled(facts: &Facts<'_>, workload: &str, is_long_mixed: bool, cover: &mut impl FnMut(&str, u64, bool)) {
    let is_wrong = |fault: &&Fault| matches!(fault.kind.as_str(), "callers-jump" | "callers-stall");
    let spans = facts.history.faults.iter().filter(is_wrong);
    let wrong_for: Micros = spans.map(|fault| fault.ended.unwrap_or(fault.began).saturating_sub(fault.began)).sum();
    if wrong_for == 0 {
        return;
    }
    let is_misled = |op: &&Operation| match op.asked {
        Asked::Write { token, belief: Some(belief), .. } if !belief.is_steady => {
            facts.grant(token).is_some_and(|grant| is_misled(grant, belief.at))
        }
        _ => false,
    };
    let times = facts.history.operations.iter().filter(is_misled).count() as u64;
    let is_needed = workload == "mutex" || (is_long_mixed && wrong_for >= MISLED_AFTER);
    cover("writes after the end of a lease by a holder with a wrong clock", times, is_needed);
}

/// Leases that were seen to expire. Without an event stream: leases that nobody ended and that were followed by another
/// grant.
fn lapses(facts: &Facts<'_>) -> u64 {
    let seen = facts.stream.events.iter().filter(|event| event.kind == "expired").count();
    if seen > 0 {
        return seen as u64;
    }
    let lapsed = |grant: &&super::facts::Grant| {
        facts.next_grant(grant).is_some_and(|next| !facts.ends.may_have_ended(grant, next.upper))
    };
    facts.grants.iter().filter(lapsed).count() as u64
}

/// The invariants that a workload must exercise: without facts for them its run is inconclusive.
fn exercised(workload: &str, is_long_mixed: bool) -> &'static [&'static str] {
    match workload {
        "mutex" => &["I1", "I2", "I3", "I5", "I18", "I20", "I22"],
        "line" => &["I2", "I8", "I9", "I20", "I22"],
        "dispatch" => &["I2", "I5", "I6", "I7", "I19", "I20", "I22"],
        "assignment" => &["I5", "I17", "I20", "I22"],
        "register" => &["I5", "I11", "I20", "I22"],
        "idempotency" => &["I10", "I20", "I22"],
        "expiry" => &["I1", "I3", "I4", "I20", "I22"],
        "events" => &["I16", "I18", "I20", "I22"],
        "membership" => &["I2", "I5", "I20", "I22", "I23"],
        "long" => &["I1", "I3", "I20", "I22"],
        "parked" => &["I6", "I20", "I22", "I26"],
        "bulk" => &["I6", "I20", "I22", "I27"],
        "batch" => &["I1", "I2", "I13", "I20", "I22"],
        "flow" => &["I1", "I2", "I3", "I20", "I22"],
        "depends" => &["I6", "I7", "I20", "I22", "I25"],
        "local" => &["I11", "I20", "I22", "I28"],
        // Not I30: whether latencies are checked is an option of the run.
        "hostile" => &["I2", "I5", "I6", "I7", "I20", "I22", "I24", "I29", "I31", "I33"],
        // All except I26, which needs time without faults, and I27, which needs a node without other callers.
        _ if is_long_mixed => &[
            "I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I13", "I16", "I17", "I18", "I19",
            "I20", "I21", "I22", "I23", "I24", "I25", "I28",
        ],
        _ => &["I20", "I22"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::story::tell;

    fn missing(story: &str) -> Vec<String> {
        let history = tell(story);
        let facts = Facts::new(&history);
        let verdicts = crate::checkers::check_facts(&facts, |_| {});
        check(&facts, &verdicts).into_iter().filter(Covered::is_missing).map(|covered| covered.what).collect()
    }

    #[test]
    fn a_run_in_which_everything_happened_is_conclusive() {
        let story = "
            run expiry pause
            fault pause 1s..2s
            0s   ada claim disk -> token=1 for=5s
            0s   sees 0.1 granted disk ada token=1
            3s   ada renew tape token=9 -> unknown
            6s   sees 0.2 expired disk ada token=1
            7s   bob claim disk -> token=2 for=5s
            8s   ada write disk token=1 value=3 -> refused stale_token
            end healed=9s served=9s
            hash 1 100 aa
            hash 2 100 aa";
        assert_eq!(missing(story), Vec::<String>::new());
    }

    #[test]
    fn a_run_in_which_nothing_happened_is_inconclusive() {
        let worthless = missing("run mutex kill\nfault kill 1s..2s missed\n0s ada create disk -> ok");
        for what in [
            "faults that took effect",
            "fault: kill",
            "expired leases",
            "unknown outcomes",
            "facts checked for I1",
            "facts checked for I22",
        ] {
            assert!(worthless.iter().any(|missing| missing == what), "{what} of {worthless:?}");
        }
    }

    #[test]
    fn a_long_mixed_run_must_cover_everything() {
        let story = |until: &str| format!("run mixed kill\n0s ada create disk -> ok\n{until} ada create tape -> ok");
        let short = missing(&story("30s"));
        assert!(!short.iter().any(|what| what == "facts checked for I1" || what == "expired leases"), "{short:?}");
        let long = missing(&story("110s"));
        for what in [
            "expired leases",
            "rejected writes with an old token",
            "requests retried under the same id",
            "facts checked for I1",
            "facts checked for I16",
            "facts checked for I25",
        ] {
            assert!(long.iter().any(|missing| missing == what), "{what} of {long:?}");
        }
    }

    #[test]
    fn too_many_undecided_searches_make_a_run_inconclusive() {
        let history = tell("run register none\n0s ada create disk -> ok");
        let facts = Facts::new(&history);
        let verdict = |undecided| Verdict { id: "I11", searched: Some(100), undecided, ..Verdict::default() };
        let is_missing = |undecided| {
            let covered = check(&facts, &[verdict(undecided)]);
            covered.iter().any(|covered| covered.is_missing() && covered.what.contains("segments searched"))
        };
        assert_eq!([is_missing(0), is_missing(5), is_missing(6)], [false, false, true]);
    }

    #[test]
    fn a_fault_next_to_another_one_need_not_take_effect() {
        let story = |faults: &str| missing(&format!("run register kill\n0s ada create disk -> ok\n{faults}"));
        let is_missing = |missing: &[String]| missing.iter().any(|what| what == "fault: kill");
        assert!(is_missing(&story("fault kill 1s..2s missed")));
        assert!(!is_missing(&story("fault kill 1s..2s missed\nfault pause 1s..3s")));
    }

    #[test]
    fn a_run_without_faults_need_not_have_any() {
        let worthless = missing("run register none\n0s ada create disk -> ok");
        assert!(!worthless.iter().any(|what| what.contains("fault") || what.contains("unknown")), "{worthless:?}");
    }
}
