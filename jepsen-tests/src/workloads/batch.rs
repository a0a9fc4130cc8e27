//! Many claims in one call: each entry is answered on its own, or all are granted or none.

use super::Ground;
use crate::caller::{Caller, Held};
use api::queue::PolicyChange;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queue = ground.name.clone();
    ground.set_queue(&queue, PolicyChange::default(), false).await?;
    let items = ground.make_items(&queue, ground.size.items).await?;
    for _ in 0..ground.size.callers {
        let (mut caller, items) = (ground.caller()?, items.clone());
        ground.spawn(async move {
            while caller.goes_on() {
                turn(&mut caller, &items).await;
            }
        });
    }
    Ok(())
}

async fn turn(caller: &mut Caller, items: &[String]) {
    let mut wanted = items.to_vec();
    caller.dice.shuffle(&mut wanted);
    wanted.truncate(2 + usize::try_from(caller.dice.below(3)).unwrap_or(0));
    let all_or_none = caller.dice.chance(60);
    let Ok(granted) = caller.claim_many(&wanted, all_or_none).await else {
        caller.rest_ms(5, 40).await;
        return;
    };
    if granted.is_empty() {
        caller.rest_ms(2, 20).await;
    }
    for held in granted {
        let Held { item, token, .. } = &held;
        caller.write(&held);
        if caller.dice.chance(5) {
            caller.world().recorder.lapsed(1);
        } else {
            let _ = caller.release(item, *token).await;
        }
    }
}
