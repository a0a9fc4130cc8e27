//! The history that a state keeps on disk: events, activities, ended items. For readers only; apply never uses it.
//!
//! Each node drops old events on its own: replicas need not agree on them. What was dropped is stored with the drop, so
//! that a reader that resumes at an old position does not miss the gap.

use super::StateStore;
use super::disk::StateDisk;
use super::lookups::read;
use lease::event::Event;
use lease::item::Activity;
use lease::names::ItemId;
use lease::numbers::{EventNumber, ItemNo, SpaceNo, Wall};
use lease::record::{self, Archived, Key};
use std::io;

/// The events after a position in a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventsAfter {
    /// Oldest first, without a gap after the position. Empty: nothing more has happened.
    Page(Vec<Event>),
    /// Events after the position were dropped here. All remaining events have higher numbers than this.
    TooOld { gone: EventNumber },
}

impl<D: StateDisk> StateStore<D> {
    /// Returns events of a space after a number, oldest first. Numbers increase across epochs.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn events_after(&self, space: SpaceNo, number: EventNumber, limit: usize) -> io::Result<EventsAfter> {
        if let Some(gone) = self.is_gone(space, number)? {
            return Ok(EventsAfter::TooOld { gone });
        }
        let events = self.events_from(space, behind(number), limit)?;
        // Checked again: events may have been dropped while the page was read.
        Ok(self.is_gone(space, number)?.map_or(EventsAfter::Page(events), |gone| EventsAfter::TooOld { gone }))
    }

    /// Returns events of a space before a number, newest first, as far back as they are kept.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn events_before(&self, space: SpaceNo, number: EventNumber, limit: usize) -> io::Result<Vec<Event>> {
        let (first, before) = (Key::Event(space, self.first_kept(space)?).encode(), Key::Event(space, number).encode());
        let mut events = Vec::new();
        if first >= before || limit == 0 {
            return Ok(events);
        }
        let mut failure = Ok(());
        self.disk.scan_back(&first, &before, &mut |_, value| {
            match read(value) {
                Ok(event) => events.push(event),
                Err(error) => failure = Err(error),
            }
            failure.is_ok() && events.len() < limit
        })?;
        failure.map(|()| events)
    }

    /// The oldest event of a space that is kept here.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn first_event(&self, space: SpaceNo) -> io::Result<Option<EventNumber>> {
        let first = self.events_from(space, self.first_kept(space)?, 1)?;
        Ok(first.first().map(|event| event.number))
    }

    /// Drops events of a space from before a wall time, at most the oldest `limit`, and stops at the first newer one:
    /// clocks differ, and only the beginning may be dropped. Returns whether there may be more to drop.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn drop_events_before(&self, space: SpaceNo, wall: Wall, limit: usize) -> io::Result<bool> {
        let first = self.first_kept(space)?;
        let from = Key::Event(space, first).encode();
        let mut seen = 0;
        let mut last_old = None;
        let mut failure = Ok(());
        self.disk.scan(&from[..PREFIX], &from, &mut |_, value| {
            seen += 1;
            match read::<Event>(value) {
                Ok(event) if event.wall < wall => last_old = Some(event.number),
                Ok(_) => return false,
                Err(error) => failure = Err(error),
            }
            failure.is_ok() && seen < limit
        })?;
        failure?;
        let Some(upto) = last_old else { return Ok(false) };
        self.disk.drop_events(space, first, upto)?;
        Ok(seen == limit)
    }

    /// The last activities of an item, oldest first; also of an ended item while it is kept.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn activities(&self, item: ItemNo) -> io::Result<Vec<Activity>> {
        let from = Key::Activity(item, 0).encode();
        let mut activities: Vec<Activity> = Vec::new();
        let mut failure = Ok(());
        self.disk.scan(&from[..1 + size_of::<ItemNo>()], &from, &mut |_, value| {
            match read(value) {
                Ok(activity) => activities.push(activity),
                Err(error) => failure = Err(error),
            }
            failure.is_ok()
        })?;
        failure?;
        // A ring buffer: the oldest activity is where time steps back.
        let oldest = activities.windows(2).position(|pair| pair[1].at < pair[0].at).map_or(0, |before| before + 1);
        activities.rotate_left(oldest);
        Ok(activities)
    }

    /// Ended items of a space that are still kept, in the order of their ids, after the given one.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn archived(
        &self,
        space: SpaceNo,
        after: Option<&ItemId>,
        limit: usize,
    ) -> io::Result<Vec<(ItemId, Archived)>> {
        let mut prefix = vec![record::ARCHIVED];
        prefix.extend_from_slice(&space.0.to_be_bytes());
        let from = after.map_or_else(|| prefix.clone(), |id| Key::Archived(space, id.clone()).encode());
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        let mut failure = Ok(());
        self.disk.scan(&prefix, &from, &mut |key, value| {
            if after.is_some() && key == from {
                return true;
            }
            let read = Key::decode(key).map_err(io::Error::other).and_then(|key| Ok((key, read(value)?)));
            match read {
                Ok((Key::Archived(_, id), archived)) => found.push((id, archived)),
                Ok((key, _)) => {
                    failure = Err(io::Error::other(format!("unexpected key {key:?} among the ended items")))
                }
                Err(error) => failure = Err(error),
            }
            failure.is_ok() && found.len() < limit
        })?;
        failure.map(|()| found)
    }

    /// The start of a scan. A scan from the very beginning would read all tombstones of dropped events.
    fn first_kept(&self, space: SpaceNo) -> io::Result<EventNumber> {
        Ok(self.disk.events_gone(space)?.map_or(EventNumber::default(), behind))
    }

    /// The number up to which events were dropped, if it is above this number.
    fn is_gone(&self, space: SpaceNo, number: EventNumber) -> io::Result<Option<EventNumber>> {
        Ok(self.disk.events_gone(space)?.filter(|gone| number < *gone))
    }

    fn events_from(&self, space: SpaceNo, first: EventNumber, limit: usize) -> io::Result<Vec<Event>> {
        let from = Key::Event(space, first).encode();
        let mut events = Vec::new();
        if limit == 0 {
            return Ok(events);
        }
        let mut failure = Ok(());
        self.disk.scan(&from[..PREFIX], &from, &mut |_, value| {
            match read(value) {
                Ok(event) => events.push(event),
                Err(error) => failure = Err(error),
            }
            failure.is_ok() && events.len() < limit
        })?;
        failure.map(|()| events)
    }
}

/// The common prefix of the keys of a space's events.
const PREFIX: usize = 1 + size_of::<SpaceNo>();

/// The next greater number.
fn behind(number: EventNumber) -> EventNumber {
    EventNumber { seq: number.seq.saturating_add(1), ..number }
}
