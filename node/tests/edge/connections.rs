//! Connections that send nothing keep nobody out, whatever the file limit of the process is.

use crate::http::{Caller, Sent};
use crate::people::{Edge, api_key, person};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use test_support::{until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// More than a node with this limit can ever have.
const OPEN_FILES: u32 = 1_024;
const SILENT: usize = 1_100;

fn people() -> Vec<String> {
    vec![person("ada", "default", &["worker", "dispatcher"])]
}

/// Opens `count` connections that send nothing. A closed connection is opened again a second later.
async fn silent(address: String, count: usize) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let connected = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let (address, connected) = (address.clone(), connected.clone());
        tasks.spawn(async move {
            loop {
                if let Ok(mut stream) = TcpStream::connect(&address).await {
                    connected.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.read(&mut [0; 512]).await;
                }
                sleep(Duration::from_secs(1)).await;
            }
        });
    }
    until("all have connected", async || connected.load(Ordering::Relaxed) >= count).await;
    tasks
}

async fn is_answered(caller: &Caller, path: &str, body: Option<Value>) -> bool {
    let ask = caller.ask(if body.is_some() { "POST" } else { "GET" }, path, body);
    matches!(ask.send().await, Sent::Answered(answer) if answer.status < 300)
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_beyond_the_file_limit_block_neither_callers_nor_nodes() {
    let mut edge = Edge::begun(&people(), async |world| {
        world.open_files = Some(OPEN_FILES);
        // So that it opens files for snapshots all the time.
        world.options.extend(["--snapshot-every", "20", "--entries-kept", "5"].map(String::from));
        world.start_three().await;
    })
    .await;
    let leader = edge.world.leader().await;
    let follower = edge.world.follower().await;
    let ada = edge.caller("ada").at(leader);
    ada.post("/v1/items", json!({"id": "before", "queue": "q"})).ok().await;
    let _callers = silent(edge.world.edge_address(leader), SILENT).await;
    let _nodes = silent(edge.world.address(leader), SILENT).await;

    // The leader must open new files for snapshots and new connections of callers and of a restarted node.
    for nth in 0..100 {
        let item = json!({"id": format!("item-{nth}"), "queue": "q"});
        until("the item is there", async || is_answered(&ada, "/v1/items", Some(item.clone())).await).await;
        edge.world.check_alive();
    }
    edge.world.kill(follower);
    edge.world.start(follower);
    edge.world.has_vote(follower).await;
    edge.is_ready(follower).await;
    edge.caller("ada").at(follower).get("/v1/items/item-99").ok().await;
    until("the leader answers", async || is_answered(&ada, "/v1/items/before", None).await).await;
    edge.world.check_alive();
    let words = edge.world.words(leader);
    assert!(!words.contains("Too many open files"), "{words}");
    assert!(words.contains("connection limits"), "{words}");
    let lines = words.lines().filter(|line| line.contains("was not admitted")).count();
    assert!(lines < 30, "{lines} lines about nodes that say nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn authenticated_callers_keep_their_connections() {
    let edge = Edge::begun(&people(), async |world| {
        world.options.extend(["--connections-max", "3", "--connections-per-address", "3"].map(String::from));
        world.start(1);
        world.leader().await;
    })
    .await;
    let ask = format!("GET /v1/items HTTP/1.1\r\nhost: tenure\r\nauthorization: Bearer {}\r\n\r\n", api_key("ada"));
    let mut known = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(edge.world.edge_address(1)).await.unwrap();
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4_096];
        let read = within("an answer", stream.read(&mut answer)).await.unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answer[..read]));
        known.push(stream);
    }
    for _ in 0..10 {
        let mut stream = TcpStream::connect(edge.world.edge_address(1)).await.unwrap();
        let mut answer = Vec::new();
        let _ = within("the end", stream.read_to_end(&mut answer)).await;
        assert!(answer.starts_with(b"HTTP/1.1 503 "), "{:?}", String::from_utf8_lossy(&answer));
    }
    for stream in &mut known {
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4_096];
        let read = within("an answer", stream.read(&mut answer)).await.unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"));
    }
    drop(known);
    until("there is room again", async || {
        let mut stream = TcpStream::connect(edge.world.edge_address(1)).await.unwrap();
        let mut answer = vec![0; 4_096];
        stream.write_all(ask.as_bytes()).await.is_ok()
            && stream.read(&mut answer).await.is_ok()
            && answer.starts_with(b"HTTP/1.1 200")
    })
    .await;
}
