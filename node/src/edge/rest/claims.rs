//! Claiming: one item, many, or the next of a queue.

use crate::edge::answer::{Failure, Reply, Viewed};
use crate::edge::call::Call;
use crate::edge::extract::{Body, ItemPath, Query, QueuePath};
use crate::edge::gate::Parking;
use crate::edge::rest::items::poll;
use crate::replica::hub::{Topic, Woken};
use api::claim::{Claim, Claimed, Claims, ClaimsAnswered, Dispatched, Next, OnConflict};
use api::item::{Item, ItemPage};
use api::query::PeekQuery;
use axum::Json;
use axum::http::StatusCode;
use lease::Command;
use lease::outcome::Outcome;
use std::time::{Duration, Instant};

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
    let outcome = call.run_polling(claim.into_command(id)?, poll).await?;
    let claimed = call.answer(outcome).await?;
    let status = if matches!(claimed, Claimed::Waiting(_)) { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(claimed)))
}

/// Claim many items in one step
///
/// Returns one outcome per entry, in order. With `all_or_none`, either every claim is granted or none is. To continue
/// waiting for an entry that is `waiting`, call `claim` for that item.
#[utoipa::path(post, path = "/v1/claims", operation_id = "claim_many", tag = "claiming",
    request_body = Claims,
    responses((status = 200, body = ClaimsAnswered, description = "One outcome per entry, in order")))]
pub async fn claim_many(call: Call, Body(claims): Body<Claims>) -> Reply<ClaimsAnswered> {
    call.reply(claims.into_command()?).await
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
    let command = next.into_command(queue);
    let mut woken: Option<Woken> = None;
    loop {
        let waiter = (!wait.is_zero()).then(|| call.edge.node.hub().wait_for(topic.clone()));
        let outcome = call.run(command.clone()).await?;
        let Outcome::Empty { cursor, .. } = &outcome else {
            if let Some(woken) = woken {
                woken.used();
            }
            return call.answer(outcome).await.map(Json);
        };
        let is_examined = cursor.is_none();
        // The item that woke this call went to another one; dropping this wakes the next waiter.
        drop(woken.take());
        // This attempt has an outcome, so the next attempt is no repeat.
        call.head.repeat = None;
        let left = by.saturating_duration_since(Instant::now());
        let Some(waiter) = waiter.filter(|_| !left.is_zero() && is_examined && !call.is_stopping()) else {
            return call.answer(outcome).await.map(Json);
        };
        let _place = call.park(Parking::Waiter)?;
        woken = call.woken(waiter, left).await;
    }
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
    let consistency = query.consistency;
    let next = query.into_next(queue);
    call.check(Command::Next(next.clone()))?;
    call.view(consistency, |state, archive, calendar| {
        let found = state.peek(archive, &call.caller, &call.head.space, &next)?;
        let items = found.into_iter().map(|view| Item::new(view, None, calendar)).collect();
        Ok(ItemPage { items, next_cursor: None })
    })
    .await
}
