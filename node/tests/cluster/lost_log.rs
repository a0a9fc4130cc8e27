//! A node that lost what it had acknowledged.

use crate::world::World;
use lease::Outcome;
use node::daemon::{Daemon, Start};
use openraft::storage::{RaftLogReader, RaftLogStorage};
use raft_store::log::{LogOptions, LogStore};
use raft_store::types::{Group, OnTokio};
use test_support::fleet::create;

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_ends_before_its_committed_mark_is_refused_with_advice() {
    let mut world = World::of(3).await;
    let leader = world.leader().await;
    for number in 0..20 {
        world.ask(leader, "ada", create(&format!("item-{number}"))).await;
    }
    world.agree().await;
    let victim = world.follower().await;
    world.kill(victim).await;
    let settings = world.settings(victim, Start::Again);
    let mut log = LogStore::<OnTokio>::open(&settings.directory.join("log"), Group(0), LogOptions::default()).unwrap();
    let committed = log.read_committed().await.unwrap().unwrap();
    let kept = log.reader().try_get_log_entries(committed.index - 5..committed.index - 4).await.unwrap();
    log.truncate_after(Some(kept[0].log_id)).await.unwrap();
    log.close().unwrap();

    let why = Daemon::start(settings).await.unwrap_err().to_string();
    for part in ["is known to be committed", "remove it from the cluster", "under a new id with an empty directory"] {
        assert!(why.contains(part), "{why}");
    }
    assert!(matches!(world.ask(leader, "ada", create("after")).await, Outcome::Created { .. }));
}
