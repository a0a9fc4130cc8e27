//! The storage of a state: RocksDB in a daemon, memory in a simulation.

use crate::codec::records::{AppliedRecord, SnapshotMetaRecord};
use crate::state::chunk::Chunk;
use crate::types::NodeId;
use lease::numbers::{EventNumber, SpaceNo};
use lease::{Salt, State};
use std::fmt::Debug;
use std::io;

/// Records by key, and how far the log is applied to them. A write is atomic, also in a crash. A crash may lose it,
/// because the log still has it, until [`StateDisk::flush`] or a snapshot.
pub trait StateDisk: Send + Sync + 'static {
    /// Whether taking and installing snapshots blocks a thread: then it runs on its own thread.
    const BLOCKS: bool;

    type Snapshot: Clone + Debug + Send + Sync + 'static;

    /// Loads the live state from its records, and how far it is applied.
    ///
    /// # Errors
    /// When the records cannot be read or are not a valid state.
    fn load(&self, salt: Salt) -> io::Result<(State, AppliedRecord)>;

    /// # Errors
    /// When the disk fails.
    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>>;

    /// Visits records from `from` on in key order, until `visit` stops or a key does not begin with `prefix`.
    ///
    /// # Errors
    /// When the disk fails.
    fn scan(&self, prefix: &[u8], from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> io::Result<()>;

    /// Like [`StateDisk::scan`], backwards: from the last record before `before` down to `from`.
    ///
    /// # Errors
    /// When the disk fails.
    fn scan_back(&self, from: &[u8], before: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> io::Result<()>;

    /// The number up to which events of the space were dropped on this node.
    ///
    /// # Errors
    /// When the disk fails.
    fn events_gone(&self, space: SpaceNo) -> io::Result<Option<EventNumber>>;

    /// Drops the events of a space from `first` to `upto` and stores this, atomically. Other nodes need not do the
    /// same: apply never reads events.
    ///
    /// # Errors
    /// When the disk fails.
    fn drop_events(&self, space: SpaceNo, first: EventNumber, upto: EventNumber) -> io::Result<()>;

    /// Whether a node with this id was ever a member: ids are never reused.
    ///
    /// # Errors
    /// When the disk fails.
    fn was_member(&self, node: NodeId) -> io::Result<bool>;

    /// Writes the changes of a chunk of entries, and how far the log is now applied, atomically.
    ///
    /// # Errors
    /// When the disk fails: the process must stop.
    fn write(&self, chunk: &Chunk, applied: &AppliedRecord) -> io::Result<()>;

    /// Makes everything that is written so far durable.
    ///
    /// # Errors
    /// When the disk fails.
    fn flush(&self) -> io::Result<()>;

    /// Takes a snapshot of a moment between the call and the return, together with its metadata. Returns the newest
    /// existing one if it holds at least as much. Writes continue meanwhile, but no install runs.
    ///
    /// # Errors
    /// When the disk fails.
    fn take_snapshot(&self) -> io::Result<(SnapshotMetaRecord, Self::Snapshot)>;

    /// The last snapshot that was taken or installed.
    ///
    /// # Errors
    /// When the disk fails.
    fn newest_snapshot(&self) -> io::Result<Option<(SnapshotMetaRecord, Self::Snapshot)>>;

    /// Replaces everything by a snapshot: after a crash either the old or the new state exists, complete and durable.
    /// No snapshot is taken meanwhile.
    ///
    /// # Errors
    /// When the snapshot does not match its metadata, or the disk fails.
    fn install(&self, meta: &SnapshotMetaRecord, snapshot: Self::Snapshot) -> io::Result<()>;
}
