//! I21. Caps hold: a queue's concurrency, an actor's leases in a queue, the length of a line. The stream counts them
//! exactly; with answers only, leases that were certainly held at the same time are counted.

use super::facts::{Facts, HolderNo};
use super::line::Lines;
use super::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros, QueueSet};
use std::collections::HashMap;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for set in &facts.history.about.queues {
        if set.concurrency.is_some() || set.max_leases.is_some() {
            in_stream(facts, set, &mut verdict);
            by_answers(facts, set, &mut verdict);
        }
        if let Some(max) = set.line_max {
            lines(facts, set, max, &mut verdict);
        }
    }
    verdict
}

fn in_stream(facts: &Facts<'_>, set: &QueueSet, verdict: &mut Verdict) {
    let stream = &facts.stream;
    // The count is complete only from the very first event on.
    if stream.events.first().is_none_or(|first| first.number.1 != 1) || stream.part.last() != Some(&0) {
        return;
    }
    let mut held: HashMap<u64, HolderNo> = HashMap::new();
    let mut taken: HashMap<&str, u32> = HashMap::new();
    let mut is_taken: HashMap<u64, bool> = HashMap::new();
    for (at, event) in stream.events.iter().enumerate() {
        if event.event.queue.as_ref().map(|queue| queue.as_str()) != Some(&set.queue) {
            continue;
        }
        let mut grew = false;
        if let ("granted", Some(token), Some(holder)) = (event.kind, event.token, event.holder) {
            held.insert(token, holder);
            is_taken.insert(token, !event.is_from_line());
            *taken.entry(facts.holders[holder].actor).or_default() += u32::from(!event.is_from_line());
            grew = true;
        }
        if let ("picked_up", Some(token), Some(holder)) = (event.kind, event.token, event.holder)
            && is_taken.insert(token, true) == Some(false)
        {
            *taken.entry(facts.holders[holder].actor).or_default() += 1;
            grew = true;
        }
        if let Some(token) = event.ended()
            && let Some(holder) = held.remove(&token)
            && is_taken.remove(&token) == Some(true)
        {
            let count = taken.entry(facts.holders[holder].actor).or_default();
            *count = count.saturating_sub(1);
        }
        // A lease that is ended in favour of a new one ends in the same step, but its event comes after the grant.
        let is_last = stream.events.get(at + 1).is_none_or(|next| next.event.at_ms != event.event.at_ms);
        if !grew && !is_last {
            continue;
        }
        verdict.facts += u64::from(grew);
        if !is_last {
            continue;
        }
        if let Some(max) = set.concurrency.filter(|max| held.len() > *max as usize) {
            let what = format!(
                "after event {} {} leases of {} are held; the limit is {max}",
                event.name(),
                held.len(),
                set.queue
            );
            verdict.violate_with(event.seen, what, &[], vec![event.name()]);
        }
        let holder = event.holder.map(|holder| facts.holders[holder].actor);
        let count = holder.and_then(|actor| taken.get(actor)).copied().unwrap_or(0);
        if let Some(max) = set.max_leases.filter(|max| count > *max) {
            let who = holder.unwrap_or_default();
            let what =
                format!("after event {} {who} has {count} leases of {}; the limit is {max}", event.name(), set.queue);
            verdict.violate_with(event.seen, what, &[], vec![event.name()]);
        }
    }
}

/// A lease is certainly held from its answer until its promised end, or until somebody requested its end.
fn by_answers(facts: &Facts<'_>, set: &QueueSet, verdict: &mut Verdict) {
    let mut edges: Vec<(Micros, bool, usize)> = Vec::new();
    for (no, grant) in facts.grants.iter().enumerate() {
        let is_of = facts.queue_of(grant.item).is_some_and(|queue| queue.queue == set.queue);
        let (true, true, Some(promised)) = (is_of, grant.is_answered, grant.promised) else { continue };
        let told = grant.told_by.and_then(|no| facts.op(no).completed).unwrap_or(Micros::MAX);
        let until = promised.min(facts.ends.asked_to_end(grant).unwrap_or(Micros::MAX));
        if facts.ends.may_have_been_revoked(grant, until) {
            continue;
        }
        let ended = facts.ends.in_stream(grant.token).map(|at| &facts.stream.events[at]);
        if ended.is_some_and(|event| !matches!(event.kind, "expired" | "released" | "completed" | "failed")) {
            continue;
        }
        if told < until {
            edges.extend([(told, true, no), (until, false, no)]);
        }
    }
    edges.sort_unstable();
    let mut held: usize = 0;
    let mut of_actor: HashMap<&str, u32> = HashMap::new();
    for (at, begins, no) in edges {
        let grant = &facts.grants[no];
        let actor = facts.holders[grant.holder].actor;
        let count = of_actor.entry(actor).or_default();
        if !begins {
            held -= 1;
            *count -= 1;
            continue;
        }
        held += 1;
        *count += 1;
        verdict.fact();
        if let Some(max) = set.concurrency.filter(|max| held > *max as usize) {
            let what = format!("at {} {held} leases of {} are held; the limit is {max}", seconds(at), set.queue);
            verdict.violate(at, what, grant.told_by.as_slice());
        }
        if let Some(max) = set.max_leases.filter(|max| *count > *max) {
            let what = format!("at {} {actor} has {count} leases of {}; the limit is {max}", seconds(at), set.queue);
            verdict.violate(at, what, grant.told_by.as_slice());
        }
    }
}

fn lines(facts: &Facts<'_>, set: &QueueSet, max: u32, verdict: &mut Verdict) {
    verdict.facts += Lines::new(facts).joined;
    for event in facts.stream.events.iter().filter(|event| event.kind == "joined") {
        let place = event.event.what.as_ref().and_then(|what| what.place);
        let is_of = event.event.queue.as_ref().map(|queue| queue.as_str()) == Some(&set.queue);
        if is_of && place.is_some_and(|place| place >= max) {
            let what = format!(
                "event {}: a claim joined a line of {} that already had the maximum length {max}",
                event.name(),
                set.queue
            );
            verdict.violate_with(event.seen, what, &[], vec![event.name()]);
        }
    }
    for (no, op) in facts.ops().filter(|(_, op)| matches!(op.asked, Asked::Line { .. } | Asked::Claim { .. })) {
        let is_of = || facts.item_of[no].and_then(|item| facts.queue_of(item)).is_some_and(|of| of.queue == set.queue);
        let Some(answered) = op.answered() else { continue };
        let length = answered.line.as_ref().map(Vec::len).or(answered.place.map(|place| place as usize + 1));
        let Some(length) = length.filter(|_| is_of()) else { continue };
        verdict.fact();
        if length > max as usize {
            let what = format!("a line of {} has length {length}; the limit is {max}", set.queue);
            verdict.violate(op.invoked, what, &[no]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    const ITEMS: &str = "
        0s  eve create disk queue=jobs -> ok
        0s  eve create tape queue=jobs -> ok";

    #[test]
    fn leases_that_may_have_ended_are_not_counted() {
        kept(&format!(
            "queue jobs concurrency=1
             {ITEMS}
             1s  ada claim disk -> token=1 for=30s
             2s  ada release disk token=1 -> unknown
             3s  bob claim tape -> token=2 for=30s"
        ));
    }

    #[test]
    fn more_leases_than_a_queues_cap_are_found() {
        broken(
            &["I21"],
            &format!(
                "queue jobs concurrency=1
                 {ITEMS}
                 1s  ada claim disk -> token=1 for=30s
                 3s  bob claim tape -> token=2 for=30s"
            ),
        );
        broken(
            &["I21"],
            "queue jobs concurrency=1
             1s  sees 0.1 granted disk ada token=1 queue=jobs
             1s  sees 0.2 granted tape bob token=2 queue=jobs",
        );
    }

    #[test]
    fn a_lease_that_may_have_ended_early_by_drift_is_not_counted() {
        let story = |fault: &str| {
            format!(
                "queue jobs concurrency=1
                 {fault}
                 {ITEMS}
                 1s      ada claim disk -> token=1 for=5s
                 5.97s   bob claim tape -> token=2 for=5s"
            )
        };
        kept(&story("fault drift 0s..9s"));
        broken(&["I21"], &story("fault pause 0s..9s"));
    }

    #[test]
    fn more_leases_than_an_actors_cap_are_found() {
        broken(
            &["I21"],
            &format!(
                "queue jobs max_leases=1
                 {ITEMS}
                 1s  ada claim disk -> token=1 for=30s
                 3s  ada claim tape -> token=2 for=30s"
            ),
        );
    }

    #[test]
    fn a_lease_evicted_for_a_new_one_ends_in_the_same_step() {
        kept(
            "queue jobs max_leases=1
             1s  sees 0.1 granted disk ada token=1 queue=jobs cluster=1s
             1s  sees 0.2 granted tape ada token=2 queue=jobs cluster=2s
             1s  sees 0.3 released disk ada token=1 queue=jobs cluster=2s",
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_found() {
        broken(
            &["I21"],
            &format!(
                "queue jobs line_max=1
                 {ITEMS}
                 1s  eve line disk -> line=bob,cid"
            ),
        );
        broken(&["I21"], "queue jobs line_max=1\n1s sees 0.1 joined disk ada place=1 queue=jobs");
    }
}
