//! Who held an item at a past time. The answer is in the events of its space, which are read backwards, page by page.

use crate::event::{Event, What};
use crate::names::ItemId;
use crate::numbers::{EventNumber, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastHolder {
    Nobody,
    /// This event granted the lease. [`crate::disclose`] decides whether a viewer may see the holder.
    Granted(Box<Event>),
    /// The events of that time are no longer kept.
    TooOld,
}

/// A search for the last change of an item's lease at or before a time. An item that had this id before the creation of
/// the current one is another item.
#[derive(Debug)]
pub struct PastHolderSearch<'a> {
    item: &'a ItemId,
    at: Time,
    before: EventNumber,
}

impl<'a> PastHolderSearch<'a> {
    /// `last` is the newest event of the item's space.
    #[must_use]
    pub fn new(item: &'a ItemId, at: Time, last: EventNumber) -> Self {
        Self { item, at, before: EventNumber { seq: last.seq.saturating_add(1), ..last } }
    }

    /// The next page has the events before this number.
    #[must_use]
    pub fn before(&self) -> EventNumber {
        self.before
    }

    /// Examines the next page, whose events are sorted newest first. `is_last`: no older events are kept. None: the
    /// answer is in an older page.
    pub fn examine(&mut self, page: Vec<Event>, is_last: bool) -> Option<PastHolder> {
        self.before = page.last().map_or(self.before, |oldest| oldest.number);
        for event in page.into_iter().filter(|event| event.item.as_ref() == Some(self.item)) {
            match &event.what {
                What::Created => return Some(PastHolder::Nobody),
                _ if event.at > self.at => {}
                What::Granted { .. } => return Some(PastHolder::Granted(Box::new(event))),
                what if what.ended_lease().is_some() => return Some(PastHolder::Nobody),
                _ => {}
            }
        }
        // Only if no event was before the first one that is kept, nobody held the item.
        is_last.then_some(if self.before.seq <= 1 { PastHolder::Nobody } else { PastHolder::TooOld })
    }
}
