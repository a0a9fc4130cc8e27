//! Time is in the log: leases when leaders change and disks stall.

use crate::cut::Relays;
use crate::world::{World, quick};
use lease::command::Renew;
use lease::encoding::decode;
use lease::names::SpaceName;
use lease::numbers::{Span, Time};
use lease::record::Key;
use lease::views::IfClaimed;
use lease::{Command, Outcome};
use raft_store::state::disk::StateDisk;
use std::time::Duration;
use test_support::fleet::{caller, create, item};
use test_support::{LIMIT, until, within};

/// When the lease on an item ends, according to this node's disk; `None` if it is not held.
fn expires_at(world: &World, node: u64, id: &str) -> Option<Time> {
    let (viewer, space, store) = (caller("op"), SpaceName::fallback(), world.node(node).store());
    let view = store.read(|state, archive| state.view_item(archive, &viewer, &space, &item(id), IfClaimed::Return));
    let bytes = store.disk().get(&Key::Expiry(view.unwrap().unwrap().no).encode()).unwrap();
    bytes.map(|bytes| decode(&bytes).unwrap())
}

/// etcd9395: leases restarted at full length on every leader change.
#[tokio::test(flavor = "multi_thread")]
async fn etcd9395_a_leases_remaining_time_survives_five_leader_changes() {
    let world = World::of(3).await;
    world.ask(1, "ada", create("a")).await;
    world.claim(1, "ada", "a", Span::secs(300)).await;
    let (at, now) = (expires_at(&world, 1, "a").unwrap(), world.node(1).hub().current().now);
    assert!(now.until(at) <= Span::secs(300));
    for _ in 0..5 {
        let leader = world.leader().await;
        within("a transfer", world.node(leader).transfer(None, LIMIT)).await.unwrap();
        world.leader().await;
        world.ask(1, "bob", create("noise")).await;
    }
    world.agree().await;
    for node in 1..=3 {
        assert_eq!(expires_at(&world, node, "a"), Some(at), "on node {node}");
        assert!(world.node(node).hub().current().now > now, "time went on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_holders_item_is_free_after_its_lease_without_a_request() {
    let world = World::of(3).await;
    world.ask(1, "ada", create("a")).await;
    world.claim(1, "ada", "a", Span::secs(5)).await;
    world.agree().await;
    until("the lease has lapsed", async || expires_at(&world, 2, "a").is_none()).await;
    let outcome = world.ask(2, "bob", test_support::fleet::claim("a", Span::secs(30))).await;
    assert!(outcome.grant().is_some(), "{outcome:?}");
}

/// No holder can renew while the nodes do not reach each other, and the leader may still lead when they do again.
/// `CUT_SECONDS=60` was run as well.
#[tokio::test(flavor = "multi_thread")]
async fn time_without_a_quorum_is_not_charged_to_holders() {
    let cut_for = std::env::var("CUT_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(12);
    let mut world = World::empty(quick());
    let relays = Relays::between(&mut world, 3).await;
    world.lead(1).await;
    world.ask(1, "ada", create("a")).await;
    let token = world.claim(1, "ada", "a", Span::secs(5)).await;
    let before = world.node(1).hub().current().now;
    let leadership = world.leadership(1).await;
    relays.cut();
    tokio::time::sleep(Duration::from_secs(cut_for)).await;
    relays.heal();
    let renewed = world.ask(1, "ada", Command::Renew(Renew { item: item("a"), token, lease_for: None })).await;
    let charged = before.until(world.node(1).hub().current().now);
    let survived = world.leadership(1).await == leadership;
    assert!(
        matches!(renewed, Outcome::Renewed { .. }),
        "{charged:?} charged, same leadership: {survived}: {renewed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_nothing_alive_nothing_is_written() {
    let world = World::of(3).await;
    let leader = world.leader().await;
    world.agree().await;
    let before = world.last_index(leader);
    // Twenty rounds of the leader's timer, and a heartbeat between each.
    for _ in 0..20 {
        tokio::time::sleep(node::replica::clock::OBSERVED_EVERY).await;
    }
    assert_eq!(world.last_index(leader), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_lost_in_a_leader_change_is_answered_when_repeated() {
    let mut world = World::of(3).await;
    world.ask(1, "ada", create("a")).await;
    let token = world.claim(1, "ada", "a", Span::secs(120)).await;
    let leader = world.leader().await;
    world.kill(leader).await;
    let node = *world.daemons.keys().next().unwrap();
    let renew = Command::Renew(Renew { item: item("a"), token, lease_for: None });
    let outcome = world.ask(node, "ada", renew).await;
    assert!(matches!(outcome, Outcome::Renewed(_)), "{outcome:?}");
}
