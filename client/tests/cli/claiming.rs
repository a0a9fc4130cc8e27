//! Claims, leases and wait lines.

use crate::world::{Said, World};
use api::claim::{Claimed, Dispatched};
use api::hold::{Extended, Released, Renewed, RenewedAll, Reserved, Revoked, Withdrawn};
use api::item::ItemPage;
use api::line::Line;
use client::api;
use expect_test::expect;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::process::Child;
use test_support::until;

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
}

fn line_length(world: &World, item: &str) -> usize {
    world.says_json::<Line>(&format!("line {item}")).places.len()
}

#[tokio::test]
async fn a_claim_returns_its_token_and_a_second_claim_names_the_holder() {
    let world = World::start().await;
    world.adds("disk");
    world.says("claim disk --for 1h30m --action rotating").reads(&expect![[r#"
        item   disk
        queue  ops
        token  1
        left   1h30m
        until  DATE, AWAY
    "#]]);
    let renewed: Claimed = world.says_json("claim disk");
    assert!(matches!(renewed, Claimed::Granted(grant) if grant.renewed));
    let bob = world.tenure_as("bob", ["claim", "disk"]).said().ends_with(3);
    assert_eq!(bob.out, "");
    bob.complains(&expect![[r#"
        tenure: already_claimed: Item is already claimed; held by ada until DATE, AWAY; doing: rotating
                pass --wait to join the wait line; `tenure line` shows it
    "#]]);
    let bob = world.tenure_as("bob", ["claim", "disk", "--json"]).said().ends_with(3);
    assert_eq!(bob.problem().code, api::Code::AlreadyClaimed);
    world.tenure(["claim", "nothing"]).said().ends_with(4).complains(&expect![[r#"
        tenure: not_found: Not found, or not visible to this caller
                `tenure list` shows the items; is it in another --space?
    "#]]);
}

#[tokio::test]
async fn another_session_takes_over_only_with_takeover() {
    let world = World::start().await;
    world.adds("disk");
    world.says("--session one claim disk");
    world.tenure(["--session", "two", "claim", "disk"]).said().ends_with(3).complains(&expect![[r#"
        tenure: held_by_your_other_session: Item is held by another session of the same actor
                pass --takeover to end that lease, or --session to use its session
    "#]]);
    world.says("--session two claim disk --takeover");
    world.tenure(["--session", "one", "renew", "disk", "1"]).said().ends_with(5).complains(&expect![[r#"
        tenure: lease_lost: The lease has ended; held by ada until DATE, AWAY
                stop the work on it; `tenure show` shows its current state
    "#]]);
}

#[tokio::test]
async fn a_lease_is_renewed_extended_reserved_and_released() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    world.says("renew disk 1 --for 2h").reads(&expect![[r#"
        disk is yours for 2h, token 1
    "#]]);
    assert_eq!(world.says_json::<Renewed>("renew disk 1").token.0, 1);
    world.says("extend disk 1 1d").reads(&expect![[r#"
        disk is yours for 1d, token 1
    "#]]);
    assert!(!world.says_json::<Extended>("extend disk 1 1m").capped);
    world.says("renew --all").reads(&expect![[r#"
        1 lease is renewed, the first ends in 23h59m
    "#]]);
    assert_eq!(world.says_json::<RenewedAll>("renew --all").renewed, 1);
    world.says("reserve disk 1 --for 1h").reads(&expect![[r#"
        disk is reserved until DATE, AWAY
    "#]]);
    assert_eq!(world.claims("disk"), 2);
    let reserved: Reserved = world.says_json("reserve disk 2");
    assert_eq!(reserved.item.as_str(), "disk");
    world.claims("disk");
    world.says("release disk").reads(&expect![[r#"
        disk is released
    "#]]);
    world.says("release disk").reads(&expect![[r#"
        disk was not held: nothing to release
    "#]]);
    assert!(!world.says_json::<Released>("release disk 3").released);
}

#[tokio::test]
async fn all_leases_of_a_session_are_released() {
    let world = World::start().await;
    ["disk", "cable", "rack"].iter().for_each(|item| world.adds(item));
    world.claims("disk");
    world.says("claim cable");
    world.says("--session other claim rack");
    world.says("release --all").reads(&expect![[r#"
        2 leases are released
    "#]]);
    world.says("release --all").reads(&expect![[r#"
        there is no lease to release
    "#]]);
    assert_eq!((world.state("disk").as_str(), world.state("rack").as_str()), ("queued", "active"));
}

#[tokio::test]
async fn a_fencing_token_is_not_accepted_as_an_api_key() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    world.tenure(["renew", "disk", "--api-key", "1"]).said().ends_with(2).complains(&expect![[r#"
        tenure: 1 looks like a fencing token; pass it after the item: `tenure renew ITEM 1`. --api-key takes the API key
                `tenure help` lists the commands
    "#]]);
    // A person's own token is looked up. A program passes the token that it got.
    world.tenure(["renew", "disk"]).said().ends_with(0).complains(&expect![[r#"
        using token 1 of your lease
    "#]]);
    world.tenure(["renew", "disk", "--json"]).said().ends_with(2).complains(&expect![[r#"
        tenure: pass the fencing token after the item: the claim returned it, and `tenure mine` shows it
                `tenure help` lists the commands
    "#]]);
    world.tenure(["renew", "disk", "--session", "other"]).said().ends_with(3).complains(&expect![[r#"
        tenure: not_holder: you have no lease on this item in this session
                `tenure mine` shows what you hold; a lease belongs to an actor and a --session
    "#]]);
    // In the environment of `exec` the token belongs to its item and to no other.
    world.tenure(["renew"]).env("TENURE_ITEM", "disk").env("TENURE_TOKEN", "1").said().ends_with(0);
    world.tenure(["renew", "other"]).env("TENURE_ITEM", "disk").env("TENURE_TOKEN", "1").said().ends_with(4);
}

#[tokio::test]
async fn a_revoked_lease_is_lost_for_its_holder() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    world.says("revoke disk --reason maintenance").reads(&expect![[r#"
        disk: its lease is ended, it is queued
    "#]]);
    let again: Revoked = world.says_json("revoke disk --reason maintenance --assign-to bob");
    assert!(!again.revoked);
    world.tenure(["renew", "disk", "1"]).said().ends_with(5).complains(&expect![[r#"
        tenure: lease_lost: The lease has ended
                stop the work on it; `tenure show` shows its current state
    "#]]);
    let lost = world.tenure(["renew", "disk", "1", "--json"]).said().ends_with(5);
    assert_eq!(lost.problem().code, api::Code::LeaseLost);
}

#[tokio::test]
async fn a_waiter_gets_the_item_for_its_full_lease() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    let mut bob = world.tenure_as("bob", ["claim", "disk", "--wait", "--for", "1h"]).begins();
    let mut told = String::new();
    BufReader::new(bob.stderr.take().unwrap()).read_line(&mut told).unwrap();
    assert_eq!(told, "in line for disk: next, 1 waiting\n");
    world.says("line disk").reads(&expect![[r#"
        PLACE  WHO  SESSION  SINCE
        0      bob           DATE, AWAY
    "#]]);
    let eve = world.tenure_as("eve", ["claim", "disk", "--wait", "--line-max", "1"]).said().ends_with(3);
    eve.complains(&expect![[r#"
        tenure: line_too_long: Wait line is longer than the caller or the queue allows; 1 in line
                try again later
    "#]]);
    world.says("release disk");
    let bob = Said::new(bob.wait_with_output().unwrap()).ends_with(0);
    bob.reads(&expect![[r#"
        item   disk
        queue  ops
        token  2
        left   1h
        until  DATE, AWAY
    "#]]);
    // The grant was renewed: it lasts an hour, and not only the short pickup time.
    let bob: Claimed = world.tenure_as("bob", ["claim", "disk", "--json"]).said().ends_with(0).json();
    assert!(matches!(bob, Claimed::Granted(grant) if grant.renewed && grant.expires_in_ms > 60_000));
}

#[tokio::test]
async fn an_interrupted_wait_leaves_the_line() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    let bob = world.tenure_as("bob", ["claim", "disk", "--wait"]).begins();
    until("bob waits", async || line_length(&world, "disk") == 1).await;
    signal(&bob, Signal::INT);
    let bob = Said::new(bob.wait_with_output().unwrap()).ends_with(130);
    assert_eq!(bob.out, "");
    assert_eq!(line_length(&world, "disk"), 0);
}

#[tokio::test]
async fn a_wait_has_an_end_and_a_place_can_be_withdrawn() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    world.tenure_as("bob", ["claim", "disk", "--wait=50ms"]).said().ends_with(3).complains(&expect![[r#"
        tenure: wait_timeout: Timed out waiting in line
                try again later
    "#]]);
    let eve = world.tenure_as("eve", ["claim", "disk", "--wait"]).begins();
    until("eve waits", async || line_length(&world, "disk") == 1).await;
    world.tenure_as("eve", ["withdraw", "disk"]).said().ends_with(0).reads(&expect![[r#"
        left the line of disk
    "#]]);
    world.says("withdraw disk").reads(&expect![[r#"
        you were not in the line of disk
    "#]]);
    assert!(!world.says_json::<Withdrawn>("withdraw disk").withdrawn);
    // A caller that polls a place that is gone gets an error or joins the line again.
    signal(&eve, Signal::KILL);
    eve.wait_with_output().unwrap();
}

#[tokio::test]
async fn peek_shows_and_next_takes_the_next_item() {
    let world = World::start().await;
    world.says("add low --queue ops --priority 1");
    world.says("add high --queue ops --priority 9");
    world.says("peek ops --count 2").reads(&expect![[r#"
        ITEM  QUEUE  STATE  PRIO  HELD BY  LINE  SINCE  TITLE
        high  ops    queued  9                    DATE
        low   ops    queued  1                    DATE
    "#]]);
    assert_eq!(world.says_json::<ItemPage>("peek ops").items.len(), 1);
    world.says("next ops").reads(&expect![[r#"
        item   high
        queue  ops
        token  1
        left   15m
        until  DATE, AWAY
    "#]]);
    let next: Dispatched = world.says_json("next ops --count 5 --for 1h");
    assert!(matches!(next, Dispatched::Granted { grants } if grants.len() == 1));
    world.tenure(["next", "ops"]).said().ends_with(4).complains(&expect![[r#"
        tenure: ops has no item to grant: nothing_queued
    "#]]);
    world.tenure(["peek", "ops"]).said().ends_with(4).complains(&expect![[r#"
        tenure: ops has no item to grant
    "#]]);
    let empty = world.tenure(["next", "ops", "--json"]).said().ends_with(4);
    assert!(matches!(empty.json::<Dispatched>(), Dispatched::Empty { .. }));
}

#[tokio::test]
async fn a_waiting_next_gets_the_item_when_it_is_added() {
    let world = World::start().await;
    let next = world.tenure(["next", "ops", "--wait", "--json"]).begins();
    world.tenure(["next", "ops", "--wait=50ms"]).said().ends_with(4);
    world.adds("late");
    let next = Said::new(next.wait_with_output().unwrap()).ends_with(0);
    assert!(matches!(next.json::<Dispatched>(), Dispatched::Granted { grants } if grants[0].item.as_str() == "late"));
}

#[tokio::test]
async fn an_interrupted_next_holds_nothing() {
    let world = World::start().await;
    let next = world.tenure(["next", "ops", "--wait"]).begins();
    world.tenure(["next", "ops", "--wait=100ms"]).said().ends_with(4);
    signal(&next, Signal::TERM);
    let next = Said::new(next.wait_with_output().unwrap());
    // If the signal came before the handler was installed, the process was killed by it.
    assert!(next.code == 130 || next.code == -1, "{next:?}");
    world.adds("late");
    assert_eq!(world.state("late"), "queued");
}
