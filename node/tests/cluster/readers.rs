//! Readers of events over HTTP: too late, too slow, or idle for long.

use crate::world::{World, quick};
use node::daemon::Start;
use node::edge::identity::Authenticator;
use node::edge::settings::EdgeSettings;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use test_support::{LIMIT, until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// A single node that accepts callers without API keys.
async fn serve(world: &mut World, start: Start, change: impl FnOnce(&mut EdgeSettings)) -> SocketAddr {
    let mut settings = world.settings(1, start);
    let mut edge = EdgeSettings::new("127.0.0.1:0".into(), Authenticator::SelfReported, None);
    change(&mut edge);
    settings.edge = Some(edge);
    world.start_with(settings).await;
    world.leader().await;
    world.daemons[&1].edge().unwrap().address()
}

fn head(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ntenure-actor: ada\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Value) {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head(method, path, body).as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = within("an answer", asking).await;
    let (top, body) = answer.split_once("\r\n\r\n").unwrap();
    (top[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

async fn create(address: SocketAddr, ids: impl Iterator<Item = String>) {
    let items: Vec<Value> = ids.map(|id| json!({"id": id, "queue": "q"})).collect();
    let body = json!({"items": items}).to_string();
    loop {
        let (status, answer) = ask(address, "POST", "/v1/items/batch", &body).await;
        match answer["retry_after_ms"].as_u64() {
            // More than one actor may create in a second.
            Some(millis) if status == 429 => tokio::time::sleep(Duration::from_millis(millis)).await,
            _ => return assert_eq!(status, 200, "{answer}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_at_deleted_events_learns_where_to_begin() {
    let mut world = World::empty(quick());
    let address = serve(&mut world, Start::Bootstrap, |_| {}).await;
    for nth in 0..20 {
        create(address, [format!("item-{nth}")].into_iter()).await;
    }
    world.kill(1).await;
    world.events_kept_for = Duration::from_millis(1);
    let address = serve(&mut world, Start::Again, |_| {}).await;
    let mut problem = Value::Null;
    let by = Instant::now() + LIMIT;
    while problem["code"] != "position_too_old" {
        assert!(Instant::now() < by, "old events do not go: {problem}");
        (_, problem) = ask(address, "GET", "/v1/events?after=0.0", "").await;
    }
    assert_eq!(problem["took_effect"], "no", "{problem}");
    let kept_after = problem["kept_after"].as_str().unwrap().to_owned();
    // A stream is refused as well, instead of being started and ended.
    let (status, refused) = ask(address, "GET", "/v1/events/stream?after=0.0", "").await;
    assert_eq!((status, &refused["code"]), (410, &json!("position_too_old")), "{refused}");
    let (status, page) = ask(address, "GET", &format!("/v1/events?after={kept_after}"), "").await;
    assert_eq!(status, 200, "from where it was told to: {page}");
    // A reader without a position begins at the oldest event.
    assert_eq!(ask(address, "GET", "/v1/events", "").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_an_idle_reader_ends_with_a_reason_and_resumes_without_a_gap() {
    const PATIENCE: Duration = Duration::from_millis(200);
    let mut world = World::empty(quick());
    let address = serve(&mut world, Start::Bootstrap, |edge| edge.patience = PATIENCE).await;
    // More than the system takes in between.
    for batch in 0..24 {
        create(address, (0..1_000).map(|nth| format!("{batch:03}-{nth:04}-{}", "x".repeat(100)))).await;
    }
    let (mut read, mut position, mut reasons) = (0_u64, String::from("0.0"), Vec::new());
    while read < 24_000 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        let mut stream = within("a connection", socket.connect(address)).await.unwrap();
        let ask = head("GET", &format!("/v1/events/stream?after={position}"), "");
        stream.write_all(ask.as_bytes()).await.unwrap();
        let asked = Instant::now();
        // Read nothing for longer than the node's patience; once is enough.
        until("it has been slow", async || !reasons.is_empty() || asked.elapsed() > 5 * PATIENCE).await;
        let mut text = String::new();
        let mut bytes = vec![0; 64 * 1024];
        while read < 24_000 {
            let count = within("something on the stream", stream.read(&mut bytes)).await.unwrap();
            if count == 0 {
                break;
            }
            text += &String::from_utf8_lossy(&bytes[..count]);
            while let Some((frame, rest)) = text.split_once("\n\n") {
                let field = |name: &str| {
                    frame.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
                };
                if let Some(id) = field("id") {
                    if field("event").as_deref() == Some("created") {
                        read += 1;
                        assert_eq!(id, format!("0.{read}"), "no gap, and none twice");
                    }
                    position = id;
                }
                if field("event").as_deref() == Some("end") {
                    let data: Value = serde_json::from_str(&field("data").unwrap()).unwrap();
                    reasons.push(data["reason"].as_str().unwrap().to_owned());
                }
                text = rest.to_owned();
            }
        }
    }
    assert_eq!(reasons.first().map(String::as_str), Some("slow_reader"), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_sends_heartbeats_with_its_position() {
    let mut world = World::empty(quick());
    let address = serve(&mut world, Start::Bootstrap, |_| {}).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let ask = head("GET", "/v1/events/stream?after=0.0&queue=quiet", "");
    stream.write_all(ask.as_bytes()).await.unwrap();
    create(address, (0..3).map(|nth| format!("item-{nth}"))).await;
    let mut text = String::new();
    let mut bytes = [0; 4_096];
    while !text.contains(": heartbeat\nid: 0.3\n\n") {
        let count = within("a heartbeat", stream.read(&mut bytes)).await.unwrap();
        assert!(count > 0, "{text}");
        text += &String::from_utf8_lossy(&bytes[..count]);
    }
    assert!(!text.contains("event: created"), "of another queue: {text}");
}
