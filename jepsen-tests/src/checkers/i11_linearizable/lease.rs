//! An item's lease as an object that is free or held: granted, renewed, released, expired, read.
//!
//! An end that nobody acknowledged, by expiry, a revoke or a request of unknown outcome, may be at any time from when
//! it was possible until the next grant. Grants that no answer and no event shows are left out, and so are reads that
//! show a holder that may have one.

use super::search::{Search, Step};
use crate::checkers::facts::{Facts, Grant, ItemNo, token_of};
use crate::checkers::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros, Operation, Outcome};
use porcupine_rs::Model;
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Any,
    Free,
    Held { token: u64, actor: usize },
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Grant {
        token: u64,
        actor: usize,
    },
    /// It was held with this token.
    Holds {
        token: u64,
        actor: usize,
    },
    End {
        token: u64,
    },
    MayEnd {
        token: u64,
    },
    Read {
        actor: Option<usize>,
    },
}

#[derive(Clone, Debug)]
struct Lease;

impl Model for Lease {
    type State = State;
    type Op = Op;
    type Metadata = ();

    fn init() -> State {
        State::Any
    }

    fn step(state: &State, op: &Op) -> (bool, State) {
        match (*op, *state) {
            (Op::Grant { token, actor }, State::Any | State::Free) => (true, State::Held { token, actor }),
            (Op::Grant { .. }, State::Held { .. }) => (false, *state),
            (Op::Holds { token, actor }, State::Any) => (true, State::Held { token, actor }),
            (Op::Holds { token, .. }, State::Held { token: held, .. }) => (token == held, *state),
            (Op::Holds { .. } | Op::End { .. }, State::Free) => (false, *state),
            (Op::End { .. }, State::Any) => (true, State::Free),
            (Op::End { token }, State::Held { token: held, .. }) => (token == held, State::Free),
            (Op::MayEnd { token }, State::Held { token: held, .. }) if token == held => (true, State::Free),
            (Op::MayEnd { .. }, _) => (true, *state),
            (Op::Read { .. }, State::Any) => (true, State::Any),
            (Op::Read { actor }, State::Free) => (actor.is_none(), *state),
            (Op::Read { actor }, State::Held { actor: held, .. }) => (actor == Some(held), *state),
        }
    }
}

/// Actors to whom `next` may have granted something without an answer.
pub fn open_next<'h>(facts: &Facts<'h>) -> HashSet<&'h str> {
    let is_open = |op: &&Operation| matches!(op.asked, Asked::Next { .. }) && op.outcome == Outcome::Unknown;
    facts.history.operations.iter().filter(is_open).map(|op| op.actor.as_str()).collect()
}

pub fn check(facts: &Facts<'_>, item: ItemNo, open_next: &HashSet<&str>, search: &mut Search, verdict: &mut Verdict) {
    let grants: Vec<&Grant> = facts.grants_of[item].iter().map(|at| &facts.grants[*at]).collect();
    let has_read = facts.of_item[item].iter().any(|no| matches!(facts.op(*no).asked, Asked::Read { .. }));
    if grants.is_empty() || !has_read || facts.has_event(item, &["reserved"]) {
        return;
    }
    // Actors by the first of their holders.
    let actor_of = |name: &str| facts.holders.iter().position(|holder| holder.actor == name);
    let actors: Vec<Option<usize>> = facts.holders.iter().map(|holder| actor_of(holder.actor)).collect();
    let actor = |grant: &Grant| actors[grant.holder].unwrap_or(grant.holder);
    let mut steps: Vec<Step<Op>> = Vec::new();
    let mut released: HashSet<u64> = HashSet::new();
    let mut may_hold: HashSet<&str> = HashSet::new();
    let mut told: HashSet<usize> = HashSet::new();
    for no in facts.of_item[item].iter().copied() {
        let op = facts.op(no);
        match (&op.asked, &op.outcome) {
            (Asked::Renew { .. } | Asked::Extend { .. } | Asked::Release { .. }, Outcome::Ok(answered)) => {
                let Some(grant) = token_of(&op.asked).and_then(|token| facts.grant(token)) else { continue };
                let is_release = matches!(op.asked, Asked::Release { .. });
                let is_told = facts.request_of[no].is_some_and(|request| !told.insert(request));
                if is_told || grant.item != item || (is_release && answered.did != Some(true)) {
                    continue;
                }
                let token = grant.token;
                if is_release && !released.insert(token) {
                    continue;
                }
                let op_of = if is_release { Op::End { token } } else { Op::Holds { token, actor: actor(grant) } };
                steps.push(Step { begin: facts.begin(no), end: op.completed, op: op_of, no: Some(no) });
            }
            // A waiting claim may have been granted and have lost the item again before its answer.
            (Asked::Claim { .. }, Outcome::Unknown) | (Asked::Claim { waits: true, .. }, Outcome::Refused { .. }) => {
                may_hold.insert(op.actor.as_str());
            }
            (Asked::Claim { .. }, Outcome::Ok(answered)) if answered.place.is_some() => _ = may_hold.insert(&op.actor),
            _ => {}
        }
    }
    for (at, grant) in grants.iter().enumerate() {
        let op = Op::Grant { token: grant.token, actor: actor(grant) };
        steps.push(Step { begin: grant.lower, end: Some(grant.upper), op, no: grant.told_by });
        if released.contains(&grant.token) {
            continue;
        }
        let next = grants.get(at + 1).map(|next| next.upper);
        let begin = may_end_from(facts, grant);
        let begin = next.map_or(begin, |next| begin.min(next)).max(grant.lower);
        steps.push(Step {
            begin,
            end: next.map(|next| next.max(begin)),
            op: Op::MayEnd { token: grant.token },
            no: None,
        });
    }
    for no in facts.of_item[item].iter().copied() {
        let op = facts.op(no);
        let shown = op.answered().and_then(|answered| answered.item.as_ref());
        let (Asked::Read { .. }, Some(shown)) = (&op.asked, shown) else { continue };
        let name = shown.holder.as_deref().map(|holder| holder.split_once('/').map_or(holder, |(actor, _)| actor));
        if name.is_some_and(|name| may_hold.contains(name) || open_next.contains(name)) {
            continue;
        }
        let op_of = Op::Read { actor: name.map(|name| actor_of(name).unwrap_or(usize::MAX)) };
        steps.push(Step { begin: op.invoked, end: op.completed, op: op_of, no: Some(no) });
    }
    verdict.facts += steps.len() as u64;
    for stretch in search.contradictions::<Lease>(steps) {
        let ops: Vec<_> = stretch.iter().filter_map(|step| step.no).collect();
        let what = format!(
            "no order of {} operations on {} from {} on explains who held it",
            stretch.len(),
            facts.items[item],
            seconds(stretch[0].begin),
        );
        verdict.violate(stretch[0].begin, what, &ops[..ops.len().min(24)]);
    }
}

/// Nothing can have ended it before this moment.
fn may_end_from(facts: &Facts<'_>, grant: &Grant) -> Micros {
    let ended_early = facts.ends.may_have_been_revoked(grant, Micros::MAX)
        || facts
            .ends
            .in_stream(grant.token)
            .is_some_and(|at| !matches!(facts.stream.events[at].kind, "expired" | "not_picked_up"));
    let asked = facts.ends.asked_to_end(grant).unwrap_or(Micros::MAX);
    match grant.promised {
        Some(promised) if !ended_early => promised.min(asked),
        _ => grant.lower,
    }
}
