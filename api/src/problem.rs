//! Errors, as RFC 9457 problem details (`application/problem+json`).

use crate::code::{Code, TookEffect};
use crate::dates::{Calendar, Date};
use crate::names::{self, Number};
use crate::words::{ActorKind, Need};
use lease::names::{ActorId, ItemId, SessionId};
use lease::refusal::{HolderView, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What went wrong, and what the caller needs to act on it. Fields that do not apply to the code are omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A link to the code in this node's documentation.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub code: Code,
    /// What went wrong with this request in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether the same request, sent later, may succeed without any other change by the caller.
    pub may_retry: bool,
    pub took_effect: TookEffect,
    /// How long to wait before a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The request's id: the Idempotency-Key of the caller, or a generated id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// `invalid`: the invalid field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// `forbidden`: a role or right that would allow the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Need>,
    /// `already_claimed`, `lease_lost`: the holder, as far as the caller may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// `not_ready`: what the item waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
    /// `too_many_leases`: the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leases_max: Option<u32>,
    /// `line_too_long`: the length of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_length: Option<u32>,
    /// `stale_write`: the item's current revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Number>,
    /// `stale_write`: the fields that have changed since the caller's revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<String>>,
    /// `wrong_state`: the item's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `space_full`: the limit of live items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_max: Option<u64>,
    /// `space_full`: the limit of bytes of bodies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes_max: Option<u64>,
    /// `too_many_dependents`: the item that has too many dependents.
    #[schema(value_type = Option<names::ItemId>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    /// `position_too_old`: all stored events come after this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_after: Option<Number>,
}

/// What a pending item waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitsFor {
    /// Dependencies that have not completed.
    pub dependencies: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Date>,
    /// The end of a delay or of a backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Date>,
}

/// The holder of a lease, as far as the caller may see it. Fields that the caller may not see are omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    pub kind: ActorKind,
    #[schema(value_type = Option<names::ActorId>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    #[schema(value_type = Option<names::SessionId>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// In cluster time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// The approximate date of `expires_at_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Date>,
    /// What the holder says it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Which part of the item the holder says it is working on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Holder {
    #[must_use]
    pub fn new(view: HolderView, calendar: Calendar) -> Self {
        let kind = view.kind.into();
        match view.named {
            None => Self {
                kind,
                actor: None,
                session: None,
                expires_at_ms: None,
                expires_at: None,
                action: None,
                field: None,
            },
            Some(named) => Self {
                kind,
                expires_at_ms: Some(named.expires_at.0),
                expires_at: Some(calendar.date(named.expires_at)),
                actor: Some(named.holder.actor.clone()),
                session: named.holder.session.clone(),
                action: named.action,
                field: named.field,
            },
        }
    }
}

impl Problem {
    #[must_use]
    pub fn new(code: Code) -> Self {
        Self {
            kind: format!("/docs#{}", code.name()),
            title: code.title().into(),
            status: code.status(),
            code,
            detail: None,
            may_retry: code.may_retry(),
            took_effect: code.took_effect(),
            retry_after_ms: None,
            request_id: None,
            field: None,
            needs: None,
            holder: None,
            waits_for: None,
            leases_max: None,
            line_length: None,
            revision: None,
            changed: None,
            state: None,
            items_max: None,
            body_bytes_max: None,
            item: None,
            kept_after: None,
        }
    }

    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// An `invalid` problem about one field.
    #[must_use]
    pub fn invalid(field: impl Into<String>, why: impl Into<String>) -> Self {
        let field = field.into();
        let detail = format!("{field}: {}", why.into());
        Self { field: Some(field), ..Self::new(Code::Invalid).with_detail(detail) }
    }

    /// The problem that reports a refusal of the rules to its caller.
    #[must_use]
    pub fn of(refusal: Refusal, calendar: Calendar) -> Self {
        let mut problem = Self::new(refusal.code().into());
        problem.retry_after_ms = refusal.retry_after().map(|span| span.0);
        match refusal {
            Refusal::Invalid { field, why } => return Self::invalid(json_field(&field), why),
            Refusal::Forbidden { needs } => problem.needs = Some(needs.into()),
            Refusal::NotReady(not_ready) => {
                let until = not_ready.retry_after.map(|span| calendar.now.after(span));
                problem.waits_for = Some(WaitsFor {
                    dependencies: not_ready.dependencies,
                    not_before: not_ready.not_before.map(Date),
                    until_ms: until.map(|until| until.0),
                    until: until.map(|until| calendar.date(until)),
                });
            }
            Refusal::AlreadyClaimed(conflict) => {
                problem.holder = conflict.holder.map(|view| Holder::new(view, calendar));
            }
            Refusal::LeaseLost { holder } => problem.holder = holder.map(|view| Holder::new(view, calendar)),
            Refusal::TooManyLeases { max } => problem.leases_max = Some(max),
            Refusal::LineTooLong { line_length } => problem.line_length = Some(line_length),
            Refusal::StaleWrite { revision, fields } => {
                problem.revision = Some(Number(revision));
                problem.changed = Some(fields.into_iter().map(|field| field.name().to_owned()).collect());
            }
            Refusal::WrongState { state } => problem.state = Some(state),
            Refusal::SpaceFull { items_max, body_bytes_max } => {
                problem.items_max = Some(items_max);
                problem.body_bytes_max = Some(body_bytes_max);
            }
            Refusal::TooManyDependents { item } => problem.item = Some(item),
            Refusal::RestoreRefused { why } => problem.detail = Some(why),
            Refusal::NotFound
            | Refusal::RejectedByPolicy
            | Refusal::TerminalItem
            | Refusal::Blocked
            | Refusal::Reserved { .. }
            | Refusal::QueuePaused
            | Refusal::HeldByYourOtherSession
            | Refusal::QueueFull { .. }
            | Refusal::RateLimited { .. }
            | Refusal::WaitTimeout
            | Refusal::NotHolder
            | Refusal::StaleToken
            | Refusal::LeaseRequired
            | Refusal::AlreadyExists
            | Refusal::AllOrNone
            | Refusal::WorkerDraining
            | Refusal::RequestIdReused
            | Refusal::RequestForgotten
            | Refusal::NotActivated => {}
        }
        problem
    }
}

/// The JSON name of a field of the rules: in JSON the names of durations end in their unit.
fn json_field(field: &str) -> String {
    const DURATIONS: [&str; 14] = [
        "lease_for",
        "lease_max",
        "lease_min",
        "wait_for",
        "pickup",
        "lock_delay",
        "retention",
        "reservation_max",
        "alive_for",
        "delay",
        "for",
        "first",
        "max",
        "until",
    ];
    let last = field.rsplit('.').next().unwrap_or(field);
    if DURATIONS.contains(&last) {
        format!("{field}_ms")
    } else if last == "factor" {
        format!("{field}_percent")
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lease::numbers::{Span, Time, Wall};
    use lease::refusal::Conflict;

    const CALENDAR: Calendar = Calendar { now: Time(0), wall: Wall(1_767_225_600_000) };

    #[test]
    fn a_problem_has_only_the_fields_of_its_code() {
        let conflict = Refusal::AlreadyClaimed(Conflict {
            retry_after: Span(7),
            holder: Some(HolderView { kind: lease::caller::ActorKind::Agent, named: None }),
        });
        let json = serde_json::to_value(Problem::of(conflict, CALENDAR)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "type": "/docs#already_claimed",
                "title": "Item is already claimed",
                "status": 409,
                "code": "already_claimed",
                "may_retry": true,
                "took_effect": "no",
                "retry_after_ms": 7,
                "holder": { "kind": "agent" },
            })
        );
    }

    #[test]
    fn invalid_fields_have_their_json_names() {
        let field = |field: &str| {
            let refusal = Refusal::Invalid { field: field.into(), why: "must be more than zero".into() };
            Problem::of(refusal, CALENDAR).field.unwrap()
        };
        assert_eq!(field("claims[3].lease_for"), "claims[3].lease_for_ms");
        assert_eq!(field("backoff.first"), "backoff.first_ms");
        assert_eq!(field("backoff.factor"), "backoff.factor_percent");
        assert_eq!(field("items[0].depends_on"), "items[0].depends_on");
        assert_eq!(field("line_max"), "line_max");
    }
}
