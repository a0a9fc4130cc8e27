//! The life of a lease: granted, confirmed, prolonged, ended.

use super::{Ask, Step};
use crate::bounds::TOKEN_LIMIT;
use crate::caller::{ActorKind, Caller, Holder};
use crate::command::Claim;
use crate::event::What;
use crate::numbers::{Span, Time, Token};
use crate::outcome::Outcome;
use crate::refusal::Refusal;
use crate::standing::{Assignment, ItemState, Lease, Mirrors, Pickup, Transition};
use crate::state::items::ItemKey;

/// What a lease is granted with.
pub(super) struct Terms {
    pub(super) holder: Holder,
    pub(super) kind: ActorKind,
    pub(super) lease_for: Span,
    pub(super) action: Option<Box<str>>,
    pub(super) field: Option<Box<str>>,
    pub(super) mirrors: Mirrors,
}

impl Step<'_> {
    /// Grants a claim whose time has come; says whether its length was cut.
    pub(super) fn grant_claim(&mut self, ask: Ask<'_>, claim: &Claim, key: ItemKey) -> bool {
        let (lease_for, cut) = self.policy(key).lease_length(claim.lease_for);
        let terms = Terms {
            holder: ask.caller.holder(),
            kind: ask.caller.kind,
            lease_for,
            action: claim.action.as_deref().map(Into::into),
            field: claim.field.as_deref().map(Into::into),
            mirrors: claim.mirrors,
        };
        self.leave_own_place(ask.caller, key);
        self.grant(key, terms);
        cut
    }

    /// A lease for a holder that is here to hear of it.
    pub(super) fn grant(&mut self, key: ItemKey, terms: Terms) {
        let now = self.now();
        let length = terms.lease_for;
        let holder = terms.holder.clone();
        self.mint(key, terms, now.after(length), None);
        self.take_possession(key, &holder);
    }

    /// A lease for the head of a line, which has yet to answer.
    pub(super) fn grant_from_line(&mut self, key: ItemKey, terms: Terms, mut pickup: Pickup) {
        let expires_at = self.now().after(self.policy(key).pickup);
        pickup.was_stale = matches!(self.item(key).standing.state, ItemState::Stale);
        self.mint(key, terms, expires_at, Some(pickup));
    }

    fn mint(&mut self, key: ItemKey, terms: Terms, expires_at: Time, pickup: Option<Pickup>) {
        debug_assert!(self.state.meta.activated && self.item(key).standing.lease.is_none());
        let now = self.now();
        let token = Token(self.state.meta.last_token.0 + 1);
        assert!(token.0 < TOKEN_LIMIT, "tokens stay exact in JSON");
        self.state.meta.last_token = token;
        let was_assigned_to = self.item(key).standing.assignment.as_ref().map(|assignment| assignment.actor.clone());
        let was_assigned_to = was_assigned_to.filter(|actor| *actor != terms.holder.actor);
        let holder = terms.holder.clone();
        let from_line = pickup.is_some();
        self.change(key, |item| {
            let standing = &mut item.standing;
            standing.lease = Some(Box::new(Lease {
                holder: terms.holder,
                kind: terms.kind,
                token,
                claimed_at: now,
                expires_at,
                lease_for: terms.lease_for,
                action: terms.action,
                field: terms.field,
                mirrors: terms.mirrors,
                pickup,
            }));
            standing.newest_token = token;
            standing.state = ItemState::Active;
            standing.since = now;
            standing.settle = None;
            standing.forget_late_right();
        });
        self.emit_of(key, What::Granted { holder, token, expires_at, from_line, was_assigned_to });
    }

    /// The holder has the item and knows it: ownership and what observers see follow.
    fn take_possession(&mut self, key: ItemKey, holder: &Holder) {
        let now = self.now();
        self.change(key, |item| {
            let standing = &mut item.standing;
            if !standing.is_assigned_to(&holder.actor) {
                standing.assignment = Some(Box::new(Assignment { actor: holder.actor.clone(), since: now }));
            }
            let past = standing.past_mut();
            past.delay = None;
            let origin = &mut past.origin;
            if origin.as_ref().is_none_or(|(actor, _)| *actor != holder.actor) {
                *origin = Some((holder.actor.clone(), now));
            }
        });
        let mirrors = self.item(key).standing.lease.as_ref().map_or(Mirrors::NONE, |lease| lease.mirrors);
        self.mirror(key, Transition::Claimed, mirrors);
    }

    /// The holder of a grant from the line has answered: the lease is its own now.
    pub(super) fn confirm(&mut self, key: ItemKey) {
        let Some(lease) = &self.item(key).standing.lease else { return };
        let Some(pickup) = lease.pickup else { return };
        let (holder, token, lease_for) = (lease.holder.clone(), lease.token, lease.lease_for);
        self.change(key, |item| {
            if let Some(lease) = &mut item.standing.lease {
                lease.pickup = None;
            }
        });
        self.prolong(key, lease_for);
        self.emit_of(key, What::PickedUp { holder: holder.clone(), token });
        self.take_possession(key, &holder);
        let grant = self.grant_of(key, false, false, None);
        self.answer_waiting(pickup.request, &Outcome::Granted(grant));
    }

    /// Moves expiry later, never earlier.
    pub(super) fn prolong(&mut self, key: ItemKey, length: Span) {
        let expires_at = self.now().after(length);
        self.touch(key);
        // No index but the deadlines knows the expiry, and those may know an earlier one.
        if let Some(lease) = &mut self.state.items.get_mut(key).standing.lease {
            lease.expires_at = lease.expires_at.max(expires_at);
        }
    }

    /// The answer that is being made tells the holder that a cancel was asked for: its grace begins.
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

    /// Takes the lease away. What becomes of the item is the caller's to say, in the same step.
    pub(super) fn end_lease(&mut self, key: ItemKey) -> Lease {
        let lease = self.change(key, |item| item.standing.lease.take()).expect("a held item");
        if let Some(pickup) = lease.pickup {
            self.answer_waiting(pickup.request, &Outcome::Refused(Refusal::LeaseLost { holder: None }));
        }
        *lease
    }

    pub(super) fn take_over(&mut self, key: ItemKey) {
        let lease = self.end_lease(key);
        self.emit_of(key, What::TakenOver { holder: lease.holder, token: lease.token });
    }

    /// Ends the lease as its holder wishes.
    pub(super) fn release_lease(&mut self, key: ItemKey, keep_assignment: bool) {
        let lease = self.end_lease(key);
        let actor = lease.holder.actor.clone();
        self.emit_of(key, What::Released { holder: lease.holder, token: lease.token });
        if !keep_assignment && self.item(key).standing.is_assigned_to(&actor) {
            self.change(key, |item| item.standing.assignment = None);
        }
        self.free(key, ItemState::Queued);
    }

    /// Releases a lease that made room for another of the same session. Its line waits for the end of the step: what
    /// was just granted is not to be overtaken, and lines do not settle inside one another.
    pub(super) fn evict(&mut self, key: ItemKey) {
        let lease = self.end_lease(key);
        let actor = lease.holder.actor.clone();
        self.emit_of(key, What::Released { holder: lease.holder, token: lease.token });
        if self.item(key).standing.is_assigned_to(&actor) {
            self.change(key, |item| item.standing.assignment = None);
        }
        if self.item(key).standing.cancel.is_some() || !self.item(key).has_line() {
            self.free(key, ItemState::Queued);
        } else {
            self.set_state(key, ItemState::Queued);
            self.set_settle(key, true);
        }
    }

    /// A lease has ended and the item goes on: into this state, or out, when a cancel was asked for. Settles its line.
    pub(super) fn free(&mut self, key: ItemKey, state: ItemState) {
        if let Some(cancel) = &self.item(key).standing.cancel {
            let reason = cancel.reason.to_string();
            self.emit_of(key, What::Cancelled { reason, holder: None, token: None });
            self.end_item(key, ItemState::Cancelled);
            return;
        }
        self.set_state(key, state);
        self.settle(key);
    }

    /// Whether the last lease ended so uncleanly and so recently that only its own actor may claim.
    pub(super) fn is_delayed_for(&self, key: ItemKey, caller: &Caller) -> bool {
        let past = self.item(key).standing.past.as_ref();
        let delay = past.and_then(|past| past.delay.as_ref());
        delay.is_some_and(|(actor, until)| *actor != caller.actor && *until > self.now())
    }
}
