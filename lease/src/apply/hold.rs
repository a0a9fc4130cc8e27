//! Holding: renew, extend, release, reserve.

use super::find::Found;
use super::{Sender, Step};
use crate::caller::Role;
use crate::command::{Extend, Release, Renew, RenewAll, Reserve};
use crate::event::What;
use crate::names::ItemId;
use crate::numbers::{SpaceNo, Span, Token};
use crate::outcome::{Outcome, Renewal, RenewalOfAll};
use crate::refusal::Refusal;
use crate::standing::{ItemState, Reservation};
use crate::state::item_key::ItemKey;

impl Step<'_> {
    /// The item whose lease has this token, if the caller is the holder.
    fn find_held(&self, sender: Sender<'_>, id: &ItemId, token: Token) -> Result<ItemKey, Refusal> {
        let key = match self.find_item(sender, id)? {
            Found::Live(key) => key,
            Found::Archived(_) => return Err(Refusal::LeaseLost { holder: None }),
        };
        let standing = &self.item(key).standing;
        // This holds for every token, as in `check_write`.
        if standing.is_held_by_other(sender.caller) || token < standing.newest_token {
            return Err(self.lease_lost(sender, key));
        }
        match &standing.lease {
            Some(lease) if lease.holder.is(sender.caller) && lease.token == token => Ok(key),
            Some(_) => Err(Refusal::NotHolder),
            None => Err(self.lease_lost(sender, key)),
        }
    }

    pub(super) fn renew(&mut self, sender: Sender<'_>, renew: &Renew) -> Result<Outcome, Refusal> {
        let key = self.find_held(sender, &renew.item, renew.token)?;
        self.renew_lease(sender, key, renew.lease_for);
        let item = self.item(key);
        let lease = item.standing.lease.as_ref().expect("just renewed");
        let expires_at = item.standing.due_at();
        let expires_in = self.now().until(expires_at);
        Ok(Outcome::Renewed(Renewal {
            item: item.id.clone(),
            token: lease.token,
            expires_at,
            expires_in,
            renew_after: Span(expires_in.0 / 3),
            line_length: item.line_len(),
            cancel_requested: item.standing.cancel.is_some(),
            drain: self.is_draining_worker(item.space, || lease.holder.clone()),
        }))
    }

    fn renew_lease(&mut self, sender: Sender<'_>, key: ItemKey, asked: Option<Span>) {
        let lease = self.item(key).standing.lease.as_ref().expect("a held item");
        let (length, _) = self.policy(key).lease_length(Some(asked.unwrap_or(lease.lease_for)));
        self.confirm(sender, key);
        self.prolong(key, length);
        self.show_cancel(key);
    }

    /// Renews every lease of the caller's session and counts as its worker's heartbeat. It cannot be refused if the
    /// caller has the role `worker` anywhere in the space.
    pub(super) fn renew_all(&mut self, sender: Sender<'_>, all: &RenewAll) -> Outcome {
        let mut answer = RenewalOfAll {
            renewed: 0,
            lost: Vec::new(),
            cancel_requested: Vec::new(),
            expires_in: None,
            renew_after: None,
            drain: false,
        };
        let Some(space) = sender.space else {
            answer.lost = all.expected.iter().map(|(id, _)| id.clone()).collect();
            return Outcome::RenewedAll(answer);
        };
        let mut renewed = Vec::new();
        for (token, key) in self.leases_of_session(space, sender) {
            // Picking up a grant from a line may release another lease of the same session.
            if self.has_lease(key, token) && sender.caller.has_role(Role::Worker, &self.state.queue_of(key).queue.name)
            {
                self.renew_lease(sender, key, all.lease_for);
                renewed.push((token, key));
            }
        }
        for (_, key) in renewed.into_iter().filter(|(token, key)| self.has_lease(*key, *token)) {
            let item = self.item(key);
            let expires_in = self.now().until(item.standing.due_at());
            answer.renewed += 1;
            answer.expires_in = Some(answer.expires_in.map_or(expires_in, |first| first.min(expires_in)));
            if item.standing.cancel.is_some() {
                answer.cancel_requested.push(item.id.clone());
            }
        }
        answer.renew_after = answer.expires_in.map(|span| Span(span.0 / 3));
        for (id, token) in &all.expected {
            let key = self.state.items.find(space, id);
            let lease = key.and_then(|key| self.item(key).standing.lease.as_ref());
            if !lease.is_some_and(|lease| lease.token == *token && lease.holder.is(sender.caller)) {
                answer.lost.push(id.clone());
            }
        }
        answer.drain = self.hear_worker(space, &sender.caller.holder());
        Outcome::RenewedAll(answer)
    }

    /// The leases of the caller's session.
    fn leases_of_session(&self, space: SpaceNo, sender: Sender<'_>) -> Vec<(Token, ItemKey)> {
        let holdings = self.state.holdings.get(space, &sender.caller.actor);
        holdings.iter().flat_map(|holdings| holdings.of_session(&sender.caller.session)).collect()
    }

    fn has_lease(&self, key: ItemKey, token: Token) -> bool {
        self.state.items.is_live(key)
            && self.item(key).standing.lease.as_ref().is_some_and(|lease| lease.token == token)
    }

    pub(super) fn extend(&mut self, sender: Sender<'_>, extend: &Extend) -> Result<Outcome, Refusal> {
        let key = self.find_held(sender, &extend.item, extend.token)?;
        let max = self.policy(key).lease_max;
        self.confirm(sender, key);
        let before = self.item(key).standing.lease.as_ref().map(|lease| lease.expires_at);
        self.prolong(key, extend.by.min(max));
        self.show_cancel(key);
        let lease = self.item(key).standing.lease.as_ref().expect("a held item");
        let (holder, token, expires_at) = (lease.holder.clone(), lease.token, lease.expires_at);
        if Some(expires_at) != before {
            self.emit_of(key, What::Extended { holder, token, expires_at });
        }
        let ends_at = self.item(key).standing.due_at();
        Ok(Outcome::Extended {
            item: extend.item.clone(),
            token,
            expires_at: ends_at,
            expires_in: self.now().until(ends_at),
            capped_to: (extend.by > max).then_some(max),
            cancel_requested: self.item(key).standing.cancel.is_some(),
        })
    }

    /// Idempotent: succeeds also if the caller holds nothing, and then removes a left-over assignment of the caller.
    pub(super) fn release(&mut self, sender: Sender<'_>, release: &Release) -> Result<Outcome, Refusal> {
        let released = |released, unassigned, state| {
            Ok(Outcome::Released { item: release.item.clone(), released, unassigned, state })
        };
        let key = match self.find_item(sender, &release.item)? {
            Found::Live(key) => key,
            Found::Archived(archived) => return released(false, false, Some(archived.standing.state.kind())),
        };
        let standing = &self.item(key).standing;
        let is_others = standing.is_held_by_other(sender.caller);
        if release.token.is_some_and(|token| is_others || token < standing.newest_token) {
            return released(false, false, Some(standing.state.kind()));
        }
        let was_assigned = standing.is_assigned_to(&sender.caller.actor);
        match &standing.lease {
            Some(lease) if lease.holder.is(sender.caller) && release.token.is_none_or(|token| token == lease.token) => {
                self.release_lease(key, release.keep_assignment);
                let state = if self.state.items.is_live(key) {
                    Some(self.item(key).standing.state.kind())
                } else {
                    self.state_now(sender, &release.item)
                };
                released(true, was_assigned && !release.keep_assignment, state)
            }
            Some(_) => Err(Refusal::NotHolder),
            None => {
                let unassigned = was_assigned && !release.keep_assignment;
                if unassigned {
                    self.drop_assignment(key);
                }
                released(false, unassigned, Some(self.item(key).standing.state.kind()))
            }
        }
    }

    /// Turns a live lease into a reservation for its assignee.
    pub(super) fn reserve(&mut self, sender: Sender<'_>, reserve: &Reserve) -> Result<Outcome, Refusal> {
        let key = self.find_held(sender, &reserve.item, reserve.token)?;
        let max = self.policy(key).reservation_max;
        let span = reserve.span.unwrap_or(max).min(max);
        let until = self.now().after(span);
        self.confirm(sender, key);
        let lease = self.end_lease(key);
        let actor = lease.holder.actor.clone();
        let is_cancelled = self.item(key).standing.cancel.is_some();
        let (holder, token) = (lease.holder, lease.token);
        let what =
            if is_cancelled { What::Released { holder, token } } else { What::Reserved { holder, token, until } };
        self.emit_of(key, what);
        self.free(key, ItemState::Reserved(Box::new(Reservation { until, actor })));
        let state = self.state_now(sender, &reserve.item).expect("it existed just now");
        Ok(Outcome::Reserved { item: reserve.item.clone(), until, span, state })
    }

    /// The state of an item, also if this step has moved it to the archive.
    pub(super) fn state_now(&self, sender: Sender<'_>, id: &ItemId) -> Option<crate::standing::StateKind> {
        match self.find(sender.space?, id)? {
            Found::Live(key) => Some(self.item(key).standing.state.kind()),
            Found::Archived(archived) => Some(archived.standing.state.kind()),
        }
    }
}
