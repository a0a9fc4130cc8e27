//! I5. Everything acknowledged is there at the end, and in the stream: created items, completions, the last update, the
//! last assignment; and an acknowledged grant or revision is the event with that token or number. Everything
//! acknowledged before a backup is in the restored cluster.

use super::facts::{Facts, ItemNo, OpNo, number};
use super::i01_mutual_exclusion::describe;
use super::restored;
use super::verdict::Verdict;
use crate::history::{Asked, End, Outcome, SeenItem};
use std::collections::HashMap;

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some(end) = facts.history.end.as_ref().filter(|end| !end.items.is_empty()) {
        at_the_end(facts, end, &mut verdict);
    }
    restored::contents(facts, &mut verdict);
    revisions(facts, &mut verdict);
    tokens(facts, &mut verdict);
    verdict
}

fn at_the_end(facts: &Facts<'_>, end: &End, verdict: &mut Verdict) {
    let shown: HashMap<&str, &SeenItem> = end.items.iter().map(|(name, item)| (name.as_str(), item)).collect();
    let has_next = facts.history.operations.iter().any(|op| matches!(op.asked, Asked::Next { .. }));
    for item in 0..facts.items.len() {
        let name = facts.items[item];
        let acknowledged = |no: &&OpNo| facts.op(**no).answered().is_some_and(|answered| answered.did != Some(false));
        let ops = || facts.of_item[item].iter().filter(acknowledged);
        let created = facts.of_item[item]
            .iter()
            .find(|no| matches!(facts.op(**no).asked, Asked::Create { .. }) && facts.op(**no).answered().is_some());
        let Some(shown) = shown.get(name) else {
            if let Some(no) = created.filter(|_| !facts.has_event(item, &["purged"])) {
                verdict.fact();
                let what = format!("{name} was created, but does not exist at the end");
                verdict.violate(facts.op(*no).invoked, what, &[*no]);
            }
            continue;
        };
        verdict.facts += u64::from(created.is_some());
        let came_back = facts.has_event(item, &["reopened", "retried"]);
        let completed = ops().find(|no| matches!(facts.op(**no).asked, Asked::Complete { .. }));
        if let Some(no) = completed.filter(|_| !came_back) {
            verdict.fact();
            if shown.state != "complete" {
                let what =
                    format!("{} was acknowledged, but at the end the item is {}", describe(facts.op(*no)), shown.state);
                verdict.violate(facts.op(*no).invoked, what, &[*no]);
            }
        }
        last_revision(facts, item, shown, verdict);
        // A call of `next` without an answer may have granted any item.
        if !has_next {
            last_assignment(facts, item, shown, verdict);
        }
        let newest = facts.grants_of[item].iter().map(|at| &facts.grants[*at]).rfind(|grant| grant.is_answered);
        if let (Some(token), Some(newest)) = (shown.token, newest) {
            verdict.fact();
            if token < newest.token {
                let what =
                    format!("at the end {name} is held with token {token}, but {} was granted before", newest.token);
                verdict.violate(newest.upper, what, newest.told_by.as_slice());
            }
        }
    }
}

fn last_revision(facts: &Facts<'_>, item: ItemNo, shown: &SeenItem, verdict: &mut Verdict) {
    let revised = |no: &OpNo| {
        let revision = facts.op(*no).answered()?.revision.as_deref().and_then(number)?;
        (!matches!(facts.op(*no).asked, Asked::Read { .. } | Asked::Write { .. })).then_some((revision, *no))
    };
    let all = &facts.of_item[item];
    let (Some((revision, no)), Some(last)) = (all.iter().filter_map(revised).max(), number(&shown.revision)) else {
        return;
    };
    verdict.fact();
    if last < revision {
        let what = format!(
            "{} was acknowledged with revision {}.{}, but at the end the item is at {}.{}",
            describe(facts.op(no)),
            revision.0,
            revision.1,
            last.0,
            last.1,
        );
        verdict.violate(facts.op(no).invoked, what, &[no]);
        return;
    }
    let is_update = |(_, no): &((u32, u64), OpNo)| matches!(facts.op(*no).asked, Asked::Update { .. });
    let Some((_, no)) = all.iter().filter_map(revised).filter(is_update).max() else { return };
    let Asked::Update { value, .. } = facts.op(no).asked else { return };
    let may_be = |other: &OpNo| {
        let op = facts.op(*other);
        matches!(op.asked, Asked::Update { value, .. } if Some(value) == shown.value) && op.outcome == Outcome::Unknown
    };
    verdict.fact();
    if shown.value != Some(value) && !all.iter().any(may_be) {
        let what =
            format!("the last update of {} set {value}, but at the end it is {:?}", facts.items[item], shown.value);
        verdict.violate(facts.op(no).invoked, what, &[no]);
    }
}

/// The assignee of the item, if nothing else can have changed it since the last assignment.
fn last_assignment(facts: &Facts<'_>, item: ItemNo, shown: &SeenItem, verdict: &mut Verdict) {
    let all = &facts.of_item[item];
    let assigned = all
        .iter()
        .rfind(|no| matches!(facts.op(**no).asked, Asked::Assign { .. }) && facts.op(**no).answered().is_some());
    let Some(no) = assigned.copied() else { return };
    let Asked::Assign { to, .. } = &facts.op(no).asked else { return };
    let changes = |other: &OpNo| {
        let op = facts.op(*other);
        let moves = !matches!(
            op.asked,
            Asked::Create { .. } | Asked::Read { .. } | Asked::Line { .. } | Asked::Update { .. } | Asked::Write { .. }
        );
        let is_over = facts.end(*other).is_some_and(|end| end < facts.begin(no));
        *other != no && moves && facts.may_have_happened(*other) && !is_over
    };
    if all.iter().any(changes) {
        return;
    }
    verdict.fact();
    if shown.assignee.as_deref() != Some(to) {
        let what =
            format!("{} was assigned to {to}, but at the end its assignee is {:?}", facts.items[item], shown.assignee);
        verdict.violate(facts.op(no).invoked, what, &[no]);
    }
}

/// An acknowledged revision is the number of an event that changed the item's content. The end of an item alone does
/// not change it.
fn revisions(facts: &Facts<'_>, verdict: &mut Verdict) {
    let stream = &facts.stream;
    for (no, op) in facts.ops() {
        let kinds: &[&str] = match op.asked {
            Asked::Create { .. } => &["created"],
            Asked::Update { .. } => &["updated"],
            _ => continue,
        };
        let Some(answered) = op.answered().filter(|answered| answered.did != Some(false)) else { continue };
        let Some(at) = answered.revision.as_deref().and_then(number).and_then(|number| stream.place(number)) else {
            continue;
        };
        verdict.fact();
        let event = &stream.events[at];
        if event.item != facts.item_of[no] || !kinds.contains(&event.kind) {
            let what = format!(
                "{} was acknowledged as event {}, but that event is: {} {}",
                describe(op),
                event.name(),
                event.kind,
                event.item.map_or("", |item| facts.items[item]),
            );
            verdict.violate_with(op.invoked, what, &[no], vec![event.name()]);
        }
    }
}

/// If the stream granted two tokens one after another, an acknowledged token between them must be in it.
fn tokens(facts: &Facts<'_>, verdict: &mut Verdict) {
    let granted: Vec<(u64, usize)> = {
        let events = facts.stream.events.iter().enumerate().filter(|(_, event)| event.kind == "granted");
        events.filter_map(|(at, event)| Some((event.token?, at))).collect()
    };
    if !granted.is_sorted() {
        return;
    }
    for grant in facts.grants.iter().filter(|grant| grant.is_answered) {
        let behind = granted.partition_point(|(token, _)| *token < grant.token);
        let (Some(before), Some(after)) = (behind.checked_sub(1).map(|at| granted[at]), granted.get(behind)) else {
            continue;
        };
        if facts.stream.part[before.1] != facts.stream.part[after.1] {
            continue;
        }
        verdict.fact();
        if grant.event.is_none() {
            let what = format!(
                "{} was granted {} with token {}, but the stream, which grants {} and then {}, has no such grant",
                facts.holders[grant.holder], facts.items[grant.item], grant.token, before.0, after.0,
            );
            let events = vec![facts.stream.events[before.1].name(), facts.stream.events[after.1].name()];
            verdict.violate_with(grant.upper, what, grant.told_by.as_slice(), events);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    #[test]
    fn items_that_exist_at_the_end_are_not_lost() {
        kept(
            "0s  ada create disk -> rev=0.1 did
             1s  ada update disk read_at=0.1 value=7 -> rev=0.2
             2s  ada update disk read_at=0.2 value=8 -> unknown
             3s  eve assign disk to=bob -> ok
             end healed=9s served=9s created=1 live=1
             end item disk rev=0.5 value=8 assignee=bob",
        );
    }

    #[test]
    fn a_missing_created_item_is_found() {
        broken(
            &["I5"],
            "0s  ada create disk -> rev=0.1 did
             0s  ada create tape -> rev=0.2 did
             end healed=9s served=9s created=1 live=1
             end item tape rev=0.2"
                .replace("created=1 live=1", "created=2 live=2")
                .as_str(),
        );
    }

    #[test]
    fn a_missing_completion_is_found() {
        broken(
            &["I5"],
            "0s  ada claim disk -> token=1 for=5s
             1s  ada complete disk token=1 -> ok
             end healed=9s served=9s
             end item disk state=queued",
        );
    }

    #[test]
    fn a_lost_update_is_found_by_its_revision_and_by_its_value() {
        broken(
            &["I5"],
            "1s  ada update disk value=7 -> rev=0.9
             end healed=9s served=9s
             end item disk rev=0.4 value=3",
        );
        broken(
            &["I5"],
            "1s  ada update disk value=7 -> rev=0.9
             end healed=9s served=9s
             end item disk rev=0.9 value=3",
        );
    }

    #[test]
    fn a_lost_assignment_is_found_unless_a_claim_may_have_changed_it() {
        broken(
            &["I5"],
            "1s  eve assign disk to=bob -> ok
             end healed=9s served=9s
             end item disk assignee=ada",
        );
        kept(
            "1s  eve assign disk to=bob -> ok
             2s  ada claim disk -> unknown
             end healed=9s served=9s
             end item disk assignee=ada",
        );
    }

    #[test]
    fn a_grant_missing_from_the_stream_is_found() {
        broken(
            &["I5"],
            "1s  ada claim disk -> token=2 for=5s
             1s  sees 0.1 granted tape bob token=1
             2s  sees 0.2 granted book bob token=3",
        );
    }

    #[test]
    fn a_grant_in_a_gap_of_the_stream_is_not_checked() {
        kept(
            "watcher 2 queue=jobs
             1s  ada claim disk -> token=2 for=5s
             1s  sees 0.1 granted tape bob token=1 by=2
             2s  sees 0.3 granted book bob token=3 by=2",
        );
    }

    #[test]
    fn a_revision_that_belongs_to_another_event_is_found() {
        broken(
            &["I5"],
            "1s  ada create disk -> rev=0.1 did
             1s  sees 0.1 granted tape bob token=1",
        );
    }
}
