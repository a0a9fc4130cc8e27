//! An item's data as a register: unique values that are written, exchanged for the value that was read, and read.
//! Revisions only show which value an exchange expects; their order is not used.
//!
//! An update of unknown outcome whose value was seen took effect by then. If nobody saw the value, it is left out: it
//! changes nothing that anybody saw, but may be the reason why an exchange was refused, so refusals after it are left
//! out, too.

use super::search::{Search, Step};
use crate::checkers::facts::{Facts, ItemNo};
use crate::checkers::verdict::{Verdict, seconds};
use crate::history::{Asked, Micros, Outcome};
use porcupine_rs::Model;
use std::collections::HashMap;

/// Nothing was set yet.
const NOTHING: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
enum Op {
    Write(u64),
    Exchange { expected: u64, value: u64 },
    Refused { expected: u64 },
    Read(u64),
}

#[derive(Clone, Debug)]
struct Register;

impl Model for Register {
    /// `None`: any value.
    type State = Option<u64>;
    type Op = Op;
    type Metadata = ();

    fn init() -> Option<u64> {
        None
    }

    fn step(state: &Option<u64>, op: &Op) -> (bool, Option<u64>) {
        let is = |expected: u64| state.is_none_or(|value| value == expected);
        match *op {
            Op::Write(value) => (true, Some(value)),
            Op::Exchange { expected, value } => (is(expected), Some(value)),
            Op::Refused { expected } => (*state != Some(expected), *state),
            Op::Read(value) => (is(value), Some(value)),
        }
    }
}

pub fn check(facts: &Facts<'_>, item: ItemNo, search: &mut Search, verdict: &mut Verdict) {
    let all = &facts.of_item[item];
    if !all.iter().any(|no| matches!(facts.op(*no).asked, Asked::Update { .. })) {
        return;
    }
    // The value of each revision, and when each value was first seen.
    let mut value_at: HashMap<&str, u64> = HashMap::new();
    let mut seen_by: HashMap<u64, Micros> = HashMap::new();
    for no in all {
        let op = facts.op(*no);
        let Some(answered) = op.answered() else { continue };
        match (&op.asked, &answered.item, &answered.revision) {
            (Asked::Create { .. }, _, Some(revision)) if answered.did == Some(true) => {
                value_at.insert(revision, NOTHING);
            }
            (Asked::Update { value, .. }, _, Some(revision)) => _ = value_at.insert(revision, *value),
            (Asked::Read { .. }, Some(seen), _) => {
                value_at.insert(&seen.revision, seen.value.unwrap_or(NOTHING));
                let by = seen_by.entry(seen.value.unwrap_or(NOTHING)).or_insert(Micros::MAX);
                *by = op.completed.unwrap_or(Micros::MAX).min(*by);
            }
            _ => {}
        }
    }
    let mut unseen_since = Micros::MAX;
    let mut steps: Vec<Step<Op>> = Vec::new();
    let mut told: HashMap<usize, ()> = HashMap::new();
    for no in all.iter().copied() {
        let op = facts.op(no);
        // All answers under one request id describe one effect.
        let is_told = facts.request_of[no].is_some_and(|request| told.contains_key(&request));
        match (&op.asked, &op.outcome) {
            (Asked::Update { value, read_at, .. }, Outcome::Ok(_)) if !is_told => {
                facts.request_of[no].map(|request| told.insert(request, ()));
                steps.push(Step {
                    begin: facts.begin(no),
                    end: op.completed,
                    op: set(*value, read_at.as_deref(), &value_at),
                    no: Some(no),
                });
            }
            (Asked::Update { value, read_at, .. }, Outcome::Unknown) => {
                let is_answered = facts.end(no).is_some();
                match seen_by.get(value) {
                    _ if is_answered || is_told => {}
                    Some(by) => {
                        facts.request_of[no].map(|request| told.insert(request, ()));
                        steps.push(Step {
                            begin: op.invoked,
                            end: Some(*by),
                            op: set(*value, read_at.as_deref(), &value_at),
                            no: Some(no),
                        });
                    }
                    None => unseen_since = unseen_since.min(op.invoked),
                }
            }
            (Asked::Update { read_at: Some(read_at), .. }, Outcome::Refused { code }) if code == "stale_write" => {
                let expected = value_at.get(read_at.as_str()).copied();
                let is_explained = op.completed.is_none_or(|completed| completed >= unseen_since);
                if let Some(expected) = expected.filter(|_| !is_explained) {
                    steps.push(Step {
                        begin: facts.begin(no),
                        end: op.completed,
                        op: Op::Refused { expected },
                        no: Some(no),
                    });
                }
            }
            (Asked::Read { .. }, Outcome::Ok(answered)) => {
                if let Some(seen) = &answered.item {
                    let op_of = Op::Read(seen.value.unwrap_or(NOTHING));
                    steps.push(Step { begin: op.invoked, end: op.completed, op: op_of, no: Some(no) });
                }
            }
            _ => {}
        }
    }
    verdict.facts += steps.len() as u64;
    for stretch in search.contradictions::<Register>(steps) {
        let ops: Vec<_> = stretch.iter().filter_map(|step| step.no).collect();
        let what = format!(
            "no order of {} operations on {} from {} on explains the values that they saw",
            stretch.len(),
            facts.items[item],
            seconds(stretch[0].begin),
        );
        verdict.violate(stretch[0].begin, what, &ops[..ops.len().min(24)]);
    }
}

fn set(value: u64, read_at: Option<&str>, value_at: &HashMap<&str, u64>) -> Op {
    match read_at.and_then(|read_at| value_at.get(read_at)) {
        Some(expected) => Op::Exchange { expected: *expected, value },
        None => Op::Write(value),
    }
}
