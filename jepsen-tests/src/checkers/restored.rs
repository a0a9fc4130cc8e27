//! What a restored cluster must show: everything that was acknowledged before the backup was requested, nothing that
//! was requested after it had arrived, no leases, no grant before its activation, and then tokens above all earlier
//! ones. Part of I2 and I5.

use super::facts::{Facts, ItemNo, OpNo, number};
use super::i01_mutual_exclusion::describe;
use super::verdict::Verdict;
use crate::history::{Asked, Outcome, Restored, SeenItem};
use std::collections::HashMap;

pub fn tokens(facts: &Facts<'_>, verdict: &mut Verdict) {
    let Some(restored) = facts.history.restored.as_ref().filter(|restored| restored.refused.is_none()) else { return };
    for code in &restored.before_activation {
        verdict.fact();
        if code != "not_activated" {
            let what = format!("a restored cluster answered before it was activated: {code}");
            verdict.violate(restored.ended, what, &[]);
        }
    }
    verdict.fact();
    if let Some(newest) = facts.grants.last().filter(|newest| newest.token >= restored.token) {
        let what =
            format!("a restored cluster granted token {}, but {} was granted earlier", restored.token, newest.token);
        verdict.violate(newest.upper, what, newest.told_by.as_slice());
    }
}

pub fn contents(facts: &Facts<'_>, verdict: &mut Verdict) {
    let Some(restored) = &facts.history.restored else { return };
    if let Some(why) = &restored.refused {
        let what = format!("could not restore a backup: {why}");
        verdict.violate(restored.ended, what, &[]);
        return;
    }
    let shown: HashMap<&str, &SeenItem> = restored.items.iter().map(|(name, item)| (name.as_str(), item)).collect();
    let setters = setters(facts);
    let facts_before = verdict.facts;
    for item in 0..facts.items.len() {
        let name = facts.items[item];
        match shown.get(name) {
            Some(shown) => one(facts, restored, item, shown, &setters, verdict),
            None => {
                let created = acknowledged(facts, restored, item)
                    .find(|no| matches!(facts.op(*no).asked, Asked::Create { .. }))
                    .filter(|_| !facts.has_event(item, &["purged"]));
                if let Some(no) = created {
                    verdict.fact();
                    let what = format!("{name} was created before the backup, but does not exist after the restore");
                    verdict.violate(facts.op(no).invoked, what, &[no]);
                }
            }
        }
    }
    verdict.notes.push(format!("{} facts about a restored backup", verdict.facts - facts_before));
}

/// Operations that were acknowledged before the backup was requested.
fn acknowledged<'f>(facts: &'f Facts<'_>, restored: &'f Restored, item: ItemNo) -> impl Iterator<Item = OpNo> + 'f {
    let is_before = |no: &OpNo| {
        let op = facts.op(*no);
        op.answered().is_some() && op.completed.is_some_and(|completed| completed < restored.began)
    };
    facts.of_item[item].iter().copied().filter(is_before)
}

/// The operation that set each value.
fn setters(facts: &Facts<'_>) -> HashMap<u64, OpNo> {
    let set = |(no, op): (OpNo, &crate::history::Operation)| match op.asked {
        Asked::Update { value, .. } => Some((value, no)),
        _ => None,
    };
    facts.ops().filter_map(set).collect()
}

fn one(
    facts: &Facts<'_>,
    restored: &Restored,
    item: ItemNo,
    shown: &SeenItem,
    setters: &HashMap<u64, OpNo>,
    verdict: &mut Verdict,
) {
    let name = facts.items[item];
    let revised = |no: OpNo| {
        let op = facts.op(no);
        let revision = op.answered()?.revision.as_deref().and_then(number)?;
        (!matches!(op.asked, Asked::Write { .. })).then_some((revision, no))
    };
    let newest = acknowledged(facts, restored, item).filter_map(revised).max();
    if let (Some((revision, no)), Some(has)) = (newest, number(&shown.revision)) {
        verdict.fact();
        if has < revision {
            let what = format!(
                "{} showed revision {}.{} before the backup, but after the restore it is {}",
                describe(facts.op(no)),
                revision.0,
                revision.1,
                shown.revision,
            );
            verdict.violate(facts.op(no).invoked, what, &[no]);
        }
    }
    let came_back = facts.has_event(item, &["reopened", "retried"]);
    let completed =
        acknowledged(facts, restored, item).find(|no| matches!(facts.op(*no).asked, Asked::Complete { .. }));
    if let Some(no) = completed.filter(|_| !came_back) {
        verdict.fact();
        if shown.state != "complete" {
            let what = format!(
                "{} was acknowledged before the backup, but after the restore the item is {}",
                describe(facts.op(no)),
                shown.state
            );
            verdict.violate(facts.op(no).invoked, what, &[no]);
        }
    }
    if let Some(value) = shown.value {
        verdict.fact();
        let set_by = setters.get(&value).copied();
        let may_be = set_by.is_some_and(|no| {
            let op = facts.op(no);
            op.invoked <= restored.ended && matches!(op.outcome, Outcome::Ok(_) | Outcome::Unknown)
        });
        if !may_be {
            let what = format!("{name} is restored with {value}, which nobody had set before the backup arrived");
            verdict.violate(restored.ended, what, set_by.as_slice());
        }
    }
    verdict.fact();
    if let Some(holder) = &shown.holder {
        verdict.violate(restored.ended, format!("{name} is restored, and {holder} holds it"), &[]);
    }
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    const BEFORE: &str = "
        0s   ada create disk -> rev=0.1
        1s   ada claim disk -> token=1 for=5s
        2s   ada update disk token=1 value=7 -> rev=0.3
        8s   ada update disk token=1 value=8 -> rev=0.4
        9s   eve create tape -> rev=0.5
        10s  eve create reel -> unknown
        12s  bob claim disk -> token=2 for=5s\n";

    fn of(more: &str) -> String {
        format!("{BEFORE}{more}")
    }

    #[test]
    fn a_backup_has_everything_acknowledged_before_and_may_have_later_writes() {
        for (value, revision) in [(7, "0.3"), (8, "0.4")] {
            let verdicts = kept(&of(&format!(
                "restored began=5s ended=9s before=not_activated token=3
                 restored item disk rev={revision} value={value}"
            )));
            let nothing_lost = verdicts.iter().find(|verdict| verdict.id == "I5").unwrap();
            assert!(nothing_lost.notes.contains(&"3 facts about a restored backup".to_owned()), "{nothing_lost:?}");
        }
    }

    #[test]
    fn missing_or_older_items_in_a_backup_are_found() {
        broken(&["I5"], &of("restored began=5s ended=6s before=not_activated token=3"));
        broken(
            &["I5"],
            &of("restored began=5s ended=6s before=not_activated token=3
                 restored item disk rev=0.1"),
        );
    }

    #[test]
    fn later_writes_in_a_backup_are_found() {
        broken(
            &["I5"],
            &of("restored began=5s ended=6s before=not_activated token=3
                 restored item disk rev=0.4 value=8"),
        );
    }

    #[test]
    fn a_backup_that_cannot_be_restored_is_found() {
        broken(&["I5"], "restored began=5s ended=6s refused=clock");
    }

    #[test]
    fn a_lease_in_a_restored_cluster_is_found() {
        broken(
            &["I5"],
            &of("restored began=5s ended=6s before=not_activated token=3
                 restored item disk rev=0.3 value=7 holder=ada"),
        );
    }

    #[test]
    fn a_grant_before_activation_and_a_lower_token_are_found() {
        let item = "restored item disk rev=0.3 value=7";
        broken(&["I2"], &of(&format!("restored began=5s ended=6s before=granted token=3\n{item}")));
        broken(&["I2"], &of(&format!("restored began=5s ended=6s before=not_activated token=2\n{item}")));
    }
}
