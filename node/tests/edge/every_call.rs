//! Every documented call succeeds at the leader and at a follower.

use crate::contract::OK;
use crate::http::Caller;
use crate::people::{Edge, usual};
use lease::numbers::Wall;
use node::peers::admission::check_secret;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_answered_by_the_leader_and_by_a_follower() {
    let mut edge = Edge::start(&usual()).await;
    for role in ["leader", "follower"] {
        let node = if role == "leader" { edge.world.leader().await } else { edge.world.follower().await };
        let root = edge.caller("root").at(node);
        work(&root, role).await;
        hold(&root, role).await;
        look(&root, role).await;
        operate(&root, role).await;
        let stranger = if role == "leader" { 8 } else { 9 };
        run_cluster(&root, stranger).await;
        let made = root.post("/v1/cluster/join-secret", json!({"node": stranger, "valid_for_ms": 600_000})).ok().await;
        // Every node accepts the secret until it expires.
        let secret = made["secret"].as_str().unwrap();
        for of in 1..=3 {
            assert_eq!(check_secret(&edge.world.identity(of), secret, stranger, in_ms(300_000)), Ok(()));
            assert!(check_secret(&edge.world.identity(of), secret, stranger, in_ms(900_000)).is_err());
            assert!(check_secret(&edge.world.identity(of), secret, stranger + 1, in_ms(0)).is_err());
        }
        let seen = edge.contract().seen().into_iter().filter(|seen| seen.node == node && seen.answer == OK);
        let seen: BTreeSet<String> = seen.map(|seen| seen.operation).collect();
        let missing: Vec<_> = edge.contract().operations().difference(&seen).cloned().collect();
        // Only a node without data can be restored: the module `backup` tests it.
        assert_eq!(missing, ["restore"], "by the {role}");
        edge.is_ready(node).await;
    }
}

fn in_ms(later: u64) -> Wall {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    Wall(u64::try_from(now).unwrap() + later)
}

async fn claim(root: &Caller, id: &str) -> Value {
    root.post(format!("/v1/items/{id}/claim"), json!({})).ok().await["token"].clone()
}

async fn work(root: &Caller, role: &str) {
    let (a, b) = (format!("{role}-a"), format!("{role}-b"));
    root.post("/v1/items", json!({"id": a, "queue": role, "body": {"prompt": "do it"}})).ok().await;
    root.post("/v1/items/batch", json!({"items": [{"id": b, "queue": role}]})).ok().await;
    let token = claim(root, &a).await;
    let at = |verb: &str| format!("/v1/items/{a}/{verb}");
    root.post(at("activity"), json!({"token": token, "kind": "progress", "note": "half"})).ok().await;
    root.post(at("await_input"), json!({"token": token, "question": "which?"})).ok().await;
    root.post(at("resume"), json!({"token": token})).ok().await;
    root.patch(format!("/v1/items/{a}"), json!({"token": token, "title": "new"})).ok().await;
    root.post(at("hand_on"), json!({"token": token, "phase": "review"})).ok().await;
    let token = claim(root, &a).await;
    root.post(at("complete"), json!({"token": token, "result": "done"})).ok().await;
    root.post(at("reopen"), json!({})).ok().await;
    let token = claim(root, &a).await;
    root.post(at("fail"), json!({"token": token, "final": true})).ok().await;
    root.post(at("retry"), json!({})).ok().await;
    root.post(at("cancel"), json!({"reason": "enough"})).ok().await;
}

async fn hold(root: &Caller, role: &str) {
    let b = format!("{role}-b");
    let at = |verb: &str| format!("/v1/items/{b}/{verb}");
    let token = claim(root, &b).await;
    root.post(at("renew"), json!({"token": token})).ok().await;
    root.post(at("extend"), json!({"token": token, "for_ms": 1000})).ok().await;
    root.post("/v1/renewals", json!({})).ok().await;
    root.post(at("reserve"), json!({"token": token, "for_ms": 60_000})).ok().await;
    claim(root, &b).await;
    root.post(at("release"), json!({})).ok().await;
    root.post(at("withdraw"), json!({})).ok().await;
    root.post(at("reorder"), json!({"actors": ["bob"]})).ok().await;
    root.post(at("assign"), json!({"actor": "bob"})).ok().await;
    root.post(at("unassign"), json!({"actor": "bob"})).ok().await;
    claim(root, &b).await;
    root.post(at("revoke"), json!({"reason": "mine"})).ok().await;
    root.post("/v1/claims", json!({"claims": [{"item": b}]})).ok().await;
    root.post("/v1/claims", json!({"releases": [{"item": b}]})).ok().await;
    root.get(format!("/v1/queues/{role}/peek")).ok().await;
    let next = root.post(format!("/v1/queues/{role}/next"), json!({})).ok().await;
    assert_eq!(next["grants"][0]["item"], b, "{next}");
}

async fn look(root: &Caller, role: &str) {
    for path in ["", "/line", "/claims", "/activities", "/held_at?at_ms=0"] {
        root.get(format!("/v1/items/{role}-b{path}")).ok().await;
    }
    let paths = ["/v1/items", "/v1/carrying", "/v1/actors/root/carrying", "/v1/queues", "/v1/space", "/v1/workers"];
    for path in paths.into_iter().chain(["/v1/events"]) {
        root.get(path).ok().await;
    }
    root.get(format!("/v1/queues/{role}")).ok().await;
    let mut events = root.get("/v1/events/stream?after=0.0").follow().await;
    assert_eq!(events.next().await.unwrap().id.as_deref(), Some("0.1"));
}

async fn operate(root: &Caller, role: &str) {
    root.patch(format!("/v1/queues/{role}/policy"), json!({"lease_for_ms": 60_000})).ok().await;
    for verb in ["pause", "unpause", "drain", "unpause"] {
        root.post(format!("/v1/queues/{role}/{verb}"), json!({})).ok().await;
    }
    let policy = json!({"items_max": 0, "body_bytes_max": 0, "identity": "accept_self_reported"});
    root.put("/v1/space/policy", policy).ok().await;
    let worker = root.session("worker");
    worker.put("/v1/workers/self", json!({"alive_for_ms": 60_000})).ok().await;
    let name = json!({"actor": "root", "session": "worker"});
    root.post("/v1/workers/drain", name.clone()).ok().await;
    root.post("/v1/workers/remove", name).ok().await;
}

/// Adds and removes a member; its id is never used again.
async fn run_cluster(root: &Caller, stranger: u64) {
    let status = root.get("/v1/cluster").ok().await;
    assert_eq!(status["members"].as_array().unwrap().len(), 3, "{status}");
    let nobody = json!({"node": stranger, "peer_address": "127.0.0.1:1", "instance": 0});
    root.post("/v1/cluster/members", nobody).ok().await;
    root.post("/v1/cluster/members/1/promote", json!({})).ok().await;
    root.delete(format!("/v1/cluster/members/{stranger}")).ok().await;
    root.post("/v1/cluster/transfer", json!({"to": status["leader"]})).ok().await;
    root.post("/v1/cluster/snapshot", json!({})).ok().await;
    root.post("/v1/cluster/activate", json!({})).ok().await;
    root.post("/v1/cluster/rules", json!({"version": status["rules_version"]})).ok().await;
    assert!(root.get("/v1/cluster/backup").answer().await.bytes.len() > 100);
    root.post("/v1/cluster/drain", json!({})).ok().await;
    root.post("/v1/cluster/undrain", json!({})).ok().await;
}
