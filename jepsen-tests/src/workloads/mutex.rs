//! Claims, some of which wait; writes to the item and to the guarded resource with the token; renewals and releases.
//! Some holders sleep until their lease is over and write then, with the old token: both must refuse that. Some work
//! until the clock of their machine says that the lease is over, and ask no node.

use super::Ground;
use crate::caller::{Caller, Held, No};
use api::queue::PolicyChange;

/// The percentage of holders that sleep until their lease is over.
const SLEEPERS: u64 = 5;
/// The percentage of holders that never return.
const DEAD: u64 = 2;
/// The percentage of holders that rely on their clocks.
const BELIEVERS: u64 = 3;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queue = ground.name.clone();
    let policy = PolicyChange { pickup_ms: Some(1_500), ..PolicyChange::default() };
    ground.set_queue(&queue, policy, false).await?;
    let items = ground.make_items(&queue, ground.size.items).await?;
    let lease_ms = ground.size.lease_ms();
    for nth in 0..ground.size.callers {
        let mut caller = ground.caller()?;
        // Two processes of one identity: at most one may win.
        if nth % 16 == 1 {
            let mut twin = ground.caller_as(caller.actor(), usize::MAX - nth as usize)?;
            let items = items.clone();
            ground.spawn(async move {
                while twin.goes_on() {
                    turn(&mut twin, &items, lease_ms).await;
                }
            });
        }
        let items = items.clone();
        ground.spawn(async move {
            while caller.goes_on() {
                turn(&mut caller, &items, lease_ms).await;
            }
        });
    }
    Ok(())
}

async fn turn(caller: &mut Caller, items: &[String], lease_ms: u64) {
    let item = caller.dice.pick(items).clone();
    let held = if caller.dice.chance(15) {
        let (polls, poll_ms) = (1 + caller.dice.below(3), 50 + caller.dice.below(300));
        caller.wait_for(&item, None, polls, poll_ms).await
    } else {
        claim(caller, &item, lease_ms).await
    };
    let Some(mut held) = held else {
        if caller.dice.chance(20) {
            let _ = caller.read(&item).await;
        }
        caller.rest_ms(1, 10).await;
        return;
    };
    let fate = caller.dice.below(100);
    if !work(caller, &mut held).await {
        return;
    }
    if fate < SLEEPERS {
        late(caller, &held).await;
    } else if fate < SLEEPERS + DEAD {
        caller.world().recorder.lapsed(1);
        caller.reborn();
    } else if fate < SLEEPERS + DEAD + BELIEVERS {
        by_the_clock(caller, &held).await;
    } else if let Err(No::Unknown(id)) = caller.release(&item, held.token).await
        && caller.dice.chance(50)
    {
        let _ = caller.under(&id, true).release(&item, held.token).await;
    }
}

/// Time that is left of a lease for it to be useful.
async fn claim(caller: &mut Caller, item: &str, lease_ms: u64) -> Option<Held> {
    let lease = caller.dice.chance(30).then(|| 1_000 + caller.dice.below(lease_ms));
    let held = match caller.claim(item, lease).await {
        // The outcome is unknown: a retry under the same id shows it.
        Err(No::Unknown(id)) if caller.dice.chance(60) => caller.under(&id, true).claim(item, lease).await.ok(),
        other => other.ok(),
    };
    held.filter(|held| held.until > caller.world().clock.now())
}

/// Writes under the lease. Returns false if it was lost.
async fn work(caller: &mut Caller, held: &mut Held) -> bool {
    let item = held.item.clone();
    for _ in 0..=caller.dice.below(3) {
        if !caller.goes_on() {
            return true;
        }
        caller.write(held);
        let read_at = held.revision.filter(|_| caller.dice.chance(50));
        match caller.update(&item, Some(held.token), read_at).await {
            Ok(revision) => held.revision = Some(revision),
            Err(No::Refused(_) | No::Strange) => return false,
            Err(No::Unavailable | No::Unknown(_)) => held.revision = None,
        }
        if caller.dice.chance(35) && matches!(caller.renew(held).await, Err(No::Refused(_))) {
            return false;
        }
        if caller.dice.chance(15) {
            let _ = caller.read(&item).await;
        }
    }
    true
}

/// Works until its clock says that its lease is over, or a write is refused. Its last update is late if that clock was
/// wrong.
async fn by_the_clock(caller: &mut Caller, held: &Held) {
    caller.world().recorder.lapsed(1);
    while caller.goes_on() && caller.belief(held).is_some() {
        if !caller.write(held) {
            break;
        }
        caller.rest_ms(5, 60).await;
    }
    let _ = caller.update(&held.item, Some(held.token), None).await;
    if caller.dice.chance(50) {
        let _ = caller.release(&held.item, held.token).await;
    }
}

/// Wakes up after its lease and continues as if nothing had happened.
async fn late(caller: &mut Caller, held: &Held) {
    caller.sleep_past(held, 1_500).await;
    caller.write(held);
    let _ = caller.update(&held.item, Some(held.token), None).await;
    match caller.dice.below(3) {
        0 => {
            let _ = caller.renew(&mut held.clone()).await;
        }
        1 => {
            let _ = caller.release(&held.item, held.token).await;
        }
        _ => caller.reborn(),
    }
}
