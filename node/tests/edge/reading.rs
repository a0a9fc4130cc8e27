//! A read is consistent, also if a part of it comes from disk.

use crate::people::{Edge, usual};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const UPDATES: u32 = 400;
const READERS: u64 = 24;
/// A long body, so that reading it takes a moment.
const LENGTH: usize = 12_000;

fn body(value: &str) -> Value {
    let long = format!("{value:>LENGTH$}");
    json!({"prompt": long, "context": long, "data": long})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_returns_a_body_and_its_revision_consistently() {
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    let created = root.post("/v1/items", json!({"id": "a", "queue": "q", "body": body("none")})).ok().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (caller, is_over) = (root.at(1 + reader % 3), is_over.clone());
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let item = caller.get("/v1/items/a").ok().await;
                    let text = |value: &Value| value.as_str().unwrap().trim_start().to_owned();
                    let parts = ["prompt", "context", "data"].map(|part| text(&item["body"][part]));
                    seen.push((text(&item["revision"]), parts));
                }
                seen
            })
        })
        .collect();

    let mut written = BTreeMap::from([(created["revision"].as_str().unwrap().to_owned(), "none".to_owned())]);
    let mut revision = created["revision"].clone();
    for value in 0..UPDATES {
        let update = json!({"read_at": revision, "body": body(&value.to_string())});
        revision = root.patch("/v1/items/a", update).ok().await["revision"].clone();
        written.insert(revision.as_str().unwrap().to_owned(), value.to_string());
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        for (revision, parts) in reader.await.unwrap() {
            assert!(parts.iter().all(|part| *part == written[&revision]), "at revision {revision}: {parts:?}");
        }
    }
}
