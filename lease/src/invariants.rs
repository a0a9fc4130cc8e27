//! Invariants. `State::violations` checks one state; [`Witness`] checks a history. Both are for tests, simulation and
//! verification: nothing in the state machine depends on them.

mod witness;

pub use witness::Witness;

use crate::bounds::{REQUESTS_MAX, TOKEN_LIMIT};
use crate::names::ActorId;
use crate::numbers::{ItemNo, QueueNo, SpaceNo};
use crate::standing::ItemState;
use crate::state::State;
use crate::state::holdings::Holdings;
use crate::state::item_key::ItemKey;
use crate::state::items::Item;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

impl State {
    /// All violations of invariants in this state. Costs as much as loading the state.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (key, item) in self.items.iter() {
            self.check_item(key, item, &mut |what| found.push(format!("item {}: {what}", item.id)));
        }
        self.check_spaces(&mut found);
        self.check_indexes(&mut found);
        if self.requests.weight() > REQUESTS_MAX {
            found.push("the request memory is over its cap".into());
        }
        found
    }

    fn check_item(&self, key: ItemKey, item: &Item, found: &mut dyn FnMut(&str)) {
        let standing = &item.standing;
        let now = self.meta.now;
        let mut must = |holds: bool, what: &str| {
            if !holds {
                found(what);
            }
        };
        let is_held_state = matches!(standing.state, ItemState::Active | ItemState::AwaitingInput);
        must(
            standing.lease.is_some() == is_held_state,
            "an item has a lease if and only if it is active or awaits input",
        );
        must(!standing.state.is_terminal(), "terminal items are not in the live maps");
        must(standing.newest_token <= self.meta.last_token, "no token is above the counter");
        must(self.meta.last_token.0 < TOKEN_LIMIT, "tokens stay exact in JSON");
        must(self.items.find(item.space, &item.id) == Some(key), "found under its name");
        must(standing.cancel.is_none() || standing.lease.is_some(), "only a held item has a pending cancel");
        if let Some(lease) = &standing.lease {
            must(lease.token == standing.newest_token, "the lease has the newest token");
            must(
                lease.pickup.is_some() || standing.is_assigned_to(&lease.holder.actor),
                "a picked-up lease is assigned to its holder",
            );
            must(standing.late_right().is_none(), "a grant ends the late right");
        }
        match &standing.state {
            ItemState::Reserved(reservation) => {
                must(standing.is_assigned_to(&reservation.actor), "an item is reserved for its assignee");
            }
            ItemState::Pending(waits) => must(!waits.is_over(), "a pending item waits for something"),
            ItemState::Blocked(_) => must(!item.has_line(), "a blocked item has no line"),
            _ => {}
        }
        if let Some(late) = standing.late_right() {
            must(standing.is_assigned_to(&late.actor), "the assignment remains after the lease expires");
            must(late.token == standing.newest_token, "nothing was granted since the lease expired");
        }
        must(item.line.as_ref().is_none_or(|line| !line.is_empty()), "an item has no empty line");
        let Some((_, head)) = item.line.as_ref().and_then(|line| line.head()) else {
            must(standing.settle.is_none(), "an item without a line is not in the settle list");
            return;
        };
        let is_free = standing.state.is_claimable() && standing.lease.is_none();
        let delay = standing.delay();
        let is_delayed = delay.is_some_and(|(actor, until)| *actor != head.holder.actor && *until > now);
        let has_overdue_delay = delay.is_some_and(|(_, until)| *until <= now);
        must(standing.settle.is_none() || is_free, "only free items are in the settle list");
        must(
            !is_free || standing.settle.is_some() || is_delayed || has_overdue_delay,
            "a free item with a line is delayed or in the settle list",
        );
        if let Some(seq) = standing.settle {
            let queue = self.queue(item.queue);
            let ahead = queue.settle.range(..seq).count();
            let is_barred = !self.meta.activated || !queue.queue.flow.is_open() || queue.room_behind(ahead) <= 0;
            must(is_barred || self.busy_queues.contains(&item.queue), "barred by its queue, or about to be settled");
        }
    }

    fn check_spaces(&self, found: &mut Vec<String>) {
        let mut live: BTreeMap<SpaceNo, (u64, u64)> = BTreeMap::new();
        for (_, item) in self.items.iter() {
            let counts = live.entry(item.space).or_default();
            counts.0 += 1;
            counts.1 += item.content.body_bytes();
        }
        for space in &self.spaces {
            let counts = space.counts;
            let (items, bytes) = live.get(&space.no).copied().unwrap_or_default();
            if counts.created != counts.live + counts.terminal + counts.purged {
                found.push(format!("space {}: created = live + terminal + purged fails: {counts:?}", space.name));
            }
            let queues = self.queues.iter().filter(|queue| queue.queue.space == space.no).count() as u64;
            let workers = self.workers.keys().filter(|(of, _)| *of == space.no).count() as u64;
            if (counts.queues, counts.workers) != (queues, workers) {
                found.push(format!("space {}: counts {counts:?}, but {queues} queues, {workers} workers", space.name));
            }
            let of_space = || self.queues.iter().filter(|queue| queue.queue.space == space.no);
            let terminal: Option<u64> = of_space().map(|queue| Some(queue.usage.as_ref()?.terminal)).sum();
            if terminal.is_some_and(|terminal| terminal != counts.terminal) {
                found.push(format!(
                    "space {}: counts {counts:?}, but its queues have {terminal:?} terminal",
                    space.name
                ));
            }
            if (counts.live, counts.body_bytes) != (items, bytes) {
                found.push(format!("space {}: counts {counts:?}, but {items} items of {bytes} bytes", space.name));
            }
        }
    }

    /// Checks that the indexes are equal to those of a state loaded from the same records.
    fn check_indexes(&self, found: &mut Vec<String>) {
        let records = self.dump();
        let pairs = records.iter().map(|change| match change {
            crate::changes::Change::Put { key, value } => (key, value),
            _ => unreachable!("a dump only puts"),
        });
        let fresh = match Self::load(pairs, self.hash) {
            Ok(fresh) => fresh,
            Err(error) => return found.push(format!("its own dump does not load: {error}")),
        };
        compare("ready items", &self.ready_picture(), &fresh.ready_picture(), found);
        compare("queues", &self.queue_picture(), &fresh.queue_picture(), found);
        compare("holdings", &self.holdings_picture(), &fresh.holdings_picture(), found);
        compare("makers", &self.makers, &fresh.makers, found);
        compare("dependents", &numbers(&self.dependents), &numbers(&fresh.dependents), found);
        compare("children", &numbers(&self.children), &numbers(&fresh.children), found);
        let calendar = |state: &Self| state.deadlines.calendar.iter().map(|(date, key)| (*date, key.no)).collect();
        compare::<BTreeSet<_>>("calendar", &calendar(self), &calendar(&fresh), found);
        let places = |state: &Self| -> BTreeSet<_> {
            state.deadlines.places.iter().map(|(time, key, place)| (*time, key.no, *place)).collect()
        };
        compare("deadlines of places", &places(self), &places(&fresh), found);
        compare("deadlines of workers", &self.deadlines.workers, &fresh.deadlines.workers, found);
        if !self.deadlines.queues.is_superset(&fresh.deadlines.queues) {
            found.push(format!("deadlines of queues: kept {:?}", self.deadlines.queues));
        }
        compare("busy queues", &self.busy_queues, &fresh.busy_queues, found);
        compare("requests", &self.requests.len(), &fresh.requests.len(), found);
        compare("weight of requests", &self.requests.weight(), &fresh.requests.weight(), found);
        compare("weight of requests by actor", &self.requests.weights(), &fresh.requests.weights(), found);
        for (key, item) in self.items.iter() {
            let due = item.standing.due_at();
            if item.indexed_due > due {
                found.push(format!("item {}: would be found at {}, but is due at {due}", item.id, item.indexed_due));
            }
            if item.indexed_due != crate::numbers::Time::NEVER
                && !self.deadlines.items.contains((item.indexed_due, key))
            {
                found.push(format!("item {}: not among the deadlines", item.id));
            }
        }
        let indexed = self.items.iter().filter(|(_, item)| item.indexed_due != crate::numbers::Time::NEVER).count();
        compare("deadlines of items", &self.deadlines.items.len(), &indexed, found);
    }

    fn ready_picture(&self) -> BTreeSet<(QueueNo, String, u8, ItemNo)> {
        let mut picture = BTreeSet::new();
        for queue in self.queues.iter() {
            for (mode, kind, priority, key) in queue.ready.iter() {
                picture.insert((queue.queue.no, format!("{mode:?} {kind:?}"), priority, key.no));
            }
        }
        picture
    }

    fn queue_picture(&self) -> Vec<String> {
        let picture = |queue: &crate::state::LiveQueue| {
            let items: Vec<_> = queue.items.iter().map(|key| key.no).collect();
            let lined: Vec<_> = queue.lined.iter().map(|key| key.no).collect();
            let settle: Vec<_> = queue.settle.iter().map(|(seq, key)| (*seq, key.no)).collect();
            let ready = queue.ready.len();
            format!("{:?}: {items:?} {} {lined:?} {settle:?} {:?} {ready}", queue.queue.no, queue.leases, queue.counts)
        };
        self.queues.iter().map(picture).collect()
    }

    fn holdings_picture(&self) -> Vec<String> {
        let picture = |(space, actor, holdings): (SpaceNo, &ActorId, &Holdings)| {
            let leases: Vec<_> = holdings.leases().map(|(session, token, key)| (session, token, key.no)).collect();
            let assigned: Vec<_> = holdings.assigned.iter().map(|key| key.no).collect();
            let own: Vec<_> = holdings.own.iter().map(|(queue, priority, key)| (queue, priority.0, key.no)).collect();
            let places = holdings.places;
            format!("{space} {actor}: {leases:?} {:?} {assigned:?} {own:?} {places}", holdings.leases_per_queue)
        };
        self.holdings.sorted().into_iter().map(picture).collect()
    }
}

fn numbers<K: Ord + Clone>(index: &BTreeMap<K, BTreeSet<ItemKey>>) -> Vec<(K, Vec<ItemNo>)> {
    index.iter().map(|(key, items)| (key.clone(), items.iter().map(|item| item.no).collect())).collect()
}

fn compare<T: PartialEq + Debug>(what: &str, kept: &T, fresh: &T, found: &mut Vec<String>) {
    if kept != fresh {
        found.push(format!("{what}: kept {kept:?}, but the records say {fresh:?}"));
    }
}
