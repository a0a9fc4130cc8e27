//! I30. With hostile callers, honest callers are answered nearly as fast as without: the 99th percentile of each kind
//! of call is within a multiple of the undisturbed one. The latency of a call counts from when it was due, with all its
//! attempts; a call without an answer counts until it was given up.

use super::facts::Facts;
use super::verdict::{Measured, Verdict};
use crate::history::soak::{Phase, Soak};
use crate::history::{Asked, Micros, Operation, Outcome};
use std::collections::BTreeMap;

/// The calls of the honest fleet, in the order in which they are shown.
pub const CALLS: [&str; 4] = ["renew", "claim", "complete", "create"];
/// With fewer undisturbed calls there is no 99th percentile.
const ENOUGH: usize = 100;
/// The minimum while callers are hostile. There may be few calls because they are answered late.
const ENOUGH_DISTURBED: usize = 20;
const JUDGED: usize = 99;

/// The latencies in milliseconds of all calls of one kind that were due in one phase, sorted.
pub type Latencies = BTreeMap<(usize, &'static str), Vec<f64>>;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(soak) = &facts.history.soak else { return verdict };
    let latencies = latencies(soak, facts.history.operations.iter());
    let calm = soak.undisturbed();
    for call in CALLS {
        let undisturbed = calm.and_then(|_| percentile(&latencies, (0, call), JUDGED, ENOUGH));
        let mut measured = Vec::new();
        for (nth, phase) in soak.phases.iter().enumerate() {
            let Some(took) = percentile(&latencies, (nth, call), JUDGED, ENOUGH_DISTURBED) else { continue };
            measured.push(took);
            if phase.kinds.is_empty() || soak.bounds.latency_times == 0.0 {
                continue;
            }
            let Some(undisturbed) = undisturbed else { continue };
            verdict.fact();
            if took > undisturbed * soak.bounds.latency_times {
                let what = format!(
                    "{call}: the p99 is {took:.1} ms with {}, and {undisturbed:.1} ms undisturbed: {:.1} times",
                    phase.name,
                    took / undisturbed
                );
                verdict.violate(phase.began, what, &[]);
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds for people")]
        let millis = measured.into_iter().map(|took| took.round() as i64).collect();
        verdict.measured.push(Measured { name: format!("{call}, p99 of each phase"), millis });
    }
    if soak.bounds.latency_times == 0.0 {
        verdict.notes.push("Latencies were measured but not checked.".into());
    }
    verdict
}

/// Grouped by the phase in which each call was due.
pub fn latencies<'h>(soak: &Soak, operations: impl Iterator<Item = &'h Operation>) -> Latencies {
    // Attempts at the same call: the time of its answer, or when it was given up.
    let mut calls: BTreeMap<(&str, &str, Micros, &'static str), (bool, Micros)> = BTreeMap::new();
    for op in operations {
        let (Some(due), Some(call)) = (op.due, call(&op.asked)) else { continue };
        let is_answered = matches!(op.outcome, Outcome::Ok(_));
        // An attempt of unknown outcome was followed by another attempt, or was the last.
        let ended = op.completed.unwrap_or(op.invoked);
        let key = (op.actor.as_str(), op.session.as_deref().unwrap_or_default(), due, call);
        let known = calls.entry(key).or_insert((is_answered, ended));
        if is_answered && !known.0 {
            *known = (true, ended);
        } else if is_answered == known.0 {
            known.1 = if is_answered { known.1.min(ended) } else { known.1.max(ended) };
        }
    }
    let mut latencies = Latencies::new();
    for ((_, _, due, call), (_, ended)) in calls {
        let is_within = |phase: &Phase| (phase.began..phase.ended).contains(&due);
        if let Some(nth) = soak.phases.iter().position(is_within) {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds for people")]
            let took = ended.saturating_sub(due) as f64 / 1_000.0;
            latencies.entry((nth, call)).or_default().push(took);
        }
    }
    latencies.values_mut().for_each(|all| all.sort_unstable_by(f64::total_cmp));
    latencies
}

fn call(asked: &Asked) -> Option<&'static str> {
    Some(match asked {
        Asked::Renew { .. } => "renew",
        Asked::Claim { .. } | Asked::Next { .. } => "claim",
        Asked::Complete { .. } => "complete",
        Asked::Create { .. } => "create",
        _ => return None,
    })
}

/// `None`: there were too few.
#[must_use]
pub fn percentile(latencies: &Latencies, of: (usize, &'static str), percent: usize, least: usize) -> Option<f64> {
    let all = latencies.get(&of).filter(|all| all.len() >= least.max(1))?;
    all.get((all.len() - 1) * percent / 100).copied()
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};
    use std::fmt::Write as _;

    /// Two phases of ten seconds. In the first each of 200 renewals takes 4 ms; in the second `late` of them take
    /// `took` ms.
    fn story(late: usize, took: &str) -> String {
        let mut story = String::from(
            "bounds latency=3 memory=100 disk=100 log=100
            phase 0s..10s undisturbed
            phase 10s..20s views hostile
            0s ada claim disk -> token=1 for=60s\n",
        );
        for nth in 0..400 {
            let at = nth * 50;
            let ends = match nth {
                _ if nth >= 200 && nth - 200 < late => format!("{at}ms..{}ms", at + took.parse::<usize>().unwrap()),
                _ => format!("{at}ms..{}ms", at + 4),
            };
            let _ = writeln!(story, "{ends} ada renew disk token=1 due={at}ms -> for=60s");
        }
        story
    }

    fn of(verdicts: &[crate::checkers::verdict::Verdict]) -> &crate::checkers::verdict::Verdict {
        verdicts.iter().find(|verdict| verdict.id == "I30").unwrap()
    }

    #[test]
    fn a_p99_of_three_times_is_within_the_bound_and_more_is_not() {
        assert_eq!(of(&kept(&story(200, "12"))).facts, 1);
        // One in a hundred may take longer.
        assert_eq!(of(&kept(&story(2, "900"))).facts, 1);
        let verdicts = broken(&["I30"], &story(200, "13"));
        assert!(of(&verdicts).violations[0].what.contains("p99 is 13.0 ms with views"));
        broken(&["I30"], &story(4, "900"));
    }

    #[test]
    fn a_late_call_counts_from_when_it_was_due() {
        let mut late = story(0, "0");
        for nth in 0..8 {
            let _ = writeln!(late, "{}ms ada renew disk token=1 due={}ms -> for=60s", 15_300 + nth, 15_001 + nth);
        }
        broken(&["I30"], &late);
    }

    #[test]
    fn attempts_at_one_call_count_as_one_until_it_is_given_up() {
        let mut again = story(0, "0");
        for nth in 0..8 {
            let due = 15_001 + nth;
            let _ = writeln!(again, "{due}ms ada renew disk token=1 due={due}ms -> unavailable");
            let _ = writeln!(again, "15.3s..15.4s ada renew disk token=1 due={due}ms -> for=60s");
        }
        broken(&["I30"], &again);
        let mut given_up = story(0, "0");
        for nth in 0..8 {
            let _ = writeln!(given_up, "15s..19s bob/x{nth} create tape due=15s -> unavailable");
        }
        // Too few for their own percentile.
        kept(&given_up);
        let many: String = (0..200).fold(given_up, |mut story, nth| {
            let _ = writeln!(story, "{0}ms bob/y{nth} create disk-{nth} due={0}ms -> ok", nth * 50);
            let _ = writeln!(story, "{0}ms bob/y{nth} create disk-{nth}b due={0}ms -> ok", 10_000 + nth * 40);
            story
        });
        broken(&["I30"], &many);
    }

    #[test]
    fn a_limit_of_zero_disables_the_latency_check() {
        let unjudged = story(200, "900").replace("latency=3", "latency=0");
        assert_eq!(of(&kept(&unjudged)).facts, 0);
    }
}
