//! A node whose state is not the cluster's stops by itself.

use crate::fleet::{create, request as numbered};
use crate::world::{World, ask, request, until, within};
use futures_util::stream;
use lease::Entry;
use lease::numbers::Time;
use openraft::storage::RaftStateMachine;
use raft_store::directory::{Directory, Found};
use raft_store::state::rocks::RocksDisk;
use raft_store::state::{AppliedChunk, HASH_MARK_EVERY, Machine, Observer, StateStore};
use raft_store::types::{Group, LogEntry, OnTokio, Payload, Proposal};
use std::sync::Arc;

struct Nobody;

impl Observer for Nobody {
    fn applied(&self, _: &AppliedChunk<'_>) {}
}

/// As a bug or a flipped bit would: the state has something in it that the log never said.
async fn spoil(world: &World, node: u64) {
    let path = world.settings(node, node::daemon::Start::Again).directory;
    let Found::Used(directory) = Directory::find(&path).unwrap() else { panic!("it was used") };
    let salt = directory.identity().salt;
    let store = StateStore::open(RocksDisk::open(directory, Group(0)).unwrap(), salt).unwrap();
    let last = store.progress().applied.unwrap();
    let mut machine = Machine::<OnTokio, _>::new(store.clone(), Arc::new(Nobody));
    let entry =
        Entry { at: Time(0), commands: vec![numbered("mallory", "m-1", create("phantom"))], ..Entry::default() };
    let entry = LogEntry { log_id: last, payload: Payload::Normal(Proposal::seal(&entry)) };
    machine.apply(stream::iter([Ok((entry, None))])).await.unwrap();
    store.flush().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_odd_one_out_stops_and_the_others_go_on() {
    let mut world = World::of(3).await;
    world.ask(1, "ada", create("a")).await;
    world.agree().await;
    let victim = world.follower().await;
    let leader = world.leader().await;
    let daemon = world.daemons.remove(&victim).unwrap();
    within("it stops", daemon.stop()).await;
    spoil(&world, victim).await;
    world.restart(victim).await;

    let node = world.node(leader).clone();
    for number in 0..HASH_MARK_EVERY + 10 {
        // One entry each, so that the compared index is reached.
        let asked = ask(&node, request("ada", create(&format!("item-{number}")))).await;
        assert!(matches!(asked, lease::Outcome::Created { .. }), "{asked:?}");
    }
    until("the odd one has stopped", || world.daemons[&victim].failure().is_some()).await;
    let why = world.daemons[&victim].failure().unwrap();
    assert!(why.contains("differs from that of nodes"), "{why}");
    for other in (1..=3).filter(|other| *other != victim) {
        assert_eq!(world.daemons[&other].failure(), None, "node {other}");
    }
    assert!(matches!(world.ask(leader, "ada", create("after")).await, lease::Outcome::Created { .. }));
}
