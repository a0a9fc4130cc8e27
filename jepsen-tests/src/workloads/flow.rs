//! Other ways to end a lease besides a release: a reservation for the same actor, a takeover by its other session,
//! handing on to the next phase, a cancellation.

use super::Ground;
use crate::caller::{Caller, Held};
use api::queue::PolicyChange;
use client::names::Phase;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PHASES: [&str; 3] = ["draft", "review", "done"];
const RESERVED_MS: (u64, u64) = (500, 2_500);

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queue = ground.name.clone();
    let phases: Result<_, _> = PHASES.iter().map(|phase| Phase::new(phase)).collect();
    let policy = PolicyChange { phases: Some(phases.map_err(|bad| bad.to_string())?), ..PolicyChange::default() };
    ground.set_queue(&queue, policy, false).await?;
    let items = ground.make_items(&queue, ground.size.items).await?;
    let created = Arc::new(AtomicU64::new(0));
    for nth in 0..ground.size.callers {
        let mut caller = ground.caller()?;
        // Another session of the same actor.
        let mut other = ground.caller_as(caller.actor(), usize::MAX / 2 - nth as usize)?;
        let (items, queue, created) = (items.clone(), queue.clone(), created.clone());
        ground.spawn(async move {
            while caller.goes_on() {
                if caller.dice.chance(10) {
                    let item = format!("{queue}-new-{}", created.fetch_add(1, Ordering::Relaxed));
                    cancelled(&mut caller, &mut other, &item, &queue).await;
                } else {
                    let item = caller.dice.pick(&items).clone();
                    turn(&mut caller, &mut other, &item).await;
                }
            }
        });
    }
    Ok(())
}

async fn turn(caller: &mut Caller, other: &mut Caller, item: &str) {
    let Ok(held) = caller.claim(item, None).await else {
        caller.rest_ms(2, 30).await;
        return;
    };
    caller.write(&held);
    match caller.dice.below(10) {
        0..3 => {
            let for_ms = RESERVED_MS.0 + caller.dice.below(RESERVED_MS.1 - RESERVED_MS.0);
            if caller.reserve(item, held.token, for_ms).await.is_ok() && caller.dice.chance(60) {
                caller.rest_ms(10, for_ms).await;
                if let Ok(again) = caller.claim(item, None).await {
                    caller.write(&again);
                    let _ = caller.release(item, again.token).await;
                }
            }
        }
        3..6 => take_over(caller, other, &held).await,
        6..9 => {
            let phase = *caller.dice.pick(&PHASES);
            let _ = caller.hand_on(item, held.token, phase).await;
        }
        _ => {
            let _ = caller.release(item, held.token).await;
        }
    }
}

/// The first session continues as if it still had the lease, and must be refused.
async fn take_over(caller: &mut Caller, other: &mut Caller, held: &Held) {
    let Ok(taken) = other.take_over(&held.item).await else { return };
    other.write(&taken);
    caller.write(held);
    let _ = caller.update(&held.item, Some(held.token), None).await;
    let _ = other.release(&held.item, taken.token).await;
}

/// An item that somebody cancels while it is held.
async fn cancelled(caller: &mut Caller, other: &mut Caller, item: &str, queue: &str) {
    if caller.create(item, queue).await.is_err() {
        return;
    }
    let Ok(mut held) = caller.claim(item, None).await else { return };
    let force = caller.dice.chance(50);
    let _ = other.cancel(item, force).await;
    caller.write(&held);
    let _ = caller.renew(&mut held).await;
    let _ = caller.release(item, held.token).await;
}
