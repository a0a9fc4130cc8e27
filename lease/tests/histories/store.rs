//! A store that writes in chunks: the committed records, and over them the pending changes of the chunk.

use lease::changes::{Change, Changes};
use lease::encoding::decode;
use lease::names::ItemId;
use lease::numbers::{ItemNo, SpaceNo, Time};
use lease::record::{self, Archived, Key, Retained};
use lease::{Archive, Records};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    pub(crate) committed: Records,
    /// None: removed by the chunk.
    pending: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Store {
    /// Adds a step's changes to the chunk. Changes for which `loses` returns true are dropped; only liars use it.
    pub(crate) fn take(&mut self, changes: &Changes, mut loses: impl FnMut(&[u8]) -> bool) {
        for change in changes.iter() {
            match change {
                Change::Put { key, .. } | Change::Remove { key } if loses(key) => {}
                Change::Put { key, value } => {
                    self.pending.insert(key.to_vec(), Some(value.to_vec()));
                }
                Change::Remove { key } => {
                    self.pending.insert(key.to_vec(), None);
                }
                Change::RemoveUnder { prefix } => {
                    let from = prefix.to_vec();
                    let committed = self.committed.0.range(from.clone()..).map(|(key, _)| key);
                    let mut doomed: Vec<_> = committed.take_while(|key| key.starts_with(prefix)).cloned().collect();
                    let pending = self.pending.range(from..).map(|(key, _)| key);
                    doomed.extend(pending.take_while(|key| key.starts_with(prefix)).cloned());
                    for key in doomed {
                        self.pending.insert(key, None);
                    }
                }
            }
        }
    }

    /// Ends the chunk and commits it.
    pub(crate) fn flush(&mut self) {
        for (key, value) in std::mem::take(&mut self.pending) {
            match value {
                Some(value) => self.committed.0.insert(key, value),
                None => self.committed.0.remove(&key),
            };
        }
    }

    /// The live records, the chunk's included, in loading order.
    pub(crate) fn live(&self) -> Records {
        let mut live = Records(self.committed.live().map(|(key, value)| (key.to_vec(), value.to_vec())).collect());
        for (key, value) in &self.pending {
            match value {
                Some(value) if record::LIVE.contains(&key[0]) => live.0.insert(key.clone(), value.clone()),
                _ => live.0.remove(key),
            };
        }
        live
    }

    fn get(&self, key: &[u8]) -> Option<&Vec<u8>> {
        match self.pending.get(key) {
            Some(value) => value.as_ref(),
            None => self.committed.0.get(key),
        }
    }
}

impl Archive for Store {
    fn item(&self, space: SpaceNo, id: &ItemId) -> Option<Archived> {
        let bytes = self.get(&Key::Archived(space, id.clone()).encode())?;
        Some(decode(bytes).expect("a record the machine wrote"))
    }

    fn retained_after(&self, (time, no): (Time, ItemNo)) -> Option<Retained> {
        let range = (Excluded(Key::Retention(time, no).encode()), Unbounded);
        let is_retained = |key: &[u8]| key[0] == record::RETENTION;
        let mut committed = self.committed.0.range(range.clone()).take_while(|(key, _)| is_retained(key));
        let committed = committed.find(|(key, _)| !self.pending.contains_key(*key));
        let pending = self.pending.range(range).take_while(|(key, _)| is_retained(key));
        let pending = pending.filter_map(|(key, value)| Some((key, value.as_ref()?))).next();
        let (_, bytes) = [committed, pending].into_iter().flatten().min_by_key(|(key, _)| *key)?;
        Some(decode(bytes).expect("a record the machine wrote"))
    }
}
