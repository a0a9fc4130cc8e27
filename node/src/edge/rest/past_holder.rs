//! Who held an item at a moment of the past: found by going back through the events that are kept, page by page, until a
//! time is over. Whoever leaves reads no further.

use crate::edge::answer::Failure;
use api::{Code, Problem};
use lease::caller::Holder;
use lease::event::{Event, What};
use lease::names::ItemId;
use lease::numbers::{EventNumber, Time, Token};
use std::future::Future;
use std::time::Instant;

/// Events that are read at a time.
pub(super) const PAGE: usize = 1_000;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PastHolder {
    Nobody,
    Holder(Holder, Token),
    /// The events of that moment are no longer kept.
    TooOld,
}

/// The last thing that happened to the item's lease at or before `at`. `page_before` gives the events before a number, newest
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
        for event in events.iter().filter(|event| event.at <= at && event.item.as_ref() == Some(id)) {
            match &event.what {
                What::Granted { holder, token, .. } => return Ok(PastHolder::Holder(holder.clone(), *token)),
                What::Created => return Ok(PastHolder::Nobody),
                what if what.ended_lease().is_some() => return Ok(PastHolder::Nobody),
                _ => {}
            }
        }
        before = events.last().map_or(before, |oldest| oldest.number);
        if events.len() < PAGE {
            // All the way back: was there nothing before, or is it gone?
            return Ok(if before.seq <= 1 { PastHolder::Nobody } else { PastHolder::TooOld });
        }
    }
}

#[cfg(test)]
mod tests;
