//! I10. All answers under one request id of one holder agree: the same items and tokens, the same revision, the same
//! refusal. A different body is refused. A waiting claim gets places until its one answer. Ids are remembered for two
//! minutes: later answers are compared only if the request was marked as a retry, which has no second effect however
//! late it comes. And a value that was set once is not set again later.

use super::facts::{Facts, ItemNo, OpNo, number};
use super::i01_mutual_exclusion::describe;
use super::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros, Outcome};
use std::collections::HashMap;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for group in facts.requests.iter().filter(|group| group.len() > 1) {
        answers(facts, group, &mut verdict);
    }
    for item in 0..facts.items.len() {
        values(facts, item, &mut verdict);
    }
    verdict
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Told<'h> {
    Waits,
    Granted(Vec<(&'h str, u64)>),
    Refused(&'h str),
    Done { revision: Option<&'h str>, did: Option<bool> },
}

/// `None`: the answer is not remembered.
fn told<'h>(facts: &Facts<'h>, no: OpNo) -> Option<Told<'h>> {
    let op = facts.op(no);
    match op.asked {
        Asked::Renew { .. }
        | Asked::RenewAll
        | Asked::Extend { .. }
        | Asked::Read { .. }
        | Asked::ReadLocally { .. }
        | Asked::Line { .. }
        | Asked::Write { .. }
        | Asked::Change { .. } => return None,
        _ => {}
    }
    match &op.outcome {
        Outcome::Ok(answered) if !answered.grants.is_empty() => {
            let mut granted: Vec<_> =
                answered.grants.iter().map(|granted| (granted.item.as_str(), granted.token)).collect();
            granted.sort_unstable();
            Some(Told::Granted(granted))
        }
        // The answer "nothing eligible" is not remembered.
        Outcome::Ok(_) if matches!(op.asked, Asked::Next { .. }) => None,
        Outcome::Ok(answered) if answered.place.is_some() => Some(Told::Waits),
        Outcome::Ok(answered) => Some(Told::Done { revision: answered.revision.as_deref(), did: answered.did }),
        Outcome::Refused { code } => match code.as_str() {
            // Answers of the edge, or of requests that did not reach the store.
            "empty"
            | "invalid"
            | "rejected_by_policy"
            | "not_activated"
            | "request_forgotten"
            | "request_id_reused"
            | "unauthenticated"
            | "method_not_allowed"
            | "unsupported_media_type"
            | "too_large"
            | "too_slow"
            | "rate_limited"
            | "overloaded"
            | "unavailable"
            | "unknown"
            | "internal" => None,
            code => Some(Told::Refused(code)),
        },
        Outcome::Unavailable | Outcome::Unknown => None,
    }
}

fn answers(facts: &Facts<'_>, group: &[OpNo], verdict: &mut Verdict) {
    let is_one_body = group.iter().all(|no| facts.op(*no).asked == facts.op(group[0]).asked);
    let mut first: Option<(OpNo, Told<'_>)> = None;
    for no in group {
        let op = facts.op(*no);
        if is_one_body && matches!(&op.outcome, Outcome::Refused { code } if code == "request_id_reused") {
            let what = format!("{} was retried with the same body, but refused as a different body", describe(op));
            verdict.violate(op.invoked, what, group);
        }
        let Some(now) = told(facts, *no) else { continue };
        let completed = op.completed.unwrap_or(Micros::MAX);
        let Some((before, earlier)) = &first else {
            if now != Told::Waits {
                first = Some((*no, now));
            }
            continue;
        };
        // Nodes may forget it after that; a request that is marked as a retry is not executed again even then.
        let is_one = op.is_repeat || completed <= facts.promises.remembered_until(facts.begin(*before));
        // A poll may have been sent before the answer that came first.
        let is_old_poll = now == Told::Waits && Some(op.invoked) <= facts.op(*before).completed;
        if !is_one || is_old_poll {
            continue;
        }
        verdict.fact();
        if facts.op(*before).asked != op.asked {
            let what = format!(
                "{} and {} were both answered under the same request id",
                describe(facts.op(*before)),
                describe(op)
            );
            verdict.violate(op.invoked, what, &[*before, *no]);
        } else if now != *earlier {
            let what = format!(
                "{} was answered {} at {}, but under the same request id {} at {}",
                describe(op),
                words(earlier),
                seconds(facts.op(*before).completed.unwrap_or(0)),
                words(&now),
                seconds(completed),
            );
            verdict.violate(op.invoked, what, &[*before, *no]);
        }
    }
}

fn words(told: &Told<'_>) -> String {
    match told {
        Told::Waits => "that it waits".into(),
        Told::Granted(granted) => {
            let each: Vec<_> = granted.iter().map(|(item, token)| format!("{item} with token {token}")).collect();
            format!("with {}", each.join(", "))
        }
        Told::Refused(code) => format!("with {code}"),
        Told::Done { revision: Some(revision), .. } => format!("with revision {revision}"),
        Told::Done { did: Some(did), .. } => format!("that it {}", if *did { "did" } else { "did nothing" }),
        Told::Done { .. } => "that it is done".into(),
    }
}

/// In the order of revisions, a value that was replaced does not return: no two updates set the same value.
fn values(facts: &Facts<'_>, item: ItemNo, verdict: &mut Verdict) {
    let mut shown: Vec<((u32, u64), u64, OpNo)> = Vec::new();
    for no in &facts.of_item[item] {
        let Some(answered) = facts.op(*no).answered() else { continue };
        let (revision, value) = match (&facts.op(*no).asked, &answered.item) {
            (Asked::Update { value, .. }, _) => (answered.revision.as_deref(), Some(*value)),
            (Asked::Read { .. }, Some(seen)) => (Some(seen.revision.as_str()), seen.value),
            _ => continue,
        };
        shown.extend(revision.and_then(number).zip(value).map(|(revision, value)| (revision, value, *no)));
    }
    shown.sort_unstable();
    let mut last_seen: HashMap<u64, OpNo> = HashMap::new();
    let mut current = None;
    for (revision, value, no) in shown {
        if current == Some(value) {
            continue;
        }
        verdict.fact();
        if let Some(before) = last_seen.insert(value, no) {
            let what = format!(
                "{} had the value {value}, then another, and has it again at revision {}.{}: it was set twice",
                facts.items[item], revision.0, revision.1
            );
            verdict.violate(facts.op(no).invoked, what, &[before, no]);
        }
        current = Some(value);
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of, kept};

    #[test]
    fn a_retry_with_the_same_answer_is_one_effect() {
        let story = "
            0s  ada claim disk id=a -> unknown
            1s  ada claim disk id=a again -> token=1 for=9s
            2s  ada claim disk id=a again -> token=1 for=8s
            3s  bob update tape value=1 id=b -> rev=0.4
            4s  bob update tape value=1 id=b again -> rev=0.4
            5s  bob release disk token=1 id=c -> refused not_holder
            6s  bob release disk token=1 id=c again -> refused not_holder";
        assert_eq!(facts_of("I10", story), 4);
    }

    #[test]
    fn a_waiting_claim_gets_places_and_then_its_answer() {
        kept(
            "0s  ada claim disk wait id=a -> place=1
             1s  ada claim disk wait id=a again -> place=0
             2s  ada claim disk wait id=a again -> token=4 for=10s
             3s  ada claim disk wait id=a again -> token=4 for=9s",
        );
    }

    #[test]
    fn answers_that_are_not_remembered_may_change() {
        kept(
            "0s  ada next jobs id=a -> refused empty
             1s  ada next jobs id=a again -> disk:1 for=9s
             0s  bob claim tape id=b -> refused overloaded
             1s  bob claim tape id=b again -> token=2 for=9s
             5s  cid claim book id=c -> refused already_claimed
             200s cid claim book id=c -> token=9 for=9s",
        );
    }

    #[test]
    fn a_marked_retry_has_no_second_effect_however_late() {
        broken(
            &["I10"],
            "0s    ada next jobs id=a -> disk:1 for=9s
             200s  ada next jobs id=a again -> tape:2 for=9s",
        );
        kept(
            "0s    ada next jobs id=a -> disk:1 for=9s
             200s  ada next jobs id=a again -> unknown
             0s    bob next jobs id=b -> book:2 for=9s
             130s  bob next jobs id=b again -> book:2 for=0s",
        );
    }

    #[test]
    fn another_answer_under_the_same_id_is_found() {
        broken(
            &["I10"],
            "0s  ada next jobs id=a -> disk:1 for=9s
             1s  ada next jobs id=a again -> tape:2 for=9s",
        );
        broken(
            &["I10"],
            "0s  ada update disk value=1 id=a -> rev=0.3
             1s  ada update disk value=1 id=a again -> refused stale_write",
        );
    }

    #[test]
    fn an_accepted_different_body_is_found() {
        broken(
            &["I10"],
            "0s  ada claim disk id=a -> token=1 for=9s
             1s  ada claim tape id=a -> token=2 for=9s",
        );
        kept(
            "0s  ada claim disk id=a -> token=1 for=9s
             1s  ada claim tape id=a -> refused request_id_reused",
        );
    }

    #[test]
    fn an_update_that_happened_twice_is_found_by_what_it_overwrote() {
        broken(
            &["I10"],
            "0s  ada update disk value=1 id=a -> unknown
             1s..2s  bob update disk value=2 -> rev=0.5
             1s..9s  eve read disk -> rev=0.4 value=1
             1s..9s  eve read disk -> rev=0.6 value=1",
        );
    }
}
