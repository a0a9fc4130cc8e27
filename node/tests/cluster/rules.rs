//! Builds that know different rules, side by side.

use crate::world::World;
use lease::names::RequestId;
use lease::{Outcome, Refusal};
use node::daemon::{Daemon, Start};
use node::replica::change::ChangeError;
use raft_store::types::NodeId;
use test_support::fleet::{caller, create};
use test_support::within;

async fn raise(world: &World, node: NodeId, version: u32, id: &str) -> Result<Outcome, ChangeError> {
    world.admin(node).raise_rules(version, caller("root"), RequestId::new(id).unwrap()).await
}

fn rules(world: &World) -> Vec<u32> {
    world.nodes().map(|node| node.store().read(|state, _| state.rules_version()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_raised_only_after_the_last_old_build_is_gone() {
    let mut world = World::knowing(3, 2).await;
    world.known_rules = 1;
    world.join(4).await;
    let asked = (1..=3).find(|node| world.node(*node).leader() != Some(*node)).unwrap();
    world.ask(4, "ada", create("before")).await;

    let refused = raise(&world, asked, 2, "r1").await.unwrap_err();
    assert!(matches!(&refused, ChangeError::Refused(why) if why.contains("node 4 knows rules up to 1")), "{refused}");
    world.agree().await;
    assert_eq!(rules(&world), [1; 4]);

    world.kill(4).await;
    let refused = raise(&world, asked, 2, "r2").await.unwrap_err();
    assert!(matches!(&refused, ChangeError::Refused(why) if why.contains("node 4 did not answer")), "{refused}");

    world.known_rules = 2;
    world.restart(4).await;
    world.leader().await;
    assert_eq!(raise(&world, asked, 2, "r3").await, Ok(Outcome::RulesRaised { version: 2 }));
    world.ask(4, "ada", create("after")).await;
    world.agree().await;
    assert_eq!(rules(&world), [2; 4]);
    let status = world.admin(4).status().await.unwrap();
    assert_eq!((status.rules_version, status.members.len()), (2, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_does_not_know_the_rules_is_refused_and_logs_it() {
    let mut world = World::knowing(3, 2).await;
    let raised = raise(&world, 1, 2, "r1").await.unwrap();
    assert_eq!(raised, Outcome::RulesRaised { version: 2 });
    world.agree().await;

    world.known_rules = 1;
    let refused = within("an answer", Daemon::start(world.settings(5, world.seeds()))).await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("the cluster uses rules 2, node 5 knows rules up to 1: upgrade it"), "{why}");

    // Its state has the new rules on disk, or its log brings them again: it stops at either.
    for is_flushed in [true, false] {
        let leader = world.leader().await;
        let old = world.follower().await;
        let daemon = world.daemons.remove(&old).unwrap();
        if is_flushed {
            within("it stops", daemon.stop()).await
        } else {
            daemon.abandon().await
        }
        world.known_rules = 1;
        let refused = within("an answer", Daemon::start(world.settings(old, Start::Again))).await;
        let why = refused.unwrap_err().to_string();
        assert!(why.contains("upgrade this node"), "{why}");
        assert!(matches!(world.ask(leader, "ada", create(&format!("{old}"))).await, Outcome::Created { .. }));
        world.known_rules = 2;
        world.restart(old).await;
        world.leader().await;
        world.agree().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_and_older_rules_are_refused_and_the_current_ones_may_be_raised_again() {
    let world = World::knowing(3, 2).await;
    let refused = raise(&world, 1, 3, "r1").await.unwrap_err();
    for name in ["node 1 knows rules up to 2", "node 2 knows rules up to 2", "node 3 knows rules up to 2"] {
        assert!(refused.to_string().contains(name), "{refused}");
    }
    for id in ["r2", "r3"] {
        assert_eq!(raise(&world, 2, 2, id).await, Ok(Outcome::RulesRaised { version: 2 }));
    }
    let lower = raise(&world, 3, 1, "r4").await.unwrap();
    assert!(matches!(lower, Outcome::Refused(Refusal::Invalid { .. })), "{lower:?}");
    let mut stranger = caller("mallory");
    stranger.rights.clear();
    let refused = world.admin(1).raise_rules(2, stranger, RequestId::new("r5").unwrap()).await.unwrap();
    assert!(matches!(refused, Outcome::Refused(Refusal::Forbidden { .. })), "{refused:?}");
}
