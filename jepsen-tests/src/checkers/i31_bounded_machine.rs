//! I31. With hostile callers, a node stays within the limits for memory, disk, and the disk space of its log.

use super::facts::Facts;
use super::verdict::{Verdict, seconds};
use crate::history::soak::Sample;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(soak) = &facts.history.soak else { return verdict };
    let bounds = soak.bounds;
    let taken = |sample: &Sample| [sample.resident_kib, sample.disk_kib, sample.log_kib].map(|kib| kib / 1024);
    let bounds = [("memory", bounds.memory_mib), ("disk", bounds.disk_mib), ("disk for its log", bounds.log_mib)];
    for seat in soak.seats() {
        let all: Vec<&Sample> = soak.samples.iter().filter(|sample| sample.seat == seat).collect();
        for (nth, (what, bound_mib)) in bounds.into_iter().enumerate() {
            verdict.facts += all.len() as u64;
            let Some(first) = all.iter().find(|sample| taken(sample)[nth] > bound_mib) else { continue };
            let most = all.iter().map(|sample| taken(sample)[nth]).max().unwrap_or(0);
            let phase = soak.phase_at(first.at).map_or("between phases", |phase| &phase.name);
            let words = format!(
                "node {seat} used more than {bound_mib} MiB of {what} from {} on ({phase}), {most} MiB at most",
                seconds(first.at)
            );
            verdict.violate(first.at, words, &[]);
        }
    }
    if let Some(why) = &soak.stopped {
        verdict.violate(
            soak.phases.last().map_or(0, |phase| phase.began),
            format!("hostile callers were stopped: {why}"),
            &[],
        );
    }
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of};

    const STORY: &str = "
        bounds latency=3 memory=100 disk=200 log=50
        phase 0s..10s undisturbed
        phase 10s..20s views hostile
        node 1 5s memory=50 disk=60 log=20
        node 1 15s memory=100 disk=200 log=50
        node 2 15s memory=90 disk=190 log=49";

    #[test]
    fn usage_within_the_limits_is_accepted() {
        assert_eq!(facts_of("I31", STORY), 9);
    }

    #[test]
    fn a_node_above_a_limit_is_found() {
        for more in ["memory=101 disk=60 log=20", "memory=50 disk=201 log=20", "memory=50 disk=60 log=51"] {
            let verdicts = broken(&["I31"], &format!("{STORY}\n        node 2 16s {more}"));
            let verdict = verdicts.iter().find(|verdict| verdict.id == "I31").unwrap();
            assert!(verdict.violations[0].what.contains("(views)"), "{verdict:?}");
        }
    }

    #[test]
    fn hostile_callers_that_had_to_be_stopped_are_a_violation() {
        broken(&["I31"], &format!("{STORY}\n        stopped no room"));
    }
}
