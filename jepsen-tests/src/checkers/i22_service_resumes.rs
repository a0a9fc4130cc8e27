//! I22. The cluster serves again within a fixed time after everything was healed; and wherever no fault was active for
//! this time while callers sent calls, at least one of them succeeded.

use super::facts::Facts;
use super::slack::Slack;
use super::verdict::{Measured, Verdict, seconds};
use crate::history::{Asked, Micros};

/// A write, a read and a watcher must succeed within this time.
pub const STATED: Micros = 20_000_000;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut resumed = Vec::new();
    if let Some(end) = facts.history.end.as_ref().filter(|end| end.healed > 0) {
        verdict.fact();
        match end.served {
            None => {
                let what = format!("healed at {}, but never served again", seconds(end.healed));
                verdict.violate(end.healed, what, &[]);
            }
            Some(served) => {
                let took = served.saturating_sub(end.healed);
                resumed.push((took / 1_000).cast_signed());
                if took > STATED {
                    let what = format!("healed at {}, but served only after {}", seconds(end.healed), seconds(took));
                    verdict.violate(served, what, &[]);
                }
            }
        }
    }
    during(facts, &mut verdict, &mut resumed);
    verdict.measured.push(Measured { name: "from healing to the first successful call".into(), millis: resumed });
    verdict
}

/// After each fault that was followed by a time without faults.
fn during(facts: &Facts<'_>, verdict: &mut Verdict, resumed: &mut Vec<i64>) {
    let slack = Slack::new(facts.history);
    let of_cluster = |asked: &Asked| !matches!(asked, Asked::Write { .. } | Asked::Change { .. });
    // By the time of the request: the earliest success of all operations requested since.
    let mut asked: Vec<(Micros, Micros)> = Vec::new();
    for (_, op) in facts.ops().filter(|(_, op)| of_cluster(&op.asked)) {
        let served = op.answered().and(op.completed).unwrap_or(Micros::MAX);
        asked.push((op.invoked, served));
    }
    asked.sort_unstable();
    for at in (1..asked.len()).rev() {
        asked[at - 1].1 = asked[at - 1].1.min(asked[at].1);
    }
    let Some((last, _)) = asked.last().copied() else { return };
    for ended in facts.history.faults.iter().filter_map(|fault| fault.ended) {
        let due = ended.saturating_add(STATED);
        if last < due || !slack.is_calm(ended, due) {
            continue;
        }
        verdict.fact();
        let behind = asked.partition_point(|(invoked, _)| *invoked < ended);
        let served = asked.get(behind).map_or(Micros::MAX, |(_, served)| *served);
        if served > due {
            let what =
                format!("the last fault ended at {}, but no call had succeeded by {}", seconds(ended), seconds(due));
            verdict.violate(ended, what, &[]);
        } else {
            resumed.push((served.saturating_sub(ended) / 1_000).cast_signed());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of};

    #[test]
    fn service_that_resumes_in_time_is_accepted() {
        let story = "
            fault kill 1s..2s
            5s   ada create disk -> ok
            30s  ada create tape -> ok
            end healed=40s served=43s";
        assert_eq!(facts_of("I22", story), 2);
    }

    #[test]
    fn service_that_does_not_resume_is_found() {
        broken(&["I22"], "end healed=40s");
        broken(&["I22"], "end healed=40s served=100s");
        broken(
            &["I22"],
            "fault kill 1s..2s
             5s   ada create disk -> unknown
             30s  ada create tape -> unavailable
             60s  ada create tape -> ok",
        );
    }
}
