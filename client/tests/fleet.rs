//! A fleet of workers in one process against three nodes whose leader is killed again and again. Every item is done
//! once, as seen by the guarded resource, and none is lost.
//!
//! By default a hundred workers and two kills; `FLEET_WORKERS` and `FLEET_SECONDS` change that. `./x fleet` runs a
//! thousand workers for five minutes.

use client::api::item::{NewItem, NewItems};
use client::api::words::ItemState;
use client::{Client, Job, JobFailure, Stopped, Worker};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use test_support::cluster::Cluster;
use test_support::daemon::{item, queue};
use test_support::until::until_within;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// A node lets one actor have a thousand waiting calls.
const ACTORS: usize = 10;
const ITEMS_AT_ONCE: u64 = 20;
/// The minimum number of kills, for a run of any length.
const KILLS_MIN: usize = 2;
/// How long a killed node stays down.
const DOWN_FOR: Duration = Duration::from_secs(5);
/// Longer than any election here, so that no lease expires while a worker renews it.
const LEASE: Duration = Duration::from_secs(60);
/// The time limit, for a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The size and duration of the run, and the number of kills.
struct Size {
    workers: usize,
    lasts: Duration,
    between_kills: Duration,
}

impl Size {
    fn asked() -> Self {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
        let workers = number("FLEET_WORKERS").unwrap_or(100);
        let workers = usize::try_from(workers).unwrap();
        match number("FLEET_SECONDS") {
            Some(seconds) => {
                let lasts = Duration::from_secs(seconds);
                Self { workers, lasts, between_kills: (lasts / 2).min(Duration::from_secs(20)) }
            }
            None => Self { workers, lasts: Duration::from_secs(14), between_kills: Duration::from_secs(7) },
        }
    }
}

/// The resource: rejects writes with an older token than it has seen, and counts the accepted ones.
#[derive(Default)]
struct Resource {
    writes: Mutex<BTreeMap<String, (u64, u32)>>,
    fenced: AtomicU64,
}

impl Resource {
    fn write(&self, item: &str, token: u64) -> Result<(), JobFailure> {
        let mut writes = self.writes.lock().unwrap();
        let (newest, count) = writes.entry(item.to_owned()).or_default();
        if token < *newest {
            self.fenced.fetch_add(1, Ordering::Relaxed);
            return Err(JobFailure::last("an older token"));
        }
        *newest = token;
        *count += 1;
        Ok(())
    }

    fn len(&self) -> usize {
        self.writes.lock().unwrap().len()
    }
}

fn new_item(number: u64) -> NewItem {
    NewItem::new(item(&format!("i-{number}")), queue())
}

/// Adds items until the run is over and returns their number. Retries each batch until it is added.
async fn produce(client: Client, is_over: Arc<AtomicBool>) -> u64 {
    let mut added = 0;
    while !is_over.load(Ordering::Relaxed) {
        let items = NewItems { items: (added..added + ITEMS_AT_ONCE).map(new_item).collect() };
        if client.create_many(&items).await.is_ok() {
            added += ITEMS_AT_ONCE;
            sleep(Duration::from_millis(300)).await;
        }
    }
    added
}

fn hire(
    clients: &[Client],
    workers: usize,
    resource: &Arc<Resource>,
    shutdown: &CancellationToken,
) -> Vec<JoinHandle<Result<Stopped, client::Error>>> {
    let hired = (0..workers).map(|number| {
        let resource = resource.clone();
        let worker = Worker::new(&clients[number % ACTORS], &queue()).lease_for(LEASE);
        let work = move |job: Job| {
            let resource = resource.clone();
            async move {
                // The work takes a different time for each item.
                sleep(Duration::from_millis(job.token().0.wrapping_mul(7_919) % 3_000)).await;
                resource.write(job.item().as_str(), job.token().0)?;
                Ok::<_, JobFailure>(None)
            }
        };
        tokio::spawn(worker.run_until(shutdown.clone(), work))
    });
    hired.collect()
}

/// Kills the leader again and again, and returns the number of kills.
async fn kill_leaders(cluster: &mut Cluster, operator: &Client, resource: &Resource, size: &Size) -> usize {
    let (began, mut kills) = (Instant::now(), 0);
    while began.elapsed() < size.lasts || kills < KILLS_MIN {
        sleep(size.between_kills.saturating_sub(DOWN_FOR)).await;
        let mut leader = None;
        until_within(LIMIT, "somebody leads", async || {
            leader = operator.cluster().await.ok().and_then(|status| status.leader);
            leader.is_some()
        })
        .await;
        let leader = usize::try_from(leader.unwrap() - 1).unwrap();
        cluster.check_alive();
        cluster.kill(leader);
        kills += 1;
        sleep(DOWN_FOR).await;
        cluster.launch(leader);
        eprintln!("{} s: {kills} leaders killed, {} items written", began.elapsed().as_secs(), resource.len());
    }
    kills
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_of_workers_does_everything_once_while_leaders_are_killed() {
    let size = Size::asked();
    let actors: Vec<String> = (0..ACTORS).map(|number| format!("actor-{number}")).collect();
    let mut cluster = Cluster::start_for(&actors).await;
    let clients: Vec<Client> = actors.iter().map(|actor| cluster.client(actor)).collect();
    let operator = clients[0].clone();
    let (resource, shutdown) = (Arc::new(Resource::default()), CancellationToken::new());
    let is_over = Arc::new(AtomicBool::new(false));
    let producer = tokio::spawn(produce(clients[1].clone(), is_over.clone()));
    until_within(LIMIT, "there is something to do", async || {
        operator.space().await.is_ok_and(|space| space.created > 0)
    })
    .await;
    let workers = hire(&clients, size.workers, &resource, &shutdown);

    let kills = kill_leaders(&mut cluster, &operator, &resource, &size).await;
    is_over.store(true, Ordering::Relaxed);
    let added = producer.await.unwrap();
    until_within(LIMIT, "nothing is left to do", async || operator.space().await.is_ok_and(|space| space.live == 0))
        .await;
    shutdown.cancel();
    for worker in workers {
        assert_eq!(worker.await.unwrap().unwrap(), Stopped::Shutdown);
    }

    let space = operator.space().await.unwrap();
    assert_eq!((space.created, space.terminal), (added, added), "{space:?}");
    let writes = resource.writes.lock().unwrap().clone();
    let twice: Vec<_> = writes.iter().filter(|(_, (_, count))| *count != 1).collect();
    assert!(twice.is_empty(), "written more than once: {twice:?}");
    assert_eq!(u64::try_from(writes.len()).unwrap(), added, "lost");
    let last = operator.item(&item(&format!("i-{}", added - 1))).await.unwrap();
    assert_eq!(last.state, ItemState::Complete);
    let fenced = resource.fenced.load(Ordering::Relaxed);
    eprintln!("{} workers, {added} items, {kills} leaders killed, {fenced} late writes fenced", size.workers);
}
