//! The tallies of one kind of hostile callers.

use super::Kind;
use crate::history::soak::Tally;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clones share the counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Arc<Mutex<Tally>>);

impl Counts {
    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a sent request, or an opened connection.
    pub(super) fn asked(&self, bytes: usize) {
        let mut tally = self.lock();
        tally.asked += 1;
        tally.sent += bytes as u64;
    }

    /// Counts more bytes of a request that was begun.
    pub(super) fn sent(&self, bytes: usize) {
        self.lock().sent += bytes as u64;
    }

    /// Counts an answer or another result.
    pub(super) fn heard(&self, what: impl Into<String>) {
        *self.lock().answers.entry(what.into()).or_default() += 1;
    }
}

/// Writes the file atomically: a reader never sees half of it.
pub(super) fn write(counts: &BTreeMap<Kind, Counts>, path: &Path) -> io::Result<()> {
    let all: Vec<Tally> =
        counts.iter().map(|(kind, counts)| Tally { kind: kind.name().to_owned(), ..counts.lock().clone() }).collect();
    let coming = path.with_extension("coming");
    fs::write(&coming, serde_json::to_vec(&all)?)?;
    fs::rename(coming, path)
}
