//! I8. The claims in a line are granted in the order in which they entered the log, among those that still wait. The
//! stream shows this order. Without a stream: a waiter that had a place before another one asked, and kept polling, is
//! granted first.

use super::facts::{Facts, Grant, ItemNo};
use super::line::{Break, Lines};
use super::verdict::{Verdict, seconds};
use super::waits::waits;
use crate::history::Micros;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    in_stream(facts, &mut verdict);
    for item in 0..facts.items.len() {
        if !facts.has_event(item, &["reordered"]) {
            told(facts, item, &mut verdict);
        }
    }
    verdict
}

fn in_stream(facts: &Facts<'_>, verdict: &mut Verdict) {
    let lines = Lines::new(facts);
    verdict.facts += lines.grants;
    for (at, broken) in &lines.breaks {
        let event = &facts.stream.events[*at];
        let item = event.item.map_or("", |item| facts.items[item]);
        let who = event.holder.map_or_else(String::new, |holder| facts.holders[holder].to_string());
        let what = match broken {
            Break::Overtook { first } => {
                format!("{who} was granted {item} from its line, but {} was first", facts.holders[*first])
            }
            Break::PastTheLine { first } => {
                format!("{who} was granted {item} ahead of its line, but {} was first", facts.holders[*first])
            }
            Break::WrongPlace { length } => {
                format!("{who} joined the line of {item}, of length {length}, but not at its end")
            }
            Break::NotInLine => continue,
        };
        verdict.violate_with(event.seen, format!("event {}: {what}", event.name()), &[], vec![event.name()]);
    }
}

fn told(facts: &Facts<'_>, item: ItemNo, verdict: &mut Verdict) {
    let waits = waits(facts, item);
    if waits.is_empty() {
        return;
    }
    let all: Vec<&Grant> = facts.grants_of[item].iter().map(|at| &facts.grants[*at]).collect();
    // A takeover, and the return of the last holder, do not use the line.
    let mut asked_line: Vec<&Grant> = Vec::with_capacity(all.len());
    for (at, grant) in all.iter().enumerate() {
        if at == 0 || !facts.is_same_actor(all[at - 1].holder, grant.holder) {
            asked_line.push(grant);
        }
    }
    let by_token = Latest::new(asked_line.iter().map(|grant| (grant.token, *grant)).collect());
    let by_known = Latest::new(asked_line.iter().map(|grant| (grant.upper, *grant)).collect());
    for wait in &waits {
        verdict.fact();
        let other = match wait.granted {
            Some(token) => by_token.asked_last_below(token),
            None => by_known.asked_last_below(wait.until),
        };
        let Some(other) = other.filter(|other| other.asked > wait.joined && other.holder != wait.holder) else {
            continue;
        };
        let what = format!(
            "{} waited in line for {} since {}, but {}, who asked at {}, was granted it first (token {})",
            facts.holders[wait.holder],
            facts.items[item],
            seconds(wait.joined),
            facts.holders[other.holder],
            seconds(other.asked),
            other.token,
        );
        let ops: Vec<_> = [wait.first, wait.last].into_iter().chain(other.told_by).collect();
        verdict.violate(other.upper, what, &ops);
    }
}

/// Of all grants below a key, the one that was requested last.
struct Latest<'g>(Vec<(u64, &'g Grant)>);

impl<'g> Latest<'g> {
    fn new(mut all: Vec<(u64, &'g Grant)>) -> Self {
        all.sort_by_key(|(key, _)| *key);
        for at in 1..all.len() {
            if all[at - 1].1.asked > all[at].1.asked {
                all[at].1 = all[at - 1].1;
            }
        }
        Self(all)
    }

    fn asked_last_below(&self, key: Micros) -> Option<&'g Grant> {
        let below = self.0.partition_point(|(other, _)| *other < key);
        below.checked_sub(1).map(|at| self.0[at].1)
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    const HELD: &str = "
        0s   ada claim disk -> token=1 for=60s
        1s   bob claim disk wait id=b -> place=0
        2s   cid claim disk wait id=c -> place=1
        3s   ada release disk token=1 -> did";

    fn after(held: &str, rest: &str) -> String {
        format!("{held}\n{rest}")
    }

    #[test]
    fn a_late_withdrawal_may_have_been_granted_before() {
        kept(&after(
            HELD,
            "3s   bob withdraw disk -> did_not
             4s   cid claim disk wait id=c -> place=0
             5s   bob claim disk -> token=2 for=60s",
        ));
    }

    #[test]
    fn first_come_first_granted() {
        kept(&after(
            HELD,
            "4s   bob claim disk wait id=b again -> token=2 for=10s
             4s   cid claim disk wait id=c again -> place=0",
        ));
    }

    #[test]
    fn concurrent_claims_may_be_granted_in_any_order() {
        kept(
            "0s   ada claim disk -> token=1 for=60s
             1s..2s  bob claim disk wait id=b -> place=1
             1s..2s  cid claim disk wait id=c -> place=0
             3s   ada release disk token=1 -> did
             4s   cid claim disk wait id=c again -> token=2 for=1s
             9s   bob claim disk wait id=b again -> token=3 for=10s",
        );
    }

    #[test]
    fn a_waiter_that_stops_polling_loses_its_place() {
        kept(&after(
            HELD,
            "25s  cid claim disk wait id=c again -> place=1
             50s  cid claim disk wait id=c again -> token=2 for=1s
             55s  bob claim disk wait id=b again -> place=0",
        ));
    }

    #[test]
    fn a_place_may_end_a_hundredth_early_while_clocks_drift() {
        let story = |fault: &str| {
            after(
                HELD,
                &format!(
                    "{fault}
                     25s    cid claim disk wait id=c again -> place=1
                     30.8s  cid claim disk wait id=c again -> token=2 for=1s
                     30.95s bob claim disk wait id=b again -> place=0"
                ),
            )
        };
        kept(&story("fault drift 0s..40s"));
        broken(&["I8"], &story("fault pause 0s..40s"));
    }

    #[test]
    fn a_withdrawn_claim_is_skipped() {
        kept(&after(
            HELD,
            "3.5s bob withdraw disk -> unknown
             4s   cid claim disk wait id=c again -> token=2 for=10s
             5s   bob claim disk wait id=b2 -> place=0",
        ));
    }

    #[test]
    fn a_later_claim_that_is_granted_first_is_found() {
        broken(
            &["I8"],
            &after(
                HELD,
                "4s   cid claim disk wait id=c again -> token=2 for=1s
                 9s   bob claim disk wait id=b again -> token=3 for=10s",
            ),
        );
        broken(
            &["I8"],
            &after(
                HELD,
                "4s   cid claim disk wait id=c again -> token=2 for=1s
                 5s   bob claim disk wait id=b again -> place=0",
            ),
        );
    }

    #[test]
    fn overtaking_is_found_in_the_stream() {
        broken(
            &["I8"],
            "1s  sees 0.1 created disk
             1s  sees 0.2 granted disk ada token=1
             1s  sees 0.3 joined disk bob place=0
             1s  sees 0.4 joined disk cid place=1
             1s  sees 0.5 released disk ada token=1
             1s  sees 0.6 granted disk cid token=2 line",
        );
        broken(
            &["I8"],
            "1s  sees 0.1 created disk
             1s  sees 0.2 granted disk ada token=1
             1s  sees 0.3 joined disk bob place=0
             1s  sees 0.4 released disk ada token=1
             1s  sees 0.5 granted disk cid token=2",
        );
    }
}
