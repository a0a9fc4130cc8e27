//! Finds who held an item at a past time, by reading the kept events backwards, page by page, until a time limit. The
//! search ends when its caller disconnects.

use crate::edge::answer::Failure;
use api::{Code, Problem};
use lease::Event;
use lease::names::ItemId;
use lease::numbers::{EventNumber, Time};
use lease::past_holder::{PastHolder, PastHolderSearch};
use std::future::Future;
use std::time::Instant;

/// Events per page.
pub(super) const PAGE: usize = 1_000;

/// Who held the item at `at`. `page_before` returns up to [`PAGE`] events before a number, newest first; `last` is the
/// newest event.
///
/// # Errors
/// When a page cannot be read, or the time limit `by` has passed.
pub(super) async fn find<F: Future<Output = Result<Vec<Event>, Failure>>>(
    mut page_before: impl FnMut(EventNumber) -> F,
    last: EventNumber,
    id: &ItemId,
    at: Time,
    by: Instant,
) -> Result<PastHolder, Failure> {
    let mut search = PastHolderSearch::new(id, at, last);
    loop {
        let before = search.before();
        if Instant::now() > by {
            let why = format!("no answer in the events from {before} on, and no time was left to read older ones");
            return Err(Problem::new(Code::Unavailable).with_detail(why).into());
        }
        let page = page_before(before).await?;
        let is_last = page.len() < PAGE;
        if let Some(found) = search.examine(page, is_last) {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests;
