//! A node whose state is not the cluster's stops by itself.

use crate::fleet::{create, request as numbered};
use crate::world::{World, ask, request, until, within};
use lease::{Entry, Records};
use raft_store::directory::{Directory, Found};
use raft_store::state::HASH_MARK_EVERY;
use raft_store::state::chunk::Chunk;
use raft_store::state::disk::StateDisk;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::Group;

/// As a bug or a flipped bit would: the state has something in it that the log never said.
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

#[tokio::test(flavor = "multi_thread")]
async fn the_odd_one_out_stops_and_the_others_go_on() {
    let mut world = World::of(3).await;
    world.ask(1, "ada", create("a")).await;
    world.agree().await;
    let victim = world.follower().await;
    let leader = world.leader().await;
    let daemon = world.daemons.remove(&victim).unwrap();
    within("it stops", daemon.stop()).await;
    spoil(&world, victim);
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
