//! Calls of `next` that wait for an item, in queues with a lock delay. Each queue has one item: its holder lets the
//! lease expire, and another, waiting worker must be answered soon after the delay.

use super::Ground;
use crate::caller::Caller;
use api::claim::Next;
use api::queue::PolicyChange;

const DELAY_MS: u64 = 1_500;
const LEASE_MS: u64 = 1_000;
const WAIT_MS: (u64, u64) = (12_000, 20_000);
/// A worker that let the lease expire waits for this long: until then only the waiting workers can get the item.
const AWAY_MS: (u64, u64) = (9_000, 12_000);
const WORKERS: u32 = 2;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    for nth in 0..(ground.size.callers / WORKERS).max(1) {
        let queue = format!("{}-{nth}", ground.name);
        // Every other queue has no delay: there only the expiry wakes the waiting workers.
        let delay = if nth % 2 == 0 { DELAY_MS } else { 0 };
        ground.set_queue(&queue, PolicyChange { lock_delay_ms: Some(delay), ..PolicyChange::default() }, false).await?;
        ground.make_items(&queue, 1).await?;
        for _ in 0..WORKERS {
            let (mut caller, queue) = (ground.caller()?, queue.clone());
            ground.spawn(async move {
                while caller.goes_on() {
                    turn(&mut caller, &queue).await;
                }
            });
        }
    }
    Ok(())
}

async fn turn(caller: &mut Caller, queue: &str) {
    let wait_ms = WAIT_MS.0 + caller.dice.below(WAIT_MS.1 - WAIT_MS.0);
    let next = Next { count: Some(1), lease_for_ms: Some(LEASE_MS), wait_ms: Some(wait_ms), ..Next::default() };
    match caller.next_with(queue, next, None).await {
        Ok(granted) if !granted.is_empty() => {
            for held in &granted {
                caller.write(held);
            }
            caller.world().recorder.lapsed(1);
            // Another actor must get it: this one may have it back within the delay.
            caller.reborn();
            caller.rest_ms(AWAY_MS.0, AWAY_MS.1).await;
        }
        Ok(_) => {}
        Err(_) => caller.rest_ms(20, 100).await,
    }
}
