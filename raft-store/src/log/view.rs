//! The log as its readers see it: every accepted operation, whether it is on disk yet or not.
//!
//! The entries `first..next` exist. The newest of them are in memory. Every older entry was written, and no queued
//! operation changes it. So a read takes from memory what is in memory, the rest from the disk, and never anything
//! outside `first..next`, whether it is on disk or not.

use super::disk::Found;
use super::sizes::Sizes;
use crate::codec::PAYLOAD_BYTES_MAX;
use crate::types::{LogEntry, LogId, Payload, Vote};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of an entry besides its payload: its place in memory and, approximately, its envelope on disk.
const ENTRY_OVERHEAD: usize = 96;
/// The assumed size of an entry that is not a proposal: these are rare, and bounded by the number of members.
const MEMBER_BYTES: usize = 128;

pub(super) fn weight(entry: &LogEntry) -> usize {
    ENTRY_OVERHEAD
        + match &entry.payload {
            Payload::Blank => 0,
            Payload::Normal(proposal) => proposal.as_bytes().len(),
            Payload::Membership(membership) => membership.nodes().count() * MEMBER_BYTES,
        }
}

struct Slot {
    entry: LogEntry,
    /// The number of the operation that added the entry.
    operation: u64,
}

/// The result of a read: first the entries of `on_disk`, then those in memory.
pub(super) struct Part {
    pub(super) on_disk: Range<u64>,
    pub(super) in_memory: Vec<LogEntry>,
}

pub(super) struct View {
    purged: Option<LogId>,
    /// The log id of the newest entry; `None` if the log is empty.
    last: Option<LogId>,
    first: u64,
    next: u64,
    /// The entries `next - tail.len()..next`.
    tail: VecDeque<Slot>,
    tail_bytes: usize,
    tail_bytes_max: usize,
    tail_entries_max: usize,
    /// The last operation that was queued, and the last that was written. These count operations and not indexes: a
    /// truncated index is used again, and only the order shows which of the two was written.
    taken: u64,
    written: u64,
    /// The sizes of the entries `first..next`.
    sizes: Arc<Mutex<Sizes>>,
    /// The last durable vote: Raft may act on a vote only after it is durable.
    pub(super) vote: Option<Vote>,
    pub(super) committed: Option<LogId>,
    pub(super) failure: Option<Arc<str>>,
}

impl View {
    pub(super) fn new(found: &Found, tail_bytes_max: usize, tail_entries_max: usize, sizes: Arc<Mutex<Sizes>>) -> Self {
        let start = found.purged.map_or(0, |id| id.index + 1);
        Self {
            purged: found.purged,
            last: found.last,
            first: start,
            next: found.last.map_or(start, |id| id.index + 1),
            tail: VecDeque::new(),
            tail_bytes: 0,
            tail_bytes_max,
            tail_entries_max,
            taken: 0,
            written: 0,
            sizes,
            vote: found.vote,
            committed: found.committed,
            failure: None,
        }
    }

    pub(super) fn purged(&self) -> Option<LogId> {
        self.purged
    }

    /// The log id of the newest entry, or of the newest purged entry.
    pub(super) fn last(&self) -> Option<LogId> {
        self.last.or(self.purged)
    }

    /// Counts the operation that was just added to the view.
    pub(super) fn taken(&mut self) -> u64 {
        self.taken += 1;
        self.taken
    }

    pub(super) fn append(&mut self, entries: &[LogEntry]) -> io::Result<()> {
        let Some(start) = entries.first().map(|entry| entry.log_id.index) else { return Ok(()) };
        // A log that never held anything begins at the index of its first entry. After a reopening, only 0 is allowed.
        let untouched = self.purged.is_none() && self.first == self.next;
        if start != self.next && !untouched {
            let next = self.next;
            return Err(refused(format!(
                "entry {start} would follow {next}, the next free index: a hole or a rewrite"
            )));
        }
        for (entry, expected) in entries.iter().zip(start..) {
            if entry.log_id.index != expected {
                return Err(refused(format!("entry {} found where entry {expected} belongs", entry.log_id.index)));
            }
            if weight(entry) > PAYLOAD_BYTES_MAX {
                return Err(refused(format!("entry {expected} is larger than {PAYLOAD_BYTES_MAX} bytes")));
            }
        }
        if untouched {
            self.first = start;
            self.sizes().begin_at(start);
        }
        let operation = self.taken + 1;
        let sizes = self.sizes.clone();
        let mut sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries {
            self.tail_bytes += weight(entry);
            sizes.add(1, weight(entry) as u64);
            self.next = entry.log_id.index + 1;
            self.last = Some(entry.log_id);
            self.tail.push_back(Slot { entry: entry.clone(), operation });
        }
        self.evict();
        Ok(())
    }

    /// Returns the range of removed entries, if any.
    pub(super) fn truncate_after(&mut self, keep: Option<LogId>) -> Option<Range<u64>> {
        let from = keep.map_or(0, |id| id.index + 1).max(self.first);
        if from >= self.next {
            return None;
        }
        let gone = from..self.next;
        let kept = usize::try_from(from.saturating_sub(self.tail_start())).expect("no longer than the tail");
        for slot in self.tail.drain(kept..) {
            self.tail_bytes -= weight(&slot.entry);
        }
        self.next = from;
        self.sizes().truncate(from);
        self.last = keep.filter(|_| self.first < self.next);
        Some(gone)
    }

    /// Returns the range of removed entries, which may be empty; `None` when as much was purged before.
    pub(super) fn purge(&mut self, upto: LogId) -> Option<Range<u64>> {
        if self.purged.is_some_and(|purged| purged.index >= upto.index) {
            return None;
        }
        let gone = self.first..(upto.index + 1).max(self.first);
        self.purged = Some(upto);
        self.first = gone.end;
        self.sizes().purge(self.first);
        while self.tail_start() < self.first
            && let Some(slot) = self.tail.pop_front()
        {
            self.tail_bytes -= weight(&slot.entry);
        }
        if self.first >= self.next {
            self.next = self.first;
            self.last = None;
        }
        Some(gone)
    }

    /// Returns the part of `wanted` that exists. With `bytes_max` it may be only its beginning, but at least one entry.
    pub(super) fn read(&self, wanted: Range<u64>, bytes_max: Option<usize>) -> Part {
        let wanted = wanted.start.max(self.first)..wanted.end.min(self.next);
        if wanted.is_empty() {
            return Part { on_disk: 0..0, in_memory: Vec::new() };
        }
        let tail_start = self.tail_start();
        let on_disk = wanted.start..wanted.end.min(tail_start);
        // A bounded read never joins the two parts: the rest is returned by the next read.
        if wanted.end <= tail_start || (bytes_max.is_some() && !on_disk.is_empty()) {
            return Part { on_disk, in_memory: Vec::new() };
        }
        let at = |index: u64| usize::try_from(index.saturating_sub(tail_start)).expect("the tail is in memory");
        let mut left = bytes_max.unwrap_or(usize::MAX);
        let slots = self.tail.range(at(wanted.start)..at(wanted.end)).enumerate().map_while(|(nth, slot)| {
            let weight = weight(&slot.entry);
            let fits = nth == 0 || weight <= left;
            left = left.saturating_sub(weight);
            fits.then(|| slot.entry.clone())
        });
        Part { on_disk, in_memory: slots.collect() }
    }

    /// Everything up to this operation is on disk.
    pub(super) fn written(&mut self, operation: u64) {
        self.written = operation;
        self.evict();
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tail_start(&self) -> u64 {
        self.next - self.tail.len() as u64
    }

    fn evict(&mut self) {
        while (self.tail_bytes > self.tail_bytes_max || self.tail.len() > self.tail_entries_max)
            && self.tail.front().is_some_and(|slot| slot.operation <= self.written)
            && let Some(slot) = self.tail.pop_front()
        {
            self.tail_bytes -= weight(&slot.entry);
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, next, tail_bytes, .. } = self;
        write!(f, "entries {first}..{next}, {} of them in memory, {tail_bytes} bytes", self.tail.len())
    }
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
