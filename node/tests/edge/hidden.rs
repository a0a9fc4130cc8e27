//! What else stays hidden, besides holders: other items, their ids, fencing tokens of others, spaces of others.

use crate::people::{Edge, in_queues, person, usual};
use serde_json::{Value, json};
use test_support::until;

/// A worker, dispatcher and reader of the queues `open*` only.
fn of_open() -> String {
    in_queues("zoe", "default", &["reader", "worker", "dispatcher"], &["open*"])
}

async fn edge() -> Edge {
    let mut people = usual();
    people.push(of_open());
    people.push(person("stranger", "elsewhere", &["reader", "worker", "operator"]));
    Edge::start(&people).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_item_id_reveals_nothing_about_the_old_holder() {
    let edge = edge().await;
    let (root, ada, zoe) = (edge.caller("root"), edge.caller("ada"), edge.caller("zoe"));
    root.patch("/v1/queues/priv/policy", json!({"disclosure": "cross_org", "retention_ms": 1})).ok().await;
    ada.post("/v1/items", json!({"id": "shared", "queue": "priv"})).ok().await;
    let grant = ada.session("canary").post("/v1/items/shared/claim", json!({})).ok().await;
    let claimed_at = grant["claimed_at_ms"].as_u64().unwrap();
    ada.session("canary").post("/v1/items/shared/complete", json!({"token": grant["token"]})).ok().await;
    until("it is purged", async || ada.get("/v1/items/shared").answer().await.status == 404).await;
    root.patch("/v1/queues/open/policy", json!({"disclosure": "open"})).ok().await;
    zoe.post("/v1/items", json!({"id": "shared", "queue": "open"})).ok().await;
    for caller in [&zoe, &root] {
        for node in 1..=3 {
            let held = caller.at(node).get(format!("/v1/items/shared/held_at?at_ms={claimed_at}")).ok().await;
            assert_eq!(held, json!({"at_ms": claimed_at, "held": false}));
        }
    }
    // About the new item it reveals as much as events do.
    let grant = ada.post("/v1/items/shared/claim", json!({})).ok().await;
    let at = grant["claimed_at_ms"].as_u64().unwrap();
    let path = format!("/v1/items/shared/held_at?at_ms={at}");
    assert_eq!(zoe.get(&path).ok().await, json!({"at_ms": at, "held": true, "actor": "ada"}));
    let full = json!({"at_ms": at, "held": true, "actor": "ada", "token": grant["token"]});
    assert_eq!([root.get(&path).ok().await, ada.get(&path).ok().await], [full.clone(), full]);
    root.patch("/v1/queues/open/policy", json!({"disclosure": "cross_org"})).ok().await;
    assert_eq!(zoe.get(&path).ok().await, json!({"at_ms": at, "held": true}));
}

#[tokio::test(flavor = "multi_thread")]
async fn list_cursors_hide_ids_and_every_node_accepts_them_only_unchanged() {
    let edge = edge().await;
    let (ada, zoe) = (edge.caller("ada"), edge.caller("zoe"));
    for id in ["canary-a", "canary-b", "canary-c"] {
        ada.post("/v1/items", json!({"id": id, "queue": "priv"})).ok().await;
        ada.post(format!("/v1/items/{id}/cancel"), json!({"reason": "x"})).ok().await;
        ada.post("/v1/items", json!({"id": format!("live-{id}"), "queue": "priv"})).ok().await;
    }
    for list in ["/v1/items?state=cancelled&limit=1", "/v1/items?limit=1"] {
        let mut page = ada.get(list).ok().await;
        let mut seen = vec![page["items"][0]["id"].clone()];
        for node in [2, 3, 1] {
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            assert!(!cursor.contains("canary") && cursor.len() > 200, "{cursor}");
            // In another space, or changed, the cursor is invalid.
            let of_root = edge.caller("root").space("elsewhere");
            of_root.get(format!("{list}&cursor={cursor}")).refused("invalid").await;
            let moved = format!("{}{}", &cursor[1..], &cursor[..1]);
            ada.get(format!("{list}&cursor={moved}")).refused("invalid").await;
            page = ada.at(node).get(format!("{list}&cursor={cursor}")).ok().await;
            seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()));
        }
        assert_eq!(seen.len(), 3, "{list}: {seen:?}");
        for made in ["canary-b", "1", "0"] {
            zoe.get(format!("{list}&cursor={made}")).refused("invalid").await;
        }
        assert_eq!(zoe.get(list).ok().await, json!({"items": []}), "{list}");
    }
    let stranger = edge.caller("stranger").space("default");
    assert_eq!(stranger.get("/v1/items?state=cancelled&limit=1").ok().await, json!({"items": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_items_appear_in_no_view_grant_or_event() {
    let edge = edge().await;
    let (ada, zoe) = (edge.caller("ada"), edge.caller("zoe").at(2));
    for id in ["canary-parent", "canary-done"] {
        ada.post("/v1/items", json!({"id": id, "queue": "priv"})).ok().await;
    }
    ada.post("/v1/items", json!({"id": "goal", "queue": "open"})).ok().await;
    ada.post("/v1/items", json!({"id": "canary-pointer", "queue": "priv", "target": "goal"})).ok().await;
    ada.post("/v1/items/canary-pointer/claim", json!({})).ok().await;
    let links = json!({
        "id": "part", "queue": "open", "parent": "canary-parent", "target": "canary-parent", "depends_on": ["canary-done"],
    });
    ada.post("/v1/items", links).ok().await;
    let grant = ada.post("/v1/items/canary-done/claim", json!({})).ok().await;
    ada.post("/v1/items/canary-done/complete", json!({"token": grant["token"]})).ok().await;
    let mut told = String::new();
    for path in [
        "/v1/items/part",
        "/v1/items?queue=open",
        "/v1/items?parent=canary-parent",
        "/v1/items/part/claims",
        "/v1/queues/open/peek",
        "/v1/queues/open/peek?parent=canary-parent",
        "/v1/events",
        "/v1/events?item=goal",
    ] {
        told += &zoe.get(path).ok().await.to_string().replace("parent=canary-parent", "");
    }
    told += &zoe.post("/v1/queues/open/next", json!({"filter": {"ancestor": "canary-parent"}})).answer().await.raw();
    let grant = zoe.post("/v1/items/part/claim", json!({})).ok().await;
    assert_eq!(grant["snapshot"]["created_by"], "ada", "{grant}");
    told += &grant.to_string();
    told += &zoe.get("/v1/carrying").ok().await.to_string();
    assert!(!told.contains("canary"), "{told}");
    assert!(told.contains("mirrored"), "{told}");
    // Callers that may see the links do, also at followers.
    for node in 1..=3 {
        let seen = ada.at(node).get("/v1/items/part").ok().await;
        let links = [&seen["parent"], &seen["target"], &seen["depends_on"][0]];
        assert_eq!(links, ["canary-parent", "canary-parent", "canary-done"], "{seen}");
    }
    // A create reveals only that the id is taken.
    let taken = zoe.post("/v1/items", json!({"id": "canary-parent", "queue": "open"})).refused("already_exists").await;
    let told = taken.to_string().replace("canary-parent", "");
    assert!(!told.contains("priv") && !told.contains("ada"), "{taken}");
}

#[tokio::test(flavor = "multi_thread")]
async fn across_organizations_neither_creators_nor_times_of_claims_are_shown() {
    let edge = edge().await;
    let (root, ada, zoe) = (edge.caller("root"), edge.caller("ada"), edge.caller("zoe"));
    root.patch("/v1/queues/open/policy", json!({"disclosure": "cross_org"})).ok().await;
    for id in ["held", "free"] {
        ada.post("/v1/items", json!({"id": id, "queue": "open"})).ok().await;
    }
    ada.post("/v1/items/held/claim", json!({})).ok().await;
    let shows = |item: &Value| ["created_by", "since", "claimed_at", "holder"].map(|field| item.get(field).is_some());
    assert_eq!(shows(&zoe.get("/v1/items/held").ok().await), [false; 4]);
    assert_eq!(shows(&zoe.get("/v1/items/free").ok().await), [false, true, false, false]);
    for seer in [ada, root] {
        assert_eq!(shows(&seer.get("/v1/items/held").ok().await), [true; 4]);
    }
    let grant = zoe.at(3).post("/v1/items/free/claim", json!({})).ok().await;
    assert_eq!(grant["snapshot"].get("created_by"), None, "{grant}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_a_role_in_a_space_reads_no_events() {
    let edge = edge().await;
    edge.caller("ada").post("/v1/items", json!({"id": "a", "queue": "open"})).ok().await;
    let stranger = edge.caller("stranger");
    stranger.get("/v1/events").ok().await;
    for space in ["default", "never-was"] {
        let stranger = stranger.space(space);
        for path in ["/v1/events", "/v1/events?after=9.9", "/v1/events/stream", "/v1/events/stream?after=0.0"] {
            let problem = stranger.get(path).refused("forbidden").await;
            assert_eq!(problem["needs"], "reader", "{problem}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_names_with_invisible_characters_are_rejected_by_field() {
    let edge = edge().await;
    let (root, ada) = (edge.caller("root"), edge.caller("ada"));
    let last = root.get("/v1/events?limit=1000").ok().await["next_after"].clone();
    for odd in ["pay\u{202e}roll", "a\u{200b}", "a\u{2028}b", "\u{feff}a", "a\u{2066}b"] {
        let create = async |field: &str, item: Value| {
            let problem = ada.post("/v1/items", item).refused("invalid").await;
            assert_eq!(problem["field"], field, "{problem}");
        };
        create("id", json!({"id": odd, "queue": "open"})).await;
        create("queue", json!({"id": "a", "queue": odd})).await;
        create("labels", json!({"id": "a", "queue": "open", "labels": [odd]})).await;
        create("phase", json!({"id": "a", "queue": "open", "phase": odd})).await;
        let batch = json!({"items": [{"id": "b", "queue": "open"}, {"id": odd, "queue": "open"}]});
        let problem = ada.post("/v1/items/batch", batch).refused("invalid").await;
        assert_eq!(problem["field"], "items[1].id", "{problem}");
        let registered = ada.put("/v1/workers/self", json!({"alive_for_ms": 60_000, "capabilities": [odd]}));
        assert_eq!(registered.refused("invalid").await["field"], "capabilities");
        root.patch("/v1/queues/open/policy", json!({"phases": [odd]})).refused("invalid").await;
    }
    assert_eq!(root.get("/v1/events?limit=1000").ok().await["next_after"], last, "nothing happened");
    // Free text may contain them; clients that show it mark them.
    ada.post("/v1/items", json!({"id": "a", "queue": "open", "title": "pay\u{202e}roll"})).ok().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_callers_that_change_the_cluster_or_are_refused() {
    let edge = edge().await;
    let root = edge.caller("root");
    root.post("/v1/cluster/snapshot", json!({})).ok().await;
    root.post("/v1/cluster/drain", json!({})).ok().await;
    root.post("/v1/cluster/undrain", json!({})).ok().await;
    edge.caller("zoe").post("/v1/cluster/drain", json!({})).refused("forbidden").await;
    edge.nobody().get("/v1/items").refused("unauthenticated").await;
    let words = edge.world.words(1);
    let line = |what: &str| words.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {words}"));
    for what in ["asked to take a snapshot", "asked to drain this node", "asked to undrain this node"] {
        assert!(line(what).contains("root"), "{}", line(what));
    }
    let refused = line("a caller was refused: forbidden");
    assert!(refused.contains("zoe") && refused.contains("drain_node"), "{refused}");
    assert!(line("a caller was refused: unauthenticated").contains("127.0.0.1"), "{words}");
}
