//! Nodes come and go while the cluster works.

use crate::world::{World, ask, quick, request};
use lease::Outcome;
use lease::numbers::Span;
use node::daemon::{Daemon, Start};
use node::replica::change::ChangeError;
use node::replica::node::RaftSettings;
use openraft::ChangeMembers;
use raft_store::types::Member;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use test_support::fleet::{claim, create};
use test_support::{LIMIT, until, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_grows_to_five_and_shrinks_to_three_under_load() {
    let mut world = World::of(1).await;
    let stop = Arc::new(AtomicBool::new(false));
    let node = world.node(1).clone();
    let stopped = stop.clone();
    let load = tokio::spawn(async move {
        let mut done = 0;
        while !stopped.load(Ordering::Relaxed) {
            let id = format!("item-{done}");
            let created = ask(&node, request("ada", create(&id))).await;
            assert!(matches!(created, Outcome::Created { created: true, .. }), "{created:?}");
            let granted = ask(&node, request("ada", claim(&id, Span::secs(600)))).await;
            assert!(granted.grant().is_some(), "{granted:?}");
            done += 1;
        }
        done
    });
    for node in 2..=5 {
        world.join(node).await;
    }
    for gone in [5, 4] {
        let leader = world.leader().await;
        if leader == gone {
            within("a transfer", world.node(leader).transfer(Some(1), LIMIT)).await.unwrap();
        }
        let leader = world.leader().await;
        within("it leaves", world.node(leader).remove(gone)).await.unwrap();
        within("and may leave again", world.node(leader).remove(gone)).await.unwrap();
        world.kill(gone).await;
    }
    stop.store(true, Ordering::Relaxed);
    let done = within("the load ends", load).await.unwrap();
    assert!(done > 10, "only {done}");
    world.agree().await;
    let voters: Vec<_> = world.node(1).membership().voter_ids().collect();
    assert_eq!(voters, [1, 2, 3]);
    assert_eq!(world.node(3).store().read(|state, _| state.live_items()).unwrap(), done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_may_be_repeated() {
    let world = World::of(3).await;
    let leader = world.leader().await;
    let node = world.node(leader);
    for (id, member) in node.membership().nodes() {
        node.add_learner(*id, member.clone()).await.unwrap();
        node.promote(*id, LIMIT).await.unwrap();
    }
    let again = node.membership().nodes().map(|(id, member)| (*id, member.clone())).collect();
    node.bootstrap(again).await.unwrap();
    assert_eq!(node.membership().voter_ids().count(), 3);
    let follower = world.node(world.follower().await);
    assert_eq!(follower.remove(leader).await, Err(ChangeError::NotLeader(Some(leader))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_replaces_another() {
    let mut world = World::of(3).await;
    world.ask(1, "ada", create("a")).await;
    let leader = world.leader().await;
    let old = world.follower().await;
    world.kill(old).await;
    world.join(4).await;
    world.node(leader).remove(old).await.unwrap();
    world.agree().await;
    assert!(!world.node(4).membership().voter_ids().any(|voter| voter == old));
    assert_eq!(world.node(4).store().read(|state, _| state.live_items()).unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_node_stays_out_even_with_join() {
    let mut world = World::of(3).await;
    let leader = world.leader().await;
    let gone = world.follower().await;
    world.node(leader).remove(gone).await.unwrap();
    world.kill(gone).await;
    // It has moved, so it contacts the cluster; and it may not know that it was removed.
    world.forget_address(gone);
    let seeds = world.daemons.values().map(|daemon| daemon.member().peer_address.clone()).collect();
    world.start(gone, Start::Join(seeds)).await;
    for number in 0..30 {
        world.ask(leader, "ada", create(&format!("item-{number}"))).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(world.node(leader).membership().get_node(&gone).is_none());
}

/// Raft keeps the addresses from the start of a leadership: the leader once sent to the old one until it was replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_finds_a_node_that_moved() {
    // Long timeouts, so that a busy machine does not cause an election.
    let patient =
        RaftSettings { election_min: Duration::from_secs(4), election_max: Duration::from_secs(6), ..quick() };
    let mut world = World::with(3, patient).await;
    let leader = world.leader().await;
    let leadership = world.leadership(leader).await;
    let moved = world.follower().await;
    world.kill(moved).await;
    world.forget_address(moved);
    world.restart(moved).await;
    world.ask(leader, "ada", create("a")).await;
    let applied = world.node(leader).hub().current().applied;
    until("it has caught up", async || world.node(moved).hub().current().applied >= applied).await;
    assert_eq!(world.leadership(leader).await, leadership, "no other leadership has found it");
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_node_cannot_reuse_its_id() {
    let mut world = World::of(3).await;
    let victim = world.follower().await;
    world.kill(victim).await;
    let settings = world.settings(victim, Start::Join(vec![]));
    std::fs::remove_dir_all(&settings.directory).unwrap();
    let seeds = world.daemons.values().map(|daemon| daemon.member().peer_address.clone()).collect();
    let refused = within("an answer", Daemon::start(world.settings(victim, Start::Join(seeds)))).await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("new id"), "{why}");
    let refused = Daemon::start(world.settings(9, Start::Again)).await;
    assert!(refused.unwrap_err().to_string().contains("--join"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_id_cannot_be_reused_with_an_empty_directory() {
    let mut world = World::of(3).await;
    let leader = world.leader().await;
    let gone = world.follower().await;
    world.node(leader).remove(gone).await.unwrap();
    world.kill(gone).await;
    std::fs::remove_dir_all(world.settings(gone, Start::Join(vec![])).directory).unwrap();
    // Whoever leads, and whatever was started again: it is in the state.
    for _ in 0..2 {
        let leader = world.leader().await;
        let seeds = world.daemons.values().map(|daemon| daemon.member().peer_address.clone()).collect();
        let refused = within("an answer", Daemon::start(world.settings(gone, Start::Join(seeds)))).await;
        let why = refused.unwrap_err().to_string();
        assert!(why.contains(&format!("node {gone} was removed")) && why.contains("never used"), "{why}");
        assert!(world.node(leader).membership().get_node(&gone).is_none());
        world.kill(leader).await;
        world.restart(leader).await;
    }
}

/// A repeat while the first request is in progress must not be answered with "was removed".
#[tokio::test(flavor = "multi_thread")]
async fn adding_a_node_twice_concurrently_succeeds() {
    let world = World::of(3).await;
    let leader = world.leader().await;
    let node = world.node(leader);
    for id in 10..40 {
        let add = || node.add_learner(id, Member { peer_address: "127.0.0.1:1".into(), ..Member::default() });
        let (first, second, third) = tokio::join!(add(), add(), add());
        assert_eq!((first, second, third), (Ok(()), Ok(()), Ok(())), "node {id}");
        node.remove(id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_directory_under_a_members_id_is_refused() {
    let world = World::of(3).await;
    let leader = world.leader().await;
    let node = world.node(leader);
    let stranger = Member { peer_address: "127.0.0.1:1".into(), api_address: String::new(), instance: 1 };
    let refused = node.add_learner(world.follower().await, stranger).await.unwrap_err();
    assert!(matches!(&refused, ChangeError::Refused(why) if why.contains("another directory")), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_voter_is_not_removed_and_an_unknown_node_gets_no_vote() {
    let world = World::of(1).await;
    assert!(matches!(world.node(1).remove(1).await, Err(ChangeError::Refused(_))));
    assert!(matches!(world.node(1).promote(7, LIMIT).await, Err(ChangeError::Refused(_))));
    assert_eq!(world.node(1).remove(7).await, Ok(()));
    assert!(matches!(world.node(1).transfer(None, LIMIT).await, Err(ChangeError::Refused(_))));
    until("it leads", async || world.node(1).leader() == Some(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_raised_only_when_every_member_knows_them() {
    let mut world = World::of(3).await;
    let leader = world.leader().await;
    let current = lease::bounds::RULES_VERSION;
    assert_eq!(world.node(leader).cannot_follow(current).await, [0_u64; 0]);
    assert_eq!(world.node(leader).cannot_follow(current + 1).await, [1, 2, 3]);
    let silent = world.follower().await;
    world.kill(silent).await;
    assert_eq!(world.node(leader).cannot_follow(current).await, [silent], "silence is no consent");
}

/// A leader that died in the middle of a change once left the next one with two sets of voters for ever: then the loss
/// of one of three nodes stopped the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_done_change_is_finished_by_the_next_leader() {
    let world = World::of(3).await;
    world.lead(1).await;
    // Answered, so all before it is committed: the change before this one, too, or this one could not begin.
    world.ask(1, "ada", create("a")).await;
    for node in [2, 3] {
        world.gates[&node].shut();
    }
    let raft = world.node(1).raft().clone();
    let removing =
        tokio::spawn(async move { raft.change_membership(ChangeMembers::RemoveVoters([3].into()), false).await });
    let sets = |node| world.node(node).membership().get_joint_config().clone();
    until("the change has begun", async || sets(1).len() == 2).await;
    removing.abort();
    assert!(removing.await.unwrap_err().is_cancelled(), "it is half done, and nobody is left to finish it");
    for node in [2, 3] {
        world.gates[&node].open();
    }
    until("it is finished", async || [1, 2].into_iter().all(|node| sets(node) == [BTreeSet::from([1, 2])])).await;
}
