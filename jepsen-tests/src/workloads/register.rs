//! Items that nobody holds, as registers: updates with the revision that was read, and linearizable reads from every
//! node.

use super::Ground;
use crate::caller::{Caller, No};
use api::names::Number;
use api::queue::PolicyChange;
use std::collections::BTreeMap;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queue = ground.name.clone();
    ground.set_queue(&queue, PolicyChange::default(), false).await?;
    let items = ground.make_items(&queue, ground.size.items).await?;
    for _ in 0..ground.size.callers {
        let (mut caller, items) = (ground.caller()?, items.clone());
        ground.spawn(async move {
            let mut read = BTreeMap::new();
            while caller.goes_on() {
                let item = caller.dice.pick(&items).clone();
                turn(&mut caller, &item, &mut read).await;
            }
        });
    }
    Ok(())
}

async fn turn(caller: &mut Caller, item: &str, read: &mut BTreeMap<String, Number>) {
    if caller.dice.chance(50) {
        caller.elsewhere();
    }
    // One in four updates uses a revision that was read a while ago.
    let revision = read.get(item).copied().filter(|_| caller.dice.chance(25));
    let revision = match revision {
        Some(revision) => revision,
        None => match caller.read(item).await {
            Ok(seen) => seen.revision,
            Err(_) => return,
        },
    };
    read.insert(item.to_owned(), revision);
    if caller.dice.chance(40) {
        return;
    }
    match caller.update(item, None, Some(revision)).await {
        Ok(revision) => {
            read.insert(item.to_owned(), revision);
        }
        Err(No::Refused(_) | No::Strange | No::Unknown(_)) => {
            read.remove(item);
        }
        Err(No::Unavailable) => {}
    }
}
