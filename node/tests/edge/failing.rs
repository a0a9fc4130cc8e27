//! Responses of a node that has forgotten a request or cannot read its disk.

use crate::http::Caller;
use crate::people::{Edge, usual};
use lease::Command;
use lease::bounds::{NEXT_COUNT, REQUESTS_MAX};
use lease::command::Next;
use lease::encoding::encode;
use node::peers::wire::{NodeQuestion, NodeReply};
use raft_store::codec::records::Blob;
use raft_store::directory::{Directory, Found};
use serde_json::json;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;

/// Requests in one frame between nodes.
const FRAME: u64 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_too_old_to_be_remembered_is_not_run() {
    let mut edge = Edge::start(&usual()).await;
    let (leader, follower) = (edge.world.leader().await, edge.world.follower().await);
    let root = edge.caller("root");
    for item in ["a", "b"] {
        root.post("/v1/items", json!({"id": item, "queue": "q"})).ok().await;
    }
    let take = |node: u64, key: &str, age_ms: &str| {
        let caller = edge.caller("ada").at(node).key(key).with("tenure-retry", age_ms);
        caller.post("/v1/queues/q/next", json!({}))
    };
    for (node, age_ms) in [(leader, "100000"), (follower, "18446744073709551615")] {
        let problem = take(node, "never-sent", age_ms).refused("request_forgotten").await;
        assert_eq!(problem["took_effect"], "unknown", "{problem}");
    }
    // A request of any age is answered while it is remembered.
    let first = take(follower, "sent", "1000").ok().await;
    let again = take(leader, "sent", "100000").ok().await;
    assert_eq!(again["grants"][0]["token"], first["grants"][0]["token"], "{again}");
    let seen = root.get("/v1/queues/q/peek?count=2").ok().await;
    assert_eq!(seen["items"].as_array().unwrap().len(), 1, "one was given, once: {seen}");
    for wrong in ["true", "-1", "+1", "1.5", "", "18446744073709551616"] {
        let problem = take(leader, "wrong", wrong).refused("invalid").await;
        assert_eq!(problem["field"], "Tenure-Retry", "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_evicted_from_the_memory_is_not_run_again() {
    let mut edge = Edge::start(&usual()).await;
    let (leader, follower) = (edge.world.leader().await, edge.world.follower().await);
    let ada = edge.caller("ada").at(follower);
    ada.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let first = ada.key("first");
    let token = first.post("/v1/items/a/claim", json!({"lease_for_ms": 600_000})).ok().await["token"].clone();
    let again = |node: u64, key: &str| {
        let caller = edge.caller("ada").at(node).key(key).with("tenure-retry", "1000");
        caller.post("/v1/items/a/claim", json!({"lease_for_ms": 600_000}))
    };
    assert_eq!(again(leader, "first").ok().await["token"], token, "it is remembered");

    // More requests than the memory holds, of the kind with the highest weight, forwarded in few frames like those of
    // callers at other nodes. A caller without rights is refused, and the refusal is remembered too.
    let client = edge.world.client();
    let next = Command::Next(Next { count: NEXT_COUNT, ..Next::new(lease::names::QueueName::new("none").unwrap()) });
    let requests = REQUESTS_MAX / u64::from(NEXT_COUNT) + 1;
    for first in (0..requests.div_ceil(FRAME)).map(|frame| frame * FRAME) {
        // From many actors: one actor alone evicts no requests of others.
        let asked = |number: u64| test_support::peer_client::request(&format!("mob-{}", number / 150), next.clone());
        let mut frame: Vec<_> = (first..first + FRAME).map(asked).collect();
        frame.iter_mut().for_each(|request| request.caller.rights.clear());
        let requests = Blob(encode(&frame).into());
        let reply = client.ask(leader, NodeQuestion::Forward { requests }).await;
        assert!(matches!(reply, Ok(NodeReply::Forwarded { .. })), "{reply:?}");
    }

    for node in [leader, follower] {
        let problem = again(node, "first").refused("request_forgotten").await;
        assert_eq!(problem["took_effect"], "unknown", "{problem}");
        // It is unknown whether this request was sent before, so it is not run.
        again(node, "never-sent").refused("request_forgotten").await;
    }
    let seen = ada.get("/v1/events?item=a&limit=100").ok().await;
    let granted = seen["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "granted").count();
    assert_eq!(granted, 1, "{seen}");
    // A request that is not marked as a repeat counts as new, and renewals still work.
    ada.post("/v1/items/a/renew", json!({"token": token})).ok().await;
    let renewed = ada.key("second").post("/v1/items/a/claim", json!({})).answer().await.json();
    assert!(renewed["token"] == token || renewed["code"] == "already_claimed", "{renewed}");
}

/// The files of a node's state.
fn tables(edge: &Edge, node: u64) -> Vec<PathBuf> {
    let Found::Used(directory) = Directory::find(&edge.world.data(node)).unwrap() else { panic!("never used") };
    let state = directory.state_path().unwrap().unwrap();
    let files = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension() == Some(OsStr::new("sst"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_an_unreadable_disk_reports_it_and_others_serve() {
    let mut edge = Edge::start(&usual()).await;
    let (leader, follower) = (edge.world.leader().await, edge.world.follower().await);
    let root = edge.caller("root");
    root.post("/v1/items", json!({"id": "a", "queue": "q", "body": {"prompt": "do it"}})).ok().await;
    let sound: Caller = root.at(6 - leader - follower);
    for node in [follower, leader] {
        let root = root.at(node);
        // The node has applied the item. The snapshot writes its state to files; then the files are truncated.
        root.get("/v1/items/a").ok().await;
        root.post("/v1/cluster/snapshot", json!({})).ok().await;
        assert_eq!(root.get("/v1/queues").ok().await["queues"].as_array().unwrap().len(), 1);
        let tables = tables(&edge, node);
        assert!(!tables.is_empty());
        for table in tables {
            File::options().write(true).open(table).unwrap().set_len(0).unwrap();
        }
        let problem = root.get("/v1/items/a").refused("internal").await;
        assert_eq!(problem["took_effect"], "unknown", "{problem}");
        assert!(!problem.to_string().contains("sst"), "a problem must not name files: {problem}");
        root.get("/v1/items/a/held_at?at_ms=999999999999999").refused("internal").await;
        let words = edge.world.words(node);
        let said = |text: &str| words.lines().any(|line| line.contains(text) && line.contains("request_id"));
        assert!(said("could not read a view from disk") && said("request failed with an internal error"), "{words}");
        // The node still serves what it has in memory, and other nodes serve everything.
        assert_eq!(root.get("/v1/queues/q").ok().await["flow"], "open");
        let seen = sound.get("/v1/items/a").ok().await;
        assert_eq!(seen["body"]["prompt"], "do it", "{seen}");
    }
}
