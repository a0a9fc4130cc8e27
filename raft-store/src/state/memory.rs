//! A state in memory, for simulation and for tests of the layers above.

use crate::codec::records::{AppliedRecord, SnapshotMetaRecord};
use crate::state::chunk::Chunk;
use crate::state::disk::StateDisk;
use crate::types::NodeId;
use lease::numbers::{EventNumber, SpaceNo};
use lease::record::{self, Key};
use lease::{Records, Salt, State};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<Inner>>);

#[derive(Clone, Debug, Default)]
struct Inner {
    content: Content,
    snapshot: Option<(SnapshotMetaRecord, Arc<Content>)>,
}

/// The content of its snapshot.
#[derive(Clone, Debug, Default)]
pub struct Content {
    records: Records,
    applied: AppliedRecord,
    events_gone: BTreeMap<SpaceNo, EventNumber>,
    members: BTreeSet<NodeId>,
}

impl MemoryDisk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateDisk for MemoryDisk {
    const BLOCKS: bool = false;

    type Snapshot = Arc<Content>;

    fn load(&self, salt: Salt) -> io::Result<(State, AppliedRecord)> {
        let Content { records, applied, .. } = &self.lock().content;
        if !records.0.contains_key(&[record::META][..]) {
            return Ok((State::new(salt), applied.clone()));
        }
        let state = State::load(records.live(), applied.hash);
        Ok((state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?, applied.clone()))
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.lock().content.records.0.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> io::Result<()> {
        let inner = self.lock();
        for (key, value) in inner.content.records.0.range(from.to_vec()..) {
            if !key.starts_with(prefix) || !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn scan_back(&self, from: &[u8], before: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> io::Result<()> {
        if from >= before {
            return Ok(());
        }
        let inner = self.lock();
        for (key, value) in inner.content.records.0.range(from.to_vec()..before.to_vec()).rev() {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn events_gone(&self, space: SpaceNo) -> io::Result<Option<EventNumber>> {
        Ok(self.lock().content.events_gone.get(&space).copied())
    }

    fn drop_events(&self, space: SpaceNo, first: EventNumber, upto: EventNumber) -> io::Result<()> {
        let [first, last] = [first, upto].map(|number| Key::Event(space, number).encode());
        let content = &mut self.lock().content;
        let dropped = first..=last;
        content.records.0.retain(|key, _| !dropped.contains(key));
        content.events_gone.insert(space, upto);
        Ok(())
    }

    fn was_member(&self, node: NodeId) -> io::Result<bool> {
        Ok(self.lock().content.members.contains(&node))
    }

    fn write(&self, chunk: &Chunk, applied: &AppliedRecord) -> io::Result<()> {
        let mut inner = self.lock();
        for changes in &chunk.changes {
            inner.content.records.write(changes);
        }
        inner.content.members.extend(&chunk.members);
        inner.content.applied = applied.clone();
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn take_snapshot(&self) -> io::Result<(SnapshotMetaRecord, Self::Snapshot)> {
        let mut inner = self.lock();
        let taken = (inner.content.applied.snapshot_meta(), Arc::new(inner.content.clone()));
        inner.snapshot = Some(taken.clone());
        Ok(taken)
    }

    fn newest_snapshot(&self) -> io::Result<Option<(SnapshotMetaRecord, Self::Snapshot)>> {
        Ok(self.lock().snapshot.clone())
    }

    fn install(&self, meta: &SnapshotMetaRecord, snapshot: Self::Snapshot) -> io::Result<()> {
        let mut inner = self.lock();
        inner.content = Content::clone(&snapshot);
        inner.snapshot = Some((meta.clone(), snapshot));
        Ok(())
    }
}
