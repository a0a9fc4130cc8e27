//! Claiming one item. The order of the checks is part of the rules.

use super::{Sender, Step};
use crate::bounds::{LEASES_PER_SESSION, PLACES_AT_LEAST, PLACES_PER_ACTOR, RETRY_HINT};
use crate::caller::Caller;
use crate::command::{Claim, OnConflict};
use crate::names::SessionId;
use crate::numbers::{QueueNo, SpaceNo, Span};
use crate::outcome::Outcome;
use crate::policy::AtMaxLeases;
use crate::queue::Flow;
use crate::refusal::{NotReady, Refusal};
use crate::share::Bound;
use crate::standing::{ItemState, Waits};
use crate::state::holdings::Holdings;
use crate::state::item_key::ItemKey;
use std::collections::{BTreeMap, BTreeSet};

/// The result of a claim, decided before anything changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The caller already holds the item. If it picks up a grant only now, the lease `price` is released.
    Renew {
        key: ItemKey,
        price: Option<ItemKey>,
    },
    Join(ItemKey),
    /// The item is free. The lease `evict` is released afterwards to make room.
    Grant {
        key: ItemKey,
        evict: Option<ItemKey>,
    },
    /// The caller's other session holds the item and loses it.
    TakeOver {
        key: ItemKey,
        price: Option<ItemKey>,
    },
}

/// What the other entries of a batch take and give, before any of it has happened.
#[derive(Default)]
pub(super) struct Plan {
    /// Items that will be granted but are not granted yet.
    pub(super) granted: BTreeSet<ItemKey>,
    /// Leases that must not be released to make room: those granted to or renewed by earlier entries, and those that
    /// are released anyway.
    pub(super) kept: BTreeSet<ItemKey>,
    /// Grants from lines that earlier entries pick up.
    pub(super) taken_up: BTreeMap<QueueNo, u32>,
    /// Leases of the caller that the batch releases, per queue.
    pub(super) given_back: BTreeMap<QueueNo, u32>,
    /// Leases of the caller that the batch adds, per queue.
    pub(super) taken: BTreeMap<QueueNo, u32>,
    pub(super) evicted: BTreeSet<ItemKey>,
}

impl Plan {
    /// The plan for a single claim.
    pub(super) const NONE: &Self = &Self {
        granted: BTreeSet::new(),
        kept: BTreeSet::new(),
        taken_up: BTreeMap::new(),
        given_back: BTreeMap::new(),
        taken: BTreeMap::new(),
        evicted: BTreeSet::new(),
    };

    /// How many more leases than now (fewer, if negative) the queue will have room for.
    fn room_in(&self, queue: QueueNo) -> i64 {
        let of = |counts: &BTreeMap<QueueNo, u32>| counts.get(&queue).copied().map_or(0, i64::from);
        of(&self.given_back) - of(&self.taken)
    }
}

impl Step<'_> {
    pub(super) fn claim(&mut self, sender: Sender<'_>, claim: &Claim) -> Result<Outcome, Refusal> {
        let decision = self.decide_claim(sender, claim, Plan::NONE)?;
        self.carry_out_claim(sender, claim, decision)
    }

    pub(super) fn decide_claim(&self, sender: Sender<'_>, claim: &Claim, plan: &Plan) -> Result<Decision, Refusal> {
        let key = self.find_live(sender, &claim.item)?;
        let item = self.item(key);
        let lease = item.standing.lease.as_deref();
        if lease.is_some_and(|lease| lease.holder.is(sender.caller)) || plan.granted.contains(&key) {
            return Ok(Decision::Renew { key, price: self.price_of_offer(key, sender.caller, plan)? });
        }
        let place = item.line.as_ref().and_then(|line| line.number_of(&sender.caller.holder()));
        if sender.is_poll && place.is_none() {
            return Err(Refusal::WaitTimeout);
        }
        let waits = claim.on_conflict != OnConflict::Fail;
        let is_own_reservation = matches!(&item.standing.state, ItemState::Reserved(reservation) if reservation.actor == sender.caller.actor);
        if place.is_some() && waits && !claim.takeover && !is_own_reservation {
            // A place survives whatever prevents the grant. A poll keeps it.
            return Ok(Decision::Join(key));
        }
        match &item.standing.state {
            ItemState::Pending(waits) => return Err(Refusal::NotReady(self.not_ready(waits))),
            ItemState::Blocked(_) => return Err(Refusal::Blocked),
            ItemState::Reserved(reservation) if !is_own_reservation => {
                return Err(Refusal::Reserved { retry_after: self.now().until(reservation.until).max(Span(1)) });
            }
            _ => {}
        }
        if !item.content.mode.is_open_to(sender.caller) {
            return Err(Refusal::NotFound);
        }
        if self.is_draining_worker(item.space, || sender.caller.holder()) {
            return Err(Refusal::WorkerDraining);
        }

        let queue = self.state.queue(item.queue);
        if queue.queue.flow.is_draining() || (queue.queue.flow == Flow::Paused && !waits) {
            return Err(Refusal::QueuePaused);
        }
        if lease.is_some_and(|lease| lease.holder.actor == sender.caller.actor) {
            return match (claim.takeover, queue.queue.flow) {
                (false, _) => Err(Refusal::HeldByYourOtherSession),
                (true, Flow::Open) => {
                    self.check_session(sender, item.space, plan)?;
                    Ok(Decision::TakeOver { key, price: self.price_of_offer(key, sender.caller, plan)? })
                }
                (true, _) => Err(Refusal::QueuePaused),
            };
        }

        let join = || self.decide_join(sender, key, claim, place.is_some());
        if !is_own_reservation {
            let others_in_line =
                item.line.as_ref().is_some_and(|line| line.iter().any(|(number, _)| Some(number) != place));
            if lease.is_some() || others_in_line || self.is_delayed_for(key, sender.caller) {
                return if waits { join() } else { Err(self.conflict(sender, key)) };
            }
        }

        let bar = if queue.queue.flow.is_open() {
            let ahead = queue.settle.len() - usize::from(item.standing.settle.is_some());
            let has_room = queue.room_behind(ahead) + plan.room_in(item.queue) > 0;
            (!has_room).then_some(Refusal::QueueFull { retry_after: RETRY_HINT })
        } else {
            Some(Refusal::QueuePaused)
        };
        if let Some(bar) = bar {
            // A reservation is not a place in line. Its owner comes back when there is room.
            return if waits && !is_own_reservation { join() } else { Err(bar) };
        }
        self.check_session(sender, item.space, plan)?;
        let evict = self.room_of_caller(sender, item.queue, plan)?;
        Ok(Decision::Grant { key, evict })
    }

    fn decide_join(
        &self,
        sender: Sender<'_>,
        key: ItemKey,
        claim: &Claim,
        has_place: bool,
    ) -> Result<Decision, Refusal> {
        if has_place {
            return Ok(Decision::Join(key));
        }
        let asked = match claim.on_conflict {
            OnConflict::Wait { line_max, .. } => line_max,
            OnConflict::Fail => None,
        };
        let max = self.policy(key).line_max;
        let item = self.item(key);
        let line_length = item.line_len();
        let bound = Bound { max: max.into(), used: line_length.into(), at_least: PLACES_AT_LEAST };
        let enough = usize::try_from(bound.little()).expect("a part of a bound");
        let own = || item.line.as_ref().map_or(0, |line| line.places_of(&sender.caller.actor, enough) as u64);
        if max == 0 || asked.is_some_and(|asked| line_length >= asked) || !bound.admits(1, own) {
            return Err(Refusal::LineTooLong { line_length });
        }
        let holdings = self.state.holdings.get(item.space, &sender.caller.actor);
        if holdings.is_some_and(|holdings| holdings.places >= PLACES_PER_ACTOR) {
            return Err(Refusal::TooManyLeases { max: PLACES_PER_ACTOR });
        }
        Ok(Decision::Join(key))
    }

    /// Checks that the caller's session may have one more lease.
    fn check_session(&self, sender: Sender<'_>, space: SpaceNo, plan: &Plan) -> Result<(), Refusal> {
        if plan.granted.len() < self.room_of_session(sender, space) {
            Ok(())
        } else {
            Err(Refusal::TooManyLeases { max: LEASES_PER_SESSION })
        }
    }

    /// How many more leases the caller's session may have.
    pub(super) fn room_of_session(&self, sender: Sender<'_>, space: SpaceNo) -> usize {
        let holdings = self.state.holdings.get(space, &sender.caller.actor);
        let leases = holdings.map_or(0, |holdings| holdings.count_of_session(&sender.caller.session));
        (LEASES_PER_SESSION as usize).saturating_sub(leases)
    }

    /// Whether the caller may have one more lease in this queue, and which lease it gives up for it.
    pub(super) fn room_of_caller(
        &self,
        sender: Sender<'_>,
        queue_no: QueueNo,
        plan: &Plan,
    ) -> Result<Option<ItemKey>, Refusal> {
        let queue = &self.state.queue(queue_no).queue;
        let max = queue.policy.max_leases;
        if max == 0 {
            return Ok(None);
        }
        let holdings = self.state.holdings.get(queue.space, &sender.caller.actor);
        let leases = holdings.map_or(0, |holdings| holdings.leases_in(queue_no).all());
        if leases - plan.room_in(queue_no) < i64::from(max) {
            return Ok(None);
        }
        let is_oldest = |key: &ItemKey| !plan.evicted.contains(key) && !plan.kept.contains(key);
        let oldest = holdings
            .filter(|_| queue.policy.at_max_leases == AtMaxLeases::ReleaseOldest)
            .and_then(|holdings| self.oldest_of(holdings, &sender.caller.session, queue_no, is_oldest));
        oldest.map(Some).ok_or(Refusal::TooManyLeases { max })
    }

    /// The lease that an actor gives up when it picks up a grant from a line. None if the actor is within its cap. A
    /// session gives up its own leases. Only if a takeover has moved all of them does the actor give up one of another
    /// session.
    pub(super) fn price_of_offer(
        &self,
        key: ItemKey,
        caller: &Caller,
        plan: &Plan,
    ) -> Result<Option<ItemKey>, Refusal> {
        let item = self.item(key);
        let policy = self.policy(key);
        let max = policy.max_leases;
        let is_free = policy.at_max_leases == AtMaxLeases::Reject || plan.kept.contains(&key);
        if max == 0 || is_free || !item.is_offered() {
            return Ok(None);
        }
        let Some(holdings) = self.state.holdings.get(item.space, &caller.actor) else { return Ok(None) };
        let of = |counts: &BTreeMap<QueueNo, u32>| counts.get(&item.queue).copied().map_or(0, i64::from);
        let taken = i64::from(holdings.leases_in(item.queue).taken) + of(&plan.taken_up) - plan.room_in(item.queue);
        if taken < i64::from(max) {
            return Ok(None);
        }
        let is_wanted = |of: &ItemKey| *of != key && !plan.evicted.contains(of) && !plan.kept.contains(of);
        let mut sessions = std::iter::once(&caller.session).chain(holdings.sessions());
        let price = sessions.find_map(|session| self.oldest_of(holdings, session, item.queue, is_wanted));
        price.map(Some).ok_or(Refusal::TooManyLeases { max })
    }

    /// The oldest lease that a session has picked up in a queue and that passes the test.
    pub(super) fn oldest_of(
        &self,
        holdings: &Holdings,
        session: &Option<SessionId>,
        queue: QueueNo,
        is_wanted: impl Fn(&ItemKey) -> bool,
    ) -> Option<ItemKey> {
        let is_taken = |key: &ItemKey| {
            let item = self.item(*key);
            item.queue == queue && item.standing.lease.as_ref().is_some_and(|lease| lease.pickup.is_none())
        };
        let mut leases = holdings.of_session(session).map(|(_, key)| key);
        leases.find(|key| is_taken(key) && is_wanted(key))
    }

    pub(super) fn carry_out_claim(
        &mut self,
        sender: Sender<'_>,
        claim: &Claim,
        decision: Decision,
    ) -> Result<Outcome, Refusal> {
        match decision {
            Decision::Renew { key, price } => {
                let (length, cut) = self.policy(key).lease_length(claim.lease_for);
                let is_pickup = self.item(key).is_offered();
                let released = self.take_up(key, price);
                self.prolong(key, length);
                self.show_cancel(key);
                Ok(Outcome::Granted(self.grant_of(key, !is_pickup, cut, released)))
            }
            Decision::Join(key) => Ok(self.join(sender, claim, key)),
            Decision::TakeOver { key, price } => {
                self.take_over(key);
                let cut = self.grant_claim(sender, claim, key);
                let released = self.give(price);
                self.show_cancel(key);
                Ok(Outcome::Granted(self.grant_of(key, false, cut, released)))
            }
            Decision::Grant { key, evict } => {
                let cut = self.grant_claim(sender, claim, key);
                let released = self.give(evict);
                Ok(Outcome::Granted(self.grant_of(key, false, cut, released)))
            }
        }
    }

    pub(super) fn not_ready(&self, waits: &Waits) -> NotReady {
        NotReady {
            dependencies: u32::try_from(waits.dependencies.len()).unwrap_or(u32::MAX),
            not_before: waits.not_before,
            retry_after: waits.until.map(|until| self.now().until(until).max(Span(1))),
        }
    }
}
