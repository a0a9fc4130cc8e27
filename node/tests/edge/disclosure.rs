//! Who holds what stays with those who may see it: no byte of a canary's name reaches anybody else.

use crate::client::until;
use crate::http::Caller;
use crate::people::{Edge, person, usual};
use serde_json::json;

const CANARY: &str = "canary";
const QUEUES: [&str; 2] = ["fleet", "cross_org"];

/// All that a viewer is told of an item and of what is around it, also when it asks for what it does not get.
async fn walk(viewer: &Caller, queue: &str) -> String {
    let id = format!("{queue}-item");
    let mut told = String::new();
    let paths = ["", "?if_claimed=fail", "/line", "/claims", "/activities", "/held_at?at_ms=99999999999"];
    let mut asks: Vec<_> = paths.iter().map(|path| viewer.get(format!("/v1/items/{id}{path}"))).collect();
    for path in [
        "/v1/items",
        "/v1/items?claim=claimed",
        "/v1/items?state=complete",
        "/v1/carrying",
        "/v1/workers",
        "/v1/events",
        "/v1/events?actor=canary-holder",
        "/v1/queues",
        "/v1/space",
        "/v1/cluster",
        "/metrics",
    ] {
        asks.push(viewer.get(path));
    }
    asks.push(viewer.get(format!("/v1/queues/{queue}")));
    asks.push(viewer.get(format!("/v1/queues/{queue}/peek")));
    for verb in ["claim", "release", "complete", "revoke", "withdraw"] {
        let body = if verb == "revoke" { json!({"reason": "x"}) } else { json!({}) };
        asks.push(viewer.post(format!("/v1/items/{id}/{verb}"), body));
    }
    asks.push(viewer.post(format!("/v1/items/{id}/renew"), json!({"token": 1})));
    asks.push(viewer.post(format!("/v1/items/{id}/claim"), json!({"on_conflict": "wait", "poll_ms": 1})));
    asks.push(viewer.post(format!("/v1/items/{id}/withdraw"), json!({})));
    asks.push(viewer.patch(format!("/v1/items/{id}"), json!({"title": "x"})));
    asks.push(viewer.post("/v1/claims", json!({"claims": [{"item": id}]})));
    asks.push(viewer.post(format!("/v1/queues/{queue}/next"), json!({})));
    for ask in asks {
        told += &ask.answer().await.raw();
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn no_byte_of_who_holds_or_waits_reaches_one_who_may_not_see_it() {
    let mut people = usual();
    for actor in ["canary-holder", "canary-waiter"] {
        people.push(person(actor, "default", &["worker"]));
    }
    people.push(person("eve", "default", &["worker"]));
    people.push(person("rita", "default", &["reader"]));
    people.push(person("stranger", "elsewhere", &["reader", "worker", "operator"]));
    let edge = Edge::start(&people).await;
    let root = edge.caller("root");
    let holder = edge.caller("canary-holder").session("canary-session");
    let waiter = edge.caller("canary-waiter").at(2);
    holder.put("/v1/workers/self", json!({"alive_for_ms": 600_000, "labels": ["canary-label"]})).ok().await;
    for queue in QUEUES {
        let id = format!("{queue}-item");
        root.post("/v1/items", json!({"id": id, "queue": queue})).ok().await;
        root.patch(format!("/v1/queues/{queue}/policy"), json!({"disclosure": queue})).ok().await;
        let doing = json!({"action": "canary-action", "field": "canary-field"});
        let grant = holder.post(format!("/v1/items/{id}/claim"), doing).ok().await;
        let note = json!({"token": grant["token"], "kind": "progress", "note": "canary-note"});
        holder.post(format!("/v1/items/{id}/activity"), note).ok().await;
        let wait = json!({"on_conflict": "wait", "poll_ms": 1});
        waiter.post(format!("/v1/items/{id}/claim"), wait).ok().await;
        root.post("/v1/items", json!({"id": format!("{id}-owned"), "queue": queue})).ok().await;
        root.post(format!("/v1/items/{id}-owned/assign"), json!({"actor": "canary-assignee"})).ok().await;
    }
    for viewer in ["eve", "rita", "stranger"] {
        for node in 1..=3 {
            let viewer_at = edge.caller(viewer).at(node);
            for queue in QUEUES {
                for viewer_in in [viewer_at.clone(), viewer_at.space("default")] {
                    let told = walk(&viewer_in, queue).await;
                    let at = told.find(CANARY).map(|at| &told[at.saturating_sub(400)..(at + 100).min(told.len())]);
                    assert_eq!(at, None, "{viewer} at node {node} in {queue}");
                    // Each of the ways in which somebody is told that another is first.
                    let is_refused = told.matches("\"code\":\"already_claimed\"").count();
                    let is_hers = viewer == "eve" && viewer_in.is_in("default");
                    assert!(!is_hers || is_refused >= 3, "{viewer} at node {node} in {queue}: {is_refused}, {told}");
                }
            }
        }
    }
    let last = root.get("/v1/events?limit=1000").ok().await["next_after"].as_str().unwrap().to_owned();
    for (viewer, sees) in [("eve", false), ("rita", false), ("stranger", false), ("root", true)] {
        let mut events = edge.caller(viewer).at(3).space("default").get("/v1/events/stream?after=0.0").follow().await;
        until("the stream has come to the last event", async || {
            events.next().await.is_some_and(|frame| frame.id.as_ref() == Some(&last))
        })
        .await;
        assert_eq!(events.raw.contains(CANARY), sees, "the stream of {viewer}");
    }
    // Who may see it does, so that the above shows something.
    for queue in QUEUES {
        let id = format!("{queue}-item");
        for (path, name) in [
            ("", "canary-holder"),
            ("", "canary-session"),
            ("", "canary-action"),
            ("/line", "canary-waiter"),
            ("/activities", "canary-note"),
        ] {
            let told = root.get(format!("/v1/items/{id}{path}")).answer().await.raw();
            assert!(told.contains(name), "{name}: {told}");
        }
    }
    assert!(root.get("/v1/workers").answer().await.raw().contains("canary-holder"));
    // A queue that is open to all says who holds what.
    root.patch("/v1/queues/fleet/policy", json!({"disclosure": "open"})).ok().await;
    let conflict = edge.caller("eve").post("/v1/items/fleet-item/claim", json!({})).refused("already_claimed").await;
    assert_eq!(conflict["holder"]["actor"], "canary-holder", "{conflict}");
}
