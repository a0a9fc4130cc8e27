//! The live items: by number and by name.

use crate::hash::Salt;
use crate::item::Content;
use crate::line::Line;
use crate::names::ItemId;
use crate::numbers::{ItemNo, QueueNo, SpaceNo, Time};
use crate::standing::Standing;
use crate::state::hash_index::HashIndex;
use crate::state::item_key::ItemKey;
use crate::state::ready::ClassNo;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) no: ItemNo,
    pub(crate) id: ItemId,
    pub(crate) space: SpaceNo,
    pub(crate) queue: QueueNo,
    pub(crate) content: Arc<Content>,
    pub(crate) standing: Standing,
    pub(crate) line: Option<Box<Line>>,
    /// The item's class among the ready items of its queue.
    pub(crate) class: ClassNo,
    /// The time of its entry in the deadlines: never later than its real deadline.
    pub(crate) indexed_due: Time,
    pub(crate) touched: Touched,
}

/// Which of an item's records this step must write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) content: bool,
    pub(crate) standing: bool,
    pub(crate) expiry: bool,
}

impl Touched {
    pub(crate) fn is_any(self) -> bool {
        self != Self::default()
    }
}

impl Item {
    pub(crate) fn line_len(&self) -> u32 {
        self.line.as_ref().map_or(0, |line| u32::try_from(line.len()).unwrap_or(u32::MAX))
    }

    /// Whether its lease came from a line and is not picked up yet.
    pub(crate) fn is_offered(&self) -> bool {
        self.standing.lease.as_ref().is_some_and(|lease| lease.pickup.is_some())
    }

    pub(crate) fn has_line(&self) -> bool {
        self.line.is_some()
    }

    /// Whether nobody holds the item or waits for it, and it waits for nothing.
    pub(crate) fn is_free(&self) -> bool {
        self.standing.state.is_claimable() && self.standing.lease.is_none() && !self.has_line()
    }
}

/// Items in a page of 64 KiB, a size that allocators serve without waste.
const PAGE: usize = 64 * 1024 / size_of::<Option<Item>>();

/// Live items, stored in pages so that growth never moves existing items.
#[derive(Clone, Debug)]
pub(crate) struct Items {
    salt: Salt,
    pages: Vec<Vec<Option<Item>>>,
    free: Vec<u32>,
    /// From the hash of space and id to the slot.
    by_name: HashIndex,
    len: usize,
}

impl Items {
    pub(crate) fn new(salt: Salt) -> Self {
        Self { salt, pages: Vec::new(), free: Vec::new(), by_name: HashIndex::default(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn slot(&self, slot: u32) -> &Option<Item> {
        &self.pages[slot as usize / PAGE][slot as usize % PAGE]
    }

    fn slot_mut(&mut self, slot: u32) -> &mut Option<Item> {
        &mut self.pages[slot as usize / PAGE][slot as usize % PAGE]
    }

    pub(crate) fn get(&self, key: ItemKey) -> &Item {
        self.slot(key.slot).as_ref().expect("a key of a live item")
    }

    pub(crate) fn get_mut(&mut self, key: ItemKey) -> &mut Item {
        self.slot_mut(key.slot).as_mut().expect("a key of a live item")
    }

    /// The item of this key, if it is still live.
    pub(crate) fn get_live(&self, key: ItemKey) -> Option<&Item> {
        let page = self.pages.get(key.slot as usize / PAGE)?;
        page.get(key.slot as usize % PAGE)?.as_ref().filter(|item| item.no == key.no)
    }

    pub(crate) fn is_live(&self, key: ItemKey) -> bool {
        self.get_live(key).is_some()
    }

    fn name_hash(&self, space: SpaceNo, id: &ItemId) -> u64 {
        self.salt.hash_name(space, id.as_str())
    }

    pub(crate) fn find(&self, space: SpaceNo, id: &ItemId) -> Option<ItemKey> {
        let is_it = |slot| self.slot(slot).as_ref().is_some_and(|item| item.space == space && item.id == *id);
        let slot = self.by_name.find(self.name_hash(space, id), is_it)?;
        Some(ItemKey { no: self.slot(slot).as_ref()?.no, slot })
    }

    pub(crate) fn insert(&mut self, item: Item) -> ItemKey {
        let hash = self.name_hash(item.space, &item.id);
        let no = item.no;
        let slot = self.free.pop().unwrap_or_else(|| {
            if self.pages.last().is_none_or(|page| page.len() == PAGE) {
                self.pages.push(Vec::with_capacity(PAGE));
            }
            let pages = self.pages.len();
            let page = self.pages.last_mut().expect("a page");
            page.push(None);
            u32::try_from((pages - 1) * PAGE + page.len() - 1).expect("below four billion live items")
        });
        *self.slot_mut(slot) = Some(item);
        self.by_name.insert(hash, slot);
        self.len += 1;
        ItemKey { no, slot }
    }

    pub(crate) fn remove(&mut self, key: ItemKey) -> Item {
        let item = self.slot_mut(key.slot).take().expect("a key of a live item");
        let hash = self.name_hash(item.space, &item.id);
        self.by_name.remove(hash, key.slot);
        self.free.push(key.slot);
        self.len -= 1;
        item
    }

    /// Every live item, in an order that differs between replicas. Sort the items before a result depends on the order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ItemKey, &Item)> {
        self.pages.iter().flatten().enumerate().filter_map(|(slot, item)| {
            let item = item.as_ref()?;
            Some((ItemKey { no: item.no, slot: u32::try_from(slot).expect("a slot") }, item))
        })
    }
}
