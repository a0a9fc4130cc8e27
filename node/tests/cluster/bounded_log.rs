//! The log is bounded by bytes, on leaders and on followers, also while one of them is away.

use crate::world::{World, quick};
use lease::item::{NewItem, Part};
use lease::{Command, Outcome};
use node::replica::node::RaftSettings;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::types::NodeId;
use std::sync::atomic::Ordering;
use test_support::fleet::{item, queue};
use test_support::until;

const KIB: u64 = 1024;

/// With these limits, the number of entries never causes a purge.
fn tiny() -> RaftSettings {
    RaftSettings { snapshot_bytes: 256 * KIB, bytes_kept: 256 * KIB, ..quick() }
}

/// Maximum log size some time after the last write: the kept bytes, the bytes before the next snapshot, and one entry.
const BOUND: u64 = (256 + 256 + 128) * KIB;

/// Creates items of about 50 KiB each.
async fn create_large(world: &World, node: NodeId, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let mut new = NewItem::new(item(&format!("item-{number}")), queue());
        new.body = vec![(Part::Plan, "x".repeat(50 * 1024))];
        let outcome = world.ask(node, "ada", Command::Create(Box::new(new))).await;
        assert!(matches!(outcome, Outcome::Created { .. }), "{outcome:?}");
    }
}

fn held(world: &World, node: NodeId) -> u64 {
    world.daemons[&node].log().bytes_of(0..u64::MAX)
}

fn purged(world: &World, node: NodeId) -> u64 {
    let metrics = world.node(node).raft().metrics();
    let purged = metrics.borrow_watched().purged;
    purged.map_or(0, |purged| purged.index)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_bounded_by_bytes_on_every_node_and_after_restarts() {
    let mut world = World::with(3, tiny()).await;
    let leader = world.leader().await;
    create_large(&world, leader, 0..60).await;
    until("every node holds no more than its bound", async || {
        (1..=3).all(|node| held(&world, node) <= BOUND && purged(&world, node) > 20)
    })
    .await;
    // Some entries are kept: a node that was away briefly needs no snapshot.
    assert!((1..=3).all(|node| held(&world, node) > 100 * KIB));
    world.kill_all().await;
    for node in 1..=3 {
        world.restart(node).await;
    }
    let leader = world.leader().await;
    create_large(&world, leader, 60..100).await;
    until("every node holds no more than its bound again", async || {
        (1..=3).all(|node| held(&world, node) <= BOUND && purged(&world, node) > 60)
    })
    .await;
    world.agree().await;
    for node in world.nodes() {
        assert_eq!(node.store().read(|state, _| state.live_items()).unwrap(), 100);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_kept_for_an_absent_follower_up_to_a_limit() {
    let mut world = World::with(3, tiny()).await;
    let follower = world.follower().await;
    world.kill(follower).await;
    let leader = world.leader().await;
    // Less than four times of what is kept.
    create_large(&world, leader, 0..15).await;
    let snapshot = || world.node(leader).raft().metrics().borrow_watched().snapshot.map_or(0, |id| id.index);
    until("the leader has taken a snapshot", async || snapshot() > 5).await;
    assert!(held(&world, leader) > 14 * 50 * KIB, "it keeps what the follower lacks");
    create_large(&world, leader, 15..80).await;
    let most = 4 * 256 * KIB + 256 * KIB + 128 * KIB;
    until("the leader waits no longer", async || held(&world, leader) <= most && purged(&world, leader) > 40).await;
    world.restart(follower).await;
    world.agree().await;
    assert!(world.node(follower).hub().counts().snapshots_installed.load(Ordering::Relaxed) > 0);
    assert_eq!(world.node(follower).store().read(|state, _| state.live_items()).unwrap(), 80);
    until("nothing is kept for it any more", async || held(&world, leader) <= BOUND).await;
}

/// A follower with a slow disk: it stays connected, and the leader reads the missing entries for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_follower_does_not_prevent_purging() {
    let world = World::with(3, tiny()).await;
    let follower = world.follower().await;
    let leader = world.leader().await;
    world.gates[&follower].shut();
    create_large(&world, leader, 0..80).await;
    let most = 4 * 256 * KIB + 256 * KIB + 128 * KIB;
    until("the leader waits no longer", async || held(&world, leader) <= most && purged(&world, leader) > 20).await;
    world.gates[&follower].open();
    world.agree().await;
    assert_eq!(world.node(follower).store().read(|state, _| state.live_items()).unwrap(), 80);
}
