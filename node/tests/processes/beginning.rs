//! A node that is killed while it creates its directory, starts a cluster or joins one can simply be restarted.

use raft_store::types::NodeId;
use test_support::until;
use test_support::world::World;

/// The files that a first start creates, in order.
const MARKS: [&str; 6] =
    ["MAKING", "log/CURRENT", "state-000001/CURRENT", "CURRENT", "IDENTITY", "state-000001/TENURE"];

/// Kills the node as soon as each of the marks exists, and once it logs that it has started.
async fn begin_over_and_over(world: &mut World, node: NodeId) {
    for mark in MARKS {
        world.start(node);
        let path = world.data(node).join(mark);
        until("it has come so far", async || {
            world.check_alive();
            path.exists()
        })
        .await;
        world.kill(node);
    }
    world.start(node);
    until("it has started", async || world.words(node).contains("started")).await;
    world.kill(node);
    world.start(node);
    world.has_vote(node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_killed_while_starting_and_joining_can_be_restarted() {
    let mut world = World::empty();
    for node in 1..=3 {
        begin_over_and_over(&mut world, node).await;
        let client = world.client();
        client.create(&format!("item-{node}")).await;
    }
    let client = world.client();
    for node in 1..=3 {
        assert!(client.has(&format!("item-{node}")).await, "item-{node}");
    }
    world.leader().await;
    world.in_step().await;
    world.stop_and_compare().await;
}
