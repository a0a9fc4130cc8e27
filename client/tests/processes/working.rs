//! A worker whose node is killed at each step of its loop.

use client::api::event::Event;
use client::api::words::ItemState;
use client::{Client, EventsQuery, Job, JobFailure, Stopped, Worker};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use test_support::daemon::{Daemon, client_at, create, queue};
use test_support::proxy::{Fate, Proxy};
use test_support::until;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const LEASE: Duration = Duration::from_secs(15);

/// A worker whose work waits until the test lets it end.
struct Bench {
    shutdown: CancellationToken,
    running: JoinHandle<Result<Stopped, client::Error>>,
    begun: Arc<Mutex<Vec<String>>>,
    go: Arc<Semaphore>,
}

fn work(client: &Client) -> Bench {
    let (shutdown, begun, go) =
        (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)));
    let (log, gate) = (begun.clone(), go.clone());
    let worker = Worker::new(client, &queue()).lease_for(LEASE);
    let running = worker.run_until(shutdown.clone(), move |job: Job| {
        let (log, gate) = (log.clone(), gate.clone());
        async move {
            log.lock().unwrap().push(job.item().to_string());
            gate.acquire().await?.forget();
            Ok::<_, JobFailure>(Some("done".into()))
        }
    });
    Bench { shutdown, running: tokio::spawn(running), begun, go }
}

impl Bench {
    async fn has_begun(&self, times: usize) {
        until("the work began", async || self.begun.lock().unwrap().len() >= times).await;
    }

    async fn end(self) {
        self.shutdown.cancel();
        assert_eq!(self.running.await.unwrap().unwrap(), Stopped::Shutdown);
    }
}

async fn is_complete(client: &Client, name: &str) {
    let id = test_support::daemon::item(name);
    until("it is complete", async || client.item(&id).await.is_ok_and(|item| item.state == ItemState::Complete)).await;
}

/// Checks that each item was granted and completed once, although the node was killed.
async fn was_done_once(client: &Client, names: &[&str]) {
    let events = client.events(&EventsQuery { limit: Some(1_000), ..EventsQuery::default() }).await.unwrap().events;
    for name in names {
        for kind in ["granted", "completed"] {
            let of_item = |event: &&Event| event.item.as_ref().is_some_and(|id| id.as_str() == *name);
            let count = events.iter().filter(of_item).filter(|event| event.kind == kind).count();
            assert_eq!(count, 1, "{name} was {kind} {count} times");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_continues_wherever_its_node_was_killed() {
    let mut daemon = Daemon::start().await;
    let operator = daemon.client("operator");
    let bench = work(&daemon.client("ada"));

    // Killed while the worker waits for an item.
    let registered = async || !operator.workers(&client::PageQuery::default()).await.unwrap().workers.is_empty();
    until("it is there", registered).await;
    daemon.kill();
    daemon.again().await;
    create(&operator, "waiting").await;
    bench.has_begun(1).await;
    bench.go.add_permits(1);
    is_complete(&operator, "waiting").await;

    // Killed while it works, for long enough that a heartbeat fails.
    create(&operator, "working").await;
    bench.has_begun(2).await;
    daemon.kill();
    sleep(LEASE / 3 + Duration::from_secs(1)).await;
    daemon.again().await;
    bench.go.add_permits(1);
    is_complete(&operator, "working").await;

    // Killed when the worker has a result to report.
    create(&operator, "telling").await;
    bench.has_begun(3).await;
    daemon.kill();
    bench.go.add_permits(1);
    sleep(Duration::from_millis(500)).await;
    daemon.again().await;
    is_complete(&operator, "telling").await;

    was_done_once(&operator, &["waiting", "working", "telling"]).await;
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_continues_after_its_node_was_killed_before_answering() {
    let mut daemon = Daemon::start().await;
    let operator = daemon.client("operator");
    for (verb, name) in [("/next", "granting"), ("/complete", "completing"), ("/renewals", "renewing")] {
        create(&operator, name).await;
        let armed = Mutex::new(true);
        let proxy = Proxy::start(daemon.address, move |first| {
            let is_hit = first.contains(verb) && std::mem::take(&mut *armed.lock().unwrap());
            if is_hit { Fate::LosesItsAnswer } else { Fate::Passes }
        })
        .await;
        let bench = work(&client_at(proxy.address, &format!("worker-{name}")));
        if verb != "/renewals" {
            bench.go.add_permits(1);
        }
        until("an answer was lost", async || proxy.requests().iter().any(|(_, fate)| *fate == Fate::LosesItsAnswer))
            .await;
        // The request arrived, its answer is lost, and now the node is killed as well.
        daemon.kill();
        daemon.again().await;
        bench.go.add_permits(1);
        is_complete(&operator, name).await;
        bench.end().await;
    }
    was_done_once(&operator, &["completing", "renewing"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_of_panicking_or_failing_work_are_retried_by_policy() {
    use client::api::queue::{Backoff, PolicyChange};
    let daemon = Daemon::start().await;
    let operator = daemon.client("operator");
    create(&operator, "flaky").await;
    let backoff = Some(Backoff { first_ms: 1, factor_percent: 100, max_ms: 1 });
    operator.set_policy(&queue(), &PolicyChange { backoff, ..PolicyChange::default() }).await.unwrap();
    let shutdown = CancellationToken::new();
    let worker = Worker::new(&daemon.client("ada"), &queue());
    let tries = Arc::new(Mutex::new(0));
    let count = tries.clone();
    let run = tokio::spawn(worker.run_until(shutdown.clone(), move |_| {
        let count = count.clone();
        async move {
            let tries = {
                let mut count = count.lock().unwrap();
                *count += 1;
                *count
            };
            match tries {
                1 => panic!("the first time"),
                2 => Err(JobFailure::retry("the second time")),
                _ => Ok(None),
            }
        }
    }));
    is_complete(&operator, "flaky").await;
    assert_eq!(*tries.lock().unwrap(), 3);
    shutdown.cancel();
    run.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_grants_are_released_when_a_worker_stops() {
    let daemon = Daemon::start().await;
    let operator = daemon.client("operator");
    create(&operator, "unknown").await;
    let silent = |first: &str| if first.contains("/next") { Fate::IsNotAnswered } else { Fate::Passes };
    let proxy = Proxy::start(daemon.address, silent).await;
    let client = client_at(proxy.address, "ada");
    let bench = work(&client);
    let id = test_support::daemon::item("unknown");
    until("it was granted", async || operator.item(&id).await.unwrap().claimed).await;
    assert!(bench.begun.lock().unwrap().is_empty());
    bench.end().await;
    client.settled().await;
    assert_eq!(operator.item(&id).await.unwrap().state, ItemState::Queued);
}
