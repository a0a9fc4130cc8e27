//! Tests of a claim, with simulated time and scripted nodes.

use super::*;
use crate::fake::{Fake, Says, item};
use crate::lease::tests::{granted, held, is, released, renewed, secs};
use api::Code;
use serde_json::json;

fn waiting() -> Says {
    Says::Status(
        202,
        json!({ "outcome": "waiting", "item": "disk", "place": 0, "line_length": 1, "poll_within_ms": 30_000 }),
    )
}

#[tokio::test(start_paused = true)]
async fn grants_from_the_line_are_renewed_at_once() {
    let fake = Fake::with([waiting(), waiting(), granted(9_000)], |_| renewed(30_000, false));
    let lease = fake.client(&["a"]).claim(&item("disk")).claim().await.unwrap();
    sleep(Duration::from_millis(200)).await;
    let log = fake.log();
    assert_eq!(log.len(), 4);
    assert!(is(&log[3], "renew"));
    let keys: Vec<_> = log[..3].iter().map(|asked| asked.key.clone()).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "a place is kept by repeating one request");
    assert_eq!(lease.lost(), None);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_wait_leaves_the_line() {
    for (becomes, verb) in [(waiting(), "withdraw"), (granted(9_000), "release")] {
        let fake = Fake::with([waiting(), Says::Hangs, becomes], |asked| match asked.what.rsplit('/').next() {
            Some("withdraw") => Says::Ok(json!({ "item": "disk", "withdrawn": true })),
            _ => released(),
        });
        let client = fake.client(&["a"]);
        let waited = tokio::time::timeout(secs(10), client.claim(&item("disk")).claim()).await;
        assert!(waited.is_err());
        client.settled().await;
        let log = fake.log();
        assert_eq!(log[2].key, log[0].key);
        assert!(is(log.last().unwrap(), verb), "{log:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_or_the_end_of_the_wait_leaves_nothing_behind() {
    for code in [Code::WaitTimeout, Code::TerminalItem] {
        let fake = Fake::new([waiting(), Says::Problem(code)]);
        let client = fake.client(&["a"]);
        let error = client.claim(&item("disk")).within(secs(60)).claim().await.unwrap_err();
        assert_eq!(error.code(), Some(code));
        client.settled().await;
        assert_eq!(fake.log().len(), 2);
        assert_eq!(fake.log()[0].body["wait_for_ms"], 60_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_expired_before_its_answer_is_claimed_again_with_a_new_id() {
    let fake = Fake::with([Says::Drops, granted(0), granted(30_000)], |_| released());
    let _claim = held(&fake).await;
    let log = fake.log();
    assert_eq!(log[0].key, log[1].key);
    assert_ne!(log[1].key, log[2].key);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_polled_shows_its_place_and_keeps_one_id() {
    let script = [waiting(), Says::Problem(Code::Unavailable), waiting(), granted(9_000)];
    let fake = Fake::new(script);
    let request = fake.client(&["a"]).claim(&item("disk")).key("mine").first_poll(Duration::from_millis(200));
    let mut pending = request.pending(OnConflict::Wait).unwrap();
    assert!(matches!(pending.poll().await.unwrap(), ClaimProgress::Waiting(waiting) if waiting.place == 0));
    assert!(matches!(pending.poll().await.unwrap(), ClaimProgress::Waiting(_)));
    assert!(matches!(pending.poll().await.unwrap(), ClaimProgress::Granted { grant, .. } if grant.token.0 == 17));
    let log = fake.log();
    assert!(log.iter().all(|asked| asked.key.as_deref() == Some("mine")), "{log:?}");
    assert_eq!(log.iter().filter(|asked| asked.body["poll_ms"] == 200).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_under_the_callers_id_is_returned_and_nothing_is_given_up() {
    let fake = Fake::with([waiting()], |_| Says::Drops);
    let client = fake.client(&["a"]);
    let mut pending = client.claim(&item("disk")).key("mine").pending(OnConflict::Wait).unwrap();
    assert!(matches!(pending.poll().await.unwrap(), ClaimProgress::Waiting(_)));
    assert!(matches!(pending.poll().await, Err(Error::Unknown { request_id, .. }) if request_id == "mine"));
    let asked = fake.log().len();
    drop(pending);
    client.settled().await;
    assert_eq!(fake.log().len(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_claim_gives_up_what_it_got() {
    for (becomes, verb) in [(waiting(), "withdraw"), (granted(9_000), "release")] {
        let fake = Fake::with([waiting(), becomes], |asked| match asked.what.rsplit('/').next() {
            Some("withdraw") => Says::Ok(json!({ "item": "disk", "withdrawn": true })),
            _ => released(),
        });
        let mut pending = fake.client(&["a"]).claim(&item("disk")).key("mine").pending(OnConflict::Wait).unwrap();
        pending.poll().await.unwrap();
        pending.withdraw().await.unwrap();
        let log = fake.log();
        assert_eq!((log.len(), log[1].key.as_deref()), (3, Some("mine")));
        assert!(is(&log[2], verb), "{log:?}");
    }
    let fake = Fake::new([]);
    let pending = fake.client(&["a"]).claim(&item("disk")).pending(OnConflict::Wait).unwrap();
    pending.withdraw().await.unwrap();
    assert!(fake.log().is_empty(), "nothing was sent");
}
