//! Everything that a cluster stores under names that callers choose: queues, workers, places in a line, request ids.
//! Each is filled as fast as the caller may.

use super::http1::{Caller, request};
use super::writes::held;
use super::{DISPATCHER, HOLDER, Target, Tasks, WORKER, pace};
use std::fmt::Write as _;

/// Batches per second, each with items in as many new queues.
const QUEUES: f64 = 5.0;
const QUEUES_AT_ONCE: u64 = 100;
const WORKERS: f64 = 100.0;
const PLACES: f64 = 100.0;
/// When a line has its maximum length, the caller starts a new line at another item.
const PLACES_OF_ITEM: u64 = 2_000;
/// Each under its own request id, which is remembered.
const REQUESTS: f64 = 200.0;

pub(super) fn start(target: &Target, tasks: &mut Tasks) {
    tasks.spawn(queues(target.clone()));
    tasks.spawn(workers(target.clone()));
    tasks.spawn(places(target.clone()));
    tasks.spawn(requests(target.clone()));
}

async fn queues(target: Target) {
    let (mut caller, name) = (Caller::new(&target), target.named("queue"));
    let mut pace = pace(QUEUES);
    for round in 0_u64.. {
        pace.tick().await;
        let mut body = String::from(r#"{"items":["#);
        for nth in 0..QUEUES_AT_ONCE {
            let comma = if nth == 0 { "" } else { "," };
            let _ = write!(body, r#"{comma}{{"id":"{name}-{round}-{nth}","queue":"{name}-{round}-{nth}"}}"#);
        }
        body += "]}";
        caller.ask(&request("POST", "/v1/items/batch", target.key(DISPATCHER), None, &body)).await;
    }
}

async fn workers(target: Target) {
    let (mut caller, name) = (Caller::new(&target), target.named("worker"));
    let mut pace = pace(WORKERS);
    for nth in 0_u64.. {
        pace.tick().await;
        let (session, body) = (format!("{name}-{nth}"), r#"{"alive_for_ms":86400000}"#);
        caller.ask(&request("PUT", "/v1/workers/self", target.key(WORKER), Some(&session), body)).await;
    }
}

async fn places(target: Target) {
    let (mut caller, name) = (Caller::new(&target), target.named("line"));
    let mut pace = pace(PLACES);
    for round in 0_u64.. {
        let item = format!("{name}-{round}");
        pace.tick().await;
        if held(&mut caller, &target, HOLDER, &item, &name).await.is_none() {
            continue;
        }
        for nth in 0..PLACES_OF_ITEM {
            pace.tick().await;
            let session = format!("{item}-{nth}");
            let claim = request(
                "POST",
                &format!("/v1/items/{item}/claim"),
                target.key(WORKER),
                Some(&session),
                r#"{"on_conflict":"wait","poll_ms":0,"lease_for_ms":1000}"#,
            );
            caller.ask(&claim).await;
        }
    }
}

/// A release of an item that the caller does not hold is a command like any other.
async fn requests(target: Target) {
    let (mut caller, item) = (Caller::new(&target), target.named("request"));
    let new = format!(r#"{{"id":"{item}","queue":"hostile-requests"}}"#);
    caller.ask(&request("POST", "/v1/items", target.key(DISPATCHER), None, &new)).await;
    // Without a request id from the caller, each request gets one.
    let release = request("POST", &format!("/v1/items/{item}/release"), target.key(WORKER), None, "{}");
    let mut pace = pace(REQUESTS);
    loop {
        pace.tick().await;
        caller.ask(&release).await;
    }
}
