//! I28. A local read is no older than stated: it shows every revision of the item that was acknowledged before its age.
//! An age does not count the time in which the node's machine was suspended with all its clocks. And a node never goes
//! back from one read to the next.

use super::facts::{Facts, ItemNo, Number, OpNo, number};
use super::spans::Spans;
use super::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros};
use std::collections::HashMap;

/// The tolerance of an age: a follower learns of a commit with the leader's next message, at the latest with a
/// heartbeat.
const TOLERATED: Micros = 300_000;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let suspended = suspensions(facts);
    for item in 0..facts.items.len() {
        ages(facts, item, &suspended, &mut verdict);
    }
    verdict
}

/// The times in which the machine of each node was suspended.
fn suspensions(facts: &Facts<'_>) -> HashMap<u32, Spans> {
    let mut spans: HashMap<u32, Vec<(Micros, Micros)>> = HashMap::new();
    for fault in facts.history.faults.iter().filter(|fault| fault.kind == "suspend") {
        for node in &fault.nodes {
            spans.entry(*node).or_default().push((fault.began, fault.ended.unwrap_or(Micros::MAX)));
        }
    }
    spans.into_iter().map(|(node, spans)| (node, Spans::new(spans))).collect()
}

/// What a local read showed: its time, the applied entry, and the revision.
#[derive(Clone, Copy)]
struct Looked {
    over: Micros,
    applied: u64,
    revision: Number,
    by: OpNo,
}

fn ages(facts: &Facts<'_>, item: ItemNo, suspended: &HashMap<u32, Spans>, verdict: &mut Verdict) {
    let is_local = |no: &&OpNo| matches!(facts.op(**no).asked, Asked::ReadLocally { .. });
    if !facts.of_item[item].iter().any(|no| is_local(&no)) {
        return;
    }
    // The newest revision that was acknowledged by each moment.
    let mut known: Vec<(Micros, Number, OpNo)> = Vec::new();
    for no in &facts.of_item[item] {
        let op = facts.op(*no);
        let is_sure = matches!(op.asked, Asked::Create { .. } | Asked::Update { .. } | Asked::Read { .. });
        let revision = op.answered().and_then(|answered| answered.revision.as_deref()).and_then(number);
        known.extend(op.completed.zip(revision).filter(|_| is_sure).map(|(at, revision)| (at, revision, *no)));
    }
    known.sort_unstable();
    for at in 1..known.len() {
        if known[at].1 < known[at - 1].1 {
            (known[at].1, known[at].2) = (known[at - 1].1, known[at - 1].2);
        }
    }
    // What a caller last saw at a node: at a later entry the item is no older.
    let mut last: HashMap<(Option<u32>, u32), Looked> = HashMap::new();
    for no in facts.of_item[item].iter().filter(is_local) {
        let op = facts.op(*no);
        let Some(answered) = op.answered() else { continue };
        let (Some(shown), Some(completed)) = (answered.revision.as_deref().and_then(number), op.completed) else {
            continue;
        };
        if let Some(age) = answered.age_ms {
            let age_at_most = age * 1_000 + age * 10 + TOLERATED;
            let then = match op.node.and_then(|node| suspended.get(&node)) {
                Some(suspended) => suspended.ago(op.invoked, age_at_most),
                None => op.invoked.saturating_sub(age_at_most),
            };
            let before = known.partition_point(|(at, ..)| *at < then);
            if let Some((at, revision, by)) = before.checked_sub(1).map(|at| known[at]) {
                verdict.fact();
                if shown < revision {
                    let what = format!(
                        "a local read of {} at {} reports an age of at most {age} ms and shows revision {}.{}, \
                         though {}.{} was known at {}",
                        facts.items[item],
                        seconds(op.invoked),
                        shown.0,
                        shown.1,
                        revision.0,
                        revision.1,
                        seconds(at),
                    );
                    verdict.violate(op.invoked, what, &[by, *no]);
                }
            }
        }
        let Some(applied) = answered.applied else { continue };
        let key = (op.node, op.process);
        if let Some(before) = last.get(&key).copied()
            && before.over < op.invoked
            && before.applied <= applied
        {
            verdict.fact();
            if shown < before.revision {
                let what = format!(
                    "a local read of {} at {} shows revision {}.{} at entry {applied}, but the read before it {}.{} at {}",
                    facts.items[item],
                    seconds(op.invoked),
                    shown.0,
                    shown.1,
                    before.revision.0,
                    before.revision.1,
                    before.applied,
                );
                verdict.violate(op.invoked, what, &[before.by, *no]);
            }
        }
        last.insert(key, Looked { over: completed, applied, revision: shown, by: *no });
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of, kept};

    #[test]
    fn a_local_read_may_be_as_old_as_stated() {
        let story = "
            0s  ada update disk value=1 -> rev=0.1
            5s  ada update disk value=2 -> rev=0.2
            6s  bob read_locally disk -> rev=0.1 age=2s
            9s  bob read_locally disk -> rev=0.2 age=20ms";
        assert_eq!(facts_of("I28", story), 2);
    }

    #[test]
    fn a_local_read_older_than_stated_is_found() {
        broken(
            &["I28"],
            "0s  ada update disk value=1 -> rev=0.1
             5s  ada update disk value=2 -> rev=0.2
             9s  bob read_locally disk -> rev=0.1 age=2s",
        );
    }

    #[test]
    fn a_suspension_of_the_node_is_not_counted() {
        let story = |suspended: &str| {
            format!(
                "fault suspend {suspended}
                 0s  ada update disk value=1 -> rev=0.1
                 5s  ada update disk value=2 -> rev=0.2
                 9s  bob read_locally disk -> rev=0.1 age=20ms"
            )
        };
        kept(&story("4s..8.8s"));
        broken(&["I28"], &story("5.5s..8.8s"));
        broken(&["I28"], &story("1s..7s"));
    }

    #[test]
    fn a_local_read_that_goes_back_is_found() {
        broken(
            &["I28"],
            "0s  ada read_locally disk -> rev=0.2 applied=9
             5s  ada read_locally disk -> rev=0.1 applied=10",
        );
    }
}
