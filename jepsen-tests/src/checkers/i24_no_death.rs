//! I24. No node exits by itself, unless its disk was made full or damaged, or it was removed.

use super::facts::Facts;
use super::verdict::Verdict;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict { facts: u64::from(facts.history.about.nodes), ..Verdict::default() };
    for death in &facts.history.deaths {
        verdict.violate(death.at, death.what.clone(), &[]);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::broken;

    #[test]
    fn a_node_that_exited_by_itself_is_found() {
        broken(&["I24"], "dies 5s node 2");
    }
}
