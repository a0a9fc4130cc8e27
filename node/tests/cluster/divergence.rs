//! A node whose state differs from the cluster's stops by itself.

use crate::world::{World, ask, request};
use lease::{Entry, Records};
use raft_store::directory::{Directory, Found};
use raft_store::state::HASH_MARK_EVERY;
use raft_store::state::chunk::Chunk;
use raft_store::state::disk::StateDisk;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::Group;
use std::time::Duration;
use test_support::fleet::{create, request as numbered};
use test_support::{until, within};

/// Like a bug or a flipped bit: puts something into the state that is not in the log.
fn spoil(world: &World, node: u64) {
    let path = world.settings(node, node::daemon::Start::Again).directory;
    let Found::Used(directory) = Directory::find(&path).unwrap() else { panic!("it was used") };
    let salt = directory.identity().salt;
    let disk = RocksDisk::open(directory, Group(0)).unwrap();
    let (mut state, mut applied) = disk.load(salt).unwrap();
    let phantom = vec![numbered("mallory", "m-1", create("phantom"))];
    let changes = state.apply(&Entry { commands: phantom, ..Entry::default() }, &Records::default()).changes;
    applied.hash = state.hash();
    disk.write(&Chunk::of(changes), &applied).unwrap();
    disk.flush().unwrap();
}

/// Three nodes: one leads, and the state of another one differs.
async fn with_a_spoilt_node() -> (World, u64, u64) {
    let mut world = World::of(3).await;
    world.ask(1, "ada", create("a")).await;
    world.agree().await;
    let (leader, victim) = (world.leader().await, world.follower().await);
    let daemon = world.daemons.remove(&victim).unwrap();
    within("it stops", daemon.stop()).await;
    spoil(&world, victim);
    world.restart(victim).await;
    world.lead(leader).await;
    (world, leader, victim)
}

async fn reach_a_compared_index(world: &World, leader: u64) {
    let node = world.node(leader).clone();
    for number in 0..HASH_MARK_EVERY + 10 {
        // One entry each, so that the compared index is reached.
        let asked = ask(&node, request("ada", create(&format!("item-{number}")))).await;
        assert!(matches!(asked, lease::Outcome::Created { .. }), "{asked:?}");
    }
}

/// The third node, which could decide which of the two is right, is away.
#[tokio::test(flavor = "multi_thread")]
async fn two_differing_nodes_without_a_third_stop_and_name_the_nodes_to_start() {
    let (mut world, leader, victim) = with_a_spoilt_node().await;
    let away = (1..=3).find(|node| ![leader, victim].contains(node)).unwrap();
    world.kill(away).await;
    reach_a_compared_index(&world, leader).await;
    for (node, other) in [(leader, victim), (victim, leader)] {
        until("it has stopped", async || world.daemons[&node].failure().is_some()).await;
        let why = world.daemons[&node].failure().unwrap();
        assert!(why.contains(&format!("differs from that of nodes [{other}]")), "{why}");
        assert!(why.contains(&format!("Start nodes [{away}] first")), "{why}");
    }

    // With the third node, the diverged one is found as soon as the third has caught up.
    world.raft.compare_every = Duration::from_secs(2);
    for node in [leader, victim] {
        world.kill(node).await;
    }
    for node in [away, leader, victim] {
        world.restart(node).await;
    }
    until("the odd one has stopped", async || world.daemons[&victim].failure().is_some()).await;
    let why = world.daemons[&victim].failure().unwrap();
    assert!(why.contains(&format!("remove node {victim} from the cluster")), "{why}");
    world.daemons.remove(&victim).unwrap().abandon().await;
    let now_leads = world.leader().await;
    assert!(matches!(world.ask(now_leads, "ada", create("after")).await, lease::Outcome::Created { .. }));
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diverged_node_stops_and_the_others_continue() {
    let (world, leader, victim) = with_a_spoilt_node().await;
    reach_a_compared_index(&world, leader).await;
    until("the odd one has stopped", async || world.daemons[&victim].failure().is_some()).await;
    let why = world.daemons[&victim].failure().unwrap();
    assert!(why.contains("differs from that of nodes"), "{why}");
    for other in (1..=3).filter(|other| *other != victim) {
        assert_eq!(world.daemons[&other].failure(), None, "node {other}");
    }
    assert!(matches!(world.ask(leader, "ada", create("after")).await, lease::Outcome::Created { .. }));
}
