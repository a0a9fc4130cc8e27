//! HTTP/2 callers that do not read their responses: the unsent bytes are bounded.

use crate::metrics::{scrape, value};
use crate::people::{Edge, api_key, person};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use test_support::{until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MIB: f64 = 1024.0 * 1024.0;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A literal that is not indexed, with a literal name.
fn field(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).ok().filter(|length| *length < 127).unwrap();
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

fn get(stream: u32, path: &str, api_key: Option<&str>) -> Vec<u8> {
    let mut head = vec![0x82, 0x86, 0x41, 6];
    head.extend(b"tenure");
    head.extend([0x04, u8::try_from(path.len()).unwrap()]);
    head.extend(path.bytes());
    if let Some(api_key) = api_key {
        head.extend(field("authorization", &format!("Bearer {api_key}")));
    }
    // END_STREAM and END_HEADERS.
    frame(HEADERS, 5, stream, &head)
}

/// Number of response heads received, over all connections.
type Heads = Arc<AtomicUsize>;

/// One connection that sends `times` concurrent requests and reads one byte of each response.
async fn ask(address: &str, path: &str, api_key: Option<&str>, times: u32, heads: Heads) -> JoinSet<()> {
    let mut stream = within("a connection", TcpStream::connect(address)).await.unwrap();
    let window = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    said.extend(frame(SETTINGS, 0, 0, &window));
    for nth in 0..times {
        said.extend(get(2 * nth + 1, path, api_key));
    }
    stream.write_all(&said).await.unwrap();
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        let mut head = [0; 9];
        while stream.read_exact(&mut head).await.is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            if stream.read_exact(&mut payload).await.is_err() {
                break;
            }
            heads.fetch_add(usize::from(head[3] == HEADERS), Ordering::Relaxed);
        }
        // The connection is open as long as the test.
        std::future::pending::<()>().await;
    });
    reading
}

async fn alone(people: &[String]) -> Edge {
    Edge::begun(people, async |world| {
        world.start(1);
        world.leader().await;
    })
    .await
}

async fn resident(edge: &Edge) -> f64 {
    value(&scrape(&edge.nobody()).await, "tenure_process_resident_memory_bytes")
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_documents_cost_no_memory() {
    const CONNECTIONS: usize = 40;
    const TIMES: u32 = 127;
    let edge = alone(&[person("ada", "default", &["worker", "dispatcher"])]).await;
    edge.nobody().get("/openapi.json").answer().await;
    let before = resident(&edge).await;
    let heads = Heads::default();
    let mut open = Vec::new();
    for nth in 0..CONNECTIONS {
        let path = if nth % 2 == 0 { "/openapi.json" } else { "/docs" };
        open.push(ask(&edge.world.edge_address(1), path, None, TIMES, heads.clone()).await);
    }
    let asked = CONNECTIONS * usize::try_from(TIMES).unwrap();
    until("all are answered", async || heads.load(Ordering::Relaxed) >= asked).await;
    let more = (resident(&edge).await - before) / MIB;
    eprintln!("{more:.0} MiB more for {asked} answers");
    assert!(more < 64.0, "{more:.0} MiB more");
    edge.caller("ada").post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_lists_of_one_reader_are_bounded_and_others_are_served() {
    const CONNECTIONS: usize = 6;
    const TIMES: u32 = 80;
    let hand = |actor| person(actor, "default", &["worker", "dispatcher"]);
    let edge = alone(&[hand("ada"), person("rita", "default", &["reader"])]).await;
    let ada = edge.caller("ada");
    let title = "t".repeat(500);
    for batch in 0..10 {
        let item = |nth: u32| json!({"id": format!("item-{batch}-{nth}"), "queue": "q", "title": title});
        ada.post("/v1/items/batch", json!({"items": (0..100).map(item).collect::<Vec<_>>()})).ok().await;
    }
    let path = "/v1/items?limit=1000";
    edge.caller("rita").get(path).ok().await;
    let before = resident(&edge).await;
    let heads = Heads::default();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(ask(&edge.world.edge_address(1), path, Some(&api_key("rita")), TIMES, heads.clone()).await);
    }
    let asked = CONNECTIONS * usize::try_from(TIMES).unwrap();
    until("all are answered or rejected", async || {
        // While they wait, others list and renew.
        ada.get("/v1/items?limit=10").ok().await;
        heads.load(Ordering::Relaxed) >= asked
    })
    .await;
    let text = scrape(&edge.nobody()).await;
    let more = (value(&text, "tenure_process_resident_memory_bytes") - before) / MIB;
    eprintln!("{more:.0} MiB more for {asked} lists");
    assert!(more < 160.0, "{more:.0} MiB more");
    let shed = text.lines().any(|line| line.starts_with("tenure_requests_shed_total") && line.contains("unsent_bytes"));
    assert!(shed, "{text}");
    let unsent = value(&text, "tenure_unsent_answer_bytes") / MIB;
    assert!((1.0..64.0).contains(&unsent), "{unsent} MiB are owed");
    drop(open);
    until("nothing is owed", async || value(&scrape(&edge.nobody()).await, "tenure_unsent_answer_bytes") == 0.0).await;
}
