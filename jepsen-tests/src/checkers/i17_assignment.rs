//! I17. The assignment survives an expired lease and ends with a release or a terminal state. A read shows an assignee
//! that the stream has at one of the positions that the read can have seen. Without a stream: after a grant with
//! nothing since that could change it, the item is assigned to its holder, even after the lease expired; and a
//! completed item has no assignee.

use super::facts::{Facts, ItemNo, OpNo};
use super::standing::{possible, standings};
use super::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros, Outcome};

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let any_next = facts
        .history
        .operations
        .iter()
        .filter(|op| matches!(op.asked, Asked::Next { .. }) && op.outcome == Outcome::Unknown);
    let first_open_next = any_next.map(|op| op.invoked).min();
    let mut after_lapse = 0_u64;
    for item in 0..facts.items.len() {
        let standings = standings(facts, item);
        for no in &facts.of_item[item] {
            let op = facts.op(*no);
            let shown = op.answered().and_then(|answered| answered.item.as_ref());
            let (Asked::Read { .. }, Some(shown), Some(completed)) = (&op.asked, shown, op.completed) else { continue };
            let possible = possible(facts, item, &standings, (op.invoked, completed));
            let assignees: Vec<_> = possible.iter().map(|standing| standing.assignee).collect();
            if assignees.is_empty() || assignees.contains(&None) {
                continue;
            }
            verdict.fact();
            after_lapse += u64::from(possible.iter().all(|standing| standing.has_lapsed));
            if !assignees.contains(&Some(shown.assignee.as_deref())) {
                let what = format!(
                    "a read of {} at {} shows the assignee {}; according to the events it is {}",
                    facts.items[item],
                    seconds(op.invoked),
                    whose(shown.assignee.as_deref()),
                    whose(assignees[0].flatten()),
                );
                verdict.violate(op.invoked, what, &[*no]);
            }
        }
        after_lapse += by_answers(facts, item, first_open_next, &mut verdict);
    }
    verdict.notes.push(format!("{after_lapse} of them after an expired lease"));
    verdict
}

fn whose(assignee: Option<&str>) -> &str {
    assignee.unwrap_or("nobody")
}

/// Goes through the operations of an item in the order of time; the assignee is known only while no open operation
/// could change it.
fn by_answers(facts: &Facts<'_>, item: ItemNo, first_open_next: Option<Micros>, verdict: &mut Verdict) -> u64 {
    let mut after_lapse = 0;
    // The assignee, since when, and the lease that caused it.
    let mut known: Option<(Option<&str>, Micros, Option<u64>, OpNo)> = None;
    // The time until which a requested operation may still take effect.
    let mut open_until: Option<Micros> = None;
    for no in facts.of_item[item].iter().copied() {
        let op = facts.op(no);
        if let Asked::Read { .. } = op.asked {
            let shown = op.answered().and_then(|answered| answered.item.as_ref());
            let (Some(shown), Some((assignee, since, token, by))) = (shown, known) else { continue };
            let completed = op.completed.unwrap_or(Micros::MAX);
            let is_sure = since < op.invoked
                && open_until <= Some(since)
                && first_open_next.is_none_or(|first| first > completed);
            // An operation that begins before this read ends may change it as well.
            let moved = || {
                let behind = facts.of_item[item].partition_point(|other| facts.op(*other).invoked < op.invoked);
                let later = facts.of_item[item][behind..].iter().copied();
                later.take_while(|other| facts.op(*other).invoked <= completed).any(|other| moves(facts, other))
            };
            if !is_sure || moved() {
                continue;
            }
            verdict.fact();
            let lease = token.and_then(|token| facts.grant(token));
            after_lapse += u64::from(lease.and_then(|lease| lease.promised).is_some_and(|until| until < op.invoked));
            if shown.assignee.as_deref() != assignee {
                let what = format!(
                    "a read of {} at {} shows the assignee {}, but since {} it is {}",
                    facts.items[item],
                    seconds(op.invoked),
                    whose(shown.assignee.as_deref()),
                    seconds(since),
                    whose(assignee),
                );
                verdict.violate(op.invoked, what, &[by, no]);
            }
            continue;
        }
        if !moves(facts, no) {
            continue;
        }
        let end = facts.end(no).unwrap_or(Micros::MAX);
        let is_alone = open_until < Some(facts.begin(no));
        open_until = open_until.max(Some(end));
        let became = match (&op.asked, op.answered()) {
            (Asked::Claim { .. } | Asked::Next { .. }, Some(answered)) => answered
                .grants
                .iter()
                .find(|granted| granted.item == facts.items[item])
                .map(|granted| (Some(op.actor.as_str()), Some(granted.token))),
            (Asked::Complete { .. }, Some(_)) => Some((None, None)),
            (Asked::Assign { to, .. }, Some(_)) => Some((Some(to.as_str()), None)),
            _ => None,
        };
        known = became.filter(|_| is_alone).map(|(assignee, token)| (assignee, end, token, no));
    }
    after_lapse
}

/// It may have changed the assignment, or may still do so.
fn moves(facts: &Facts<'_>, no: OpNo) -> bool {
    let op = facts.op(no);
    let is_still = matches!(
        op.asked,
        Asked::Create { .. }
            | Asked::Read { .. }
            | Asked::ReadLocally { .. }
            | Asked::Line { .. }
            | Asked::Update { .. }
            | Asked::Write { .. }
            | Asked::Renew { .. }
            | Asked::Extend { .. }
            | Asked::Withdraw { .. }
    );
    // A waiting claim may be granted at any time from then on.
    !is_still && facts.may_have_happened(no)
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of, kept};

    #[test]
    fn an_item_stays_assigned_after_its_lease_expires() {
        let story = "
            0s   ada claim disk -> token=1 for=5s
            9s   eve read disk -> state=stale assignee=ada";
        assert_eq!(facts_of("I17", story), 1);
    }

    #[test]
    fn a_release_of_unknown_outcome_may_have_ended_it() {
        kept(
            "0s   ada claim disk -> token=1 for=5s
             1s   ada release disk token=1 -> unknown
             9s   eve read disk -> state=queued",
        );
    }

    #[test]
    fn an_assignment_lost_at_the_expiry_is_found() {
        broken(
            &["I17"],
            "0s   ada claim disk -> token=1 for=5s
             9s   eve read disk -> state=stale",
        );
    }

    #[test]
    fn an_assignment_after_the_completion_is_found() {
        broken(
            &["I17"],
            "0s   ada claim disk -> token=1 for=5s
             1s   ada complete disk token=1 -> ok
             9s   eve read disk -> state=complete assignee=ada",
        );
    }

    #[test]
    fn the_stream_shows_the_assignee() {
        let story = "
            1s   sees 0.1 created disk
            1s   sees 0.2 granted disk ada token=1
            2s   sees 0.3 expired disk ada token=1
            3s   eve create tape -> rev=0.4 did
            5s   eve create book -> rev=0.5 did
            6s   sees 0.4 created tape
            6s   sees 0.5 created book";
        kept(&format!("{story}\n4s eve read disk -> state=stale assignee=ada rev=0.1"));
        broken(&["I17"], &format!("{story}\n4s eve read disk -> state=stale rev=0.1"));
    }
}
