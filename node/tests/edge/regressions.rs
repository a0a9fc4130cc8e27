//! Bugs of other stores, checked against this one over HTTP.

use crate::people::{Edge, usual};
use serde_json::{Value, json};
use std::collections::BTreeMap;

async fn create(edge: &Edge, id: &str) {
    edge.caller("root").post("/v1/items", json!({"id": id, "queue": "ops"})).ok().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn taskorch151_a_request_id_is_its_actors_own() {
    let edge = Edge::start(&usual()).await;
    let (ada, bob) = (edge.caller("ada").key("one"), edge.caller("bob").key("one"));
    create(&edge, "a").await;
    create(&edge, "b").await;
    let first = ada.at(1).post("/v1/items/a/claim", json!({})).ok().await;
    let again = ada.at(2).with("tenure-retry", "1000").post("/v1/items/a/claim", json!({})).ok().await;
    assert_eq!(first["token"], again["token"], "one effect, one answer");
    ada.at(3).post("/v1/items/b/claim", json!({})).refused("request_id_reused").await;
    ada.at(3).post("/v1/items/a/claim", json!({"action": "x"})).refused("request_id_reused").await;
    // Another actor's request with the same id is a separate request and does not get the first one's outcome.
    bob.at(1).post("/v1/items/a/claim", json!({})).refused("already_claimed").await;
    let bobs = edge.caller("bob").key("two").post("/v1/items/b/claim", json!({})).ok().await;
    assert!(bobs["token"].as_u64() > first["token"].as_u64(), "{bobs}");
    // Sessions have separate request ids.
    let other = ada.session("s2").post("/v1/items/a/claim", json!({})).refused("held_by_your_other_session").await;
    assert_eq!(other["took_effect"], "no");
}

#[tokio::test(flavor = "multi_thread")]
async fn taskorch172_a_batch_returns_an_outcome_per_entry() {
    let edge = Edge::start(&usual()).await;
    for id in ["a", "b", "c", "d"] {
        create(&edge, id).await;
    }
    for id in ["b", "d"] {
        edge.caller("bob").at(2).post(format!("/v1/items/{id}/claim"), json!({})).ok().await;
    }
    let ada = edge.caller("ada").at(3);
    let batch = json!({"claims": [{"item": "a"}, {"item": "b"}, {"item": "nope"}, {"item": "c"}],
                       "releases": [{"item": "d"}]});
    let answer = ada.post("/v1/claims", batch).ok().await;
    let said: Vec<&Value> = answer["claims"].as_array().unwrap().iter().map(|entry| &entry["outcome"]).collect();
    assert_eq!(said, ["granted", "refused", "refused", "granted"], "{answer}");
    let code = |nth: usize| answer["claims"][nth]["problem"]["code"].clone();
    assert_eq!((code(1), code(2)), (json!("already_claimed"), json!("not_found")));
    assert_eq!(answer["releases"][0]["problem"]["code"], "not_holder", "{answer}");
    let carrying = ada.at(1).get("/v1/carrying").ok().await;
    let leased: Vec<&Value> = carrying["leased"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert_eq!(leased, ["a", "c"]);
    // With all_or_none, entries that could be granted are not.
    let all = json!({"claims": [{"item": "b"}, {"item": "a"}], "all_or_none": true});
    let answer = edge.caller("cy").post("/v1/claims", all).ok().await;
    assert!(answer["claims"].as_array().unwrap().iter().all(|entry| entry["outcome"] == "refused"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_obtained_in_a_batch_is_kept_by_a_claim_under_its_request_id() {
    let edge = Edge::start(&usual()).await;
    create(&edge, "a").await;
    let held = edge.caller("ada").post("/v1/items/a/claim", json!({})).ok().await;
    let bob = edge.caller("bob").at(2);
    // From now on node 2 knows the holder.
    edge.caller("root").at(2).get("/v1/items/a").ok().await;
    let batch = json!({"claims": [{"item": "a", "on_conflict": "wait"}]});
    let answer = bob.key("batch").post("/v1/claims", batch).ok().await;
    let place = &answer["claims"][0];
    assert_eq!((&place["outcome"], &place["place"]), (&json!("waiting"), &json!(0)), "{answer}");
    // Bob learns as much of the holder as from a refusal.
    assert_eq!((&place["holder"]["kind"], &place["holder"]["actor"]), (&json!("agent"), &Value::Null), "{answer}");
    let again = bob.at(3).key(place["request_id"].as_str().unwrap());
    let wait = json!({"on_conflict": "wait", "poll_ms": 1});
    assert_eq!(again.post("/v1/items/a/claim", wait.clone()).ok().await["place"], 0);
    edge.caller("ada").post("/v1/items/a/release", json!({"token": held["token"]})).ok().await;
    let granted = again.with("tenure-retry", "1000").post("/v1/items/a/claim", wait).ok().await;
    assert!(granted["token"].as_u64() > held["token"].as_u64(), "{granted}");
    // An operator sees who holds it.
    edge.caller("root").at(3).get("/v1/items/a").ok().await;
    let wait = json!({"on_conflict": "wait", "poll_ms": 1});
    let seen = edge.caller("root").at(3).post("/v1/items/a/claim", wait).ok().await;
    assert_eq!(seen["holder"]["actor"], "bob", "{seen}");
    assert!(seen["holder"]["expires_at_ms"].is_u64(), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn taskorch197_a_stale_release_does_not_end_the_lease_of_a_new_holder() {
    let edge = Edge::start(&usual()).await;
    let (ada, bob, root) = (edge.caller("ada"), edge.caller("bob"), edge.caller("root"));
    create(&edge, "a").await;
    let lost = ada.post("/v1/items/a/claim", json!({})).ok().await;
    root.at(2).post("/v1/items/a/revoke", json!({"reason": "gone"})).ok().await;
    let won = bob.at(3).post("/v1/items/a/claim", json!({})).ok().await;
    let release = ada.at(2).post("/v1/items/a/release", json!({"token": lost["token"]})).ok().await;
    assert_eq!(release["released"], false, "{release}");
    ada.at(2).post("/v1/items/a/release", json!({})).refused("not_holder").await;
    let seen = root.at(1).get("/v1/items/a").ok().await;
    assert_eq!((&seen["holder"]["actor"], &seen["state"]), (&json!("bob"), &json!("active")), "{seen}");
    bob.post("/v1/items/a/renew", json!({"token": won["token"]})).ok().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn river1302_a_late_completer_does_not_overwrite_a_finished_item() {
    let edge = Edge::start(&usual()).await;
    let (ada, bob, root) = (edge.caller("ada"), edge.caller("bob"), edge.caller("root"));
    create(&edge, "a").await;
    let late = ada.post("/v1/items/a/claim", json!({})).ok().await;
    root.post("/v1/items/a/revoke", json!({"reason": "gone"})).ok().await;
    let won = bob.at(2).post("/v1/items/a/claim", json!({})).ok().await;
    let complete = |token: &Value, result: &str| json!({"token": token, "result": result});
    ada.at(3).post("/v1/items/a/complete", complete(&late["token"], "late")).refused("stale_token").await;
    bob.at(3).post("/v1/items/a/complete", complete(&won["token"], "done")).ok().await;
    ada.at(1).post("/v1/items/a/complete", complete(&late["token"], "late")).refused("stale_token").await;
    bob.at(2).post("/v1/items/a/complete", complete(&won["token"], "twice")).refused("terminal_item").await;
    bob.at(1).post("/v1/items/a/fail", json!({"token": won["token"]})).refused("terminal_item").await;
    let seen = ada.at(2).get("/v1/items/a").ok().await;
    assert_eq!((&seen["state"], &seen["body"]["result"]), (&json!("complete"), &json!("done")), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn beads4657_eight_racers_through_three_nodes_win_each_item_once() {
    const ITEMS: usize = 40;
    let edge = Edge::start(&usual()).await;
    let items: Vec<Value> = (0..ITEMS).map(|nth| json!({"id": format!("i-{nth}"), "queue": "ops"})).collect();
    edge.caller("root").post("/v1/items/batch", json!({"items": items})).ok().await;
    let racers: Vec<_> = (0..8)
        .map(|racer| {
            let actor = ["ada", "bob", "cy", "root"][racer % 4];
            let caller = edge.caller(actor).session(&format!("racer-{racer}"));
            tokio::spawn(async move {
                let mut won = Vec::new();
                for turn in 0.. {
                    let node = 1 + (racer as u64 + turn) % 3;
                    let answer = caller.at(node).post("/v1/queues/ops/next", json!({})).ok().await;
                    if answer["outcome"] == "empty" {
                        break;
                    }
                    let grant = &answer["grants"][0];
                    won.push((grant["item"].as_str().unwrap().to_owned(), grant["token"].as_u64().unwrap()));
                }
                won
            })
        })
        .collect();
    let (mut items, mut tokens) = (BTreeMap::new(), BTreeMap::new());
    for (racer, won) in racers.into_iter().enumerate() {
        for (item, token) in won.await.unwrap() {
            assert_eq!(items.insert(item, racer), None, "won twice");
            assert_eq!(tokens.insert(token, racer), None, "given twice");
        }
    }
    assert_eq!(items.len(), ITEMS);
}
