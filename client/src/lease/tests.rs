//! Tests of one lease, with simulated time and scripted nodes.

use super::*;
use crate::fake::{Asked, Fake, Says, item};
use api::Code;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

pub(crate) fn granted(expires_in_ms: u64) -> Says {
    Says::Ok(json!({
        "outcome": "granted", "item": "disk", "token": 17, "expires_in_ms": expires_in_ms, "expires_at_ms": 1,
        "expires_at": "2026-01-01T00:00:00Z", "lease_for_ms": 30_000, "cut": false, "renewed": false,
        "claimed_at_ms": 1, "claimed_at": "2026-01-01T00:00:00Z", "originally_claimed_at_ms": 1,
        "originally_claimed_at": "2026-01-01T00:00:00Z", "line_length": 0, "cancel_requested": false,
    }))
}

pub(crate) fn renewed(expires_in_ms: u64, cancel_requested: bool) -> Says {
    Says::Ok(json!({
        "item": "disk", "token": 17, "expires_in_ms": expires_in_ms, "expires_at_ms": 1,
        "expires_at": "2026-01-01T00:00:00Z", "renew_after_ms": expires_in_ms / 3, "line_length": 2,
        "cancel_requested": cancel_requested, "drain": false,
    }))
}

pub(crate) fn released() -> Says {
    Says::Ok(json!({ "item": "disk", "released": true, "unassigned": true }))
}

fn moved() -> Value {
    json!({ "item": "disk", "state": "complete", "revision": "0.9" })
}

pub(crate) fn is(asked: &Asked, verb: &str) -> bool {
    asked.what.ends_with(verb)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) async fn held(fake: &Fake) -> Lease {
    fake.client(&["a", "b"]).claim(&item("disk")).try_claim().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn leases_renew_after_a_third_and_count_from_when_the_request_was_sent() {
    let fake =
        Fake::with([granted(30_000)], |asked| if is(asked, "renew") { renewed(30_000, false) } else { released() });
    let lease = held(&fake).await;
    assert_eq!(lease.valid_until(), Moment(Duration::from_millis(29_700)));
    sleep(secs(11)).await;
    assert_eq!(fake.log()[1].after, secs(10));
    assert_eq!(lease.valid_until(), Moment(Duration::from_millis(39_700)));
    assert_eq!((lease.line_length(), lease.lost()), (2, None));
    sleep(secs(3_600)).await;
    assert!(!lease.cancelled().is_cancelled());
    let client = lease.client.clone();
    drop(lease);
    client.settled().await;
    assert!(is(fake.log().last().unwrap(), "release"));
    let asked = fake.log().len();
    sleep(secs(100)).await;
    assert_eq!(fake.log().len(), asked, "a dropped lease is not renewed");
}

#[tokio::test(start_paused = true)]
async fn consul912_renewals_that_fail_are_tried_until_the_lease_is_over_and_never_after() {
    for failure in
        [Says::Refuses, Says::Drops, Says::Hangs, Says::Problem(Code::Unavailable), Says::Status(502, json!(""))]
    {
        let fails = failure.clone();
        let fake = Fake::with([granted(30_000)], move |_| fails.clone());
        let lease = held(&fake).await;
        lease.cancelled().cancelled().await;
        assert_eq!(lease.client.clock().now(), Moment(Duration::from_millis(29_700)), "{failure:?}");
        assert_eq!(lease.why_lost().await, Lost::Lapsed);
        assert_eq!(lease.remaining(), Duration::ZERO);
        let log = fake.log();
        assert!(log.len() >= 4, "{failure:?}: tried {} times", log.len());
        sleep(secs(60)).await;
        let late = fake.log().into_iter().filter(|asked| asked.after > Duration::from_millis(29_700));
        assert_eq!(late.filter(|asked| is(asked, "renew")).count(), 0, "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn consul912_one_renewal_that_failed_is_forgotten_once_one_succeeds() {
    let script = [granted(30_000), Says::Problem(Code::Unavailable), Says::Drops, Says::Problem(Code::Unauthenticated)];
    let fake = Fake::with(script, |_| renewed(30_000, false));
    let lease = held(&fake).await;
    sleep(secs(120)).await;
    assert_eq!(lease.lost(), None);
}

#[tokio::test(start_paused = true)]
async fn dynamolock280_a_lost_renewal_answer_does_not_lose_the_lease() {
    let fake = Fake::with([granted(30_000), Says::Drops, Says::Hangs], |_| renewed(30_000, false));
    let lease = held(&fake).await;
    sleep(secs(20)).await;
    assert_eq!(lease.lost(), None);
    let renewals: Vec<_> = fake.log().into_iter().filter(|asked| is(asked, "renew")).collect();
    assert!(renewals.iter().all(|asked| asked.body["token"] == 17));
    assert!(lease.valid_until() > Moment(secs(40)));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_through_its_lease_notices_when_it_wakes() {
    let fake = Fake::with([granted(30_000)], |_| Says::Hangs);
    let lease = held(&fake).await;
    sleep(secs(5)).await;
    fake.sleep_machine(secs(3_600));
    let woke = Instant::now();
    lease.cancelled().cancelled().await;
    assert!(woke.elapsed() <= secs(1));
    assert_eq!(lease.lost(), Some(Lost::Lapsed));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_through_its_lease_does_not_renew_it() {
    // The clock is read every second for the end of the lease, and at 19.7 s for the second renewal, which comes first.
    let fake = Fake::with([granted(30_000)], |_| renewed(29_100, false));
    let lease = held(&fake).await;
    sleep(Duration::from_millis(19_500)).await;
    fake.sleep_machine(secs(3_600));
    lease.cancelled().cancelled().await;
    assert_eq!(lease.lost(), Some(Lost::Lapsed));
    assert_eq!(lease.client.clock().now(), Moment(secs(3_600) + Duration::from_millis(19_700)));
    assert_eq!(fake.asked().iter().filter(|asked| asked.contains("renew")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_gone_stops_the_work_at_once_and_says_why() {
    for (state, claimed, why) in
        [("cancelled", false, Lost::Cancelled), ("queued", false, Lost::Revoked), ("active", true, Lost::Replaced)]
    {
        let shown = json!({
            "id": "disk", "queue": "ops", "state": state, "revision": "0.9", "attempts": 0, "since_ms": 1,
            "since": "2026-01-01T00:00:00Z", "claimed": claimed, "line_length": 0, "cancel_requested": false,
            "title": "", "priority": 5, "labels": [], "needs": [], "mode": "any", "created_by": "bob",
            "created_at_ms": 1, "created_at": "2026-01-01T00:00:00Z",
        });
        let fake = Fake::with([granted(30_000), Says::Problem(Code::LeaseLost)], move |asked| {
            if asked.what.contains("carrying") {
                return Says::Ok(json!({ "assigned": [], "leased": [], "reserved": [] }));
            }
            Says::Ok(shown.clone())
        });
        let lease = held(&fake).await;
        lease.cancelled().cancelled().await;
        assert_eq!(fake.log()[1].after, secs(10));
        assert_eq!(lease.client.clock().now(), Moment(secs(10)));
        assert_eq!(lease.why_lost().await, why);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_request_shortens_the_lease() {
    let fake = Fake::with([granted(900_000), renewed(30_000, true)], |_| renewed(15_000, true));
    let lease = held(&fake).await;
    lease.wind_down().cancelled().await;
    assert!(lease.cancel_requested());
    assert_eq!(lease.client.clock().now(), Moment(secs(300)));
    assert_eq!(lease.valid_until(), Moment(secs(300) + Duration::from_millis(29_700)));
}

#[tokio::test(start_paused = true)]
async fn work_stops_before_its_lease_is_released() {
    let fake = Fake::with([granted(30_000), Says::Hangs], |_| released());
    let lease = held(&fake).await;
    let stop = lease.cancelled();
    let releasing = tokio::spawn(async move { lease.release().await });
    while fake.log().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(stop.is_cancelled());
    releasing.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_completion_is_repeated_and_takes_effect_once() {
    let fake = Fake::with([granted(3_600_000)], |_| Says::Drops);
    let lease = held(&fake).await;
    let Err(Error::Unknown { request_id, .. }) = lease.complete(Some("done".into())).await else { panic!("unknown") };
    let log = fake.log();
    assert_eq!(log.last().unwrap().key.as_deref(), Some(request_id.as_str()));
    assert_eq!(lease.lost(), None, "the lease is kept until it is answered");

    let fake = Fake::new([granted(3_600_000), Says::Ok(moved())]);
    let lease = held(&fake).await;
    lease.complete(None).await.unwrap();
    assert_eq!((lease.lost(), lease.why_lost().await), (Some(Lost::GivenBack), Lost::GivenBack));
    let client = lease.client.clone();
    drop(lease);
    client.settled().await;
    assert_eq!(fake.log().len(), 2, "nothing is left to release");
}

/// The token prevents a second completion. With the forgotten id it would be refused for ever.
#[tokio::test(start_paused = true)]
async fn a_completion_with_a_forgotten_id_is_sent_with_a_new_id() {
    let fake = Fake::new([granted(3_600_000), Says::Drops, Says::Ok(moved())]);
    let lease = held(&fake).await;
    let asleep = fake.clone();
    tokio::spawn(async move { asleep.sleep_machine(Duration::from_secs(600)) });
    assert!(matches!(lease.complete(None).await, Err(Error::Unknown { .. })));
    lease.complete(None).await.unwrap();
    let log = fake.log();
    let told: Vec<_> = log.iter().filter(|asked| asked.what.ends_with("/complete")).collect();
    assert_eq!((told[0].retry_ms, told[1].retry_ms), (None, None));
    assert_ne!(told[0].key, told[1].key);
}
