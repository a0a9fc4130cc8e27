//! The life cycle of a lease: granted, confirmed, prolonged, ended.

use super::claim::Plan;
use super::{Sender, Step};
use crate::bounds::TOKEN_LIMIT;
use crate::caller::{ActorKind, Caller, Holder};
use crate::command::Claim;
use crate::event::What;
use crate::item::{Mirrors, Transition};
use crate::names::{ActorId, ItemId};
use crate::numbers::{Span, Time, Token};
use crate::outcome::Outcome;
use crate::refusal::Refusal;
use crate::remembered::RequestKey;
use crate::standing::{Assignment, Doing, ItemState, Lease, Pickup, Standing};
use crate::state::item_key::ItemKey;

/// The terms of a new lease.
pub(super) struct Terms {
    pub(super) holder: Holder,
    pub(super) kind: ActorKind,
    pub(super) lease_for: Span,
    pub(super) doing: Option<Box<Doing>>,
    pub(super) mirrors: Mirrors,
}

impl Step<'_> {
    /// Grants a claim. Returns whether its length was cut.
    pub(super) fn grant_claim(&mut self, sender: Sender<'_>, claim: &Claim, key: ItemKey) -> bool {
        let (lease_for, cut) = self.policy(key).lease_length(claim.lease_for);
        let terms = Terms {
            holder: sender.caller.holder(),
            kind: sender.caller.kind,
            lease_for,
            doing: Doing::new(claim.action.as_deref(), claim.field.as_deref()),
            mirrors: claim.mirrors,
        };
        self.leave_own_place(sender.caller, key);
        self.grant(key, terms);
        cut
    }

    /// Grants a lease to a holder that gets the answer now.
    pub(super) fn grant(&mut self, key: ItemKey, terms: Terms) {
        let expires_at = self.now().after(terms.lease_for);
        let mirrors = terms.mirrors;
        self.mint(key, terms, expires_at, None);
        self.mirror(key, Transition::Claimed, mirrors);
    }

    /// Grants a lease to the head of a line, which must still pick it up.
    pub(super) fn grant_from_line(&mut self, key: ItemKey, terms: Terms, request: Option<RequestKey>) {
        let expires_at = self.now().after(self.policy(key).pickup);
        let was_stale = matches!(self.item(key).standing.state, ItemState::Stale);
        self.mint(key, terms, expires_at, Some(Box::new(Pickup { was_stale, request })));
    }

    fn mint(&mut self, key: ItemKey, terms: Terms, expires_at: Time, pickup: Option<Box<Pickup>>) {
        debug_assert!(self.state.meta.activated && self.item(key).standing.lease.is_none());
        let now = self.now();
        let token = Token(self.state.meta.last_token.0 + 1);
        assert!(token.0 < TOKEN_LIMIT, "tokens stay exact in JSON");
        self.state.meta.last_token = token;
        let was_assigned_to = self.item(key).standing.assignment.as_ref().map(|assignment| assignment.actor.clone());
        let was_assigned_to = was_assigned_to.filter(|actor| *actor != terms.holder.actor);
        let holder = self.state.holdings.share(self.item(key).space, terms.holder);
        let from_line = pickup.is_some();
        self.touch_expiry(key);
        self.change(key, |item| {
            let standing = &mut item.standing;
            standing.lease = Some(Box::new(Lease {
                holder: holder.clone(),
                kind: terms.kind,
                token,
                claimed_at: now,
                expires_at,
                lease_for: terms.lease_for,
                doing: terms.doing,
                mirrors: terms.mirrors,
                pickup,
            }));
            standing.newest_token = token;
            standing.state = ItemState::Active;
            standing.since = now;
            standing.settle = None;
            standing.forget_late_right();
            if !from_line {
                standing.take_possession(&holder.actor, now);
            }
        });
        self.emit_of(key, What::Granted { holder, token, expires_at, from_line, was_assigned_to });
    }

    /// Picks up a grant from the line, because its holder has sent a request.
    pub(super) fn confirm(&mut self, sender: Sender<'_>, key: ItemKey) {
        if self.item(key).is_offered() {
            let price = self.price_of_offer(key, sender.caller, Plan::NONE).ok().flatten();
            self.take_up(key, price);
        }
    }

    /// Like [`Step::confirm`], with the lease to give up already chosen.
    pub(super) fn take_up(&mut self, key: ItemKey, price: Option<ItemKey>) -> Option<ItemId> {
        let lease = self.item(key).standing.lease.as_ref()?;
        let pickup = lease.pickup.as_deref().copied()?;
        let (holder, token, lease_for, mirrors) = (lease.holder.clone(), lease.token, lease.lease_for, lease.mirrors);
        let now = self.now();
        self.change(key, |item| {
            if let Some(lease) = &mut item.standing.lease {
                lease.pickup = None;
            }
            item.standing.take_possession(&holder.actor, now);
        });
        self.prolong(key, lease_for);
        self.emit_of(key, What::PickedUp { holder, token });
        self.mirror(key, Transition::Claimed, mirrors);
        let released = self.give(price);
        let grant = self.grant_of(key, false, false, released.clone());
        self.answer_waiting(pickup.request, Outcome::Granted(grant));
        released
    }

    /// Releases the lease that is given up for another. Returns its item.
    pub(super) fn give(&mut self, price: Option<ItemKey>) -> Option<ItemId> {
        let id = self.item(price?).id.clone();
        self.evict(price?);
        Some(id)
    }

    /// Moves the expiry later, never earlier.
    pub(super) fn prolong(&mut self, key: ItemKey, length: Span) {
        let expires_at = self.now().after(length);
        self.touch_expiry(key);
        // No index except the deadlines contains the expiry, and an earlier one there is allowed.
        if let Some(lease) = &mut self.state.items.get_mut(key).standing.lease {
            lease.expires_at = lease.expires_at.max(expires_at);
        }
    }

    /// The answer being built shows the holder a requested cancel, so its grace period begins.
    pub(super) fn show_cancel(&mut self, key: ItemKey) {
        let now = self.now();
        if self.item(key).standing.cancel.as_ref().is_some_and(|cancel| cancel.shown_at.is_none()) {
            self.change(key, |item| {
                if let Some(cancel) = &mut item.standing.cancel {
                    cancel.shown_at = Some(now);
                }
            });
        }
    }

    /// Ends the lease. The calling function must set the item's new state in the same step.
    pub(super) fn end_lease(&mut self, key: ItemKey) -> Lease {
        self.end_lease_with(key, |_, _| {})
    }

    /// Like [`Step::end_lease`], together with a change of the item's standing.
    fn end_lease_with(&mut self, key: ItemKey, change: impl FnOnce(&mut Standing, &Lease)) -> Lease {
        self.touch_expiry(key);
        let lease = self.change(key, |item| {
            let lease = item.standing.lease.take().expect("a held item");
            change(&mut item.standing, &lease);
            lease
        });
        if let Some(pickup) = &lease.pickup {
            self.answer_waiting(pickup.request, Outcome::Refused(Refusal::LeaseLost { holder: None }));
        }
        *lease
    }

    /// Ends the lease of the same actor's other session. A requested cancel has not been shown to the new holder yet.
    pub(super) fn take_over(&mut self, key: ItemKey) {
        let lease = self.end_lease_with(key, |standing, _| {
            if let Some(cancel) = &mut standing.cancel {
                cancel.shown_at = None;
            }
        });
        self.emit_of(key, What::TakenOver { holder: lease.holder, token: lease.token });
    }

    /// Ends the lease at its holder's request.
    pub(super) fn release_lease(&mut self, key: ItemKey, keep_assignment: bool) {
        self.end_released(key, keep_assignment);
        self.go_on(key);
    }

    /// Releases a lease to make room for another of the same session. Its line settles at the end of the step, so that
    /// it does not overtake the new grant and lines do not settle inside one another.
    pub(super) fn evict(&mut self, key: ItemKey) {
        self.end_released(key, false);
        if self.item(key).standing.cancel.is_none() && self.item(key).has_line() {
            self.set_settle(key, true);
        } else {
            self.go_on(key);
        }
    }

    fn end_released(&mut self, key: ItemKey, keep_assignment: bool) {
        let now = self.now();
        let lease = self.end_lease_with(key, |standing, lease| {
            standing.state = ItemState::Queued;
            standing.since = now;
            if !keep_assignment && standing.is_assigned_to(&lease.holder.actor) {
                standing.assignment = None;
            }
        });
        self.emit_of(key, What::Released { holder: lease.holder, token: lease.token });
    }

    /// Moves an item whose lease has ended to this state, or ends the item if a cancel was requested. Settles its line.
    pub(super) fn free(&mut self, key: ItemKey, state: ItemState) {
        if self.item(key).standing.cancel.is_none() {
            self.set_state(key, state);
        }
        self.go_on(key);
    }

    fn go_on(&mut self, key: ItemKey) {
        if let Some(cancel) = &self.item(key).standing.cancel {
            let reason = cancel.reason.to_string();
            self.emit_of(key, What::Cancelled { reason, holder: None, token: None });
            self.end_item(key, ItemState::Cancelled);
        } else {
            self.settle(key);
        }
    }

    /// Whether only another actor may claim the item now, because that actor's lease ended uncleanly and recently.
    pub(super) fn is_delayed_for(&self, key: ItemKey, caller: &Caller) -> bool {
        let delay = self.item(key).standing.delay();
        delay.is_some_and(|(actor, until)| *actor != caller.actor && *until > self.now())
    }
}

impl Standing {
    /// Updates the ownership and the history for a holder that has picked up the item.
    fn take_possession(&mut self, actor: &ActorId, now: Time) {
        if !self.is_assigned_to(actor) {
            self.assignment = Some(Box::new(Assignment { actor: actor.clone(), since: now }));
        }
        let claimed_at = self.lease.as_ref().map_or(now, |lease| lease.claimed_at);
        let past = self.past_mut();
        past.delay = None;
        if past.origin.as_ref().is_none_or(|(of, _)| of != actor) {
            past.origin = Some((actor.clone(), claimed_at));
        }
    }
}
