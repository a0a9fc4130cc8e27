//! I25. Only ready items are granted: their dependencies are complete, and the worker has the capabilities that they
//! need.

use super::facts::{Facts, ItemNo};
use super::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros};
use std::collections::HashMap;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut completed: HashMap<ItemNo, Micros> = HashMap::new();
    for (no, op) in facts.ops().filter(|(_, op)| matches!(op.asked, Asked::Complete { .. })) {
        if let Some(item) = facts.item_of[no].filter(|_| facts.may_have_happened(no)) {
            let first = completed.entry(item).or_insert(Micros::MAX);
            *first = facts.begin(no).min(op.invoked).min(*first);
        }
    }
    for op in &facts.history.operations {
        let Asked::Create { item, depends_on, needs, .. } = &op.asked else { continue };
        let Some(item) = facts.item_no(item).filter(|_| !depends_on.is_empty() || !needs.is_empty()) else { continue };
        for grant in facts.grants_of[item].iter().map(|at| &facts.grants[*at]) {
            for first in depends_on.iter().filter_map(|first| facts.item_no(first)) {
                verdict.fact();
                if completed.get(&first).is_none_or(|completed| *completed > grant.upper) {
                    let what = format!(
                        "{} was granted {} by {}, before its dependency {} was completed",
                        facts.holders[grant.holder],
                        facts.items[item],
                        seconds(grant.upper),
                        facts.items[first],
                    );
                    verdict.violate(grant.upper, what, grant.told_by.as_slice());
                }
            }
            let told = grant.told_by.map(|no| &facts.op(no).asked);
            if let Some(Asked::Next { capabilities: Some(able), .. }) = told {
                verdict.fact();
                if let Some(lacks) = needs.iter().find(|need| !able.contains(need)) {
                    let what = format!(
                        "{} was granted {}, which needs {lacks}, and can do {}",
                        facts.holders[grant.holder],
                        facts.items[item],
                        able.join(", "),
                    );
                    verdict.violate(grant.upper, what, grant.told_by.as_slice());
                }
            }
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of};

    #[test]
    fn ready_items_are_granted() {
        let story = "
            0s  eve create disk -> ok
            0s  eve create tape after=disk needs=saw -> ok
            1s  ada next jobs able=saw,drill -> disk:1 for=9s
            2s  ada complete disk token=1 -> unknown
            3s  bob next jobs able=saw -> tape:2 for=9s";
        assert_eq!(facts_of("I25", story), 2);
    }

    #[test]
    fn an_item_granted_before_its_dependencies_is_found() {
        broken(
            &["I25"],
            "0s  eve create disk -> ok
             0s  eve create tape after=disk -> ok
             1s  ada next jobs -> tape:1 for=9s",
        );
    }

    #[test]
    fn an_item_granted_to_an_incapable_worker_is_found() {
        broken(
            &["I25"],
            "0s  eve create disk needs=saw -> ok
             1s  ada next jobs able=drill -> disk:1 for=9s",
        );
    }
}
