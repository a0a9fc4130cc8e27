//! Human-readable operations and numbers.

use crate::checkers::facts::Facts;
use crate::history::{Asked, Micros, Operation, Outcome};
use std::fmt::Write as _;

/// 1234567 as 1,234,567.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[must_use]
pub fn millis(span: i64) -> String {
    let whole = span.unsigned_abs();
    let sign = if span < 0 { "−" } else { "" };
    if whole < 10_000 {
        format!("{sign}{whole} ms")
    } else {
        format!("{sign}{}.{} s", whole / 1_000, whole % 1_000 / 100)
    }
}

#[must_use]
pub fn moment(at: Micros) -> String {
    format!("{}.{:06}", at / 1_000_000, at % 1_000_000)
}

/// An operation of a history with its times, its request and its answer.
#[must_use]
pub fn operation(facts: &Facts<'_>, no: usize) -> String {
    let op = facts.op(no);
    let until = op.completed.map_or_else(|| "…".into(), moment);
    let mut text = format!("{}–{until}  {}", moment(op.invoked), op.actor);
    op.session.iter().for_each(|session| _ = write!(text, "/{session}"));
    let _ = write!(text, " {}", asked(&op.asked));
    op.request_id.iter().for_each(|id| _ = write!(text, " [{id}{}]", if op.is_repeat { " again" } else { "" }));
    op.node.iter().for_each(|node| _ = write!(text, " at node {node}"));
    let _ = write!(text, "  →  {}", outcome(op));
    text
}

fn asked(asked: &Asked) -> String {
    match asked {
        Asked::Create { item, queue, .. } => format!("create {item} in {queue}"),
        Asked::Claim { item, waits, .. } => format!("claim {item}{}", if *waits { ", waiting" } else { "" }),
        Asked::Next { queue, count, .. } => format!("next {count} of {queue}"),
        Asked::Renew { item, token } => format!("renew {item} with {token}"),
        Asked::RenewAll => "renew all".into(),
        Asked::Extend { item, token, by_ms } => format!("extend {item} with {token} by {by_ms} ms"),
        Asked::Release { item, token } => format!("release {item} with {token}"),
        Asked::Reserve { item, token } => format!("reserve {item} with {token}"),
        Asked::HandOn { item, token } => format!("hand on {item} with {token}"),
        Asked::Cancel { item, force } => format!("cancel {item}{}", if *force { ", forced" } else { "" }),
        Asked::ReadLocally { item } => format!("read {item} locally"),
        Asked::Withdraw { item } => format!("withdraw from {item}"),
        Asked::Revoke { item } => format!("revoke {item}"),
        Asked::Assign { item, to } => format!("assign {item} to {to}"),
        Asked::Unassign { item } => format!("unassign {item}"),
        Asked::Update { item, token, read_at, value } => {
            let mut text = format!("update {item} to {value}");
            token.iter().for_each(|token| _ = write!(text, " with {token}"));
            read_at.iter().for_each(|read_at| _ = write!(text, " read at {read_at}"));
            text
        }
        Asked::Read { item } => format!("read {item}"),
        Asked::Line { item } => format!("line of {item}"),
        Asked::Complete { item, token } => format!("complete {item} with {token}"),
        Asked::Fail { item, token } => format!("fail {item} with {token}"),
        Asked::Write { item, token, value, .. } => format!("write {value} to {item} with {token}"),
        Asked::Change { verb, node } => format!("{verb} node {node}"),
    }
}

fn outcome(op: &Operation) -> String {
    let answered = match &op.outcome {
        Outcome::Refused { code } => return format!("refused: {code}"),
        Outcome::Unavailable => return "unavailable".into(),
        Outcome::Unknown => return "unknown".into(),
        Outcome::Ok(answered) => answered,
    };
    let mut parts: Vec<String> = Vec::new();
    for granted in &answered.grants {
        let renewed = if granted.renewed { ", held already" } else { "" };
        parts.push(format!("{} with {} for {} ms{renewed}", granted.item, granted.token, granted.expires_in_ms));
    }
    parts.extend(answered.place.map(|place| format!("place {place}")));
    parts.extend(answered.expires_in_ms.map(|left| format!("for {left} ms")));
    parts.extend(answered.revision.as_ref().map(|revision| format!("revision {revision}")));
    parts.extend(answered.did.map(|did| if did { "did".to_owned() } else { "nothing to do".to_owned() }));
    parts.extend(answered.line.as_ref().map(|line| format!("line: {}", line.join(", "))));
    if let Some(item) = &answered.item {
        let nobody = || "nobody".to_owned();
        let value = item.value.map_or_else(|| "none".to_owned(), |value| value.to_string());
        parts.push(format!(
            "{} at {}, value {value}, holder {}, assignee {}",
            item.state,
            item.revision,
            item.holder.clone().unwrap_or_else(nobody),
            item.assignee.clone().unwrap_or_else(nobody),
        ));
    }
    if parts.is_empty() { "ok".into() } else { parts.join("; ") }
}
