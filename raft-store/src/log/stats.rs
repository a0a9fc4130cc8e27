//! What the log did, counted for metrics and tests.

use super::disk::Syncs;
use crate::histogram::{Counted, Histogram, LATENCY_NANOS, SIZES};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Writes that were to end with an fsync.
    pub synced_writes: u64,
    /// Writes that need none.
    pub unsynced_writes: u64,
    /// What RocksDB synced of its write-ahead files: what it did, beside what it was asked for.
    pub wal_syncs: u64,
    pub entries_written: u64,
    pub bytes_written: u64,
    /// The most entries that shared a write.
    pub largest_batch: u64,
    /// How long the last write took that was synced.
    pub last_sync: Duration,
}

/// How its writes were distributed, since the log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHistograms {
    /// What a write that was synced took, in nanoseconds.
    pub sync_nanos: Counted,
    /// Entries that shared a write, of those that had any.
    pub entries: Counted,
}

#[derive(Debug)]
pub(super) struct Counters {
    syncs: Syncs,
    synced_writes: AtomicU64,
    unsynced_writes: AtomicU64,
    entries_written: AtomicU64,
    bytes_written: AtomicU64,
    largest_batch: AtomicU64,
    last_sync_nanos: AtomicU64,
    sync_nanos: Histogram,
    entries: Histogram,
}

impl Counters {
    pub(super) fn new(syncs: Syncs) -> Self {
        Self {
            syncs,
            synced_writes: AtomicU64::new(0),
            unsynced_writes: AtomicU64::new(0),
            entries_written: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            largest_batch: AtomicU64::new(0),
            last_sync_nanos: AtomicU64::new(0),
            sync_nanos: Histogram::new(LATENCY_NANOS),
            entries: Histogram::new(SIZES),
        }
    }

    /// One write. `synced` says how long it took, if it was to be synced.
    pub(super) fn count(&self, entries: u64, bytes: usize, synced: Option<Duration>) {
        let writes = if synced.is_some() { &self.synced_writes } else { &self.unsynced_writes };
        writes.fetch_add(1, Ordering::Relaxed);
        self.entries_written.fetch_add(entries, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
        self.largest_batch.fetch_max(entries, Ordering::Relaxed);
        if entries > 0 {
            self.entries.observe(entries);
        }
        if let Some(took) = synced {
            self.sync_nanos.observe_time(took);
            self.last_sync_nanos.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self) -> LogStats {
        LogStats {
            synced_writes: self.synced_writes.load(Ordering::Relaxed),
            unsynced_writes: self.unsynced_writes.load(Ordering::Relaxed),
            wal_syncs: self.syncs.count(),
            entries_written: self.entries_written.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            largest_batch: self.largest_batch.load(Ordering::Relaxed),
            last_sync: Duration::from_nanos(self.last_sync_nanos.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn histograms(&self) -> LogHistograms {
        LogHistograms { sync_nanos: self.sync_nanos.read(), entries: self.entries.read() }
    }
}
