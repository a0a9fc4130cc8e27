//! I6. `next` grants an item to one holder: not twice in an answer, not with one token to two holders, and not while it
//! is promised to another holder who did nothing to end that.

use super::facts::Facts;
use super::verdict::{Verdict, seconds};
use crate::history::Asked;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for (no, op) in facts.ops().filter(|(_, op)| matches!(op.asked, Asked::Next { .. })) {
        let Some(answered) = op.answered() else { continue };
        let mut items: Vec<&str> = answered.grants.iter().map(|granted| granted.item.as_str()).collect();
        verdict.facts += items.len() as u64;
        items.sort_unstable();
        for pair in items.windows(2).filter(|pair| pair[0] == pair[1]) {
            verdict.violate(op.invoked, format!("{} was granted {} twice in one answer", op.actor, pair[0]), &[no]);
        }
    }
    for (one, other) in
        facts.doubles.iter().filter(|(one, other)| one.item == other.item && (one.was_next || other.was_next))
    {
        let what = format!(
            "{} was granted to {} and to {}, both with token {}",
            facts.items[one.item], facts.holders[one.holder], facts.holders[other.holder], one.token,
        );
        let ops: Vec<_> = one.told_by.into_iter().chain(other.told_by).collect();
        verdict.violate(other.upper, what, &ops);
    }
    for grant in &facts.grants {
        let Some(next) = facts.next_grant(grant).filter(|next| next.was_next) else { continue };
        let is_promised = grant.promised.is_some_and(|promised| next.upper < promised);
        if is_promised
            && !facts.is_same_actor(next.holder, grant.holder)
            && !facts.ends.may_have_ended(grant, next.upper)
        {
            let what = format!(
                "{} was granted to {} (token {}) at {}, while {} had it (token {})",
                facts.items[grant.item],
                facts.holders[next.holder],
                next.token,
                seconds(next.upper),
                facts.holders[grant.holder],
                grant.token,
            );
            let ops: Vec<_> = grant.told_by.into_iter().chain(next.told_by).collect();
            verdict.violate(next.upper, what, &ops);
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    #[test]
    fn a_released_item_is_granted_again() {
        kept(
            "0s  ada next jobs -> disk:1 tape:2 for=30s
             1s  ada fail disk token=1 -> unknown
             2s  bob next jobs -> disk:3 for=30s",
        );
    }

    #[test]
    fn a_hundredth_is_not_promised_while_clocks_drift() {
        kept(
            "fault drift 0s..9s
             0s      ada next jobs -> disk:1 for=5s
             4.96s   bob next jobs -> disk:2 for=5s",
        );
        broken(
            &["I3", "I6"],
            "fault drift 0s..9s
             0s      ada next jobs -> disk:1 for=5s
             4.90s   bob next jobs -> disk:2 for=5s",
        );
    }

    #[test]
    fn beads4657_an_item_that_two_racers_won_is_found() {
        broken(
            &["I3", "I6"],
            "0s..1s  ada next jobs -> disk:1 for=30s
             0s..1s  bob next jobs -> disk:2 for=30s",
        );
        broken(
            &["I1", "I6"],
            "0s..1s  ada next jobs -> disk:1 for=30s
             0s..1s  bob next jobs -> disk:1 for=30s",
        );
    }

    #[test]
    fn an_item_twice_in_one_answer_is_found() {
        broken(&["I6"], "0s  ada next jobs -> disk:1 disk:2 for=30s");
    }
}
