//! Claiming: one item, many, or the next of a queue.

use crate::edge::answer::{Failure, Reply, Viewed};
use crate::edge::call::{Call, Consistency, unfitting};
use crate::edge::extract::{Body, ItemPath, Query, QueuePath};
use crate::edge::gate::Parking;
use crate::edge::rest::items::poll;
use crate::replica::hub::{Topic, Woken};
use api::claim::{Claim, Claimed, Claims, ClaimsAnswered, Dispatched, Next, OnConflict, ReleasedOf, Waiting};
use api::hold::Released;
use api::item::{Item, ItemPage};
use api::words::{Order, RunsIn};
use api::{Code, Problem};
use axum::Json;
use axum::http::StatusCode;
use lease::names::{ItemId, Label, Phase};
use lease::outcome::Outcome;
use lease::{Command, Refusal};
use serde::Deserialize;
use std::time::{Duration, Instant};
use utoipa::IntoParams;

/// Claim an item
///
/// Grants a lease with a new fencing token. A claim by the current holder renews its lease. With `on_conflict: wait`
/// the caller joins the wait line; if the poll ends first, the response is `waiting`, and repeating the request with
/// the same Idempotency-Key continues to wait. The line is served in order.
#[utoipa::path(post, path = "/v1/items/{item}/claim", operation_id = "claim", tag = "claiming",
    params(("item" = api::names::ItemId, Path)), request_body = Claim,
    responses((status = 200, body = Claimed, description = "The lease was granted"),
              (status = 202, body = Claimed, description = "The caller waits in line: repeat to keep waiting")))]
pub async fn claim(
    call: Call,
    ItemPath(id): ItemPath,
    Body(claim): Body<Claim>,
) -> Result<(StatusCode, Json<Claimed>), Failure> {
    let poll = match claim.on_conflict {
        OnConflict::Wait => poll("poll_ms", claim.poll_ms)?,
        OnConflict::Fail => Duration::ZERO,
    };
    let outcome = call.run_polling(Command::Claim(claim.into_core(id)?), poll).await?;
    match outcome {
        Outcome::Granted(grant) => Ok((StatusCode::OK, Json(Claimed::Granted(Box::new(call.grant(*grant).await?))))),
        Outcome::Waiting { .. } => Ok((StatusCode::ACCEPTED, Json(waiting(&call, outcome)?))),
        other => Err(unfitting(&other)),
    }
}

fn waiting(call: &Call, outcome: Outcome) -> Result<Claimed, Failure> {
    match outcome {
        Outcome::Waiting { item, place, line_length, poll_within } => Ok(Claimed::Waiting(Waiting {
            item,
            place,
            line_length,
            poll_within_ms: poll_within.0,
            request_id: Some(call.head.request_id.to_string()),
        })),
        other => Err(unfitting(&other)),
    }
}

/// Claim many items in one step
///
/// Returns one outcome per entry, in order. With `all_or_none`, either every claim is granted or none is. To continue
/// waiting for an entry that is `waiting`, call `claim` for that item.
#[utoipa::path(post, path = "/v1/claims", operation_id = "claim_many", tag = "claiming",
    request_body = Claims,
    responses((status = 200, body = ClaimsAnswered, description = "One outcome per entry, in order")))]
pub async fn claim_many(call: Call, Body(claims): Body<Claims>) -> Reply<ClaimsAnswered> {
    let Outcome::ClaimedMany { claims, releases } = call.run(claims.into_command()?).await? else {
        return Err(Code::Internal.into());
    };
    let mut answered = ClaimsAnswered { claims: Vec::with_capacity(claims.len()), releases: Vec::new() };
    for outcome in claims {
        answered.claims.push(match outcome {
            Outcome::Granted(grant) => Claimed::Granted(Box::new(call.grant(*grant).await?)),
            Outcome::Refused(refusal) => Claimed::Refused { problem: problem(&call, refusal) },
            other => waiting(&call, other)?,
        });
    }
    for outcome in releases {
        answered.releases.push(match outcome {
            Outcome::Refused(refusal) => ReleasedOf::Refused { problem: problem(&call, refusal) },
            other => ReleasedOf::Released(Released::new(other).ok_or(Code::Internal)?),
        });
    }
    Ok(Json(answered))
}

fn problem(call: &Call, refusal: Refusal) -> Box<Problem> {
    call.edge.metrics.entry_refused(refusal.code());
    Box::new(Problem::of(refusal, call.calendar()))
}

/// Take the next items of a queue
///
/// Finds and grants items in one step, so two callers never get the same item. With `wait_ms` the call waits on this
/// node until an item is ready; each item wakes one waiting call.
#[utoipa::path(post, path = "/v1/queues/{queue}/next", operation_id = "next", tag = "claiming",
    params(("queue" = api::names::QueueName, Path)), request_body = Next,
    responses((status = 200, body = Dispatched, description = "The granted items, or why no item was granted")))]
pub async fn next(mut call: Call, QueuePath(queue): QueuePath, Body(next): Body<Next>) -> Reply<Dispatched> {
    let wait = match next.wait_ms {
        None => Duration::ZERO,
        asked => poll("wait_ms", asked)?,
    };
    let by = Instant::now() + wait;
    let topic = Topic::Ready(call.head.space.clone(), queue.clone());
    let command = Command::Next(next.into_core(queue));
    let mut woken: Option<Woken> = None;
    loop {
        let waiter = (!wait.is_zero()).then(|| call.edge.node.hub().wait_for(topic.clone()));
        let outcome = call.run(command.clone()).await?;
        let (why, retry_after, cursor) = match outcome {
            Outcome::Dispatched(grants) => {
                if let Some(woken) = woken {
                    woken.used();
                }
                return Ok(Json(Dispatched::Granted { grants: call.grants(grants).await }));
            }
            Outcome::Empty { why, retry_after, cursor } => (why, retry_after, cursor),
            other => return Err(unfitting(&other)),
        };
        // The item that woke this call went to another one; dropping this wakes the next waiter.
        drop(woken.take());
        // This attempt has an outcome, so the next attempt is no repeat.
        call.head.repeat = None;
        let left = by.saturating_duration_since(Instant::now());
        let Some(waiter) = waiter.filter(|_| !left.is_zero() && cursor.is_none() && !call.is_stopping()) else {
            let cursor = cursor.map(api::names::Cursor);
            return Ok(Json(Dispatched::Empty { reason: why.into(), retry_after_ms: retry_after.0, cursor }));
        };
        let _place = call.park(Parking::Waiter)?;
        woken = call.woken(waiter, left).await;
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PeekQuery {
    /// Maximum number of items. [default: 1]
    #[param(minimum = 1, maximum = 100)]
    count: Option<u32>,
    order: Option<Order>,
    #[serde(default)]
    #[param(value_type = Vec<api::names::Label>)]
    label: Vec<Label>,
    /// Capabilities of the caller. [default: those its worker is registered with]
    #[param(value_type = Option<Vec<api::names::Label>>)]
    capability: Option<Vec<Label>>,
    #[param(value_type = Option<api::names::Phase>)]
    phase: Option<Phase>,
    mode: Option<RunsIn>,
    #[param(value_type = Option<api::names::ItemId>)]
    parent: Option<ItemId>,
    #[param(value_type = Option<api::names::ItemId>)]
    ancestor: Option<ItemId>,
    #[param(minimum = 0, maximum = 9)]
    priority_min: Option<u8>,
    #[param(minimum = 0, maximum = 9)]
    priority_max: Option<u8>,
    #[serde(default)]
    consistency: Consistency,
}

/// Show what `next` would grant
///
/// Grants nothing, so another caller may get these items first.
#[utoipa::path(get, path = "/v1/queues/{queue}/peek", operation_id = "peek", tag = "claiming",
    params(("queue" = api::names::QueueName, Path), PeekQuery),
    responses((status = 200, body = ItemPage, description = "The items that `next` would grant now")))]
pub async fn peek(
    call: Call,
    QueuePath(queue): QueuePath,
    Query(query): Query<PeekQuery>,
) -> Result<Viewed<ItemPage>, Failure> {
    let next = Next {
        count: query.count,
        order: query.order,
        labels: query.label,
        capabilities: query.capability,
        phase: query.phase,
        mode: query.mode,
        parent: query.parent,
        ancestor: query.ancestor,
        priority_min: query.priority_min,
        priority_max: query.priority_max,
        ..Next::default()
    };
    let next = next.into_core(queue);
    call.check(Command::Next(next.clone()))?;
    call.view(query.consistency, |state, archive, calendar| {
        let found = state.peek(archive, &call.caller, &call.head.space, &next)?;
        let items = found.into_iter().map(|view| Item::new(view, None, calendar)).collect();
        Ok(ItemPage { items, next_cursor: None })
    })
    .await
}
