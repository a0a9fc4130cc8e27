//! Raft's log on its own RocksDB: entries, the vote, how far is committed, how far is purged.
//!
//! One thread writes. It takes whatever is queued, in order, makes one batch of it, syncs that once and then tells
//! everyone in it: many appends share one fsync, and the vote stands in the same stream as the entries. Whoever calls
//! only puts work into the queue; readers see it from then on, durable or not, because [`view`] answers for what the
//! disk does not hold yet.
//!
//! What must never happen here: an fsync that is tried again after it failed (the kernel may have dropped the pages
//! and would answer yes), an entry that is told durable before it is, and a hole that is read over.

mod disk;
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

pub use disk::OpenError;
pub use stats::{LogHistograms, LogStats};

/// Operations that may wait for the disk. Raft appends whole batches, so this is far more than ever waits.
const QUEUE_OPERATIONS: usize = 1024;
/// Bytes of entries that may wait for the disk, in steps of [`QUEUE_STEP`]: a disk that stands still slows Raft down
/// instead of filling the memory.
const QUEUE_BYTES: usize = 64 * 1024 * 1024;
const QUEUE_STEP: usize = 1024;
/// What one read for replication returns at most: it becomes one frame between nodes.
const READ_BYTES: usize = 1024 * 1024;

/// How much memory the log may use, and what tests put in its way.
#[derive(Clone)]
pub struct LogOptions {
    /// Bytes of the newest entries kept in memory for replication and apply. Entries that are not written yet stay
    /// beyond it.
    pub cache_bytes: usize,
    /// How many entries are kept at most: small ones cost more than their bytes.
    pub cache_entries: usize,
    /// Called by the writing thread before each write. An error stands for one of the disk. Only tests set it.
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

/// What the store, its readers and its writer share.
struct Shared {
    disk: Disk,
    /// Held for moments, never over a wait and never over a read or write of the disk.
    view: Mutex<View>,
    counters: Arc<Counters>,
    sizes: Arc<Mutex<Sizes>>,
    failure: watch::Sender<Option<Arc<str>>>,
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().expect("nothing panics while it holds the view")
    }

    /// From here on nothing is taken any more.
    fn fail(&self, why: &str) {
        let why: Arc<str> = why.into();
        self.view().failure = Some(why.clone());
        self.failure.send_replace(Some(why));
    }

    fn read(&self, wanted: Range<u64>, bytes_max: Option<usize>) -> io::Result<Vec<LogEntry>> {
        let (part, on_disk) = {
            let view = self.view();
            let part = view.read(wanted, bytes_max);
            // Made under the lock: it sees the disk as it is now, whatever the writer does from here on.
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
    io::Error::other(format!("the Raft log has failed and takes nothing more until this node is restarted: {why}"))
}

/// Raft's log. There is one per directory and group; it stops its thread when it is dropped.
pub struct LogStore<C: Types> {
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
    /// None once it is closed.
    queue: Option<mpsc::Sender<Op<C>>>,
    thread: Option<JoinHandle<()>>,
}

impl<C: Types> LogStore<C> {
    /// # Errors
    /// When the directory cannot be used, or holds a log that lost something: the error says what to do.
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

    /// A way to watch the log that outlives its move into Raft and keeps nothing open.
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

    /// Why the log takes nothing more, if it does not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.view().failure.as_deref().map(str::to_owned)
    }

    /// Writes all that is queued and stops. Waits for the disk, so not for a runtime's thread that others need.
    ///
    /// # Errors
    /// When the log had failed.
    pub fn close(mut self) -> io::Result<()> {
        self.stop();
        self.failure().map_or(Ok(()), |why| Err(failed(&why)))
    }

    fn stop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so, and was found by everyone who waited for it.
            let _ = thread.join();
        }
    }

    /// Queues what `change` makes of the view, in the order in which the view changed. Nothing is queued when it
    /// refuses, or makes nothing.
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

    /// An error means that nothing of it was taken: the callback is then not called.
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

/// Reads the log beside its writer. Cheap to clone; keeps the database open.
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

    /// Empty when `start` is purged: entries from a later index on would follow the wrong one at the receiver, and
    /// Raft takes an error for a broken disk. It finds by itself that a snapshot is due.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<LogEntry>> {
        let mut entries = self.shared.read(start..end, Some(READ_BYTES))?;
        if entries.first().is_some_and(|entry| entry.log_id.index != start) {
            entries.clear();
        }
        Ok(entries)
    }

    /// In pieces: what a node has to apply after a long absence need not fit into memory at once. It is committed,
    /// so no piece changes between two reads. A stream that cannot begin where it was asked to is an error: what is
    /// applied would have a hole.
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
        "the Raft log: entry {index} is not there, and has to be applied next. Keep this node's directory, remove the node \
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

    /// About how many bytes the entries of a range have, as far as the log holds them.
    #[must_use]
    pub fn bytes_of(&self, entries: Range<u64>) -> u64 {
        self.sizes().of(entries)
    }

    /// The first entry that stays if entries are purged until the log holds at most this many bytes.
    #[must_use]
    pub fn first_kept(&self, bytes: u64) -> u64 {
        self.sizes().keeping(bytes)
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the disk space of purged entries back: rewrites what is left. Takes as long as the disk needs for that, so not
    /// for a runtime's thread. Nothing happens when the log is closed.
    ///
    /// # Errors
    /// When the disk fails. The log goes on if it can.
    pub fn reclaim(&self) -> io::Result<()> {
        self.log.upgrade().map_or(Ok(()), |log| log.disk.reclaim())
    }

    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().as_deref().map(str::to_owned)
    }

    /// Returns why when the log fails; None when it is closed without.
    pub async fn failed(&mut self) -> Option<String> {
        match self.failure.wait_for(Option::is_some).await {
            Ok(why) => why.as_deref().map(str::to_owned),
            Err(_) => None,
        }
    }
}
