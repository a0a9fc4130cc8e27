//! Leases that last longer than most faults: holders renew them rarely, and keep them while no node answers. A cluster
//! that charged them the time in which nobody could renew would take their items away.

use super::Ground;
use crate::caller::{Caller, Held, No};
use api::queue::PolicyChange;
use std::time::Duration;

/// The duration of a lease.
const LASTS_MS: (u64, u64) = (12_000, 40_000);
/// The pause after a renewal without an answer.
const AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queue = ground.name.clone();
    ground.set_queue(&queue, PolicyChange::default(), false).await?;
    let items = ground.make_items(&queue, ground.size.items).await?;
    for _ in 0..ground.size.callers {
        let (mut caller, items) = (ground.caller()?, items.clone());
        ground.spawn(async move {
            while caller.goes_on() {
                let item = caller.dice.pick(&items).clone();
                let lasts_ms = LASTS_MS.0 + caller.dice.below(LASTS_MS.1 - LASTS_MS.0);
                match caller.claim(&item, Some(lasts_ms)).await {
                    Ok(held) => hold(&mut caller, held).await,
                    Err(_) => caller.rest_ms(20, 150).await,
                }
            }
        });
    }
    Ok(())
}

async fn hold(caller: &mut Caller, mut held: Held) {
    let renewals = caller.dice.below(4);
    for _ in 0..=renewals {
        let third = u64::try_from(caller.world().clock.until(held.until).as_millis()).unwrap_or(0) / 3;
        caller.rest_ms(third / 2, third).await;
        caller.write(&held);
        loop {
            if !caller.goes_on() {
                return;
            }
            match caller.renew(&mut held).await {
                Ok(()) => break,
                Err(No::Refused(_) | No::Strange) => return,
                Err(No::Unavailable | No::Unknown(_)) => caller.rest(AGAIN).await,
            }
        }
    }
    match caller.dice.below(10) {
        // The holder never returns.
        0 => caller.reborn(),
        _ => {
            let _ = caller.release(&held.item, held.token).await;
        }
    }
}
