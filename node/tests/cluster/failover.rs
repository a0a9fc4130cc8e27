//! Leaders fail, and no acknowledged write is lost.

use crate::world::{World, ask, request};
use lease::Outcome;
use lease::numbers::{Span, Token};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use test_support::fleet::{complete, create};
use test_support::{LIMIT, until, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_leader_is_replaced_and_acknowledged_writes_are_kept() {
    let mut world = World::of(3).await;
    let leader = world.leader().await;
    let mut held = Vec::new();
    for number in 0..20 {
        let id = format!("item-{number}");
        world.ask(leader, "ada", create(&id)).await;
        held.push((id.clone(), world.claim(leader, "ada", &id, Span::secs(300)).await));
    }
    world.kill(leader).await;
    let next = world.leader().await;
    assert_ne!(next, leader);
    for (id, token) in held {
        let outcome = world.ask(next, "ada", complete(&id, token)).await;
        assert!(matches!(outcome, Outcome::Moved { .. }), "{id}: {outcome:?}");
    }
    world.restart(leader).await;
    world.leader().await;
    world.agree().await;
}

/// Workers claim and complete their own items on every node while leaders die one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn five_nodes_lose_leader_after_leader_under_load_and_no_token_repeats() {
    let mut world = World::of(5).await;
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let mut workers = tokio::task::JoinSet::new();
    // Two nodes stay up, so that callers can always reach one.
    let (first, second) = (world.node(4).clone(), world.node(5).clone());
    for worker in 0..8 {
        let node = if worker % 2 == 0 { first.clone() } else { second.clone() };
        let (stop, done) = (stop.clone(), done.clone());
        workers.spawn(async move {
            let actor = format!("worker-{worker}");
            let mut tokens = Vec::new();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let id = format!("item-{worker}-{number}");
                let created = ask(&node, request(&actor, create(&id))).await;
                assert!(matches!(created, Outcome::Created { .. }), "{created:?}");
                let granted = ask(&node, request(&actor, test_support::fleet::claim(&id, Span::secs(600)))).await;
                let token = granted.grant().unwrap_or_else(|| panic!("{granted:?}")).token;
                let moved = ask(&node, request(&actor, complete(&id, token))).await;
                assert!(matches!(moved, Outcome::Moved { .. }), "{moved:?}");
                tokens.push(token);
                done.fetch_add(1, Ordering::Relaxed);
            }
            tokens
        });
    }
    for _ in 0..4 {
        let leader = world.leader().await;
        let victim = if leader <= 3 { leader } else { 1 };
        let before = world.node(5).hub().current().applied;
        if leader == victim {
            world.kill(victim).await;
            world.leader().await;
            until("work goes on", async || world.node(5).hub().current().applied > before).await;
            world.restart(victim).await;
        } else {
            within("a transfer", world.node(leader).transfer(Some(1), LIMIT)).await.unwrap();
        }
        world.leader().await;
    }
    // However busy the machine is: enough for a repeated token to show.
    until("enough was worked on", async || done.load(Ordering::Relaxed) > 50).await;
    stop.store(true, Ordering::Relaxed);
    let all: Vec<Token> = within("the workers end", workers.join_all()).await.into_iter().flatten().collect();
    let distinct: BTreeSet<Token> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "a token was given twice");
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_stop_at_once_and_come_back_with_everything() {
    let mut world = World::of(3).await;
    let mut held = Vec::new();
    for number in 0..50_u64 {
        let id = format!("item-{number}");
        world.ask(number % 3 + 1, "ada", create(&id)).await;
        held.push((id.clone(), world.claim(number % 3 + 1, "ada", &id, Span::secs(600)).await));
    }
    for node in 1..=3 {
        world.kill(node).await;
    }
    for node in 1..=3 {
        world.restart(node).await;
    }
    world.leader().await;
    for (id, token) in held {
        let outcome = world.ask(2, "ada", complete(&id, token)).await;
        assert!(matches!(outcome, Outcome::Moved { .. }), "{id}: {outcome:?}");
    }
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_node_hands_over_leadership_first() {
    let mut world = World::of(3).await;
    let leader = world.leader().await;
    let term = world.node(leader).raft().with_raft_state(|state| state.vote_ref().leader_id.term).await.unwrap();
    let daemon = world.daemons.remove(&leader).unwrap();
    within("it stops", daemon.stop()).await;
    let next = world.leader().await;
    let later = world.node(next).raft().with_raft_state(|state| state.vote_ref().leader_id.term).await.unwrap();
    assert_eq!(later, term + 1, "one election, by hand-over");
    assert!(matches!(world.ask(next, "ada", create("a")).await, Outcome::Created { .. }));
}

/// Raft's metrics do not report a panic: such a node would keep answering without doing anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_reports_a_failure_when_raft_panics() {
    let mut world = World::of(3).await;
    let leader = world.leader().await;
    let panicked = world.node(leader).clone();
    let _ = within("a panic in Raft", panicked.raft().with_raft_state(|_| panic!("on purpose"))).await;
    until("the node knows", async || panicked.failure().is_some_and(|why| why.contains("panicked"))).await;
    drop(panicked);
    world.kill(leader).await;
    world.leader().await;
    let next = world.follower().await;
    assert!(matches!(world.ask(next, "ada", create("a")).await, Outcome::Created { .. }));
}
