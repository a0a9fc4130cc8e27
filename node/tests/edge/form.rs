//! The form of calls and responses: unknown fields are rejected by name, lists can be paged while they change, and long
//! responses are compressed on request.

use crate::http::Caller;
use crate::people::{Edge, usual};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_and_parameters_are_rejected_by_name() {
    let edge = Edge::start(&usual()).await;
    let (root, ada) = (edge.caller("root"), edge.caller("ada").at(2));
    root.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let field = async |ask: crate::http::Ask| ask.refused("invalid").await["field"].as_str().unwrap().to_owned();
    // In bodies, also of calls without one, and in nested objects.
    assert_eq!(field(ada.post("/v1/items/a/claim", json!({"leese_for_ms": 1}))).await, "leese_for_ms");
    assert_eq!(field(ada.post("/v1/items/a/withdraw", json!({"session": "x"}))).await, "session");
    assert_eq!(field(root.post("/v1/queues/q/pause", json!({"for_ms": 1}))).await, "for_ms");
    assert_eq!(field(root.post("/v1/cluster/activate", json!({"force": true}))).await, "force");
    let longer = json!({"valid_for_ms": 31_u64 * 24 * 60 * 60 * 1_000});
    for valid_for in [longer, json!({"valid_for_ms": 0})] {
        assert_eq!(field(root.post("/v1/cluster/join-secret", valid_for)).await, "valid_for_ms");
    }
    let deep = json!({"items": [{"id": "b", "queue": "q", "body": {"promt": "x"}}]});
    assert_eq!(field(root.post("/v1/items/batch", deep)).await, "items[0].body.promt");
    root.post("/v1/queues/q/pause", json!({})).typed("text/plain").refused("unsupported_media_type").await;
    // In queries, also of calls without parameters.
    assert_eq!(field(ada.get("/v1/items?stat=queued")).await, "stat");
    assert_eq!(field(ada.post("/v1/items/a/claim?on_conflict=wait", json!({}))).await, "on_conflict");
    assert_eq!(field(root.get("/v1/cluster?verbose=1")).await, "verbose");
    // The actor is never taken from a body.
    assert_eq!(field(ada.post("/v1/items/a/claim", json!({"actor": "bob"}))).await, "actor");
    // In headers: an ignored revision would look like a check.
    let tag = root.get("/v1/items/a").answer().await.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(field(ada.with("if-match", &tag).post("/v1/items/a/claim", json!({}))).await, "If-Match");
    assert_eq!(field(ada.with("if-match", "*").patch("/v1/items/a", json!({"title": "x"}))).await, "If-Match");
    let kinds = root.get("/v1/events?item=a").ok().await;
    assert_eq!(kinds["events"].as_array().unwrap().len(), 1, "nothing but its creation: {kinds}");
    assert_eq!(root.get("/v1/queues/q").ok().await["flow"], "open");
    // A write with this revision succeeds once.
    let update = ada.with("if-match", &tag);
    update.patch("/v1/items/a", json!({"title": "new"})).ok().await;
    update.patch("/v1/items/a", json!({"title": "newer"})).refused("stale_write").await;
    let both = json!({"title": "newest", "read_at": "0.99"});
    assert_eq!(field(update.patch("/v1/items/a", both)).await, "read_at");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_has_a_request_id_even_if_the_given_id_is_invalid() {
    let edge = Edge::start(&usual()).await;
    let ada = edge.caller("ada");
    ada.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let long = "k".repeat(65);
    let mut made_up = BTreeSet::new();
    for wrong in ["", "t\u{e4}glich", &long] {
        for ask in [ada.key(wrong).post("/v1/items/a/claim", json!({})), ada.key(wrong).get("/v1/items/a")] {
            let answer = ask.answer().await;
            let problem = answer.json();
            assert_eq!(
                (&problem["code"], &problem["field"]),
                (&json!("invalid"), &json!("Idempotency-Key")),
                "{problem}"
            );
            let id = problem["request_id"].as_str().unwrap().to_owned();
            assert_eq!(answer.headers["tenure-request-id"], id.as_str());
            assert!(wrong.is_empty() || !id.contains(wrong), "{id}");
            assert!(made_up.insert(id), "each its own: {problem}");
        }
    }
    // A header that appears twice is invalid too.
    let mut twice = ada.key("one");
    twice.headers.push(("idempotency-key", "two".to_owned()));
    let problem = twice.post("/v1/items/a/claim", json!({})).refused("invalid").await;
    assert_eq!(problem["field"], "Idempotency-Key", "{problem}");
    assert!(!["one", "two"].contains(&problem["request_id"].as_str().unwrap()), "{problem}");
    assert_eq!(ada.get("/v1/items/a").ok().await["state"], "queued", "nothing was claimed");
}

/// Every page of a list, with something done between any two.
async fn pages(caller: &Caller, path: &str, list: &str, between: impl AsyncFn(usize)) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    for turn in 0.. {
        // Each page from another node: cursors work at every node.
        let page = caller.at(1 + turn as u64 % 3).get(format!("{path}{cursor}")).ok().await;
        all.extend(page[list].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            None => break,
            Some(next) => cursor = format!("&cursor={next}"),
        }
        between(turn).await;
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn paging_a_changing_list_skips_and_repeats_nothing() {
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    let item = |nth: usize| json!({"id": format!("i-{nth:02}"), "queue": "q"});
    let items: Vec<Value> = (0..40).map(item).collect();
    root.post("/v1/items/batch", json!({"items": items})).ok().await;
    // Between pages, entries that were shown are removed, including the one at the cursor, and others are added.
    let found = pages(&root, "/v1/items?limit=7", "items", async |turn| {
        for nth in [turn * 7, turn * 7 + 6].into_iter().filter(|nth| *nth < 40) {
            let cancel = json!({"reason": "gone", "force": true});
            root.post(format!("/v1/items/i-{nth:02}/cancel"), cancel).ok().await;
        }
        root.post("/v1/items", json!({"id": format!("new-{turn}"), "queue": "q"})).ok().await;
    })
    .await;
    let ids: Vec<&str> = found.iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "nothing twice: {ids:?}");
    let old: Vec<&&str> = ids.iter().filter(|id| id.starts_with("i-")).collect();
    assert_eq!(old.len(), 40, "all that were there from the first page to the last: {ids:?}");
    let ended = pages(&root, "/v1/items?state=cancelled&limit=3", "items", async |_| {}).await;
    assert!(ended.len() >= 10, "{}", ended.len());
    for nth in 0..5 {
        root.post("/v1/items", json!({"id": format!("q-{nth}"), "queue": format!("queue-{nth}")})).ok().await;
    }
    let queues = pages(&root, "/v1/queues?limit=2", "queues", async |turn| {
        root.post("/v1/items", json!({"id": format!("r-{turn}"), "queue": format!("a-{turn}")})).ok().await;
    })
    .await;
    let named = queues.iter().filter(|queue| queue["queue"].as_str().unwrap().starts_with("queue-")).count();
    assert_eq!(named, 5, "{queues:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_responses_are_compressed_on_request_and_streams_are_not() {
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    let items: Vec<Value> = (0..50).map(|nth| json!({"id": format!("i-{nth}"), "queue": "q"})).collect();
    root.post("/v1/items/batch", json!({"items": items})).ok().await;
    let reads = root.with("accept-encoding", "gzip");
    let encoding = |answer: &crate::http::Answer| answer.headers.get("content-encoding").cloned();
    let plain = root.get("/docs").answer().await;
    let packed = reads.get("/docs").answer().await;
    assert_eq!((encoding(&plain), encoding(&packed).unwrap().as_bytes()), (None, &b"gzip"[..]));
    assert!(packed.bytes.starts_with(&[0x1f, 0x8b]) && packed.bytes.len() * 3 < plain.bytes.len());
    // The page is self-contained.
    let page = String::from_utf8(plain.bytes.to_vec()).unwrap();
    for outside in ["http://", "https://", "<script", "<link", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(encoding(&reads.get("/v1/cluster/backup").answer().await), None, "a backup is as it is");
    let mut events = reads.get("/v1/events/stream?after=0.0").follow().await;
    assert_eq!(events.next().await.unwrap().id.as_deref(), Some("0.1"), "as it comes, and readable");
    // A response has the caller's request id, or a new one.
    let named = root.key("mine").get("/v1/items").answer().await;
    assert_eq!(named.headers["tenure-request-id"], "mine");
    let unnamed = root.get("/v1/items").answer().await;
    assert_eq!(unnamed.headers["tenure-request-id"].len(), 64);
}
