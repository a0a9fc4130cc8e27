//! I26. Waiting workers are woken: a parked `next` is answered soon after an item of its queue becomes free, also at
//! the end of a lock delay. Checked while no fault is active and the leader stays, in queues without caps whose items
//! nothing else can block. On an overloaded machine a wake-up may take longer by the time of the slowest command
//! meanwhile.

use super::facts::{Facts, Grant, ItemNo, OpNo};
use super::i04_bounded_late::Expiries;
use super::slack::Slack;
use super::spans::Spans;
use super::verdict::{Measured, Verdict, seconds};
use crate::history::{Asked, Micros, Outcome};
use std::collections::HashMap;

/// From when an item is certainly free to the answer.
const WITHIN: Micros = 3_000_000;
/// From a deadline to the entry that handles it.
const WORKED_OFF: Micros = 1_000_000;
/// A `next` of unknown outcome may take effect for this long, and its lease adds a second.
const OPEN_FOR: Micros = 60_000_000;
/// The time after a fault until its effects are over.
const CALM_AFTER: Micros = 5_000_000;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut took = Vec::new();
    let mut parked: HashMap<&str, Vec<OpNo>> = HashMap::new();
    let mut open: HashMap<&str, Vec<(Micros, Micros)>> = HashMap::new();
    for (no, op) in facts.ops() {
        let Asked::Next { queue, wait_ms, .. } = &op.asked else { continue };
        if op.outcome == Outcome::Unknown {
            open.entry(queue).or_default().push((op.invoked, op.invoked.saturating_add(OPEN_FOR)));
        } else if wait_ms.is_some() && op.answered().is_some() {
            parked.entry(queue).or_default().push(no);
        }
    }
    let open: HashMap<&str, Spans> = open.into_iter().map(|(queue, spans)| (queue, Spans::new(spans))).collect();
    if parked.is_empty() {
        return verdict;
    }
    let (slack, expiries) = (Slack::new(facts.history), Expiries::new(facts));
    for item in 0..facts.items.len() {
        let Some(set) = facts.queue_of(item).filter(|set| set.concurrency.is_none() && set.max_leases.is_none()) else {
            continue;
        };
        let Some(waiting) = parked.get(set.queue.as_str()) else { continue };
        // A worker without an answer may have the item.
        let is_sure = |from: Micros, to: Micros| open.get(set.queue.as_str()).is_none_or(|open| open.is_free(from, to));
        for grant in facts.grants_of[item].iter().map(|at| &facts.grants[*at]) {
            let next = facts.next_grant(grant);
            if facts.ends.may_have_ended(grant, Micros::MAX) {
                continue;
            }
            let Some(expiry) = expiries.latest(facts, grant, Micros::MAX) else { continue };
            let free = expiry + set.lock_delay_ms * 1_000 + WORKED_OFF;
            let waiting: Vec<OpNo> = waiting
                .iter()
                .copied()
                .filter(|no| is_sure(facts.op(*no).invoked, facts.op(*no).completed.unwrap_or(Micros::MAX)))
                .collect();
            judge(facts, &slack, item, (free, next), &waiting, &mut took, &mut verdict);
        }
    }
    verdict
        .measured
        .push(Measured { name: "from the end of a lease and its delay to the answer".into(), millis: took });
    verdict
}

fn judge(
    facts: &Facts<'_>,
    slack: &Slack,
    item: ItemNo,
    (free, next): (Micros, Option<&Grant>),
    waiting: &[OpNo],
    took: &mut Vec<i64>,
    verdict: &mut Verdict,
) {
    for no in waiting {
        let op = facts.op(*no);
        let Some(completed) = op.completed.filter(|_| op.invoked < free) else { continue };
        let is_its = next.is_some_and(|next| next.told_by == Some(*no));
        // Another worker may have had it before.
        let is_free_until = next.map_or(Micros::MAX, |next| if is_its { Micros::MAX } else { next.lower });
        let late = free.saturating_add(WITHIN);
        if completed <= free.saturating_sub(WORKED_OFF) || is_free_until <= late {
            continue;
        }
        if !slack.is_calm(op.invoked.saturating_sub(CALM_AFTER), completed)
            || slack.changes_within(op.invoked.saturating_sub(CALM_AFTER), completed) > 0
        {
            continue;
        }
        if is_its {
            verdict.fact();
            took.push((completed.cast_signed() - free.cast_signed()) / 1_000);
        }
        if completed > late && completed > late.saturating_add(slowest_command(facts, free, completed)) {
            let what = format!(
                "{} waited for work of {} from {} on; {} was free by {}, but the answer came at {}",
                op.actor,
                facts.queue_of(item).map_or("?", |set| set.queue.as_str()),
                seconds(op.invoked),
                facts.items[item],
                seconds(free),
                seconds(completed),
            );
            verdict.violate(completed, what, &[*no]);
        }
    }
}

/// The duration of the slowest command between two moments that did not wait for anything.
fn slowest_command(facts: &Facts<'_>, from: Micros, to: Micros) -> Micros {
    let took = facts.ops().filter_map(|(_, op)| {
        let waits = match &op.asked {
            Asked::Next { wait_ms, .. } => wait_ms.is_some(),
            Asked::Claim { waits, .. } => *waits,
            _ => false,
        };
        let completed = op.completed.filter(|completed| !waits && op.invoked < to && *completed > from)?;
        op.answered().map(|_| completed - op.invoked)
    });
    took.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, facts_of, kept};

    const HELD: &str = "
        queue jobs lock_delay=2s
        0s      eve create disk -> ok
        0s      ada next jobs -> disk:1 for=1s";

    #[test]
    fn a_worker_woken_at_the_end_of_the_delay_is_accepted() {
        let story = format!("{HELD}\n1s..3.5s  bob next jobs wait=20s -> disk:2 for=1s");
        assert_eq!(facts_of("I26", &story), 1);
    }

    #[test]
    fn a_worker_answered_only_at_its_time_limit_is_found() {
        broken(&["I26"], &format!("{HELD}\n1s..20s  bob next jobs wait=19s -> disk:2 for=1s"));
        broken(&["I26"], &format!("{HELD}\n1s..20s  bob next jobs wait=19s -> "));
    }

    #[test]
    fn an_overloaded_machine_may_take_longer() {
        let story = |took: &str| {
            format!(
                "{HELD}
                 4s..{took} eve create tape -> ok
                 1s..9s  bob next jobs wait=19s -> disk:2 for=1s"
            )
        };
        kept(&story("8s"));
        broken(&["I26"], &story("5s"));
    }

    #[test]
    fn another_holder_or_an_active_fault_excuses_the_wait() {
        kept(&format!(
            "{HELD}
             1s..20s  bob next jobs wait=19s ->
             3s..4s   cid next jobs wait=19s -> disk:2 for=60s"
        ));
        kept(&format!(
            "{HELD}
             2s       cid next jobs wait=19s -> unknown
             1s..20s  bob next jobs wait=19s ->"
        ));
        kept(&format!(
            "{HELD}
             fault pause 5s..6s
             1s..20s  bob next jobs wait=19s -> disk:2 for=1s"
        ));
    }
}
