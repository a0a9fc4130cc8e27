//! The archive of terminal items. They move from memory to the store, and apply looks them up when a command names one.

use crate::changes::{Change, Changes};
use crate::encoding::decode;
use crate::names::ItemId;
use crate::numbers::{ItemNo, SpaceNo, Time};
use crate::record::{self, Archived, Key, Retained};
use std::collections::BTreeMap;

/// What apply reads from a store. It must reflect every change of all earlier steps, also those not yet written to
/// disk, because replicas must agree wherever their write chunks end.
pub trait Archive {
    fn item(&self, space: SpaceNo, id: &ItemId) -> Option<Archived>;

    /// The first line of the retention list after this position.
    fn retained_after(&self, position: (Time, ItemNo)) -> Option<Retained>;
}

/// A store in memory, with every record by its key. For tests, benchmarks and simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records(pub BTreeMap<Vec<u8>, Vec<u8>>);

impl Records {
    pub fn write(&mut self, changes: &Changes) {
        for change in changes.iter() {
            match change {
                Change::Put { key, value } => {
                    self.0.insert(key.to_vec(), value.to_vec());
                }
                Change::Remove { key } => {
                    self.0.remove(key);
                }
                Change::RemoveUnder { prefix } => {
                    let doomed: Vec<_> = self
                        .0
                        .range(prefix.to_vec()..)
                        .take_while(|(key, _)| key.starts_with(prefix))
                        .map(|(key, _)| key.clone())
                        .collect();
                    for key in doomed {
                        self.0.remove(&key);
                    }
                }
            }
        }
    }

    /// The records that a state is loaded from, in loading order.
    pub fn live(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        record::LIVE.into_iter().flat_map(|kind| {
            self.0
                .range(vec![kind]..)
                .take_while(move |(key, _)| key.first() == Some(&kind))
                .map(|(key, value)| (key.as_slice(), value.as_slice()))
        })
    }
}

impl Archive for Records {
    fn item(&self, space: SpaceNo, id: &ItemId) -> Option<Archived> {
        let bytes = self.0.get(&Key::Archived(space, id.clone()).encode())?;
        Some(decode(bytes).expect("a record this machine wrote"))
    }

    fn retained_after(&self, (time, no): (Time, ItemNo)) -> Option<Retained> {
        let after = Key::Retention(time, no).encode();
        let (key, value) = self.0.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded)).next()?;
        (key.first() == Some(&record::RETENTION)).then(|| decode(value).expect("a record this machine wrote"))
    }
}
