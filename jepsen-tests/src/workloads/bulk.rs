//! Large answers: many workers ask one follower at the same moment for a hundred items of 11 KB each. The leader's
//! answers to all of them do not fit into one frame between nodes.

use super::Ground;
use crate::caller::Caller;
use crate::history::Burst;
use crate::world::World;
use api::item::{NewItem, NewItems};
use api::queue::PolicyChange;
use client::Client;
use client::names::{ItemId, Label, QueueName};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// The maximum number of items that one `next` grants.
const AT_ONCE: u32 = 100;
const LEASE_MS: u64 = 1_000;
/// The time between bursts: the leases of the last one have expired.
const BETWEEN: Duration = Duration::from_millis(3_500);
const PATIENCE: Duration = Duration::from_secs(12);
/// The number of items in one request.
const MADE_AT_ONCE: usize = 25;
const DEPENDENCIES: usize = 64;

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queue = ground.name.clone();
    ground.set_queue(&queue, PolicyChange::default(), false).await?;
    make_large(&ground.world.operator()?, &queue, ground.size.items).await?;
    let mut callers: Vec<Caller> = (0..ground.size.callers).map(|_| ground.caller()).collect::<Result<_, _>>()?;
    let (world, is_alone) = (ground.world.clone(), ground.is_alone);
    ground.spawn(async move {
        while callers.first().is_some_and(Caller::goes_on) {
            callers = burst(&world, callers, &queue, is_alone).await;
        }
    });
    Ok(())
}

/// All ask at once, and let their leases expire.
async fn burst(world: &Arc<World>, callers: Vec<Caller>, queue: &str, is_alone: bool) -> Vec<Caller> {
    let Some(node) = follower(&callers[0], world).await else {
        callers[0].rest(BETWEEN).await;
        return callers;
    };
    let client = world.clients_of(callers[0].actor(), None).ok().and_then(|clients| clients.into_iter().nth(node));
    let before = forwarded(client.as_ref()).await;
    let (began, calls) = (world.clock.now(), callers.len() as u64);
    let mut asking = JoinSet::new();
    for mut caller in callers {
        let queue = queue.to_owned();
        asking.spawn(async move {
            caller.turn_to(node);
            let _ = caller.hasty(PATIENCE).next(&queue, AT_ONCE, Some(LEASE_MS)).await;
            caller.reborn();
            caller
        });
    }
    let callers: Vec<Caller> = asking.join_all().await;
    let ended = world.clock.now();
    // In a mixed run others call that node, too.
    if let (Some(before), Some(after), true) = (before, forwarded(client.as_ref()).await, is_alone) {
        world.had_burst(Burst { began, ended, calls, forwarded: after.saturating_sub(before) });
    }
    if let Some(first) = callers.first() {
        first.rest(BETWEEN).await;
    }
    callers
}

/// A follower, from 0.
async fn follower(caller: &Caller, world: &World) -> Option<usize> {
    let status = caller.client().cluster().within(Duration::from_secs(2)).await.ok()?;
    let leader = status.members.iter().find(|member| Some(member.id) == status.leader)?;
    world.nodes().into_iter().find(|node| !world.is_at(*node, &leader.api_address))
}

/// The number of commands that the node has forwarded to the leader.
async fn forwarded(client: Option<&Client>) -> Option<u64> {
    let client = client?;
    let node = client.node(client.endpoints()[0].clone());
    let metrics = tokio::time::timeout(Duration::from_secs(4), node.metrics()).await.ok()?.ok()?;
    let line = metrics.lines().find_map(|line| line.strip_prefix("tenure_forwarded_commands_total "))?;
    line.trim().parse().ok()
}

async fn make_large(client: &Client, queue: &str, count: u32) -> Result<(), String> {
    let name = |id: String| ItemId::new(&id).map_err(|bad| bad.to_string());
    let queue_name = QueueName::new(queue).map_err(|bad| bad.to_string())?;
    let first: Result<Vec<ItemId>, String> =
        (0..DEPENDENCIES).map(|nth| name(format!("{queue}-first-{nth:0>110}"))).collect();
    let first = first?;
    let aside = QueueName::new(&format!("{queue}-first")).map_err(|bad| bad.to_string())?;
    let new: Vec<NewItem> = first.iter().map(|id| NewItem::new(id.clone(), aside.clone())).collect();
    create(client, new).await?;
    for id in &first {
        use client::api::claim::{Claim, Claimed};
        use client::api::write::Complete;
        let claimed = client.request_claim(id, &Claim::default()).await.map_err(|error| format!("{id}: {error}"))?;
        let Claimed::Granted(grant) = claimed else { return Err(format!("{id} is not granted")) };
        let complete = Complete { token: Some(grant.token), read_at: None, result: None };
        client.complete(id, &complete).await.map_err(|error| format!("{id}: {error}"))?;
    }
    let labels: Result<Vec<Label>, String> =
        (0..32).map(|nth| Label::new(&format!("{nth:0>64}")).map_err(|bad| bad.to_string())).collect();
    let labels = labels?;
    let large = |nth: u32| {
        Ok(NewItem {
            title: "t".repeat(500),
            labels: labels.clone(),
            depends_on: first.clone(),
            ..NewItem::new(name(format!("{queue}-{nth}"))?, queue_name.clone())
        })
    };
    let new: Result<Vec<NewItem>, String> = (0..count).map(large).collect();
    create(client, new?).await
}

async fn create(client: &Client, new: Vec<NewItem>) -> Result<(), String> {
    for items in new.chunks(MADE_AT_ONCE) {
        let items = NewItems { items: items.to_vec() };
        client.create_many(&items).await.map_err(|error| format!("large items: {error}"))?;
    }
    Ok(())
}
