//! Items are created, granted by `next`, written to the guarded resource and completed; some fail, some leases expire,
//! some items are completed too late. One queue has caps. At the end everything is drained.

use super::Ground;
use crate::caller::{Caller, Held, No};
use api::queue::{Backoff, PolicyChange};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shared by all workers of a queue.
#[derive(Debug)]
struct Belt {
    queue: String,
    created: AtomicU64,
    ended: AtomicU64,
    /// The maximum number of items that wait in the queue.
    backlog: u64,
}

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let backoff = Some(Backoff { first_ms: 100, factor_percent: 200, max_ms: 1_000 });
    let capped = PolicyChange {
        concurrency: Some((ground.size.callers / 2).max(4)),
        max_leases: Some(3),
        backoff,
        ..PolicyChange::default()
    };
    let open = PolicyChange { backoff, ..PolicyChange::default() };
    for (name, policy) in [("capped", capped), ("open", open)] {
        let queue = format!("{}-{name}", ground.name);
        ground.set_queue(&queue, policy, true).await?;
        let backlog = u64::from(ground.size.items / 2);
        let belt = Belt { queue, created: AtomicU64::new(0), ended: AtomicU64::new(0), backlog };
        let belt = Arc::new(belt);
        for _ in 0..(ground.size.callers / 2).max(1) {
            let (mut caller, belt) = (ground.caller()?, belt.clone());
            ground.spawn(async move {
                while caller.goes_on() {
                    turn(&mut caller, &belt).await;
                }
            });
        }
    }
    Ok(())
}

async fn turn(caller: &mut Caller, belt: &Belt) {
    for _ in 0..caller.dice.below(4) {
        if belt.created.load(Ordering::Relaxed) >= belt.ended.load(Ordering::Relaxed) + belt.backlog {
            break;
        }
        let nth = belt.created.fetch_add(1, Ordering::Relaxed);
        let item = format!("{}-{nth}", belt.queue);
        let created = match caller.create(&item, &belt.queue).await {
            Err(No::Unknown(id)) if caller.dice.chance(70) => caller.under(&id, true).create(&item, &belt.queue).await,
            other => other,
        };
        if created.is_err() {
            belt.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
    if caller.dice.chance(5) {
        by_name(caller, belt).await;
    }
    let count = 1 + u32::try_from(caller.dice.below(5)).unwrap_or(0);
    let granted = match caller.next(&belt.queue, count, None).await {
        Err(No::Unknown(id)) if caller.dice.chance(60) => caller.under(&id, true).next(&belt.queue, count, None).await,
        other => other,
    };
    let granted = granted.unwrap_or_default();
    if granted.is_empty() {
        caller.rest_ms(2, 30).await;
        return;
    }
    for held in granted {
        if !caller.goes_on() || !work(caller, belt, held).await {
            return;
        }
    }
}

/// Claims one of the newest items by name, ahead of the others: the caps apply here, too.
async fn by_name(caller: &mut Caller, belt: &Belt) {
    let (ended, created) = (belt.ended.load(Ordering::Relaxed), belt.created.load(Ordering::Relaxed));
    let nth = created.saturating_sub(1 + caller.dice.below(created.saturating_sub(ended).clamp(1, 20)));
    if let Ok(held) = caller.claim(&format!("{}-{nth}", belt.queue), None).await {
        work(caller, belt, held).await;
    }
}

/// Returns false if the worker died with everything it held.
async fn work(caller: &mut Caller, belt: &Belt, mut held: Held) -> bool {
    let fate = caller.dice.below(100);
    if fate < 3 {
        caller.world().recorder.lapsed(1);
        let is_dead = caller.dice.chance(30);
        if is_dead {
            caller.reborn();
        }
        return !is_dead;
    }
    caller.write(&held);
    if caller.dice.chance(10) && matches!(caller.renew(&mut held).await, Err(No::Refused(_))) {
        return true;
    }
    if fate < 5 {
        caller.sleep_past(&held, 1_000).await;
    } else if fate < 12 {
        let _ = caller.fail(&held.item, held.token).await;
        return true;
    } else if fate < 15 {
        let _ = caller.release(&held.item, held.token).await;
        return true;
    }
    let done = match caller.complete(&held.item, held.token).await {
        Err(No::Unknown(id)) => caller.under(&id, true).complete(&held.item, held.token).await,
        other => other,
    };
    if matches!(done, Ok(()) | Err(No::Unknown(_))) {
        belt.ended.fetch_add(1, Ordering::Relaxed);
    }
    true
}

/// Claims, writes and completes until nothing is left. Returns the number of completed items.
pub(super) async fn drain(caller: &mut Caller, queue: &str) -> u64 {
    let mut completed = 0;
    loop {
        let granted = caller.next(queue, 10, None).await.unwrap_or_default();
        if granted.is_empty() {
            return completed;
        }
        for held in granted {
            caller.write(&held);
            completed += u64::from(caller.complete(&held.item, held.token).await.is_ok());
        }
    }
}
