//! Tests of a worker, with simulated time and scripted nodes.

use super::*;
use crate::fake::{Asked, Fake, Says};
use crate::names::QueueName;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn queue() -> QueueName {
    QueueName::new("ops").unwrap()
}

fn grant(item: &str, token: u64) -> Value {
    let date = "2026-01-01T00:00:00Z";
    json!({
        "item": item, "token": token, "expires_in_ms": 30_000, "expires_at_ms": 1, "expires_at": date,
        "lease_for_ms": 30_000, "cut": false, "renewed": false, "claimed_at_ms": 1, "claimed_at": date,
        "originally_claimed_at_ms": 1, "originally_claimed_at": date, "line_length": 0, "cancel_requested": false,
    })
}

/// A node with `items` items, which hangs when it has no more, and answers heartbeats with `beat`.
fn node(items: usize, beat: impl Fn(&Asked) -> Value + Send + Sync + 'static) -> Fake {
    let given = AtomicUsize::new(0);
    Fake::with([], move |asked| {
        if asked.what.contains("/workers/self") {
            return Says::Ok(json!({ "alive_for_ms": 60_000, "draining": false }));
        }
        if asked.what.contains("/carrying") {
            return Says::Ok(json!({ "assigned": [], "leased": [], "reserved": [] }));
        }
        if asked.what.ends_with("/renewals") {
            return Says::Ok(beat(asked));
        }
        match asked.what.rsplit('/').next().unwrap_or_default() {
            "next" => {
                let wanted = usize::try_from(asked.body["count"].as_u64().unwrap()).unwrap();
                let from = given.load(Ordering::SeqCst);
                let to = items.min(from + wanted);
                given.store(to, Ordering::SeqCst);
                let grants: Vec<Value> = (from..to).map(|at| grant(&format!("item-{at}"), at as u64 + 1)).collect();
                if !grants.is_empty() {
                    return Says::Ok(json!({ "outcome": "granted", "grants": grants }));
                }
                Says::Hangs
            }
            "renew" => Says::Ok(json!({
                "item": "item-0", "token": 1, "expires_in_ms": 30_000, "expires_at_ms": 1,
                "expires_at": "2026-01-01T00:00:00Z", "renew_after_ms": 10_000, "line_length": 0,
                "cancel_requested": false, "drain": false,
            })),
            "release" => Says::Ok(json!({ "item": "item-0", "released": true, "unassigned": true })),
            "complete" | "fail" => Says::Ok(json!({ "item": "item-0", "state": "complete", "revision": "0.9" })),
            _ => Says::Problem(Code::NotFound),
        }
    })
}

fn fine(_: &Asked) -> Value {
    json!({ "renewed": 1, "lost": [], "cancel_requested": [], "expires_in_ms": 30_000, "renew_after_ms": 10_000, "drain": false })
}

fn of<'l>(log: &'l [Asked], verb: &'l str) -> impl Iterator<Item = &'l Asked> {
    log.iter().filter(move |asked| asked.what.ends_with(verb))
}

#[tokio::test(start_paused = true)]
async fn results_of_work_are_reported() {
    let fake = node(4, fine);
    let shutdown = CancellationToken::new();
    let over = shutdown.clone();
    let worker = Worker::new(&fake.client(&["a"]), &queue()).concurrency(2);
    let stopped = worker.run_until(shutdown, move |job| {
        let over = over.clone();
        async move {
            match job.token().0 {
                1 => Ok(Some("done".into())),
                2 => Err(std::io::Error::other("try again"))?,
                3 => Err(JobFailure::last("never")),
                _ => {
                    over.cancel();
                    panic!("oh no")
                }
            }
        }
    });
    assert_eq!(stopped.await.unwrap(), Stopped::Shutdown);
    let log = fake.log();
    assert_eq!(of(&log, "item%2D0/complete").next().unwrap().body, json!({ "token": 1, "result": "done" }));
    let failed =
        |item: &str| log.iter().find(|asked| asked.what.ends_with(&format!("{item}/fail"))).unwrap().body.clone();
    assert_eq!(failed("item%2D1"), json!({ "token": 2, "error": "try again", "final": false }));
    assert_eq!(failed("item%2D2"), json!({ "token": 3, "error": "never", "final": true }));
    assert_eq!(failed("item%2D3"), json!({ "token": 4, "error": "the work panicked: oh no", "final": false }));
}

/// The result of the request can no longer be found out: what it may have been granted is released, and a new request
/// is sent.
#[tokio::test(start_paused = true)]
async fn item_requests_that_nodes_may_have_forgotten_are_given_up() {
    let slept = Arc::new(Mutex::new(None::<Fake>));
    let asked_before = AtomicUsize::new(0);
    let asleep = slept.clone();
    let fake = Fake::with([], move |asked| {
        let verb = asked.what.rsplit('/').next().unwrap_or_default();
        match verb.split('?').next().unwrap_or_default() {
            "self" => Says::Ok(json!({ "alive_for_ms": 60_000, "draining": false })),
            "next" if asked_before.fetch_add(1, Ordering::SeqCst) == 0 => {
                asleep.lock().unwrap().as_ref().unwrap().sleep_machine(Duration::from_secs(600));
                Says::Drops
            }
            "next" => Says::Ok(json!({ "outcome": "granted", "grants": [grant("item-1", 2)] })),
            "carrying" => {
                let date = "2026-01-01T00:00:00Z";
                let item = json!({
                    "id": "item-0", "queue": "ops", "state": "active", "revision": "0.1", "attempts": 0, "since_ms": 1,
                    "since": date, "claimed": true, "token": 1, "line_length": 0, "cancel_requested": false, "title": "",
                    "priority": 5, "labels": [], "needs": [], "mode": "any", "created_by": "ada", "created_at_ms": 1,
                    "created_at": date,
                });
                Says::Ok(json!({ "assigned": [], "leased": [item], "reserved": [] }))
            }
            "renewals" => Says::Ok(fine(asked)),
            "release" => Says::Ok(json!({ "item": "item-0", "released": true, "unassigned": true })),
            "complete" => Says::Ok(json!({ "item": "item-1", "state": "complete", "revision": "0.9" })),
            _ => Says::Problem(Code::NotFound),
        }
    });
    *slept.lock().unwrap() = Some(fake.clone());
    let shutdown = CancellationToken::new();
    let over = shutdown.clone();
    let worker = Worker::new(&fake.client(&["a"]), &queue());
    let stopped = worker.run_until(shutdown, move |_| {
        over.cancel();
        async { Ok(None) }
    });
    assert_eq!(stopped.await.unwrap(), Stopped::Shutdown);
    let log = fake.log();
    let asked: Vec<_> = of(&log, "/next").collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_ne!(asked[0].key, asked[1].key);
    assert!(asked.iter().all(|asked| asked.retry_ms.is_none()));
    assert_eq!(of(&log, "item%2D0/release").count(), 1, "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn one_heartbeat_renews_all_and_only_lost_work_is_stopped() {
    let fake = node(2, |asked| {
        let lost = if asked.after >= Duration::from_secs(50) { json!(["item-1"]) } else { json!([]) };
        json!({ "renewed": 2, "lost": lost, "cancel_requested": [], "expires_in_ms": 30_000, "renew_after_ms": 10_000, "drain": false })
    });
    let shutdown = CancellationToken::new();
    let over = shutdown.clone();
    let stopped_at = Arc::new(Mutex::new(Vec::new()));
    let log = stopped_at.clone();
    let worker = Worker::new(&fake.client(&["a"]), &queue()).concurrency(2);
    let began = Instant::now();
    let run = worker.run_until(shutdown, move |job| {
        let (over, log) = (over.clone(), log.clone());
        async move {
            if job.token().0 == 1 {
                sleep(Duration::from_secs(100)).await;
                over.cancel();
                return Ok(None);
            }
            let _guard = OnDrop(log, began);
            std::future::pending().await
        }
    });
    run.await.unwrap();
    assert_eq!(*stopped_at.lock().unwrap(), [50]);
    let log = fake.log();
    let beats: Vec<u64> = of(&log, "/renewals").map(|asked| asked.after.as_secs()).collect();
    assert_eq!(beats, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    assert_eq!(of(&log, "/renewals").next().unwrap().body["expected"].as_array().unwrap().len(), 2);
    assert_eq!(of(&log, "renew").count(), 0);
    assert_eq!(of(&log, "complete").count(), 1);
}

struct OnDrop(Arc<Mutex<Vec<u64>>>, Instant);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1.elapsed().as_secs());
    }
}

#[tokio::test(start_paused = true)]
async fn stalled_work_is_not_renewed_and_other_work_is() {
    let fake = node(2, fine);
    let shutdown = CancellationToken::new();
    let over = shutdown.clone();
    let worker = Worker::new(&fake.client(&["a"]), &queue()).concurrency(2).progress_within(Duration::from_secs(15));
    let stopped_at = Arc::new(Mutex::new(Vec::new()));
    let stopped = stopped_at.clone();
    let began = Instant::now();
    let run = worker.run_until(shutdown, move |job| {
        let (over, stopped) = (over.clone(), stopped.clone());
        async move {
            if job.token().0 == 2 {
                let _guard = OnDrop(stopped, began);
                return std::future::pending().await;
            }
            for _ in 0..12 {
                sleep(Duration::from_secs(10)).await;
                job.progress();
            }
            over.cancel();
            Ok(None)
        }
    });
    run.await.unwrap();
    let log = fake.log();
    // Renewed with the other lease at 10 s, stalled from 15 s, and stopped when its lease ends.
    assert_eq!(*stopped_at.lock().unwrap(), [39]);
    assert_eq!(of(&log, "complete").count(), 1);
    let alone: Vec<&str> = of(&log, "renew").map(|asked| asked.what.as_str()).collect();
    assert!(!alone.is_empty() && alone.iter().all(|what| what.contains("item%2D0")), "{alone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopping_worker_takes_nothing_and_releases_unfinished_items() {
    let fake = node(2, fine);
    let shutdown = CancellationToken::new();
    let worker = Worker::new(&fake.client(&["a"]), &queue()).concurrency(3).drain_within(Duration::from_secs(20));
    let client = worker.client.clone();
    let run = worker.run_until(shutdown.clone(), |job| async move {
        let for_ever = job.token().0 == 2;
        sleep(Duration::from_secs(if for_ever { 1_000_000 } else { 15 })).await;
        Ok(None)
    });
    let told = async {
        sleep(Duration::from_secs(5)).await;
        shutdown.cancel();
        std::future::pending::<()>().await;
    };
    let stopped = tokio::select! {
        stopped = run => stopped,
        () = told => unreachable!(),
    };
    assert_eq!(stopped.unwrap(), Stopped::Shutdown);
    client.settled().await;
    let log = fake.log();
    let at = |verb: &str| of(&log, verb).map(|asked| asked.after.as_secs()).collect::<Vec<_>>();
    assert_eq!((at("item%2D0/complete"), at("item%2D1/release")), (vec![15], vec![25]));
    // The grants of the open request are looked up, and the request is not sent again.
    assert_eq!(of(&log, "/next").last().unwrap().after, Duration::ZERO);
    let looked = log.iter().find(|asked| asked.what.contains("/v1/carrying")).unwrap();
    assert_eq!(looked.after.as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_drained_worker_stops() {
    let fake = node(
        1,
        |_| json!({ "renewed": 1, "lost": [], "cancel_requested": [], "expires_in_ms": 30_000, "renew_after_ms": 10_000, "drain": true }),
    );
    let worker = Worker::new(&fake.client(&["a"]), &queue()).concurrency(2);
    let run = worker.run_until(CancellationToken::new(), |_| async move {
        sleep(Duration::from_secs(12)).await;
        Ok(None)
    });
    assert_eq!(run.await.unwrap(), Stopped::Drained);
    assert_eq!(of(&fake.log(), "complete").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_worker_returns_the_refusal() {
    let fake = Fake::new([Says::Problem(Code::Forbidden)]);
    let worker = Worker::new(&fake.client(&["a"]), &queue());
    let error = worker.run_until(CancellationToken::new(), |_| async { Ok(None) }).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Forbidden));
}

#[tokio::test(start_paused = true)]
async fn a_worker_may_start_before_its_nodes() {
    let later = node(1, fine);
    let fake = Fake::with(
        [],
        move |asked| {
            if asked.after < Duration::from_secs(300) { Says::Refuses } else { later.says(asked) }
        },
    );
    let shutdown = CancellationToken::new();
    let over = shutdown.clone();
    let worker = Worker::new(&fake.client(&["a"]), &queue());
    let run = worker.run_until(shutdown, move |_| {
        over.cancel();
        async { Ok(None) }
    });
    assert_eq!(run.await.unwrap(), Stopped::Shutdown);
    assert_eq!(of(&fake.log(), "complete").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn leases_that_expired_only_locally_are_released_and_never_renewed() {
    let fake = node(2, fine);
    let shutdown = CancellationToken::new();
    let over = shutdown.clone();
    let worker = Worker::new(&fake.client(&["a"]), &queue());
    let machine = fake.clone();
    let run = worker.run_until(shutdown, move |job| {
        let (over, machine) = (over.clone(), machine.clone());
        async move {
            if job.token().0 == 1 {
                sleep(Duration::from_secs(5)).await;
                machine.sleep_machine(Duration::from_secs(3_600));
                return std::future::pending().await;
            }
            sleep(Duration::from_secs(25)).await;
            over.cancel();
            Ok(None)
        }
    });
    run.await.unwrap();
    let log = fake.log();
    let of_first = |asked: &&Asked| asked.body["token"] == 1 && asked.what.ends_with("item%2D0/release");
    let released = log.iter().position(|asked| of_first(&asked)).expect("it was released");
    let renewed = log.iter().position(|asked| asked.what.ends_with("/renewals")).expect("the other was renewed");
    assert!(released < renewed, "{log:?}");
    assert_eq!(of(&log, "item%2D1/complete").count(), 1);
}
