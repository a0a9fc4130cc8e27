//! The lease machine with what keeps it: entries go in, records go to a disk, readers look on.
//!
//! One lock guards the live state. A chunk of entries is applied and written under it, so a reader sees memory and
//! disk at the same moment, and never a chunk half done.

pub mod chunk;
pub mod disk;
pub mod history;
pub mod memory;
pub mod rocks;

mod machine;
mod marks;

pub use machine::{Builder, Machine};
pub use marks::HASH_MARK_EVERY;

use crate::codec::records::{AppliedRecord, HashMark};
use crate::types::{LogId, NodeId, StoredMembership};
use chunk::{FirstRetained, Lookups};
use disk::StateDisk;
use lease::event::Event;
use lease::numbers::{ItemNo, Time};
use lease::record::{self, Key};
use lease::sabotage::{Broken, is_broken};
use lease::{Archive, NextDeadlines, Opening, Salt, State, StateHash};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// Told of every chunk after it is written, before anyone is answered. Must not block.
pub trait Observer: Send + Sync + 'static {
    fn applied(&self, chunk: &AppliedChunk<'_>);

    /// A snapshot was taken, up to this entry.
    fn took_snapshot(&self, _last: Option<LogId>) {}
}

/// What those who wait learn of a chunk.
#[derive(Debug)]
pub struct AppliedChunk<'a> {
    pub progress: Progress,
    /// In order.
    pub events: &'a [Event],
    /// In order.
    pub openings: &'a [Opening],
    /// A snapshot was installed: what it skipped stands in the store and is not told here.
    pub is_jump: bool,
}

/// How far a state is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub applied: Option<LogId>,
    /// Cluster time.
    pub now: Time,
    pub deadlines: NextDeadlines,
    pub has_leases: bool,
    pub hash: StateHash,
}

/// One state, shared by the one who applies and those who read.
pub struct StateStore<D> {
    live: RwLock<Live>,
    disk: D,
    salt: Salt,
    known_rules: u32,
    /// Held while the disk is copied (a snapshot, a backup) and while it is replaced. Taken before `live`, so that no
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
    /// When the disk fails or holds no whole state.
    pub fn open(disk: D, salt: Salt) -> io::Result<Arc<Self>> {
        let (state, applied) = disk.load(salt)?;
        let known_rules = state.known_rules();
        let live = Live { state, applied, first_retained: FirstRetained::default() };
        Ok(Arc::new(Self { live: RwLock::new(live), disk, salt, known_rules, copying: Mutex::new(()) }))
    }

    /// Up to which version this build knows the rules.
    #[must_use]
    pub fn known_rules(&self) -> u32 {
        self.known_rules
    }

    /// Looks at the state as it is between two chunks.
    ///
    /// # Errors
    /// When the disk failed in what was read from it.
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
    /// When the disk holds a membership that is none.
    pub fn membership(&self) -> io::Result<StoredMembership> {
        Ok(self.live().applied.membership.clone().try_into()?)
    }

    /// Whether a node of this id was a member, and is none now.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn was_removed(&self, node: NodeId) -> io::Result<bool> {
        // Both as of one entry: one that is just being added was not removed.
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

    /// Everything applied so far survives a power loss from now on.
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

    /// Goes through all records, of the disk and of the memory, and says where they differ. Changes nothing.
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
            faults.push("the live records in memory are not those on disk".into());
        }
        faults.extend(unreadable(&self.disk)?);
        Ok(faults)
    }

    /// Waits until the disk is neither copied nor replaced, and keeps others from it. Blocks for as long as a flush takes.
    pub(crate) fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        if is_broken(Broken::SnapshotRace) {
            return None;
        }
        // It guards no data that a panic could have left half changed.
        Some(self.copying.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn live(&self) -> RwLockReadGuard<'_, Live> {
        // A panic while a chunk was applied left it half done: nobody may look.
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

/// What of the records that are not held in memory is none.
pub(crate) fn unreadable(disk: &impl StateDisk) -> io::Result<Vec<String>> {
    let mut faults = Vec::new();
    for kind in [record::BODY, record::ACTIVITY, record::ARCHIVED, record::RETENTION, record::EVENT] {
        disk.scan(&[kind], &[kind], &mut |key, value| {
            let is_whole = Key::decode(key).is_ok()
                && match kind {
                    record::ACTIVITY => chunk::read::<lease::item::Activity>(value).is_ok(),
                    record::ARCHIVED => chunk::read::<record::Archived>(value).is_ok(),
                    record::RETENTION => chunk::read::<record::Retained>(value).is_ok(),
                    record::EVENT => chunk::read::<Event>(value).is_ok(),
                    // As its writer gave it.
                    _ => true,
                };
            if !is_whole {
                faults.push(format!("record {key:02x?} cannot be read"));
            }
            true
        })?;
    }
    Ok(faults)
}

/// A poisoned lock means a panic in apply: it is passed on, not papered over.
fn is_poisoned<T>(error: PoisonError<T>) -> io::Error {
    drop(error);
    io::Error::other("an entry could not be applied: the state is not whole")
}
