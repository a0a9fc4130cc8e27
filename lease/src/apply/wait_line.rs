//! The wait line: joining, leaving, settling.

use super::claim::Plan;
use super::grant::Terms;
use super::{Sender, Step};
use crate::bounds::{LEASES_PER_SESSION, PLACE_LIFE};
use crate::caller::Caller;
use crate::command::{Claim, OnConflict};
use crate::event::What;
use crate::item::Mode;
use crate::line::{Place, PlaceNo};
use crate::names::{ActorId, ItemId};
use crate::numbers::Span;
use crate::outcome::Outcome;
use crate::policy::AtMaxLeases;
use crate::record::Key;
use crate::refusal::Refusal;
use crate::standing::Doing;
use crate::state::item_key::ItemKey;
use std::num::NonZeroU64;

impl Step<'_> {
    /// Joins the line, or keeps the caller's place in it.
    pub(super) fn join(&mut self, sender: Sender<'_>, claim: &Claim, key: ItemKey) -> Outcome {
        let now = self.now();
        let holder = sender.caller.holder();
        let (lease_for, _) = self.policy(key).lease_length(claim.lease_for);
        let wait_for = match claim.on_conflict {
            OnConflict::Wait { wait_for, .. } => wait_for,
            OnConflict::Fail => None,
        };
        let line = self.item(key).line.as_ref();
        let earlier = line.and_then(|line| line.number_of(&holder));
        let number = earlier.unwrap_or_else(|| line.map_or(PlaceNo(0), |line| line.next_number()));
        let kept = earlier.and_then(|number| line.and_then(|line| line.get(number)));
        let place = Place {
            kind: sender.caller.kind,
            parent: sender.caller.parent.clone(),
            request: sender.request.or(kept.and_then(|place| place.request)),
            joined_at: kept.map_or(now, |place| place.joined_at),
            polled_at: now,
            wait_until: match kept {
                Some(place) if sender.is_poll => place.wait_until,
                _ => wait_for.map(|span| now.after(span)),
            },
            lease_for,
            doing: Doing::new(claim.action.as_deref(), claim.field.as_deref()),
            mirrors: claim.mirrors,
            holder: holder.clone(),
        };
        if earlier.is_some() {
            self.take_place(key, number);
        }
        let asked = place.clone();
        self.put_place(key, number, place);
        if earlier.is_none() {
            let place = self.item(key).line_len() - 1;
            self.emit_of(key, What::Joined { holder, place });
            self.settle(key);
        }
        let item = self.item(key);
        if item.standing.lease.as_ref().is_some_and(|lease| lease.holder.is(sender.caller)) {
            let price = self.price_of_offer(key, sender.caller, Plan::NONE).ok().flatten();
            let released = self.take_up(key, price);
            return Outcome::Granted(self.grant_of(key, false, false, released));
        }
        if item.line.as_ref().is_none_or(|line| line.get(number).is_none()) {
            // The waiters before it left in this step, and then its own place was rejected.
            return Outcome::Refused(self.bar_of_head(key, &asked).err().unwrap_or(Refusal::WaitTimeout));
        }
        Outcome::Waiting {
            item: item.id.clone(),
            place: item.line.as_ref().map_or(0, |line| line.position(number)),
            line_length: item.line_len(),
            poll_within: Span(PLACE_LIFE.0 * 2 / 3),
        }
    }

    fn put_place(&mut self, key: ItemKey, number: PlaceNo, place: Place) {
        self.changes.put(&Key::Place(key.no, number), &place);
        self.state.deadlines.places.insert((place.ends_at(), key, number));
        let space = self.item(key).space;
        self.state.holdings.change(space, &place.holder.actor, |holdings| holdings.places += 1);
        self.state.change(key, |item| item.line.get_or_insert_default().insert(number, place));
    }

    fn take_place(&mut self, key: ItemKey, number: PlaceNo) -> Option<Place> {
        let place = self.state.change(key, |item| {
            let line = item.line.as_mut()?;
            let place = line.remove(number);
            if line.is_empty() {
                item.line = None;
            }
            place
        })?;
        let space = self.item(key).space;
        self.state.holdings.change(space, &place.holder.actor, |holdings| holdings.places -= 1);
        self.state.deadlines.places.remove(&(place.ends_at(), key, number));
        self.changes.remove(&Key::Place(key.no, number));
        Some(place)
    }

    /// Ends the caller's place, because the caller gets the item in another way.
    pub(super) fn leave_own_place(&mut self, caller: &Caller, key: ItemKey) {
        let number = self.item(key).line.as_ref().and_then(|line| line.number_of(&caller.holder()));
        if let Some(number) = number {
            self.take_place(key, number);
        }
    }

    /// Ends a place without a grant. Its waiter gets the answer with its next poll.
    pub(super) fn leave_line(&mut self, key: ItemKey, number: PlaceNo, answer: Result<(), Refusal>) {
        let Some(place) = self.take_place(key, number) else { return };
        let code = answer.as_ref().err().map(Refusal::code);
        self.emit_of(key, What::LeftLine { holder: place.holder, answer: code });
        let outcome = match answer {
            Ok(()) => Outcome::Withdrawn { item: self.item(key).id.clone(), withdrawn: true },
            Err(refusal) => Outcome::Refused(refusal),
        };
        self.answer_waiting(place.request, outcome);
    }

    /// Rejects every waiter with this answer.
    pub(super) fn dismiss_line(&mut self, key: ItemKey, answer: &Refusal) {
        while let Some(number) = self.item(key).line.as_ref().and_then(|line| line.head()).map(|(number, _)| number) {
            self.leave_line(key, number, Err(answer.clone()));
            self.spend_step();
        }
        if self.item(key).standing.settle.is_some() {
            self.change(key, |item| item.standing.settle = None);
        }
    }

    /// Must be called by everything that frees an item or removes what keeps its line from moving. Grants to the head
    /// of the line, or puts the item where the end of the obstacle will find it. So no line is ever stuck.
    pub(super) fn settle(&mut self, key: ItemKey) {
        loop {
            let now = self.now();
            let item = self.item(key);
            let standing = &item.standing;
            let head = item.line.as_ref().and_then(|line| line.head());
            let Some((number, place)) = head.filter(|_| standing.state.is_claimable() && standing.lease.is_none())
            else {
                return self.set_settle(key, false);
            };
            if place.ends_at() <= now {
                self.leave_line(key, number, Err(Refusal::WaitTimeout));
                self.spend_step();
                continue;
            }
            // The end of a delay is a deadline of the item itself. A delay that has passed stops nobody.
            if standing.delay().is_some_and(|(actor, until)| *actor != place.holder.actor && *until > now) {
                return self.set_settle(key, false);
            }
            let queue = self.state.queue(item.queue);
            let is_open = self.state.meta.activated && queue.queue.flow.is_open();
            if !is_open || queue.room_behind(0) <= 0 {
                return self.set_settle(key, true);
            }
            let ahead = match standing.settle {
                Some(seq) => queue.settle.range(..seq).count(),
                None => queue.settle.len(),
            };
            if queue.room_behind(ahead) <= 0 {
                return self.set_settle(key, true);
            }
            match self.bar_of_head(key, place) {
                Err(refusal) => {
                    self.leave_line(key, number, Err(refusal));
                    self.spend_step();
                }
                Ok(()) => {
                    let place = self.take_place(key, number).expect("the head");
                    let terms = Terms {
                        holder: place.holder,
                        kind: place.kind,
                        lease_for: place.lease_for,
                        doing: place.doing,
                        mirrors: place.mirrors,
                    };
                    self.grant_from_line(key, terms, place.request);
                    return;
                }
            }
        }
    }

    /// Why the head itself cannot be granted. The head is then rejected, so that it does not keep others waiting.
    fn bar_of_head(&self, key: ItemKey, place: &Place) -> Result<(), Refusal> {
        let item = self.item(key);
        if let Mode::Local { owner } = &item.content.mode
            && place.holder.actor != *owner
            && place.parent.as_ref() != Some(owner)
        {
            return Err(Refusal::NotFound);
        }
        if self.is_draining_worker(item.space, || place.holder.clone()) {
            return Err(Refusal::WorkerDraining);
        }
        let policy = &self.state.queue(item.queue).queue.policy;
        let Some(holdings) = self.state.holdings.get(item.space, &place.holder.actor) else { return Ok(()) };
        if holdings.count_of_session(&place.holder.session) >= LEASES_PER_SESSION as usize {
            return Err(Refusal::TooManyLeases { max: LEASES_PER_SESSION });
        }
        if policy.max_leases == 0 || holdings.leases_in(item.queue).all() < i64::from(policy.max_leases) {
            return Ok(());
        }
        // The lease that it gives up for this one is released when this one is certain, which is when it is picked up.
        if policy.at_max_leases == AtMaxLeases::ReleaseOldest
            && self.oldest_of(holdings, &place.holder.session, item.queue, |_| true).is_some()
        {
            return Ok(());
        }
        Err(Refusal::TooManyLeases { max: policy.max_leases })
    }

    /// Counts a step. A line is always answered in the step that ends it, but a long line leaves fewer steps for other
    /// work.
    fn spend_step(&mut self) {
        self.steps_left = self.steps_left.saturating_sub(1);
    }

    pub(super) fn set_settle(&mut self, key: ItemKey, stands: bool) {
        if self.item(key).standing.settle.is_some() == stands {
            return;
        }
        let seq = if stands {
            self.state.meta.last_settle += 1;
            NonZeroU64::new(self.state.meta.last_settle)
        } else {
            None
        };
        self.change(key, |item| item.standing.settle = seq);
    }

    pub(super) fn withdraw(&mut self, sender: Sender<'_>, id: &ItemId) -> Result<Outcome, Refusal> {
        let withdrawn = |withdrawn| Ok(Outcome::Withdrawn { item: id.clone(), withdrawn });
        let key = match self.find_live(sender, id) {
            Ok(key) => key,
            Err(Refusal::TerminalItem) => return withdrawn(false),
            Err(refusal) => return Err(refusal),
        };
        let holder = sender.caller.holder();
        let Some(number) = self.item(key).line.as_ref().and_then(|line| line.number_of(&holder)) else {
            return withdrawn(false);
        };
        self.leave_line(key, number, Ok(()));
        self.settle(key);
        withdrawn(true)
    }

    /// Moves the named actors to the head of the line, in that order, with all of their places. The others keep their
    /// order.
    pub(super) fn reorder(&mut self, sender: Sender<'_>, id: &ItemId, actors: &[ActorId]) -> Result<Outcome, Refusal> {
        let key = self.find_live(sender, id)?;
        let Some(line) = &self.item(key).line else {
            return Ok(Outcome::Reordered { item: id.clone(), line_length: 0 });
        };
        let mut chosen: Vec<PlaceNo> = Vec::new();
        for actor in actors {
            chosen.extend(line.iter().filter(|(_, place)| place.holder.actor == *actor).map(|(number, _)| number));
        }
        let first = line.first_number().0 - i64::try_from(chosen.len()).expect("a line is bounded");
        for (number, new) in chosen.into_iter().zip(first..) {
            if let Some(place) = self.take_place(key, number) {
                self.put_place(key, PlaceNo(new), place);
            }
        }
        self.emit_of(key, What::Reordered { first: actors.to_vec() });
        self.settle(key);
        Ok(Outcome::Reordered { item: id.clone(), line_length: self.item(key).line_len() })
    }
}
