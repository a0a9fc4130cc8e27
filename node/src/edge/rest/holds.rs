//! Holding: renewing, extending and releasing leases; and what operators do to the leases of others.

use crate::edge::answer::Reply;
use crate::edge::call::Call;
use crate::edge::extract::{Body, ItemPath, Nothing};
use api::hold::{
    Assign, Assigned, Extend, Extended, Release, Released, Renew, RenewAll, Renewed, RenewedAll, Reorder, Reordered,
    Reserve, Reserved, Revoke, Revoked, Unassigned, Withdrawn,
};
use lease::Command;

/// Renew a lease
///
/// Moves the end of the lease later, never earlier. A lease that has ended is not revived: the problem is `lease_lost`.
#[utoipa::path(post, path = "/v1/items/{item}/renew", operation_id = "renew", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Renew,
    responses((status = 200, body = Renewed, description = "The renewed lease")))]
pub async fn renew(call: Call, ItemPath(id): ItemPath, Body(renew): Body<Renew>) -> Reply<Renewed> {
    call.reply(renew.into_command(id)).await
}

/// Renew every lease of the caller's session
///
/// A worker's heartbeat. A request without a session renews the leases that were taken without a session.
#[utoipa::path(post, path = "/v1/renewals", operation_id = "renew_all", tag = "holding",
    request_body = RenewAll, responses((status = 200, body = RenewedAll, description = "The renewed leases")))]
pub async fn renew_all(call: Call, Body(all): Body<RenewAll>) -> Reply<RenewedAll> {
    call.reply(all.into_command()).await
}

/// Extend a lease
///
/// For a known gap in the work. Never shortens the lease. A length above the queue's maximum is cut, and `capped` says
/// so.
#[utoipa::path(post, path = "/v1/items/{item}/extend", operation_id = "extend", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Extend,
    responses((status = 200, body = Extended, description = "The extended lease")))]
pub async fn extend(call: Call, ItemPath(id): ItemPath, Body(extend): Body<Extend>) -> Reply<Extended> {
    call.reply(extend.into_command(id)).await
}

/// Release a lease
///
/// Ends the lease and removes the assignment. Without a lease the call also succeeds, with `released: false`.
#[utoipa::path(post, path = "/v1/items/{item}/release", operation_id = "release", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Release,
    responses((status = 200, body = Released, description = "The caller does not hold the item")))]
pub async fn release(call: Call, ItemPath(id): ItemPath, Body(release): Body<Release>) -> Reply<Released> {
    call.reply(release.into_command(id)).await
}

/// Turn a lease into a reservation
///
/// Keeps the item for its assignee for `for_ms`, without heartbeats. Nobody else is offered the item meanwhile.
#[utoipa::path(post, path = "/v1/items/{item}/reserve", operation_id = "reserve", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Reserve,
    responses((status = 200, body = Reserved, description = "The reservation")))]
pub async fn reserve(call: Call, ItemPath(id): ItemPath, Body(reserve): Body<Reserve>) -> Reply<Reserved> {
    call.reply(reserve.into_command(id)).await
}

/// Leave the wait line
#[utoipa::path(post, path = "/v1/items/{item}/withdraw", operation_id = "withdraw", tag = "claiming",
    params(("item" = api::names::ItemId, Path)),
    responses((status = 200, body = Withdrawn, description = "The caller is not in the wait line")))]
pub async fn withdraw(call: Call, ItemPath(item): ItemPath, _: Body<Nothing>) -> Reply<Withdrawn> {
    call.reply(Command::Withdraw { item }).await
}

/// Reorder the wait line
///
/// Puts the named actors first, in that order. For operators.
#[utoipa::path(post, path = "/v1/items/{item}/reorder", operation_id = "reorder", tag = "operating",
    params(("item" = api::names::ItemId, Path)), request_body = Reorder,
    responses((status = 200, body = Reordered, description = "The length of the wait line")))]
pub async fn reorder(call: Call, ItemPath(item): ItemPath, Body(reorder): Body<Reorder>) -> Reply<Reordered> {
    call.reply(reorder.into_command(item)).await
}

/// Revoke a lease
///
/// For operators. Ends the lease of any holder. The assignment stays, or moves to the named actor. The event records
/// the operator and the reason.
#[utoipa::path(post, path = "/v1/items/{item}/revoke", operation_id = "revoke", tag = "operating",
    params(("item" = api::names::ItemId, Path)), request_body = Revoke,
    responses((status = 200, body = Revoked, description = "Whether a lease was ended, and the state of the item")))]
pub async fn revoke(call: Call, ItemPath(id): ItemPath, Body(revoke): Body<Revoke>) -> Reply<Revoked> {
    call.reply(revoke.into_command(id)).await
}

/// Assign an item
///
/// Makes an actor the owner of the item, without a lease. Rejected while another actor holds a lease.
#[utoipa::path(post, path = "/v1/items/{item}/assign", operation_id = "assign", tag = "items",
    params(("item" = api::names::ItemId, Path)), request_body = Assign,
    responses((status = 200, body = Assigned, description = "The assignment")))]
pub async fn assign(call: Call, ItemPath(item): ItemPath, Body(assign): Body<Assign>) -> Reply<Assigned> {
    call.reply(assign.into_command(item)).await
}

/// Remove an assignment
#[utoipa::path(post, path = "/v1/items/{item}/unassign", operation_id = "unassign", tag = "items",
    params(("item" = api::names::ItemId, Path)), request_body = Assign,
    responses((status = 200, body = Unassigned, description = "The item is not assigned to that actor")))]
pub async fn unassign(call: Call, ItemPath(item): ItemPath, Body(assign): Body<Assign>) -> Reply<Unassigned> {
    call.reply(assign.into_unassign(item)).await
}
