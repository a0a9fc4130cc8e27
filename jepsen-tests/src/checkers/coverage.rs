//! What makes a run worthless: a scheduled fault that never took hold, no lapse, no unknown outcome, no write that was kept
//! out, or an invariant that its workload was to exercise and for which nothing was checked.

use super::facts::Facts;
use super::i01_mutual_exclusion::is_fenced;
use super::i03_never_early::is_misled;
use super::verdict::Verdict;
use crate::history::{Asked, Outcome};
use std::collections::BTreeMap;

/// How often something happened, and whether it had to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    pub what: String,
    pub times: u64,
    pub is_needed: bool,
}

impl Covered {
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_needed && self.times == 0
    }
}

#[must_use]
pub fn check(facts: &Facts<'_>, verdicts: &[Verdict]) -> Vec<Covered> {
    let about = &facts.history.about;
    let workload = about.workload.as_str();
    let has_faults = !matches!(about.nemesis.as_str(), "" | "none");
    let mut all = Vec::new();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for fault in &facts.history.faults {
        *kinds.entry(&fault.kind).or_default() += u64::from(fault.took_hold);
    }
    if has_faults {
        let took_hold = kinds.values().sum();
        all.push(Covered { what: "faults that took hold".into(), times: took_hold, is_needed: true });
    }
    all.extend(kinds.into_iter().map(|(kind, times)| Covered {
        what: format!("fault: {kind}"),
        times,
        is_needed: true,
    }));
    let count = |is: &dyn Fn(&crate::history::Operation) -> bool| {
        facts.history.operations.iter().filter(|op| is(op)).count() as u64
    };
    let is_of = |workloads: &[&str]| workloads.contains(&workload);
    all.push(Covered {
        what: "lapses".into(),
        times: lapses(facts),
        is_needed: is_of(&["mutex", "expiry"]) || (has_faults && is_of(&["dispatch", "assignment"])),
    });
    all.push(Covered {
        what: "unknown outcomes".into(),
        times: count(&|op| op.outcome == Outcome::Unknown),
        is_needed: has_faults || is_of(&["idempotency"]),
    });
    all.push(Covered {
        what: "writes with an old token that were kept out".into(),
        times: count(&is_fenced),
        is_needed: is_of(&["mutex", "expiry"]),
    });
    let has = |kinds: &[&str]| facts.history.faults.iter().any(|fault| kinds.contains(&fault.kind.as_str()));
    if has(&["callers-jump", "callers-stall"]) {
        let misled = |op: &crate::history::Operation| match op.asked {
            Asked::Write { token, belief: Some(belief), .. } if !belief.is_steady => {
                facts.grant(token).is_some_and(|grant| is_misled(grant, belief.at))
            }
            _ => false,
        };
        all.push(Covered {
            what: "writes under a lease that was over, of a holder whose clock was wrong".into(),
            times: count(&misled),
            is_needed: is_of(&["mutex"]),
        });
    }
    if has(&["backup"]) {
        let times = u64::from(facts.history.restored.is_some());
        all.push(Covered { what: "backups that were restored".into(), times, is_needed: true });
    }
    all.push(Covered {
        what: "requests that were repeated under their id".into(),
        times: count(&|op| op.is_repeat),
        is_needed: is_of(&["idempotency"]),
    });
    all.push(Covered {
        what: "operations that succeeded".into(),
        times: count(&|op| op.answered().is_some()),
        is_needed: true,
    });
    for verdict in verdicts {
        let is_needed = exercised(workload).contains(&verdict.id);
        if is_needed {
            all.push(Covered { what: format!("facts for {}", verdict.id), times: verdict.facts, is_needed });
        }
    }
    all
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
fn exercised(workload: &str) -> &'static [&'static str] {
    match workload {
        "mutex" => &["I1", "I2", "I3", "I5", "I18", "I20", "I22"],
        "line" => &["I2", "I8", "I9", "I20", "I22"],
        "dispatch" => &["I2", "I5", "I6", "I7", "I19", "I20", "I22"],
        "assignment" => &["I5", "I17", "I20", "I22"],
        "register" => &["I5", "I11", "I20", "I22"],
        "idempotency" => &["I10", "I20", "I22"],
        "expiry" => &["I1", "I3", "I4", "I20", "I22"],
        "events" => &["I16", "I18", "I20", "I22"],
        "membership" => &["I2", "I5", "I20", "I22"],
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
    fn a_run_without_faults_needs_none() {
        let worthless = missing("run register none\n0s ada create disk -> ok");
        assert!(!worthless.iter().any(|what| what.contains("fault") || what.contains("unknown")), "{worthless:?}");
    }
}
