//! The state: everything that is live. The records are the source of truth. The indexes are built from the records and
//! can be rebuilt.

pub(crate) mod deadlines;
pub(crate) mod hash_index;
pub(crate) mod holdings;
pub(crate) mod interned;
pub(crate) mod item_key;
pub(crate) mod items;
pub(crate) mod keys;
pub(crate) mod load;
pub(crate) mod makers;
pub(crate) mod openings;
pub(crate) mod ordered_set;
pub(crate) mod queues;
pub(crate) mod ready;
pub(crate) mod request_memory;

use crate::bounds::{RULES_FIRST, RULES_VERSION, WALL_SET_BACK};
use crate::caller::Holder;
use crate::hash::{Salt, StateHash};
use crate::item::LabelSets;
use crate::names::{ItemId, QueueName, SpaceName};
use crate::numbers::{Epoch, EventNumber, ItemNo, QueueNo, SpaceNo, Time, Token, Wall};
use crate::queue::{Flow, Queue, Usage};
use crate::space::Space;
use crate::standing::StateKind;
use crate::worker::Worker;
use deadlines::Deadlines;
use holdings::AllHoldings;
use interned::Interner;
use item_key::ItemKey;
use items::{Item, Items};
use makers::Makers;
use openings::Openings;
use ordered_set::OrderedSet;
use queues::Queues;
use ready::Ready;
use request_memory::RequestMemory;
use sabotage::{Broken, is_broken};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

/// One replica's state machine.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) meta: Meta,
    /// The highest version of the rules that this build supports. Not in any record or hash.
    pub(crate) known_rules: u32,
    pub(crate) hash: StateHash,
    pub(crate) spaces: Vec<Space>,
    pub(crate) space_numbers: BTreeMap<SpaceName, SpaceNo>,
    pub(crate) queues: Queues,
    pub(crate) queue_numbers: BTreeMap<(SpaceNo, QueueName), QueueNo>,
    pub(crate) items: Items,
    pub(crate) deadlines: Deadlines,
    pub(crate) holdings: AllHoldings,
    /// The items that wait for the item with this number to end.
    pub(crate) dependents: BTreeMap<ItemNo, BTreeSet<ItemKey>>,
    pub(crate) children: BTreeMap<(SpaceNo, ItemId), BTreeSet<ItemKey>>,
    /// Ended items whose dependents are being woken.
    pub(crate) wakes: BTreeMap<u64, Wake>,
    pub(crate) workers: BTreeMap<(SpaceNo, Holder), Worker>,
    pub(crate) requests: RequestMemory,
    /// Each set is stored once for all items that have it.
    pub(crate) label_sets: Interner<Arc<LabelSets>>,
    pub(crate) makers: Makers,
    /// Queues with lines to settle or to reject now.
    pub(crate) busy_queues: BTreeSet<QueueNo>,
    /// The items that the current step makes available to `next`.
    pub(crate) openings: Openings,
}

/// The counters and the clock of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) rules_version: u32,
    pub(crate) salt: Salt,
    pub(crate) now: Time,
    /// The latest wall time of any entry since the wall clock was last set back: see [`Meta::note_wall`].
    pub(crate) newest_wall: Wall,
    pub(crate) epoch: Epoch,
    /// False after a restore, until an admin activates the cluster. Nothing is granted while it is false.
    pub(crate) activated: bool,
    /// Set while the leases of a restored backup are being ended: those after this item of this queue are left.
    pub(crate) voiding: Option<(QueueNo, ItemNo)>,
    pub(crate) last_token: Token,
    pub(crate) last_item: ItemNo,
    pub(crate) last_settle: u64,
    pub(crate) last_request: u64,
    pub(crate) last_wake: u64,
    /// How far the retention list has been processed.
    pub(crate) purged_to: (Time, ItemNo),
    /// Until this time, a repeat of an unknown request may be one that the cap dropped.
    pub(crate) requests_cut_until: Time,
}

impl Meta {
    /// Records the wall time of an entry. A clock that was far ahead is trusted until an entry comes from a clock that
    /// is not.
    pub(crate) fn note_wall(&mut self, wall: Wall) {
        let is_set_back = wall.0.saturating_add(WALL_SET_BACK.0) < self.newest_wall.0;
        if is_set_back && !is_broken(Broken::WrongDate) || wall > self.newest_wall {
            self.newest_wall = wall;
        }
    }
}

/// An ended item whose dependents are woken, one per step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wake {
    pub(crate) of: ItemNo,
    pub(crate) completed: bool,
    /// The last dependent to wake. Later items wait for another end of it, because it was reopened.
    pub(crate) up_to: ItemNo,
}

/// A queue with the indexes of its items.
#[derive(Clone, Debug)]
pub(crate) struct LiveQueue {
    pub(crate) queue: Queue,
    pub(crate) usage: Option<Usage>,
    /// The live items of the queue, in the order of creation.
    pub(crate) items: OrderedSet<ItemKey>,
    /// The current number of leases.
    pub(crate) leases: u32,
    pub(crate) ready: Ready,
    /// Items with a line.
    pub(crate) lined: BTreeSet<ItemKey>,
    /// Free items whose line cannot move because this queue does not grant now, oldest first.
    pub(crate) settle: BTreeMap<NonZeroU64, ItemKey>,
    /// Live items by state.
    pub(crate) counts: [u64; StateKind::ALL.len()],
}

impl State {
    /// The state before the first entry. The salt is chosen once, when the cluster is created, and is the same on every
    /// replica.
    #[must_use]
    pub fn new(salt: Salt) -> Self {
        Self::from_meta(Meta {
            rules_version: RULES_FIRST,
            salt,
            now: Time(0),
            newest_wall: Wall(0),
            epoch: Epoch(0),
            activated: true,
            voiding: None,
            last_token: Token(0),
            last_item: ItemNo(0),
            last_settle: 0,
            last_request: 0,
            last_wake: 0,
            purged_to: (Time(0), ItemNo(0)),
            requests_cut_until: Time(0),
        })
    }

    pub(crate) fn from_meta(meta: Meta) -> Self {
        Self {
            items: Items::new(meta.salt),
            holdings: AllHoldings::new(meta.salt),
            meta,
            known_rules: RULES_VERSION,
            hash: StateHash::default(),
            spaces: Vec::new(),
            space_numbers: BTreeMap::new(),
            queues: Queues::default(),
            queue_numbers: BTreeMap::new(),
            deadlines: Deadlines::default(),
            dependents: BTreeMap::new(),
            children: BTreeMap::new(),
            wakes: BTreeMap::new(),
            workers: BTreeMap::new(),
            requests: RequestMemory::default(),
            label_sets: Interner::default(),
            makers: Makers::default(),
            busy_queues: BTreeSet::new(),
            openings: Openings::default(),
        }
    }

    /// Cluster time: the latest time of any applied entry.
    #[must_use]
    pub fn now(&self) -> Time {
        self.meta.now
    }

    #[must_use]
    pub fn hash(&self) -> StateHash {
        self.hash
    }

    #[must_use]
    pub fn rules_version(&self) -> u32 {
        self.meta.rules_version
    }

    /// The highest version to which the rules can be raised in this build.
    #[must_use]
    pub fn known_rules(&self) -> u32 {
        self.known_rules
    }

    /// This state, in a build that supports the rules up to another version. For tests with two builds.
    #[must_use]
    pub fn knowing(mut self, rules: u32) -> Self {
        self.known_rules = rules;
        self
    }

    /// Whether this state follows later rules than this build's. Only tests with a newer build next to this one have such
    /// rules: the same rules, with a mark in the state's hash.
    pub(crate) fn goes_by_later_rules(&self) -> bool {
        let raised = if is_broken(Broken::Rules) { self.known_rules } else { self.meta.rules_version };
        sabotage::IS_ENABLED && raised > RULES_VERSION
    }

    /// Whether leases are granted. False between a restore and its activation.
    #[must_use]
    pub fn is_activated(&self) -> bool {
        self.meta.activated
    }

    #[must_use]
    pub fn last_token(&self) -> Token {
        self.meta.last_token
    }

    /// The restore from which this history descends.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.meta.epoch
    }

    /// The latest wall time of any entry, ignoring entries from before the clock was set back by a lot.
    #[must_use]
    pub fn newest_wall(&self) -> Wall {
        self.meta.newest_wall
    }

    /// The number of a space. None: nothing was ever created in it. Numbers are assigned in order, from 0.
    #[must_use]
    pub fn space_no(&self, space: &SpaceName) -> Option<SpaceNo> {
        self.space_numbers.get(space).copied()
    }

    /// The number of the last event of a space.
    #[must_use]
    pub fn last_event(&self, space: &SpaceName) -> EventNumber {
        let seq = self.space_no(space).map_or(0, |no| self.space(no).last_event);
        EventNumber { epoch: self.meta.epoch, seq }
    }

    #[must_use]
    pub fn live_items(&self) -> usize {
        self.items.len()
    }

    #[must_use]
    pub fn remembered_requests(&self) -> usize {
        self.requests.len()
    }

    /// Whether anyone holds anything.
    #[must_use]
    pub fn has_leases(&self) -> bool {
        self.queues.iter().any(|queue| queue.leases > 0)
    }

    pub(crate) fn space(&self, no: SpaceNo) -> &Space {
        &self.spaces[no.0 as usize]
    }

    pub(crate) fn space_mut(&mut self, no: SpaceNo) -> &mut Space {
        &mut self.spaces[no.0 as usize]
    }

    pub(crate) fn queue(&self, no: QueueNo) -> &LiveQueue {
        self.queues.get(no)
    }

    pub(crate) fn queue_mut(&mut self, no: QueueNo) -> &mut LiveQueue {
        self.queues.get_mut(no)
    }

    pub(crate) fn item(&self, key: ItemKey) -> &Item {
        self.items.get(key)
    }

    /// The queue of an item.
    pub(crate) fn queue_of(&self, key: ItemKey) -> &LiveQueue {
        self.queue(self.item(key).queue)
    }
}

impl LiveQueue {
    pub(crate) fn new(queue: Queue, usage: Option<Usage>) -> Self {
        Self {
            queue,
            usage,
            items: OrderedSet::default(),
            leases: 0,
            ready: Ready::default(),
            lined: BTreeSet::new(),
            settle: BTreeMap::new(),
            counts: [0; StateKind::ALL.len()],
        }
    }

    /// How many more leases the concurrency allows for an item with `ahead` items before it in the settle list.
    pub(crate) fn room_behind(&self, ahead: usize) -> i64 {
        match self.queue.policy.concurrency {
            0 => i64::from(u32::MAX),
            max => i64::from(max) - i64::from(self.leases) - i64::try_from(ahead).unwrap_or(i64::MAX / 2),
        }
    }

    /// Whether the queue has lines to settle or to reject.
    pub(crate) fn has_work(&self, activated: bool) -> bool {
        match self.queue.flow {
            Flow::Open => activated && !self.settle.is_empty() && self.room_behind(0) > 0,
            Flow::Paused => false,
            Flow::Draining => !self.lined.is_empty() || self.leases == 0,
            Flow::Drained => !self.lined.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{decode, encode};

    #[test]
    fn the_bytes_of_a_wake_do_not_change() {
        // A wake is stored only while an entry ends more dependencies than it may wake, which is too large for the
        // golden history.
        let wake = Wake { of: ItemNo(7), completed: true, up_to: ItemNo(9) };
        assert_eq!(encode(&wake), [1, 7, 1, 9]);
        assert_eq!(decode(&[1, 7, 1, 9]), Ok(wake));
    }
}
