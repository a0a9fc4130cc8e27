//! Holding leases over failing networks, with real clocks and real sockets.

use client::Lost;
use client::api::Code;
use client::api::words::ItemState;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use test_support::daemon::{Daemon, client_at, create};
use test_support::proxy::{Fate, Proxy};
use test_support::until;

const LEASE: Duration = Duration::from_secs(4);

/// Applies this fate to renewals; everything else passes.
fn renewals(fate: Fate) -> impl Fn(&str) -> Fate + Send + Sync {
    move |first| if first.contains("/renew") { fate } else { Fate::Passes }
}

#[tokio::test(flavor = "multi_thread")]
async fn consul912_renewals_are_tried_until_the_lease_is_over_and_never_after() {
    let daemon = Daemon::start().await;
    for (number, fate) in [Fate::IsDropped, Fate::IsNotAnswered].into_iter().enumerate() {
        let disk = create(&daemon.client("operator"), &format!("disk-{number}")).await;
        let proxy = Proxy::start(daemon.address, renewals(fate)).await;
        let client = client_at(proxy.address, "ada");
        let began = Instant::now();
        let lease = client.claim(&disk).lease_for(LEASE).try_claim().await.unwrap();
        lease.cancelled().cancelled().await;
        if fate == Fate::IsDropped {
            // Shortly before the lease ends.
            assert!(began.elapsed() < LEASE, "{:?}", began.elapsed());
            assert!(began.elapsed() > LEASE.mul_f64(0.95), "{:?}", began.elapsed());
            assert_eq!(lease.why_lost().await, Lost::Lapsed);
        }
        let tried = proxy.requests().iter().filter(|(first, _)| first.contains("/renew")).count();
        assert!(tried >= 3, "{fate:?}: tried {tried} times");
        // Nobody renews an expired lease: the item becomes stale, and then another holder gets it.
        let other = daemon.client("bob").claim(&disk).within(Duration::from_secs(30)).claim().await.unwrap();
        assert!(other.token() > lease.token());
        let late = proxy.requests();
        assert!(late.iter().all(|(first, _)| !first.contains("/renew")), "{late:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn consul912_a_lease_outlives_its_node_being_killed_and_started_again() {
    let mut daemon = Daemon::start().await;
    let disk = create(&daemon.client("operator"), "disk").await;
    let client = daemon.client("ada");
    let lease = client.claim(&disk).lease_for(Duration::from_secs(15)).try_claim().await.unwrap();
    for _ in 0..3 {
        let before = lease.valid_until();
        daemon.kill();
        daemon.again().await;
        until("it was renewed", async || lease.valid_until() > before).await;
    }
    assert_eq!(lease.lost(), None);
    assert_eq!(client.item(&disk).await.unwrap().state, ItemState::Active);
}

#[tokio::test(flavor = "multi_thread")]
async fn dynamolock280_lost_renewal_answers_do_not_lose_the_lease() {
    let daemon = Daemon::start().await;
    let disk = create(&daemon.client("operator"), "disk").await;
    // Two of three renewals take effect without an answer.
    let count = Arc::new(AtomicUsize::new(0));
    let lossy = count.clone();
    let proxy = Proxy::start(daemon.address, move |first| {
        let is_lost = first.contains("/renew") && lossy.fetch_add(1, Ordering::SeqCst) % 3 != 2;
        if is_lost { Fate::LosesItsAnswer } else { Fate::Passes }
    })
    .await;
    let client = client_at(proxy.address, "ada");
    let lease = client.claim(&disk).lease_for(LEASE).try_claim().await.unwrap();
    let token = lease.token();
    until("it was renewed twelve times", async || count.load(Ordering::SeqCst) >= 12).await;
    assert_eq!(lease.lost(), None);
    assert_eq!(client.item(&disk).await.unwrap().token, Some(token), "one lease, one token");
    lease.complete(None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_answer_is_lost_has_one_effect() {
    let daemon = Daemon::start().await;
    let disk = create(&daemon.client("operator"), "disk").await;
    let count = Arc::new(AtomicUsize::new(0));
    let lossy = count.clone();
    let proxy = Proxy::start(daemon.address, move |first| {
        // The first answer to each of the two commands is lost.
        let is_one = first.contains("/claim ") || first.contains("/complete ");
        let is_lost = is_one && lossy.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        if is_lost { Fate::LosesItsAnswer } else { Fate::Passes }
    })
    .await;
    let client = client_at(proxy.address, "ada");
    let lease = client.claim(&disk).try_claim().await.unwrap();
    lease.complete(Some("once".into())).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 4);
    let events = daemon.client("operator").events(&client::EventsQuery::default()).await.unwrap().events;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "granted").count(), 1, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "completed").count(), 1, "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_granted_in_order_and_those_that_leave_are_skipped() {
    let daemon = Daemon::start().await;
    let disk = create(&daemon.client("operator"), "disk").await;
    let first = daemon.client("ada").claim(&disk).try_claim().await.unwrap();
    let line_is = async |length: usize| {
        let client = daemon.client("operator");
        until("they stand in line", async || client.line(&disk).await.unwrap().places.len() == length).await;
    };
    let wait = |actor: &str| {
        let (client, disk) = (daemon.client(actor), disk.clone());
        tokio::spawn(async move { client.claim(&disk).claim().await.unwrap() })
    };
    let bob = wait("bob");
    line_is(1).await;
    let cas = wait("cas");
    line_is(2).await;
    bob.abort();
    line_is(1).await;
    first.release().await.unwrap();
    let second = cas.await.unwrap();
    assert!(second.token() > first.token());
    // A grant from the line lasts ten seconds, and the whole lease after its first renewal.
    until("it was picked up", async || second.remaining() > Duration::from_secs(600)).await;
    let client = daemon.client("dan");
    let holder = daemon.client("operator");
    let taken = client.claim(&disk).try_claim().await.unwrap_err();
    assert_eq!(taken.code(), Some(Code::AlreadyClaimed));
    drop(second);
    until("what was dropped is given back", async || !holder.item(&disk).await.unwrap().claimed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_lease_reports_the_reason() {
    use client::api::hold::Revoke;
    use client::api::write::Cancel;
    let daemon = Daemon::start().await;
    let operator = daemon.client("operator");
    let hold = async |name: &str| {
        let disk = create(&operator, name).await;
        let client = daemon.client("ada");
        client.claim(&disk).lease_for(Duration::from_secs(3)).try_claim().await.unwrap()
    };
    let revoked = hold("revoked").await;
    operator.revoke(revoked.item(), &Revoke { reason: "test".into(), assign_to: None }).await.unwrap();
    assert_eq!(revoked.why_lost().await, Lost::Revoked);
    let cancelled = hold("cancelled").await;
    operator.cancel(cancelled.item(), &Cancel { reason: String::new(), force: true }).await.unwrap();
    assert_eq!(cancelled.why_lost().await, Lost::Cancelled);
    let taken = hold("taken").await;
    let twin = daemon.client("ada").claim(taken.item()).takeover().try_claim().await.unwrap();
    assert_eq!(taken.why_lost().await, Lost::TakenOver);
    assert!(twin.token() > taken.token());
}
