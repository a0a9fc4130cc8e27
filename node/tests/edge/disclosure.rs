//! Only callers that may see holders learn them: no byte of a canary's name reaches anybody else.
//!
//! This test failed when each of these leaks was put back: a conflict or a list that names the holder in a `fleet`
//! queue, events that name the actor of a command, activities with their author, and live events that are streamed
//! without redaction.

use crate::http::Caller;
use crate::people::{Edge, person, usual};
use serde_json::json;
use test_support::until;

const CANARY: &str = "canary";
const QUEUES: [&str; 2] = ["fleet", "cross_org"];

/// Everything that a viewer receives about an item and its surroundings, including refusals.
async fn walk(viewer: &Caller, queue: &str) -> String {
    let id = format!("{queue}-item");
    let mut told = String::new();
    let paths = [
        "",
        "?if_claimed=fail",
        "?if_claimed=wait&wait_ms=1",
        "?consistency=local",
        "/line",
        "/claims",
        "/activities",
        "/held_at?at_ms=99999999999",
    ];
    let mut asks: Vec<_> = paths.iter().map(|path| viewer.get(format!("/v1/items/{id}{path}"))).collect();
    for path in [
        "/v1/items",
        "/v1/items?claim=claimed",
        "/v1/items?claim=expired",
        "/v1/items?text=canary-holder",
        "/v1/items?state=cancelled",
        "/v1/items?state=complete",
        "/v1/items?holder=canary-holder",
        "/v1/items?assignee=canary-holder",
        "/v1/actors/canary-holder/carrying",
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
    // In the wait line, then timed out there, then with too long a line.
    let wait = |more: serde_json::Value| {
        let mut claim = json!({"on_conflict": "wait", "poll_ms": 1});
        claim.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        viewer.post(format!("/v1/items/{id}/claim"), claim)
    };
    asks.push(wait(json!({})));
    asks.push(viewer.get(format!("/v1/items/{id}/line")));
    asks.push(viewer.post(format!("/v1/items/{id}/withdraw"), json!({})));
    asks.push(wait(json!({"wait_for_ms": 1, "poll_ms": 20_000})));
    asks.push(wait(json!({"line_max": 1})));
    asks.push(viewer.post(format!("/v1/items/{id}/withdraw"), json!({})));
    asks.push(viewer.patch(format!("/v1/items/{id}"), json!({"title": "x"})));
    asks.push(viewer.post("/v1/claims", json!({"claims": [{"item": id}]})));
    asks.push(viewer.post("/v1/claims", json!({"claims": [{"item": id}, {"item": "none"}], "all_or_none": true})));
    asks.push(viewer.post(format!("/v1/items/{id}/assign"), json!({"actor": viewer_name(viewer)})));
    asks.push(viewer.post(format!("/v1/items/{id}/unassign"), json!({"actor": viewer_name(viewer)})));
    asks.push(viewer.post(format!("/v1/queues/{queue}/next"), json!({})));
    for ask in asks {
        told += &ask.answer().await.raw();
    }
    told
}

/// The viewer's own name: a canary in a request would appear in its response.
fn viewer_name(viewer: &Caller) -> String {
    let (_, api_key) = viewer.headers.iter().find(|(name, _)| *name == "authorization").unwrap();
    api_key.rsplit_once('-').unwrap().1.to_owned()
}

/// Joins the line, or keeps the place there, which expires unless it is polled.
async fn waits(waiter: &Caller, queue: &str) {
    let wait = json!({"on_conflict": "wait", "poll_ms": 1});
    waiter.post(format!("/v1/items/{queue}-item/claim"), wait).ok().await;
}

/// Everything that can happen to a holder, so that there is an event of each kind.
async fn story(root: &Caller, holder: &Caller, queue: &str) {
    let at = |verb: &str| format!("/v1/items/{queue}-story/{verb}");
    root.post("/v1/items", json!({"id": format!("{queue}-story"), "queue": queue})).ok().await;
    let claim = async || holder.post(at("claim"), json!({})).ok().await["token"].clone();
    let token = claim().await;
    holder.post(at("await_input"), json!({"token": token, "question": "canary-question"})).ok().await;
    holder.post(at("resume"), json!({"token": token})).ok().await;
    holder.post(at("extend"), json!({"token": token, "for_ms": 1_000})).ok().await;
    holder.session("canary-session-2").post(at("claim"), json!({"takeover": true})).ok().await;
    root.post(at("revoke"), json!({"reason": "canary-reason"})).ok().await;
    let token = claim().await;
    holder.post(at("reserve"), json!({"token": token})).ok().await;
    claim().await;
    holder.post(at("release"), json!({})).ok().await;
    let token = claim().await;
    holder.post(at("hand_on"), json!({"token": token, "phase": "review"})).ok().await;
    let token = claim().await;
    holder.post(at("fail"), json!({"token": token})).ok().await;
    root.post(at("reorder"), json!({"actors": ["canary-waiter"]})).ok().await;
    root.post(at("cancel"), json!({"reason": "canary-reason", "force": true})).ok().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_holders_and_waiters_never_reach_callers_without_the_right() {
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
    // Streams that are open meanwhile.
    let mut live = Vec::new();
    edge.caller("stranger").space("default").get("/v1/events/stream?after=0.0").refused("forbidden").await;
    for (viewer, node) in [("eve", 1), ("rita", 2), ("root", 2)] {
        let viewer_in = edge.caller(viewer).at(node).space("default");
        live.push((viewer, viewer_in.get("/v1/events/stream?after=0.0").follow().await));
    }
    holder.put("/v1/workers/self", json!({"alive_for_ms": 600_000, "labels": ["canary-label"]})).ok().await;
    for queue in QUEUES {
        let id = format!("{queue}-item");
        root.post("/v1/items", json!({"id": id, "queue": queue})).ok().await;
        root.patch(format!("/v1/queues/{queue}/policy"), json!({"disclosure": queue})).ok().await;
        let doing = json!({"action": "canary-action", "field": "canary-field"});
        let grant = holder.post(format!("/v1/items/{id}/claim"), doing).ok().await;
        let note = json!({"token": grant["token"], "kind": "progress", "note": "canary-note"});
        holder.post(format!("/v1/items/{id}/activity"), note).ok().await;
        waits(&waiter, queue).await;
        root.post("/v1/items", json!({"id": format!("{id}-owned"), "queue": queue})).ok().await;
        root.post(format!("/v1/items/{id}-owned/assign"), json!({"actor": "canary-assignee"})).ok().await;
        story(&root, &holder, queue).await;
    }
    for viewer in ["eve", "rita", "stranger"] {
        for node in 1..=3 {
            let viewer_at = edge.caller(viewer).at(node);
            for queue in QUEUES {
                for viewer_in in [viewer_at.clone(), viewer_at.space("default")] {
                    waits(&waiter, queue).await;
                    let told = walk(&viewer_in, queue).await;
                    let at = told.find(CANARY).map(|at| &told[at.saturating_sub(400)..(at + 100).min(told.len())]);
                    assert_eq!(at, None, "{viewer} at node {node} in {queue}");
                    // Each way to learn that somebody else holds the item.
                    let is_refused = told.matches("\"code\":\"already_claimed\"").count();
                    let is_hers = viewer == "eve" && viewer_in.is_in("default");
                    assert!(!is_hers || is_refused >= 5, "{viewer} at node {node} in {queue}: {is_refused}, {told}");
                    for way in ["\"outcome\":\"waiting\"", "wait_timeout", "line_too_long"] {
                        assert!(!is_hers || told.contains(way), "{viewer} at node {node} in {queue}: {way}, {told}");
                    }
                    // A filter does not reveal the actor either.
                    let by = viewer_in.get("/v1/events?actor=canary-holder").answer().await.json();
                    let is_strange = viewer == "stranger" && viewer_in.is_in("default");
                    let nothing = if is_strange { json!(null) } else { json!([]) };
                    assert_eq!(by["events"], nothing, "{viewer} at node {node}");
                }
            }
        }
    }
    let last = root.get("/v1/events?limit=1000").ok().await["next_after"].as_str().unwrap().to_owned();
    for (viewer, node) in [("eve", 3), ("rita", 3), ("root", 3)] {
        let viewer_in = edge.caller(viewer).at(node).space("default");
        live.push((viewer, viewer_in.get("/v1/events/stream?after=0.0").follow().await));
    }
    for (viewer, mut events) in live {
        until("the stream has come to the last event", async || {
            events.next().await.is_some_and(|frame| frame.id.as_ref() == Some(&last))
        })
        .await;
        let at = events.raw.find(CANARY).map(|at| &events.raw[at.saturating_sub(400)..]);
        assert_eq!(at.is_some(), viewer == "root", "the stream of {viewer}: {at:?}");
    }
    // Callers that may see it do, so the checks above are effective.
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
    // A queue with `open` disclosure names its holders.
    root.patch("/v1/queues/fleet/policy", json!({"disclosure": "open"})).ok().await;
    let conflict = edge.caller("eve").post("/v1/items/fleet-item/claim", json!({})).refused("already_claimed").await;
    assert_eq!(conflict["holder"]["actor"], "canary-holder", "{conflict}");
}
