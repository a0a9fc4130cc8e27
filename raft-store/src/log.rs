//! Raft's log on its own RocksDB: the entries, the vote, the committed position and the purged position.
//!
//! One thread writes. It takes all queued operations, in order, writes them as one batch, syncs once and then notifies
//! all their callers. Many appends share one fsync, and the vote is in the same order as the entries. A caller only
//! adds operations to the queue; readers see them at once, durable or not, because [`view`] holds what is not on disk
//! yet.
//!
//! Three things must never happen here: an fsync that is retried after it failed (the kernel may have dropped the pages
//! and would report success), an entry that is reported durable too early, and a gap that a reader skips.

mod disk;
mod open_error;
mod sizes;
mod stats;
mod view;
mod wal;
mod writer;

use crate::types::{Group, LogEntry, LogId, Types, Vote};
use disk::Disk;
use futures_util::Stream;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use sizes::Sizes;
use stats::Counters;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use view::View;
use writer::{Op, Work, Writer};

pub use open_error::OpenError;
pub use stats::{LogHistograms, LogStats};

/// Maximum number of operations that wait for the disk. Raft appends whole batches, so this is far more than ever
/// waits.
const QUEUE_OPERATIONS: usize = 1024;
/// Maximum number of bytes of entries that wait for the disk, in steps of [`QUEUE_STEP`]: a stalled disk slows Raft
/// down instead of filling the memory.
const QUEUE_BYTES: usize = 64 * 1024 * 1024;
const QUEUE_STEP: usize = 1024;
/// Maximum size of one read for replication: it becomes one frame between nodes.
const READ_BYTES: usize = 1024 * 1024;

/// The memory that the log may use, and hooks for tests.
#[derive(Clone)]
pub struct LogOptions {
    /// Bytes of the newest entries that are kept in memory for replication and apply. Entries that are not written yet
    /// are kept in addition.
    pub cache_bytes: usize,
    /// Maximum number of entries in memory: small entries cost more than their bytes.
    pub cache_entries: usize,
    /// Called by the writing thread before each write. An error is handled like an error of the disk. Only tests set
    /// it.
    pub before_write: Option<BeforeWrite>,
}

pub type BeforeWrite = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

impl Default for LogOptions {
    fn default() -> Self {
        Self { cache_bytes: 64 * 1024 * 1024, cache_entries: 100_000, before_write: None }
    }
}

impl fmt::Debug for LogOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogOptions")
            .field("cache_bytes", &self.cache_bytes)
            .field("cache_entries", &self.cache_entries)
            .finish_non_exhaustive()
    }
}

/// State shared by the store, its readers and its writer.
struct Shared {
    disk: Disk,
    /// Held only briefly: never while waiting, and never during a read or write of the disk.
    view: Mutex<View>,
    counters: Arc<Counters>,
    sizes: Arc<Mutex<Sizes>>,
    failure: watch::Sender<Option<Arc<str>>>,
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().expect("nothing panics while it holds the view")
    }

    /// From now on every operation is rejected.
    fn fail(&self, why: &str) {
        let why: Arc<str> = why.into();
        self.view().failure = Some(why.clone());
        self.failure.send_replace(Some(why));
    }

    fn read(&self, wanted: Range<u64>, bytes_max: Option<usize>) -> io::Result<Vec<LogEntry>> {
        let (part, on_disk) = {
            let view = self.view();
            let part = view.read(wanted, bytes_max);
            // Created under the lock: it shows the disk as it is now, whatever the writer does later.
            let on_disk = (!part.on_disk.is_empty()).then(|| self.disk.entries(part.on_disk.clone()));
            (part, on_disk)
        };
        let Some(on_disk) = on_disk else { return Ok(part.in_memory) };
        let mut entries = on_disk.read(bytes_max)?;
        entries.extend(part.in_memory);
        Ok(entries)
    }
}

fn failed(why: &str) -> io::Error {
    io::Error::other(format!("the Raft log has failed and accepts no more writes until this node is restarted: {why}"))
}

/// Raft's log. There is one per directory and group. Dropping it stops its thread.
pub struct LogStore<C: Types> {
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
    /// `None` after it is closed.
    queue: Option<mpsc::Sender<Op<C>>>,
    thread: Option<JoinHandle<()>>,
}

impl<C: Types> LogStore<C> {
    /// # Errors
    /// When the directory cannot be used, or holds a log that lost something. The error says what to do.
    pub fn open(path: &Path, group: Group, options: LogOptions) -> Result<Self, OpenError> {
        let (disk, found) = Disk::open(path, group)?;
        let counters = Arc::new(Counters::new(disk.syncs()));
        let first = found.purged.map_or(0, |id| id.index + 1);
        let next = found.last.map_or(first, |id| id.index + 1);
        let sizes = Arc::new(Mutex::new(Sizes::new(first, disk.pieces(first..next))));
        let shared = Arc::new(Shared {
            view: Mutex::new(View::new(&found, options.cache_bytes, options.cache_entries, sizes.clone())),
            disk,
            counters,
            sizes,
            failure: watch::Sender::new(None),
        });
        let (queue, receiver) = mpsc::channel(QUEUE_OPERATIONS);
        let writer = Writer::new(shared.clone(), receiver, options.before_write);
        let thread = std::thread::Builder::new()
            .name(format!("raft-log-{}", group.0))
            .spawn(move || writer.run())
            .map_err(|error| OpenError::disk(path, error))?;
        let room = Arc::new(Semaphore::new(QUEUE_BYTES / QUEUE_STEP));
        Ok(Self { shared, room, queue: Some(queue), thread: Some(thread) })
    }

    /// Returns a watcher of the log. It can be used after the log was moved into Raft, and keeps nothing open.
    #[must_use]
    pub fn monitor(&self) -> LogMonitor {
        LogMonitor {
            counters: self.shared.counters.clone(),
            sizes: self.shared.sizes.clone(),
            failure: self.shared.failure.subscribe(),
            log: Arc::downgrade(&self.shared),
        }
    }

    #[must_use]
    pub fn reader(&self) -> LogReader<C> {
        LogReader { shared: self.shared.clone(), types: PhantomData }
    }

    /// The reason why the log rejects operations, if it failed.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.view().failure.as_deref().map(str::to_owned)
    }

    /// Writes all queued operations and stops. Blocks on the disk, so do not call it on a runtime thread that others
    /// need.
    ///
    /// # Errors
    /// When the log has failed.
    pub fn close(mut self) -> io::Result<()> {
        self.stop();
        self.failure().map_or(Ok(()), |why| Err(failed(&why)))
    }

    fn stop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the writing thread was already reported to everyone who waited for it.
            let _ = thread.join();
        }
    }

    /// Changes the view with `change` and queues the operation that it returns, in the order of the changes. Queues
    /// nothing if `change` fails or returns nothing.
    async fn take(
        &self,
        bytes: usize,
        change: impl FnOnce(&mut View) -> io::Result<Option<Work<C>>> + Send,
    ) -> io::Result<()> {
        let steps = bytes.div_ceil(QUEUE_STEP).min(QUEUE_BYTES / QUEUE_STEP);
        let room = self.room.clone().acquire_many_owned(u32::try_from(steps).expect("bounded above")).await;
        let room = room.expect("never closed");
        let queue = self.queue.as_ref().expect("only closing takes it");
        let Ok(slot) = queue.reserve().await else {
            return Err(failed(&self.failure().unwrap_or_else(|| "its writing thread ended".to_owned())));
        };
        let mut view = self.shared.view();
        if let Some(why) = &view.failure {
            return Err(failed(why));
        }
        if let Some(work) = change(&mut view)? {
            slot.send(Op { number: view.taken(), work, room });
        }
        Ok(())
    }
}

impl<C: Types> Drop for LogStore<C> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<C: Types> fmt::Debug for LogStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogStore").field("view", &*self.shared.view()).finish_non_exhaustive()
    }
}

impl<C: Types> RaftLogStorage<C> for LogStore<C> {
    type LogReader = LogReader<C>;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        let view = self.shared.view();
        Ok(LogState { last_purged_log_id: view.purged(), last_log_id: view.last() })
    }

    async fn get_log_reader(&mut self) -> LogReader<C> {
        self.reader()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let (done, durable) = oneshot::channel();
        let vote = *vote;
        self.take(0, move |_| Ok(Some(Work::Vote { vote, done }))).await?;
        durable.await.unwrap_or_else(|_| Err(failed("its writing thread ended")))
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.take(0, move |view| {
            view.committed = committed;
            Ok(Some(Work::Committed(committed)))
        })
        .await
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.shared.view().committed)
    }

    /// On an error nothing was appended, and the callback is not called.
    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = LogEntry> + Send,
        I::IntoIter: Send,
    {
        let entries: Vec<LogEntry> = entries.into_iter().collect();
        let bytes = entries.iter().map(view::weight).sum();
        self.take(bytes, move |view| {
            view.append(&entries)?;
            Ok(Some(Work::Append { entries, done: callback }))
        })
        .await
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> io::Result<()> {
        self.take(0, move |view| Ok(view.truncate_after(last_log_id).map(Work::Truncate))).await
    }

    async fn purge(&mut self, log_id: LogId) -> io::Result<()> {
        self.take(0, move |view| Ok(view.purge(log_id).map(|entries| Work::Purge { upto: log_id, entries }))).await
    }
}

/// Reads the log while it is being written. Cheap to clone; keeps the database open.
pub struct LogReader<C> {
    shared: Arc<Shared>,
    types: PhantomData<fn() -> C>,
}

impl<C> Clone for LogReader<C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), types: PhantomData }
    }
}

impl<C> fmt::Debug for LogReader<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogReader").field("view", &*self.shared.view()).finish_non_exhaustive()
    }
}

impl<C: Types> RaftLogReader<C> for LogReader<C> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + fmt::Debug + Send>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<LogEntry>> {
        self.shared.read(indexes(&range), None)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.shared.view().vote)
    }

    /// Empty when `start` is purged: later entries would follow the wrong entry at the receiver, and Raft treats an
    /// error as a broken disk. Raft then finds that a snapshot is needed.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<LogEntry>> {
        let mut entries = self.shared.read(start..end, Some(READ_BYTES))?;
        if entries.first().is_some_and(|entry| entry.log_id.index != start) {
            entries.clear();
        }
        Ok(entries)
    }

    /// Reads in pieces: the entries that a node must apply after a long absence may not fit into memory at once. They
    /// are committed, so they do not change between two reads. A stream that cannot begin at the requested index is an
    /// error, because the applied entries would have a gap.
    async fn entries_stream<RB>(&mut self, range: RB) -> impl Stream<Item = io::Result<LogEntry>> + Send
    where
        RB: RangeBounds<u64> + Clone + fmt::Debug + Send,
    {
        let shared = self.shared.clone();
        let wanted = indexes(&range);
        let start = wanted.start;
        let piece: std::vec::IntoIter<LogEntry> = Vec::new().into_iter();
        futures_util::stream::unfold((piece, wanted), move |(mut piece, mut left)| {
            let read = match piece.next() {
                Some(entry) => Some(Ok(entry)),
                None if left.is_empty() => None,
                None => match shared.read(left.clone(), Some(READ_BYTES)) {
                    Ok(entries) => {
                        let mut entries = entries.into_iter();
                        match entries.next() {
                            Some(entry) if entry.log_id.index == left.start => {
                                piece = entries;
                                Some(Ok(entry))
                            }
                            // The log ends before the range does.
                            None if left.start > start => None,
                            _ => Some(Err(missing(left.start))),
                        }
                    }
                    Err(error) => Some(Err(error)),
                },
            };
            match &read {
                Some(Ok(entry)) => left.start = entry.log_id.index + 1,
                Some(Err(_)) => left.start = left.end,
                None => {}
            }
            std::future::ready(read.map(|entry| (entry, (piece, left))))
        })
    }
}

fn missing(index: u64) -> io::Error {
    let why = format!(
        "the Raft log: entry {index} is missing, but must be applied next. Keep this node's directory, remove the node \
         from the cluster and add a new one"
    );
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn indexes(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(index) => *index,
        Bound::Excluded(index) => index.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(index) => index.saturating_add(1),
        Bound::Excluded(index) => *index,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

/// Watches a log from outside Raft.
#[derive(Clone)]
pub struct LogMonitor {
    counters: Arc<Counters>,
    sizes: Arc<Mutex<Sizes>>,
    failure: watch::Receiver<Option<Arc<str>>>,
    log: Weak<Shared>,
}

impl fmt::Debug for LogMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogMonitor").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl LogMonitor {
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.counters.read()
    }

    #[must_use]
    pub fn histograms(&self) -> LogHistograms {
        self.counters.histograms()
    }

    /// The approximate size in bytes of the entries of a range that are in the log.
    #[must_use]
    pub fn bytes_of(&self, entries: Range<u64>) -> u64 {
        self.sizes().of(entries)
    }

    /// The first entry to keep when purging until the log holds at most this many bytes.
    #[must_use]
    pub fn first_kept(&self, bytes: u64) -> u64 {
        self.sizes().keeping(bytes)
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the disk space of purged entries by rewriting the remaining ones. Blocks on the disk, so do not call it on
    /// a runtime thread. Does nothing when the log is closed.
    ///
    /// # Errors
    /// When the disk fails. The log continues if it can.
    pub fn reclaim(&self) -> io::Result<()> {
        self.log.upgrade().map_or(Ok(()), |log| log.disk.reclaim())
    }

    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().as_deref().map(str::to_owned)
    }

    /// Waits until the log fails and returns the reason; `None` when it is closed without a failure.
    pub async fn failed(&mut self) -> Option<String> {
        match self.failure.wait_for(Option::is_some).await {
            Ok(why) => why.as_deref().map(str::to_owned),
            Err(_) => None,
        }
    }
}
