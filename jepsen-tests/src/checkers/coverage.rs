//! What makes a run worthless: a scheduled fault that never took hold, no lapse, no unknown outcome, no write that was kept
//! out, an invariant that its workload was to exercise and for which nothing was checked, or a search that was not decided.

use super::facts::Facts;
use super::i01_mutual_exclusion::is_fenced;
use super::i03_never_early::is_misled;
use super::verdict::Verdict;
use crate::history::{Asked, Fault, Micros, Operation, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// A mixed run of this length reaches everything that is asked of one. A shorter one is asked for no more than its end.
const SURE_AFTER: Micros = 90_000_000;
/// Callers repeat requests later than nodes remember them, in a run of this length.
const LATE_REPEATS_AFTER: Micros = 240_000_000;
/// Callers' clocks that are wrong for so long mislead a holder of `mixed`.
const MISLED_AFTER: Micros = 20_000_000;
/// A fault that was done so often took hold at least once, whatever was done at the same time.
const OFTEN: usize = 3;
/// The percentage of the stretches searched for I11 that must be decided.
const DECIDED: u64 = 95;

/// How often something happened, and whether it had to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    pub what: String,
    pub times: u64,
    /// How often it had to: 0 where it need not.
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
        cover("faults that took hold", kinds.values().sum(), true);
    }
    for (kind, times) in kinds {
        cover(&format!("fault: {kind}"), times, had_a_chance(&facts.history.faults, kind));
    }
    let count = |is: &dyn Fn(&Operation) -> bool| operations.iter().filter(|op| is(op)).count() as u64;
    let lapse = is_of(&["mutex", "expiry", "parked"]) || (has_faults && is_of(&["dispatch", "assignment"]));
    cover("lapses", lapses(facts), lapse);
    let unknown = count(&|op| op.outcome == Outcome::Unknown);
    cover("unknown outcomes", unknown, has_faults || is_of(&["idempotency"]));
    cover("writes with an old token that were kept out", count(&is_fenced), is_of(&["mutex", "expiry", "flow"]));
    misled(facts, workload, is_long_mixed, &mut cover);
    if facts.history.faults.iter().any(|fault| fault.kind == "backup") {
        cover("backups that were restored", u64::from(facts.history.restored.is_some()), true);
    }
    cover("requests that were repeated under their id", count(&|op| op.is_repeat), is_of(&["idempotency"]));
    let is_late = |(no, op): &(usize, &Operation)| {
        op.is_repeat && op.invoked > facts.promises.remembered_until(facts.begin(*no)).saturating_add(1_000_000)
    };
    let late = facts.ops().filter(is_late).count() as u64;
    let has_late = lasted >= LATE_REPEATS_AFTER && is_of(&["idempotency"]);
    cover("requests that were repeated when nodes had forgotten them", late, has_late);
    cover("operations that succeeded", count(&|op| op.answered().is_some()), true);
    for verdict in verdicts.iter().filter(|verdict| exercised(workload, is_long_mixed).contains(&verdict.id)) {
        cover(&format!("facts for {}", verdict.id), verdict.facts, true);
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
            let what = format!("of a hundred stretches of {} that were searched, decided", verdict.id);
            all.push(Covered { what, times: decided, least: DECIDED });
        }
    }
    all
}

/// Others at the same time may keep a fault from taking hold: it has to when it was done alone, or often enough.
fn had_a_chance(faults: &[Fault], kind: &str) -> bool {
    let ended = |fault: &Fault| fault.ended.unwrap_or(Micros::MAX);
    let is_alone = |fault: &Fault| {
        let overlaps = |other: &&Fault| *other != fault && other.began <= ended(fault) && fault.began <= ended(other);
        !faults.iter().any(|other| overlaps(&other))
    };
    let tried = || faults.iter().filter(|fault| fault.kind == kind);
    tried().count() >= OFTEN || tried().any(is_alone)
}

/// Holders that counted on a lease by a wrong clock, where callers' clocks were wrong.
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
    cover("writes under a lease that was over, of a holder whose clock was wrong", times, is_needed);
}

/// Leases that were seen to lapse; without a stream, those whose successor came after their time and whom nobody ended.
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

/// What a workload is there for: without facts for these its run says nothing.
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
        // Whether latencies are judged is for who asks to say.
        "hostile" => &["I2", "I5", "I6", "I7", "I20", "I22", "I24", "I29", "I31", "I33"],
        // All but I26, which needs time without faults, and I27, which needs a node that nobody else asks.
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
    fn a_run_in_which_everything_happened_is_worth_something() {
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
    fn a_run_in_which_nothing_happened_is_worthless() {
        let worthless = missing("run mutex kill\nfault kill 1s..2s missed\n0s ada create disk -> ok");
        for what in
            ["faults that took hold", "fault: kill", "lapses", "unknown outcomes", "facts for I1", "facts for I22"]
        {
            assert!(worthless.iter().any(|missing| missing == what), "{what} of {worthless:?}");
        }
    }

    #[test]
    fn a_mixed_run_needs_everything_once_it_is_long_enough() {
        let story = |until: &str| format!("run mixed kill\n0s ada create disk -> ok\n{until} ada create tape -> ok");
        let short = missing(&story("30s"));
        assert!(!short.iter().any(|what| what == "facts for I1" || what == "lapses"), "{short:?}");
        let long = missing(&story("110s"));
        for what in [
            "lapses",
            "writes with an old token that were kept out",
            "requests that were repeated under their id",
            "facts for I1",
            "facts for I16",
            "facts for I25",
        ] {
            assert!(long.iter().any(|missing| missing == what), "{what} of {long:?}");
        }
    }

    #[test]
    fn a_search_that_was_not_decided_is_worthless() {
        let history = tell("run register none\n0s ada create disk -> ok");
        let facts = Facts::new(&history);
        let verdict = |undecided| Verdict { id: "I11", searched: Some(100), undecided, ..Verdict::default() };
        let is_missing = |undecided| {
            let covered = check(&facts, &[verdict(undecided)]);
            covered.iter().any(|covered| covered.is_missing() && covered.what.contains("were searched"))
        };
        assert_eq!([is_missing(0), is_missing(5), is_missing(6)], [false, false, true]);
    }

    #[test]
    fn a_fault_that_another_one_may_have_kept_from_taking_hold_need_not() {
        let story = |faults: &str| missing(&format!("run register kill\n0s ada create disk -> ok\n{faults}"));
        let is_missing = |missing: &[String]| missing.iter().any(|what| what == "fault: kill");
        assert!(is_missing(&story("fault kill 1s..2s missed")));
        assert!(!is_missing(&story("fault kill 1s..2s missed\nfault pause 1s..3s")));
    }

    #[test]
    fn a_run_without_faults_needs_none() {
        let worthless = missing("run register none\n0s ada create disk -> ok");
        assert!(!worthless.iter().any(|what| what.contains("fault") || what.contains("unknown")), "{worthless:?}");
    }
}
