//! The metrics and logs of a node about the calls that it serves.

use crate::http::Caller;
use crate::people::{Edge, METRICS_OPEN, person, usual};
use serde_json::json;
use test_support::until;

const CANARY: &str = "canary";

pub(crate) async fn scrape(caller: &Caller) -> String {
    String::from_utf8(caller.get("/metrics").answer().await.bytes.to_vec()).unwrap()
}

/// The sum of all series with this name, or the value of one series with labels.
pub(crate) fn value(text: &str, series: &str) -> f64 {
    let of = |line: &str| {
        let rest = line.strip_prefix(series)?;
        let (_, number) = rest.rsplit_once(' ')?;
        (rest.starts_with('{') || rest.starts_with(' ')).then(|| number.parse::<f64>().unwrap())
    };
    let found: Vec<f64> = text.lines().filter_map(of).collect();
    assert!(!found.is_empty(), "no {series} in\n{text}");
    found.iter().sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_change_every_metric_and_no_metric_names_a_caller() {
    let mut people = usual();
    for actor in ["canary-holder", "canary-waiter"] {
        people.push(person(actor, "default", &["worker", "dispatcher"]));
    }
    let mut edge = Edge::start(&people).await;
    let (leader, follower) = (edge.world.leader().await, edge.world.follower().await);
    let root = edge.caller("root").at(follower);
    let holder = edge.caller("canary-holder").at(follower).session("canary-session");
    let waiter = edge.caller("canary-waiter").at(follower);
    for id in ["canary-a", "canary-b", "canary-c", "canary-d"] {
        root.post("/v1/items", json!({"id": id, "queue": "q", "title": "canary-title"})).ok().await;
    }
    root.patch("/v1/queues/q/policy", json!({"lease_min_ms": 1})).ok().await;
    holder.post("/v1/items/canary-a/claim", json!({"action": "canary-action"})).ok().await;
    holder.post("/v1/items/canary-b/claim", json!({"lease_for_ms": 1})).ok().await;
    waiter.post("/v1/items/canary-a/claim", json!({})).refused("already_claimed").await;
    // Two of three entries are refused in a batch that succeeds.
    let batch = json!({"claims": [{"item": "canary-a"}, {"item": "canary-none"}, {"item": "canary-c"}]});
    waiter.post("/v1/claims", batch).ok().await;
    let twice = json!({"items": [{"id": "canary-a", "queue": "other"}]});
    root.post("/v1/items/batch", twice).ok().await;
    waiter.with("authorization", "Bearer canary-token").get("/v1/items").refused("unauthenticated").await;
    let waits = waiter.post("/v1/items/canary-a/claim", json!({"on_conflict": "wait", "poll_ms": 20_000}));
    let waiting = tokio::spawn(waits.send());
    let _events = holder.get("/v1/events/stream?after=0.0").follow().await;
    until("he waits, and the lapse is seen", async || {
        let text = scrape(&root).await;
        value(&text, "tenure_waiting_claims") == 1.0 && value(&text, "tenure_events_total{kind=\"expired\"}") == 1.0
    })
    .await;
    until("what is ready grows older", async || value(&scrape(&root).await, "tenure_oldest_ready_age_seconds") > 0.0)
        .await;

    let text = scrape(&root).await;
    let call = |command: &str, outcome: &str| {
        value(&text, &format!("tenure_call_seconds_count{{command=\"{command}\",outcome=\"{outcome}\"}}"))
    };
    assert_eq!((call("create", "ok"), call("claim", "ok"), call("claim", "already_claimed")), (4.0, 2.0, 1.0));
    let refused = |code: &str| value(&text, &format!("tenure_refusals_total{{code=\"{code}\"}}"));
    assert_eq!((refused("already_claimed"), refused("not_found")), (2.0, 1.0), "entries of batches as well");
    assert_eq!((refused("already_exists"), refused("unauthenticated")), (1.0, 1.0));
    assert_eq!(value(&text, "tenure_auth_failures_total"), 1.0);
    assert_eq!((value(&text, "tenure_leases"), value(&text, "tenure_queue_leases")), (2.0, 2.0));
    assert_eq!((value(&text, "tenure_items_with_line"), value(&text, "tenure_queue_waiting_claims")), (1.0, 1.0));
    // The item whose lease expired, and the item that was never claimed.
    assert_eq!((value(&text, "tenure_ready_items"), value(&text, "tenure_queue_ready_items")), (2.0, 2.0));
    assert!(value(&text, "tenure_queue_oldest_ready_age_seconds") > 0.0);
    assert_eq!(value(&text, "tenure_events_total{kind=\"granted\"}"), 3.0);
    assert_eq!((value(&text, "tenure_streams_open"), value(&text, "tenure_waiters")), (1.0, 1.0));
    // The waiting caller, the stream, and this call.
    assert!(value(&text, "tenure_connections_open") >= 3.0, "{text}");
    assert!(value(&text, "tenure_requests_in_flight") >= 2.0, "{text}");
    assert!(value(&text, "tenure_request_body_bytes_total") > 100.0);
    assert!(value(&text, "tenure_remembered_requests") > 5.0);
    assert!(value(&text, "tenure_forwarded_commands_total") > 5.0);
    assert_eq!(value(&text, "tenure_raft_role{role=\"follower\"}"), 1.0);
    assert_eq!(value(&text, "tenure_clock_withheld_seconds"), 0.0);
    assert!(value(&text, "tenure_log_sync_seconds_count") > 5.0);

    let leads = scrape(&root.at(leader)).await;
    assert_eq!(value(&leads, "tenure_raft_role{role=\"leader\"}"), 1.0);
    assert!(value(&leads, "tenure_raft_term") >= 1.0);
    for series in ["tenure_commit_seconds_count", "tenure_batch_commands_count", "tenure_log_sync_seconds_count"] {
        assert!(value(&leads, series) > 5.0, "{series}");
    }
    let others = leads.lines().filter(|line| line.starts_with("tenure_raft_member_lag_entries{")).count();
    assert_eq!(others, 2, "{leads}");
    for text in [&text, &leads] {
        assert!(!text.contains(CANARY), "{text}");
    }
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_leader_reports_the_time_it_withheld() {
    let edge = Edge::begun(&usual(), async |world| {
        world.start(1);
        world.leader().await;
    })
    .await;
    let ada = edge.caller("ada");
    ada.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    ada.post("/v1/items/a/claim", json!({})).ok().await;
    edge.world.pause(1);
    let paused = std::time::Instant::now();
    until("time passes", async || paused.elapsed() > std::time::Duration::from_secs(1)).await;
    edge.world.resume(1);
    until("it says so", async || value(&scrape(&ada).await, "tenure_clock_withheld_seconds") > 0.3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_need_a_right_for_the_cluster_also_on_the_same_machine() {
    let edge = Edge::begun(&usual(), async |world| {
        world.options.retain(|option| option != METRICS_OPEN);
        world.start(1);
        world.leader().await;
    })
    .await;
    // The node cannot know whether a proxy on its machine forwards the call of somebody else.
    edge.nobody().get("/metrics").refused("unauthenticated").await;
    let problem = edge.caller("ada").get("/metrics").refused("forbidden").await;
    assert_eq!(problem["needs"], "metrics", "{problem}");
    assert_eq!(value(&scrape(&edge.caller("root")).await, "tenure_failed"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_called_node_logs_the_trace_and_the_leader_the_request_id() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let mut edge = Edge::begun(&usual(), async |world| {
        world.log = Some("warn,node=debug");
        world.start_three().await;
    })
    .await;
    let (leader, follower) = (edge.world.leader().await, edge.world.follower().await);
    let ada = edge.caller("ada").at(follower).key("the-key-of-this-one");
    let traced = ada.with("traceparent", &format!("00-{TRACE}-b7ad6b7169203331-01"));
    let answer = traced.post("/v1/items", json!({"id": "a", "queue": "q"})).answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let back = answer.headers["traceparent"].to_str().unwrap();
    assert!(back.starts_with(&format!("00-{TRACE}-")), "the caller's trace comes back: {back}");
    let line = |words: &str, parts: &[&str]| words.lines().any(|line| parts.iter().all(|part| line.contains(part)));
    let sent_on = ["forwarded to the leader", TRACE, "the-key-of-this-one"];
    assert!(line(&edge.world.words(follower), &sent_on), "{}", edge.world.words(follower));
    let taken = ["a command of another node's caller", "the-key-of-this-one", "create"];
    assert!(line(&edge.world.words(leader), &taken), "{}", edge.world.words(leader));
    // A request without an id gets one from its trace, which is in both logs.
    const OTHER: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let unnamed = edge.caller("ada").at(follower).with("traceparent", &format!("00-{OTHER}-00f067aa0ba902b7-01"));
    unnamed.post("/v1/items/a/claim", json!({})).ok().await;
    assert!(line(&edge.world.words(follower), &["forwarded to the leader", OTHER]), "{}", edge.world.words(follower));
    let taken = ["a command of another node's caller", OTHER, "claim"];
    assert!(line(&edge.world.words(leader), &taken), "{}", edge.world.words(leader));
}
