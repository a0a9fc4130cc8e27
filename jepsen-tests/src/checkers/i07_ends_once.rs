//! I7. An item enters a terminal state once, with the current token; after that nothing is accepted. The one exception
//! is a late end by the holder whose lease expired, if nothing else happened since.

use super::facts::{Facts, ItemNo, OpNo};
use super::i01_mutual_exclusion::{Newest, describe};
use super::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros};

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for item in 0..facts.items.len() {
        answers(facts, item, &mut verdict);
        events(facts, item, &mut verdict);
    }
    verdict
}

fn answers(facts: &Facts<'_>, item: ItemNo, verdict: &mut Verdict) {
    let all = &facts.of_item[item];
    let is_ending = |no: &&OpNo| matches!(facts.op(**no).asked, Asked::Complete { .. } | Asked::Fail { .. });
    let endings: Vec<OpNo> =
        all.iter().filter(is_ending).filter(|no| facts.op(**no).answered().is_some()).copied().collect();
    if endings.is_empty() {
        return;
    }
    let newest = Newest::of(facts, item);
    for no in &endings {
        verdict.fact();
        let op = facts.op(*no);
        let (Asked::Complete { token, .. } | Asked::Fail { token, .. }) = &op.asked else { continue };
        if let Some((newer, by)) = newest.known_before(*token, facts.begin(*no)) {
            let what = format!(
                "{} was accepted with token {token}, although token {newer} was known since {}",
                describe(op),
                seconds(by)
            );
            let ops: Vec<_> = facts.grant(newer).and_then(|grant| grant.told_by).into_iter().chain([*no]).collect();
            verdict.violate(op.invoked, what, &ops);
        }
    }
    if facts.has_event(item, &["reopened", "retried"]) {
        return;
    }
    let mut completions: Vec<OpNo> =
        endings.into_iter().filter(|no| matches!(facts.op(*no).asked, Asked::Complete { .. })).collect();
    // Answers to retries of one request report one completion.
    completions.sort_by_key(|no| (facts.request_of[*no], facts.op(*no).invoked));
    completions.dedup_by_key(|no| facts.request_of[*no].map_or((Some(*no), None), |request| (None, Some(request))));
    completions.sort_by_key(|no| facts.op(*no).completed);
    let Some(first) = completions.first().copied() else { return };
    for other in &completions[1..] {
        let what = format!("both {} and {} were accepted", describe(facts.op(first)), describe(facts.op(*other)));
        verdict.violate(facts.op(*other).invoked, what, &[first, *other]);
    }
    let over = facts.op(first).completed.unwrap_or(Micros::MAX);
    for grant in facts.grants_of[item].iter().map(|at| &facts.grants[*at]).filter(|grant| grant.lower > over) {
        let what = format!(
            "{} was complete at {}, but was granted to {} (token {}) after {}",
            facts.items[item],
            seconds(over),
            facts.holders[grant.holder],
            grant.token,
            seconds(grant.lower),
        );
        let ops: Vec<_> = [first].into_iter().chain(grant.told_by).collect();
        verdict.violate(grant.upper, what, &ops);
    }
    for no in all.iter().filter(|no| facts.op(**no).invoked > over && facts.begin(**no) > over) {
        let op = facts.op(*no);
        let is_write =
            matches!(op.asked, Asked::Update { .. } | Asked::Renew { .. } | Asked::Extend { .. } | Asked::Fail { .. });
        if is_write && op.answered().is_some() {
            let what = format!("{} was accepted after the item was complete at {}", describe(op), seconds(over));
            verdict.violate(op.invoked, what, &[first, *no]);
        }
    }
}

fn events(facts: &Facts<'_>, item: ItemNo, verdict: &mut Verdict) {
    let stream = &facts.stream;
    let Some(places) = stream.of_item.get(item) else { return };
    let mut part = None;
    let (mut is_over, mut newest, mut lapsed) = (false, None, None);
    for at in places {
        let event = &stream.events[*at];
        if part != Some(stream.part[*at]) {
            part = Some(stream.part[*at]);
            (is_over, newest, lapsed) = (false, None, None);
        }
        let is_late = event.event.what.as_ref().and_then(|what| what.late) == Some(true);
        let is_ending = matches!(event.kind, "completed" | "failed");
        let mut broken = |why: String| {
            let what = format!("event {}: {} was {}, {why}", event.name(), facts.items[item], event.kind);
            verdict.violate_with(event.seen, what, &[], vec![event.name()]);
        };
        if event.is_terminal() && is_over {
            broken("but it was already in a terminal state".into());
        }
        if is_ending && let (Some(newest), Some(token)) = (newest, event.token) {
            if newest != token {
                broken(format!("with token {token}, but the newest is {newest}"));
            } else if is_late && lapsed != Some(token) {
                broken("late, but not directly after an expired lease".into());
            }
        }
        verdict.facts += u64::from(is_ending);
        match event.kind {
            "granted" => (newest, lapsed, is_over) = (event.token, None, false),
            "expired" => lapsed = event.token,
            "created" | "reopened" | "retried" => (is_over, lapsed) = (false, None),
            "released" | "revoked" | "assigned" | "unassigned" | "handed_on" => lapsed = None,
            _ => {}
        }
        if event.is_terminal() {
            (is_over, lapsed) = (true, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    #[test]
    fn a_completion_and_its_retry_are_one() {
        kept(
            "0s  ada claim disk -> token=1 for=30s
             1s  ada complete disk token=1 id=c -> unknown
             2s  ada complete disk token=1 id=c again -> rev=0.3
             3s  ada complete disk token=1 id=c again -> rev=0.3
             4s  bob claim disk -> refused terminal_item",
        );
    }

    #[test]
    fn a_late_completion_after_an_expiry_is_allowed() {
        kept(
            "0s  ada claim disk -> token=1 for=5s
             0s  sees 0.1 granted disk ada token=1
             6s  sees 0.2 expired disk ada token=1
             7s  ada complete disk token=1 -> rev=0.3
             7s  sees 0.3 completed disk ada token=1 late",
        );
    }

    #[test]
    fn river1302_a_second_completion_is_found() {
        broken(
            &["I7"],
            "0s  ada claim disk -> token=1 for=5s
             6s..20s  bob claim disk -> token=2 for=5s
             7s..9s   bob complete disk token=2 -> ok
             8s  ada complete disk token=1 -> ok",
        );
    }

    #[test]
    fn a_completion_with_an_old_token_is_found() {
        broken(
            &["I7"],
            "0s  ada claim disk -> token=1 for=5s
             6s  bob claim disk -> token=2 for=5s
             8s  ada complete disk token=1 -> ok",
        );
    }

    #[test]
    fn a_grant_after_the_completion_is_found() {
        broken(
            &["I7"],
            "0s  ada claim disk -> token=1 for=5s
             1s  ada complete disk token=1 -> ok
             2s  bob claim disk -> token=2 for=5s",
        );
    }

    #[test]
    fn a_second_end_is_found_in_the_stream() {
        broken(
            &["I7"],
            "1s  sees 0.1 granted disk ada token=1
             1s  sees 0.2 completed disk ada token=1
             1s  sees 0.3 cancelled disk",
        );
        broken(
            &["I7"],
            "1s  sees 0.1 granted disk ada token=1
             1s  sees 0.2 expired disk ada token=1
             1s  sees 0.3 assigned disk bob
             1s  sees 0.4 completed disk ada token=1 late",
        );
    }
}
