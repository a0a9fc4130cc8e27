//! Local reads together with updates: they may be old, but not older than stated.

use super::Ground;
use crate::caller::Caller;
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
    let item = caller.dice.pick(items).clone();
    if caller.dice.chance(60) {
        // Some at one node one after another, some at all nodes.
        if caller.dice.chance(30) {
            caller.elsewhere();
        }
        let _ = caller.read_locally(&item).await;
    } else if let Ok(seen) = caller.read(&item).await {
        let _ = caller.update(&item, None, Some(seen.revision)).await;
    }
    caller.rest_ms(1, 8).await;
}
