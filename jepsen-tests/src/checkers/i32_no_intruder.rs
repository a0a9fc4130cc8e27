//! I32. A certificate of the CA alone does not make a node a member: a node that asks to join without admission by an
//! operator does not become a member and learns nothing about the cluster.

use super::facts::Facts;
use super::verdict::Verdict;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(soak) = &facts.history.soak else { return verdict };
    for intruder in &soak.intruders {
        verdict.fact();
        let what = match (intruder.was_member, intruder.was_let_in) {
            (true, _) => "became a member",
            (false, true) => "learned about the cluster",
            (false, false) => continue,
        };
        let what = format!("node {}, with a certificate for {}, {what}", intruder.node, intruder.certificate);
        verdict.violate(intruder.ended, what, &[]);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of};

    #[test]
    fn a_rejected_node_is_no_violation() {
        assert_eq!(facts_of("I32", "phase 0s..9s flood\nintruder 9000 1s..5s\nintruder 9001 5s..9s"), 2);
    }

    #[test]
    fn an_admitted_intruder_is_found() {
        broken(&["I32"], "phase 0s..9s flood\nintruder 9000 1s..5s member");
        broken(&["I32"], "phase 0s..9s flood\nintruder 9000 1s..5s told");
    }
}
