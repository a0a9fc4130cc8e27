//! One request, one effect, one answer: identity, activation and request memory are checked before every command.

use super::{Sender, Step};
use crate::bounds::{BYTES_PER_WEIGHT, REQUESTS_MAX, RETRY_HINT, STEPS_PER_ENTRY};
use crate::caller::Verified;
use crate::command::{Attempt, Command, Request};
use crate::disclose;
use crate::encoding::{decode, encode_into};
use crate::event::Who;
use crate::names::ItemId;
use crate::numbers::{SpaceNo, Span, Time, Token};
use crate::outcome::{Grant, ItemSnapshot, Outcome};
use crate::policy::IdentityPolicy;
use crate::record::Key;
use crate::refusal::{Code, Refusal};
use crate::remembered::{Bytes, Remembered, RememberedAnswer, RequestKey};
use crate::state::State;
use crate::state::item_key::ItemKey;
use crate::state::request_memory::RequestMemory;
use sabotage::{Broken, is_broken};
use std::sync::Arc;

impl Step<'_> {
    pub(super) fn answer(&mut self, request: &Request) -> Outcome {
        if let Err(refusal) = super::validate(request) {
            return Outcome::Refused(refusal);
        }
        let Recalled { key, body, answer } = match self.state.recall(request, &mut self.scratch) {
            Ok(recalled) => recalled,
            Err(refusal) => return Outcome::Refused(refusal),
        };
        let space = self.state.space_numbers.get(&request.space).copied();
        let is_poll = match answer {
            Some(RememberedAnswer::Given(bytes)) => {
                let outcome = decode(&bytes.0).expect("an outcome this machine remembered");
                return self.replay(space, outcome);
            }
            Some(RememberedAnswer::Waiting) => true,
            None => false,
        };

        let sender = Sender { caller: &request.caller, space_name: &request.space, space, request: Some(key), is_poll };
        self.by = Some(Who::from(&request.caller));
        let mut outcome = Outcome::from(self.run(sender, &request.command));
        self.by = None;
        if !request.command.is_renewal() {
            self.remember(key, body, request.command.weight(), &mut outcome);
        }
        outcome
    }

    pub(super) fn fingerprint(&mut self, value: &impl serde::Serialize) -> u64 {
        self.state.fingerprint(value, &mut self.scratch)
    }

    fn remember(&mut self, key: RequestKey, body: u64, weight: u64, outcome: &mut Outcome) {
        let answer = match outcome {
            Outcome::Waiting { .. } => RememberedAnswer::Waiting,
            Outcome::Empty { .. } => return,
            Outcome::Refused(refusal)
                if matches!(
                    refusal.code(),
                    // The command did not run, so the same request may succeed later.
                    Code::Invalid | Code::RejectedByPolicy | Code::NotActivated
                ) =>
            {
                return;
            }
            _ => self.given(outcome),
        };
        self.write_memory(key, body, weight, answer);
    }

    /// The remembered form of an outcome, without the items in it.
    fn given(&mut self, outcome: &mut Outcome) -> RememberedAnswer {
        outcome.for_each_grant(|grant| self.snapshots.push(grant.snapshot.take()));
        self.scratch.clear();
        encode_into(&mut self.scratch, outcome);
        let mut snapshots = self.snapshots.drain(..);
        outcome.for_each_grant(|grant| grant.snapshot = snapshots.next().flatten());
        drop(snapshots);
        RememberedAnswer::Given(Bytes(self.scratch.as_slice().into()))
    }

    fn write_memory(&mut self, key: RequestKey, body: u64, weight: u64, answer: RememberedAnswer) {
        self.state.meta.last_request = RequestMemory::number_after(self.state.meta.last_request);
        let weight = weight.max(answer.size() / BYTES_PER_WEIGHT);
        let remembered = Remembered { seq: self.state.meta.last_request, at: self.now(), body, weight, answer };
        self.changes.put(&Key::Request(key), &remembered);
        self.state.requests.insert(key, remembered);
        while self.state.requests.weight() > REQUESTS_MAX {
            self.forget_one(Time::NEVER);
        }
    }

    /// Stores the answer of a waiting claim's request for its next poll.
    pub(super) fn answer_waiting(&mut self, request: Option<RequestKey>, mut outcome: Outcome) {
        let Some(key) = request else { return };
        let Some(remembered) = self.state.requests.get(key) else { return };
        if remembered.answer == RememberedAnswer::Waiting {
            let (body, weight) = (remembered.body, remembered.weight);
            let answer = self.given(&mut outcome);
            self.write_memory(key, body, weight, answer);
        }
    }

    /// Forgets old requests, a bounded number per entry, which is more than an entry can add.
    pub(super) fn forget_requests(&mut self, commands: usize) {
        for _ in 0..STEPS_PER_ENTRY as usize + 2 * commands {
            if !self.forget_one(self.state.meta.now) {
                break;
            }
        }
    }

    /// `until`: a request to be forgotten by this time may be dropped. [`Time::NEVER`]: drops the oldest whatever its
    /// age.
    fn forget_one(&mut self, until: Time) -> bool {
        let Some((key, forgotten)) = self.state.requests.forget_one(until) else { return false };
        if forgotten.forgotten_at() > self.state.meta.now {
            let cut = &mut self.state.meta.requests_cut_until;
            *cut = (*cut).max(forgotten.forgotten_at());
        }
        self.changes.remove(&Key::Request(key));
        true
    }

    /// The remembered outcome, with the time that its leases have left now.
    fn replay(&self, space: Option<SpaceNo>, mut outcome: Outcome) -> Outcome {
        if let Outcome::Extended { item, token, expires_at, expires_in, .. } = &mut outcome {
            let lease = self.lease_left(space, item, *token);
            *expires_at = lease.map_or(*expires_at, |(_, until)| until);
            *expires_in = lease.map_or(Span(0), |(_, until)| self.now().until(until));
        }
        outcome.for_each_grant(|grant| {
            let lease = self.lease_left(space, &grant.item, grant.token);
            grant.expires_in = lease.map_or(Span(0), |(_, until)| self.now().until(until));
            if let Some((key, until)) = lease {
                grant.expires_at = until;
                grant.snapshot = Some(Box::new(self.snapshot(key)));
            }
        });
        outcome
    }

    /// The item of a lease that is still live, and when the lease ends.
    fn lease_left(&self, space: Option<SpaceNo>, id: &ItemId, token: Token) -> Option<(ItemKey, Time)> {
        let key = self.state.items.find(space?, id)?;
        let lease = self.item(key).standing.lease.as_ref()?;
        (lease.token == token && self.state.meta.voiding.is_none()).then_some((key, self.item(key).standing.due_at()))
    }

    pub(super) fn snapshot(&self, key: ItemKey) -> ItemSnapshot {
        let item = self.item(key);
        ItemSnapshot {
            no: item.no,
            queue: self.state.queue(item.queue).queue.name.clone(),
            state: item.standing.state.kind(),
            revision: item.standing.revision,
            attempts: item.standing.attempts,
            content: Arc::clone(&item.content),
        }
    }

    /// The lease on this item, as shown to its holder.
    pub(super) fn grant_of(&self, key: ItemKey, renewed: bool, cut: bool, released: Option<ItemId>) -> Box<Grant> {
        let item = self.item(key);
        let lease = item.standing.lease.as_ref().expect("a held item");
        let origin = item.standing.past.as_ref().and_then(|past| past.origin.as_ref()).map(|(_, since)| *since);
        Box::new(Grant {
            item: item.id.clone(),
            token: lease.token,
            expires_at: item.standing.due_at(),
            expires_in: self.now().until(item.standing.due_at()),
            lease_for: lease.lease_for,
            cut,
            renewed,
            claimed_at: lease.claimed_at,
            originally_claimed_at: origin.unwrap_or(lease.claimed_at),
            line_length: item.line_len(),
            cancel_requested: item.standing.cancel.is_some(),
            released,
            snapshot: Some(Box::new(self.snapshot(key))),
        })
    }

    /// The refusal `already_claimed`, with as much of the holder as this caller may see.
    pub(super) fn conflict(&self, sender: Sender<'_>, key: ItemKey) -> Refusal {
        let item = self.item(key);
        let now = self.now();
        let delay = item.standing.delay().map(|(_, until)| *until);
        let until = item.standing.lease.as_ref().map(|lease| lease.expires_at).or(delay);
        let retry_after = until.map_or(RETRY_HINT, |until| now.until(until).max(Span(1)));
        let holder = item.standing.lease.as_ref().map(|lease| disclose::full_view(lease));
        let queue = &self.state.queue(item.queue).queue;
        disclose::conflict(retry_after, holder, sender.caller, queue)
    }

    /// The refusal `lease_lost`, with as much of the current holder as this caller may see.
    pub(super) fn lease_lost(&self, sender: Sender<'_>, key: ItemKey) -> Refusal {
        let item = self.item(key);
        let holder = item.standing.lease.as_ref().map(|lease| disclose::full_view(lease));
        let queue = &self.state.queue(item.queue).queue;
        Refusal::LeaseLost { holder: holder.and_then(|view| disclose::holder(view, sender.caller, queue)) }
    }
}

/// What is known of a request before its command runs.
pub(crate) struct Recalled<'s> {
    key: RequestKey,
    /// The command's fingerprint.
    body: u64,
    /// The earlier answer under its id.
    pub(crate) answer: Option<&'s RememberedAnswer>,
}

impl State {
    /// # Errors
    /// The refusals that are checked before the caller's rights. They are not remembered.
    pub(crate) fn recall(&self, request: &Request, scratch: &mut Vec<u8>) -> Result<Recalled<'_>, Refusal> {
        let space = self.space_numbers.get(&request.space).copied();
        let identity = space.map_or(IdentityPolicy::AcceptSelfReported, |no| self.space(no).policy.identity);
        if !identity.accepts(request.caller.verified) {
            return Err(Refusal::RejectedByPolicy);
        }
        let Request { space, caller, request_id, .. } = request;
        let hash = self.hash_of(&(space, &caller.actor, &caller.session, request_id), scratch);
        // The hash of the actor is the same in all spaces, because a space may be created between two attempts.
        let key = RequestKey::new(hash, self.meta.salt.hash_name(SpaceNo(0), caller.actor.as_str()));
        let remembered = self.requests.get(key).filter(|_| !is_broken(Broken::Dedup));
        let is_renewal = request.command.is_renewal();
        let is_asked = remembered.is_some() || !is_renewal;
        let body = if is_asked { self.fingerprint(&request.command, scratch) } else { 0 };
        let answer = match remembered {
            Some(remembered) if remembered.body != body => return Err(Refusal::RequestIdReused),
            Some(remembered) => Some(&remembered.answer),
            None if self.may_have_forgotten(request.attempt) && !is_renewal => return Err(Refusal::RequestForgotten),
            None => None,
        };
        // An answer that was given is final.
        let is_over = matches!(answer, Some(RememberedAnswer::Given(_)));
        if !is_over && !self.meta.activated && !request.command.is_of_cluster() {
            return Err(Refusal::NotActivated);
        }
        if answer.is_none() && !is_renewal && !request.command.is_of_cluster() {
            self.check_memory(key, request.command.weight())?;
        }
        Ok(Recalled { key, body, answer })
    }

    fn check_memory(&self, key: RequestKey, weight: u64) -> Result<(), Refusal> {
        let has_room = self.requests.has_room_for(key, weight);
        if has_room { Ok(()) } else { Err(Refusal::RateLimited { retry_after: RETRY_HINT }) }
    }

    /// Whether an earlier attempt that is not remembered may have had an answer.
    fn may_have_forgotten(&self, attempt: Attempt) -> bool {
        let is_cut = self.meta.now < self.meta.requests_cut_until;
        match attempt {
            Attempt::First => false,
            Attempt::Repeat => is_cut,
            Attempt::LateRepeat => is_cut || !is_broken(Broken::LateRepeat),
        }
    }

    fn fingerprint(&self, value: &impl serde::Serialize, scratch: &mut Vec<u8>) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let half = self.hash_of(value, scratch) as u64;
        half
    }

    /// The hash of a value's encoding, which is unambiguous.
    fn hash_of(&self, value: &impl serde::Serialize, scratch: &mut Vec<u8>) -> u128 {
        scratch.clear();
        encode_into(scratch, value);
        self.meta.salt.hash(scratch)
    }
}

impl IdentityPolicy {
    fn accepts(self, verified: Verified) -> bool {
        match self {
            Self::AcceptSelfReported => true,
            Self::AcceptCached => verified != Verified::SelfReported,
            Self::RequireChecked => verified == Verified::Checked,
        }
    }
}

impl Command {
    /// Commands about the cluster itself, which are also accepted before activation.
    fn is_of_cluster(&self) -> bool {
        matches!(
            self,
            Self::BeginEpoch { .. } | Self::BeginEpochAcceptingClock { .. } | Self::Activate | Self::RaiseRules { .. }
        )
    }
}
