//! Concurrent membership changes: nodes join at once, are removed while they move, or are promoted while others leave.

use crate::world::World;
use futures_util::future::join_all;
use node::daemon::{Daemon, Start};
use node::replica::change::ChangeError;
use raft_store::types::{Member, Membership, NodeId};
use std::collections::BTreeSet;
use test_support::{LIMIT, until, within};

/// More rounds find rare failures: `ROUNDS=100` was run without one.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3)
}

fn voters(members: &Membership) -> BTreeSet<NodeId> {
    members.voter_ids().collect()
}

/// Starts nodes at the same time and returns when each runs.
async fn start_at_once(world: &mut World, nodes: impl IntoIterator<Item = NodeId>) {
    let settings: Vec<_> = nodes.into_iter().map(|node| world.settings(node, world.seeds())).collect();
    let starting = settings.into_iter().map(|settings| async move { (settings.node, Daemon::start(settings).await) });
    for (node, started) in within("all start", join_all(starting)).await {
        world.started(node, started);
    }
}

/// Waits until these are the voters. A node that lost its vote does not get it back, so this fails for good then.
async fn only_voters(world: &World, wanted: &BTreeSet<NodeId>) {
    let mut path = Vec::new();
    until(&format!("the voters are {wanted:?}"), async || {
        let Some(leader) = world.nodes().find(|node| node.leader() == Some(node.id())) else { return false };
        let members = leader.membership();
        let config = members.get_joint_config().clone();
        if path.last() != Some(&config) {
            path.push(config);
        }
        let had_a_vote: BTreeSet<NodeId> = path.iter().flatten().flatten().copied().collect();
        let lost: Vec<_> = wanted.intersection(&had_a_vote).filter(|id| members.get_node(id).is_none()).collect();
        assert!(lost.is_empty(), "nodes {lost:?} had a vote and were evicted; the voters went {path:?}");
        members.get_joint_config().len() == 1 && voters(&members) == *wanted
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_join_at_once_all_get_and_keep_a_vote() {
    for _ in 0..rounds() {
        let mut world = World::of(1).await;
        start_at_once(&mut world, 2..=5).await;
        only_voters(&world, &(1..=5).collect()).await;
        world.agree().await;
        world.kill_all().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_removed_while_it_moves_stays_out() {
    let world = World::of(3).await;
    let leader = world.leader().await;
    let node = world.node(leader);
    for id in 10..60 {
        let at = |port: u16, instance| Member {
            peer_address: format!("127.0.0.1:{port}"),
            api_address: String::new(),
            instance,
        };
        node.add_learner(id, at(1, 7)).await.unwrap();
        let (removed, _) = tokio::join!(node.remove(id), node.add_learner(id, at(2, 7)));
        removed.unwrap();
        assert_eq!(node.membership().get_node(&id), None, "the removal of node {id} was acknowledged");

        // A wiped directory asks for the id while it is being removed.
        let id = id + 1_000;
        node.add_learner(id, at(1, 7)).await.unwrap();
        let (removed, _) = tokio::join!(node.remove(id), node.add_learner(id, at(3, 8)));
        removed.unwrap();
        assert_eq!(node.membership().get_node(&id), None, "the id {id} must not be used again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_leaving_and_moving_nodes_do_not_undo_each_others_changes() {
    for _ in 0..rounds() {
        let mut world = World::of(5).await;
        world.lead(1).await;
        let leader = world.node(1).clone();
        world.kill(3).await;
        world.forget_address(3);
        let moved = world.settings(3, Start::Again);
        let others: Vec<_> = [6, 7].map(|node| world.settings(node, world.seeds())).into();
        let starting = others.into_iter().chain([moved]);
        let starting = starting.map(|settings| async move { (settings.node, Daemon::start(settings).await) });
        let (started, removed) =
            tokio::join!(within("all start", join_all(starting)), within("it is removed", leader.remove(2)));
        removed.unwrap();
        for (node, started) in started {
            world.started(node, started);
        }
        world.kill(2).await;
        only_voters(&world, &BTreeSet::from([1, 3, 4, 5, 6, 7])).await;
        until("the new address of node 3 is known", async || {
            let known = world.node(1).membership().get_node(&3).cloned();
            known.as_ref() == Some(world.daemons[&3].member())
        })
        .await;
        world.kill_all().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_would_leave_no_quorum_is_refused() {
    let mut world = World::of(3).await;
    world.lead(1).await;
    world.kill(3).await;
    let silent = || !world.node(1).answering().contains(&3);
    until("node 3 is seen to be silent", async || silent()).await;
    match within("a refusal", world.node(1).remove(2)).await {
        Err(ChangeError::Refused(why)) => assert!(why.contains("{1, 3}") && why.contains("start"), "{why}"),
        other => panic!("{other:?}"),
    }
    within("a node that is gone may go", world.node(1).remove(3)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_gets_no_vote_until_it_is_promoted() {
    let mut world = World::of(3).await;
    let mut settings = world.settings(4, world.seeds());
    settings.learner = true;
    world.start_with(settings).await;
    let leader = world.leader().await;
    until("it follows", async || world.node(4).hub().current().applied >= world.node(leader).hub().current().applied)
        .await;

    // It moves, and is still a learner.
    world.kill(4).await;
    world.forget_address(4);
    let mut settings = world.settings(4, Start::Again);
    settings.learner = true;
    world.start_with(settings).await;
    until("its new address is known", async || {
        world.node(leader).membership().get_node(&4) == Some(world.daemons[&4].member())
    })
    .await;
    assert_eq!(voters(&world.node(leader).membership()), BTreeSet::from([1, 2, 3]));
    let leader = world.leader().await;
    world.node(leader).promote(4, LIMIT).await.unwrap();
    only_voters(&world, &(1..=4).collect()).await;
}
