//! Checks a history from the outside: it uses only events, answers and what the state reports about its leases.

use crate::apply::Applied;
use crate::bounds::{PLACE_LIFE, TIME_MAX};
use crate::caller::Holder;
use crate::command::{Command, Entry};
use crate::event::{Event, What};
use crate::names::{ItemId, SpaceName};
use crate::numbers::{EventNumber, QueueNo, Time, Token};
use crate::outcome::Outcome;
use crate::queue::Queue;
use crate::state::State;
use std::collections::BTreeMap;

/// An item and its space.
type ItemPath = (SpaceName, ItemId);

/// Remembers what a history has shown so far and reports when the next step contradicts it.
#[derive(Clone, Debug, Default)]
pub struct Witness {
    now: Time,
    last_token: Token,
    last_event: BTreeMap<SpaceName, EventNumber>,
    items: BTreeMap<ItemPath, ItemHistory>,
    /// When each live lease would expire, as of the last step.
    expiries: BTreeMap<Token, Time>,
    leases_in: BTreeMap<QueueNo, u32>,
    leases_of: BTreeMap<(QueueNo, String), u32>,
    created: u64,
    purged: u64,
}

#[derive(Clone, Debug, Default)]
struct ItemHistory {
    lease: Option<(Token, Holder)>,
    /// The last lease, if it expired and nothing has happened to the item since.
    lapsed: Option<Token>,
    is_terminal: bool,
    line: Vec<Holder>,
    polled: BTreeMap<Holder, Time>,
}

impl Witness {
    /// Checks one step. `state` is the state after it.
    ///
    /// # Errors
    /// The invariant that the step has violated.
    pub fn observe(&mut self, state: &State, entry: &Entry, applied: &Applied) -> Result<(), String> {
        if state.now() != self.now.max(entry.at.min(TIME_MAX)) {
            return Err(format!("time: {} after {} and {}", state.now(), self.now, entry.at));
        }
        self.now = state.now();
        if applied.outcomes.len() != entry.commands.len() {
            return Err("there is one outcome per command".into());
        }
        self.note_polls(entry, applied);
        for event in &applied.events {
            self.event(event).map_err(|why| format!("{why}: {event:?}"))?;
        }
        self.check_leases(state)?;
        self.check_caps(state, &applied.events)?;
        self.check_conservation(state)
    }

    fn note_polls(&mut self, entry: &Entry, applied: &Applied) {
        for (request, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            let mut polled = |item: &ItemId| {
                let seen = self.items.entry((request.space.clone(), item.clone())).or_default();
                seen.polled.insert(request.caller.holder(), self.now);
            };
            match (&request.command, outcome) {
                (Command::Claim(_), Outcome::Waiting { item, .. }) => polled(item),
                // A step may grant a place to which an earlier part of the same step has added the waiter.
                (Command::ClaimMany(_), Outcome::ClaimedMany { claims, .. }) => {
                    for claim in claims {
                        if let Outcome::Waiting { item, .. } = claim {
                            polled(item);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), &'static str> {
        let last = self.last_event.entry(event.space.clone()).or_default();
        if event.number.seq != last.seq + 1 || event.number.epoch < last.epoch {
            return Err("I16: events are numbered without gaps");
        }
        *last = event.number;
        self.created += u64::from(event.what == What::Created);
        self.purged += u64::from(matches!(event.what, What::Purged { .. }));
        let Some(item) = &event.item else { return Ok(()) };
        let now = self.now;
        let seen = self.items.entry((event.space.clone(), item.clone())).or_default();
        if let Some(ended) = event.what.ended_lease() {
            match seen.lease.take() {
                Some((open, _)) if open == ended => {}
                _ => return Err("I18: each grant ends once, and only a live one ends"),
            }
            let is_lapse = matches!(event.what, What::Expired { .. } | What::NotPickedUp { .. });
            if is_lapse && self.expiries.get(&ended).is_some_and(|expires_at| *expires_at > now) {
                return Err("I3: a lease expired too early");
            }
        }
        match &event.what {
            What::Granted { holder, token, from_line, .. } => {
                if seen.lease.is_some() {
                    return Err("I18: leases of an item never overlap");
                }
                if *token <= self.last_token {
                    return Err("I2: tokens rise");
                }
                if seen.is_terminal {
                    return Err("a terminal item is never granted");
                }
                if *from_line {
                    if seen.line.first() != Some(holder) {
                        return Err("I8: the line is granted in order");
                    }
                    if seen.polled.get(holder).is_none_or(|polled| polled.after(PLACE_LIFE) <= now) {
                        return Err("I9: a dead waiter is never granted");
                    }
                }
                self.last_token = *token;
                seen.lease = Some((*token, holder.clone()));
                seen.line.retain(|waiter| waiter != holder);
                seen.lapsed = None;
            }
            What::Joined { holder, place } => {
                if seen.line.contains(holder) {
                    return Err("a holder has one place in a line");
                }
                if seen.line.len() != *place as usize {
                    return Err("a new waiter is last in line");
                }
                seen.line.push(holder.clone());
                seen.polled.insert(holder.clone(), now);
            }
            What::LeftLine { holder, .. } => {
                if !seen.line.contains(holder) {
                    return Err("only a waiter in the line leaves it");
                }
                seen.line.retain(|waiter| waiter != holder);
            }
            What::Reordered { first } => {
                let rank = |waiter: &Holder| first.iter().position(|actor| *actor == waiter.actor);
                seen.line.sort_by_key(|waiter| rank(waiter).unwrap_or(usize::MAX));
            }
            What::Expired { token, .. } => seen.lapsed = Some(*token),
            What::Completed { token, late: true, .. } | What::Failed { token, late: true, .. }
                if seen.lapsed != Some(*token) =>
            {
                return Err("I7: a late end needs an expired lease and nothing since");
            }
            What::AwaitedInput { token }
            | What::Resumed { token }
            | What::PickedUp { token, .. }
            | What::Extended { token, .. }
                if seen.lease.as_ref().map(|(open, _)| open) != Some(token) =>
            {
                return Err("I1: a write carries the token of the live lease");
            }
            What::Released { .. }
            | What::Revoked { .. }
            | What::Assigned { .. }
            | What::Unassigned { .. }
            | What::HandedOn { .. }
            | What::Retried => seen.lapsed = None,
            _ => {}
        }
        let ends = match &event.what {
            What::Completed { .. } | What::Cancelled { .. } => true,
            What::Failed { is_final, .. } => *is_final,
            _ => false,
        };
        let begins = matches!(event.what, What::Created | What::Reopened | What::Retried);
        if ends {
            if seen.is_terminal {
                return Err("I7: a terminal transition happens once");
            }
            seen.is_terminal = true;
            seen.lapsed = None;
        } else if begins {
            seen.is_terminal = false;
        }
        if let What::Purged { .. } = event.what {
            if !seen.is_terminal {
                return Err("only a terminal item is purged");
            }
            *seen = ItemHistory::default();
        }
        Ok(())
    }

    /// Checks that the live leases in the events and in the state are equal, and that expiry only moves later.
    fn check_leases(&mut self, state: &State) -> Result<(), String> {
        let mut live = BTreeMap::new();
        for (_, item) in state.items.iter() {
            let path = (state.space(item.space).name.clone(), item.id.clone());
            let seen = self.items.get(&path);
            let seen_lease = seen.and_then(|seen| seen.lease.as_ref()).map(|(token, holder)| (*token, holder));
            let lease = item.standing.lease.as_deref();
            if lease.map(|lease| (lease.token, &lease.holder)) != seen_lease {
                return Err(format!("I18: {path:?} is held by {lease:?}, but the events say {seen_lease:?}"));
            }
            let line: Vec<_> =
                item.line.iter().flat_map(|line| line.iter()).map(|(_, place)| place.holder.clone()).collect();
            if seen.map_or(&[][..], |seen| &seen.line) != line {
                return Err(format!("I8: the line of {path:?} is {line:?}, but the events say {seen:?}"));
            }
            if let Some(lease) = lease {
                if self.expiries.get(&lease.token).is_some_and(|before| *before > lease.expires_at) {
                    return Err(format!("I12: the expiry of {path:?} moved earlier"));
                }
                live.insert(lease.token, lease.expires_at);
            }
        }
        self.expiries = live;
        Ok(())
    }

    /// Checks that nobody grows above a cap. A policy may set a cap below the current count. In a step that sets a cap
    /// it is unknown whether the leases or the cap came first.
    fn check_caps(&mut self, state: &State, events: &[Event]) -> Result<(), String> {
        let is_set = |queue: &Queue| {
            let name = Some(&queue.name);
            events.iter().any(|event| event.queue.as_ref() == name && matches!(event.what, What::PolicyChanged { .. }))
        };
        for queue in state.queues.iter() {
            let (no, max) = (queue.queue.no, queue.queue.policy.concurrency);
            let before = self.leases_in.insert(no, queue.leases).unwrap_or(0);
            if max > 0 && !is_set(&queue.queue) && queue.leases > max && queue.leases > before {
                return Err(format!("I21: queue {} grew to {} leases over {max}", queue.queue.name, queue.leases));
            }
        }
        let mut leases_of = BTreeMap::new();
        for (_, actor, holdings) in state.holdings.sorted() {
            for (queue, leases) in &holdings.leases_per_queue {
                let whose = (*queue, actor.to_string());
                let before = self.leases_of.get(&whose).copied().unwrap_or(0);
                let queue = &state.queue(*queue).queue;
                let max = queue.policy.max_leases;
                let leases = &leases.taken;
                if max > 0 && !is_set(queue) && *leases > max && *leases > before {
                    return Err(format!("I21: {actor} grew to {leases} leases over {max}"));
                }
                leases_of.insert(whose, *leases);
            }
        }
        self.leases_of = leases_of;
        Ok(())
    }

    fn check_conservation(&self, state: &State) -> Result<(), String> {
        let created: u64 = state.spaces.iter().map(|space| space.counts.created).sum();
        let purged: u64 = state.spaces.iter().map(|space| space.counts.purged).sum();
        let terminal = self.items.values().filter(|seen| seen.is_terminal).count() as u64;
        let live = state.items.len() as u64;
        if (self.created, self.purged) != (created, purged) || created != live + terminal + purged {
            return Err(format!("I19: created {created} = live {live} + terminal {terminal} + purged {purged} fails"));
        }
        Ok(())
    }
}
