//! I13. A batch with `all_or_none` is granted completely or not at all. A batch of unknown outcome shows nothing.

use super::facts::{Facts, OpNo};
use super::verdict::Verdict;
use crate::history::Outcome;
use std::collections::BTreeMap;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut batches: BTreeMap<u64, Vec<OpNo>> = BTreeMap::new();
    for (no, op) in facts.ops() {
        if let Some(batch) = op.batch.filter(|batch| batch.all_or_none) {
            batches.entry(batch.no).or_default().push(no);
        }
    }
    for entries in batches.values() {
        let is_known = |no: &&OpNo| matches!(facts.op(**no).outcome, Outcome::Ok(_) | Outcome::Refused { .. });
        if entries.iter().filter(is_known).count() < entries.len() {
            continue;
        }
        verdict.fact();
        let granted = |no: &&OpNo| facts.op(**no).answered().is_some_and(|answered| !answered.grants.is_empty());
        let count = entries.iter().filter(granted).count();
        if count > 0 && count < entries.len() {
            let first = facts.op(entries[0]);
            let what =
                format!("{} asked for all or none of {} items and was granted {count}", first.actor, entries.len());
            verdict.violate(first.invoked, what, entries);
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of};

    #[test]
    fn all_or_none() {
        let story = "
            0s  ada claim disk batch=1 -> token=1 for=9s
            0s  ada claim tape batch=1 -> token=2 for=9s
            1s  bob claim disk batch=2 -> refused already_claimed
            1s  bob claim book batch=2 -> refused all_or_none
            2s  cid claim disk batch=3 -> unknown
            2s  cid claim book batch=3 -> unknown";
        assert_eq!(facts_of("I13", story), 2);
    }

    #[test]
    fn a_batch_that_was_granted_in_part_is_found() {
        broken(
            &["I13"],
            "0s  ada claim disk batch=1 -> token=1 for=9s
             0s  ada claim tape batch=1 -> refused already_claimed",
        );
    }
}
