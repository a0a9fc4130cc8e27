//! Commands: floods and batches without the right to them, and the largest that are allowed.

use super::http1::{Caller, request};
use super::{DISPATCHER, NOBODY, Target, Tasks, WORKER, pace};
use std::fmt::Write as _;

const FLOODERS: usize = 16;
/// Commands per second, of all flooders next to a node.
const FLOOD: f64 = 1_500.0;
/// The maximum number of entries in a batch.
const ENTRIES: usize = 1_000;
/// With the rest of an entry, a thousand of them are a little less than 2 MiB.
const REFUSED_BODY: usize = 2_000;
/// Batches per second.
const REFUSED: f64 = 1.0;
/// The largest body that an item may have, less the size of JSON and names.
const BODY: usize = 64 * 1024;
/// More do not fit into a request.
const CREATED_AT_ONCE: u64 = 31;
/// Batches per second: 3 MiB.
const CREATED: f64 = 1.5;
const WRITERS: usize = 4;
/// Activities per second, of all writers.
const ACTIVITIES: f64 = 48.0;
const RENEWERS: usize = 8;
/// Heartbeats per second, of all renewers.
const RENEWALS: f64 = 40.0;

/// Every kind of command on one item, by a caller without any right to it.
pub(super) fn flood(target: &Target, tasks: &mut Tasks) {
    let key = target.key(NOBODY);
    let item = "/v1/items/honest-named-0-0";
    let asked: Vec<Vec<u8>> = [
        ("POST", "/v1/items".to_owned(), r#"{"id":"hostile-flood","queue":"honest-named"}"#),
        ("POST", format!("{item}/claim"), "{}"),
        ("POST", format!("{item}/renew"), r#"{"token":1}"#),
        ("POST", format!("{item}/complete"), r#"{"token":1}"#),
        ("POST", format!("{item}/release"), "{}"),
        ("POST", format!("{item}/cancel"), r#"{"reason":"hostile","force":true}"#),
        ("POST", "/v1/queues/honest-named/next".to_owned(), "{}"),
        ("POST", "/v1/queues/honest-named/pause".to_owned(), ""),
        ("POST", "/v1/cluster/snapshot".to_owned(), ""),
    ]
    .into_iter()
    .map(|(method, path, body)| request(method, &path, key, None, body))
    .collect();
    for nth in 0..FLOODERS {
        let (mut caller, asked) = (Caller::new(target), asked.clone());
        tasks.spawn(async move {
            let mut pace = pace(FLOOD / FLOODERS as f64);
            for each in asked.iter().cycle().skip(nth) {
                pace.tick().await;
                caller.ask(each).await;
            }
        });
    }
}

/// Batches of items and of claims, by a caller without a role and by one without a role in that queue.
pub(super) fn refused_batches(target: &Target, tasks: &mut Tasks) {
    let items = batch("items", |nth| {
        format!(r#"{{"id":"hostile-{nth}","queue":"honest-named","body":{{"data":"{}"}}}}"#, "d".repeat(REFUSED_BODY))
    });
    let claims =
        batch("claims", |nth| format!(r#"{{"item":"honest-named-{nth}-0","action":"{}"}}"#, "a".repeat(1_000)));
    for (key, path, body) in [
        (NOBODY, "/v1/items/batch", &items),
        (DISPATCHER, "/v1/items/batch", &items),
        (NOBODY, "/v1/claims", &claims),
        (WORKER, "/v1/claims", &claims),
    ] {
        let (mut caller, asked) = (Caller::new(target), request("POST", path, target.key(key), None, body));
        tasks.spawn(async move {
            let mut pace = pace(REFUSED / 2.0);
            loop {
                pace.tick().await;
                caller.ask(&asked).await;
            }
        });
    }
}

fn batch(of: &str, entry: impl Fn(usize) -> String) -> String {
    let mut body = format!(r#"{{"{of}":["#);
    for nth in 0..ENTRIES {
        body += if nth == 0 { "" } else { "," };
        body += &entry(nth);
    }
    body + "]}"
}

/// New items with the largest bodies, by a caller that may create them.
pub(super) fn created_batches(target: &Target, tasks: &mut Tasks) {
    let (mut caller, key) = (Caller::new(target), target.key(DISPATCHER).map(str::to_owned));
    let (name, data) = (target.named("body"), "d".repeat(BODY - 512));
    tasks.spawn(async move {
        let mut pace = pace(CREATED);
        for round in 0_u64.. {
            pace.tick().await;
            let mut body = String::from(r#"{"items":["#);
            for nth in 0..CREATED_AT_ONCE {
                let comma = if nth == 0 { "" } else { "," };
                let _ = write!(
                    body,
                    r#"{comma}{{"id":"{name}-{round}-{nth}","queue":"hostile-bodies","body":{{"data":"{data}"}}}}"#
                );
            }
            body += "]}";
            caller.ask(&request("POST", "/v1/items/batch", key.as_deref(), None, &body)).await;
        }
    });
}

/// By holders of one lease each.
pub(super) fn activities(target: &Target, tasks: &mut Tasks) {
    for nth in 0..WRITERS {
        let (mut caller, target) = (Caller::new(target), target.clone());
        tasks.spawn(async move {
            let session = format!("{}-{nth}", target.plan.name);
            let note = "n".repeat(BODY - 512);
            let mut pace = pace(ACTIVITIES / WRITERS as f64);
            for round in 0_u64.. {
                pace.tick().await;
                let item = format!("{}-{nth}-{round}", target.named("activity"));
                let Some(token) = held(&mut caller, &target, WORKER, &item, &session).await else { continue };
                let body = format!(r#"{{"token":{token},"kind":"plan_updated","note":"{note}"}}"#);
                let path = format!("/v1/items/{item}/activity");
                let asked = request("POST", &path, target.key(WORKER), Some(&session), &body);
                loop {
                    pace.tick().await;
                    match caller.ask(&asked).await {
                        // The lease is over, or the item has its maximum size.
                        Some(answer) if [404, 409, 428].contains(&answer.status) => break,
                        _ => {}
                    }
                }
            }
        });
    }
}

/// The fencing token of a new item that is claimed.
pub(super) async fn held(caller: &mut Caller, target: &Target, holder: &str, item: &str, session: &str) -> Option<u64> {
    let new = format!(r#"{{"id":"{item}","queue":"hostile-held"}}"#);
    caller.ask(&request("POST", "/v1/items", target.key(DISPATCHER), None, &new)).await?;
    let claim = request(
        "POST",
        &format!("/v1/items/{item}/claim"),
        target.key(holder),
        Some(session),
        r#"{"lease_for_ms":20000}"#,
    );
    let granted = caller.ask(&claim).await?;
    let (_, behind) = granted.body.split_once("\"token\":")?;
    behind.split(|other: char| !other.is_ascii_digit()).next()?.parse().ok()
}

/// By a caller without a role and by one that holds nothing.
pub(super) fn renew_all(target: &Target, tasks: &mut Tasks) {
    let body = batch("expected", |nth| format!(r#"{{"item":"honest-named-{nth}-0","token":{}}}"#, nth + 1));
    for nth in 0..RENEWERS {
        let key = if nth % 2 == 0 { NOBODY } else { WORKER };
        let mut caller = Caller::new(target);
        let asked = request("POST", "/v1/renewals", target.key(key), Some(&format!("renewer-{nth}")), &body);
        tasks.spawn(async move {
            let mut pace = pace(RENEWALS / RENEWERS as f64);
            loop {
                pace.tick().await;
                caller.ask(&asked).await;
            }
        });
    }
}
