//! Claims that wait, first come, first granted: some withdraw, some stop polling in line or when they are granted, and
//! others read the line.

use super::Ground;
use crate::caller::calls::Standing;
use crate::caller::{Caller, Held, No};
use api::queue::PolicyChange;

/// Of a hundred waiters with a place: this many leave it again, and this many stop polling.
const LEAVE: u64 = 10;
const DIE: u64 = 3;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queue = ground.name.clone();
    let line_max = (ground.size.callers / ground.size.items).max(3) + 2;
    let policy = PolicyChange { pickup_ms: Some(1_000), line_max: Some(line_max), ..PolicyChange::default() };
    ground.set_queue(&queue, policy, false).await?;
    let items = ground.make_items(&queue, ground.size.items).await?;
    for _ in 0..ground.size.callers {
        let (mut caller, items) = (ground.caller()?, items.clone());
        ground.spawn(async move {
            while caller.goes_on() {
                turn(&mut caller, &items).await;
            }
        });
    }
    let mut observer = ground.operator()?;
    ground.spawn(async move {
        while observer.goes_on() {
            let item = observer.dice.pick(&items).clone();
            let _ = observer.line(&item).await;
            observer.rest_ms(2, 15).await;
        }
    });
    Ok(())
}

async fn turn(caller: &mut Caller, items: &[String]) {
    let item = caller.dice.pick(items).clone();
    let id = caller.id();
    let fate = caller.dice.below(100);
    let polls = 1 + caller.dice.below(4);
    let mut is_repeat = false;
    for poll in 0..200 {
        if !caller.goes_on() {
            let _ = caller.withdraw(&item).await;
            return;
        }
        let poll_ms = 50 + caller.dice.below(600);
        match caller.under(&id, is_repeat).stand(&item, None, poll_ms).await {
            Ok(Standing::Granted(held)) => {
                if held.until <= caller.world().clock.now() {
                    return;
                }
                return hold(caller, held).await;
            }
            Ok(Standing::Place(place)) => {
                is_repeat = false;
                if fate < DIE && place == 0 {
                    // First in line, and stops polling.
                    caller.reborn();
                    return;
                }
                if fate < DIE + LEAVE && poll >= polls {
                    let _ = caller.withdraw(&item).await;
                    return;
                }
                if caller.dice.chance(10) {
                    let _ = caller.line(&item).await;
                }
            }
            Err(No::Refused(_) | No::Strange) => {
                caller.rest_ms(2, 20).await;
                return;
            }
            Err(No::Unknown(_)) => is_repeat = true,
            Err(No::Unavailable) => caller.rest_ms(10, 50).await,
        }
    }
}

async fn hold(caller: &mut Caller, mut held: Held) {
    let item = held.item.clone();
    if caller.dice.chance(3) {
        caller.world().recorder.lapsed(1);
        caller.reborn();
        return;
    }
    caller.write(&held);
    if caller.dice.chance(60) {
        let _ = caller.renew(&mut held).await;
    }
    if caller.dice.chance(30) {
        caller.rest_ms(1, 40).await;
    }
    if let Err(No::Unknown(id)) = caller.release(&item, held.token).await {
        let _ = caller.under(&id, true).release(&item, held.token).await;
    }
}
