//! Callers while the cluster changes its leader or has none: nothing acknowledged is lost, nothing happens twice, and
//! responses distinguish what may have happened from what has not.

use crate::http::{Answer, Caller, Sent};
use crate::people::{Edge, usual};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use test_support::{LIMIT, until};

const WRITERS: usize = 8;
const KILLS: usize = 3;
/// Minimum number of steps of all writers between two kills.
const STEPS: u64 = 40;

/// How the calls of a run ended, and how often.
#[derive(Default)]
struct Met {
    answered: AtomicU64,
    unreached: AtomicU64,
    lost: AtomicU64,
    unavailable: AtomicU64,
    unknown: AtomicU64,
}

/// As the manual says: repeats a call with its key until a node returns its outcome.
async fn insist(caller: &Caller, met: &Met, key: &str, path: &str, body: &Value) -> Answer {
    let began = Instant::now();
    let mut is_retry = false;
    for turn in caller.node.. {
        assert!(began.elapsed() < LIMIT, "never an answer to {path}");
        let mut caller = caller.at(1 + turn % 3).key(key);
        if is_retry {
            caller = caller.with("tenure-retry", "1000");
        }
        let count = match caller.post(path, body.clone()).send().await {
            Sent::Unreached => &met.unreached,
            Sent::Lost => {
                is_retry = true;
                &met.lost
            }
            Sent::Answered(answer) => match answer.json()["code"].as_str() {
                Some("unavailable" | "overloaded") => &met.unavailable,
                Some("unknown") => {
                    is_retry = true;
                    &met.unknown
                }
                _ => {
                    met.answered.fetch_add(1, Ordering::Relaxed);
                    return answer;
                }
            },
        };
        count.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    unreachable!("turns do not end");
}

/// The acknowledged commands of a writer.
#[derive(Default)]
struct Told {
    created: BTreeSet<String>,
    granted: BTreeMap<String, u64>,
    completed: BTreeSet<String>,
}

async fn write(caller: Caller, writer: usize, met: Arc<Met>, steps: Arc<AtomicU64>, is_over: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    for nth in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("w{writer}-{nth}");
        let key = |verb: &str| format!("{id}-{verb}");
        let new = json!({"id": id, "queue": "load"});
        let created = insist(&caller, &met, &key("create"), "/v1/items", &new).await.json();
        assert_eq!(created["created"], true, "once, and always told so: {created}");
        told.created.insert(id.clone());
        let claim = format!("/v1/items/{id}/claim");
        let granted = insist(&caller, &met, &key("claim"), &claim, &json!({})).await.json();
        let token = granted["token"].as_u64().unwrap_or_else(|| panic!("{granted}"));
        told.granted.insert(id.clone(), token);
        if nth % 2 == 0 {
            let complete = format!("/v1/items/{id}/complete");
            let done = insist(&caller, &met, &key("complete"), &complete, &json!({"token": token})).await.json();
            assert_eq!(done["state"], "complete", "{done}");
            told.completed.insert(id.clone());
        }
        steps.fetch_add(1, Ordering::Relaxed);
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_or_done_twice_while_leaders_are_killed() {
    let mut edge = Edge::start(&usual()).await;
    let (met, steps, is_over) =
        (Arc::new(Met::default()), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let caller = edge.caller(["ada", "bob", "cy", "root"][writer % 4]).at(1 + writer as u64 % 3);
            let caller = caller.session(&format!("writer-{writer}"));
            tokio::spawn(write(caller, writer, met.clone(), steps.clone(), is_over.clone()))
        })
        .collect();
    for _ in 0..KILLS {
        let goal = steps.load(Ordering::Relaxed) + STEPS;
        until("the writers get on", async || steps.load(Ordering::Relaxed) >= goal).await;
        let leader = edge.world.leader().await;
        edge.world.kill(leader);
        let goal = steps.load(Ordering::Relaxed) + STEPS;
        until("the writers get on without it", async || steps.load(Ordering::Relaxed) >= goal).await;
        edge.world.start(leader);
        edge.is_ready(leader).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let root = edge.caller("root");
    let (mut tokens, mut items) = (BTreeSet::new(), 0);
    for writer in writers {
        let told = writer.await.unwrap();
        for id in &told.created {
            items += 1;
            let seen = root.at(1 + items % 3).get(format!("/v1/items/{id}")).ok().await;
            let expected = if told.completed.contains(id) { "complete" } else { "active" };
            assert_eq!(seen["state"], expected, "{seen}");
        }
        for (id, token) in told.granted {
            assert!(tokens.insert(token), "token {token} of {id} was given twice");
        }
    }
    let space = root.get("/v1/space").ok().await;
    assert_eq!(space["created"], items, "nothing but what was asked for: {space}");
    let disturbed = [&met.unreached, &met.lost, &met.unavailable, &met.unknown].map(|met| met.load(Ordering::Relaxed));
    eprintln!("{items} items; unreached, lost, unavailable, unknown: {disturbed:?}");
    assert!(disturbed.iter().sum::<u64>() > 0, "the kills were not felt: this run shows nothing");
    edge.world.in_step().await;
}

/// The outcome of a command, from the node's response.
async fn said(caller: &Caller, key: &str, body: Value) -> String {
    match caller.key(key).post("/v1/items", body).send().await {
        Sent::Answered(answer) if answer.status < 300 => "ok".to_owned(),
        Sent::Answered(answer) => answer.json()["code"].as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_nothing_is_lost_or_made_up() {
    let mut edge = Edge::start(&usual()).await;
    let leader = edge.world.leader().await;
    let others: Vec<_> = edge.world.running().into_iter().filter(|node| *node != leader).collect();
    let ada = edge.caller("ada").at(leader);
    ada.post("/v1/items", json!({"id": "before", "queue": "q"})).ok().await;
    for node in &others {
        edge.world.pause(*node);
    }

    let one = |id: &str| json!({"id": id, "queue": "q"});
    let early: Vec<_> = (0..3)
        .map(|nth| {
            let (ada, id) = (ada.clone(), format!("early-{nth}"));
            let new = one(&id);
            tokio::spawn(async move { (said(&ada, &id, new).await, id) })
        })
        .collect();
    // More calls than are ever answered now: excess calls are rejected at once.
    let items: Vec<Value> = (0..64).map(|nth| json!({"item": format!("none-{nth}")})).collect();
    let batch = json!({"claims": items});
    let crowd: Vec<_> = ["ada", "bob", "cy", "root"]
        .iter()
        .flat_map(|actor| (0..24).map(|_| edge.caller(actor).at(leader).post("/v1/claims", batch.clone())))
        .map(|ask| tokio::spawn(async move { ask.answer().await.json()["code"].clone() }))
        .collect();
    let mut asked: BTreeMap<String, String> = BTreeMap::new();
    let repeated = said(&ada.with("tenure-retry", "1000"), "repeated", one("repeated")).await;
    assert_eq!(repeated, "unknown", "the attempt before may have happened");
    asked.insert("repeated".into(), repeated);
    // The leader finally knows that it has no followers, and accepts nothing.
    let mut nth = 0;
    until("it says that it took nothing", async || {
        nth += 1;
        let id = format!("later-{nth}");
        let code = said(&ada, &id, one(&id)).await;
        asked.insert(id, code.clone());
        code == "unavailable"
    })
    .await;
    for early in early {
        let (code, id) = early.await.unwrap();
        // In the leader's log, not there yet, or after the crowd of its own actor.
        assert!(["unknown", "unavailable", "rate_limited", "overloaded"].contains(&code.as_str()), "{id}: {code}");
        asked.insert(id, code);
    }
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    for crowd in crowd {
        *codes.entry(crowd.await.unwrap().as_str().unwrap().to_owned()).or_default() += 1;
    }
    eprintln!("the crowd: {codes:?}; {asked:?}");
    assert!(codes.contains_key("overloaded"), "more than the node has room for: {codes:?}");
    let in_log = asked.iter().any(|(id, code)| id.starts_with("early") && code == "unknown");
    assert!(in_log || codes.contains_key("unknown"), "what the leader took is in doubt: {codes:?}, {asked:?}");
    assert!(codes.keys().all(|code| ["overloaded", "rate_limited", "unknown", "unavailable"].contains(&code.as_str())));

    let not_ready = edge.nobody().at(leader).get("/readyz").answer().await;
    assert_eq!(not_ready.status, 503, "{not_ready:?}");
    assert!(not_ready.json()["why"].as_str().is_some_and(|why| !why.is_empty()), "{not_ready:?}");
    assert_eq!(edge.nobody().at(leader).get("/healthz").answer().await.status, 200);
    ada.get("/v1/items/before").refused("unavailable").await;
    let local = ada.get("/v1/items/before?consistency=local").answer().await;
    assert_eq!(local.status, 200);
    assert!(local.headers.contains_key("tenure-age-ms"), "{local:?}");

    for node in &others {
        edge.world.resume(*node);
    }
    for node in 1..=3 {
        edge.is_ready(node).await;
    }
    for (id, code) in asked {
        let ada = edge.caller("ada").at(others[0]);
        let seen = ada.get(format!("/v1/items/{id}")).answer().await;
        if code != "unknown" {
            assert_eq!(seen.status, 404, "{id} was said not to have happened");
        }
        // Repeated with its key, it happens once if it has not happened yet.
        let again = ada.key(&id).with("tenure-retry", "1000").post("/v1/items", one(&id)).ok().await;
        assert_eq!(again["created"], true, "{id}: {again}");
        let twice = ada.key(&format!("{id}-another")).post("/v1/items", one(&id)).ok().await;
        assert_eq!(twice["created"], false, "{id}: {twice}");
    }
}
