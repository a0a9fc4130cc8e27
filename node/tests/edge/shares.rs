//! One caller cannot use up shared resources, over HTTP.

use crate::people::{Edge, usual};
use serde_json::{Value, json};

/// Number of successful entries of a batch.
fn done(batch: &Value) -> usize {
    batch["items"].as_array().unwrap().iter().filter(|item| item["outcome"] != "refused").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_actor_that_fills_a_space_and_a_line_leaves_room_for_others() {
    let edge = Edge::start(&usual()).await;
    let (root, hog, ada, bob) = (edge.caller("root"), edge.caller("cy"), edge.caller("ada"), edge.caller("bob"));
    let policy = json!({"items_max": 400, "body_bytes_max": 0, "identity": "accept_self_reported"});
    root.put("/v1/space/policy", policy).ok().await;
    root.patch("/v1/queues/q/policy", json!({"line_max": 40})).ok().await;

    let items: Vec<Value> = (0..400).map(|nth| json!({"id": format!("hog-{nth}"), "queue": "q"})).collect();
    let created = hog.post("/v1/items/batch", json!({"items": items})).ok().await;
    assert_eq!(done(&created), 300, "three quarters");
    let problem = hog.post("/v1/items", json!({"id": "more", "queue": "q"})).refused("space_full").await;
    assert_eq!(problem["items_max"], 400, "{problem}");
    ada.post("/v1/items", json!({"id": "disk", "queue": "q"})).ok().await;

    ada.post("/v1/items/disk/claim", json!({})).ok().await;
    let wait = || json!({"on_conflict": "wait", "poll_ms": 0});
    for nth in 0..30 {
        hog.session(&format!("run-{nth}")).post("/v1/items/disk/claim", wait()).ok().await;
    }
    hog.post("/v1/items/disk/claim", wait()).refused("line_too_long").await;
    let waiting = bob.post("/v1/items/disk/claim", wait()).ok().await;
    assert_eq!(waiting["place"], 30, "{waiting}");
}
