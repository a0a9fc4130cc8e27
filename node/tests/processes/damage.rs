//! How a node handles damage of its log by a crash or a bad disk.

use crate::history::History;
use raft_store::types::NodeId;
use std::fs;
use std::path::PathBuf;
use test_support::peer_client::Client;
use test_support::world::{World, state_of};

/// A cluster with something in it, one follower of it killed, and that follower's newest write-ahead file.
async fn with_a_dead_follower() -> (World, Client, NodeId, PathBuf) {
    let mut world = World::of_three().await;
    let client = world.client();
    for nth in 0..40 {
        client.create(&format!("item-{nth}")).await;
    }
    world.in_step().await;
    let follower = world.follower().await;
    world.kill(follower);
    let newest = newest_wal(&world, follower);
    (world, client, follower, newest)
}

fn newest_wal(world: &World, node: NodeId) -> PathBuf {
    let files = fs::read_dir(world.data(node).join("log")).unwrap().map(|entry| entry.unwrap().path());
    let numbered = files.filter_map(|path| {
        let number: u64 = path.file_stem()?.to_str()?.parse().ok()?;
        (path.extension()? == "log").then_some((number, path))
    });
    numbered.max().unwrap().1
}

async fn has_everything(client: &Client) {
    for nth in 0..40 {
        assert!(client.has(&format!("item-{nth}")).await, "item-{nth}");
    }
}

/// A write that the crash cut short: its record says that it is longer than it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_tail_is_cut_off_and_the_follower_catches_up() {
    let (mut world, client, follower, wal) = with_a_dead_follower().await;
    let mut bytes = fs::read(&wal).unwrap();
    assert!(bytes.len() > 1_000, "{} bytes in {}", bytes.len(), wal.display());
    bytes.extend([0x5a, 0x11, 0xc3, 0x70, 0xff, 0x03, 1, 8, 8, 8]);
    fs::write(&wal, bytes).unwrap();
    client.create("meanwhile").await;
    world.start(follower);
    world.leader().await;
    world.in_step().await;
    has_everything(&client).await;
    world.stop_and_compare().await;
}

/// Worse than any crash: acknowledged entries are gone. The other nodes have them.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_lost_the_end_of_its_log_recovers_it() {
    let (mut world, client, follower, wal) = with_a_dead_follower().await;
    let bytes = fs::read(&wal).unwrap();
    fs::write(&wal, &bytes[..bytes.len() - bytes.len() / 3]).unwrap();
    world.start(follower);
    world.leader().await;
    client.create("meanwhile").await;
    world.in_step().await;
    has_everything(&client).await;
    world.stop_and_compare().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_middle_of_the_log_is_refused_with_advice() {
    let (mut world, client, follower, wal) = with_a_dead_follower().await;
    let mut bytes = fs::read(&wal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&wal, &bytes).unwrap();
    let before = world.words(follower).len();
    world.start(follower);
    let status = world.ended(follower).await;
    assert_eq!(status.code(), Some(1), "{status}");
    let words = world.words(follower).split_off(before);
    for part in ["is damaged", "remove it from the cluster", "under a new id with an empty directory"] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(fs::read(&wal).unwrap(), bytes, "it was left as it was");
    client.create("meanwhile").await;
    has_everything(&client).await;
}

/// A single node cannot keep its promises on a disk that loses data: the check that other tests rely on detects it.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_node_detects_that_it_lost_the_end_of_its_log() {
    let mut world = World::empty();
    world.start(1);
    world.has_vote(1).await;
    let client = world.client();
    let mut history = History::default();
    for nth in 0..40 {
        let item = format!("item-{nth}");
        client.create(&item).await;
        history.created.insert(item);
    }
    world.kill(1);
    let wal = newest_wal(&world, 1);
    let bytes = fs::read(&wal).unwrap();
    fs::write(&wal, &bytes[..bytes.len() - bytes.len() / 3]).unwrap();
    world.start(1);
    let state = &world.stop_and_compare().await[&1];
    let faults = history.faults(|item| state_of(state, item));
    assert!(faults.contains(&"item-39 was created and is gone".to_owned()), "{faults:?}");
    assert!(!faults.contains(&"item-0 was created and is gone".to_owned()), "{faults:?}");
}
