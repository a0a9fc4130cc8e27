//! Disks with little free space, simulated by a floor above the free space.

use crate::world::World;
use lease::command::Renew;
use lease::numbers::{Span, Token};
use lease::{Command, Outcome};
use node::replica::no_outcome::NoOutcome;
use raft_store::types::NodeId;
use std::time::Duration;
use test_support::fleet::{claim, complete, create, release};
use test_support::until;

/// A floor above the free space, so that the node is low, but not so far above that it stops.
fn above_what_is_free(world: &World) -> u64 {
    let found = rustix::fs::statvfs(world.directory(1)).unwrap();
    found.f_bavail * found.f_frsize / 2 * 3
}

async fn restart(world: &mut World, node: NodeId, is_low: bool) {
    let floor = is_low.then(|| above_what_is_free(world));
    world.kill(node).await;
    world.disk_free_min = floor;
    world.restart(node).await;
    world.disk_free_min = None;
    let wanted = is_low;
    until("the node has looked at its disk", async || {
        world.node(node).disk_space().floor() > 0 && world.node(node).disk_space().is_low() == wanted
    })
    .await;
    world.leader().await;
}

async fn submit(world: &World, node: NodeId, command: Command) -> Result<Outcome, NoOutcome> {
    let request = crate::world::request("ada", command);
    let outcomes = world.node(node).submit(vec![request], Duration::from_secs(10)).await;
    outcomes.map(|mut outcomes| outcomes.pop().unwrap())
}

fn renew(item: &str, token: Token) -> Command {
    Command::Renew(Renew { item: test_support::fleet::item(item), token, lease_for: None })
}

/// At every node.
async fn assert_only_leases_go_on(world: &World, held: &[(String, Token)]) {
    for (node, (item, token)) in (1..=3).zip(held) {
        let refused = [create("new"), claim("free", Span::secs(60))];
        for command in refused {
            let answer = submit(world, node, command.clone()).await;
            assert!(
                matches!(&answer, Err(NoOutcome::LowOnDisk(why)) if why.contains("disk space is low")),
                "node {node} on {command:?}: {answer:?}"
            );
        }
        let renewed = submit(world, node, renew(item, *token)).await;
        assert!(matches!(renewed, Ok(Outcome::Renewed { .. })), "node {node}: {renewed:?}");
    }
    let [(one, token), (other, other_token), ..] = held else { panic!("{held:?}") };
    let released = submit(world, 2, release(one, *token)).await;
    assert!(matches!(released, Ok(Outcome::Released { .. })), "{released:?}");
    let completed = submit(world, 3, complete(other, *other_token)).await;
    assert!(matches!(completed, Ok(Outcome::Moved { .. })), "{completed:?}");
}

async fn hold_three(world: &World) -> Vec<(String, Token)> {
    world.ask(1, "ada", create("free")).await;
    let mut held = Vec::new();
    for item in ["one", "two", "three"] {
        world.ask(1, "ada", create(item)).await;
        held.push((item.to_owned(), world.claim(1, "ada", item, Span::secs(600)).await));
    }
    held
}

async fn is_refused(world: &World, node: NodeId) -> bool {
    matches!(submit(world, node, claim("free", Span::secs(60))).await, Err(NoOutcome::LowOnDisk(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn while_two_of_three_are_low_only_commands_that_keep_or_end_leases_are_accepted() {
    let mut world = World::of(3).await;
    let held = hold_three(&world).await;
    world.lead(1).await;
    restart(&mut world, 2, true).await;
    restart(&mut world, 3, true).await;
    let leader = world.leader().await;
    until("the leader knows that it is so", async || world.node(leader).disk_space().refuses_work()).await;
    assert_only_leases_go_on(&world, &held).await;

    // With room on one of them there is a quorum again.
    restart(&mut world, 2, false).await;
    until("work is taken again", async || world.nodes().all(|node| !node.disk_space().refuses_work())).await;
    let created = world.ask(3, "ada", create("new")).await;
    assert!(matches!(created, Outcome::Created { .. }), "{created:?}");
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_low_follower_does_not_block_work() {
    let mut world = World::of(3).await;
    world.lead(1).await;
    restart(&mut world, 2, true).await;
    let leader = world.leader().await;
    let disk = world.node(leader).disk_space().clone();
    until("the leader knows that it is so", async || disk.others().get(&2) == Some(&true)).await;
    for number in 0..10 {
        let created = submit(&world, number % 3 + 1, create(&format!("item-{number}"))).await;
        assert!(matches!(created, Ok(Outcome::Created { .. })), "{created:?}");
    }
    // Until another voter is away, so that the quorum needs the low one, which would then fill up.
    let away = (1..=3).find(|node| *node != 2 && *node != leader).unwrap();
    world.kill(away).await;
    until("the leader does not count on who is away", async || world.node(leader).disk_space().refuses_work()).await;
    assert!(is_refused(&world, leader).await);
    world.restart(away).await;
    until("work is taken again", async || !world.node(leader).disk_space().refuses_work()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_low_leader_hands_over_to_a_node_with_disk_space() {
    let mut world = World::of(3).await;
    world.lead(3).await;
    restart(&mut world, 1, true).await;
    let leader = world.leader().await;
    assert_ne!(leader, 1);
    world.node(leader).transfer(Some(1), Duration::from_secs(10)).await.unwrap();
    until("another one leads", async || world.nodes().all(|node| node.leader().is_some_and(|leader| leader != 1)))
        .await;
    let created = world.ask(1, "ada", create("new")).await;
    assert!(matches!(created, Outcome::Created { .. }), "{created:?}");
}
