//! Writers, and watchers that disconnect and resume by position at another node: of everything or of one queue, as a
//! stream or page by page.

use super::Ground;
use crate::caller::{Caller, No};
use crate::dice::Dice;
use crate::recorder::Sight;
use crate::world::{OPERATOR, World};
use api::names::Number;
use api::queue::PolicyChange;
use client::names::QueueName;
use client::{Client, EventsQuery, StreamQuery};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

/// The time at one node.
const STAY_MS: (u64, u64) = (500, 6_000);
const PAGE: usize = 1_000;
/// The pause after an empty page.
const LULL: Duration = Duration::from_millis(50);
const ATTEMPT: Duration = Duration::from_secs(2);
/// The maximum number of pages that a watcher reads from each node when the run is over.
const CATCH_UP: usize = 1_000;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queues = [format!("{}-a", ground.name), format!("{}-b", ground.name)];
    let mut items = Vec::new();
    for queue in &queues {
        ground.set_queue(queue, PolicyChange { pickup_ms: Some(1_000), ..PolicyChange::default() }, false).await?;
        let made = ground.make_items(queue, (ground.size.items / 2).max(1)).await?;
        items.extend(made);
    }
    for _ in 0..ground.size.callers {
        let (mut caller, items) = (ground.caller()?, items.clone());
        ground.spawn(async move {
            while caller.goes_on() {
                turn(&mut caller, &items).await;
            }
        });
    }
    for (nth, queue) in [None, Some(&queues[0]), Some(&queues[1]), Some(&queues[0])].into_iter().enumerate() {
        let queue = queue.map(|queue| QueueName::new(queue)).transpose().map_err(|bad| bad.to_string())?;
        let watcher = Watcher {
            world: ground.world.clone(),
            clients: ground.world.clients_of(OPERATOR, None)?,
            dice: ground.dice(&format!("watcher/{nth}")),
            stop: ground.watching.clone(),
            sight: ground.world.recorder.sight(),
            queue,
            position: "0.0".parse::<Number>().ok(),
            node: nth,
        };
        ground.watchers.spawn(watcher.run());
    }
    Ok(())
}

async fn turn(caller: &mut Caller, items: &[String]) {
    let item = caller.dice.pick(items).clone();
    let held = match caller.dice.chance(20) {
        true => caller.wait_for(&item, None, 2, 200).await,
        false => caller.claim(&item, None).await.ok(),
    };
    let Some(held) = held else {
        caller.rest_ms(2, 15).await;
        return;
    };
    let _ = caller.update(&item, Some(held.token), None).await;
    match caller.dice.below(20) {
        0 => {
            caller.world().recorder.lapsed(1);
            caller.reborn();
        }
        _ => {
            if let Err(No::Unknown(id)) = caller.release(&item, held.token).await {
                let _ = caller.under(&id, true).release(&item, held.token).await;
            }
        }
    }
    caller.rest_ms(1, 10).await;
}

/// Reads every event of a queue, or of all queues, once.
struct Watcher {
    world: Arc<World>,
    clients: Vec<Client>,
    dice: Dice,
    stop: CancellationToken,
    sight: Sight,
    queue: Option<QueueName>,
    position: Option<Number>,
    node: usize,
}

impl Watcher {
    async fn run(mut self) {
        let stop = self.stop.clone();
        while !stop.is_cancelled() {
            let nodes = self.world.nodes();
            self.node = *self.dice.pick(&nodes);
            let stay = STAY_MS.0 + self.dice.below(STAY_MS.1 - STAY_MS.0);
            let until = Instant::now() + Duration::from_millis(stay);
            let goes_on = match self.dice.chance(70) {
                true => self.watch(until).await,
                false => self.turn_pages(until).await,
            };
            if !goes_on {
                return;
            }
        }
        self.catch_up().await;
    }

    /// The events until all callers had ended.
    async fn catch_up(&mut self) {
        for _ in 0..CATCH_UP {
            for node in self.world.nodes() {
                self.node = node;
                match self.page().await {
                    Some(true) => return,
                    Some(false) => {}
                    None => sleep(LULL).await,
                }
            }
        }
    }

    /// Returns false if no more events are kept.
    async fn watch(&mut self, until: Instant) -> bool {
        let client = &self.clients[self.node];
        let query = StreamQuery { after: self.position, queue: self.queue.clone(), ..StreamQuery::default() };
        let begun = timeout_at(Instant::now() + ATTEMPT, client.watch(&query)).await;
        let Ok(Ok(mut watch)) = begun else {
            sleep(LULL).await;
            return true;
        };
        loop {
            let next = tokio::select! {
                next = timeout_at(until, watch.next()) => next,
                () = self.stop.cancelled() => break,
            };
            let Ok(Some(Ok(event))) = next else { break };
            if !self.sight.see(self.world.clock.now(), event) {
                return false;
            }
        }
        self.position = watch.position();
        true
    }

    async fn turn_pages(&mut self, until: Instant) -> bool {
        while Instant::now() < until && !self.stop.is_cancelled() {
            match self.page().await {
                Some(true) => sleep(LULL).await,
                Some(false) => {}
                None => return true,
            }
            if self.sight.is_full() {
                return false;
            }
        }
        true
    }

    /// Returns whether it was the end. `None`: there was no answer.
    async fn page(&mut self) -> Option<bool> {
        let query = EventsQuery {
            after: self.position,
            queue: self.queue.clone(),
            limit: Some(PAGE),
            ..EventsQuery::default()
        };
        let call = self.clients[self.node].events(&query);
        let page = call.within(ATTEMPT).attempt_within(ATTEMPT).await.ok()?;
        let now = self.world.clock.now();
        for event in page.events {
            self.position = Some(event.number);
            if !self.sight.see(now, event) {
                return Some(true);
            }
        }
        let is_end = page.next_after.is_none_or(|next| Some(next) <= self.position);
        self.position = page.next_after.max(self.position);
        Some(is_end)
    }
}
