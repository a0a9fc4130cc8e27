//! Every documented call while the cluster loses its leader: sent under one leader, answered under the next.
//! Acknowledged commands took effect, and those in doubt happened once.
//!
//! Each call uses a separate space, so that the events of that space show all its effects.

use crate::http::{Answer, Caller, Sent};
use crate::people::{Edge, person, usual};
use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use test_support::{LIMIT, until};

/// In every round each call is sent to this many nodes at once: the leader and one follower.
const PLACES: u64 = 2;
/// After this many rounds, every call must have been in flight at the end of a leader.
const ROUNDS_MAX: u64 = 6;

/// How the leader of a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is paused, all calls are sent, and it never continues: it answers nothing.
    Stopped,
    /// It is killed while it answers.
    Amid,
}

/// The effect of a call that has happened once.
enum Effect {
    /// One more event of this kind in its space.
    Event(&'static str),
    /// It reads, and sees this.
    Sees(&'static str),
    /// This node is a member afterwards, or is not.
    Member(u64, bool),
    /// It has no effect, or leaves no event.
    Answer,
    /// It is refused in this situation: the node has data, or a member is away.
    Refused,
}

enum Request {
    Json(&'static str, String, Option<Value>),
    Upload(String),
    Follow(String),
}

/// A call that is ready to be sent: what it needs exists.
struct Ready {
    operation: String,
    caller: Caller,
    request: Request,
    effect: Effect,
    /// Number of earlier events of its effect's kind.
    before: usize,
}

/// A call and its outcome.
struct Done {
    ready: Ready,
    key: String,
    /// The node that answered.
    node: u64,
    answer: Answer,
    /// An attempt was in flight when the leader died.
    is_cut_through: bool,
}

#[derive(Default)]
struct Run {
    /// Leaders killed so far.
    kills: AtomicU64,
    met: [AtomicU64; 5],
}

const MET: [&str; 5] = ["unreached", "lost", "unavailable", "unknown", "refused for now"];

#[tokio::test(flavor = "multi_thread")]
async fn every_call_survives_the_end_of_a_leader_and_happens_once() {
    let mut people = usual();
    people.extend(["eve", "pat"].map(|actor| person(actor, "*", &["worker", "dispatcher"])));
    let mut edge = Edge::start(&people).await;
    let operations = edge.contract().operations();
    let run = Arc::new(Run::default());
    let mut missing: BTreeSet<String> = operations.clone();
    for round in 0..ROUNDS_MAX {
        let end = if round % 2 == 0 { End::Stopped } else { End::Amid };
        let done = one_round(&mut edge, &operations, &run, round, end).await;
        let cut: BTreeSet<&String> =
            done.iter().filter(|done| done.is_cut_through).map(|done| &done.ready.operation).collect();
        eprintln!("round {round}, {end:?}: {} of {} calls were cut through", cut.len(), operations.len());
        missing.retain(|operation| !cut.contains(operation));
        join_all(done.iter().enumerate().map(|(nth, done)| check(done, 1 + (nth as u64 + round) % 3))).await;
        settle(&edge).await;
        if missing.is_empty() && round > 0 {
            break;
        }
    }
    let met: BTreeMap<_, _> = MET.into_iter().zip(run.met.iter().map(|met| met.load(Ordering::Relaxed))).collect();
    eprintln!("{met:?}");
    assert!(missing.is_empty(), "never on their way when a leader died: {missing:?}");
    edge.world.in_step().await;
}

async fn one_round(edge: &mut Edge, operations: &BTreeSet<String>, run: &Arc<Run>, round: u64, end: End) -> Vec<Done> {
    let leader = edge.world.leader().await;
    let follower = edge.world.follower().await;
    let readying = operations.iter().flat_map(|operation| {
        [leader, follower].map(|node| {
            let space = format!("{}-{round}-{node}", operation.replace('_', "-"));
            ready(&*edge, operation, round * PLACES + u64::from(node == leader), space, node)
        })
    });
    let readied = join_all(readying).await;
    let total = readied.len() as u64;
    let asked = edge.contract().asked();
    if end == End::Stopped {
        edge.world.pause(leader);
    }
    let answered = Arc::new(AtomicU64::new(0));
    let calls: Vec<_> = readied
        .into_iter()
        .enumerate()
        .map(|(nth, ready)| {
            let (run, answered) = (run.clone(), answered.clone());
            tokio::spawn(async move {
                let done = insist(ready, &run, format!("round-{round}-{nth}")).await;
                answered.fetch_add(1, Ordering::Relaxed);
                done
            })
        })
        .collect();
    match end {
        End::Stopped => until("all have asked", async || edge.contract().asked() >= asked + total).await,
        End::Amid => until("some are answered", async || answered.load(Ordering::Relaxed) > total / 8).await,
    }
    run.kills.fetch_add(1, Ordering::SeqCst);
    edge.world.kill(leader);
    let mut done = Vec::new();
    for call in calls {
        done.push(call.await.unwrap());
    }
    edge.world.start(leader);
    edge.is_ready(leader).await;
    done
}

/// Creates what a call needs, in a separate space.
async fn ready(edge: &Edge, operation: &str, nth: u64, space: String, node: u64) -> Ready {
    let [root, eve, pat] = ["root", "eve", "pat"].map(|actor| edge.caller(actor).space(&space).at(node));
    let item = |verb: &str| format!("/v1/items/a/{verb}");
    let queue = |verb: &str| format!("/v1/queues/q/{verb}");
    root.post("/v1/items", json!({"id": "a", "queue": "q", "body": {"prompt": "do it"}})).ok().await;
    let hold = async |caller: &Caller| caller.post(item("claim"), json!({})).ok().await["token"].clone();
    let wait = async |caller: &Caller| {
        caller.post(item("claim"), json!({"on_conflict": "wait", "poll_ms": 1})).ok().await;
    };
    let worker = root.session("worker");
    let named = json!({"actor": "root", "session": "worker"});
    let register = || worker.put("/v1/workers/self", json!({"alive_for_ms": 600_000}));
    // Members that never join: a separate one for each call.
    let stranger = 100 + 2 * nth + u64::from(operation == "remove_member");
    let join = json!({"node": stranger, "peer_address": "127.0.0.1:1", "instance": 0});

    let get = |path: &str, sees| (Request::Json("GET", path.to_owned(), None), Effect::Sees(sees));
    let post = |path: String, body, kind| (Request::Json("POST", path, Some(body)), Effect::Event(kind));
    let tell = |path: &str| (Request::Json("POST", path.to_owned(), Some(json!({}))), Effect::Answer);
    let mut caller = root.clone();
    let (request, effect) = match operation {
        "create" => post("/v1/items".into(), json!({"id": "b", "queue": "q"}), "created"),
        "create_many" => post("/v1/items/batch".into(), json!({"items": [{"id": "b", "queue": "q"}]}), "created"),
        "claim" => post(item("claim"), json!({}), "granted"),
        "claim_many" => post("/v1/claims".into(), json!({"claims": [{"item": "a"}]}), "granted"),
        "next" => post(queue("next"), json!({}), "granted"),
        "renew" => {
            let token = hold(&root).await;
            (Request::Json("POST", item("renew"), Some(json!({"token": token}))), Effect::Sees("expires_in_ms"))
        }
        "renew_all" => {
            hold(&root).await;
            (Request::Json("POST", "/v1/renewals".into(), Some(json!({}))), Effect::Sees("\"renewed\":1"))
        }
        "extend" => post(item("extend"), json!({"token": hold(&root).await, "for_ms": 1_800_000}), "extended"),
        "release" => post(item("release"), json!({"token": hold(&root).await}), "released"),
        "reserve" => post(item("reserve"), json!({"token": hold(&root).await, "for_ms": 600_000}), "reserved"),
        "withdraw" => {
            hold(&eve).await;
            wait(&root).await;
            post(item("withdraw"), json!({}), "left_line")
        }
        "reorder" => {
            hold(&eve).await;
            wait(&root).await;
            wait(&pat).await;
            post(item("reorder"), json!({"actors": ["pat"]}), "reordered")
        }
        "assign" => post(item("assign"), json!({"actor": "eve"}), "assigned"),
        "unassign" => {
            root.post(item("assign"), json!({"actor": "eve"})).ok().await;
            post(item("unassign"), json!({"actor": "eve"}), "unassigned")
        }
        "revoke" => {
            hold(&eve).await;
            post(item("revoke"), json!({"reason": "mine"}), "revoked")
        }
        "update" => {
            let body = json!({"token": hold(&root).await, "title": "new"});
            (Request::Json("PATCH", "/v1/items/a".into(), Some(body)), Effect::Event("updated"))
        }
        "activity" => {
            let body = json!({"token": hold(&root).await, "kind": "progress", "note": "half"});
            post(item("activity"), body, "activity_recorded")
        }
        "await_input" => {
            post(item("await_input"), json!({"token": hold(&root).await, "question": "which?"}), "awaited_input")
        }
        "resume" => {
            let token = hold(&root).await;
            root.post(item("await_input"), json!({"token": token, "question": "which?"})).ok().await;
            post(item("resume"), json!({"token": token}), "resumed")
        }
        "hand_on" => post(item("hand_on"), json!({"token": hold(&root).await, "phase": "review"}), "handed_on"),
        "complete" => post(item("complete"), json!({"token": hold(&root).await}), "completed"),
        "fail" => post(item("fail"), json!({"token": hold(&root).await, "final": true}), "failed"),
        "cancel" => post(item("cancel"), json!({"reason": "enough"}), "cancelled"),
        "reopen" => {
            root.post(item("complete"), json!({"token": hold(&root).await})).ok().await;
            post(item("reopen"), json!({}), "reopened")
        }
        "retry" => {
            root.post(item("fail"), json!({"token": hold(&root).await, "final": true})).ok().await;
            post(item("retry"), json!({}), "retried")
        }
        "set_policy" => {
            let body = Some(json!({"lease_for_ms": 60_000}));
            (Request::Json("PATCH", queue("policy"), body), Effect::Event("policy_changed"))
        }
        "pause" => post(queue("pause"), json!({}), "paused"),
        "unpause" => {
            root.post(queue("pause"), json!({})).ok().await;
            post(queue("unpause"), json!({}), "unpaused")
        }
        "drain_queue" => post(queue("drain"), json!({}), "drain_started"),
        "set_space_policy" => {
            let body = json!({"items_max": 9, "body_bytes_max": 9_000, "identity": "require_checked"});
            (Request::Json("PUT", "/v1/space/policy".into(), Some(body)), Effect::Event("space_policy_changed"))
        }
        "register_worker" => {
            caller = worker.clone();
            let body = Some(json!({"alive_for_ms": 600_000}));
            (Request::Json("PUT", "/v1/workers/self".into(), body), Effect::Event("worker_registered"))
        }
        "drain_worker" => {
            register().ok().await;
            post("/v1/workers/drain".into(), named, "worker_drained")
        }
        "remove_worker" => {
            register().ok().await;
            post("/v1/workers/remove".into(), named, "worker_removed")
        }
        "show_item" => get("/v1/items/a", "\"queued\""),
        "list_items" => get("/v1/items", "\"a\""),
        "line" => get("/v1/items/a/line", "places"),
        "claim_summary" => get("/v1/items/a/claims", ""),
        "activities" => {
            let body = json!({"token": hold(&root).await, "kind": "progress", "note": "half"});
            root.post(item("activity"), body).ok().await;
            get("/v1/items/a/activities", "half")
        }
        "held_at" => {
            hold(&root).await;
            get("/v1/items/a/held_at?at_ms=999999999999999", "\"held\":true")
        }
        "carrying" => {
            hold(&root).await;
            get("/v1/carrying", "\"a\"")
        }
        "carrying_of" => {
            hold(&root).await;
            get("/v1/actors/root/carrying", "\"a\"")
        }
        "peek" => get("/v1/queues/q/peek", "\"a\""),
        "list_queues" => get("/v1/queues", "\"q\""),
        "show_queue" => get("/v1/queues/q", "\"q\""),
        "show_space" => get("/v1/space", "\"created\":1"),
        "list_workers" => {
            register().ok().await;
            get("/v1/workers", "\"worker\"")
        }
        "list_events" => get("/v1/events", "\"created\""),
        "follow_events" => (Request::Follow("/v1/events/stream?after=0.0".into()), Effect::Sees("0.1")),
        "cluster_status" => get("/v1/cluster", "\"members\""),
        "add_member" => {
            (Request::Json("POST", "/v1/cluster/members".into(), Some(join)), Effect::Member(stranger, true))
        }
        "join_secret" => tell("/v1/cluster/join-secret"),
        "promote_member" => tell("/v1/cluster/members/1/promote"),
        "remove_member" => {
            // Only one change of the members is made at a time.
            until("the stranger is added", async || {
                root.post("/v1/cluster/members", join.clone()).answer().await.status == 200
            })
            .await;
            let path = format!("/v1/cluster/members/{stranger}");
            (Request::Json("DELETE", path, None), Effect::Member(stranger, false))
        }
        "transfer_leader" => tell("/v1/cluster/transfer"),
        "take_snapshot" => tell("/v1/cluster/snapshot"),
        "backup" => (Request::Json("GET", "/v1/cluster/backup".into(), None), Effect::Answer),
        "activate" => tell("/v1/cluster/activate"),
        "raise_rules" => {
            let version = root.get("/v1/cluster").ok().await["rules_version"].clone();
            (Request::Json("POST", "/v1/cluster/rules".into(), Some(json!({"version": version}))), Effect::Refused)
        }
        "drain_node" => tell("/v1/cluster/drain"),
        "undrain_node" => tell("/v1/cluster/undrain"),
        // A node with data refuses it, whichever node leads.
        "restore" => (Request::Upload("/v1/cluster/restore".into()), Effect::Refused),
        other => panic!("{other} is in the document and not asked across the end of a leader"),
    };
    let before = if let Effect::Event(kind) = effect { events(&root, kind).await } else { 0 };
    Ready { operation: operation.to_owned(), caller, request, effect, before }
}

/// How many events of a kind are in the caller's space.
async fn events(caller: &Caller, kind: &str) -> usize {
    let page = caller.get("/v1/events?limit=1000").ok().await;
    page["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count()
}

impl Ready {
    async fn ask(&self, caller: &Caller) -> Sent {
        match &self.request {
            Request::Json(method, path, body) => caller.ask(method, path, body.clone()).send().await,
            Request::Upload(path) => caller.upload(path, Bytes::from_static(b"no backup")).send().await,
            Request::Follow(path) => match caller.get(path).try_follow().await {
                Ok(mut events) => match events.next().await {
                    None => Sent::Lost,
                    Some(frame) => {
                        let first = frame.id.unwrap_or_default();
                        let (headers, bytes) = (hyper::HeaderMap::new(), first.into());
                        Sent::Answered(Answer { status: 200, headers, bytes })
                    }
                },
                Err(sent) => sent,
            },
        }
    }
}

/// As the manual says: repeats a call with its key, at another node, until a node returns its outcome.
async fn insist(ready: Ready, run: &Run, key: String) -> Done {
    let began = Instant::now();
    let (mut is_retry, mut is_cut_through) = (false, false);
    for turn in ready.caller.node - 1.. {
        assert!(began.elapsed() < LIMIT, "never an answer to {}", ready.operation);
        let node = 1 + turn % 3;
        let mut caller = ready.caller.at(node).key(&key);
        if is_retry {
            caller = caller.with("tenure-retry", "1000");
        }
        let kills = run.kills.load(Ordering::SeqCst);
        let sent = ready.ask(&caller).await;
        is_cut_through |= kills < run.kills.load(Ordering::SeqCst) && !matches!(sent, Sent::Unreached);
        let met = match sent {
            Sent::Unreached => 0,
            Sent::Lost => {
                is_retry = true;
                1
            }
            Sent::Answered(answer) => {
                let code = if answer.status < 400 { None } else { answer.json()["code"].as_str().map(str::to_owned) };
                match code.as_deref() {
                    Some("unavailable" | "overloaded") => 2,
                    Some("unknown") => {
                        is_retry = true;
                        3
                    }
                    // A change of the cluster that is refused now may be repeated.
                    Some("change_refused") if !matches!(ready.effect, Effect::Refused) => 4,
                    _ => {
                        if ready.operation == "drain_node" {
                            // If all three were drained, no node would serve. It may be the node that dies.
                            drop(ready.caller.at(node).post("/v1/cluster/undrain", json!({})).send().await);
                        }
                        return Done { ready, key, node, answer, is_cut_through };
                    }
                }
            }
        };
        run.met[met].fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    unreachable!("turns do not end");
}

/// Checks that an acknowledged call took effect once, also when it is repeated with its key.
async fn check(done: &Done, node: u64) {
    let Done { ready, key, answer, .. } = done;
    let of = format!("{} in {:?}, answered by node {}: {answer:?}", ready.operation, ready.caller.headers, done.node);
    // There may be a moment without any added member.
    if matches!(ready.effect, Effect::Refused) && (ready.operation == "restore" || answer.status != 200) {
        assert_eq!(answer.json()["code"], "change_refused", "{of}");
        assert!(answer.json()["detail"].as_str().is_some_and(|why| !why.is_empty()), "{of}");
        return;
    }
    assert_eq!(answer.status, 200, "{of}");
    match ready.effect {
        Effect::Member(stranger, is_in) => {
            let members = members(&ready.caller.at(node)).await;
            assert_eq!(members.contains(&stranger), is_in, "{members:?}: {of}");
        }
        Effect::Sees(what) => assert!(String::from_utf8_lossy(&answer.bytes).contains(what), "{what}: {of}"),
        Effect::Answer | Effect::Refused => {}
        Effect::Event(kind) => {
            assert_eq!(events(&ready.caller.at(node), kind).await, ready.before + 1, "{kind}: {of}");
            let again = ready.caller.at(node).key(key).with("tenure-retry", "1000");
            let Sent::Answered(again) = ready.ask(&again).await else { panic!("{of}") };
            assert_eq!(again.status, 200, "{again:?} after {of}");
            assert_eq!(again.json().get("token"), answer.json().get("token"), "{again:?} after {of}");
            assert_eq!(events(&ready.caller.at(node), kind).await, ready.before + 1, "{kind}, repeated: {of}");
        }
    }
}

/// Reverts the changes that calls have made to the cluster.
async fn settle(edge: &Edge) {
    for node in 1..=3 {
        edge.caller("root").at(node).post("/v1/cluster/undrain", json!({})).ok().await;
        edge.is_ready(node).await;
    }
    let root = edge.caller("root");
    for stranger in members(&root).await.into_iter().filter(|node| *node > 3) {
        let path = format!("/v1/cluster/members/{stranger}");
        until("the stranger is gone", async || root.delete(&path).answer().await.status == 200).await;
    }
}

async fn members(caller: &Caller) -> BTreeSet<u64> {
    let status = caller.get("/v1/cluster").ok().await;
    status["members"].as_array().unwrap().iter().map(|member| member["id"].as_u64().unwrap()).collect()
}
