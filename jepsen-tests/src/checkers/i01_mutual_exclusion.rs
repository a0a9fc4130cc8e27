//! I1. One token is one grant: one item, one holder. The tokens of accepted operations on an item never decrease, at
//! the guarded resource in the order of time, in the store in the order of revisions; and no operation is accepted with
//! a token after a newer one was known.

use super::facts::{Facts, ItemNo, OpNo, number, token_of};
use super::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros, Operation, Outcome};

#[must_use]
pub fn check(facts: &Facts<'_>) -> Verdict {
    let mut verdict = Verdict { facts: facts.grants.len() as u64, ..Verdict::default() };
    one_grant_per_token(facts, &mut verdict);
    let mut fenced = 0_u64;
    for item in 0..facts.items.len() {
        let newest = Newest::of(facts, item);
        let mut writes = Vec::new();
        let mut updates = Vec::new();
        for no in &facts.of_item[item] {
            let op = facts.op(*no);
            fenced += u64::from(is_fenced(op));
            let (Some(token), Some(answered)) = (token_of(&op.asked), op.answered()) else { continue };
            if let Asked::Write { .. } = op.asked {
                writes.push(Span {
                    begin: op.invoked,
                    end: op.completed.unwrap_or(Micros::MAX),
                    value: token,
                    no: *no,
                });
                continue;
            }
            if answered.did == Some(false) {
                continue;
            }
            verdict.fact();
            belongs_to_caller(facts, &mut verdict, *no, token);
            if let (Asked::Update { .. }, Some(revision)) = (&op.asked, answered.revision.as_deref().and_then(number)) {
                updates.push((revision, token, *no));
            }
            let is_ending = matches!(op.asked, Asked::Complete { .. } | Asked::Fail { .. });
            if !is_ending && let Some((newer, by)) = newest.known_before(token, facts.begin(*no)) {
                let what = format!(
                    "{} was accepted at {} with token {token}, although token {newer} of {} was known since {}",
                    describe(op),
                    seconds(op.completed.unwrap_or(op.invoked)),
                    facts.items[item],
                    seconds(by),
                );
                verdict.violate(op.invoked, what, &with(*no, facts.grant(newer).and_then(|grant| grant.told_by)));
            }
        }
        verdict.facts += writes.len() as u64;
        for (before, after) in overtaken(&mut writes) {
            let what = format!(
                "the guarded resource accepted a write of {} with token {} at {}, after one with token {} at {}",
                facts.items[item],
                after.value,
                seconds(after.begin),
                before.value,
                seconds(before.end),
            );
            verdict.violate(after.begin, what, &[before.no, after.no]);
        }
        updates.sort_unstable();
        for pair in updates.windows(2) {
            let [(_, one, first), (revision, two, second)] = pair else { continue };
            if two < one {
                let what = format!(
                    "the update of {} at revision {}.{} has token {two}, but the update before it has token {one}",
                    facts.items[item], revision.0, revision.1
                );
                verdict.violate(facts.op(*second).invoked, what, &[*first, *second]);
            }
        }
    }
    verdict.notes.push(format!("{fenced} writes with an old token were rejected"));
    verdict
}

/// A write with an old token that was refused by the guarded resource or by the store.
#[must_use]
pub fn is_fenced(op: &Operation) -> bool {
    let Outcome::Refused { code } = &op.outcome else { return false };
    matches!(op.asked, Asked::Write { .. }) || (code == "stale_token" && !matches!(op.asked, Asked::Read { .. }))
}

fn one_grant_per_token(facts: &Facts<'_>, verdict: &mut Verdict) {
    for (one, other) in &facts.doubles {
        let what = format!(
            "token {} was granted to {} for {}, and also to {} for {}",
            one.token,
            facts.holders[one.holder],
            facts.items[one.item],
            facts.holders[other.holder],
            facts.items[other.item],
        );
        let ops: Vec<OpNo> = one.told_by.into_iter().chain(other.told_by).collect();
        let events = [one.event, other.event].into_iter().flatten();
        let events = events.map(|at| facts.stream.events[at].name()).collect();
        verdict.violate_with(other.upper, what, &ops, events);
    }
}

fn belongs_to_caller(facts: &Facts<'_>, verdict: &mut Verdict, no: OpNo, token: u64) {
    let op = facts.op(no);
    let Some(grant) = facts.grant(token) else { return };
    if (Some(grant.item), grant.holder) != (facts.item_of[no], facts.holder_of[no]) {
        let what = format!(
            "{} was accepted with token {token}, which was granted to {} for {}",
            describe(op),
            facts.holders[grant.holder],
            facts.items[grant.item],
        );
        verdict.violate(op.invoked, what, &with(no, grant.told_by));
    }
}

fn with(no: OpNo, other: Option<OpNo>) -> Vec<OpNo> {
    other.into_iter().chain([no]).collect()
}

/// A short description of an operation.
#[must_use]
pub fn describe(op: &Operation) -> String {
    let verb = match &op.asked {
        Asked::Create { .. } => "create",
        Asked::Claim { waits: true, .. } => "waiting claim",
        Asked::Claim { .. } => "claim",
        Asked::Next { .. } => "next",
        Asked::Renew { .. } => "renewal",
        Asked::RenewAll => "renewal of all",
        Asked::Extend { .. } => "extension",
        Asked::Release { .. } => "release",
        Asked::Reserve { .. } => "reservation",
        Asked::HandOn { .. } => "handing on",
        Asked::Cancel { .. } => "cancelling",
        Asked::ReadLocally { .. } => "local read",
        Asked::Withdraw { .. } => "withdrawal",
        Asked::Revoke { .. } => "revoke",
        Asked::Assign { .. } => "assignment",
        Asked::Unassign { .. } => "unassignment",
        Asked::Update { .. } => "update",
        Asked::Read { .. } => "read",
        Asked::Line { .. } => "look at the line",
        Asked::Complete { .. } => "completion",
        Asked::Fail { .. } => "failure",
        Asked::Write { .. } => "write",
        Asked::Change { .. } => "change of the cluster",
    };
    match op.asked.item() {
        Some(item) => format!("{}'s {verb} of {item}", op.actor),
        None => format!("{}'s {verb}", op.actor),
    }
}

/// The times since when newer tokens of an item were known.
#[derive(Debug)]
pub struct Newest {
    /// By token, with the earliest moment at which that token or a later one was known, and which of them it was.
    known: Vec<(u64, Micros, u64)>,
}

impl Newest {
    #[must_use]
    pub fn of(facts: &Facts<'_>, item: ItemNo) -> Self {
        let grants = facts.grants_of[item].iter().map(|at| &facts.grants[*at]);
        let mut known: Vec<_> = grants.map(|grant| (grant.token, grant.upper, grant.token)).collect();
        for at in (1..known.len()).rev() {
            if known[at].1 < known[at - 1].1 {
                (known[at - 1].1, known[at - 1].2) = (known[at].1, known[at].2);
            }
        }
        Self { known }
    }

    /// A token above this one that was known before that moment, and since when.
    #[must_use]
    pub fn known_before(&self, token: u64, moment: Micros) -> Option<(u64, Micros)> {
        let above = self.known.partition_point(|(known, ..)| *known <= token);
        let (_, by, which) = self.known.get(above)?;
        (*by < moment).then_some((*which, *by))
    }
}

/// A value with the interval in which it took effect.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub begin: Micros,
    pub end: Micros,
    pub value: u64,
    pub no: usize,
}

/// Pairs in which the first ended before the second began, although the second has the lower value.
#[must_use]
pub fn overtaken(spans: &mut [Span]) -> Vec<(Span, Span)> {
    let mut by_end = spans.to_vec();
    by_end.sort_unstable_by_key(|span| span.end);
    spans.sort_unstable_by_key(|span| span.begin);
    let mut over = by_end.into_iter().peekable();
    let mut highest: Option<Span> = None;
    let mut pairs = Vec::new();
    for span in spans.iter() {
        while let Some(before) = over.next_if(|before| before.end < span.begin) {
            if highest.is_none_or(|highest| highest.value < before.value) {
                highest = Some(before);
            }
        }
        pairs.extend(highest.filter(|highest| highest.value > span.value).map(|highest| (highest, *span)));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use crate::checkers::story::{broken, kept};

    #[test]
    fn a_late_write_after_the_lease_is_refused() {
        kept(
            "0s  ada claim disk -> token=1 for=5s
             1s  ada write disk token=1 value=1 -> ok
             6s  bob claim disk -> token=2 for=5s
             7s  bob write disk token=2 value=2 -> ok
             8s  ada write disk token=1 value=3 -> refused stale_token",
        );
    }

    #[test]
    fn writes_that_overlap_may_come_in_any_order() {
        kept(
            "0s..9s ada write disk token=1 value=1 -> ok
             1s..9s bob write disk token=2 value=2 -> ok
             2s..9s cid write disk token=1 value=3 -> ok",
        );
    }

    #[test]
    fn an_accepted_late_write_is_found() {
        broken(
            &["I1"],
            "0s  ada claim disk -> token=1 for=5s
             6s  bob claim disk -> token=2 for=5s
             7s  bob write disk token=2 value=2 -> ok
             8s  ada write disk token=1 value=3 -> ok",
        );
    }

    #[test]
    fn a_token_of_two_holders_is_found() {
        broken(
            &["I1"],
            "0s  ada claim disk -> token=1 for=5s
             7s  bob claim disk -> token=1 for=5s",
        );
    }

    #[test]
    fn an_update_with_an_old_token_is_found_by_its_revision() {
        broken(
            &["I1"],
            "0s..20s ada claim disk -> token=1 for=5s
             0s..20s bob claim disk -> token=2 for=5s
             0s..20s bob update disk token=2 value=1 -> rev=0.7
             0s..20s ada update disk token=1 value=2 -> rev=0.9",
        );
    }

    #[test]
    fn a_renewal_after_the_next_grant_is_found() {
        broken(
            &["I1"],
            "0s  ada claim disk -> token=1 for=5s
             6s  bob claim disk -> token=2 for=5s
             7s  ada renew disk token=1 -> ok",
        );
    }

    #[test]
    fn a_token_used_by_another_holder_is_found() {
        broken(
            &["I1"],
            "0s  ada claim disk -> token=1 for=5s
             1s  bob renew disk token=1 -> for=5s",
        );
    }
}
