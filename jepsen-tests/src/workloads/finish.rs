//! The end of a run: checks that the cluster serves again, stops callers, drains queues, lets leases expire; then reads
//! everything.

use super::{Running, dispatch};
use crate::caller::{Caller, calls};
use crate::dice::Dice;
use crate::history::{About, End, History, Micros, SeenItem};
use crate::world::{OPERATOR, World};
use api::Code;
use api::cluster::{ClusterStatus, MemberStatus};
use api::hold::RenewAll;
use api::words::ItemState;
use client::names::{ItemId, QueueName};
use client::{Client, ItemsQuery, PageQuery, StreamQuery};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The queue for checking the service.
const PROBE: &str = "probe";
/// How long to wait for the service before giving up.
const SERVED_WITHIN: Duration = Duration::from_secs(90);
const DRAINED_WITHIN: Duration = Duration::from_secs(120);
/// Longer than any lease or place in a line lasts.
const LAPSED_WITHIN: Duration = Duration::from_secs(60);
const HASHED_WITHIN: Duration = Duration::from_secs(60);
/// The time for one attempt.
const TRY: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(100);
const DRAINERS: usize = 4;
const READERS: usize = 32;
const PAGE: usize = 1_000;

/// The result of a run.
#[derive(Debug)]
pub struct Finished {
    /// Without the nemesis's data (faults, leaders, exits of nodes). Without an end if there was trouble.
    pub history: History,
    /// When the cluster was seen to serve again.
    pub served: Option<Micros>,
    /// Why the final state could not be read.
    pub trouble: Option<String>,
}

impl Running {
    /// Ends the run after `healed`, reads the final state, and returns the history.
    pub async fn finish(self, healed: Micros, say: impl Fn(&str)) -> Finished {
        let world = self.world.clone();
        let served = match timeout(SERVED_WITHIN, served(&world, self.seed)).await {
            Ok(served) => served.ok(),
            Err(_) => None,
        };
        say(if served.is_some() { "the cluster serves again" } else { "the cluster does not serve" });
        self.stop().await;
        say("callers have ended");
        let looked = at_the_end(&world, self.seed, &say).await;
        self.watched().await;
        let mut history = world.recorder.take();
        history.about = About {
            seed: self.seed,
            workload: self.workload.name().to_owned(),
            queues: world.queues(),
            ..About::default()
        };
        match looked {
            Ok(end) => {
                history.end = Some(End { healed, served, ..end });
                Finished { history, served, trouble: None }
            }
            Err(why) => Finished { history, served, trouble: Some(why) },
        }
    }
}

async fn at_the_end(world: &Arc<World>, seed: u64, say: &impl Fn(&str)) -> Result<End, String> {
    drain(world, seed).await?;
    say("queues are drained");
    lapsed(world).await?;
    say("leases have ended");
    let end = look(world).await?;
    say("final state is read");
    Ok(end)
}

fn operator(world: &Arc<World>, seed: u64, part: &str) -> Result<Caller, String> {
    Caller::new(world, OPERATOR, Dice::of(seed, part), &CancellationToken::new())
}

/// When a write, a read and a watcher had all succeeded.
async fn served(world: &Arc<World>, seed: u64) -> Result<Micros, String> {
    let mut caller = operator(world, seed, "served")?;
    let client = world.operator()?;
    let queue = QueueName::new(PROBE).map_err(|bad| bad.to_string())?;
    let query = StreamQuery { queue: Some(queue), ..StreamQuery::default() };
    let mut nth = 0;
    loop {
        let item = format!("{PROBE}-{}", world.value());
        // From now on: searching all events of an hour for it takes longer than an attempt.
        let watch = timeout(TRY, client.watch(&query)).await;
        let is_served = caller.hasty(TRY).create(&item, PROBE).await.is_ok()
            && caller.hasty(TRY).read(&item).await.is_ok()
            && match watch {
                Ok(Ok(mut watch)) => matches!(timeout(TRY, watch.next()).await, Ok(Some(Ok(_)))),
                _ => false,
            };
        if is_served {
            return Ok(world.clock.now());
        }
        nth += 1;
        sleep(AGAIN * nth.min(5)).await;
    }
}

/// Completes all items in the queues.
async fn drain(world: &Arc<World>, seed: u64) -> Result<(), String> {
    let client = world.operator()?;
    let mut draining = JoinSet::new();
    for queue in world.to_drain() {
        let name = QueueName::new(&queue).map_err(|bad| bad.to_string())?;
        for (nth, actor) in world.actors().into_iter().enumerate().take(DRAINERS) {
            let dice = Dice::of(seed, &format!("drain/{queue}/{nth}"));
            let mut caller = Caller::new(world, &actor, dice, &CancellationToken::new())?;
            let (queue, name, client) = (queue.clone(), name.clone(), client.clone());
            let by = Instant::now() + DRAINED_WITHIN;
            draining.spawn(async move {
                while Instant::now() < by {
                    dispatch::drain(&mut caller, &queue).await;
                    match client.queue(&name).await {
                        Ok(queue) if queue.by_state.values().sum::<u64>() == 0 => return,
                        Ok(_) | Err(_) => sleep(AGAIN).await,
                    }
                }
            });
        }
    }
    while draining.join_next().await.is_some() {}
    Ok(())
}

/// Waits until no item is held and no claim waits.
async fn lapsed(world: &Arc<World>) -> Result<(), String> {
    let client = world.operator()?;
    let by = Instant::now() + LAPSED_WITHIN;
    while Instant::now() < by {
        let page = client.queues(&PageQuery { limit: Some(PAGE), ..PageQuery::default() }).await;
        if page.is_ok_and(|page| page.queues.iter().all(|queue| queue.leases == 0 && queue.items_with_line == 0)) {
            break;
        }
        sleep(AGAIN).await;
    }
    Ok(())
}

async fn look(world: &Arc<World>) -> Result<End, String> {
    let client = world.operator()?;
    let items = items(world, &client).await?;
    let space = client.space().await.map_err(|error| format!("the space: {error}"))?;
    let hashes = hashes(&client).await?;
    Ok(End {
        items: items.into_iter().collect(),
        created: space.created,
        live: space.live,
        terminal: space.terminal,
        purged: space.purged,
        hashes,
        ..End::default()
    })
}

/// Every item, with the value of those that have one.
///
/// # Errors
/// When they cannot be read.
pub async fn items(world: &Arc<World>, client: &Client) -> Result<BTreeMap<String, SeenItem>, String> {
    let mut items = BTreeMap::new();
    for state in [None, Some(ItemState::Complete), Some(ItemState::Error), Some(ItemState::Cancelled)] {
        list(client, state, &mut items).await?;
    }
    values(world, client, &mut items).await?;
    Ok(items)
}

/// Every item in that state, or of all live states.
async fn list(client: &Client, state: Option<ItemState>, items: &mut BTreeMap<String, SeenItem>) -> Result<(), String> {
    let mut cursor = None;
    loop {
        let query = ItemsQuery { state, cursor, limit: Some(PAGE), ..ItemsQuery::default() };
        let page = client.items(&query).await.map_err(|error| format!("the items: {error}"))?;
        items.extend(page.items.iter().map(|item| (item.id.to_string(), calls::seen_item(item))));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// The items with a value, with their values.
async fn values(world: &Arc<World>, client: &Client, items: &mut BTreeMap<String, SeenItem>) -> Result<(), String> {
    let with_value: Vec<_> = world.items().into_iter().filter_map(|(item, has)| has.then_some(item)).collect();
    let mut reading = JoinSet::new();
    for nth in 0..READERS {
        let mine: Vec<_> = with_value.iter().skip(nth).step_by(READERS).cloned().collect();
        let client = client.clone();
        reading.spawn(async move {
            let mut seen = Vec::new();
            for item in mine {
                let id = ItemId::new(&item).map_err(|bad| bad.to_string())?;
                match client.item(&id).await {
                    Ok(found) => seen.push((item, calls::seen_item(&found))),
                    // A missing item gets no value: a checker compares it with what was acknowledged.
                    Err(error) if error.code() == Some(Code::NotFound) => {}
                    Err(error) => return Err(format!("{item}: {error}")),
                }
            }
            Ok(seen)
        });
    }
    while let Some(seen) = reading.join_next().await {
        items.extend(seen.map_err(|error| error.to_string())??);
    }
    Ok(())
}

/// The hashes of all members at an entry after everything that the run did. Nodes keep one at every 1,024th entry:
/// entries without an effect fill up to the next.
async fn hashes(client: &Client) -> Result<Vec<(u32, u64, String)>, String> {
    let applied = |status: &ClusterStatus| {
        let reports = status.members.iter().filter_map(|member| member.report.as_ref());
        reports.filter_map(|report| report.applied).max().unwrap_or(0)
    };
    let first = client.cluster().await.map_err(|error| format!("the cluster: {error}"))?;
    let behind = applied(&first);
    let by = Instant::now() + HASHED_WITHIN;
    loop {
        for _ in 0..64 {
            let _ = client.renew_all(&RenewAll::default()).await;
        }
        let status = client.cluster().await.map_err(|error| format!("the cluster: {error}"))?;
        let hash = |member: &MemberStatus| member.report.as_ref().and_then(|report| report.hash.clone());
        let is_whole = status.members.iter().all(|member| hash(member).is_some());
        if (status.hashes_at >= Some(behind) && is_whole) || Instant::now() >= by {
            let at = status.hashes_at.unwrap_or(0);
            let said = |member: &MemberStatus| Some((u32::try_from(member.id).ok()?, at, hash(member)?));
            return Ok(status.members.iter().filter_map(said).collect());
        }
    }
}
