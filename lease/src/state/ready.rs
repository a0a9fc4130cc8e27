//! The items of a queue that `next` may grant, by class: items that match a caller's phase, mode and capabilities are
//! looked up and not searched for.

use crate::bounds::{CLASSES, PRIORITY_MAX};
use crate::command::{Cursor, Order};
use crate::item::{Content, Mode};
use crate::names::{Label, Phase};
use crate::numbers::ItemNo;
use crate::state::item_key::ItemKey;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

/// The number of a class in this replica. It has no meaning in another replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassNo(u32);

/// The parts of an item's class besides its mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) phase: Option<Phase>,
    pub(crate) needs: Arc<[Label]>,
}

impl Kind {
    fn of(content: &Content) -> Self {
        Self { phase: content.phase.clone(), needs: Arc::clone(&content.label_sets.needs) }
    }
}

/// Sorts by highest priority, then oldest. The priority is in the highest bits, which the number never needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position(ItemKey);

const NUMBER_BITS: u32 = 60;
const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

impl Position {
    /// The position of an item, or of the last possible item.
    fn new(priority: u8, key: ItemKey) -> Self {
        let above = u64::from(PRIORITY_MAX.saturating_sub(priority)) << NUMBER_BITS;
        Self(key.numbered(ItemNo(above | key.no.0.min(NUMBER_MAX))))
    }

    fn priority(self) -> u8 {
        PRIORITY_MAX - u8::try_from(self.0.no.0 >> NUMBER_BITS).expect("four bits")
    }

    fn key(self) -> ItemKey {
        self.0.numbered(ItemNo(self.0.no.0 & NUMBER_MAX))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ready {
    /// By mode first, so that a caller's classes are found quickly however many persons have local items.
    numbers: BTreeMap<Mode, BTreeMap<Kind, ClassNo>>,
    classes: Vec<ClassItems>,
    free: Vec<ClassNo>,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct ClassItems {
    /// Live items of this class, ready or not.
    members: usize,
    ready: BTreeSet<Position>,
}

impl Ready {
    /// The number of ready items.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the class of such an item exists or there is room for it.
    pub(crate) fn has_room_for(&self, content: &Content) -> bool {
        let kinds = self.numbers.get(&content.mode);
        kinds.is_none_or(|kinds| kinds.len() < CLASSES || kinds.contains_key(&Kind::of(content)))
    }

    /// Adds a live item to its class.
    pub(crate) fn join(&mut self, content: &Content) -> ClassNo {
        let kinds = self.numbers.entry(content.mode.clone()).or_default();
        let number = *kinds.entry(Kind::of(content)).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.classes.push(ClassItems::default());
                ClassNo(u32::try_from(self.classes.len() - 1).expect("a class number"))
            })
        });
        self.classes[number.0 as usize].members += 1;
        number
    }

    /// Removes an item from its class, because it is gone or has another class. It must not be ready.
    pub(crate) fn leave(&mut self, number: ClassNo, content: &Content) {
        let class = &mut self.classes[number.0 as usize];
        class.members -= 1;
        if class.members == 0 {
            debug_assert!(class.ready.is_empty());
            if let Some(kinds) = self.numbers.get_mut(&content.mode) {
                kinds.remove(&Kind::of(content));
                if kinds.is_empty() {
                    self.numbers.remove(&content.mode);
                }
            }
            self.free.push(number);
        }
    }

    pub(crate) fn insert(&mut self, class: ClassNo, priority: u8, key: ItemKey) {
        self.len += usize::from(self.classes[class.0 as usize].ready.insert(Position::new(priority, key)));
    }

    pub(crate) fn remove(&mut self, class: ClassNo, priority: u8, key: ItemKey) {
        self.len -= usize::from(self.classes[class.0 as usize].ready.remove(&Position::new(priority, key)));
    }

    /// Ready items of these modes and of the kinds that pass the test, in order, after the cursor.
    pub(crate) fn candidates<'a>(
        &'a self,
        order: Order,
        cursor: Option<Cursor>,
        modes: &[Mode],
        is_wanted: impl Fn(&Kind) -> bool,
    ) -> Candidates<'a> {
        let mut runs = Candidates { order, runs: Vec::new(), heads: BinaryHeap::new() };
        for (kind, number) in modes.iter().filter_map(|mode| self.numbers.get(mode)).flatten() {
            let ready = &self.classes[number.0 as usize].ready;
            if ready.is_empty() || !is_wanted(kind) {
                continue;
            }
            match order {
                Order::Priority => match cursor {
                    // Cheaper than a range, which looks up both of its ends at once.
                    None => runs.add(Box::new(ready.iter().copied())),
                    Some(cursor) => {
                        let from = Position::new(cursor.priority, ItemKey::position(cursor.item));
                        runs.add(Box::new(ready.range((Excluded(from), Unbounded)).copied()));
                    }
                },
                Order::Oldest | Order::Newest => {
                    for priority in 0..=PRIORITY_MAX {
                        let at = |key| Position::new(priority, key);
                        let cursor = cursor.map(|cursor| Excluded(at(ItemKey::position(cursor.item))));
                        if order == Order::Oldest {
                            let from = cursor.unwrap_or(Included(at(ItemKey::FIRST)));
                            runs.add(Box::new(ready.range((from, Included(at(ItemKey::LAST)))).copied()));
                        } else {
                            let to = cursor.unwrap_or(Included(at(ItemKey::LAST)));
                            runs.add(Box::new(ready.range((Included(at(ItemKey::FIRST)), to)).rev().copied()));
                        }
                    }
                }
            }
        }
        runs
    }

    /// The ready item that was created first.
    pub(crate) fn oldest(&self) -> Option<ItemKey> {
        let modes: Vec<Mode> = self.numbers.keys().cloned().collect();
        self.candidates(Order::Oldest, None, &modes, |_| true).next().map(|(_, key)| key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Mode, &Kind, u8, ItemKey)> {
        let classes =
            self.numbers.iter().flat_map(|(mode, kinds)| kinds.iter().map(move |(kind, no)| (mode, kind, no)));
        classes.flat_map(|(mode, kind, number)| {
            let ready = self.classes[number.0 as usize].ready.iter();
            ready.map(move |position| (mode, kind, position.priority(), position.key()))
        })
    }
}

/// A merge of several sorted runs.
pub(crate) struct Candidates<'a> {
    order: Order,
    runs: Vec<Box<dyn Iterator<Item = Position> + 'a>>,
    heads: BinaryHeap<Reverse<(Rank, ItemKey, u8, usize)>>,
}

/// Smaller ranks come first.
type Rank = (u8, u64);

impl<'a> Candidates<'a> {
    fn add(&mut self, run: Box<dyn Iterator<Item = Position> + 'a>) {
        self.runs.push(run);
        self.refill(self.runs.len() - 1);
    }

    fn refill(&mut self, run: usize) {
        if let Some(position) = self.runs[run].next() {
            let (priority, key) = (position.priority(), position.key());
            let rank = match self.order {
                Order::Priority => (u8::MAX - priority, key.no.0),
                Order::Oldest => (0, key.no.0),
                Order::Newest => (0, u64::MAX - key.no.0),
            };
            self.heads.push(Reverse((rank, key, priority, run)));
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = (u8, ItemKey);

    fn next(&mut self) -> Option<(u8, ItemKey)> {
        let Reverse((_, key, priority, run)) = self.heads.pop()?;
        self.refill(run);
        Some((priority, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_sort_by_priority_then_age() {
        let position = |priority, no| Position::new(priority, ItemKey::position(ItemNo(no)));
        let in_order = [position(9, 1), position(9, 7), position(9, u64::MAX), position(3, 0), position(0, NUMBER_MAX)];
        assert!(in_order.is_sorted_by(|one, next| one < next));
        let back = |position: Position| (position.priority(), position.key().no.0);
        assert_eq!(in_order.map(back), [(9, 1), (9, 7), (9, NUMBER_MAX), (3, 0), (0, NUMBER_MAX)]);
        // Callers choose cursors, so they may contain any priority.
        assert_eq!(position(200, 5), position(9, 5));
    }
}
