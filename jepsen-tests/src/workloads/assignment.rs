//! Assignments: an item stays assigned when its lease expires, and a release ends the assignment. Operators assign and
//! unassign meanwhile, and all callers read.

use super::Ground;
use crate::caller::{Caller, No};
use api::queue::PolicyChange;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queue = ground.name.clone();
    ground.set_queue(&queue, PolicyChange::default(), false).await?;
    let items = ground.make_items(&queue, ground.size.items).await?;
    let operators = (ground.size.callers / 8).max(1);
    for nth in 0..ground.size.callers {
        let is_operator = nth < operators;
        let mut caller = if is_operator { ground.operator()? } else { ground.caller()? };
        let (items, actors) = (items.clone(), ground.world.actors());
        ground.spawn(async move {
            while caller.goes_on() {
                let item = caller.dice.pick(&items).clone();
                if is_operator {
                    operate(&mut caller, &item, &actors).await;
                } else {
                    turn(&mut caller, &item).await;
                }
            }
        });
    }
    Ok(())
}

async fn operate(caller: &mut Caller, item: &str, actors: &[String]) {
    match caller.dice.below(10) {
        0..3 => {
            let to = caller.dice.pick(actors).clone();
            let _ = caller.assign(item, &to).await;
        }
        3..5 => {
            let assignee = caller.read(item).await.ok().and_then(|item| item.assignee);
            if let Some(actor) = assignee {
                let _ = caller.unassign(item, actor.as_str()).await;
            }
        }
        5 => {
            let _ = caller.revoke(item).await;
        }
        _ => {
            let _ = caller.read(item).await;
        }
    }
    caller.rest_ms(2, 25).await;
}

async fn turn(caller: &mut Caller, item: &str) {
    let Ok(mut held) = caller.claim(item, None).await else {
        let _ = caller.read(item).await;
        caller.rest_ms(1, 20).await;
        return;
    };
    if caller.dice.chance(40) {
        let _ = caller.read(item).await;
    }
    match caller.dice.below(10) {
        0..2 => {
            caller.sleep_past(&held, 600).await;
            let _ = caller.read(item).await;
        }
        2 => {
            caller.world().recorder.lapsed(1);
            caller.reborn();
        }
        3 => {
            let _ = caller.renew(&mut held).await;
            let _ = caller.release(item, held.token).await;
        }
        _ => {
            if let Err(No::Unknown(id)) = caller.release(item, held.token).await {
                let _ = caller.under(&id, true).release(item, held.token).await;
            }
            let _ = caller.read(item).await;
        }
    }
}
