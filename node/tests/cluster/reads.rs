//! Reads see what was acknowledged before them, on every node.

use crate::world::{Threads, World, request};
use lease::names::SpaceName;
use lease::views::IfClaimed;
use std::time::{Duration, Instant};
use test_support::fleet::{caller, create, item};
use test_support::{until, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_read_on_any_node_sees_what_another_node_has_acknowledged() {
    let world = World::of(3).await;
    let viewer = caller("ada");
    for number in 0..60 {
        let id = format!("item-{number}");
        world.ask(number % 3 + 1, "ada", create(&id)).await;
        for node in world.nodes() {
            let seen = node.read(Duration::from_secs(20), |state, archive| {
                state.view_item(archive, &viewer, &SpaceName::fallback(), &item(&id), IfClaimed::Return).is_ok()
            });
            assert!(seen.await.unwrap(), "{id} on {node:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_wait_share_a_round() {
    let world = World::of(3).await;
    let follower = world.node(world.follower().await).clone();
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..2_000 {
        let follower = follower.clone();
        reads.spawn(async move { follower.read(Duration::from_secs(30), |state, _| state.now()).await.unwrap() });
    }
    within("all reads are answered", reads.join_all()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_reads_are_refused_and_local_reads_state_their_position() {
    let mut world = World::of(3).await;
    world.ask(1, "ada", create("a")).await;
    world.agree().await;
    let leader = world.leader().await;
    for node in 1..=3 {
        if node != leader {
            world.kill(node).await;
        }
    }
    let node = world.node(leader).clone();
    let refused = node.read(Duration::from_secs(3), |state, _| state.now()).await;
    assert!(refused.is_err(), "{refused:?}");
    let (live, seen) = node.read_local(|state, _| state.live_items()).unwrap();
    assert_eq!(live, 1);
    assert!(seen.progress.applied.is_some());
    let asked = tokio::time::timeout(
        Duration::from_secs(30),
        node.submit(vec![request("ada", create("b"))], Duration::from_millis(500)),
    );
    assert!(asked.await.unwrap().is_err(), "nothing is acknowledged without a quorum");
}

/// A node that was stopped gets its leader's messages at once, but they were sent long before.
#[tokio::test(flavor = "multi_thread")]
async fn a_local_read_never_understates_the_age_of_what_it_shows() {
    let mut world = World::of(3).await;
    world.lead(1).await;
    let threads = Threads::new();
    world.kill(3).await;
    world.restart_on(3, &threads).await;
    let node = world.node(3).clone();
    let look = || node.read_local(|state, _| state.live_items()).unwrap();
    until("a local read states an age", async || look().1.in_step_within.is_some()).await;

    let stopped = threads.stop().await;
    let mut acknowledged = Vec::new();
    for number in 0..300 {
        world.ask(1, "ada", create(&format!("item-{number}"))).await;
        acknowledged.push(Instant::now());
    }
    drop(stopped);
    until("it has caught up", async || {
        let began = Instant::now();
        let (shown, seen) = look();
        let Some(missing) = acknowledged.get(shown) else { return true };
        if let Some(age) = seen.in_step_within {
            let missing_for = began.saturating_duration_since(*missing);
            assert!(
                age >= missing_for,
                "stated an age of {age:?}, but what was acknowledged {missing_for:?} ago is not shown"
            );
        }
        false
    })
    .await;
    until("and is in step again", async || look().1.in_step_within.is_some_and(|age| age < Duration::from_secs(5)))
        .await;
}
