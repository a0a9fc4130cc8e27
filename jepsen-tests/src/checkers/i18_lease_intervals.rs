//! I18. The leases of an item never overlap, and each ends once. The stream shows this directly. By answers alone: a
//! lease whose end was acknowledged has no further effect, and does not end a second time.

use super::facts::{Facts, ItemNo, OpNo, token_of};
use super::i01_mutual_exclusion::describe;
use super::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros};
use std::collections::HashMap;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for item in 0..facts.items.len() {
        in_stream(facts, item, &mut verdict);
        by_answers(facts, item, &mut verdict);
    }
    verdict
}

/// The state of an item's lease according to the stream so far.
enum Lease {
    Unknown,
    Free { ended: Option<u64> },
    Held(u64),
}

fn in_stream(facts: &Facts<'_>, item: ItemNo, verdict: &mut Verdict) {
    let stream = &facts.stream;
    let Some(places) = stream.of_item.get(item) else { return };
    let mut part = None;
    let mut lease = Lease::Unknown;
    for at in places {
        let event = &stream.events[*at];
        if part != Some(stream.part[*at]) {
            part = Some(stream.part[*at]);
            lease = Lease::Unknown;
        }
        let mut broken = |why: String| {
            let what = format!("event {}: {} was {}, {why}", event.name(), facts.items[item], event.kind);
            verdict.violate_with(event.seen, what, &[], vec![event.name()]);
        };
        match (event.kind, event.ended(), event.token) {
            ("created", ..) => lease = Lease::Free { ended: None },
            ("granted", _, Some(token)) => {
                if let Lease::Held(other) = lease {
                    broken(format!("token {token}, while token {other} was held"));
                }
                verdict.facts += 1;
                lease = Lease::Held(token);
            }
            (_, Some(token), _) => {
                match lease {
                    Lease::Held(held) if held != token => broken(format!("token {token}, while token {held} was held")),
                    Lease::Free { ended: Some(ended) } if ended == token => {
                        broken(format!("token {token}, which had already ended"));
                    }
                    Lease::Free { .. } => broken(format!("token {token}, but nobody held it")),
                    _ => {}
                }
                lease = Lease::Free { ended: Some(token) };
            }
            ("picked_up" | "extended" | "awaited_input" | "resumed", _, Some(token)) => {
                if let Lease::Free { .. } = lease {
                    broken(format!("token {token}, but nobody held it"));
                }
            }
            _ => {}
        }
    }
}

fn by_answers(facts: &Facts<'_>, item: ItemNo, verdict: &mut Verdict) {
    // The first acknowledged end of each lease, and its time.
    let mut ended: HashMap<u64, (OpNo, Micros)> = HashMap::new();
    let is_end = |no: OpNo| {
        let op = facts.op(no);
        let did = op.answered().map(|answered| answered.did);
        match op.asked {
            Asked::Release { .. } => did == Some(Some(true)),
            // A late completion has no lease to end.
            Asked::Complete { .. } | Asked::Fail { .. } => did.is_some(),
            _ => false,
        }
    };
    for no in facts.of_item[item].iter().copied().filter(|no| is_end(*no)) {
        let (Some(token), Some(completed)) = (token_of(&facts.op(no).asked), facts.op(no).completed) else { continue };
        let first = ended.entry(token).or_insert((no, completed));
        if completed < first.1 {
            *first = (no, completed);
        }
    }
    if ended.is_empty() {
        return;
    }
    for no in facts.of_item[item].iter().copied() {
        let op = facts.op(no);
        let (Some(token), Some(answered)) = (token_of(&op.asked), op.answered()) else { continue };
        let Some((by, over)) = ended.get(&token).copied().filter(|(by, _)| *by != no) else { continue };
        let is_same_request = facts.request_of[by].is_some() && facts.request_of[by] == facts.request_of[no];
        let lives = matches!(op.asked, Asked::Renew { .. } | Asked::Extend { .. })
            || matches!(op.asked, Asked::Release { .. } if answered.did == Some(true));
        if is_same_request || !lives {
            continue;
        }
        verdict.fact();
        let ends_again = matches!(op.asked, Asked::Release { .. });
        if facts.begin(no) > over || ends_again {
            let what = format!(
                "{} was accepted with token {token}, which {} had ended by {}",
                describe(op),
                describe(facts.op(by)),
                seconds(over),
            );
            verdict.violate(op.invoked, what, &[by, no]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    #[test]
    fn one_lease_after_the_other_each_ended_once() {
        kept(
            "9s sees 0.1 created disk
             9s sees 0.2 granted disk ada token=1
             9s sees 0.3 released disk ada token=1
             9s sees 0.4 granted disk bob token=2
             2s ada release disk token=1 id=r -> did
             3s ada release disk token=1 id=r again -> did
             4s ada release disk token=1 id=s -> did_not",
        );
    }

    #[test]
    fn leases_that_overlap_are_found() {
        broken(
            &["I18"],
            "1s sees 0.1 granted disk ada token=1
             1s sees 0.2 granted disk bob token=2",
        );
    }

    #[test]
    fn a_lease_that_ends_twice_is_found() {
        broken(
            &["I18"],
            "1s sees 0.1 granted disk ada token=1
             1s sees 0.2 released disk ada token=1
             1s sees 0.3 expired disk ada token=1",
        );
        broken(
            &["I18"],
            "0s ada claim disk -> token=1 for=9s
             1s ada release disk token=1 id=a -> did
             2s ada release disk token=1 id=b -> did",
        );
    }

    #[test]
    fn a_lease_that_is_renewed_after_its_end_is_found() {
        broken(
            &["I18"],
            "0s ada claim disk -> token=1 for=9s
             1s ada release disk token=1 -> did
             2s ada renew disk token=1 -> for=9s",
        );
    }
}
