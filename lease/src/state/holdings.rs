//! The holdings of each actor in each space: leases, assignments, places in lines, and ready items offered to it first.

use crate::caller::Holder;
use crate::hash::Salt;
use crate::names::{ActorId, SessionId};
use crate::numbers::{QueueNo, SpaceNo, Token};
use crate::state::hash_index::HashIndex;
use crate::state::item_key::ItemKey;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    leases: BTreeMap<Option<SessionId>, SessionLeases>,
    /// The leases in each queue. Most actors have few queues.
    pub(crate) leases_per_queue: Vec<(QueueNo, LeaseCount)>,
    /// Items assigned to the actor, except those that it holds. What it holds is also assigned to it, unless it was not
    /// picked up yet.
    pub(crate) assigned: BTreeSet<ItemKey>,
    /// Items reserved for the actor, or assigned to it and free. They are offered to it before all others.
    pub(crate) own: BTreeSet<(QueueNo, Reverse<u8>, ItemKey)>,
    /// Places in all lines together.
    pub(crate) places: u32,
}

#[derive(Clone, Debug)]
struct SessionLeases {
    /// The holder value that all of the leases share.
    holder: Holder,
    /// In the order of granting. A session has a bounded number of leases and mostly ends its newest.
    leases: Vec<(Token, ItemKey)>,
}

/// How many leases an actor has in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseCount {
    pub(crate) taken: u32,
    /// Granted from a line and not picked up yet.
    pub(crate) offered: u32,
}

impl LeaseCount {
    pub(crate) fn all(self) -> i64 {
        i64::from(self.taken) + i64::from(self.offered)
    }

    fn of(&mut self, is_taken: bool) -> &mut u32 {
        if is_taken { &mut self.taken } else { &mut self.offered }
    }
}

/// One lease of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldLease {
    pub(crate) holder: Holder,
    pub(crate) token: Token,
    pub(crate) is_taken: bool,
}

impl Holdings {
    fn is_empty(&self) -> bool {
        self.leases.is_empty() && self.assigned.is_empty() && self.own.is_empty() && self.places == 0
    }

    pub(crate) fn leases_in(&self, queue: QueueNo) -> LeaseCount {
        self.leases_per_queue.iter().find(|(of, _)| *of == queue).map(|(_, count)| *count).unwrap_or_default()
    }

    /// The leases of one session, in the order of granting.
    pub(crate) fn of_session(&self, session: &Option<SessionId>) -> impl Iterator<Item = (Token, ItemKey)> {
        self.leases.get(session).into_iter().flat_map(|of| &of.leases).copied()
    }

    pub(crate) fn count_of_session(&self, session: &Option<SessionId>) -> usize {
        self.leases.get(session).map_or(0, |of| of.leases.len())
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Option<SessionId>> {
        self.leases.keys()
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = (&Option<SessionId>, Token, ItemKey)> {
        let sessions = self.leases.iter();
        sessions.flat_map(|(session, of)| of.leases.iter().map(move |(token, key)| (session, *token, *key)))
    }

    pub(crate) fn add_lease(&mut self, lease: &HeldLease, key: ItemKey, queue: QueueNo) {
        let place = self.leases_per_queue.binary_search_by_key(&queue, |(of, _)| *of).unwrap_or_else(|place| {
            self.leases_per_queue.insert(place, (queue, LeaseCount::default()));
            place
        });
        *self.leases_per_queue[place].1.of(lease.is_taken) += 1;
        match self.leases.get_mut(&lease.holder.session) {
            Some(of) => {
                let place = of.leases.partition_point(|(token, _)| *token < lease.token);
                of.leases.insert(place, (lease.token, key));
            }
            None => {
                let of = SessionLeases { holder: lease.holder.clone(), leases: vec![(lease.token, key)] };
                self.leases.insert(lease.holder.session.clone(), of);
            }
        }
    }

    pub(crate) fn remove_lease(&mut self, lease: &HeldLease, queue: QueueNo) {
        if let Some(of) = self.leases.get_mut(&lease.holder.session) {
            if let Ok(place) = of.leases.binary_search_by_key(&lease.token, |(token, _)| *token) {
                of.leases.remove(place);
            }
            if of.leases.is_empty() {
                self.leases.remove(&lease.holder.session);
            }
        }
        if let Ok(place) = self.leases_per_queue.binary_search_by_key(&queue, |(of, _)| *of) {
            let count = &mut self.leases_per_queue[place].1;
            *count.of(lease.is_taken) -= 1;
            if *count == LeaseCount::default() {
                self.leases_per_queue.remove(place);
            }
        }
    }
}

/// The holdings of all actors that hold anything.
#[derive(Clone, Debug)]
pub(crate) struct AllHoldings {
    salt: Salt,
    by_actor: HashIndex,
    slots: Vec<Option<Of>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Of {
    space: SpaceNo,
    actor: ActorId,
    holdings: Holdings,
}

impl AllHoldings {
    pub(crate) fn new(salt: Salt) -> Self {
        Self { salt, by_actor: HashIndex::default(), slots: Vec::new(), free: Vec::new() }
    }

    fn find(&self, space: SpaceNo, actor: &ActorId) -> Option<u32> {
        self.find_hashed(self.salt.hash_name(space, actor.as_str()), space, actor)
    }

    fn find_hashed(&self, hash: u64, space: SpaceNo, actor: &ActorId) -> Option<u32> {
        let is_it =
            |slot: u32| self.slots[slot as usize].as_ref().is_some_and(|of| of.space == space && of.actor == *actor);
        self.by_actor.find(hash, is_it)
    }

    pub(crate) fn get(&self, space: SpaceNo, actor: &ActorId) -> Option<&Holdings> {
        self.slots[self.find(space, actor)? as usize].as_ref().map(|of| &of.holdings)
    }

    /// Returns the holder value that its other leases already use, so that a million leases of a few thousand holders
    /// keep only a few thousand values.
    pub(crate) fn share(&self, space: SpaceNo, holder: Holder) -> Holder {
        let Some(of) = self.find(space, &holder.actor).and_then(|slot| self.slots[slot as usize].as_ref()) else {
            return holder;
        };
        match of.holdings.leases.get(&holder.session) {
            Some(of) => of.holder.clone(),
            None => Holder::new(of.actor.clone(), holder.session.clone()),
        }
    }

    /// Changes the holdings of an actor. An actor with nothing left is removed.
    pub(crate) fn change(&mut self, space: SpaceNo, actor: &ActorId, change: impl FnOnce(&mut Holdings)) {
        let hash = self.salt.hash_name(space, actor.as_str());
        let slot = self.find_hashed(hash, space, actor).unwrap_or_else(|| self.add(hash, space, actor.clone()));
        let of = self.slots[slot as usize].as_mut().expect("just found");
        change(&mut of.holdings);
        if of.holdings.is_empty() {
            self.slots[slot as usize] = None;
            self.free.push(slot);
            self.by_actor.remove(hash, slot);
        }
    }

    fn add(&mut self, hash: u64, space: SpaceNo, actor: ActorId) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than four billion actors")
        });
        self.by_actor.insert(hash, slot);
        self.slots[slot as usize] = Some(Of { space, actor, holdings: Holdings::default() });
        slot
    }

    /// The holdings of all actors, in the order of space and actor. Costs a sort.
    pub(crate) fn sorted(&self) -> Vec<(SpaceNo, &ActorId, &Holdings)> {
        let mut all: Vec<_> = self.slots.iter().flatten().map(|of| (of.space, &of.actor, &of.holdings)).collect();
        all.sort_unstable_by_key(|(space, actor, _)| (*space, *actor));
        all
    }
}
