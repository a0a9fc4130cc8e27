//! I19. Created = live + terminal + purged, in the cluster's counts, in its items, and in its events.

use super::facts::Facts;
use super::verdict::Verdict;
use crate::history::Asked;
use std::collections::HashSet;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(end) = &facts.history.end else { return verdict };
    let mut equal = |one: (&str, u64), other: (&str, u64)| {
        verdict.facts += 1;
        if one.1 != other.1 {
            verdict.violate(end.healed, format!("{} are {}, but {} are {}", one.0, one.1, other.0, other.1), &[]);
        }
    };
    if end.created > 0 || end.live + end.terminal + end.purged > 0 {
        equal(("created items", end.created), ("live, terminal and purged", end.live + end.terminal + end.purged));
    }
    // Items can only be counted if the list is complete.
    let is_over = |state: &str| matches!(state, "complete" | "error" | "cancelled");
    if !end.items.is_empty() && end.items.len() as u64 == end.live + end.terminal {
        let over = end.items.iter().filter(|(_, item)| is_over(&item.state)).count() as u64;
        equal(("items in a terminal state", over), ("items counted as terminal", end.terminal));
    }
    let stream = &facts.stream;
    let is_whole = stream.events.first().is_some_and(|first| first.number.1 == 1) && stream.part.last() == Some(&0);
    if is_whole {
        let count = |kind: &str| stream.events.iter().filter(|event| event.kind == kind).count() as u64;
        verdict.facts += 1;
        // The last events may not have been seen.
        if count("created") > end.created {
            let what = format!(
                "according to the events {} items were created, according to the count {}",
                count("created"),
                end.created
            );
            verdict.violate(end.healed, what, &[]);
        }
    }
    let created = facts.ops().filter(|(_, op)| {
        matches!(op.asked, Asked::Create { .. }) && op.answered().is_some_and(|answered| answered.did == Some(true))
    });
    let acknowledged = created.filter_map(|(no, _)| facts.item_of[no]).collect::<HashSet<_>>().len() as u64;
    if end.created > 0 {
        verdict.fact();
        if acknowledged > end.created {
            let what = format!("{acknowledged} creates were acknowledged, but {} items were created", end.created);
            verdict.violate(end.healed, what, &[]);
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of};

    #[test]
    fn every_created_item_is_accounted_for() {
        let story = "
            end healed=9s served=9s created=3 live=1 terminal=1 purged=1
            end item disk state=queued
            end item tape state=complete";
        assert_eq!(facts_of("I19", story), 3);
    }

    #[test]
    fn an_item_too_few_is_found() {
        broken(&["I19"], "end healed=9s served=9s created=3 live=1 terminal=1");
    }

    #[test]
    fn a_count_that_differs_from_the_items_is_found() {
        broken(
            &["I19"],
            "end healed=9s served=9s created=2 live=2
             end item disk state=queued
             end item tape state=complete",
        );
    }

    #[test]
    fn fewer_items_than_acknowledged_are_found() {
        broken(
            &["I19"],
            "1s ada create disk -> did
             1s ada create tape -> did
             end healed=9s served=9s created=1 live=1",
        );
    }
}
