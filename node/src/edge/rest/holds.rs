//! Holding: renewing, extending, giving back; and what operators do to the leases of others.

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
/// Moves its end later, never earlier, and never revives: lapsed or lost is `lease_lost`.
#[utoipa::path(post, path = "/v1/items/{item}/renew", operation_id = "renew", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Renew, responses((status = 200, body = Renewed)))]
pub async fn renew(call: Call, ItemPath(id): ItemPath, Body(renew): Body<Renew>) -> Reply<Renewed> {
    match call.run(renew.into_command(id)).await? {
        Outcome::Renewed(renewal) => Ok(Json(Renewed::new(renewal, call.calendar()))),
        other => Err(unfitting(&other)),
    }
}

/// Renew every lease of the caller's session
///
/// A worker's heartbeat. Those taken without a session are renewed by a request without one.
#[utoipa::path(post, path = "/v1/renewals", operation_id = "renew_all", tag = "holding",
    request_body = RenewAll, responses((status = 200, body = RenewedAll)))]
pub async fn renew_all(call: Call, Body(all): Body<RenewAll>) -> Reply<RenewedAll> {
    match call.run(all.into_command()).await? {
        Outcome::RenewedAll(all) => Ok(Json(all.into())),
        other => Err(unfitting(&other)),
    }
}

/// Extend a lease
///
/// For a known idle gap. Never shortens; past the ceiling it is cut, and the answer says so.
#[utoipa::path(post, path = "/v1/items/{item}/extend", operation_id = "extend", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Extend, responses((status = 200, body = Extended)))]
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

/// Give a lease back
///
/// Ends the lease and retires the assignment. Holding nothing still succeeds, with `released: false`.
#[utoipa::path(post, path = "/v1/items/{item}/release", operation_id = "release", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Release, responses((status = 200, body = Released)))]
pub async fn release(call: Call, ItemPath(id): ItemPath, Body(release): Body<Release>) -> Reply<Released> {
    let outcome = call.run(Command::Release(release.into_core(id))).await?;
    Released::new(outcome.clone()).map(Json).ok_or_else(|| unfitting(&outcome))
}

/// Turn a lease into a reservation
///
/// For its assignee: no heartbeat, offered to nobody else, until `for_ms` is over.
#[utoipa::path(post, path = "/v1/items/{item}/reserve", operation_id = "reserve", tag = "holding",
    params(("item" = api::names::ItemId, Path)), request_body = Reserve, responses((status = 200, body = Reserved)))]
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
    params(("item" = api::names::ItemId, Path)), responses((status = 200, body = Withdrawn)))]
pub async fn withdraw(call: Call, ItemPath(item): ItemPath, _: Body<Nothing>) -> Reply<Withdrawn> {
    match call.run(Command::Withdraw { item }).await? {
        Outcome::Withdrawn { item, withdrawn } => Ok(Json(Withdrawn { item, withdrawn })),
        other => Err(unfitting(&other)),
    }
}

/// Reorder the wait line
///
/// The named first, in that order. For operators.
#[utoipa::path(post, path = "/v1/items/{item}/reorder", operation_id = "reorder", tag = "operating",
    params(("item" = api::names::ItemId, Path)), request_body = Reorder, responses((status = 200, body = Reordered)))]
pub async fn reorder(call: Call, ItemPath(item): ItemPath, Body(reorder): Body<Reorder>) -> Reply<Reordered> {
    match call.run(Command::Reorder { item, actors: reorder.actors }).await? {
        Outcome::Reordered { item, line_length } => Ok(Json(Reordered { item, line_length })),
        other => Err(unfitting(&other)),
    }
}

/// End somebody's lease
///
/// For operators. The assignment stays, or moves to the actor that is named; the event says who did it and why.
#[utoipa::path(post, path = "/v1/items/{item}/revoke", operation_id = "revoke", tag = "operating",
    params(("item" = api::names::ItemId, Path)), request_body = Revoke, responses((status = 200, body = Revoked)))]
pub async fn revoke(call: Call, ItemPath(id): ItemPath, Body(revoke): Body<Revoke>) -> Reply<Revoked> {
    match call.run(revoke.into_command(id)).await? {
        Outcome::Revoked { item, revoked, state } => Ok(Json(Revoked { item, revoked, state: state.into() })),
        other => Err(unfitting(&other)),
    }
}

/// Assign an item
///
/// Ownership without a lease. Refused while another actor's lease is live.
#[utoipa::path(post, path = "/v1/items/{item}/assign", operation_id = "assign", tag = "items",
    params(("item" = api::names::ItemId, Path)), request_body = Assign, responses((status = 200, body = Assigned)))]
pub async fn assign(call: Call, ItemPath(item): ItemPath, Body(assign): Body<Assign>) -> Reply<Assigned> {
    match call.run(Command::Assign { item, actor: assign.actor }).await? {
        Outcome::Assigned { item, actor } => Ok(Json(Assigned { item, actor })),
        other => Err(unfitting(&other)),
    }
}

/// Take an assignment away
#[utoipa::path(post, path = "/v1/items/{item}/unassign", operation_id = "unassign", tag = "items",
    params(("item" = api::names::ItemId, Path)), request_body = Assign, responses((status = 200, body = Unassigned)))]
pub async fn unassign(call: Call, ItemPath(item): ItemPath, Body(assign): Body<Assign>) -> Reply<Unassigned> {
    match call.run(Command::Unassign { item, actor: assign.actor }).await? {
        Outcome::Unassigned { item, unassigned } => Ok(Json(Unassigned { item, unassigned })),
        other => Err(unfitting(&other)),
    }
}
