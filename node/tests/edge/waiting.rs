//! Calls that wait in line, for an item to become ready, or for an item to be free, on one node and across nodes.

use crate::http::Sent;
use crate::people::{Edge, usual};
use futures_util::future::select_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use test_support::until;

fn wait() -> Value {
    json!({"on_conflict": "wait", "poll_ms": 20_000})
}

async fn line_is(edge: &Edge, node: u64, length: usize) {
    let root = edge.caller("root").at(node);
    let line = async || root.get("/v1/items/a/line").ok().await["places"].as_array().unwrap().len();
    until("the line has this length", async || line().await == length).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_served_in_order_even_if_the_node_of_a_waiter_is_killed() {
    let mut edge = Edge::start(&usual()).await;
    let leader = edge.world.leader().await;
    let (f, g) = (1 + leader % 3, 1 + (leader + 1) % 3);
    let root = edge.caller("root").at(leader);
    root.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let first = edge.caller("ada").at(leader).post("/v1/items/a/claim", json!({})).ok().await;
    // Bob waits at a node that is killed; cy is after him in line.
    let bobs = edge.caller("bob").at(f).key("bobs").post("/v1/items/a/claim", wait());
    let bobs = tokio::spawn(bobs.send());
    line_is(&edge, leader, 1).await;
    let cys = tokio::spawn(edge.caller("cy").at(g).key("cys").post("/v1/items/a/claim", wait()).ok());
    line_is(&edge, leader, 2).await;
    edge.world.kill(f);
    assert!(matches!(bobs.await.unwrap(), Sent::Lost), "his node is gone");
    let again = edge.caller("bob").at(leader).key("bobs").with("tenure-retry", "1000");
    let bobs = tokio::spawn(again.post("/v1/items/a/claim", wait()).ok());
    edge.caller("ada").at(g).post("/v1/items/a/release", json!({})).ok().await;
    let bobs = bobs.await.unwrap();
    assert_eq!(bobs["outcome"], "granted", "{bobs}");
    assert!(bobs["token"].as_u64() > first["token"].as_u64());
    assert_eq!(bobs["line_length"], 1, "cy waits on: {bobs}");
    edge.caller("bob").at(leader).post("/v1/items/a/release", json!({"token": bobs["token"]})).ok().await;
    let cys = cys.await.unwrap();
    assert_eq!(cys["outcome"], "granted", "{cys}");
    assert!(cys["token"].as_u64() > bobs["token"].as_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_calls_get_each_item_once() {
    const WORKERS: usize = 12;
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    root.post("/v1/items", json!({"id": "first", "queue": "q"})).ok().await;
    root.post("/v1/items/first/cancel", json!({"reason": "only so that the queue is there"})).ok().await;
    let workers: Vec<_> = (0..WORKERS)
        .map(|nth| {
            let caller = edge.caller(["ada", "bob", "cy"][nth % 3]).session(&format!("s-{nth}")).at(1 + nth as u64 % 3);
            tokio::spawn(async move {
                loop {
                    let answer = caller.post("/v1/queues/q/next", json!({"wait_ms": 20_000})).ok().await;
                    if answer["outcome"] == "granted" {
                        return answer["grants"][0].clone();
                    }
                }
            })
        })
        .collect();
    let metric = |node: u64| {
        let nobody = edge.nobody().at(node);
        async move {
            let text = String::from_utf8(nobody.get("/metrics").answer().await.bytes.to_vec()).unwrap();
            number_of(&text, "tenure_waiters")
        }
    };
    let mut waiting = 0;
    until("all wait", async || {
        waiting = metric(1).await + metric(2).await + metric(3).await;
        waiting >= WORKERS as u64
    })
    .await;
    for nth in 0..WORKERS {
        root.at(1 + nth as u64 % 3).post("/v1/items", json!({"id": format!("i-{nth}"), "queue": "q"})).ok().await;
    }
    let mut given = BTreeSet::new();
    for worker in workers {
        let grant = worker.await.unwrap();
        assert!(given.insert(grant["item"].as_str().unwrap().to_owned()), "{grant}");
    }
    assert_eq!(given.len(), WORKERS);
}

/// The value of the first series of this name.
fn number_of(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_waits_until_nobody_holds_the_item() {
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    root.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let token = edge.caller("ada").post("/v1/items/a/claim", json!({})).ok().await["token"].clone();
    let short = edge.caller("bob").at(3).get("/v1/items/a?if_claimed=wait&wait_ms=1");
    short.refused("already_claimed").await;
    let waiting: Vec<_> = (1..=3)
        .map(|node| tokio::spawn(edge.caller("bob").at(node).get("/v1/items/a?if_claimed=wait&wait_ms=20000").ok()))
        .collect();
    let done = json!({"token": token, "title": "after"});
    edge.caller("ada").at(2).patch("/v1/items/a", done).ok().await;
    edge.caller("ada").at(2).post("/v1/items/a/release", json!({"token": token})).ok().await;
    for waiting in waiting {
        let seen = waiting.await.unwrap();
        assert_eq!((&seen["state"], &seen["title"]), (&json!("queued"), &json!("after")), "{seen}");
    }
}

/// Cluster time of the last event of this kind for an item.
async fn last(edge: &Edge, item: &str, kind: &str) -> u64 {
    let seen = edge.caller("root").get(format!("/v1/events?item={item}&limit=100")).ok().await;
    let events = seen["events"].as_array().unwrap();
    let of_kind = events.iter().rfind(|event| event["kind"] == kind);
    of_kind.and_then(|event| event["at_ms"].as_u64()).unwrap_or_else(|| panic!("no {kind}: {seen}"))
}

/// Far below the `wait_ms` of the calls that wait here: a call that nothing wakes is answered only at its end.
const WOKEN_WITHIN_MS: u64 = 8_000;

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_lock_delay_wakes_a_caller_of_next() {
    const LOCK_DELAY_MS: u64 = 3_000;
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    root.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    root.patch("/v1/queues/q/policy", json!({"lock_delay_ms": LOCK_DELAY_MS})).ok().await;
    edge.caller("ada").post("/v1/items/a/claim", json!({"lease_for_ms": 1_000})).ok().await;
    // One on each node: whichever node leads, two of them are followers.
    let waiting = [("bob", 1), ("bob", 2), ("cy", 3)]
        .map(|(actor, node)| edge.caller(actor).session(&format!("s-{node}")).at(node))
        .map(|caller| tokio::spawn(caller.post("/v1/queues/q/next", json!({"wait_ms": 20_000})).ok()));
    let (first, _, _) = select_all(waiting).await;
    assert_eq!(first.unwrap()["outcome"], "granted");
    let free_at = last(&edge, "a", "expired").await + LOCK_DELAY_MS;
    let granted_at = last(&edge, "a", "granted").await;
    assert!((free_at..free_at + WOKEN_WITHIN_MS).contains(&granted_at), "free at {free_at}, granted at {granted_at}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_lease_wakes_next_for_a_descendant_in_another_queue() {
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    for (id, queue, parent) in [("epic", "plans", None), ("story", "plans", Some("epic")), ("task", "q", Some("story"))]
    {
        root.post("/v1/items", json!({"id": id, "queue": queue, "parent": parent})).ok().await;
    }
    let ada = edge.caller("ada");
    let token = ada.post("/v1/items/epic/claim", json!({})).ok().await["token"].clone();
    let waiting = tokio::spawn(edge.caller("bob").at(2).post("/v1/queues/q/next", json!({"wait_ms": 20_000})).ok());
    let empty = edge.caller("bob").post("/v1/queues/q/next", json!({})).ok().await;
    assert_eq!(empty["reason"], "nothing_eligible", "{empty}");
    is_parked(&edge, 2).await;
    ada.post("/v1/items/epic/release", json!({"token": token})).ok().await;
    let granted = waiting.await.unwrap();
    assert_eq!(granted["grants"][0]["item"], "task", "{granted}");
    let (free_at, granted_at) = (last(&edge, "epic", "released").await, last(&edge, "task", "granted").await);
    assert!((free_at..free_at + WOKEN_WITHIN_MS).contains(&granted_at), "free at {free_at}, granted at {granted_at}");
}

/// Waits until a call is parked on this node.
async fn is_parked(edge: &Edge, node: u64) {
    let nobody = edge.nobody().at(node);
    until("somebody waits", async || {
        let text = String::from_utf8(nobody.get("/metrics").answer().await.bytes.to_vec()).unwrap();
        number_of(&text, "tenure_waiters") > 0
    })
    .await;
}
