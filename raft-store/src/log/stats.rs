//! Counters of the log, for metrics and tests.

use super::disk::Syncs;
use crate::histogram::{Counted, Histogram, LATENCY_NANOS, SIZES};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counted since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Writes that had to end with an fsync.
    pub synced_writes: u64,
    /// Writes that needed no fsync.
    pub unsynced_writes: u64,
    /// Syncs that RocksDB made of its write-ahead files, as counted by RocksDB itself.
    pub wal_syncs: u64,
    pub entries_written: u64,
    pub bytes_written: u64,
    /// The most entries that shared a write.
    pub largest_batch: u64,
    /// The duration of the last write with a sync.
    pub last_sync: Duration,
}

/// Distributions over the log's writes, since the log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHistograms {
    /// The duration of writes with a sync, in nanoseconds.
    pub sync_nanos: Counted,
    /// The number of entries that shared a write, for writes with entries.
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

    /// Counts one write. `synced` is its duration if it needed a sync.
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
