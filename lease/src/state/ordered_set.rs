//! An ordered set for millions of small values that are mostly inserted in order. Values are in chunks, keyed by the
//! chunk's first value. Chunks become full when values are only added at the end. A `BTreeSet` would leave its nodes
//! half empty for such values.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// The most values in a chunk.
const CHUNK: usize = 64;
/// Two neighbouring chunks with no more values than this together are merged. It is less than a full chunk, so that the
/// next value does not split them again.
const MERGED: usize = CHUNK * 7 / 8;

#[derive(Clone, Debug)]
pub(crate) struct OrderedSet<T> {
    /// No chunk is empty. A chunk's key is not above any of its own values, and above all values of earlier chunks.
    chunks: BTreeMap<T, Vec<T>>,
    len: usize,
}

impl<T> Default for OrderedSet<T> {
    fn default() -> Self {
        Self { chunks: BTreeMap::new(), len: 0 }
    }
}

impl<T: Ord + Copy> OrderedSet<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<T> {
        self.chunks.first_key_value().map(|(_, chunk)| chunk[0])
    }

    pub(crate) fn contains(&self, value: T) -> bool {
        self.chunks.range(..=value).next_back().is_some_and(|(_, chunk)| chunk.binary_search(&value).is_ok())
    }

    /// Returns whether the value was new.
    pub(crate) fn insert(&mut self, value: T) -> bool {
        let Some((_, chunk)) = self.chunks.range_mut(..=value).next_back() else {
            let first = self.chunks.pop_first().map(|(_, chunk)| chunk).unwrap_or_default();
            self.chunks.insert(value, first);
            return self.insert(value);
        };
        let Err(place) = chunk.binary_search(&value) else { return false };
        self.len += 1;
        if chunk.len() < CHUNK {
            chunk.insert(place, value);
        } else if place == CHUNK {
            self.chunks.insert(value, vec![value]);
        } else {
            let mut upper = chunk.split_off(CHUNK / 2);
            if place < CHUNK / 2 {
                chunk.insert(place, value);
            } else {
                upper.insert(place - CHUNK / 2, value);
            }
            self.chunks.insert(upper[0], upper);
        }
        true
    }

    /// Returns whether the value was in the set.
    pub(crate) fn remove(&mut self, value: T) -> bool {
        let Some((begin, chunk)) = self.chunks.range_mut(..=value).next_back() else { return false };
        let Ok(place) = chunk.binary_search(&value) else { return false };
        chunk.remove(place);
        self.len -= 1;
        let (begin, left) = (*begin, chunk.len());
        if left == 0 {
            self.chunks.remove(&begin);
        } else if left < CHUNK / 2 && left.is_multiple_of(CHUNK / 8) {
            self.merge(begin, left);
        }
        true
    }

    /// Merges this chunk with a neighbour if both are small. Called from time to time as the chunk shrinks.
    fn merge(&mut self, begin: T, len: usize) {
        let fits = |(_, chunk): &(&T, &Vec<T>)| chunk.len() + len <= MERGED;
        let before = self.chunks.range(..begin).next_back().filter(fits);
        let behind = self.chunks.range((Excluded(begin), Unbounded)).next().filter(fits);
        let (lower, upper) = match (before, behind) {
            (Some((before, _)), _) => (*before, begin),
            (None, Some((behind, _))) => (begin, *behind),
            (None, None) => return,
        };
        let values = self.chunks.remove(&upper).expect("just seen");
        self.chunks.get_mut(&lower).expect("just seen").extend(values);
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = T> {
        self.chunks.values().flatten().copied()
    }

    /// The values between the bounds. The first bound must not be above the second.
    pub(crate) fn range(&self, from: Bound<T>, to: Bound<T>) -> impl DoubleEndedIterator<Item = T> {
        // The values after the first bound may begin inside the chunk in which this bound falls.
        let first = match from {
            Included(value) | Excluded(value) => self.chunks.range(..=value).next_back(),
            Unbounded => None,
        };
        let first = first.map_or(Unbounded, |(begin, _)| Included(*begin));
        self.chunks.range((first, to)).flat_map(move |(_, chunk)| {
            let start = match from {
                Included(from) => chunk.partition_point(|value| *value < from),
                Excluded(from) => chunk.partition_point(|value| *value <= from),
                Unbounded => 0,
            };
            let end = match to {
                Included(to) => chunk.partition_point(|value| *value <= to),
                Excluded(to) => chunk.partition_point(|value| *value < to),
                Unbounded => chunk.len(),
            };
            chunk[start..end.max(start)].iter().copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn is_sound(set: &OrderedSet<u64>) -> bool {
        let ends: Vec<_> =
            set.chunks.iter().flat_map(|(begin, chunk)| [*begin, chunk[0], chunk[chunk.len() - 1]]).collect();
        let sizes = set.chunks.values().map(Vec::len);
        ends.is_sorted() && sizes.clone().all(|size| (1..=CHUNK).contains(&size)) && sizes.sum::<usize>() == set.len()
    }

    /// Phases in which the set grows, stays and shrinks, with few enough values that every chunk is split and merged.
    #[test]
    fn the_set_agrees_with_a_btree_set() {
        let mut set = OrderedSet::default();
        let mut other = BTreeSet::new();
        let mut random = 1_u64;
        for step in 0..60_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = (random >> 33) % 2_000;
            let removes = (random >> 20) % 100 < [10, 50, 90][(step / 5_000 % 3) as usize];
            if removes {
                assert_eq!(set.remove(value), other.remove(&value));
            } else {
                assert_eq!(set.insert(value), other.insert(value));
            }
            assert_eq!((set.len(), set.first()), (other.len(), other.first().copied()));
            if step % 100 == 0 {
                assert!(is_sound(&set), "at {step}");
                assert!(set.iter().eq(other.iter().copied()) && set.iter().rev().eq(other.iter().rev().copied()));
                assert_eq!(set.contains(value), !removes);
                let (low, high) = (value.min(step % 2_000), value.max(step % 2_000));
                for from in [Included(low), Excluded(low), Unbounded] {
                    for to in [Included(high), Excluded(high), Unbounded] {
                        if (from, to) == (Excluded(low), Excluded(low)) {
                            continue;
                        }
                        let expected = || other.range((from, to)).copied();
                        assert!(set.range(from, to).eq(expected()), "{from:?} {to:?} at {step}");
                        assert!(set.range(from, to).rev().eq(expected().rev()), "{from:?} {to:?} at {step}");
                    }
                }
            }
        }
        for value in 0..2_000 {
            set.remove(value);
        }
        assert!(is_sound(&set) && set.chunks.is_empty() && set.first().is_none() && !set.contains(7));
    }

    #[test]
    fn ordered_inserts_fill_chunks_and_removals_free_them() {
        let mut set = OrderedSet::default();
        for value in 0..6_400 {
            set.insert(value);
        }
        assert_eq!(set.chunks.len(), 100);
        for value in (0..6_400).filter(|value| value % 8 != 0) {
            set.remove(value);
        }
        assert!(is_sound(&set) && set.len() == 800 && set.chunks.len() < 30, "{} chunks", set.chunks.len());
    }
}
