//! Overload: a node rejects excess calls at once, but not renewals.

use crate::http::Ask;
use crate::metrics::{scrape, value};
use crate::people::{Edge, person, usual};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use test_support::{LIMIT, until};

const NOISY: [&str; 6] = ["noisy-0", "noisy-1", "noisy-2", "noisy-3", "noisy-4", "noisy-5"];
/// Concurrent calls of each noisy actor.
const BATCHES: usize = 24;
/// Commands in a batch.
const WEIGHT: usize = 64;
/// The room of a node that has just started, in commands: it has not seen a slow answer yet.
const ROOM: usize = 2_048;

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_is_rejected_at_once_and_all_renewals_are_accepted() {
    let mut people = usual();
    people.extend(NOISY.map(|actor| person(actor, "default", &["worker"])));
    let mut edge = Edge::start(&people).await;
    let leader = edge.world.leader().await;
    let root = edge.caller("root").at(leader);
    let mut held = Vec::new();
    for (nth, holder) in ["ada", "ada", "ada", "bob", "bob", "cy", NOISY[0], NOISY[1]].into_iter().enumerate() {
        let (holder, id) = (edge.caller(holder).at(leader), format!("held-{nth}"));
        root.post("/v1/items", json!({"id": id, "queue": "q"})).ok().await;
        let token = holder.post(format!("/v1/items/{id}/claim"), json!({})).ok().await["token"].clone();
        held.push((holder, id, token));
    }
    // From now on nothing is answered, so every admitted call stays in flight.
    let others: Vec<_> = edge.world.running().into_iter().filter(|node| *node != leader).collect();
    for node in &others {
        edge.world.pause(*node);
    }
    let claims: Vec<Value> = (0..WEIGHT).map(|nth| json!({"item": format!("none-{nth}")})).collect();
    let batch = json!({"claims": claims});
    let sent_away = Arc::new(AtomicUsize::new(0));
    let crowd: Vec<_> = (0..NOISY.len() * BATCHES)
        .map(|nth| {
            let ask = edge.caller(NOISY[nth % NOISY.len()]).at(leader).post("/v1/claims", batch.clone());
            let sent_away = sent_away.clone();
            tokio::spawn(async move {
                let answer = ask.answer().await;
                let code = answer.json()["code"].as_str().unwrap_or("ok").to_owned();
                if ["overloaded", "rate_limited"].contains(&code.as_str()) {
                    assert!(answer.json()["retry_after_ms"].as_u64() > Some(0), "{answer:?}");
                    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
                    sent_away.fetch_add(1, Ordering::Relaxed);
                }
                code
            })
        })
        .collect();
    // While the admitted calls wait for a quorum, the others are rejected.
    let least = NOISY.len() * BATCHES - ROOM / WEIGHT;
    until("the rest is rejected", async || sent_away.load(Ordering::Relaxed) >= least).await;
    let renewals: Vec<_> = held
        .iter()
        .map(|(holder, id, token)| {
            tokio::spawn(holder.post(format!("/v1/items/{id}/renew"), json!({"token": token})).answer())
        })
        .collect();
    let again = edge.caller(NOISY[0]).at(leader).post("/v1/claims", batch.clone()).answer().await.json();
    assert!(
        ["overloaded", "rate_limited"].contains(&again["code"].as_str().unwrap()),
        "there is still no room: {again}"
    );
    for node in &others {
        edge.world.resume(*node);
    }
    for renewal in renewals {
        let answer = renewal.await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    for answered in crowd {
        *codes.entry(answered.await.unwrap()).or_default() += 1;
    }
    assert!(codes.get("overloaded").is_some_and(|count| *count > 0), "{codes:?}");
    // Some calls were admitted; each was answered or is in doubt.
    assert!(codes.keys().any(|code| code != "overloaded" && code != "rate_limited"), "{codes:?}");
    let text = String::from_utf8(root.get("/metrics").answer().await.bytes.to_vec()).unwrap();
    assert!(value(&text, "tenure_requests_shed_total{reason=\"in_flight\"}") > 0.0, "{text}");
    // There is room again.
    until("it serves all", async || {
        let answer = edge.caller(NOISY[0]).at(leader).post("/v1/claims", batch.clone()).answer().await;
        answer.status == 200
    })
    .await;
}

/// A batch of claims that weighs as much as one can.
fn batch() -> Value {
    let claims: Vec<Value> = (0..WEIGHT).map(|nth| json!({"item": format!("none-{nth}")})).collect();
    json!({"claims": claims})
}

/// A crowd sends calls while nothing is answered; then the cluster continues. Returns the responses.
async fn stall(edge: &Edge, leader: u64, others: &[u64], beside: Vec<Ask>) -> (Vec<Value>, Vec<u16>) {
    /// Longer than the target latency of an answer.
    const SLOW: Duration = Duration::from_millis(900);
    let nobody = edge.nobody().at(leader);
    let in_flight = async || value(&scrape(&nobody).await, "tenure_commands_in_flight");
    for node in others {
        edge.world.pause(*node);
    }
    let answered = Arc::new(AtomicUsize::new(0));
    let crowd: Vec<_> = NOISY
        .map(|actor| {
            let (ask, answered) = (edge.caller(actor).at(leader).post("/v1/claims", batch()), answered.clone());
            tokio::spawn(async move {
                let answer = ask.answer().await.json();
                answered.fetch_add(1, Ordering::Relaxed);
                answer
            })
        })
        .into_iter()
        .collect();
    until("each call of the crowd is admitted or rejected", async || {
        let sent_away = answered.load(Ordering::Relaxed);
        in_flight().await >= ((NOISY.len() - sent_away) * WEIGHT) as f64
    })
    .await;
    let let_in = in_flight().await;
    let count = beside.len();
    let beside: Vec<_> = beside.into_iter().map(|ask| tokio::spawn(ask.answer())).collect();
    until("the other calls are admitted", async || in_flight().await >= let_in + count as f64).await;
    let began = Instant::now();
    until("answers are slow", async || began.elapsed() > SLOW).await;
    for node in others {
        edge.world.resume(*node);
    }
    let (mut told, mut statuses) = (Vec::new(), Vec::new());
    for answer in crowd {
        told.push(answer.await.unwrap());
    }
    for answer in beside {
        statuses.push(answer.await.unwrap().status);
    }
    (told, statuses)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_room_shrinks_while_answers_are_slow_and_grows_when_they_are_quick_again() {
    let mut people = usual();
    people.extend(NOISY.map(|actor| person(actor, "default", &["worker"])));
    let mut edge = Edge::start(&people).await;
    let leader = edge.world.leader().await;
    let others: Vec<_> = edge.world.running().into_iter().filter(|node| *node != leader).collect();
    let ada = edge.caller("ada").at(leader);
    let room = async || value(&scrape(&ada).await, "tenure_room_commands");
    let mut held = Vec::new();
    for nth in 0..4 {
        let id = format!("held-{nth}");
        ada.post("/v1/items", json!({"id": id, "queue": "q"})).ok().await;
        let token = ada.post(format!("/v1/items/{id}/claim"), json!({})).ok().await["token"].clone();
        held.push(json!({"token": token, "path": format!("/v1/items/{id}/renew")}));
    }
    let renewals = || -> Vec<Ask> {
        let renew = |held: &Value| ada.post(held["path"].as_str().unwrap(), json!({"token": held["token"]}));
        held.iter().map(renew).collect()
    };
    assert_eq!(room().await, ROOM as f64, "it has seen no slow answer yet");
    // The whole crowd is admitted. Because its answers are slow, fewer calls are admitted afterwards.
    until("slow answers have made the room small", async || {
        let (told, renewed) = stall(&edge, leader, &others, renewals()).await;
        assert!(renewed.iter().all(|status| *status == 200), "{renewed:?}");
        if room().await == ROOM as f64 {
            assert!(told.iter().all(|told| told["code"] != "overloaded"), "{told:?}");
        }
        room().await < (NOISY.len() * WEIGHT) as f64
    })
    .await;
    // The same crowd again: part of it is rejected at once with a `retry_after_ms`. Renewals are accepted.
    let (told, renewed) = stall(&edge, leader, &others, renewals()).await;
    let sent_away: Vec<_> = told.iter().filter(|told| told["code"] == "overloaded").collect();
    assert!(!sent_away.is_empty() && sent_away.len() < told.len(), "{told:?}");
    assert!(sent_away.iter().all(|told| told["retry_after_ms"].as_u64() > Some(0)), "{told:?}");
    assert_eq!(renewed, [200; 4]);
    // Answers are fast and the room is used, so it grows beyond what the crowd needs.
    until("the room has grown", async || {
        let crowd: Vec<_> = NOISY
            .iter()
            .flat_map(|actor| (0..2).map(|_| edge.caller(actor).at(leader).post("/v1/claims", batch())))
            .map(|ask| tokio::spawn(ask.answer()))
            .collect();
        for answer in crowd {
            answer.await.unwrap();
        }
        room().await > (NOISY.len() * WEIGHT) as f64
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frequent_held_at_calls_are_rate_limited_and_renewals_are_accepted() {
    const HISTORY: usize = 20;
    let mut edge = Edge::start(&usual()).await;
    let leader = edge.world.leader().await;
    let (ada, bob) = (edge.caller("ada").at(leader), edge.caller("bob").at(leader));
    ada.post("/v1/items", json!({"id": "first", "queue": "q"})).ok().await;
    let token = ada.post("/v1/items/first/claim", json!({"lease_for_ms": 600_000})).ok().await["token"].clone();
    // A long way back to the first event.
    for nth in 0..HISTORY {
        let items: Vec<Value> = (0..1_000).map(|item| json!({"id": format!("i{nth}-{item}"), "queue": "q"})).collect();
        // Her rate is charged for each of them.
        until("they are taken", async || {
            ada.post("/v1/items/batch", json!({"items": items})).answer().await.status == 200
        })
        .await;
    }
    let path = "/v1/items/first/held_at?at_ms=999999999999999";
    assert_eq!(bob.get(path).ok().await["held"], true);
    let mut limited = 0;
    until("his calls are rate limited", async || {
        let asked: Vec<_> = (0..120).map(|_| tokio::spawn(bob.get(path).answer())).collect();
        ada.post("/v1/items/first/renew", json!({"token": token})).ok().await;
        for asked in asked {
            let answer = asked.await.unwrap();
            match answer.json()["code"].as_str() {
                None => assert_eq!(answer.json()["held"], true, "{answer:?}"),
                Some("rate_limited" | "overloaded") => {
                    assert!(answer.json()["retry_after_ms"].as_u64() > Some(0), "{answer:?}");
                    limited += 1;
                }
                // It took too long: neither a wrong answer nor an endless read.
                Some(code) => assert_eq!(code, "unavailable", "{answer:?}"),
            }
        }
        limited > 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_take_no_room_from_other_actors() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    const LARGE: usize = 1_000_000;
    let mut people = usual();
    people.push(person("noisy", "default", &["worker", "dispatcher"]));
    let edge = Edge::start(&people).await;
    let ada = edge.caller("ada");
    ada.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let token = ada.post("/v1/items/a/claim", json!({})).ok().await["token"].clone();
    let address = ada.addresses[&ada.node].clone();
    // All bytes but the last of each body: more than one actor may have in flight.
    let head = format!(
        "POST /v1/items HTTP/1.1\r\nhost: tenure\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: {LARGE}\r\n\r\n",
        crate::people::api_key("noisy")
    );
    let mut slow = Vec::new();
    let mut limited = None;
    let opened = Instant::now();
    while limited.is_none() {
        assert!(opened.elapsed() < LIMIT, "{} at a time", slow.len());
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // The connection may be closed early.
        let _ = stream.write_all(&vec![b' '; LARGE - 1]).await;
        // The room of one actor is not full before this.
        if slow.len() > 32 {
            let mut start = [0; 4_096];
            let heard = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut start)).await;
            limited = heard.ok().map(|count| String::from_utf8_lossy(&start[..count.unwrap()]).into_owned());
        }
        slow.push(stream);
    }
    let limited = limited.unwrap();
    assert!(limited.starts_with("HTTP/1.1 429 ") && limited.contains("\"code\":\"rate_limited\""), "{limited}");
    // Others are served as before, large bodies and small.
    ada.post("/v1/items/a/renew", json!({"token": token})).ok().await;
    let large = json!({"id": "b", "queue": "q", "body": {"prompt": "x".repeat(60_000)}});
    ada.post("/v1/items", large).ok().await;
    let text = String::from_utf8(ada.get("/metrics").answer().await.bytes.to_vec()).unwrap();
    assert!(value(&text, "tenure_requests_shed_total{reason=\"body_bytes\"}") > 0.0, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_actor_over_its_byte_rate_gets_a_retry_after_and_still_renews() {
    let options = ["--actor-bytes-per-second", "200000", "--space-bytes-per-second", "1000000"];
    let mut edge = Edge::begun(&usual(), async |world| {
        world.options.extend(options.map(String::from));
        world.start_three().await;
    })
    .await;
    let node = edge.world.follower().await;
    let (root, ada) = (edge.caller("root").at(node), edge.caller("ada").at(node));
    ada.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let token = ada.post("/v1/items/a/claim", json!({})).ok().await["token"].clone();
    let plan = || {
        let body = json!({"token": token, "kind": "plan_updated", "note": "x".repeat(60_000)});
        ada.post("/v1/items/a/activity", body)
    };
    // The bytes of one second are accepted at once.
    let mut taken = 0;
    let problem = loop {
        let answer = plan().answer().await.json();
        if answer["code"] == "rate_limited" {
            break answer;
        }
        assert!(answer["code"].is_null() && taken < 100, "{answer}");
        taken += 1;
    };
    assert!(taken > 0 && problem["retry_after_ms"].as_u64() > Some(0), "{problem}");
    assert_eq!(
        (&problem["took_effect"], &problem["detail"]),
        (&json!("no"), &json!("this actor writes more bytes per second than its rate limit")),
        "{problem}"
    );
    ada.post("/v1/items/a/renew", json!({"token": token})).ok().await;
    ada.get("/v1/items/a").ok().await;
    root.post("/v1/items", json!({"id": "b", "queue": "q", "body": {"prompt": "x".repeat(60_000)}})).ok().await;
    assert!(value(&scrape(&root).await, "tenure_requests_shed_total{reason=\"actor_byte_rate\"}") >= 1.0);
    assert!(value(&scrape(&root).await, "tenure_command_bytes_total") > 60_000.0);
    until("it may write again", async || plan().answer().await.status == 200).await;
    ada.post("/v1/items/a/complete", json!({"token": token})).ok().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_events_are_charged_by_what_is_read_and_a_stream_waits_for_room() {
    let mut people = usual();
    people.push(person("nosy", "default", &["reader"]));
    let edge = Edge::begun(&people, async |world| {
        world.options.extend(["--actor-commands-per-second", "100"].map(String::from));
        world.start_three().await;
    })
    .await;
    let (ada, nosy) = (edge.caller("ada"), edge.caller("nosy"));
    for nth in 0..20 {
        ada.post("/v1/items", json!({"id": format!("item-{nth}"), "queue": "q"})).ok().await;
    }
    // The burst of two seconds is 200 ordinary calls, but only a few pages.
    let page = || nosy.get("/v1/events?limit=1000").answer();
    let mut problem = json!(null);
    for _ in 0..100 {
        let answer = page().await.json();
        if answer["code"] == "rate_limited" {
            problem = answer;
            break;
        }
    }
    assert!(problem["retry_after_ms"].as_u64() > Some(0), "{problem}");
    assert_eq!(problem["detail"], "this actor sends more commands per second than its rate limit", "{problem}");
    // A stream uses the remaining rate, waits for more, and delivers everything.
    let mut streams = Vec::new();
    until("streams are open", async || {
        if let Ok(stream) = nosy.get("/v1/events/stream?after=0.0").try_follow().await {
            streams.push(stream);
        }
        streams.len() == 5
    })
    .await;
    page().await;
    for mut stream in streams {
        let mut created = 0;
        until("the stream shows everything", async || {
            let frame = stream.next().await.expect("a stream does not end");
            assert_ne!(frame.event.as_deref(), Some("end"), "{frame:?}");
            created += usize::from(frame.event.as_deref() == Some("created"));
            created == 20
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_actor_over_its_reading_rate_is_rejected_and_others_still_read() {
    let mut people = usual();
    people.push(person("nosy", "default", &["reader"]));
    let mut edge = Edge::begun(&people, async |world| {
        // A list also counts as commands: their rate must not be reached first.
        let options = ["--actor-reading-ms-per-second", "1", "--actor-commands-per-second", "1000000"];
        world.options.extend(options.map(String::from));
        world.start_three().await;
    })
    .await;
    let node = edge.world.follower().await;
    let (ada, nosy) = (edge.caller("ada").at(node), edge.caller("nosy").at(node));
    let items: Vec<Value> = (0..1_000).map(|nth| json!({"id": format!("item-{nth}"), "queue": "q"})).collect();
    ada.post("/v1/items/batch", json!({"items": items})).ok().await;
    let token = ada.post("/v1/items/item-0/claim", json!({})).ok().await["token"].clone();
    // The burst is twenty milliseconds of CPU time, and each list examines a thousand items.
    let search = || nosy.get("/v1/items?text=zzzz&consistency=local").answer();
    let mut problem = json!(null);
    for _ in 0..1_000 {
        let answer = search().await.json();
        if answer["code"] == "rate_limited" {
            problem = answer;
            break;
        }
    }
    assert!(problem["retry_after_ms"].as_u64() > Some(0), "{problem}");
    assert_eq!(
        (&problem["took_effect"], &problem["detail"]),
        (&json!("no"), &json!("lists and event pages of this actor have taken more time than its rate limit")),
        "{problem}"
    );
    ada.get("/v1/items?text=zzzz").ok().await;
    ada.post("/v1/items/item-0/renew", json!({"token": token})).ok().await;
    // Only its lists are rejected, not all calls.
    nosy.get("/v1/items/item-0").ok().await;
    assert!(
        value(&scrape(&edge.caller("root").at(node)).await, "tenure_requests_shed_total{reason=\"actor_reading\"}")
            >= 1.0
    );
    until("it may read again", async || search().await.status == 200).await;
}
