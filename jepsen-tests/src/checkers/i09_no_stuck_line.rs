//! I9. No line is stuck: no waiter in a line sees its item free. No waiter is granted an item if it is not in line, or
//! has not polled for longer than a place lives.

use super::facts::{Facts, ItemNo};
use super::line::{Break, Lines};
use super::slack::Slack;
use super::verdict::{Verdict, seconds};
use super::waits::waits;
use crate::history::{Asked, Micros, Outcome};
use std::collections::HashMap;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let lines = Lines::new(facts);
    verdict.facts += lines.grants;
    for (at, _) in lines.breaks.iter().filter(|(_, broken)| *broken == Break::NotInLine) {
        let event = &facts.stream.events[*at];
        let what = format!(
            "event {}: {} was granted {} from a line, but was not in it",
            event.name(),
            event.holder.map_or_else(String::new, |holder| facts.holders[holder].to_string()),
            event.item.map_or("", |item| facts.items[item]),
        );
        verdict.violate_with(event.seen, what, &[], vec![event.name()]);
    }
    dead_waiters(facts, &lines, &mut verdict);
    for item in 0..facts.items.len() {
        stuck(facts, item, &mut verdict);
    }
    verdict
}

fn dead_waiters(facts: &Facts<'_>, lines: &Lines, verdict: &mut Verdict) {
    let slack = Slack::new(facts.history);
    // The claims of each waiter by the time of their request, with the latest end of all so far; open ones never end.
    let mut polls: HashMap<(ItemNo, usize), Vec<(Micros, Micros)>> = HashMap::new();
    if !lines.from_line.is_empty() {
        for (no, op) in facts.ops() {
            if let (Asked::Claim { .. }, Some(item)) = (&op.asked, facts.item_of[no])
                && op.outcome != Outcome::Unavailable
            {
                let all = polls.entry((item, facts.holder_of[no])).or_default();
                let end = facts.end(no).unwrap_or(Micros::MAX).max(all.last().map_or(0, |(_, latest)| *latest));
                all.push((op.invoked, end));
            }
        }
    }
    for at in &lines.from_line {
        let event = &facts.stream.events[*at];
        let (Some(item), Some(holder)) = (event.item, event.holder) else { continue };
        let Some(all) = polls.get(&(item, holder)) else { continue };
        let Some(last) = all.partition_point(|(asked, _)| *asked <= event.seen).checked_sub(1) else { continue };
        let (_, latest) = all[last];
        verdict.fact();
        let lives = facts.promises.place_is_over(latest).saturating_add(slack.between(latest, event.seen));
        let certain = facts.stream.not_before[*at];
        if certain > lives {
            let what = format!(
                "event {}: {} was granted {} after {}, but polled for the last time before {}",
                event.name(),
                facts.holders[holder],
                facts.items[item],
                seconds(certain),
                seconds(latest),
            );
            verdict.violate_with(certain, what, &[], vec![event.name()]);
        }
    }
}

/// A read between two polls of a waiter shows the item held by somebody, unless something prevents its grant.
fn stuck(facts: &Facts<'_>, item: ItemNo, verdict: &mut Verdict) {
    let mut waits = waits(facts, item);
    let has_bar = |set: &crate::history::QueueSet| set.concurrency.is_some() || set.lock_delay_ms > 0;
    let may_be_barred = facts.queue_of(item).map_or(facts.history.about.queues.iter().any(has_bar), has_bar);
    if waits.is_empty() || may_be_barred || facts.has_event(item, &["paused", "drain_started"]) {
        return;
    }
    for at in 1..waits.len() {
        if waits[at - 1].until > waits[at].until {
            let (joined, longest) = (waits[at].joined, waits[at - 1].clone());
            waits[at] = super::waits::Wait { joined, ..longest };
        }
    }
    for no in &facts.of_item[item] {
        let op = facts.op(*no);
        let shown = op.answered().and_then(|answered| answered.item.as_ref());
        let (Some(shown), Some(completed)) = (shown, op.completed) else { continue };
        let Some(before) = waits.partition_point(|wait| wait.joined < op.invoked).checked_sub(1) else { continue };
        let wait = &waits[before];
        if wait.until <= completed {
            continue;
        }
        verdict.fact();
        if shown.holder.is_none() && matches!(shown.state.as_str(), "queued" | "stale") {
            let what = format!(
                "{} is free ({}) at {}, but {} waits in its line",
                facts.items[item],
                shown.state,
                seconds(op.invoked),
                facts.holders[wait.holder],
            );
            verdict.violate(op.invoked, what, &[wait.first, *no, wait.last]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of, kept};

    #[test]
    fn a_line_that_moves_is_not_stuck() {
        let story = "
            0s  ada claim disk -> token=1 for=60s
            1s  bob claim disk wait id=b -> place=0
            2s  eve read disk -> state=active holder=ada assignee=ada
            3s  bob claim disk wait id=b again -> place=0
            4s  ada release disk token=1 -> did
            5s  eve read disk -> state=active holder=bob
            6s  bob claim disk wait id=b again -> token=2 for=10s";
        assert_eq!(facts_of("I9", story), 2);
    }

    #[test]
    fn an_item_that_is_free_while_someone_waits_is_found() {
        broken(
            &["I9"],
            "0s  ada claim disk -> token=1 for=60s
             1s  bob claim disk wait id=b -> place=0
             2s  ada release disk token=1 -> did
             3s  eve read disk -> state=queued
             4s  bob claim disk wait id=b again -> place=0",
        );
    }

    #[test]
    fn a_full_queue_may_keep_an_item_free() {
        kept(
            "queue jobs concurrency=1
             0s  eve create disk -> ok
             0s  ada claim disk -> token=1 for=60s
             1s  bob claim disk wait id=b -> place=0
             2s  ada release disk token=1 -> did
             3s  eve read disk -> state=queued
             4s  bob claim disk wait id=b again -> place=0",
        );
    }

    #[test]
    fn a_grant_to_a_withdrawn_claim_is_found() {
        broken(
            &["I9"],
            "1s  sees 0.1 created disk
             1s  sees 0.2 granted disk ada token=1
             1s  sees 0.3 joined disk bob place=0
             1s  sees 0.4 left_line disk bob
             1s  sees 0.5 released disk ada token=1
             1s  sees 0.6 granted disk bob token=2 line",
        );
    }

    #[test]
    fn etcd11456_a_grant_to_a_dead_waiter_is_found() {
        broken(
            &["I9"],
            "busy 0s..100s
             0s  ada claim disk -> token=1 for=100s
             1s  bob claim disk wait id=b -> place=0
             90s ada release disk token=1 -> did
             90s eve create tape -> rev=0.5 did
             1s  sees 0.1 created disk
             1s  sees 0.2 granted disk ada token=1
             1s  sees 0.3 joined disk bob place=0
             91s sees 0.4 released disk ada token=1
             91s sees 0.5 created tape
             91s sees 0.6 granted disk bob token=2 line",
        );
    }
}
