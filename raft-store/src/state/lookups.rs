//! What apply reads from the store while a chunk is applied.
//!
//! Apply reads terminal items from the store. Changes of earlier entries in the same chunk are not written yet, so they
//! are looked up here first: replicas must agree wherever their chunks end.

use crate::state::disk::StateDisk;
use lease::Archive;
use lease::changes::{Change, Changes};
use lease::encoding::decode;
use lease::names::ItemId;
use lease::numbers::{ItemNo, SpaceNo, Time};
use lease::record::{self, Archived, Key, Retained};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;

/// The store as apply sees it: the chunk's changes first, then the disk.
#[derive(Debug)]
pub(crate) struct Lookups<'a, D> {
    disk: &'a D,
    /// Archived items and retention lines that this chunk wrote or removed.
    pending: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    first_retained: RefCell<FirstRetained>,
    /// Apply cannot return an error, but a disk can fail: check this before using the results.
    failure: RefCell<Option<io::Error>>,
}

/// Every entry reads the first line of the retention list, so it is cached between entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstRetained(Option<Remembered>);

#[derive(Clone, Debug)]
struct Remembered {
    /// The key after which it was looked up.
    behind: Vec<u8>,
    first: Option<(Vec<u8>, Retained)>,
}

impl<'a, D: StateDisk> Lookups<'a, D> {
    pub(crate) fn new(disk: &'a D, first_retained: FirstRetained) -> Self {
        Self {
            disk,
            pending: BTreeMap::new(),
            first_retained: RefCell::new(first_retained),
            failure: RefCell::new(None),
        }
    }

    /// Adds the changes of an entry.
    pub(crate) fn note(&mut self, changes: &Changes) {
        for change in changes.iter() {
            let (key, value) = match change {
                Change::Put { key, value } => (key, Some(value)),
                Change::Remove { key } => (key, None),
                Change::RemoveUnder { .. } => continue,
            };
            match key.first() {
                Some(&record::ARCHIVED) => {
                    self.pending.insert(key.to_vec(), value.map(<[u8]>::to_vec));
                }
                Some(&record::RETENTION) => {
                    self.first_retained.get_mut().note(key, value);
                    self.pending.insert(key.to_vec(), value.map(<[u8]>::to_vec));
                }
                _ => {}
            }
        }
    }

    /// # Errors
    /// When the disk failed during a lookup.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    pub(crate) fn into_first_retained(self) -> FirstRetained {
        self.first_retained.into_inner()
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match self.pending.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.disk.get(key),
        }
    }

    fn find_retained_after(&self, after: &[u8]) -> io::Result<Option<(Vec<u8>, Retained)>> {
        let mut first: Option<(Vec<u8>, Vec<u8>)> = None;
        self.disk.scan(&[record::RETENTION], after, &mut |key, value| {
            if key == after || self.pending.contains_key(key) {
                return true;
            }
            first = Some((key.to_vec(), value.to_vec()));
            false
        })?;
        let behind = (Bound::Excluded(after.to_vec()), Bound::Unbounded);
        let pending = self.pending.range::<Vec<u8>, _>(behind).find_map(|(key, value)| {
            let is_retention = key.first() == Some(&record::RETENTION);
            value.as_ref().filter(|_| is_retention).map(|value| (key.clone(), value.clone()))
        });
        let first = [first, pending].into_iter().flatten().min();
        first.map(|(key, value)| Ok((key, read(&value)?))).transpose()
    }

    fn note_failure<T>(&self, result: io::Result<Option<T>>) -> Option<T> {
        result.unwrap_or_else(|error| {
            self.failure.borrow_mut().get_or_insert(error);
            None
        })
    }
}

impl<D: StateDisk> Archive for Lookups<'_, D> {
    fn item(&self, space: SpaceNo, id: &ItemId) -> Option<Archived> {
        let found = self.get(&Key::Archived(space, id.clone()).encode());
        self.note_failure(found.and_then(|value| value.map(|value| read(&value)).transpose()))
    }

    fn retained_after(&self, (time, no): (Time, ItemNo)) -> Option<Retained> {
        let after = Key::Retention(time, no).encode();
        if let Some(remembered) = &self.first_retained.borrow().0
            && remembered.behind == after
        {
            return remembered.first.as_ref().map(|(_, retained)| retained.clone());
        }
        let found = self.find_retained_after(&after);
        let is_sure = found.is_ok();
        let found = self.note_failure(found);
        let retained = found.as_ref().map(|(_, retained)| retained.clone());
        if is_sure {
            self.first_retained.borrow_mut().0 = Some(Remembered { behind: after, first: found });
        }
        retained
    }
}

impl FirstRetained {
    fn note(&mut self, key: &[u8], value: Option<&[u8]>) {
        let Some(Remembered { behind, first }) = &mut self.0 else { return };
        if key <= behind.as_slice() {
            return;
        }
        let is_first = first.as_ref().is_none_or(|(first, _)| key <= first.as_slice());
        if !is_first {
            return;
        }
        match value.map(read) {
            Some(Ok(retained)) => *first = Some((key.to_vec(), retained)),
            // The first line was removed, or cannot be read: look it up again.
            Some(Err(_)) | None => self.0 = None,
        }
    }
}

pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    decode(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
