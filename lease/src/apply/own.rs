//! Ownership without a lease (assign, unassign), and the end of a lease by an operator (revoke).

use super::{Sender, Step};
use crate::command::Revoke;
use crate::event::What;
use crate::names::{ActorId, ItemId};
use crate::numbers::Span;
use crate::outcome::Outcome;
use crate::refusal::Refusal;
use crate::standing::{Assignment, ItemState};
use crate::state::item_key::ItemKey;

impl Step<'_> {
    pub(super) fn assign(&mut self, sender: Sender<'_>, id: &ItemId, actor: &ActorId) -> Result<Outcome, Refusal> {
        let key = self.find_live(sender, id)?;
        let standing = &self.item(key).standing;
        if standing.lease.as_ref().is_some_and(|lease| lease.holder.actor != *actor) {
            return Err(self.conflict(sender, key));
        }
        if let ItemState::Reserved(reservation) = &standing.state
            && reservation.actor != *actor
        {
            return Err(Refusal::Reserved { retry_after: self.now().until(reservation.until).max(Span(1)) });
        }
        if !standing.is_assigned_to(actor) {
            self.set_assignee(key, actor);
        }
        Ok(Outcome::Assigned { item: id.clone(), actor: actor.clone() })
    }

    fn set_assignee(&mut self, key: ItemKey, actor: &ActorId) {
        let since = self.now();
        self.change(key, |item| {
            item.standing.assignment = Some(Box::new(Assignment { actor: actor.clone(), since }));
            item.standing.forget_late_right();
        });
        self.emit_of(key, What::Assigned { actor: actor.clone() });
    }

    pub(super) fn unassign(&mut self, sender: Sender<'_>, id: &ItemId, actor: &ActorId) -> Result<Outcome, Refusal> {
        let key = self.find_live(sender, id)?;
        let standing = &self.item(key).standing;
        if standing.lease.is_some() {
            return Err(self.conflict(sender, key));
        }
        let unassigned = standing.is_assigned_to(actor);
        if unassigned {
            self.drop_assignment(key);
        }
        Ok(Outcome::Unassigned { item: id.clone(), unassigned })
    }

    /// Removes the assignment of an item that nobody holds, and with it a reservation for its assignee.
    pub(super) fn drop_assignment(&mut self, key: ItemKey) {
        let Some(assignment) = self.change(key, |item| {
            item.standing.forget_late_right();
            item.standing.assignment.take()
        }) else {
            return;
        };
        self.emit_of(key, What::Unassigned { actor: assignment.actor });
        self.end_reservation(key);
    }

    /// Ends a reservation, so that the item is available again.
    pub(super) fn end_reservation(&mut self, key: ItemKey) {
        let ItemState::Reserved(reservation) = &self.item(key).standing.state else { return };
        let actor = reservation.actor.clone();
        self.emit_of(key, What::ReservationEnded { actor });
        self.set_state(key, ItemState::Queued);
        self.settle(key);
    }

    pub(super) fn revoke(&mut self, sender: Sender<'_>, revoke: &Revoke) -> Result<Outcome, Refusal> {
        let key = self.find_live(sender, &revoke.item)?;
        let is_held = self.item(key).standing.lease.is_some();
        let is_reserved = matches!(self.item(key).standing.state, ItemState::Reserved(_));
        if is_held {
            let lease = self.end_lease(key);
            let holder = lease.holder.clone();
            let what = What::Revoked { holder: Some(holder), token: Some(lease.token), reason: revoke.reason.clone() };
            self.emit_of(key, what);
            self.begin_delay(key, &lease.holder.actor);
        } else {
            self.emit_of(key, What::Revoked { holder: None, token: None, reason: revoke.reason.clone() });
        }
        if let Some(actor) = revoke.assign_to.as_ref().filter(|actor| !self.item(key).standing.is_assigned_to(actor)) {
            self.set_assignee(key, actor);
        }
        self.change(key, |item| item.standing.forget_late_right());
        if is_held {
            self.free(key, ItemState::Queued);
        } else {
            self.end_reservation(key);
        }
        let state = self.state_now(sender, &revoke.item).expect("it existed just now");
        Ok(Outcome::Revoked { item: revoke.item.clone(), revoked: is_held || is_reserved, state })
    }

    /// Begins the lock delay: after an unclean end only the previous holder may claim for a while.
    pub(super) fn begin_delay(&mut self, key: ItemKey, actor: &ActorId) {
        let lock_delay = self.policy(key).lock_delay;
        if lock_delay > Span(0) {
            let until = self.now().after(lock_delay);
            self.change(key, |item| item.standing.past_mut().delay = Some(Box::new((actor.clone(), until))));
        }
    }
}
