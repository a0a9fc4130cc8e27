//! Hostile input to a real node: it returns a clear 4xx or closes the connection. Memory stays as before, and neither
//! the Raft log nor the node's log has a trace of it.

use crate::metrics::{scrape, value};
use crate::people::{Edge, api_key, usual};
use serde_json::json;
use test_support::{until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Memory growth of the process that all hostile input together may cause.
const MORE_BYTES_MAX: f64 = 96.0 * 1024.0 * 1024.0;

fn post(path: &str, body: &str) -> Vec<u8> {
    let authorization = format!("authorization: Bearer {}", api_key("ada"));
    let head = format!("POST {path} HTTP/1.1\r\nhost: tenure\r\n{authorization}\r\nconnection: close");
    format!("{head}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Sends bytes and returns everything that the node sends until it closes the connection.
async fn say(address: &str, bytes: &[u8]) -> String {
    let saying = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The node may close the connection before everything is sent.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    within("an answer, or the end", saying).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_input_is_refused_replicates_nothing_and_leaves_no_trace() {
    let mut edge = Edge::start(&usual()).await;
    let leader = edge.world.leader().await;
    let root = edge.caller("root").at(leader);
    root.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let address = root.addresses[&leader].clone();
    let before = scrape(&root).await;

    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let claim = "/v1/items/a/claim";
    let bodies = [
        String::from("{"),
        String::from("nul"),
        String::from("[]"),
        String::from("{\"lease_for_ms\": 1e999}"),
        String::from("{\"lease_for_ms\": 99999999999999999999999}"),
        String::from("{\"lease_for_ms\": \"5\"}"),
        String::from("{\"lease_for_ms\": 5, \"lease_for_ms\": 6}"),
        String::from("{\"on_conflict\": {\"wait\": true}}"),
        String::from("{\"action\": \"\\ud800\"}"),
        String::from("{\"action\": \"\u{0}\"}"),
        format!("{{\"action\": {}}}", deep("[", "]")),
        format!("{{\"action\": {}1{}}}", "{\"a\":".repeat(100_000), "}".repeat(100_000)),
        format!("{{\"{}\": 1}}", "k".repeat(900_000)),
        "x".repeat(2 << 20),
    ];
    for body in &bodies {
        let answer = say(&address, &post(claim, body)).await;
        let start: String = body.chars().take(60).collect();
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains("\"took_effect\":\"no\""), "{start}: {answer}");
        assert!(answer.len() < 4_096, "{start}: the input is not repeated: {} bytes", answer.len());
    }
    for path in ["/v1/items/%ff/claim", "/v1/items/%00/claim", "/v1/items/../../etc/passwd/claim", "/v1/items//claim"] {
        let answer = say(&address, &post(path, "{}")).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer}");
    }
    let long = format!("/v1/items/{}/claim", "i".repeat(20_000));
    assert!(say(&address, &post(&long, "{}")).await.starts_with("HTTP/1.1 4"));
    let flood: String = (0..2_000).map(|nth| format!("x-{nth}: y\r\n")).collect();
    let flooded = say(&address, format!("GET /v1/items HTTP/1.1\r\nhost: tenure\r\n{flood}\r\n").as_bytes()).await;
    assert!(flooded.is_empty() || flooded.starts_with("HTTP/1.1 4"), "{flooded}");
    for credential in ["Bearer", "Bearer ", "Basic YTpi", "Bearer \u{e4}", &format!("Bearer {}", "t".repeat(20_000))] {
        let bad =
            format!("GET /v1/items HTTP/1.1\r\nhost: t\r\nauthorization: {credential}\r\nconnection: close\r\n\r\n");
        let answer = say(&address, bad.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{credential}: {answer}");
        assert!(!answer.contains(&"t".repeat(100)), "a credential is not repeated");
    }
    let wrong = edge.nobody().at(leader).with("authorization", "Bearer guessed");
    for _ in 0..200 {
        wrong.get("/v1/items").refused("unauthenticated").await;
    }
    // Half of a head or half of a body, and then nothing.
    let mut half_open = Vec::new();
    let body = post(claim, "{\"action\": \"x\"}");
    for nth in 0..300 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let said = if nth % 2 == 0 { &b"GET /v1/it"[..] } else { &body[..body.len() - 1] };
        stream.write_all(said).await.unwrap();
        half_open.push(stream);
    }
    root.get("/v1/items/a").ok().await;
    until("they are noticed", async || value(&scrape(&root).await, "tenure_connections_open") > 250.0).await;
    // Some are closed by their callers, some by the node.
    half_open.truncate(100);
    until("they are closed", async || value(&scrape(&root).await, "tenure_connections_open") < 20.0).await;

    let after = scrape(&root).await;
    for series in ["tenure_proposed_commands_total", "tenure_events_total", "tenure_leases"] {
        assert_eq!(value(&after, series), value(&before, series), "{series}");
    }
    let memory = |text: &str| value(text, "tenure_process_resident_memory_bytes");
    let more = memory(&after) - memory(&before);
    assert!(more < MORE_BYTES_MAX, "{more} bytes more are resident");
    edge.world.check_alive();
    let words = edge.world.words(leader);
    assert!(!words.contains("ERROR") && !words.contains("panicked"), "{words}");
    root.post(claim, json!({})).ok().await;
}
