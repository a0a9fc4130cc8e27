//! Items with dependencies, and items that need a worker's capability: `next` grants only ready items.

use super::Ground;
use crate::caller::calls::new_item;
use crate::caller::{Caller, No};
use api::claim::Next;
use api::queue::PolicyChange;
use client::names::{ItemId, Label};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SKILLS: [&str; 3] = ["saw", "drill", "paint"];
/// The newest items of a caller, on which later ones depend.
const KEPT: usize = 6;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queue = ground.name.clone();
    ground.set_queue(&queue, PolicyChange::default(), false).await?;
    let created = Arc::new(AtomicU64::new(0));
    for nth in 0..ground.size.callers {
        let (mut caller, queue, created) = (ground.caller()?, queue.clone(), created.clone());
        let skills: Vec<String> =
            (0..=(nth as usize % 2)).map(|more| SKILLS[(nth as usize + more) % 3].into()).collect();
        ground.spawn(async move {
            let mut worker = Worker { skills, is_known: false, newest: VecDeque::new() };
            while caller.goes_on() {
                turn(&mut caller, &mut worker, &queue, &created).await;
            }
        });
    }
    Ok(())
}

struct Worker {
    skills: Vec<String>,
    /// The cluster acknowledged its capabilities.
    is_known: bool,
    newest: VecDeque<ItemId>,
}

async fn turn(caller: &mut Caller, worker: &mut Worker, queue: &str, created: &AtomicU64) {
    if !worker.is_known {
        worker.is_known = caller.register(&worker.skills).await.is_ok();
        caller.rest_ms(5, 50).await;
        return;
    }
    if caller.dice.chance(35) {
        create(caller, worker, queue, created).await;
        return;
    }
    let next = Next { count: Some(1 + u32::try_from(caller.dice.below(2)).unwrap_or(0)), ..Next::default() };
    let granted = caller.next_with(queue, next, Some(worker.skills.clone())).await.unwrap_or_default();
    if granted.is_empty() {
        caller.rest_ms(5, 40).await;
    }
    for held in granted {
        caller.write(&held);
        match caller.dice.below(20) {
            0 => caller.world().recorder.lapsed(1),
            1 => {
                let _ = caller.fail(&held.item, held.token).await;
            }
            _ => {
                if let Err(No::Unknown(id)) = caller.complete(&held.item, held.token).await {
                    let _ = caller.under(&id, true).complete(&held.item, held.token).await;
                }
            }
        }
    }
}

async fn create(caller: &mut Caller, worker: &mut Worker, queue: &str, created: &AtomicU64) {
    let mut new = new_item(&format!("{queue}-{}", created.fetch_add(1, Ordering::Relaxed)), queue);
    let wanted = usize::try_from(caller.dice.below(3)).unwrap_or(0).min(worker.newest.len());
    new.depends_on = worker.newest.iter().rev().take(wanted).cloned().collect();
    if caller.dice.chance(50) {
        let skill = *caller.dice.pick(&SKILLS);
        new.needs.extend(Label::new(skill));
    }
    let id = new.id.clone();
    if caller.create_with(new).await.is_ok() {
        worker.newest.push_back(id);
        if worker.newest.len() > KEPT {
            worker.newest.pop_front();
        }
    }
}
