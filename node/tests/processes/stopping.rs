//! SIGTERM: an orderly stop with little effect on others.

use test_support::until;
use test_support::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_leader_hands_over_and_exits_with_0() {
    let mut world = World::empty();
    // No node stands for election by itself within this test: the next leader got a handover.
    let patience = ["--election-min-ms", "3600000", "--election-max-ms", "7200000"];
    world.options = patience.map(str::to_owned).to_vec();
    world.start_three().await;
    let client = world.client();
    client.create("before").await;
    let leader = world.leader().await;
    let status = world.stop(leader).await;
    assert_eq!(status.code(), Some(0), "{status}: {}", world.words(leader));
    assert!(world.words(leader).contains("stopped"), "{}", world.words(leader));
    let next = world.leader().await;
    assert_ne!(next, leader);
    client.create("meanwhile").await;

    world.start(leader);
    assert_eq!(world.leader().await, next);
    world.in_step().await;
    for item in ["before", "meanwhile"] {
        assert!(client.has(item).await, "{item}");
    }
    // The node that was away has it, too, and can lead.
    let status = world.stop(next).await;
    assert_eq!(status.code(), Some(0), "{status}: {}", world.words(next));
    world.leader().await;
    assert!(client.has("meanwhile").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_state_survives_a_stop_of_all_nodes() {
    let mut world = World::of_three().await;
    let client = world.client();
    for nth in 0..50 {
        client.create(&format!("item-{nth}")).await;
    }
    drop(world.stop_and_compare().await);
    for node in 1..=3 {
        world.start(node);
    }
    for nth in 0..50 {
        assert!(client.has(&format!("item-{nth}")).await, "item-{nth}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_waits_to_join_can_be_stopped() {
    let mut world = World::empty();
    // There is no node to join.
    world.start(2);
    until("it has asked", async || world.words(2).contains("a seed did not answer")).await;
    let status = world.stop(2).await;
    assert_eq!(status.code(), Some(0), "{status}: {}", world.words(2));
}
