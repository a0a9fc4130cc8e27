//! Nodes that were away.

use crate::fleet::create;
use crate::world::{World, quick, until};
use lease::Outcome;
use node::node::RaftSettings;
use openraft::async_runtime::watch::WatchReceiver;
use std::fs;
use std::path::{Path, PathBuf};

/// Snapshots and purges every few entries.
fn tiny() -> RaftSettings {
    RaftSettings { snapshot_every: 30, entries_kept: 5, ..quick() }
}

async fn create_some(world: &World, node: u64, from: u64, to: u64) {
    for number in from..to {
        let outcome = world.ask(node, "ada", create(&format!("item-{number}"))).await;
        assert!(matches!(outcome, Outcome::Created { .. }), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_was_away_catches_up_by_the_log() {
    let mut world = World::of(3).await;
    let follower = world.follower().await;
    world.kill(follower).await;
    let leader = world.leader().await;
    create_some(&world, leader, 0, 200).await;
    world.restart(follower).await;
    world.agree().await;
    assert_eq!(world.node(follower).store().read(|state, _| state.live_items()).unwrap(), 200);
}

/// Of 220 items the follower, which is away, has 20.
async fn without_a_follower() -> (World, u64, u64) {
    let mut world = World::with(3, tiny()).await;
    let follower = world.follower().await;
    create_some(&world, follower, 0, 20).await;
    world.kill(follower).await;
    let leader = world.leader().await;
    create_some(&world, leader, 20, 220).await;
    (world, follower, leader)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_was_away_too_long_catches_up_by_a_snapshot() {
    let (mut world, follower, leader) = without_a_follower().await;
    let applied = world.node(follower_other(&world, leader)).hub().current().applied;
    assert!(applied.is_some());
    until("the leader has purged what the follower lacks", || {
        let metrics = world.node(leader).raft().metrics();
        let purged = metrics.borrow_watched().purged;
        purged.is_some_and(|purged| purged.index > 100)
    })
    .await;
    world.restart(follower).await;
    world.agree().await;
    assert_eq!(world.node(follower).store().read(|state, _| state.live_items()).unwrap(), 220);
    assert_eq!(world.node(follower).store().verify().unwrap(), [""; 0]);
    let snapshot = world.node(follower).raft().metrics().borrow_watched().snapshot;
    assert!(snapshot.is_some_and(|snapshot| snapshot.index > 20), "it came by snapshot: {snapshot:?}");
}

fn follower_other(world: &World, leader: u64) -> u64 {
    *world.daemons.keys().find(|node| **node != leader).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_and_purges_at_tiny_thresholds_survive_restarts_of_all() {
    let mut world = World::with(3, tiny()).await;
    for round in 0..3_u64 {
        create_some(&world, round % 3 + 1, round * 70, round * 70 + 70).await;
        for node in 1..=3 {
            world.kill(node).await;
        }
        for node in 1..=3 {
            world.restart(node).await;
        }
        world.leader().await;
        world.agree().await;
    }
    for node in world.nodes() {
        assert_eq!(node.store().read(|state, _| state.live_items()).unwrap(), 210);
        assert_eq!(node.store().verify().unwrap(), [""; 0]);
    }
}

/// As if it had been killed after it kept a snapshot that arrived, and before it switched to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_while_it_installed_a_snapshot_takes_it_up_at_the_start() {
    let (mut world, follower, leader) = without_a_follower().await;
    let index = world.admin(leader).snapshot().await.unwrap();
    for node in (1..=3).filter(|node| *node != follower) {
        world.kill(node).await;
    }
    let kept = only_folder(&world.snapshots_folder(leader));
    let copy = world.snapshots_folder(follower).join(kept.file_name().unwrap());
    fs::create_dir_all(&copy).unwrap();
    for file in fs::read_dir(&kept).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }

    // Nobody is there who could send it again.
    world.restart(follower).await;
    let has = || world.node(follower).hub().current().applied.map_or(0, |applied| applied.index);
    until("it has what the snapshot holds", || has() >= index).await;
    for node in (1..=3).filter(|node| *node != follower) {
        world.restart(node).await;
    }
    world.leader().await;
    world.agree().await;
    assert_eq!(world.node(follower).store().read(|state, _| state.live_items()).unwrap(), 220);
    assert_eq!(world.node(follower).store().verify().unwrap(), [""; 0]);
}

fn only_folder(of: &Path) -> PathBuf {
    let mut found = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
    let only = found.next().expect("there is one");
    assert_eq!(found.next(), None);
    only
}
