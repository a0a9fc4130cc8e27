//! The one thread that writes the log: takes all queued operations, in order, and writes them at once.
//!
//! Entries and votes are synced before anyone is notified of them. Operations that only remove entries (truncate,
//! purge) or can be recovered (committed) wait for the next sync. A failed write ends the thread: nothing is retried.

use super::disk::Batch;
use super::{BeforeWrite, Shared, failed};
use crate::codec::CodecError;
use crate::types::{LogEntry, LogId, Types, Vote};
use openraft::storage::IOFlushed;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// The approximate maximum size of one write: callers should not wait for the bytes of too many others.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

pub(super) struct Op<C: Types> {
    pub(super) number: u64,
    pub(super) work: Work<C>,
    /// Released after the write.
    pub(super) room: OwnedSemaphorePermit,
}

pub(super) enum Work<C: Types> {
    Append { entries: Vec<LogEntry>, done: IOFlushed<C> },
    Vote { vote: Vote, done: oneshot::Sender<io::Result<()>> },
    Committed(Option<LogId>),
    Truncate(Range<u64>),
    Purge { upto: LogId, entries: Range<u64> },
}

/// A caller that waits for a write.
enum Waiting<C: Types> {
    Append(IOFlushed<C>),
    Vote(oneshot::Sender<io::Result<()>>),
}

impl<C: Types> Waiting<C> {
    fn complete(self, result: io::Result<()>) {
        match self {
            Self::Append(done) => done.io_completed(result),
            // A caller that no longer waits needs no answer.
            Self::Vote(done) => drop(done.send(result)),
        }
    }
}

/// Several operations that are written together.
struct Gathered {
    batch: Batch,
    rooms: Vec<OwnedSemaphorePermit>,
    last: u64,
    entries: u64,
    sync: bool,
    vote: Option<Vote>,
    committed: Option<Option<LogId>>,
    purged: Option<LogId>,
}

impl Gathered {
    fn new(batch: Batch) -> Self {
        let rooms = Vec::new();
        Self { batch, rooms, last: 0, entries: 0, sync: false, vote: None, committed: None, purged: None }
    }

    fn add<C: Types>(&mut self, op: Op<C>, waiting: &mut Vec<Waiting<C>>) -> Result<(), CodecError> {
        self.last = op.number;
        self.rooms.push(op.room);
        match op.work {
            Work::Append { entries, done } => {
                waiting.push(Waiting::Append(done));
                self.sync |= !entries.is_empty();
                self.entries += entries.len() as u64;
                entries.iter().try_for_each(|entry| self.batch.put_entry(entry))
            }
            Work::Vote { vote, done } => {
                waiting.push(Waiting::Vote(done));
                self.sync = true;
                self.vote = Some(vote);
                self.batch.put_vote(vote)
            }
            Work::Committed(committed) => {
                self.committed = Some(committed);
                Ok(())
            }
            Work::Truncate(entries) => {
                self.batch.delete_entries(entries);
                Ok(())
            }
            Work::Purge { upto, entries } => {
                self.purged = Some(upto);
                self.batch.delete_entries(entries);
                Ok(())
            }
        }
    }

    /// Only the newest of these counts.
    fn finish(&mut self) -> Result<(), CodecError> {
        if let Some(committed) = self.committed {
            self.batch.put_committed(committed)?;
        }
        self.purged.map_or(Ok(()), |upto| self.batch.put_purged(upto))
    }
}

pub(super) struct Writer<C: Types> {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Op<C>>,
    before_write: Option<BeforeWrite>,
    /// The callers of the current write, in order.
    waiting: Vec<Waiting<C>>,
    /// Marked as purged, but the mark may be lost by a power loss until it is synced.
    unsynced_purge: Option<u64>,
}

impl<C: Types> Writer<C> {
    pub(super) fn new(shared: Arc<Shared>, queue: mpsc::Receiver<Op<C>>, before_write: Option<BeforeWrite>) -> Self {
        Self { shared, queue, before_write, waiting: Vec::new(), unsynced_purge: None }
    }

    /// Returns when the queue is closed and empty, or after the first write that fails.
    pub(super) fn run(mut self) {
        while let Some(op) = self.queue.blocking_recv() {
            if let Err(error) = self.write(op) {
                return self.fail(&error.to_string());
            }
        }
    }

    /// Writes `op` and the operations queued after it, then notifies their callers.
    fn write(&mut self, op: Op<C>) -> io::Result<()> {
        let Gathered { batch, last, entries, sync, vote, purged, rooms, .. } = self.gather(op)?;
        let bytes = batch.bytes();
        if let Some(before_write) = &self.before_write {
            before_write()?;
        }
        let began = Instant::now();
        self.shared.disk.write(batch, sync)?;
        self.shared.counters.count(entries, bytes, sync.then(|| began.elapsed()));

        let mut view = self.shared.view();
        view.written(last);
        view.vote = vote.or(view.vote);
        drop(view);
        drop(rooms);
        for waiting in self.waiting.drain(..) {
            waiting.complete(Ok(()));
        }

        self.unsynced_purge = purged.map(|upto| upto.index).or(self.unsynced_purge);
        if sync && let Some(index) = self.unsynced_purge.take() {
            self.shared.disk.drop_files_upto(index)?;
        }
        Ok(())
    }

    fn gather(&mut self, op: Op<C>) -> Result<Gathered, CodecError> {
        let mut gathered = Gathered::new(self.shared.disk.batch());
        gathered.add(op, &mut self.waiting)?;
        while gathered.batch.bytes() < BATCH_BYTES
            && let Ok(op) = self.queue.try_recv()
        {
            gathered.add(op, &mut self.waiting)?;
        }
        gathered.finish()?;
        Ok(gathered)
    }

    /// Notifies every waiting caller and every caller in the queue once.
    fn fail(&mut self, why: &str) {
        self.shared.fail(why);
        for waiting in self.waiting.drain(..) {
            waiting.complete(Err(failed(why)));
        }
        self.queue.close();
        while let Some(op) = self.queue.blocking_recv() {
            match op.work {
                Work::Append { done, .. } => Waiting::<C>::Append(done).complete(Err(failed(why))),
                Work::Vote { done, .. } => Waiting::<C>::Vote(done).complete(Err(failed(why))),
                Work::Committed(_) | Work::Truncate(_) | Work::Purge { .. } => {}
            }
        }
    }
}

impl<C: Types> Drop for Writer<C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail("its writing thread panicked");
        }
    }
}
