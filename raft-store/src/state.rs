//! The lease machine with its disk: applies entries, stores records, and serves readers.
//!
//! One lock guards the live state. A chunk of entries is applied and written under it, so a reader sees memory and disk
//! of the same moment, and never a half-applied chunk.

pub mod chunk;
pub mod disk;
pub mod history;
pub mod memory;
pub mod rocks;

pub(crate) mod lookups;
mod machine;
mod marks;

pub use machine::{Builder, Machine};
pub use marks::HASH_MARK_EVERY;

use crate::codec::records::{AppliedRecord, HashMark};
use crate::types::{LogId, NodeId, StoredMembership};
use disk::StateDisk;
use lease::event::Event;
use lease::numbers::{ItemNo, Time};
use lease::record::{self, Key};
use lease::{Archive, NextDeadlines, Opening, Salt, State, StateHash};
use lookups::{FirstRetained, Lookups};
use sabotage::{Broken, is_broken};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// Called for every chunk after it is written and before any caller gets an answer. Must not block.
pub trait Observer: Send + Sync + 'static {
    fn applied(&self, chunk: &AppliedChunk<'_>);

    /// A snapshot was taken, up to this entry.
    fn took_snapshot(&self, _last: Option<LogId>) {}
}

/// What subscribers learn of a chunk.
#[derive(Debug)]
pub struct AppliedChunk<'a> {
    pub progress: Progress,
    /// In order.
    pub events: &'a [Event],
    /// In order.
    pub openings: &'a [Opening],
    /// A snapshot was installed: its events are in the store and are not listed here.
    pub is_jump: bool,
}

/// How far a state is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub applied: Option<LogId>,
    /// Cluster time.
    pub now: Time,
    pub deadlines: NextDeadlines,
    pub has_leases: bool,
    pub hash: StateHash,
}

/// One state, shared by the task that applies entries and by readers.
pub struct StateStore<D> {
    live: RwLock<Live>,
    disk: D,
    salt: Salt,
    known_rules: u32,
    /// Held while the disk is copied (a snapshot, a backup) and while it is replaced. Locked before `live`, so that no
    /// reader waits for a copy.
    copying: Mutex<()>,
}

struct Live {
    state: State,
    applied: AppliedRecord,
    first_retained: FirstRetained,
}

impl<D> fmt::Debug for StateStore<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateStore")
    }
}

impl<D: StateDisk> StateStore<D> {
    /// Loads the live state into memory.
    ///
    /// # Errors
    /// When the disk fails or holds an incomplete state.
    pub fn open(disk: D, salt: Salt) -> io::Result<Arc<Self>> {
        let (state, applied) = disk.load(salt)?;
        let known_rules = state.known_rules();
        let live = Live { state, applied, first_retained: FirstRetained::default() };
        Ok(Arc::new(Self { live: RwLock::new(live), disk, salt, known_rules, copying: Mutex::new(()) }))
    }

    /// The latest version of the rules that this build knows.
    #[must_use]
    pub fn known_rules(&self) -> u32 {
        self.known_rules
    }

    /// Reads the state between two chunks.
    ///
    /// # Errors
    /// When a read of the disk failed.
    pub fn read<R>(&self, look: impl FnOnce(&State, &dyn Archive) -> R) -> io::Result<R> {
        let live = self.live();
        let lookups = Lookups::new(&self.disk, FirstRetained::default());
        let seen = look(&live.state, &lookups);
        lookups.check()?;
        Ok(seen)
    }

    #[must_use]
    pub fn progress(&self) -> Progress {
        let live = self.live();
        self.progress_of(&live)
    }

    /// The hashes that nodes compare, oldest first.
    #[must_use]
    pub fn hash_marks(&self) -> Vec<HashMark> {
        self.live().applied.marks.clone()
    }

    /// # Errors
    /// If the stored membership is invalid.
    pub fn membership(&self) -> io::Result<StoredMembership> {
        Ok(self.live().applied.membership.clone().try_into()?)
    }

    /// Whether a node with this id was a member and no longer is.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn was_removed(&self, node: NodeId) -> io::Result<bool> {
        // Both are read as of the same entry, so a node that is just being added does not count as removed.
        let live = self.live();
        Ok(!live.applied.membership.membership.members.contains_key(&node) && self.disk.was_member(node)?)
    }

    /// One part of an item's body, as it was written.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn body(&self, item: ItemNo, part: lease::item::Part) -> io::Result<Option<Vec<u8>>> {
        self.disk.get(&Key::Body(item, part).encode())
    }

    /// Makes everything that is applied so far durable.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn flush(&self) -> io::Result<()> {
        self.disk.flush()
    }

    #[must_use]
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Compares all records on disk and in memory, and returns the differences. Changes nothing.
    ///
    /// # Errors
    /// When the disk fails or a record cannot be read.
    pub fn verify(&self) -> io::Result<Vec<String>> {
        let live = self.live();
        let (loaded, applied) = self.disk.load(self.salt)?;
        let mut faults = loaded.violations();
        if applied != live.applied {
            faults.push(format!("applied up to {:?} in memory, {:?} on disk", live.applied.last, applied.last));
        }
        if loaded.dump() != live.state.dump() {
            faults.push("the live records in memory differ from those on disk".into());
        }
        faults.extend(unreadable(&self.disk)?);
        Ok(faults)
    }

    /// Waits until the disk is neither copied nor replaced, and prevents both. Blocks for as long as a flush takes.
    pub(crate) fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        if is_broken(Broken::SnapshotRace) {
            return None;
        }
        // It guards no data, so a panic cannot have left it inconsistent.
        Some(self.copying.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn live(&self) -> RwLockReadGuard<'_, Live> {
        // A panic while applying a chunk left the state half changed: nobody may read it.
        self.live.read().expect("the state is whole")
    }

    fn progress_of(&self, live: &Live) -> Progress {
        let lookups = Lookups::new(&self.disk, live.first_retained.clone());
        Progress {
            applied: live.applied.last.map(Into::into),
            now: live.state.now(),
            deadlines: live.state.next_deadlines(&lookups),
            has_leases: live.state.has_leases(),
            hash: live.state.hash(),
        }
    }
}

impl Live {
    fn note_applied(&mut self, last: LogId) {
        self.applied.last = Some(last.into());
        self.applied.hash = self.state.hash();
        marks::note(&mut self.applied.marks, HashMark { index: last.index, hash: self.applied.hash });
    }
}

/// Checks the records that are not held in memory, and returns the invalid ones.
pub(crate) fn unreadable(disk: &impl StateDisk) -> io::Result<Vec<String>> {
    let mut faults = Vec::new();
    for kind in [record::BODY, record::ACTIVITY, record::ARCHIVED, record::RETENTION, record::EVENT] {
        disk.scan(&[kind], &[kind], &mut |key, value| {
            let is_whole = Key::decode(key).is_ok()
                && match kind {
                    record::ACTIVITY => lookups::read::<lease::item::Activity>(value).is_ok(),
                    record::ARCHIVED => lookups::read::<record::Archived>(value).is_ok(),
                    record::RETENTION => lookups::read::<record::Retained>(value).is_ok(),
                    record::EVENT => lookups::read::<Event>(value).is_ok(),
                    // The value as its writer gave it.
                    _ => true,
                };
            if !is_whole {
                faults.push(format!("record {key:02x?} is invalid"));
            }
            true
        })?;
    }
    Ok(faults)
}

/// A poisoned lock means a panic in apply: it is passed on as an error.
fn is_poisoned<T>(error: PoisonError<T>) -> io::Error {
    drop(error);
    io::Error::other("applying an entry failed and left the state incomplete: restart this node")
}
