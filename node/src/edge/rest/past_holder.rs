//! Who held an item at a moment of the past: found by going back through the events that are kept, page by page, until a
//! time is over. Whoever leaves reads no further.

use crate::edge::answer::Failure;
use api::{Code, Problem};
use lease::event::{Event, What};
use lease::names::ItemId;
use lease::numbers::{EventNumber, Time};
use std::future::Future;
use std::time::Instant;

/// Events that are read at a time.
pub(super) const PAGE: usize = 1_000;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PastHolder {
    Nobody,
    /// By this event. Whom it names is for [`lease::disclose`] to say.
    Granted(Box<Event>),
    /// The events of that moment are no longer kept.
    TooOld,
}

/// The last thing that happened to the item's lease at or before `at`. What was an item of this id before it was created
/// was another one. `page_before` gives the events before a number, newest
/// first, up to [`PAGE`] of them; `last` is the newest of all.
///
/// # Errors
/// When a page cannot be read, or the time is over.
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
            let why = format!("the events from {before} on do not tell, and there was no time for those before");
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
            // All the way back: was there nothing before, or is it gone?
            return Ok(if before.seq <= 1 { PastHolder::Nobody } else { PastHolder::TooOld });
        }
    }
}

#[cfg(test)]
mod tests;
