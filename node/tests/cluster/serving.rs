//! Every node serves every call.

use crate::world::{World, ask, request};
use lease::command::{Claim, OnConflict};
use lease::names::SpaceName;
use lease::numbers::Span;
use lease::{Command, Outcome};
use std::sync::atomic::Ordering;
use std::time::Duration;
use test_support::fleet::{claim, complete, create, item, release};
use test_support::{LIMIT, until, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_one_is_a_whole_cluster() {
    let mut world = World::of(1).await;
    assert!(matches!(world.ask(1, "ada", create("a")).await, Outcome::Created { created: true, .. }));
    let token = world.claim(1, "ada", "a", Span::secs(30)).await;
    world.kill(1).await;
    world.restart(1).await;
    world.leader().await;
    let outcome = world.ask(1, "ada", complete("a", token)).await;
    assert!(matches!(outcome, Outcome::Moved { .. }), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_takes_commands_and_all_have_the_same_state() {
    let world = World::of(3).await;
    for node in 1..=3 {
        let id = format!("item-{node}");
        assert!(matches!(world.ask(node, "ada", create(&id)).await, Outcome::Created { created: true, .. }));
        let token = world.claim(node, "ada", &id, Span::secs(30)).await;
        let other = node % 3 + 1;
        assert!(matches!(world.ask(other, "bob", claim(&id, Span::secs(30))).await, Outcome::Refused(_)));
        assert!(matches!(world.ask(other, "ada", release(&id, token)).await, Outcome::Released { .. }));
    }
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_share_a_batch_and_an_fsync() {
    let world = World::of(1).await;
    let node = world.node(1).clone();
    let before = (node.proposer().counts().batches.load(Ordering::Relaxed), world.daemons[&1].log().stats());
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..256 {
        let node = node.clone();
        callers.spawn(async move {
            for number in 0..40 {
                ask(&node, request("ada", create(&format!("item-{caller}-{number}")))).await;
            }
        });
    }
    within("all are answered", callers.join_all()).await;
    let commands = 256 * 40;
    let batches = node.proposer().counts().batches.load(Ordering::Relaxed) - before.0;
    let synced = world.daemons[&1].log().stats().synced_writes - before.1.synced_writes;
    assert!(commands / batches >= 20, "{commands} commands in {batches} batches");
    assert!(commands / synced >= 20, "{commands} commands in {synced} synced writes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_claim_is_woken_on_the_node_that_was_called() {
    let world = World::of(3).await;
    let (leader, follower) = (world.leader().await, world.follower().await);
    world.ask(leader, "ada", create("a")).await;
    let token = world.claim(leader, "ada", "a", Span::secs(120)).await;
    let waiting = Claim {
        on_conflict: OnConflict::Wait { wait_for: None, line_max: None },
        lease_for: Some(Span::secs(30)),
        ..Claim::new(item("a"))
    };
    let node = world.node(follower).clone();
    let bob = tokio::spawn(async move {
        node.call(request("bob", Command::Claim(waiting)), LIMIT, Duration::from_secs(50)).await.unwrap()
    });
    let space = SpaceName::fallback();
    until("bob stands in line", async || {
        let viewer = test_support::fleet::caller("op");
        let line = world.node(leader).store().read(|state, _| state.line(&viewer, &space, &item("a"))).unwrap();
        line.is_ok_and(|line| line.len() == 1)
    })
    .await;
    world.ask(leader, "ada", release("a", token)).await;
    let outcome = within("bob is granted", bob).await.unwrap();
    assert!(outcome.grant().is_some_and(|grant| grant.token > token), "{outcome:?}");
    assert_eq!(world.node(follower).hub().waiting(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_commands_are_refused_before_the_log() {
    let world = World::of(1).await;
    let mut items = Vec::new();
    for number in 0..150 {
        let mut new = lease::item::NewItem::new(item(&format!("item-{number}")), test_support::fleet::queue());
        new.body = vec![(lease::item::Part::Plan, "x".repeat(60_000))];
        items.push(new);
    }
    let large = request("ada", Command::CreateMany(items));
    let refused = world.node(1).submit(vec![large], Duration::from_secs(20)).await;
    assert!(matches!(refused, Err(node::replica::no_outcome::NoOutcome::TooLarge { .. })), "{refused:?}");
    assert!(matches!(world.ask(1, "ada", create("a")).await, Outcome::Created { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_with_a_short_wait_is_accepted_like_any_other_command() {
    let world = World::of(1).await;
    world.ask(1, "ada", create("a")).await;
    world.claim(1, "ada", "a", Span::secs(600)).await;
    // A batch is in flight, so the next command waits for the next batch.
    world.gates[&1].shut();
    let proposed = world.node(1).proposer().counts().commands.load(Ordering::Relaxed);
    let node = world.node(1).clone();
    let first = tokio::spawn(async move { node.submit(vec![request("ada", create("b"))], LIMIT).await });
    until("the first is proposed", async || {
        world.node(1).proposer().counts().commands.load(Ordering::Relaxed) > proposed
    })
    .await;
    let mut waits = claim("a", Span::secs(60));
    if let Command::Claim(claim) = &mut waits {
        claim.on_conflict = OnConflict::Wait { wait_for: None, line_max: None };
    }
    let node = world.node(1).clone();
    let poll = Duration::from_millis(1);
    let second = tokio::spawn(async move { node.call(request("bob", waits), LIMIT, poll).await });
    until("he asks", async || world.node(1).hub().waiting() == 1).await;
    let asked = std::time::Instant::now();
    until("his poll is over", async || asked.elapsed() > 10 * poll).await;
    world.gates[&1].open();
    assert!(within("the first", first).await.unwrap().is_ok());
    let second = within("the second", second).await.unwrap();
    assert!(matches!(second, Ok(Outcome::Waiting { place: 0, .. })), "{second:?}");
}
