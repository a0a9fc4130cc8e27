//! Nodes that were away.

use crate::world::{World, quick};
use lease::Outcome;
use node::replica::node::RaftSettings;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::state::disk::StateDisk;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use test_support::fleet::create;
use test_support::gate::Gate;
use test_support::until;

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
async fn without_a_follower(settings: RaftSettings) -> (World, u64, u64) {
    let mut world = World::with(3, settings).await;
    let follower = world.follower().await;
    create_some(&world, follower, 0, 20).await;
    world.kill(follower).await;
    let leader = world.leader().await;
    create_some(&world, leader, 20, 220).await;
    (world, follower, leader)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_was_away_too_long_catches_up_by_a_snapshot() {
    let (mut world, follower, leader) = without_a_follower(tiny()).await;
    let applied = world.node(follower_other(&world, leader)).hub().current().applied;
    assert!(applied.is_some());
    until("the leader has purged what the follower lacks", async || {
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

/// As if the node had been killed after it stored a received snapshot and before it switched to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_while_installing_a_snapshot_finishes_it_at_the_next_start() {
    let (mut world, follower, leader) = without_a_follower(tiny()).await;
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

    // No other node runs that could send it again.
    world.restart(follower).await;
    let has = || world.node(follower).hub().current().applied.map_or(0, |applied| applied.index);
    until("it has what the snapshot holds", async || has() >= index).await;
    for node in (1..=3).filter(|node| *node != follower) {
        world.restart(node).await;
    }
    world.leader().await;
    world.agree().await;
    assert_eq!(world.node(follower).store().read(|state, _| state.live_items()).unwrap(), 220);
    assert_eq!(world.node(follower).store().verify().unwrap(), [""; 0]);
}

/// The local snapshot's files are written, but it is not in place yet when the leader's snapshot arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_builds_a_snapshot_while_it_installs_one() {
    // The follower takes none by itself.
    let (mut world, follower, leader) = without_a_follower(RaftSettings { snapshot_every: 100, ..tiny() }).await;
    let purged = |world: &World, node| {
        let purged = world.node(node).raft().metrics().borrow_watched().purged;
        purged.map_or(0, |purged| purged.index)
    };
    until("the leader has purged what the follower lacks", async || purged(&world, leader) > 100).await;
    // No snapshot can arrive while a file is in the place of its folder.
    let incoming = world.directory(follower).join("incoming");
    fs::write(&incoming, "").unwrap();
    world.restart(follower).await;
    let gate = Gate::default();
    gate.shut();
    let _opened = gate.opened_at_the_end();
    world.node(follower).store().disk().set_before_keeping(gate.before_write().unwrap());

    world.node(follower).raft().trigger().snapshot().await.unwrap();
    let making = world.snapshots_folder(follower).join("making");
    until("the build has its files", async || making.exists()).await;
    fs::remove_file(&incoming).unwrap();
    let is_installed = |world: &World| {
        let applied = world.node(follower).hub().current().applied;
        applied.is_some_and(|applied| applied.index > 100)
    };
    let has_arrived = || {
        let folders = fs::read_dir(&incoming).into_iter().flatten().flatten();
        folders.into_iter().any(|folder| folder.path().join("SNAPSHOT").exists())
    };
    until("the leader's snapshot has arrived", async || has_arrived() || is_installed(&world)).await;
    // It may wait for the build, or not.
    let installed = until("it is installed", async || is_installed(&world));
    let _ = tokio::time::timeout(Duration::from_secs(2), installed).await;
    gate.open();
    world.agree().await;
    let taken = || world.node(follower).hub().counts().snapshots_taken.load(Ordering::Relaxed);
    until("the build is done", async || taken() > 0).await;

    let newest = |world: &World| {
        let (meta, _) = world.node(follower).store().disk().newest_snapshot().unwrap().unwrap();
        meta.last.unwrap().index
    };
    let is_behind = "an older snapshot has replaced the one that was installed";
    assert!(newest(&world) > 100 && newest(&world) >= purged(&world, follower), "{is_behind}");
    world.kill(follower).await;
    world.restart(follower).await;
    world.agree().await;
    assert!(newest(&world) > 100 && newest(&world) >= purged(&world, follower), "{is_behind}");
    assert_eq!(world.node(follower).store().read(|state, _| state.live_items()).unwrap(), 220);
    assert_eq!(world.node(follower).store().verify().unwrap(), [""; 0]);
}

fn only_folder(of: &Path) -> PathBuf {
    let mut found = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
    let only = found.next().expect("there is one");
    assert_eq!(found.next(), None);
    only
}
