//! Holding: renewing, extending and releasing leases; and what operators do to the leases of others.

use crate::edge::answer::Reply;
use crate::edge::call::{Call, unfitting};
use crate::edge::extract::{Body, ItemPath, Nothing};
use api::hold::{
    Assign, Assigned, Extend, Extended, Release, Released, Renew, RenewAll, Renewed, RenewedAll, Reorder, Reordered,
    Reserve, Reserved, Revoke, Revoked, Unassigned, Withdrawn,
};
use axum::Json;
use lease::Command;
use lease::outcome::Outcome;

/// Renew a lease
///
/// Moves the end of the lease later, never earlier. A lease that has ended is not revived: the problem is `lease_lost`.
#[utoipa::path(post, path = "/v1/items/{item}/renew", operation_id = "renew", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Renew,
    responses((status = 200, body = Renewed, description = "The renewed lease")))]
pub async fn renew(call: Call, ItemPath(id): ItemPath, Body(renew): Body<Renew>) -> Reply<Renewed> {
    match call.run(renew.into_command(id)).await? {
        Outcome::Renewed(renewal) => Ok(Json(Renewed::new(renewal, call.calendar()))),
        other => Err(unfitting(&other)),
    }
}

/// Renew every lease of the caller's session
///
/// A worker's heartbeat. A request without a session renews the leases that were taken without a session.
#[utoipa::path(post, path = "/v1/renewals", operation_id = "renew_all", tag = "holding",
    request_body = RenewAll, responses((status = 200, body = RenewedAll, description = "The renewed leases")))]
pub async fn renew_all(call: Call, Body(all): Body<RenewAll>) -> Reply<RenewedAll> {
    match call.run(all.into_command()).await? {
        Outcome::RenewedAll(all) => Ok(Json(all.into())),
        other => Err(unfitting(&other)),
    }
}

/// Extend a lease
///
/// For a known gap in the work. Never shortens the lease. A length above the queue's maximum is cut, and `capped` says
/// so.
#[utoipa::path(post, path = "/v1/items/{item}/extend", operation_id = "extend", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Extend,
    responses((status = 200, body = Extended, description = "The extended lease")))]
pub async fn extend(call: Call, ItemPath(id): ItemPath, Body(extend): Body<Extend>) -> Reply<Extended> {
    match call.run(extend.into_command(id)).await? {
        Outcome::Extended { item, token, expires_at, expires_in, capped_to, cancel_requested } => Ok(Json(Extended {
            item,
            token,
            expires_in_ms: expires_in.0,
            expires_at_ms: expires_at.0,
            expires_at: call.calendar().after(expires_in),
            capped: capped_to.is_some(),
            lease_max_ms: capped_to.map(|span| span.0),
            cancel_requested,
        })),
        other => Err(unfitting(&other)),
    }
}

/// Release a lease
///
/// Ends the lease and removes the assignment. Without a lease the call also succeeds, with `released: false`.
#[utoipa::path(post, path = "/v1/items/{item}/release", operation_id = "release", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Release,
    responses((status = 200, body = Released, description = "The caller does not hold the item")))]
pub async fn release(call: Call, ItemPath(id): ItemPath, Body(release): Body<Release>) -> Reply<Released> {
    let outcome = call.run(Command::Release(release.into_core(id))).await?;
    Released::new(outcome.clone()).map(Json).ok_or_else(|| unfitting(&outcome))
}

/// Turn a lease into a reservation
///
/// Keeps the item for its assignee for `for_ms`, without heartbeats. Nobody else is offered the item meanwhile.
#[utoipa::path(post, path = "/v1/items/{item}/reserve", operation_id = "reserve", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Reserve,
    responses((status = 200, body = Reserved, description = "The reservation")))]
pub async fn reserve(call: Call, ItemPath(id): ItemPath, Body(reserve): Body<Reserve>) -> Reply<Reserved> {
    match call.run(reserve.into_command(id)).await? {
        Outcome::Reserved { item, until, span, state } => Ok(Json(Reserved {
            item,
            until_ms: until.0,
            until: call.calendar().date(until),
            for_ms: span.0,
            state: state.into(),
        })),
        other => Err(unfitting(&other)),
    }
}

/// Leave the wait line
#[utoipa::path(post, path = "/v1/items/{item}/withdraw", operation_id = "withdraw", tag = "claiming",
    params(("item" = api::names::ItemId, Path)),
    responses((status = 200, body = Withdrawn, description = "The caller is not in the wait line")))]
pub async fn withdraw(call: Call, ItemPath(item): ItemPath, _: Body<Nothing>) -> Reply<Withdrawn> {
    match call.run(Command::Withdraw { item }).await? {
        Outcome::Withdrawn { item, withdrawn } => Ok(Json(Withdrawn { item, withdrawn })),
        other => Err(unfitting(&other)),
    }
}

/// Reorder the wait line
///
/// Puts the named actors first, in that order. For operators.
#[utoipa::path(post, path = "/v1/items/{item}/reorder", operation_id = "reorder", tag = "operating",
    params(("item" = api::names::ItemId, Path)), request_body = Reorder,
    responses((status = 200, body = Reordered, description = "The length of the wait line")))]
pub async fn reorder(call: Call, ItemPath(item): ItemPath, Body(reorder): Body<Reorder>) -> Reply<Reordered> {
    match call.run(Command::Reorder { item, actors: reorder.actors }).await? {
        Outcome::Reordered { item, line_length } => Ok(Json(Reordered { item, line_length })),
        other => Err(unfitting(&other)),
    }
}

/// Revoke a lease
///
/// For operators. Ends the lease of any holder. The assignment stays, or moves to the named actor. The event records
/// the operator and the reason.
#[utoipa::path(post, path = "/v1/items/{item}/revoke", operation_id = "revoke", tag = "operating",
    params(("item" = api::names::ItemId, Path)), request_body = Revoke,
    responses((status = 200, body = Revoked, description = "Whether a lease was ended, and the state of the item")))]
pub async fn revoke(call: Call, ItemPath(id): ItemPath, Body(revoke): Body<Revoke>) -> Reply<Revoked> {
    match call.run(revoke.into_command(id)).await? {
        Outcome::Revoked { item, revoked, state } => Ok(Json(Revoked { item, revoked, state: state.into() })),
        other => Err(unfitting(&other)),
    }
}

/// Assign an item
///
/// Makes an actor the owner of the item, without a lease. Rejected while another actor holds a lease.
#[utoipa::path(post, path = "/v1/items/{item}/assign", operation_id = "assign", tag = "items",
    params(("item" = api::names::ItemId, Path)), request_body = Assign,
    responses((status = 200, body = Assigned, description = "The assignment")))]
pub async fn assign(call: Call, ItemPath(item): ItemPath, Body(assign): Body<Assign>) -> Reply<Assigned> {
    match call.run(Command::Assign { item, actor: assign.actor }).await? {
        Outcome::Assigned { item, actor } => Ok(Json(Assigned { item, actor })),
        other => Err(unfitting(&other)),
    }
}

/// Remove an assignment
#[utoipa::path(post, path = "/v1/items/{item}/unassign", operation_id = "unassign", tag = "items",
    params(("item" = api::names::ItemId, Path)), request_body = Assign,
    responses((status = 200, body = Unassigned, description = "The item is not assigned to that actor")))]
pub async fn unassign(call: Call, ItemPath(item): ItemPath, Body(assign): Body<Assign>) -> Reply<Unassigned> {
    match call.run(Command::Unassign { item, actor: assign.actor }).await? {
        Outcome::Unassigned { item, unassigned } => Ok(Json(Unassigned { item, unassigned })),
        other => Err(unfitting(&other)),
    }
}
