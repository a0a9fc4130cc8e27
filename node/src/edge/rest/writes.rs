//! Writing under a lease, and the ends of work.

use crate::edge::answer::Reply;
use crate::edge::call::{Call, unfitting};
use crate::edge::extract::{Body, ItemPath, Nothing};
use api::names::Number;
use api::write::{Activity, AwaitInput, Cancel, Cancelled, Complete, Fail, HandOn, Moved, Resume};
use axum::Json;
use lease::Command;
use lease::outcome::Outcome;

async fn moved(call: &Call, command: Command) -> Reply<Moved> {
    match call.run(command).await? {
        Outcome::Moved { item, state, revision } => {
            Ok(Json(Moved { item, state: state.into(), revision: Number(revision) }))
        }
        other => Err(unfitting(&other)),
    }
}

macro_rules! writes {
    ($($(#[doc = $doc:literal])+ $name:ident $path:literal $body:ident;)+) => {
        $(
            $(#[doc = $doc])+
            #[utoipa::path(post, path = $path, tag = "writing",
                params(("item" = api::names::ItemId, Path),
                    ("If-Match" = Option<String>, Header,
                     description = "The ETag that the item was read with; the same as `read_at`.")),
                request_body = $body,
                responses((status = 200, body = Moved)))]
            pub async fn $name(call: Call, ItemPath(id): ItemPath, Body(mut body): Body<$body>) -> Reply<Moved> {
                body.read_at = call.read_at(body.read_at)?;
                moved(&call, body.into_command(id)).await
            }
        )+
    };
}

writes! {
    /// Tell observers of progress
    activity "/v1/items/{item}/activity" Activity;
    /// Wait for somebody's word
    ///
    /// The lease goes on; a lapse meanwhile is no attempt.
    await_input "/v1/items/{item}/await_input" AwaitInput;
    /// Go on after waiting for somebody's word
    resume "/v1/items/{item}/resume" Resume;
    /// Hand an item on to the next phase
    ///
    /// Ends the lease, retires the assignment and queues the item in that phase, in one step.
    hand_on "/v1/items/{item}/hand_on" HandOn;
    /// Complete an item
    ///
    /// Closes the lease and retires the assignment in the same step. Happens once.
    complete "/v1/items/{item}/complete" Complete;
    /// Fail an item
    ///
    /// Queued again after its backoff; with no attempts left it is blocked, and with `final` it is an error for good.
    fail "/v1/items/{item}/fail" Fail;
}

/// Cancel an item
///
/// At once while nobody holds it; a holder is shown `cancel_requested` and has 30 s to wind down, unless forced.
#[utoipa::path(post, path = "/v1/items/{item}/cancel", operation_id = "cancel", tag = "items",
    params(("item" = api::names::ItemId, Path)), request_body = Cancel, responses((status = 200, body = Cancelled)))]
pub async fn cancel(call: Call, ItemPath(id): ItemPath, Body(cancel): Body<Cancel>) -> Reply<Cancelled> {
    match call.run(cancel.into_command(id)).await? {
        Outcome::Cancelled { item, state, ends_by } => Ok(Json(Cancelled {
            item,
            state: state.into(),
            ends_by_ms: ends_by.map(|time| time.0),
            ends_by: ends_by.map(|time| call.calendar().date(time)),
        })),
        other => Err(unfitting(&other)),
    }
}

/// Reopen a terminal item
#[utoipa::path(post, path = "/v1/items/{item}/reopen", operation_id = "reopen", tag = "items",
    params(("item" = api::names::ItemId, Path)), responses((status = 200, body = Moved)))]
pub async fn reopen(call: Call, ItemPath(item): ItemPath, _: Body<Nothing>) -> Reply<Moved> {
    moved(&call, Command::Reopen { item }).await
}

/// Let a blocked or failed item be tried again
///
/// For operators. Resets its attempts.
#[utoipa::path(post, path = "/v1/items/{item}/retry", operation_id = "retry", tag = "operating",
    params(("item" = api::names::ItemId, Path)), responses((status = 200, body = Moved)))]
pub async fn retry(call: Call, ItemPath(item): ItemPath, _: Body<Nothing>) -> Reply<Moved> {
    moved(&call, Command::Retry { item }).await
}
