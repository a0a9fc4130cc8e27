//! Defects of other systems, named by their report, shown not to happen here.

use crate::world::{Threads, World, ask, request};
use lease::command::{Claim, ClaimMany, OnConflict, Renew};
use lease::item::NewItem;
use lease::names::SpaceName;
use lease::numbers::{Span, Token};
use lease::refusal::Refusal;
use lease::{Command, Entry, Outcome, record};
use node::peers::tokio_node::TokioNode;
use node::replica::no_outcome::NoOutcome;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use openraft::type_config::TypeConfigExt;
use raft_store::state::disk::StateDisk;
use raft_store::types::{OnTokio, Proposal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use test_support::fleet::{caller, claim, create, item, queue, release};
use test_support::{LIMIT, until, within};

/// Long enough to be renewed on a busy machine, short enough to be waited for.
const LEASE: Span = Span::secs(4);
const TWICE_THE_LEASE: Duration = Duration::from_millis(2 * LEASE.0);

fn renew(id: &str, token: Token) -> Command {
    Command::Renew(Renew { item: item(id), token, lease_for: None })
}

fn is_renewed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Renewed(_))
}

/// Leases that this node's disk has.
fn leases(node: &TokioNode) -> usize {
    let mut found = 0;
    let count = &mut |_: &[u8], _: &[u8]| {
        found += 1;
        true
    };
    node.store().disk().scan(&[record::EXPIRY], &[record::EXPIRY], count).unwrap();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd15247_a_disk_stall_longer_than_the_leases_ends_no_lease() {
    let world = World::of(1).await;
    let node = world.node(1);
    let ids: Vec<String> = (0..20).map(|number| format!("item-{number}")).collect();
    for id in &ids {
        world.ask(1, "ada", create(id)).await;
    }
    let claims = ids.iter().map(|id| request("ada", claim(id, LEASE))).collect();
    let granted = node.submit(claims, LIMIT).await.unwrap();

    let before = node.hub().current().now;
    world.gates[&1].shut();
    let stuck = Instant::now();
    let mut renewing = tokio::task::JoinSet::new();
    for (id, outcome) in ids.iter().zip(&granted) {
        let renewal = request("ada", renew(id, outcome.grant().unwrap().token));
        let node = node.clone();
        renewing.spawn(async move { ask(&node, renewal).await });
    }
    until("the disk stood still for twice the lease", async || stuck.elapsed() > TWICE_THE_LEASE).await;
    assert_eq!(node.hub().current().now, before, "nothing can have been applied");
    world.gates[&1].open();
    let outcomes = within("the renewals are answered", renewing.join_all()).await;
    let (stood, passed) = (stuck.elapsed(), before.until(node.hub().current().now));

    assert!(outcomes.iter().all(is_renewed), "{outcomes:?}");
    assert_eq!(leases(node), ids.len());
    assert!(passed < LEASE, "{passed:?} of cluster time passed while the disk stood still for {stood:?}");
    let withheld = node.clock().withheld();
    assert!(withheld > stood / 2, "{withheld:?} of {stood:?} were withheld");
    // Holders that are really gone still lose their leases.
    until("the leases lapse when nobody renews them", async || leases(node) == 0).await;
}

/// The followers have entries that the leader's disk lacks: a quorum without it.
#[tokio::test(flavor = "multi_thread")]
async fn etcd15247_a_leader_with_a_stalled_disk_prevents_no_renewal() {
    let world = World::of(3).await;
    let (leader, follower) = (world.leader().await, world.follower().await);
    world.ask(leader, "ada", create("a")).await;
    let token = world.claim(leader, "ada", "a", LEASE).await;
    world.gates[&leader].shut();
    let stuck = Instant::now();
    while stuck.elapsed() < TWICE_THE_LEASE {
        let outcome = world.ask(follower, "ada", renew("a", token)).await;
        assert!(is_renewed(&outcome), "{outcome:?} after {:?}", stuck.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.gates[&leader].open();
    let outcome = world.ask(leader, "ada", renew("a", token)).await;
    assert!(is_renewed(&outcome), "{outcome:?}");
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd12528_a_replaced_leader_ends_no_lease_when_it_resumes() {
    let mut world = World::of(3).await;
    let threads = Threads::new();
    world.kill(1).await;
    world.restart_on(1, &threads).await;
    world.lead(1).await;
    world.ask(2, "ada", create("a")).await;
    // Longer than an election, shorter than the limit for an answer.
    let lease_for = Span::secs(8);
    let token = world.claim(2, "ada", "a", lease_for).await;

    let stopped = threads.stop().await;
    let since = Instant::now();
    // It waits in the stopped leader, which still believes that it leads when it resumes.
    let bob = tokio::spawn({
        let node = world.node(1).clone();
        async move { ask(&node, request("bob", claim("a", lease_for))).await }
    });
    while since.elapsed() < Duration::from_millis(2 * lease_for.0) {
        let outcome = world.ask(2, "ada", renew("a", token)).await;
        assert!(is_renewed(&outcome), "{outcome:?} after {:?}", since.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(world.node(1).leader(), Some(1), "as far as it knows");
    assert_ne!(world.node(2).leader(), Some(1));
    drop(stopped);

    let refused = within("bob is answered", bob).await.unwrap();
    assert!(matches!(refused, Outcome::Refused(Refusal::AlreadyClaimed(_))), "{refused:?}");
    let outcome = world.ask(1, "ada", renew("a", token)).await;
    assert!(is_renewed(&outcome), "{outcome:?}");
    // It leads again, and does not count the time of its old leadership.
    world.lead(1).await;
    let outcome = world.ask(1, "ada", renew("a", token)).await;
    assert!(is_renewed(&outcome), "{outcome:?}");
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd12528_a_stamp_of_an_old_leadership_enters_no_new_log() {
    let world = World::of(3).await;
    world.lead(1).await;
    let old = world.leadership(1).await;
    world.lead(2).await;
    world.lead(1).await;
    assert!(world.leadership(1).await > old);
    world.ask(1, "ada", create("a")).await;
    let token = world.claim(1, "ada", "a", Span::secs(300)).await;
    let far = world.node(1).hub().current().now.after(Span::secs(3_600));

    // As Raft has it.
    let tick = Entry { at: far, ..Entry::default() };
    let (responder, answered) = ProgressResponder::complete_only();
    world.node(1).raft().write(Proposal::seal(&tick)).with_leader(old).responder(responder).await.unwrap();
    let answer = within("Raft answers", answered).await.unwrap();
    assert!(matches!(answer, Err(ClientWriteError::ForwardToLeader(_))), "{answer:?}");

    // As the proposer and the timer see it: the clock still has the old leadership's time.
    let clock = world.node(1).clock();
    clock.begin(old, far, OnTokio::now());
    let untaken = world.node(1).submit(vec![request("ada", renew("a", token))], Duration::from_millis(500)).await;
    assert!(matches!(untaken, Err(NoOutcome::Unavailable(_))), "{untaken:?}");
    clock.begin(world.leadership(1).await, world.node(1).hub().current().now, OnTokio::now());

    let outcome = world.ask(1, "ada", renew("a", token)).await;
    assert!(is_renewed(&outcome), "{outcome:?}");
    world.agree().await;
    for node in world.nodes() {
        assert!(node.hub().current().now < far, "{node:?} is at {:?}", node.hub().current().now);
    }
}

/// Observations while the leases expired: how many were left at which index.
struct Lapse {
    seen: Vec<(u64, usize)>,
    answered_meanwhile: u64,
}

/// Watches every chunk that a node applies until only this many leases are left.
async fn watch_lapse(node: TokioNode, all: usize, answered: Arc<AtomicU64>) -> Lapse {
    let mut progress = node.hub().progress();
    let (mut seen, mut answered_before) = (Vec::new(), None);
    loop {
        progress.changed().await.unwrap();
        // The two are of different moments: the leases are of this index or a later one.
        let index = progress.borrow_and_update().applied.unwrap().index;
        let left = leases(&node);
        if left < all {
            answered_before.get_or_insert(answered.load(Ordering::Relaxed));
        }
        seen.push((index, left));
        if left == 0 {
            let answered_meanwhile = answered.load(Ordering::Relaxed) - answered_before.unwrap_or_default();
            return Lapse { seen, answered_meanwhile };
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd9360_ten_thousand_leases_that_expire_at_once_delay_no_other_caller() {
    const ALL: usize = 10_000;
    let world = World::of(3).await;
    let leader = world.leader().await;
    let term = world.leadership(leader).await;
    let ids: Vec<String> = (0..ALL).map(|number| format!("item-{number}")).collect();
    for some in ids.chunks(1_000) {
        let items = some.iter().map(|id| NewItem::new(item(id), queue())).collect();
        world.ask(leader, "ada", Command::CreateMany(items)).await;
    }
    let claims = ids.chunks(1_000).map(|some| {
        let claims = some.iter().map(|id| Claim { lease_for: Some(LEASE), ..Claim::new(item(id)) }).collect();
        request("ada", Command::ClaimMany(ClaimMany { claims, releases: Vec::new(), all_or_none: true }))
    });
    // One submission is one entry: all end at the same moment.
    let claimed = world.node(leader).submit(claims.collect(), LIMIT).await.unwrap();
    assert!(claimed.iter().all(|claimed| matches!(claimed, Outcome::ClaimedMany { .. })));
    let answered = Arc::new(AtomicU64::new(0));
    let lapse = tokio::spawn(watch_lapse(world.node(leader).clone(), ALL, answered.clone()));

    let stop = Arc::new(AtomicBool::new(false));
    let mut others = tokio::task::JoinSet::new();
    for other in 0..8_u64 {
        let node = world.node(other % 3 + 1).clone();
        let (answered, stop) = (answered.clone(), stop.clone());
        others.spawn(async move {
            let actor = format!("other-{other}");
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let outcome = ask(&node, request(&actor, create(&format!("other-{other}-{number}")))).await;
                assert!(matches!(outcome, Outcome::Created { .. }), "{outcome:?}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let lapse = within("all have lapsed", lapse).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    within("the others end", others.join_all()).await;

    // No entry ends more than it may. What was counted is of the index it stands beside or of a later one, but not of
    // one behind the next that was seen.
    let steps = usize::try_from(lease::bounds::STEPS_PER_ENTRY).unwrap();
    for trio in lapse.seen.windows(3) {
        let [(first, left_before), (_, left), (last, _)] = trio else { unreachable!() };
        let entries = usize::try_from(last - first).unwrap();
        assert!(left_before.saturating_sub(*left) <= entries * steps, "{trio:?}");
    }
    assert!(lapse.answered_meanwhile >= 8, "{} others were answered meanwhile", lapse.answered_meanwhile);
    assert_eq!(world.leader().await, leader);
    assert_eq!(world.leadership(leader).await, term, "no election");
    world.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd11456_a_claim_without_its_place_in_line_is_granted_nothing() {
    let world = World::of(3).await;
    let (leader, follower) = (world.leader().await, world.follower().await);
    world.ask(leader, "ada", create("a")).await;
    let held = world.claim(leader, "ada", "a", Span::secs(300)).await;
    let waiting = |wait_for| {
        let on_conflict = OnConflict::Wait { wait_for, line_max: None };
        Command::Claim(Claim { on_conflict, lease_for: Some(Span::secs(30)), ..Claim::new(item("a")) })
    };
    // He asks once, gets his place, and never asks again.
    let bobs = request("bob", waiting(Some(Span::secs(1))));
    let outcome = ask(world.node(leader), bobs.clone()).await;
    assert!(matches!(outcome, Outcome::Waiting { place: 0, .. }), "{outcome:?}");
    let over = world.node(leader).hub().current().now.after(Span::secs(1));
    let cy = tokio::spawn({
        let (node, claim) = (world.node(follower).clone(), request("cy", waiting(None)));
        async move { node.call(claim, LIMIT, LIMIT).await.unwrap() }
    });
    let line = || {
        let (viewer, space) = (caller("op"), SpaceName::fallback());
        world.node(leader).store().read(|state, _| state.line(&viewer, &space, &item("a"))).unwrap().unwrap()
    };
    until("bob's time in line is over, and cy waits", async || {
        let mut waiters = line().into_iter().filter_map(|place| place.waiter);
        waiters.any(|waiter| waiter.actor == caller("cy").actor) && world.node(leader).hub().current().now >= over
    })
    .await;
    world.ask(leader, "ada", release("a", held)).await;

    let granted = within("cy is granted", cy).await.unwrap();
    assert_eq!(granted.grant().unwrap_or_else(|| panic!("{granted:?}")).token, Token(held.0 + 1), "nobody between");
    let outcome = ask(world.node(leader), bobs).await;
    assert!(matches!(outcome, Outcome::Refused(Refusal::WaitTimeout)), "{outcome:?}");
}

/// Taking one is made slow by what an interrupted one left behind, which goes first.
#[tokio::test(flavor = "multi_thread")]
async fn commands_are_answered_while_a_snapshot_is_taken() {
    let world = World::of(1).await;
    let node = world.node(1);
    let left_behind = world.snapshots_folder(1).join("making");
    std::fs::create_dir_all(&left_behind).unwrap();
    for number in 0..20_000 {
        std::fs::File::create(left_behind.join(number.to_string())).unwrap();
    }
    world.ask(1, "ada", create("first")).await;
    let snapshot = || node.raft().metrics().borrow_watched().snapshot;
    assert_eq!(snapshot(), None);
    node.raft().trigger().snapshot().await.unwrap();
    let mut answered = 0;
    while snapshot().is_none() {
        let outcome = world.ask(1, "ada", create(&format!("item-{answered}"))).await;
        assert!(matches!(outcome, Outcome::Created { .. }), "{outcome:?}");
        answered += 1;
    }
    assert!(answered >= 10, "only {answered} commands were answered while it was taken");
    assert!(!left_behind.exists());
}
