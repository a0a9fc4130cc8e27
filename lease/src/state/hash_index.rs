//! An index from a uniform hash to a number, in one or two cache lines. The caller of a lookup distinguishes names that
//! have the same hash.
//!
//! It is not a map: it has no order and contains only what can be rebuilt from the records. With ordered maps instead,
//! lookups were close to half of the cost of a claim at a million items.

/// Growing moves one shard at a time, so that no command waits for all of them.
const SHARDS: usize = 64;
const FREE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct HashIndex {
    shards: Vec<Shard>,
}

/// Open addressing, linear probing, no tombstones.
#[derive(Clone, Debug, Default)]
struct Shard {
    entries: Vec<Entry>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The low half of the hash: it decides the entry's position and almost identifies it.
    hash: u32,
    number: u32,
}

impl Default for HashIndex {
    fn default() -> Self {
        Self { shards: vec![Shard::default(); SHARDS] }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a part of a hash is a hash")]
fn low(hash: u64) -> u32 {
    hash as u32
}

fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

impl HashIndex {
    /// The only number that the index cannot store.
    pub(crate) const NO_NUMBER: u32 = FREE;

    /// The number under this hash for which `is_it` is true.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let shard = &self.shards[shard_of(hash)];
        let mut entries = shard.probe(low(hash));
        entries.find(|(_, entry)| entry.hash == low(hash) && is_it(entry.number)).map(|(_, entry)| entry.number)
    }

    /// Adds a number that is not in the index.
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        assert_ne!(number, FREE, "this number marks a free place");
        let shard = &mut self.shards[shard_of(hash)];
        if (shard.len + 1) * 8 > shard.entries.len() * 7 {
            shard.grow();
        }
        shard.place(Entry { hash: low(hash), number });
        shard.len += 1;
    }

    /// Removes a number that is in the index.
    pub(crate) fn remove(&mut self, hash: u64, number: u32) {
        let shard = &mut self.shards[shard_of(hash)];
        let found = shard.probe(low(hash)).find(|(_, entry)| entry.hash == low(hash) && entry.number == number);
        let (at, _) = found.expect("only what was inserted is removed");
        shard.close_gap(at);
        shard.len -= 1;
    }
}

impl Shard {
    fn mask(&self) -> usize {
        self.entries.len().wrapping_sub(1)
    }

    /// The entries from the position of this hash to the first gap.
    fn probe(&self, hash: u32) -> impl Iterator<Item = (usize, Entry)> {
        let home = hash as usize;
        (0..self.entries.len())
            .map(move |step| (home + step) & self.mask())
            .map(|at| (at, self.entries[at]))
            .take_while(|(_, entry)| entry.number != FREE)
    }

    fn place(&mut self, entry: Entry) {
        let mask = self.mask();
        let mut at = entry.hash as usize & mask;
        while self.entries[at].number != FREE {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    fn grow(&mut self) {
        let entries = vec![Entry { hash: 0, number: FREE }; (self.entries.len() * 2).max(8)];
        for entry in std::mem::replace(&mut self.entries, entries) {
            if entry.number != FREE {
                self.place(entry);
            }
        }
    }

    /// Empties a place and moves up the entries after it that would no longer be found.
    fn close_gap(&mut self, gap: usize) {
        let mask = self.mask();
        let mut gap = gap;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry.number == FREE {
                break;
            }
            let from_home = at.wrapping_sub(entry.hash as usize) & mask;
            let from_gap = at.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                self.entries[gap] = entry;
                gap = at;
            }
        }
        self.entries[gap].number = FREE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn find(index: &HashIndex, hash: u64, number: u32) -> bool {
        index.find(hash, |of| of == number) == Some(number)
    }

    #[test]
    fn numbers_with_equal_hashes_are_distinguished() {
        let mut index = HashIndex::default();
        for number in [10, 11, 12] {
            index.insert(7, number);
        }
        index.insert(8, 20);
        assert_eq!([10, 11, 12, 20].map(|number| find(&index, 7, number)), [true, true, true, false]);
        index.remove(7, 11);
        assert_eq!([10, 11, 12].map(|number| find(&index, 7, number)), [true, false, true]);
        index.insert(7, 13);
        assert_eq!([10, 12, 13].map(|number| find(&index, 7, number)), [true, true, true]);
        assert!(find(&index, 8, 20));
    }

    /// Uses few hashes, so that runs of neighbours collide, wrap around the end and are split by removals.
    #[test]
    fn the_index_agrees_with_a_set() {
        let mut index = HashIndex::default();
        let mut set = BTreeSet::new();
        let mut random = 1_u64;
        for step in 0..20_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let hash = (random >> 40) % 50 + if random & 1 == 0 { 0xffff_ffe0 } else { 0 };
            let number = u32::try_from((random >> 8) % 40).unwrap();
            if set.remove(&(hash, number)) {
                index.remove(hash, number);
            } else {
                index.insert(hash, number);
                set.insert((hash, number));
            }
            if step % 97 == 0 {
                for (hash, number) in (0..110).map(|n| (n % 55 + if n < 55 { 0 } else { 0xffff_ffe0 }, n % 40)) {
                    let number = u32::try_from(number).unwrap();
                    assert_eq!(find(&index, hash, number), set.contains(&(hash, number)), "{hash} {number} at {step}");
                }
            }
        }
        assert_eq!(index.shards.iter().map(|shard| shard.len).sum::<usize>(), set.len());
    }
}
