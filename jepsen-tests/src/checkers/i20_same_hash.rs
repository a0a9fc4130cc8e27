//! I20. Nodes that applied the same entries have the same hash.

use super::facts::Facts;
use super::verdict::Verdict;
use std::collections::BTreeMap;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(end) = &facts.history.end else { return verdict };
    let mut by_index: BTreeMap<u64, Vec<(u32, &str)>> = BTreeMap::new();
    for (node, index, hash) in &end.hashes {
        by_index.entry(*index).or_default().push((*node, hash));
    }
    for (index, nodes) in by_index {
        // A single node has nothing to compare with.
        verdict.facts += nodes.len() as u64 - 1;
        if nodes.iter().any(|(_, hash)| *hash != nodes[0].1) {
            let each: Vec<_> = nodes.iter().map(|(node, hash)| format!("node {node}: {hash}")).collect();
            verdict.violate(end.healed, format!("at index {index} the hashes differ: {}", each.join(", ")), &[]);
        }
    }
    for words in end.deaths.iter().filter(|words| words.contains("hash")) {
        verdict.violate(end.healed, format!("a node stopped because of its hash: {words}"), &[]);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of};

    #[test]
    fn nodes_that_agree() {
        let story = "
            end healed=9s served=9s
            hash 1 100 aa
            hash 2 100 aa
            hash 3 100 aa";
        assert_eq!(facts_of("I20", story), 2);
    }

    #[test]
    fn a_single_node_at_an_index_proves_nothing() {
        assert_eq!(facts_of("I20", "end healed=9s served=9s\nhash 1 100 aa\nhash 2 101 bb"), 0);
    }

    #[test]
    fn a_node_that_differs_is_found() {
        broken(&["I20"], "end healed=9s served=9s\nhash 1 100 aa\nhash 2 100 bb");
        broken(&["I20"], "end healed=9s served=9s\ndeath node 2: its state hash differs from the others'");
    }
}
