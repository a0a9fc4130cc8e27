//! The bytes of the entries in the log, and the index up to which a given number of bytes lies.
//!
//! Keeps a mark about every [`STEP`] bytes instead of one for each entry. Between two marks it assumes that the bytes
//! are spread evenly. The sizes of entries that were there at the opening are estimated from the files.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

const STEP: u64 = 16 * 1024;

/// A position at which an entry begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    index: u64,
    /// The bytes of all counted entries before it.
    bytes: u64,
}

/// The sizes of the entries `first..next`.
pub(super) struct Sizes {
    /// In the order of their indexes. The first mark belongs to the log's first entry.
    marks: VecDeque<Mark>,
    end: Mark,
}

impl Sizes {
    /// For a log whose entries begin with `first`: consecutive pieces, with the number of entries and the bytes of
    /// each.
    pub(super) fn new(first: u64, pieces: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let start = Mark { index: first, bytes: 0 };
        let mut sizes = Self { marks: VecDeque::from([start]), end: start };
        for (entries, bytes) in pieces {
            sizes.add(entries, bytes);
        }
        sizes
    }

    /// Adds entries at the end.
    pub(super) fn add(&mut self, entries: u64, bytes: u64) {
        if self.end.bytes - self.last_mark().bytes >= STEP {
            self.marks.push_back(self.end);
        }
        self.end = Mark { index: self.end.index + entries, bytes: self.end.bytes + bytes };
    }

    /// An empty log continues at this index.
    pub(super) fn begin_at(&mut self, index: u64) {
        self.end.index = index;
        self.marks = VecDeque::from([self.end]);
    }

    /// Removes the entries from this one on.
    pub(super) fn truncate(&mut self, from: u64) {
        if from >= self.end.index {
            return;
        }
        self.end = Mark { index: from.max(self.first().index), bytes: self.before(from) };
        while self.marks.len() > 1 && self.last_mark().index >= self.end.index {
            self.marks.pop_back();
        }
    }

    /// Removes the entries before this one.
    pub(super) fn purge(&mut self, first: u64) {
        if first >= self.end.index {
            return self.begin_at(first);
        }
        let start = Mark { index: first, bytes: self.before(first) };
        while self.marks.get(1).is_some_and(|mark| mark.index <= first) {
            self.marks.pop_front();
        }
        if self.first().index < first {
            self.marks[0] = start;
        }
    }

    /// The bytes of the entries of a range, as far as they exist.
    pub(super) fn of(&self, range: Range<u64>) -> u64 {
        self.before(range.end).saturating_sub(self.before(range.start))
    }

    /// The first entry to keep so that the newest entries have at most this many bytes.
    pub(super) fn keeping(&self, bytes: u64) -> u64 {
        let fits = |mark: &Mark| self.end.bytes - mark.bytes <= bytes;
        let at = self.marks.partition_point(|mark| !fits(mark));
        self.marks.get(at).map_or(self.end.index, |mark| mark.index)
    }

    fn before(&self, index: u64) -> u64 {
        let at = self.marks.partition_point(|mark| mark.index <= index);
        let Some(mark) = at.checked_sub(1).map(|at| self.marks[at]) else { return self.first().bytes };
        let next = self.marks.get(at).copied().unwrap_or(self.end);
        let (entries, bytes) = (next.index - mark.index, next.bytes - mark.bytes);
        let part = u128::from(bytes) * u128::from((index - mark.index).min(entries)) / u128::from(entries.max(1));
        mark.bytes + u64::try_from(part).expect("at most the bytes between two marks")
    }

    fn first(&self) -> Mark {
        *self.marks.front().expect("there is always one")
    }

    fn last_mark(&self) -> Mark {
        *self.marks.back().expect("there is always one")
    }
}

impl fmt::Debug for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {} marks", self.of(0..u64::MAX), self.marks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries 10 to 109, of 1 KiB each.
    fn hundred() -> Sizes {
        let mut sizes = Sizes::new(10, []);
        for _ in 0..100 {
            sizes.add(1, 1_024);
        }
        sizes
    }

    #[test]
    fn appended_entries_are_counted_and_found_by_index() {
        let sizes = hundred();
        assert_eq!(sizes.of(0..u64::MAX), 100 * 1_024);
        assert_eq!(sizes.of(10..60), 50 * 1_024);
        assert_eq!(sizes.of(57..58), 1_024);
        assert_eq!(sizes.of(500..600), 0);
        assert!(sizes.marks.len() < 10, "{sizes:?}");
    }

    #[test]
    fn at_most_the_given_number_of_bytes_is_kept() {
        let sizes = hundred();
        for wanted in [0, 1, 1_024, 20 * 1_024, 50_000, 100 * 1_024, u64::MAX] {
            let first = sizes.keeping(wanted);
            let kept = sizes.of(first..u64::MAX);
            assert!(kept <= wanted && kept + STEP + 1_024 >= wanted.min(100 * 1_024), "{wanted}: {kept} from {first}");
        }
        assert_eq!((sizes.keeping(0), sizes.keeping(u64::MAX)), (110, 10));
    }

    #[test]
    fn truncated_or_purged_entries_are_no_longer_counted() {
        let mut sizes = hundred();
        sizes.truncate(90);
        assert_eq!(sizes.of(0..u64::MAX), 80 * 1_024);
        sizes.purge(30);
        assert_eq!(sizes.of(0..u64::MAX), 60 * 1_024);
        sizes.truncate(20);
        assert_eq!(sizes.of(0..u64::MAX), 0);
        sizes.add(1, 5);
        assert_eq!((sizes.of(0..u64::MAX), sizes.keeping(0)), (5, 31));
        sizes.purge(1_000);
        sizes.add(2, 7);
        assert_eq!((sizes.of(1_000..1_002), sizes.keeping(7)), (7, 1_000));
    }

    #[test]
    fn a_log_that_was_opened_is_counted_by_its_pieces() {
        let sizes = Sizes::new(5, [(100, 1_000_000), (100, 3_000_000)]);
        assert_eq!(sizes.of(0..u64::MAX), 4_000_000);
        assert_eq!(sizes.of(5..55), 500_000);
        assert_eq!(sizes.keeping(3_000_000), 105);
    }
}
