//! From the hash of a name to the slot of its item. Names of one hash are told apart by whoever looks.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(crate) struct NameIndex {
    /// The second number tells apart slots of one hash.
    slots: BTreeMap<(u64, u32), u32>,
}

impl NameIndex {
    /// The slot under this hash that the test knows.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.under(hash).find_map(|(_, slot)| is_it(*slot).then_some(*slot))
    }

    pub(crate) fn insert(&mut self, hash: u64, slot: u32) {
        let twin = self.under(hash).next_back().map_or(0, |((_, twin), _)| twin + 1);
        self.slots.insert((hash, twin), slot);
    }

    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        let entry = self.under(hash).find_map(|(entry, of)| (*of == slot).then_some(*entry));
        self.slots.remove(&entry.expect("every live item is named"));
    }

    fn under(&self, hash: u64) -> impl DoubleEndedIterator<Item = (&(u64, u32), &u32)> {
        self.slots.range((hash, 0)..=(hash, u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_hash_are_kept_apart() {
        let mut index = NameIndex::default();
        for slot in [10, 11, 12] {
            index.insert(7, slot);
        }
        index.insert(8, 20);
        let find = |index: &NameIndex, hash, slot| index.find(hash, |of| of == slot);
        assert_eq!([10, 11, 12].map(|slot| find(&index, 7, slot)), [Some(10), Some(11), Some(12)]);
        assert_eq!(find(&index, 7, 20), None);
        index.remove(7, 11);
        assert_eq!([10, 11, 12].map(|slot| find(&index, 7, slot)), [Some(10), None, Some(12)]);
        index.insert(7, 13);
        assert_eq!([10, 12, 13].map(|slot| find(&index, 7, slot)), [Some(10), Some(12), Some(13)]);
        assert_eq!(find(&index, 8, 20), Some(20));
    }
}
