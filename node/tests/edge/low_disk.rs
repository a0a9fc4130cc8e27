//! HTTP calls while disk space is low.

use crate::metrics::{scrape, value};
use crate::people::{Edge, usual};
use serde_json::json;
use test_support::until;

#[tokio::test(flavor = "multi_thread")]
async fn low_disk_rejects_new_work_with_retry_after_and_holders_continue() {
    let mut edge = Edge::start(&usual()).await;
    let ada = edge.caller("ada");
    let mut tokens = Vec::new();
    for node in 1..=3 {
        let id = format!("held-{node}");
        ada.post("/v1/items", json!({"id": id, "queue": "q"})).ok().await;
        tokens.push(ada.post(format!("/v1/items/{id}/claim"), json!({})).ok().await["token"].clone());
    }
    let leader = edge.world.leader().await;
    let found = rustix::fs::statvfs(edge.world.folder()).unwrap();
    // A limit above the free space, but not so far above that a node stops.
    let floor = found.f_bavail * found.f_frsize / 2 * 3;
    let options = edge.world.options.clone();
    edge.world.options.extend(["--disk-free-min".into(), floor.to_string()]);
    let followers: Vec<u64> = (1..=3).filter(|node| *node != leader).collect();
    for node in &followers {
        assert!(edge.world.stop(*node).await.success());
        edge.world.start(*node);
        edge.is_ready(*node).await;
    }
    let refuses = async |edge: &Edge, node: u64| {
        value(&scrape(&edge.caller("root").at(node)).await, "tenure_disk_work_refused") > 0.0
    };
    let leader = edge.world.leader().await;
    until("the leader knows that two of three are low", async || refuses(&edge, leader).await).await;

    for (node, token) in (1..=3).zip(&tokens) {
        let ada = ada.at(node);
        let refused = ada.post("/v1/items", json!({"id": "new", "queue": "q"})).answer().await;
        let problem = refused.json();
        assert_eq!((&problem["code"], &problem["took_effect"]), (&json!("overloaded"), &json!("no")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("disk space is low"), "{problem}");
        assert!(problem["retry_after_ms"].as_u64() >= Some(1_000), "{problem}");
        assert!(refused.headers.contains_key("retry-after"));
        // A repeated call may have happened before.
        let repeat = ada.key("again").with("tenure-retry", "10");
        let doubted = repeat.post("/v1/items", json!({"id": "new", "queue": "q"})).answer().await.json();
        assert_eq!(doubted["code"], "unknown", "{doubted}");
        ada.post("/v1/queues/q/next", json!({})).refused("overloaded").await;
        let id = format!("held-{node}");
        ada.post(format!("/v1/items/{id}/renew"), json!({"token": token})).ok().await;
        ada.post(format!("/v1/items/{id}/complete"), json!({"token": token})).ok().await;
        assert_eq!(edge.nobody().at(node).get("/readyz").answer().await.status, 200);
    }
    let text = scrape(&edge.caller("root").at(leader)).await;
    for node in &followers {
        assert_eq!(value(&text, &format!("tenure_disk_low{{node=\"{node}\"}}")), 1.0);
    }

    edge.world.options = options;
    let node = followers[0];
    assert!(edge.world.stop(node).await.success());
    edge.world.start(node);
    edge.is_ready(node).await;
    let leader = edge.world.leader().await;
    until("the leader knows that there is room", async || !refuses(&edge, leader).await).await;
    ada.post("/v1/items", json!({"id": "new", "queue": "q"})).ok().await;
}
