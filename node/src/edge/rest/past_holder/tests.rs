//! The search for a past holder, with missing events and time limits.

use super::*;
use lease::caller::Holder;
use lease::event::What;
use lease::names::{ActorId, SpaceName};
use lease::numbers::{Epoch, Token, Wall};
use std::time::Duration;

fn number(seq: u64) -> EventNumber {
    EventNumber { epoch: Epoch(0), seq }
}

fn item(id: &str) -> ItemId {
    ItemId::new(id).unwrap()
}

/// Each happened a millisecond after the one before.
fn event(seq: u64, id: &str, what: What) -> Event {
    Event {
        space: SpaceName::fallback(),
        number: number(seq),
        at: Time(seq),
        wall: Wall(0),
        by: None,
        queue: None,
        item: Some(item(id)),
        local_to: None,
        what,
    }
}

fn ada() -> Holder {
    Holder::new(ActorId::new("ada").unwrap(), None)
}

fn granted() -> What {
    let (token, expires_at) = (Token(7), Time(100));
    What::Granted { holder: ada(), token, expires_at, from_line: false, was_assigned_to: None }
}

/// The kept events: everything before `first` is deleted.
fn kept(first: u64, last: u64) -> Vec<Event> {
    let what = |seq| match seq {
        1 => event(1, "disk", What::Created),
        2 => event(2, "disk", granted()),
        seq => event(seq, "other", What::Queued),
    };
    (first..=last).map(what).collect()
}

/// The result, and how many pages were read for it.
async fn look(kept: &[Event], last: u64, at: u64, by: Instant) -> (Result<PastHolder, Failure>, usize) {
    let mut pages = 0;
    let page_before = |before: EventNumber| {
        pages += 1;
        let page = kept.iter().rev().filter(|event| event.number < before).take(PAGE).cloned().collect();
        std::future::ready(Ok(page))
    };
    let found = find(page_before, number(last), &item("disk"), Time(at), by).await;
    (found, pages)
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(3_600)
}

#[tokio::test]
async fn a_holder_is_found_many_pages_back_and_nobody_before_the_grant() {
    let all = kept(1, 3_500);
    let (found, pages) = look(&all, 3_500, 3_500, later()).await;
    assert_eq!((found.unwrap(), pages), (PastHolder::Granted(Box::new(all[1].clone())), 4));
    assert_eq!(look(&all, 3_500, 1, later()).await.0.unwrap(), PastHolder::Nobody);
    assert_eq!(look(&[], 0, 9, later()).await.0.unwrap(), PastHolder::Nobody, "nothing ever happened");
}

/// An item was purged and a new item got the same id.
#[tokio::test]
async fn an_earlier_item_with_the_same_id_is_a_different_item() {
    let mut all = kept(1, 10);
    all.push(event(11, "disk", What::Created));
    for at in [2, 9, 11] {
        assert_eq!(look(&all, 11, at, later()).await.0.unwrap(), PastHolder::Nobody, "at {at}");
    }
    all.push(event(12, "disk", granted()));
    assert_eq!(look(&all, 12, 12, later()).await.0.unwrap(), PastHolder::Granted(Box::new(all[11].clone())));
}

#[tokio::test]
async fn after_the_time_limit_no_page_is_read_and_the_problem_names_the_position() {
    let (found, pages) = look(&kept(1, 3_500), 3_500, 3_500, Instant::now() - Duration::from_millis(1)).await;
    let Failure(problem) = found.unwrap_err();
    assert_eq!((problem.code, pages), (Code::Unavailable, 0));
    assert!(problem.detail.as_ref().is_some_and(|why| why.contains("0.3501")), "{problem:?}");
}

#[tokio::test]
async fn deleted_events_are_reported_as_too_old_and_never_as_nobody() {
    for first in [3, 501, 1_501, 2_500, 2_501] {
        let (found, _) = look(&kept(first, 2_500), 2_500, 2_500, later()).await;
        assert_eq!(found.unwrap(), PastHolder::TooOld, "the first kept event is {first}");
    }
}
