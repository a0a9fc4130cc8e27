//! The log's RocksDB: its keys, its settings, and its reads and writes.
//!
//! A key is the group, a tag and, for an entry, its index; numbers big endian, so that keys order as the log does:
//!
//! ```text
//! group u32  'C'             how far is committed: LogIdRecord
//! group u32  'L'  index u64  an entry: EntryRecord
//! group u32  'P'             how far is purged: LogIdRecord
//! group u32  'V'             the vote: VoteRecord
//! ```
//!
//! No read scans from the beginning: a purged log begins with tombstones, so every read seeks to an index.

use super::open_error::OpenError;
use super::wal;
use crate::background;
use crate::codec::records::{EntryRecord, LogIdRecord, VoteRecord};
use crate::codec::{CodecError, Kind, decode, encode_into};
use crate::types::{Group, LogEntry, LogId, Vote};
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{BottommostLevelCompaction, CompactOptions, WriteBatch, WriteOptions};
use rocksdb::{DB, DBCompressionType, DBRawIteratorWithThreadMode, DBRecoveryMode, LogLevel, Options, ReadOptions};
use sabotage::{Broken, is_broken};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};

/// Small, so that a restart replays little. Three of them, so that a flush never stops the writer.
const WRITE_BUFFER_BYTES: usize = 32 * 1024 * 1024;
const WRITE_BUFFERS: i32 = 3;
/// A purged log has few files. A log that is not purged must leave file descriptors for sockets and the state.
const OPEN_FILES: i32 = 256;
/// Files are written to the disk in steps of this size: a sync of the log must not wait for a whole file of a flush.
const BYTES_PER_SYNC: u64 = 1024 * 1024;
/// The number of pieces in which the sizes of entries are estimated when the log is opened.
const PIECES: u64 = 1024;

#[derive(Clone, Copy)]
enum Tag {
    Committed = b'C' as isize,
    Entry = b'L' as isize,
    Purged = b'P' as isize,
    Vote = b'V' as isize,
}

const KEY_BYTES: usize = 4 + 1 + 8;

#[derive(Clone, Copy)]
struct Keys(Group);

impl Keys {
    fn of(self, tag: Tag) -> [u8; 5] {
        let [a, b, c, d] = self.0.0.to_be_bytes();
        [a, b, c, d, tag as u8]
    }

    fn entry(self, index: u64) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key[..5].copy_from_slice(&self.of(Tag::Entry));
        key[5..].copy_from_slice(&index.to_be_bytes());
        key
    }

    /// Sorts after every entry: between the tags.
    fn entries_end(self) -> [u8; 5] {
        let mut key = self.of(Tag::Entry);
        key[4] += 1;
        key
    }

    fn index(key: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(key.get(5..)?.try_into().ok()?))
    }
}

/// The content of a directory when it was opened.
pub(super) struct Found {
    pub(super) purged: Option<LogId>,
    /// The log id of the newest entry that is not purged.
    pub(super) last: Option<LogId>,
    pub(super) vote: Option<Vote>,
    pub(super) committed: Option<LogId>,
}

pub(super) struct Disk {
    db: DB,
    options: Arc<Options>,
    keys: Keys,
}

/// RocksDB's own count of the syncs of its write-ahead files. Does not keep the database open.
#[derive(Clone)]
pub(super) struct Syncs(Arc<Options>);

impl Syncs {
    pub(super) fn count(&self) -> u64 {
        self.0.get_ticker_count(Ticker::WalFileSynced)
    }
}

impl fmt::Debug for Syncs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} syncs", self.count())
    }
}

impl Disk {
    pub(super) fn open(path: &Path, group: Group) -> Result<(Self, Found), OpenError> {
        wal::check(path)?;
        let mut options = options();
        background::lower_priority(&mut options).map_err(|error| OpenError::rocksdb(path, error))?;
        let options = Arc::new(options);
        let db = DB::open(&options, path).map_err(|error| OpenError::rocksdb(path, error))?;
        let disk = Self { db, options, keys: Keys(group) };
        let found = disk.find(path)?;
        Ok((disk, found))
    }

    fn find(&self, path: &Path) -> Result<Found, OpenError> {
        let damaged = |what: &str, error: io::Error| OpenError::damaged(path, format!("{what}: {error}"));
        let get_id = |tag, what| -> Result<Option<LogId>, OpenError> {
            let record = self.get::<LogIdRecord>(tag).map_err(|error| damaged(what, error))?;
            Ok(record.map(Into::into))
        };
        let purged = get_id(Tag::Purged, "the purged position")?;
        let committed = get_id(Tag::Committed, "the committed position")?;
        let vote = self.get::<VoteRecord>(Tag::Vote).map_err(|error| damaged("the vote", error))?.map(Into::into);

        // Entries at or below the mark are not part of the log, whether or not their deletion reached the disk.
        let start = purged.map_or(0, |id| id.index + 1);
        let mut entries = self.entries(start..u64::MAX);
        entries.cursor.seek(self.keys.entry(start));
        let first = entries.here().map_err(|error| damaged("the first entry", error))?;
        entries.cursor.seek_to_last();
        let last = entries.here().map_err(|error| damaged("the last entry", error))?;
        if let Some((found, _)) = first
            && found.index != start
        {
            let why =
                format!("entries {start} to {} are missing: the log begins with {}", found.index - 1, found.index);
            return Err(OpenError::damaged(path, why));
        }
        if let Some(committed) = committed.filter(|committed| committed.index >= start) {
            // Every write puts the mark after its entries, so a crash alone never keeps the mark without them.
            entries.cursor.seek(self.keys.entry(committed.index));
            let found = entries.here().map_err(|error| damaged("the last committed entry", error))?;
            if found.is_none_or(|(id, _)| id != committed) {
                let end =
                    last.as_ref().map_or("nothing".to_owned(), |(id, _)| format!("entries {start} to {}", id.index));
                let why = format!("entry {} is known to be committed, but the log holds {end}", committed.index);
                return Err(OpenError::damaged(path, why));
            }
        }
        Ok(Found { purged, last: last.map(|(id, _)| id), vote, committed })
    }

    pub(super) fn syncs(&self) -> Syncs {
        Syncs(self.options.clone())
    }

    fn get<T: Kind>(&self, tag: Tag) -> io::Result<Option<T>> {
        let Some(bytes) = self.db.get_pinned(self.keys.of(tag)).map_err(io::Error::other)? else { return Ok(None) };
        Ok(Some(decode(&bytes)?))
    }

    /// A cursor over the disk as it is now, limited to these entries.
    pub(super) fn entries(&self, range: Range<u64>) -> Entries<'_> {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(self.keys.entry(range.start));
        if range.end == u64::MAX {
            options.set_iterate_upper_bound(self.keys.entries_end());
        } else {
            options.set_iterate_upper_bound(self.keys.entry(range.end));
        }
        Entries { cursor: self.db.raw_iterator_opt(options), keys: self.keys, range }
    }

    /// The approximate bytes of the entries of a range, in consecutive pieces: the number of entries and the bytes of
    /// each. Opening the log has written all of them to files.
    pub(super) fn pieces(&self, range: Range<u64>) -> Vec<(u64, u64)> {
        let step = (range.end - range.start).div_ceil(PIECES).max(1);
        let starts = (0..).map(|nth| range.start + nth * step).take_while(|start| *start < range.end);
        let counts: Vec<u64> = starts.clone().map(|start| step.min(range.end - start)).collect();
        let keys: Vec<_> = starts.map(|start| self.keys.entry(start)).chain([self.keys.entry(range.end)]).collect();
        let ranges: Vec<_> = keys.windows(2).map(|pair| rocksdb::Range::new(&pair[0], &pair[1])).collect();
        counts.into_iter().zip(self.db.get_approximate_sizes(&ranges)).collect()
    }

    /// Rewrites the remaining entries, and drops the files of purged entries and their write-ahead files.
    pub(super) fn reclaim(&self) -> io::Result<()> {
        self.db.flush().map_err(io::Error::other)?;
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }

    pub(super) fn batch(&self) -> Batch {
        Batch { writes: WriteBatch::default(), keys: self.keys, scratch: Vec::new() }
    }

    pub(super) fn write(&self, batch: Batch, sync: bool) -> io::Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(sync && !is_skipped());
        self.db.write_opt(batch.writes, &options).map_err(io::Error::other)
    }

    /// Frees the space of whole files below `index`. This takes effect at once, before any sync, so `index` must come
    /// from a mark that *is* synced. Otherwise a power loss brings the old mark back, with a gap after it.
    pub(super) fn drop_files_upto(&self, index: u64) -> io::Result<()> {
        self.db.delete_file_in_range(self.keys.entry(0), self.keys.entry(index)).map_err(io::Error::other)
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    // An incomplete record was never acknowledged. Every other mode drops records silently, or refuses to open after
    // each crash. It also rules out recycled WAL files: in those an incomplete record cannot be told from older data.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_max_write_buffer_number(WRITE_BUFFERS);
    options.set_max_open_files(OPEN_FILES);
    options.set_bytes_per_sync(BYTES_PER_SYNC);
    // Entries are purged soon after they were written, so CPU time is more valuable than disk space.
    options.set_compression_type(DBCompressionType::None);
    // RocksDB's own info log: only problems, not every flush.
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(4);
    // Only counters: they need no clock.
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    options
}

/// The entries of one range, as they were on the disk when this was created.
pub(super) struct Entries<'a> {
    cursor: DBRawIteratorWithThreadMode<'a, DB>,
    keys: Keys,
    range: Range<u64>,
}

impl Entries<'_> {
    /// Returns the whole range or, with `bytes_max`, its beginning, at least one entry.
    ///
    /// # Errors
    /// When an entry is missing or damaged.
    pub(super) fn read(mut self, bytes_max: Option<usize>) -> io::Result<Vec<LogEntry>> {
        let mut entries = Vec::new();
        let mut left = bytes_max.unwrap_or(usize::MAX);
        self.cursor.seek(self.keys.entry(self.range.start));
        for index in self.range.clone() {
            let Some((id, record)) = self.here()? else {
                return Err(damaged_entry(index, "is missing"));
            };
            if id.index != index {
                return Err(damaged_entry(index, "is missing"));
            }
            let bytes = self.cursor.value().map_or(0, <[u8]>::len);
            if bytes > left && !entries.is_empty() {
                break;
            }
            left = left.saturating_sub(bytes);
            entries.push(record.try_into().map_err(|error: CodecError| damaged_entry(index, &error.to_string()))?);
            self.cursor.next();
        }
        Ok(entries)
    }

    /// The entry at the cursor.
    fn here(&self) -> io::Result<Option<(LogId, EntryRecord)>> {
        let Some((key, value)) = self.cursor.item() else {
            self.cursor.status().map_err(io::Error::other)?;
            return Ok(None);
        };
        let index = Keys::index(key).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a key is too short"))?;
        let record: EntryRecord = decode(value).map_err(|error| damaged_entry(index, &error.to_string()))?;
        if record.id.index != index {
            return Err(damaged_entry(index, &format!("holds entry {}", record.id.index)));
        }
        Ok(Some((record.id.into(), record)))
    }
}

fn damaged_entry(index: u64, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("entry {index} of the Raft log {why}"))
}

/// Changes that are written to the disk together, in this order.
pub(super) struct Batch {
    writes: WriteBatch,
    keys: Keys,
    scratch: Vec<u8>,
}

impl Batch {
    pub(super) fn bytes(&self) -> usize {
        self.writes.size_in_bytes()
    }

    fn put<T: Kind>(&mut self, key: &[u8], record: &T) -> Result<(), CodecError> {
        self.scratch.clear();
        encode_into(&mut self.scratch, record)?;
        self.writes.put(key, &self.scratch);
        Ok(())
    }

    pub(super) fn put_entry(&mut self, entry: &LogEntry) -> Result<(), CodecError> {
        self.put(&self.keys.entry(entry.log_id.index), &EntryRecord::from(entry))
    }

    pub(super) fn put_vote(&mut self, vote: Vote) -> Result<(), CodecError> {
        self.put(&self.keys.of(Tag::Vote), &VoteRecord::from(vote))
    }

    pub(super) fn put_committed(&mut self, committed: Option<LogId>) -> Result<(), CodecError> {
        let key = self.keys.of(Tag::Committed);
        if let Some(id) = committed {
            return self.put(&key, &LogIdRecord::from(id));
        }
        self.writes.delete(key);
        Ok(())
    }

    pub(super) fn put_purged(&mut self, upto: LogId) -> Result<(), CodecError> {
        self.put(&self.keys.of(Tag::Purged), &LogIdRecord::from(upto))
    }

    pub(super) fn delete_entries(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.writes.delete_range(self.keys.entry(range.start), self.keys.entry(range.end));
        }
    }
}

/// Whether to skip a sync, when the promise is broken on purpose: syncs only once in a thousand times, like a disk that
/// syncs only now and then.
fn is_skipped() -> bool {
    static SYNCS: AtomicU64 = AtomicU64::new(0);
    is_broken(Broken::Fsync) && !SYNCS.fetch_add(1, Ordering::Relaxed).is_multiple_of(1_000)
}
