//! Operators' changes, through any node.

use crate::world::{World, request};
use lease::Outcome;
use node::daemon::Start;
use node::replica::change::ChangeError;
use node::replica::no_outcome::NoOutcome;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::types::{Member, NodeId};
use std::time::Duration;
use test_support::fleet::create;
use test_support::{LIMIT, until, within};

fn refusal<T: std::fmt::Debug>(result: Result<T, ChangeError>) -> String {
    match result {
        Err(ChangeError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

async fn ready(world: &World, node: NodeId) {
    let getting_ready = async { while world.admin(node).is_ready().await.is_err() {} };
    within("it is ready", getting_ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_through_a_follower_is_made_and_may_be_repeated() {
    let world = World::of(3).await;
    world.lead(1).await;
    let admin = world.admin(2);
    assert_eq!(admin.transfer(Some(3)).await, Ok(3));
    assert_eq!(world.leader().await, 3);
    assert_eq!(admin.transfer(Some(3)).await, Ok(3), "it leads already");
    let next = admin.transfer(None).await.unwrap();
    assert_ne!(next, 3);
    assert_eq!(world.leader().await, next);

    let follower = world.admin(world.follower().await);
    let nobody = Member { peer_address: "127.0.0.1:1".into(), api_address: String::new(), instance: 0 };
    for _ in 0..2 {
        assert_eq!(follower.add(9, nobody.clone()).await, Ok(()));
        until("it learns", async || world.nodes().all(|node| node.membership().learner_ids().any(|id| id == 9))).await;
    }
    assert!(refusal(follower.promote(9).await).contains("has not started yet"));
    assert!(refusal(follower.promote(8).await).contains("is not a member"));
    assert!(refusal(follower.transfer(Some(9)).await).contains("has no vote"));
    let taken = Member { instance: 1, ..nobody };
    assert!(refusal(follower.add(1, taken).await).contains("another directory"));
    for _ in 0..2 {
        assert_eq!(follower.remove(9).await, Ok(()));
        assert_eq!(follower.promote(1).await, Ok(()), "it has a vote already");
    }
    until("it is gone", async || world.nodes().all(|node| node.membership().get_node(&9).is_none())).await;
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_added_by_an_operator_joins_and_gets_its_vote() {
    let mut world = World::of(1).await;
    let announced = Member { peer_address: "127.0.0.1:1".into(), ..Member::default() };
    world.admin(1).add(2, announced).await.unwrap();
    world.join(2).await;
    let known = world.node(1).membership().get_node(&2).cloned().unwrap();
    assert_eq!(known, *world.daemons[&2].member());
    let again = Member { peer_address: known.peer_address.clone(), ..Member::default() };
    world.admin(2).add(2, again).await.unwrap();
    assert_eq!(world.node(1).membership().get_node(&2), Some(&known));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_removed_through_a_follower_and_by_itself() {
    let mut world = World::of(3).await;
    let first = world.leader().await;
    let asked = world.follower().await;
    for _ in 0..2 {
        assert_eq!(within("it goes", world.admin(asked).remove(first)).await, Ok(()));
    }
    assert!(world.node(asked).membership().get_node(&first).is_none());
    assert!(world.admin(first).is_ready().await.is_err(), "nobody should call it any more");
    world.kill(first).await;

    let second = world.leader().await;
    assert_eq!(within("it goes", world.admin(second).remove(second)).await, Ok(()));
    world.kill(second).await;
    let last = world.leader().await;
    assert_eq!(world.node(last).membership().voter_ids().collect::<Vec<_>>(), [last]);
    assert!(refusal(world.admin(last).remove(last).await).contains("last voter"));
    assert!(matches!(world.ask(last, "ada", create("a")).await, Outcome::Created { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_leader_a_change_is_neither_refused_nor_unknown() {
    let mut world = World::of(2).await;
    world.lead(2).await;
    world.kill(2).await;
    world.kill(1).await;
    world.restart(1).await;
    let unavailable = world.admin(1).remove(2).await;
    assert!(matches!(unavailable, Err(ChangeError::NotLeader(_))), "{unavailable:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_lists_every_member_and_marks_those_that_do_not_answer() {
    let mut world = World::of(3).await;
    let leader = world.leader().await;
    world.ask(leader, "ada", create("a")).await;
    world.agree().await;
    for node in 1..=3 {
        let status = world.admin(node).status().await.unwrap();
        assert_eq!((status.node, status.leader, status.cluster.len()), (node, Some(leader), 32));
        assert_eq!((status.rules_version, status.activated), (lease::bounds::RULES_VERSION, true));
        assert_eq!(status.members.iter().map(|member| member.id).collect::<Vec<_>>(), [1, 2, 3]);
        for member in &status.members {
            let report = member.report.as_ref().unwrap_or_else(|| panic!("{member:?}"));
            assert_eq!(report.role, if member.id == leader { "leader" } else { "follower" });
            assert_eq!((report.term, report.lag, report.known_rules), (status.term, Some(0), status.rules_version));
            assert!(member.votes && report.applied > Some(0) && report.failure.is_none() && !report.draining);
            assert_eq!(report.version, env!("CARGO_PKG_VERSION"));
            assert_eq!(member.peer_address, world.daemons[&member.id].member().peer_address);
        }
    }
    let gone = world.follower().await;
    world.kill(gone).await;
    for node in world.daemons.keys() {
        let status = world.admin(*node).status().await.unwrap();
        assert_eq!(status.members.len(), 3);
        for member in &status.members {
            assert_eq!(member.report.is_none(), member.id == gone, "{member:?}");
            assert_eq!(member.unreachable.is_some(), member.id == gone, "{member:?}");
        }
    }
    // There is no leader any more, and the asked node reports that.
    world.kill(leader).await;
    let alone = *world.daemons.keys().next().unwrap();
    let status = world.admin(alone).status().await.unwrap();
    assert_eq!(status.members.iter().filter(|member| member.report.is_some()).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_no_node_is_ready_and_with_one_it_is_again() {
    let mut world = World::of(3).await;
    for node in 1..=3 {
        ready(&world, node).await;
    }
    world.kill(1).await;
    world.kill(2).await;
    let why = within("an answer", world.admin(3).is_ready()).await.unwrap_err();
    assert!(why.kind.contains("quorum"), "{why}");
    assert_eq!(world.admin(3).is_healthy(), Ok(()), "it is not its fault");
    world.restart(1).await;
    ready(&world, 3).await;
    ready(&world, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_failed_is_neither_ready_nor_healthy() {
    let world = World::of(3).await;
    let node = world.follower().await;
    let _ = within("a panic in Raft", world.node(node).raft().with_raft_state(|_| panic!("on purpose"))).await;
    until("it knows", async || world.admin(node).is_healthy().is_err()).await;
    assert_eq!(world.admin(node).is_ready().await, world.admin(node).is_healthy());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_node_hands_over_refuses_callers_and_is_not_ready() {
    let world = World::of(3).await;
    let drained = world.leader().await;
    let refused = || async {
        let submitted = world.node(drained).submit(vec![request("ada", create("x"))], Duration::from_secs(5)).await;
        matches!(submitted, Err(NoOutcome::Unavailable(why)) if why.contains("draining"))
    };
    for _ in 0..2 {
        assert_eq!(within("it drains", world.admin(drained).drain()).await, Ok(()));
        assert!(refused().await && world.admin(drained).is_draining());
    }
    assert_ne!(world.leader().await, drained);
    assert_eq!(world.admin(drained).is_ready().await.unwrap_err().kind, "this node is draining");
    assert_eq!(world.admin(drained).is_healthy(), Ok(()));
    let other = world.leader().await;
    assert!(matches!(world.ask(other, "ada", create("a")).await, Outcome::Created { .. }));
    let status = world.admin(other).status().await.unwrap();
    for member in status.members {
        assert_eq!(member.report.unwrap().draining, member.id == drained);
    }
    world.admin(drained).undrain();
    ready(&world, drained).await;
    assert!(matches!(world.ask(drained, "ada", create("b")).await, Outcome::Created { .. }));
}

/// When no other node can lead, the commands of other nodes' callers must continue.
#[tokio::test(flavor = "multi_thread")]
async fn a_draining_leader_serves_the_other_nodes() {
    let world = World::of(2).await;
    world.lead(2).await;
    world.admin(1).drain().await.unwrap();
    world.admin(2).drain().await.unwrap_err();
    world.admin(1).undrain();
    assert_eq!(world.leader().await, 2);
    assert!(matches!(world.ask(1, "ada", create("a")).await, Outcome::Created { .. }));
    let alone = World::of(1).await;
    assert_eq!(alone.admin(1).drain().await, Ok(()));
    assert!(alone.admin(1).is_ready().await.is_err());
    alone.admin(1).undrain();
    assert!(matches!(alone.ask(1, "ada", create("a")).await, Outcome::Created { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reported_snapshot_exists() {
    let world = World::of(3).await;
    let follower = world.follower().await;
    for number in 0..3 {
        world.ask(follower, "ada", create(&format!("item-{number}"))).await;
        let applied = world.node(follower).hub().current().applied.unwrap().index;
        let taken = world.admin(follower).snapshot().await.unwrap();
        assert!(taken >= applied, "{taken} of {applied}");
        let known = world.node(follower).raft().metrics().borrow_watched().snapshot.unwrap();
        assert!(known.index >= taken);
        assert_eq!(std::fs::read_dir(world.snapshots_folder(follower)).unwrap().count(), 1, "the last one alone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn api_addresses_are_known_to_all_nodes_and_updated_when_they_change() {
    let mut world = World::of(3).await;
    for address in ["127.0.0.1:1111", "127.0.0.1:2222"] {
        let moved = world.follower().await;
        world.kill(moved).await;
        let mut settings = world.settings(moved, Start::Again);
        settings.api_address = address.into();
        world.start_with(settings).await;
        until("all know", async || {
            let known = |node: &node::peers::tokio_node::TokioNode| node.membership().get_node(&moved).cloned();
            world.nodes().all(|node| known(node).is_some_and(|member| member.api_address == address))
        })
        .await;
        world.leader().await;
        let status = world.admin(1).status().await.unwrap();
        assert!(status.members.iter().any(|member| member.id == moved && member.api_address == address));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_panics_stops_its_node_and_another_one_leads() {
    let mut world = World::of(3).await;
    let leader = world.leader().await;
    world.node(leader).keep("test", async { panic!("as a defect would") });
    until("the node has failed", async || world.daemons[&leader].failure().is_some()).await;
    let why = world.daemons[&leader].failure().unwrap();
    assert!(why.contains("`test`") && why.contains("as a defect would"), "{why}");
    world.kill(leader).await;
    let next = world.leader().await;
    world.ask(next, "ada", create("a")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_not_handed_to_a_draining_node() {
    let world = World::of(3).await;
    let leader = world.leader().await;
    let [draining, other] = [1, 2, 3].into_iter().filter(|node| *node != leader).collect::<Vec<_>>()[..] else {
        panic!("three nodes");
    };
    world.admin(draining).drain().await.unwrap();
    let refused = world.node(leader).transfer(Some(draining), LIMIT).await.unwrap_err();
    assert!(matches!(&refused, ChangeError::Refused(why) if why.contains("draining")), "{refused}");
    // The one with the longer log.
    for _ in 0..3 {
        let leader = world.leader().await;
        within("it hands over", world.admin(leader).drain()).await.unwrap();
        assert_ne!(world.leader().await, draining);
        world.admin(leader).undrain();
    }
    world.admin(leader).drain().await.unwrap();
    world.admin(other).drain().await.unwrap_err();
    assert_eq!(world.leader().await, other, "nobody else can lead, so it goes on");
}
