//! The longest possible answers, to callers of a node that does not lead.

use crate::world::{World, request};
use futures_util::future::join_all;
use lease::command::{Cancel, Claim, ClaimMany, Next, RenewAll};
use lease::item::NewItem;
use lease::names::Label;
use lease::numbers::Span;
use lease::{Command, Outcome, Request};
use node::peers::tokio_node::TokioNode;
use node::replica::no_outcome::NoOutcome;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;
use test_support::fleet::{claim, create, item, queue};
use test_support::{LIMIT, until, within};

const WORKERS: usize = 96;
const EACH: usize = 100;
/// Their cancelled leases, named in each answer, make up three frames.
const HEARTBEATS: usize = 1_000;
const CANCELLED: usize = 400;
/// At least this many of these answers fit into one frame.
const FIT: usize = 300;

/// Asks until there is an answer. Returns how often it asked.
async fn answered(node: TokioNode, mut asked: Request) -> (usize, Outcome) {
    for attempt in 1.. {
        if let Ok(mut outcomes) = node.submit(vec![asked.clone()], Duration::from_secs(10)).await {
            return (attempt, outcomes.pop().unwrap());
        }
        asked.attempt = lease::Attempt::Repeat;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    unreachable!("it asks until there is an answer")
}

fn long_id(number: usize) -> String {
    format!("{number:0>128}")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_worker_gets_its_grants_at_the_first_attempt() {
    let world = World::of(3).await;
    let (leader, follower) = (world.leader().await, world.follower().await);
    for number in 0..64 {
        world.ask(leader, "ada", create(&long_id(number))).await;
        let token = world.claim(leader, "ada", &long_id(number), Span::secs(60)).await;
        world.ask(leader, "ada", test_support::fleet::complete(&long_id(number), token)).await;
    }
    for batch in 0..WORKERS {
        let items = (0..EACH).map(|number| {
            let mut new = NewItem::new(item(&format!("item-{batch}-{number}")), queue());
            new.title = "t".repeat(500);
            new.labels = (0..32).map(|label| Label::new(&format!("{label:0>64}")).unwrap()).collect();
            new.depends_on = (0..64).map(|number| item(&long_id(number))).collect();
            new
        });
        let created = world.ask(leader, "ada", Command::CreateMany(items.collect())).await;
        let Outcome::CreatedMany(created) = created else { panic!("{created:?}") };
        assert!(created.iter().all(|one| matches!(one, Outcome::Created { created: true, .. })));
    }

    let asking = (0..WORKERS).map(|worker| {
        let next = Next { count: u32::try_from(EACH).unwrap(), ..Next::new(queue()) };
        answered(world.node(follower).clone(), request(&format!("worker-{worker}"), Command::Next(next)))
    });
    let answers = within("all are answered", join_all(asking)).await;

    let mut given = BTreeSet::new();
    for (_, outcome) in &answers {
        let grants = outcome.grants();
        assert_eq!(grants.len(), EACH, "{outcome:?}");
        assert!(grants.iter().all(|grant| grant.snapshot.is_some() && given.insert(grant.item.clone())));
    }
    let attempts: Vec<usize> = answers.iter().map(|(attempts, _)| *attempts).collect();
    assert!(attempts.iter().all(|attempts| *attempts == 1), "{attempts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_fit_is_unknown_only_to_its_caller() {
    let world = World::of(3).await;
    let (leader, follower) = (world.leader().await, world.follower().await);
    let ids: Vec<_> = (0..CANCELLED).map(|number| item(&long_id(number))).collect();
    let items = ids.iter().map(|id| NewItem::new(id.clone(), queue())).collect();
    world.ask(leader, "ada", Command::CreateMany(items)).await;
    let claims = ids.iter().map(|id| Claim { lease_for: Some(Span::secs(3_000)), ..Claim::new(id.clone()) }).collect();
    world.ask(leader, "ada", Command::ClaimMany(ClaimMany { claims, releases: Vec::new(), all_or_none: true })).await;
    for id in ids {
        world.ask(leader, "op", Command::Cancel(Cancel { item: id, reason: "enough".into(), force: false })).await;
    }

    // While one heartbeat waits for the leader's disk, all others queue up after it.
    world.gates[&leader].shut();
    let heartbeat = || request("ada", Command::RenewAll(RenewAll::default()));
    let node = world.node(follower).clone();
    let asking: Vec<_> = (0..HEARTBEATS).map(|_| answered(node.clone(), heartbeat())).collect();
    let asking = tokio::spawn(join_all(asking));
    let sent = || node.proposer().counts().forwarded.load(Ordering::Relaxed);
    until("the first is on its way", async || sent() > 0).await;
    world.gates[&leader].open();
    let answers = within("all are answered", asking).await.unwrap();

    for (_, outcome) in &answers {
        let Outcome::RenewedAll(all) = outcome else { panic!("{outcome:?}") };
        assert_eq!(all.cancel_requested.len(), CANCELLED);
    }
    let attempts: Vec<usize> = answers.iter().map(|(attempts, _)| *attempts).collect();
    let at_once = attempts.iter().filter(|attempts| **attempts == 1).count();
    assert!(
        at_once >= FIT,
        "{at_once} were answered at once, and others after up to {:?} attempts",
        attempts.iter().max()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_with_too_large_answers_is_refused_before_it_is_proposed() {
    let world = World::of(3).await;
    let follower = world.follower().await;
    world.ask(follower, "ada", create("a")).await;
    let next = || request("ada", Command::Next(Next { count: 100, ..Next::new(queue()) }));
    let refused = world.node(follower).submit((0..100).map(|_| next()).collect(), LIMIT).await.unwrap_err();
    assert!(matches!(refused, NoOutcome::TooLarge { what: "answers", .. }), "{refused:?}");
    let outcome = world.ask(follower, "bob", claim("a", Span::secs(60))).await;
    assert!(outcome.grant().is_some(), "nobody was given it: {outcome:?}");
}
