//! Writing under a lease, and ending the work on an item.

use crate::edge::answer::Reply;
use crate::edge::call::Call;
use crate::edge::extract::{Body, ItemPath, Nothing};
use api::write::{Activity, AwaitInput, Cancel, Cancelled, Complete, Fail, HandOn, Moved, Resume};
use lease::Command;

macro_rules! writes {
    ($($(#[doc = $doc:literal])+ $name:ident $path:literal $body:ident;)+) => {
        $(
            $(#[doc = $doc])+
            #[utoipa::path(post, path = $path, tag = "writing",
                params(("item" = api::names::ItemId, Path),
                    ("If-Match" = Option<String>, Header,
                     description = "The ETag of the item as it was read, same as `read_at`.")),
                request_body = $body,
                responses((status = 200, body = Moved, description = "The state and revision of the item")))]
            pub async fn $name(call: Call, ItemPath(id): ItemPath, Body(mut body): Body<$body>) -> Reply<Moved> {
                body.read_at = call.read_at(body.read_at)?;
                call.reply(body.into_command(id)).await
            }
        )+
    };
}

writes! {
    /// Report progress to observers
    activity "/v1/items/{item}/activity" Activity;
    /// Wait for input
    ///
    /// The caller keeps its lease. If the lease expires meanwhile, that does not count as an attempt.
    await_input "/v1/items/{item}/await_input" AwaitInput;
    /// Resume after waiting for input
    resume "/v1/items/{item}/resume" Resume;
    /// Hand an item on to the next phase
    ///
    /// In one step ends the lease, removes the assignment and queues the item in that phase.
    hand_on "/v1/items/{item}/hand_on" HandOn;
    /// Complete an item
    ///
    /// In one step completes the item, ends the lease and removes the assignment. An item completes only once.
    complete "/v1/items/{item}/complete" Complete;
    /// Fail an item
    ///
    /// The item is queued again after its backoff. With no attempts left it becomes blocked; with `final` it ends in
    /// the state `error`.
    fail "/v1/items/{item}/fail" Fail;
}

/// Cancel an item
///
/// Immediate while nobody holds the item or with `force`. Otherwise the holder gets `cancel_requested` and has 30 s to
/// stop.
#[utoipa::path(post, path = "/v1/items/{item}/cancel", operation_id = "cancel", tag = "items",
    params(("item" = api::names::ItemId, Path)), request_body = Cancel,
    responses((status = 200, body = Cancelled, description = "The state of the item, and when it ends at the latest")))]
pub async fn cancel(call: Call, ItemPath(id): ItemPath, Body(cancel): Body<Cancel>) -> Reply<Cancelled> {
    call.reply(cancel.into_command(id)).await
}

/// Reopen a terminal item
#[utoipa::path(post, path = "/v1/items/{item}/reopen", operation_id = "reopen", tag = "items",
    params(("item" = api::names::ItemId, Path)),
    responses((status = 200, body = Moved, description = "The state and revision of the item")))]
pub async fn reopen(call: Call, ItemPath(item): ItemPath, _: Body<Nothing>) -> Reply<Moved> {
    call.reply(Command::Reopen { item }).await
}

/// Retry a blocked or failed item
///
/// For operators. Resets the item's attempts.
#[utoipa::path(post, path = "/v1/items/{item}/retry", operation_id = "retry", tag = "operating",
    params(("item" = api::names::ItemId, Path)),
    responses((status = 200, body = Moved, description = "The state and revision of the item")))]
pub async fn retry(call: Call, ItemPath(item): ItemPath, _: Body<Nothing>) -> Reply<Moved> {
    call.reply(Command::Retry { item }).await
}
