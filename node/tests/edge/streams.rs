//! Event streams while nodes are killed: a reader that continues at another node misses nothing and gets nothing twice.

use crate::http::{Caller, Frame, Sent};
use crate::people::{Edge, usual, write_api_keys};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use test_support::{until, within};

/// Follows events from node to node until `last`, and returns all frames.
async fn read(caller: Caller, filter: &'static str, last: Arc<std::sync::OnceLock<String>>) -> (Vec<Frame>, usize) {
    let (mut frames, mut position, mut turns) = (Vec::new(), "0.0".to_owned(), 0);
    let is_at = |position: &str| last.get().is_some_and(|last| number(position) >= number(last));
    while !is_at(&position) {
        turns += 1;
        let node = caller.at(1 + turns as u64 % 3).with("last-event-id", &position);
        let Ok(mut events) = node.get(format!("/v1/events/stream{filter}")).try_follow().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while let Some(frame) = events.next().await {
            let id = frame.id.clone();
            if frame.event.as_deref() == Some("end") {
                break;
            }
            if frame.data.is_some() {
                frames.push(frame);
            }
            if let Some(id) = id {
                position = id;
            }
            if is_at(&position) {
                break;
            }
        }
    }
    (frames, turns)
}

fn number(id: &str) -> (u64, u64) {
    let (epoch, seq) = id.split_once('.').unwrap();
    (epoch.parse().unwrap(), seq.parse().unwrap())
}

/// All events, read page by page.
async fn pages(caller: &Caller, filter: &str) -> Vec<Value> {
    let (mut events, mut after) = (Vec::new(), "0.0".to_owned());
    loop {
        let page = caller.get(format!("/v1/events?limit=1000&after={after}{filter}")).ok().await;
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        match page["next_after"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return events,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_misses_nothing_and_gets_nothing_twice_while_nodes_are_killed() {
    let mut edge = Edge::start(&usual()).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let last = Arc::new(std::sync::OnceLock::new());
    let written = Arc::new(AtomicUsize::new(0));
    let writer = {
        let (caller, is_over, written) = (edge.caller("ada"), is_over.clone(), written.clone());
        tokio::spawn(async move {
            for nth in 0_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let queue = if nth.is_multiple_of(3) { "third" } else { "rest" };
                let new = json!({"id": format!("i-{nth}"), "queue": queue});
                if matches!(caller.at(1 + nth % 3).post("/v1/items", new).send().await, Sent::Answered(_)) {
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    };
    let filters = ["", "?queue=third", "?item=i-12", "?actor=ada"];
    let readers: Vec<_> =
        filters.iter().map(|filter| tokio::spawn(read(edge.caller("root"), filter, last.clone()))).collect();
    let leader = edge.world.leader().await;
    // Each node once, so that every reader loses its node.
    for node in [leader, 1 + leader % 3, 1 + (leader + 1) % 3] {
        let goal = written.load(Ordering::Relaxed) + 30;
        until("events come", async || written.load(Ordering::Relaxed) >= goal).await;
        edge.world.kill(node);
        let goal = written.load(Ordering::Relaxed) + 30;
        until("events come without it", async || written.load(Ordering::Relaxed) >= goal).await;
        edge.world.start(node);
        edge.is_ready(node).await;
    }
    is_over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let root = edge.caller("root");
    let all = pages(&root, "").await;
    last.set(all.last().unwrap()["number"].as_str().unwrap().to_owned()).unwrap();
    // One more event, so that a waiting reader notices the end. It need not be read itself.
    root.post("/v1/items", json!({"id": "the-last", "queue": "rest"})).ok().await;
    assert!(all.len() > 150, "{}", all.len());
    for (filter, reader) in filters.iter().zip(readers) {
        let (frames, turns) = within("the reader is through", reader).await.unwrap();
        let expected = pages(&root, &filter.replace('?', "&")).await;
        let read: Vec<Value> = frames.into_iter().map(|frame| frame.data.unwrap()).collect();
        let upto = |events: Vec<Value>| -> Vec<Value> {
            events.into_iter().filter(|event| event["item"] != "the-last").collect()
        };
        let (read, expected) = (upto(read), upto(expected));
        assert_eq!(read.len(), expected.len(), "{filter}");
        assert_eq!(read, expected, "{filter}");
        assert!(turns > 1, "the stream of {filter} was never cut: this run shows nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_node_notifies_streams_and_waiting_calls() {
    let mut edge = Edge::start(&usual()).await;
    let node = edge.world.follower().await;
    let ada = edge.caller("ada").at(node);
    let mut events = ada.get("/v1/events/stream?after=0.0").follow().await;
    ada.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    assert_eq!(events.next().await.unwrap().event.as_deref(), Some("created"));
    ada.post("/v1/items/a/claim", json!({})).ok().await;
    assert_eq!(events.next().await.unwrap().event.as_deref(), Some("granted"));
    let bob = edge.caller("bob").at(node);
    let wait = json!({"on_conflict": "wait", "poll_ms": 20_000});
    let waiting = bob.key("w").post("/v1/items/a/claim", wait.clone());
    let waiting = tokio::spawn(waiting.ok());
    let next = tokio::spawn(bob.post("/v1/queues/q/next", json!({"wait_ms": 20_000})).ok());
    until("he is in line", async || {
        edge.caller("root").get("/v1/items/a/line").ok().await["places"].as_array().unwrap().len() == 1
    })
    .await;
    let status = edge.world.stop(node).await;
    assert!(status.success(), "{status}");
    let end = loop {
        let frame = events.next().await.expect("the stream says why it ends");
        if frame.event.as_deref() == Some("end") {
            break frame;
        }
    };
    assert_eq!(end.data.unwrap()["reason"], "stopping");
    assert!(events.next().await.is_none());
    assert_eq!(waiting.await.unwrap()["outcome"], "waiting");
    assert_eq!(next.await.unwrap()["outcome"], "empty");
    // Bob keeps his place in line.
    let other = if node == 1 { 2 } else { 1 };
    let again = bob.at(other).key("w").with("tenure-retry", "1000");
    let again = tokio::spawn(again.post("/v1/items/a/claim", wait).ok());
    until("she gives it back", async || {
        matches!(ada.at(other).post("/v1/items/a/release", json!({})).send().await, Sent::Answered(answer) if answer.status == 200)
    })
    .await;
    assert_eq!(again.await.unwrap()["outcome"], "granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_api_key_ends_its_calls_and_streams_and_a_new_one_works() {
    let edge = Edge::start(&usual()).await;
    let bob = edge.caller("bob").at(2);
    let mut events = bob.get("/v1/events/stream?after=0.0").follow().await;
    bob.get("/v1/items").ok().await;
    let mut people = usual();
    people.retain(|person| !person.contains("\"bob\""));
    people.push(crate::people::person("dora", "default", &["dispatcher"]));
    write_api_keys(&edge.world, &people);
    let dora = edge.caller("dora").at(2);
    until(
        "the new one is accepted",
        async || matches!(dora.get("/v1/items").send().await, Sent::Answered(answer) if answer.status == 200),
    )
    .await;
    bob.get("/v1/items").refused("unauthenticated").await;
    // Before any other event.
    dora.post("/v1/items", json!({"id": "secret", "queue": "q"})).ok().await;
    let end = loop {
        let frame = events.next().await.expect("the stream says why it ends");
        if frame.event.as_deref() == Some("end") {
            break frame;
        }
    };
    assert_eq!(end.data.unwrap()["reason"], "unauthenticated");

    // A file that cannot be read changes nothing.
    std::fs::write(edge.world.folder().join("api-keys.toml"), "[[api_key]\n").unwrap();
    until("the node logs it", async || edge.world.words(2).contains("the API keys cannot be loaded")).await;
    dora.get("/v1/items").ok().await;
}
