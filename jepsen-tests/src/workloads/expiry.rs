//! Holders that stop renewing, and contenders that keep trying, so that both bounds can be measured: how early another
//! one gets the item, and how late. In addition some thousand leases that expire at once, and as many that a heartbeat
//! keeps.

use super::Ground;
use crate::caller::{Caller, Held};
use api::queue::PolicyChange;
use std::time::Duration;

/// The maximum number of items that one `next` grants.
const AT_ONCE: u32 = 100;
/// The leases that expire at once, for each caller of the workload.
const MASS: u32 = 96;
const MASS_MAX: u32 = 4_000;
/// How long a heartbeat keeps a mass of leases.
const BEATS: u64 = 4;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let delayed = PolicyChange { lock_delay_ms: Some(500), ..PolicyChange::default() };
    let kinds = [("free", PolicyChange::default()), ("delayed", delayed)];
    let lease_ms = ground.size.lease_ms();
    for (name, policy) in kinds {
        let queue = format!("{}-{name}", ground.name);
        ground.set_queue(&queue, policy, false).await?;
        let items = ground.make_items(&queue, (ground.size.items / 2).max(1)).await?;
        for _ in 0..(ground.size.callers / 2).max(2) {
            let (mut caller, items) = (ground.caller()?, items.clone());
            ground.spawn(async move {
                while caller.goes_on() {
                    let item = caller.dice.pick(&items).clone();
                    contend(&mut caller, &item, lease_ms).await;
                }
            });
        }
    }
    let queue = format!("{}-mass", ground.name);
    ground.set_queue(&queue, PolicyChange::default(), false).await?;
    let mass = (MASS * ground.size.callers).min(MASS_MAX);
    ground.make_items(&queue, mass).await?;
    // One holder stops with all its leases, another one continues its heartbeat.
    for beats in [0, BEATS] {
        let (mut caller, queue) = (ground.caller()?, queue.clone());
        ground.spawn(async move {
            while caller.goes_on() {
                hold_many(&mut caller, &queue, mass / 2, lease_ms, beats).await;
            }
        });
    }
    Ok(())
}

/// Claims until it is granted, holds the lease for a while, and stops renewing.
async fn contend(caller: &mut Caller, item: &str, lease_ms: u64) {
    let lease = 1_000 + caller.dice.below(lease_ms);
    let mut held = loop {
        if !caller.goes_on() {
            return;
        }
        match caller.claim(item, Some(lease)).await {
            Ok(held) => break held,
            Err(_) => caller.rest_ms(2, 20).await,
        }
    };
    for _ in 0..caller.dice.below(3) {
        caller.rest(Duration::from_millis(lease / 3)).await;
        let went_on =
            if caller.dice.chance(25) { caller.extend(&mut held, 500).await } else { caller.renew(&mut held).await };
        if went_on.is_err() || !caller.goes_on() {
            break;
        }
    }
    if caller.dice.chance(50) {
        // It sleeps until its lease is over, and tries to extend it when it wakes up.
        caller.sleep_past(&held, 400).await;
        let _ = caller.renew(&mut held).await;
    } else {
        caller.world().recorder.lapsed(1);
        caller.reborn();
    }
}

async fn hold_many(caller: &mut Caller, queue: &str, count: u32, lease_ms: u64, beats: u64) {
    let mut held: Vec<Held> = Vec::new();
    while held.len() < count as usize && caller.goes_on() {
        let left = count - u32::try_from(held.len()).unwrap_or(count);
        match caller.next(queue, AT_ONCE.min(left), Some(lease_ms * 2)).await {
            Ok(granted) if granted.is_empty() => break,
            Ok(granted) => held.extend(granted),
            Err(_) => caller.rest_ms(20, 100).await,
        }
    }
    for _ in 0..beats {
        caller.rest(Duration::from_millis(lease_ms / 2)).await;
        if !caller.goes_on() {
            return;
        }
        if let Ok(lost) = caller.renew_all(&held).await {
            held.retain(|held| !lost.contains(&held.item));
        }
    }
    caller.world().recorder.lapsed(held.len() as u64);
    caller.reborn();
    caller.rest(Duration::from_millis(lease_ms * 2 + 500)).await;
}
