//! Finds who held an item at a past time, by reading the kept events backwards, page by page, until a time limit. The
//! search ends when its caller disconnects.

use crate::edge::answer::Failure;
use api::{Code, Problem};
use lease::event::{Event, What};
use lease::names::ItemId;
use lease::numbers::{EventNumber, Time};
use std::future::Future;
use std::time::Instant;

/// Events per page.
pub(super) const PAGE: usize = 1_000;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PastHolder {
    Nobody,
    /// This event granted the lease. [`lease::disclose`] decides whether the caller may see the holder.
    Granted(Box<Event>),
    /// The events of that time are no longer kept.
    TooOld,
}

/// The last change of the item's lease at or before `at`. An item that had this id before the creation of the current
/// one is another item. `page_before` returns up to [`PAGE`] events before a number, newest first; `last` is the newest
/// event.
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
    let mut before = EventNumber { seq: last.seq.saturating_add(1), ..last };
    loop {
        if Instant::now() > by {
            let why = format!("no answer in the events from {before} on, and no time was left to read older ones");
            return Err(Problem::new(Code::Unavailable).with_detail(why).into());
        }
        let events = page_before(before).await?;
        let (oldest, is_last) = (events.last().map(|oldest| oldest.number), events.len() < PAGE);
        for event in events.into_iter().filter(|event| event.item.as_ref() == Some(id)) {
            match &event.what {
                What::Created => return Ok(PastHolder::Nobody),
                _ if event.at > at => {}
                What::Granted { .. } => return Ok(PastHolder::Granted(Box::new(event))),
                what if what.ended_lease().is_some() => return Ok(PastHolder::Nobody),
                _ => {}
            }
        }
        before = oldest.unwrap_or(before);
        if is_last {
            // The first event that is kept. Only if nothing was before it, nobody held the item.
            return Ok(if before.seq <= 1 { PastHolder::Nobody } else { PastHolder::TooOld });
        }
    }
}

#[cfg(test)]
mod tests;
