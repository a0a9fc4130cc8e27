//! The registry of workers.

use crate::edge::answer::{Failure, Reply, Viewed};
use crate::edge::call::Call;
use crate::edge::extract::{Body, Query};
use crate::edge::rest::items::{limit, no_cursor};
use api::query::PageQuery;
use api::worker::{Draining, Register, Registered, Removed, Worker, WorkerName, WorkerPage};
use lease::Command;
use lease::caller::Holder;
use lease::names::{ActorId, SessionId};
use std::ops::ControlFlow;

/// List workers
///
/// Callers that run the space see all workers; a worker sees itself.
#[utoipa::path(get, path = "/v1/workers", operation_id = "list_workers", tag = "workers",
    params(PageQuery), responses((status = 200, body = WorkerPage, description = "A page of workers")))]
pub async fn list(call: Call, Query(query): Query<PageQuery>) -> Result<Viewed<WorkerPage>, Failure> {
    let limit = limit(query.limit)?;
    let after = query.cursor.as_deref().map(position).transpose()?;
    let (caller, space) = (call.caller.clone(), call.head.space.clone());
    call.survey(query.consistency, 1, move |state, _, calendar| {
        let mut views = state.workers_after(&caller, &space, after.as_ref(), limit + 1);
        let is_more = views.len() > limit;
        views.truncate(limit);
        let next_cursor = views.last().filter(|_| is_more).map(|last| cursor(&last.worker.who));
        let workers = views.into_iter().map(|view| Worker::new(view, calendar)).collect();
        Ok(ControlFlow::Break(WorkerPage { workers, next_cursor }))
    })
    .await
}

/// The position after a worker: its names in hexadecimal, because they may contain any character.
fn cursor(who: &Holder) -> String {
    let hex = |text: &str| text.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    match &who.session {
        None => hex(who.actor.as_str()),
        Some(session) => format!("{}.{}", hex(who.actor.as_str()), hex(session.as_str())),
    }
}

fn position(cursor: &str) -> Result<Holder, Failure> {
    let text = |hex: &str| {
        let bytes: Option<Vec<u8>> = (0..hex.len())
            .step_by(2)
            .map(|at| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
            .collect();
        bytes.and_then(|bytes| String::from_utf8(bytes).ok())
    };
    let read = || {
        let (actor, session) = cursor.split_once('.').map_or((cursor, None), |(actor, rest)| (actor, Some(rest)));
        let actor = ActorId::new(&text(actor)?).ok()?;
        let session = match session {
            None => None,
            Some(session) => Some(SessionId::new(&text(session)?).ok()?),
        };
        Some(Holder::new(actor, session))
    };
    read().ok_or_else(no_cursor)
}

/// Register the caller as a worker
///
/// Optional: a worker can claim without it. The heartbeat of a worker is `renew_all`.
#[utoipa::path(put, path = "/v1/workers/self", operation_id = "register_worker", tag = "workers",
    request_body = Register, responses((status = 200, body = Registered, description = "The caller is registered")))]
pub async fn register(call: Call, Body(register): Body<Register>) -> Reply<Registered> {
    call.reply(register.into_command()).await
}

/// Drain a worker
///
/// The worker gets no new items, and the response to its heartbeat tells it so.
#[utoipa::path(post, path = "/v1/workers/drain", operation_id = "drain_worker", tag = "operating",
    request_body = WorkerName,
    responses((status = 200, body = Draining, description = "The worker is draining, if it is known")))]
pub async fn drain(call: Call, Body(worker): Body<WorkerName>) -> Reply<Draining> {
    call.reply(Command::DrainWorker { worker: worker.into() }).await
}

/// Remove a worker from the registry
///
/// Its leases do not change.
#[utoipa::path(post, path = "/v1/workers/remove", operation_id = "remove_worker", tag = "workers",
    request_body = WorkerName, responses((status = 200, body = Removed, description = "The worker is not registered")))]
pub async fn remove(call: Call, Body(worker): Body<WorkerName>) -> Reply<Removed> {
    call.reply(Command::RemoveWorker { worker: worker.into() }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_cursor_decodes_to_the_same_worker() {
        for (actor, session) in [("ada", None), ("ä.b/ c", Some("run.7"))] {
            let session = session.map(|session| SessionId::new(session).unwrap());
            let who = Holder::new(ActorId::new(actor).unwrap(), session);
            assert_eq!(position(&cursor(&who)).unwrap(), who);
        }
        assert!(["", "a", "zz", "61.", "61.7", "ä"].iter().all(|wrong| position(wrong).is_err()));
    }
}
