//! What a read shows is of one moment, also where a part of it lies on disk.

use crate::people::{Edge, usual};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const UPDATES: u32 = 400;
const READERS: u64 = 9;

#[tokio::test(flavor = "multi_thread")]
async fn a_body_and_its_revision_are_of_one_moment() {
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    let created = root.post("/v1/items", json!({"id": "a", "queue": "q", "body": {"data": "none"}})).ok().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (caller, is_over) = (root.at(1 + reader % 3), is_over.clone());
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let item = caller.get("/v1/items/a").ok().await;
                    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
                    seen.push((text(&item["revision"]), text(&item["body"]["data"])));
                }
                seen
            })
        })
        .collect();

    let mut written = BTreeMap::from([(created["revision"].as_str().unwrap().to_owned(), "none".to_owned())]);
    let mut revision = created["revision"].clone();
    for value in 0..UPDATES {
        let update = json!({"read_at": revision, "body": {"data": value.to_string()}});
        revision = root.patch("/v1/items/a", update).ok().await["revision"].clone();
        written.insert(revision.as_str().unwrap().to_owned(), value.to_string());
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        for (revision, data) in reader.await.unwrap() {
            assert_eq!(written[&revision], data, "at revision {revision}");
        }
    }
}
