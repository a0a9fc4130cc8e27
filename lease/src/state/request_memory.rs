//! The memory of requests: every remembered request, by key and by age.

use crate::bounds::REQUESTS_MAX;
use crate::numbers::Time;
use crate::remembered::{ACTOR_BITS, Remembered, RequestKey};
use crate::share::Bound;
use crate::state::hash_index::HashIndex;
use std::collections::VecDeque;

const PAGE: usize = 64;

/// The page of a sequence number and the position in that page.
#[expect(clippy::cast_possible_truncation, reason = "the second is below the size of a page")]
fn place_of(seq: u64) -> (u64, usize) {
    (seq / PAGE as u64, (seq % PAGE as u64) as usize)
}

/// Every remembered request, by key and in the order of remembering. Stored in pages, so that growth never moves
/// existing entries.
#[derive(Clone, Debug)]
pub(crate) struct RequestMemory {
    /// From half of the key to the low half of the sequence number.
    by_key: HashIndex,
    pages: VecDeque<Vec<Option<(RequestKey, Remembered)>>>,
    /// The number of the first page.
    first_page: u64,
    /// No remembered request has a lower sequence number.
    oldest: u64,
    len: usize,
    weight: u64,
    /// The weight of the requests by the hash of their actor. A few actors may share a hash. The sum is `weight`.
    weights: Box<[u64]>,
}

impl Default for RequestMemory {
    fn default() -> Self {
        Self {
            by_key: HashIndex::default(),
            pages: VecDeque::new(),
            first_page: 0,
            oldest: 0,
            len: 0,
            weight: 0,
            weights: vec![0; 1 << ACTOR_BITS].into(),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a part of a hash is a hash; of a sequence number, the position")]
fn low(key: RequestKey) -> u64 {
    key.0 as u64
}

#[expect(clippy::cast_possible_truncation, reason = "no more than four billion are remembered at a time")]
fn short(seq: u64) -> u32 {
    seq as u32
}

impl RequestMemory {
    /// The next sequence number. One in four billion is skipped, because the index reserves it.
    pub(crate) fn number_after(seq: u64) -> u64 {
        if short(seq + 1) == HashIndex::NO_NUMBER { seq + 2 } else { seq + 1 }
    }

    pub(crate) fn get(&self, key: RequestKey) -> Option<&Remembered> {
        let is_it = |number| self.at(number).is_some_and(|(of, _)| *of == key);
        let number = self.by_key.find(low(key), is_it)?;
        self.at(number).map(|(_, remembered)| remembered)
    }

    fn at(&self, number: u32) -> Option<&(RequestKey, Remembered)> {
        let first = self.first_page * PAGE as u64;
        let index = number.wrapping_sub(short(first)) as usize;
        self.pages.get(index / PAGE)?.get(index % PAGE)?.as_ref()
    }

    /// Adds the newest request and replaces what was remembered under its key.
    pub(crate) fn insert(&mut self, key: RequestKey, remembered: Remembered) {
        if let Some(earlier) = self.get(key) {
            let seq = earlier.seq;
            self.take(seq);
        }
        self.weight += remembered.weight;
        self.weights[key.actor()] += remembered.weight;
        self.len += 1;
        self.by_key.insert(low(key), short(remembered.seq));
        let (page, place) = place_of(remembered.seq);
        if self.pages.is_empty() {
            self.first_page = page;
            self.oldest = remembered.seq;
        }
        self.oldest = self.oldest.min(remembered.seq);
        while self.first_page > page {
            self.pages.push_front(empty_page());
            self.first_page -= 1;
        }
        while self.first_page + self.pages.len() as u64 <= page {
            self.pages.push_back(empty_page());
        }
        let index = usize::try_from(page - self.first_page).expect("a page that exists");
        self.pages[index][place] = Some((key, remembered));
    }

    /// Whether a new request may be remembered. The last quarter of the memory is kept for actors that use little of
    /// it. Their requests are always admitted, and drop the oldest requests when the memory is full.
    pub(crate) fn has_room_for(&self, key: RequestKey, weight: u64) -> bool {
        let bound = Bound { max: REQUESTS_MAX, used: self.weight, at_least: 1 };
        bound.is_open(weight) || self.weights[key.actor()] + weight <= bound.little()
    }

    fn take(&mut self, seq: u64) -> Option<(RequestKey, Remembered)> {
        let (page, place) = place_of(seq);
        let index = usize::try_from(page.checked_sub(self.first_page)?).ok()?;
        let (key, remembered) = self.pages.get_mut(index)?[place].take()?;
        self.by_key.remove(low(key), short(seq));
        self.weight -= remembered.weight;
        self.weights[key.actor()] -= remembered.weight;
        self.len -= 1;
        Some((key, remembered))
    }

    /// Removes the oldest request if it is to be forgotten by `until` or the memory is over its cap.
    pub(crate) fn forget_one(&mut self, until: Time) -> Option<(RequestKey, Remembered)> {
        while self.at(short(self.oldest)).is_none() {
            self.pages.front()?;
            self.oldest += 1;
            if place_of(self.oldest).1 == 0 {
                self.pages.pop_front();
                self.first_page += 1;
            }
        }
        let (_, oldest) = self.at(short(self.oldest))?;
        if oldest.forgotten_at() > until && self.weight <= REQUESTS_MAX {
            return None;
        }
        self.take(self.oldest)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestKey, &Remembered)> {
        self.pages.iter().flatten().flatten().map(|(key, remembered)| (*key, remembered))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The weight of each hash of an actor.
    pub(crate) fn weights(&self) -> &[u64] {
        &self.weights
    }
}

fn empty_page() -> Vec<Option<(RequestKey, Remembered)>> {
    vec![None; PAGE]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::REQUEST_MEMORY;
    use crate::remembered::RememberedAnswer;

    fn remembered(seq: u64, at: u64) -> Remembered {
        Remembered { seq, at: Time(at), body: seq, weight: 1, answer: RememberedAnswer::Waiting }
    }

    fn key(n: u64) -> RequestKey {
        // Keys that are equal in one half differ in the other.
        RequestKey(u128::from(n) << 64 | u128::from(n % 3))
    }

    #[test]
    fn requests_are_forgotten_in_order_oldest_first() {
        let mut memory = RequestMemory::default();
        for n in 1..=5_000 {
            memory.insert(key(n), remembered(n, n));
        }
        // This request gets a new answer, so it is remembered longer.
        memory.insert(key(7), remembered(5_001, 5_001));
        assert_eq!((memory.len(), memory.weight()), (5_000, 5_000));
        assert_eq!(memory.get(key(7)).map(|of| of.seq), Some(5_001));
        assert_eq!(memory.forget_one(Time(0)), None);
        let until = Time(4_000).after(REQUEST_MEMORY);
        let forgotten: Vec<u64> = std::iter::from_fn(|| memory.forget_one(until)).map(|(_, of)| of.seq).collect();
        assert_eq!(forgotten, (1..=4_000).filter(|n| *n != 7).collect::<Vec<_>>());
        assert_eq!(memory.get(key(4_000)), None);
        assert_eq!(memory.get(key(4_001)).map(|of| of.seq), Some(4_001));
        assert_eq!(memory.iter().count(), 1_001);
        assert_eq!(std::iter::from_fn(|| memory.forget_one(Time::NEVER)).count(), 1_001);
        assert_eq!((memory.len(), memory.weight(), memory.forget_one(Time::NEVER)), (0, 0, None));
        memory.insert(key(1), remembered(9_000_000, 1));
        assert_eq!(memory.get(key(1)).map(|of| of.seq), Some(9_000_000));
    }

    #[test]
    fn requests_may_be_inserted_in_any_order() {
        let mut memory = RequestMemory::default();
        for n in [5_000, 10, 2_500, 7_777, 11] {
            memory.insert(key(n), remembered(n, n));
        }
        let seqs: Vec<u64> = std::iter::from_fn(|| memory.forget_one(Time::NEVER)).map(|(_, of)| of.seq).collect();
        assert_eq!(seqs, [10, 11, 2_500, 5_000, 7_777]);
    }

    #[test]
    fn sequence_numbers_beyond_four_billion_work() {
        let mut memory = RequestMemory::default();
        let mut seq = u64::from(u32::MAX) - 3;
        let mut seqs = Vec::new();
        for n in 0..6 {
            seq = RequestMemory::number_after(seq);
            seqs.push(seq);
            memory.insert(key(n), remembered(seq, n));
        }
        assert_eq!(seqs, [0xffff_fffd, 0xffff_fffe, 0x1_0000_0000, 0x1_0000_0001, 0x1_0000_0002, 0x1_0000_0003]);
        assert!((0..6).zip(&seqs).all(|(n, seq)| memory.get(key(n)).is_some_and(|of| of.seq == *seq)));
        let forgotten: Vec<u64> = std::iter::from_fn(|| memory.forget_one(Time::NEVER)).map(|(_, of)| of.seq).collect();
        assert_eq!(forgotten, seqs);
    }

    #[test]
    fn the_last_quarter_of_the_memory_is_for_actors_with_few_requests() {
        let mut memory = RequestMemory::default();
        let key = |actor, n: u64| RequestKey::new(u128::from(n), actor);
        assert_eq!((key(7, u64::MAX).actor(), key((1 << ACTOR_BITS) - 1, 7).actor()), (7, (1 << ACTOR_BITS) - 1));
        let heavy = |n| Remembered { weight: 1_000, ..remembered(n, 0) };
        let mut taken = 0;
        while memory.has_room_for(key(1, taken), 1_000) {
            memory.insert(key(1, taken), heavy(taken));
            taken += 1;
        }
        assert_eq!((taken, memory.weights()[1], memory.weights()[2]), (3_000, 3_000_000, 0));
        for actor in 2..=20 {
            for n in 1..=62 {
                let seq = actor * 10_000 + n;
                assert!(memory.has_room_for(key(actor, seq), 1_000), "{actor} {n}");
                memory.insert(key(actor, seq), heavy(seq));
            }
            assert!(!memory.has_room_for(key(actor, 0), 1_000) && memory.has_room_for(key(actor, 0), 500));
        }
        assert!(memory.weight() > REQUESTS_MAX);
        // The oldest request was dropped.
        while memory.forget_one(Time(0)).is_some() {}
        assert!(memory.weight() <= REQUESTS_MAX && memory.weights()[1] < 3_000_000 && memory.weights()[20] == 62_000);
        while memory.forget_one(Time::NEVER).is_some() {}
        assert!(memory.weights().iter().all(|weight| *weight == 0));
    }

    #[test]
    fn the_cap_drops_requests_before_their_time() {
        let mut memory = RequestMemory::default();
        for n in 1..=3 {
            memory.insert(key(n), Remembered { weight: REQUESTS_MAX / 2, ..remembered(n, 0) });
        }
        assert_eq!(memory.forget_one(Time(0)).map(|(_, of)| of.seq), Some(1));
        assert_eq!(memory.forget_one(Time(0)), None);
    }
}
