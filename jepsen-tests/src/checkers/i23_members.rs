//! I23. The members are what the acknowledged changes say: an admitted node is a member, a node that was given a vote
//! has it, a node without a vote does not get one by itself, and a removed node stays out. A removal of unknown outcome
//! may have happened at any time after its request; other changes of unknown outcome show nothing.

use super::facts::Facts;
use super::verdict::{Verdict, seconds};
use crate::history::{Change, ChangeOf, SeenMembers};

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let members = &facts.history.members;
    for change in &members.changes {
        let Some(answered) = change.answered else { continue };
        let removal = |other: &&Change| other.node == change.node && other.what == ChangeOf::Remove;
        let goes = members.changes.iter().filter(removal).map(|removal| removal.asked).min();
        for seen in members.seen.iter().filter(|seen| seen.asked > answered) {
            if change.what != ChangeOf::Remove && goes.is_some_and(|asked| asked <= seen.answered) {
                continue;
            }
            verdict.fact();
            if let Some(what) = contradiction(change, seen) {
                let what = format!("node {} {what} at {}", change.node, seconds(seen.answered));
                verdict.violate(seen.answered, what, &[]);
                // Later reads show the same.
                break;
            }
        }
    }
    verdict
}

fn contradiction(change: &Change, seen: &SeenMembers) -> Option<String> {
    let votes = seen.voters.contains(&change.node);
    let follows = votes || seen.learners.contains(&change.node);
    let by = seconds(change.answered.unwrap_or(change.asked));
    match change.what {
        ChangeOf::Join if !follows => {
            Some(format!("was admitted by {by} and nobody asked for its removal, but it was not a member"))
        }
        ChangeOf::Vote if !votes => {
            Some(format!("had a vote by {by} and nobody asked for its removal, but it had none"))
        }
        ChangeOf::Learn if votes => {
            Some(format!("followed without a vote by {by} and nobody promoted it, but it had one"))
        }
        ChangeOf::Learn if !follows => {
            Some(format!("followed without a vote by {by} and nobody asked for its removal, but it was not a member"))
        }
        ChangeOf::Remove if follows => Some(format!("was removed by {by}, but it was a member again")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of, kept};

    #[test]
    fn members_that_match_acknowledged_changes_are_accepted() {
        let story = "
            member 1s..2s join 4
            member 2s..3s vote 4
            member 5s..6s remove 2
            members 7s..8s voters=1,3,4
            member 9s..10s remove 4
            members 11s..12s voters=1,3 learners=5";
        assert_eq!(facts_of("I23", story), 5);
    }

    #[test]
    fn a_change_of_unknown_outcome_may_have_happened_or_not() {
        kept(
            "member 1s vote 4
             member 1s..2s vote 5
             members 7s..8s voters=1,2,3,5
             member 9s remove 5
             members 10s..11s voters=1,2,3",
        );
    }

    #[test]
    fn an_admitted_node_that_is_not_a_member_is_found() {
        broken(&["I23"], "member 1s..2s join 4\nmembers 7s..8s voters=1,2,3");
    }

    #[test]
    fn a_node_that_lost_its_vote_is_found() {
        broken(&["I23"], "member 1s..2s vote 4\nmembers 7s..8s voters=1,2,3 learners=4");
        // It was removed, but only later.
        broken(&["I23"], "member 1s..2s vote 4\nmembers 7s..8s voters=1,2,3\nmember 9s..10s remove 4");
    }

    #[test]
    fn a_learner_with_a_vote_or_missing_is_found() {
        let learns = "member 1s..2s learn 4";
        assert_eq!(facts_of("I23", &format!("{learns}\nmembers 7s..8s voters=1,2,3 learners=4")), 1);
        broken(&["I23"], &format!("{learns}\nmembers 7s..8s voters=1,2,3,4"));
        broken(&["I23"], &format!("{learns}\nmembers 7s..8s voters=1,2,3"));
    }

    #[test]
    fn a_removed_node_that_came_back_is_found() {
        broken(&["I23"], "member 1s..2s remove 3\nmembers 7s..8s voters=1,2 learners=3");
    }
}
