//! What a state is kept on: RocksDB in a daemon, memory in a simulation.

use crate::codec::records::{AppliedRecord, SnapshotMetaRecord};
use crate::state::chunk::Chunk;
use crate::types::NodeId;
use lease::numbers::{EventNumber, SpaceNo};
use lease::{Salt, State};
use std::fmt::Debug;
use std::io;

/// Records by key, and how far the log was applied to them. A write is whole or not there, also after a crash; it
/// may be lost in one, because the log has it, until [`StateDisk::flush`] or a snapshot.
pub trait StateDisk: Send + Sync + 'static {
    /// Whether taking and installing snapshots keeps a thread waiting: then one of their own does it.
    const BLOCKS: bool;

    type Snapshot: Clone + Debug + Send + Sync + 'static;

    /// The live state from its records, and how far it got.
    ///
    /// # Errors
    /// When the records cannot be read or are no state.
    fn load(&self, salt: Salt) -> io::Result<(State, AppliedRecord)>;

    /// # Errors
    /// When the disk fails.
    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>>;

    /// Shows records from `from` on in the order of their keys, until `visit` says that it has seen enough or a key
    /// does not begin with `prefix`.
    ///
    /// # Errors
    /// When the disk fails.
    fn scan(&self, prefix: &[u8], from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> io::Result<()>;

    /// The same from the last record before `before` back to `from`.
    ///
    /// # Errors
    /// When the disk fails.
    fn scan_back(&self, from: &[u8], before: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> io::Result<()>;

    /// Up to which number the events of a space were dropped here.
    ///
    /// # Errors
    /// When the disk fails.
    fn events_gone(&self, space: SpaceNo) -> io::Result<Option<EventNumber>>;

    /// Drops the events of a space from `first` to `upto` and remembers it, in one piece. No other disk need do so:
    /// nothing that is applied reads them.
    ///
    /// # Errors
    /// When the disk fails.
    fn drop_events(&self, space: SpaceNo, first: EventNumber, upto: EventNumber) -> io::Result<()>;

    /// Whether a node of this id was ever a member: its id never comes back.
    ///
    /// # Errors
    /// When the disk fails.
    fn was_member(&self, node: NodeId) -> io::Result<bool>;

    /// Writes what a chunk of entries changed, and how far the log is applied now, in one piece.
    ///
    /// # Errors
    /// When the disk fails: the process must stop.
    fn write(&self, chunk: &Chunk, applied: &AppliedRecord) -> io::Result<()>;

    /// Everything written so far survives a power loss from now on.
    ///
    /// # Errors
    /// When the disk fails.
    fn flush(&self) -> io::Result<()>;

    /// A snapshot of some moment between now and the return, bound to what it holds, or the newest one if that holds no
    /// less. Writes go on meanwhile, but no install.
    ///
    /// # Errors
    /// When the disk fails.
    fn take_snapshot(&self) -> io::Result<(SnapshotMetaRecord, Self::Snapshot)>;

    /// The last snapshot that was taken or installed.
    ///
    /// # Errors
    /// When the disk fails.
    fn newest_snapshot(&self) -> io::Result<Option<(SnapshotMetaRecord, Self::Snapshot)>>;

    /// Replaces everything by a snapshot: after a crash either the old or the new is there, whole and durable. No
    /// snapshot is taken meanwhile.
    ///
    /// # Errors
    /// When the snapshot is not what it says, or the disk fails.
    fn install(&self, meta: &SnapshotMetaRecord, snapshot: Self::Snapshot) -> io::Result<()>;
}
