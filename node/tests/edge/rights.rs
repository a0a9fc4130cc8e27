//! A command without the right for it never enters the Raft log. A caller that lost a right still gets the outcomes of
//! its earlier commands.

use crate::http::{Ask, Caller};
use crate::metrics::{scrape, value};
use crate::people::{Edge, in_queues, person, usual, write_api_keys};
use serde_json::{Value, json};
use test_support::until;

/// The last index of the leader's log.
async fn log_end(root: &Caller) -> f64 {
    value(&scrape(root).await, "tenure_raft_last_log_index")
}

/// Commands that name this item and this queue.
fn commands(caller: &Caller, item: &str, queue: &str) -> Vec<Ask> {
    let at = |verb: &str| format!("/v1/items/{item}/{verb}");
    let of_queue = |verb: &str| format!("/v1/queues/{queue}/{verb}");
    vec![
        caller.post("/v1/items", json!({"id": "new", "queue": queue})),
        caller.patch(format!("/v1/items/{item}"), json!({"title": "x"})),
        caller.post(at("claim"), json!({})),
        caller.post(at("claim"), json!({"on_conflict": "wait", "poll_ms": 10})),
        caller.post(at("renew"), json!({"token": 1})),
        caller.post(at("extend"), json!({"token": 1, "for_ms": 1})),
        caller.post(at("release"), json!({})),
        caller.post(at("withdraw"), json!({})),
        caller.post(at("complete"), json!({"token": 1, "result": "x".repeat(10_000)})),
        caller.post(at("activity"), json!({"token": 1, "kind": "plan_updated", "note": "x".repeat(10_000)})),
        caller.post(at("cancel"), json!({"reason": "x"})),
        caller.post(at("reopen"), json!({})),
        caller.post(at("revoke"), json!({"reason": "x"})),
        caller.post(of_queue("next"), json!({})),
        caller.post(of_queue("pause"), json!({})),
    ]
}

/// A batch of each kind, with entries for this item and this queue only.
fn batches(caller: &Caller, item: &str, queue: &str) -> Vec<Ask> {
    let new: Vec<Value> = (0..100).map(|nth| json!({"id": format!("new-{nth}"), "queue": queue})).collect();
    let mut claims: Vec<Value> = (0..100).map(|nth| json!({"item": format!("none-{nth}")})).collect();
    claims.push(json!({"item": item}));
    let releases = [json!({"item": "released"})];
    vec![
        caller.post("/v1/items/batch", json!({"items": new})),
        caller.post("/v1/claims", json!({"claims": claims, "releases": releases})),
        caller.post("/v1/claims", json!({"claims": claims, "all_or_none": true})),
    ]
}

async fn is_denied(ask: Ask) {
    let problem = ask.answer().await.json();
    let code = problem["code"].as_str().unwrap_or_default();
    assert!(["forbidden", "not_found"].contains(&code), "{problem}");
    assert_eq!(problem["took_effect"], "no", "{problem}");
}

/// Every entry of the batch is denied.
async fn is_denied_throughout(ask: Ask) {
    let answer = ask.ok().await;
    let entries: Vec<&Value> = answer.as_object().unwrap().values().filter_map(Value::as_array).flatten().collect();
    assert!(!entries.is_empty(), "{answer}");
    for entry in entries {
        let told = entry.to_string();
        assert!(told.contains("\"not_found\"") || told.contains("\"forbidden\""), "{entry}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_caller_without_roles_never_enter_the_log() {
    let mut people = usual();
    people.push(person("nothing", "default", &[]));
    let mut edge = Edge::start(&people).await;
    let (leader, follower) = (edge.world.leader().await, edge.world.follower().await);
    let root = edge.caller("root").at(leader);
    root.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    for node in [leader, follower] {
        let nothing = edge.caller("nothing").at(node);
        let before = log_end(&root).await;
        let all: Vec<Value> = (0..1_000).map(|nth| json!({"item": format!("i{nth}"), "token": 1})).collect();
        is_denied(nothing.post("/v1/renewals", json!({"expected": all}))).await;
        is_denied(nothing.post("/v1/workers/drain", json!({"actor": "nothing"}))).await;
        is_denied(nothing.post("/v1/workers/remove", json!({"actor": "nothing"}))).await;
        is_denied(nothing.put("/v1/workers/self", json!({"alive_for_ms": 1000}))).await;
        for item in ["a", "none"] {
            for ask in commands(&nothing, item, "q") {
                is_denied(ask).await;
            }
            for ask in batches(&nothing, item, "q") {
                is_denied_throughout(ask).await;
            }
        }
        // Nor when it is marked as a repeat.
        let again = nothing.with("tenure-retry", "50");
        again.post("/v1/items", json!({"id": "new", "queue": "q"})).refused("unknown").await;
        let late = nothing.with("tenure-retry", "110000");
        late.post("/v1/items", json!({"id": "new", "queue": "q"})).refused("request_forgotten").await;
        assert_eq!(log_end(&root).await, before, "at node {node}, the leader is {leader}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_outside_a_workers_queues_never_enter_the_log() {
    let mut people = usual();
    people.push(in_queues("xena", "default", &["worker"], &["x*"]));
    let mut edge = Edge::start(&people).await;
    let (leader, follower) = (edge.world.leader().await, edge.world.follower().await);
    let root = edge.caller("root").at(leader);
    root.post("/v1/items", json!({"id": "in-y", "queue": "y"})).ok().await;
    for node in [leader, follower] {
        let xena = edge.caller("xena").at(node);
        let before = log_end(&root).await;
        for ask in commands(&xena, "in-y", "y") {
            is_denied(ask).await;
        }
        for ask in batches(&xena, "in-y", "y") {
            is_denied_throughout(ask).await;
        }
        assert_eq!(log_end(&root).await, before, "at node {node}, the leader is {leader}");
        // An item of its own queue that this node may not have applied yet.
        let id = format!("in-x-{node}");
        root.post("/v1/items", json!({"id": id, "queue": "x"})).ok().await;
        let token = xena.post(format!("/v1/items/{id}/claim"), json!({})).ok().await["token"].clone();
        // A batch in which it may do something goes through as a whole.
        let claims = json!({"claims": [{"item": id}, {"item": "in-y"}, {"item": "none"}]});
        let answer = xena.post("/v1/claims", claims).ok().await.to_string();
        assert_eq!((answer.matches("\"not_found\"").count(), answer.matches("\"token\"").count()), (2, 1), "{answer}");
        xena.post(format!("/v1/items/{id}/complete"), json!({"token": token})).ok().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_lost_its_right_still_gets_the_answer_to_what_it_did() {
    let root = person("root", "*", &["reader", "worker", "dispatcher", "operator", "admin"]);
    let people = [root.clone(), person("ada", "default", &["worker", "dispatcher"])];
    let mut edge = Edge::start(&people).await;
    let (leader, follower) = (edge.world.leader().await, edge.world.follower().await);
    let create = |node: u64, key: &str, id: &str| {
        edge.caller("ada").at(node).key(key).post("/v1/items", json!({"id": id, "queue": "q"}))
    };
    create(leader, "first", "a").ok().await;
    create(follower, "second", "b").ok().await;
    write_api_keys(&edge.world, &[root, person("ada", "default", &[])]);
    for node in [leader, follower] {
        let ada = edge.caller("ada").at(node);
        until("the grant is gone", async || ada.get("/v1/items/a").answer().await.status == 404).await;
        for (key, id) in [("first", "a"), ("second", "b")] {
            // An earlier command returns its outcome, whether or not it is marked as a repeat.
            assert_eq!(create(node, key, id).ok().await["created"], true);
            let again = ada.key(key).with("tenure-retry", "500");
            assert_eq!(again.post("/v1/items", json!({"id": id, "queue": "q"})).ok().await["created"], true);
            ada.key(key).post("/v1/items", json!({"id": "other", "queue": "q"})).refused("request_id_reused").await;
        }
        // A new command is refused; if it is marked as a repeat, an earlier attempt may still be on its way.
        create(node, "third", "c").refused("not_found").await;
        let again = ada.key("third").with("tenure-retry", "500");
        let problem = again.post("/v1/items", json!({"id": "c", "queue": "q"})).refused("unknown").await;
        assert_eq!(problem["took_effect"], "unknown", "{problem}");
        is_denied(ada.post("/v1/renewals", json!({}))).await;
    }
}
