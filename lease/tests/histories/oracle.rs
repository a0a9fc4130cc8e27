//! The oracle knows what an outsider knows: the requests, the answers and the events, and nothing of the machine. It
//! believes them and fails when the machine contradicts itself.

use lease::bounds::{CANCEL_GRACE, PLACE_LIFE, REQUEST_MEMORY};
use lease::caller::Holder;
use lease::command::{Attempt, Command, Entry, Request};
use lease::event::{Event, What};
use lease::item::NewItem;
use lease::names::{ActorId, ItemId, QueueName, RequestId, SessionId, SpaceName};
use lease::numbers::{Span, Time, Token};
use lease::outcome::Outcome;
use lease::policy::Setting;
use lease::standing::BlockedBy;
use lease::{Applied, Code, Refusal};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The invariant that is broken, and why.
pub(crate) type Found = Result<(), (&'static str, String)>;

/// An item and its space.
type ItemPath = (SpaceName, ItemId);
type Name = (SpaceName, ActorId, Option<SessionId>, RequestId);

#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    now: Time,
    entries: usize,
    items: BTreeMap<ItemPath, Item>,
    tokens: BTreeMap<Token, Minted>,
    last_token: BTreeMap<SpaceName, Token>,
    last_event: BTreeMap<SpaceName, u64>,
    requests: BTreeMap<Name, Remembered>,
    caps: BTreeMap<(SpaceName, QueueName), Caps>,
    leases: BTreeMap<(SpaceName, QueueName, Option<ActorId>), u32>,
    counts: BTreeMap<SpaceName, Counts>,
    pub(crate) repeats: u64,
    pub(crate) polls: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) created: u64,
    pub(crate) live: u64,
    pub(crate) terminal: u64,
    pub(crate) purged: u64,
}

#[derive(Clone, Debug)]
struct Item {
    queue: QueueName,
    is_terminal: bool,
    lease: Option<(Token, Holder)>,
    /// Its lease came from the line and is not picked up yet.
    is_offer: bool,
    /// The latest time until which an answer promised the item to its holder.
    promise: Option<(Holder, Time)>,
    cancel_shown: Option<Time>,
    lapsed: Option<Token>,
    line: Vec<Waiter>,
    waits_for: Vec<ItemId>,
    waits_in_vain: bool,
}

#[derive(Clone, Debug)]
struct Waiter {
    holder: Holder,
    polled: Time,
}

#[derive(Clone, Debug)]
struct Minted {
    path: ItemPath,
    holder: Holder,
    expires_at: Time,
    /// The step that granted it.
    entry: usize,
    ended: Option<End>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    entry: usize,
    is_lapse: bool,
}

#[derive(Clone, Debug)]
struct Remembered {
    command: Command,
    at: Time,
    /// None while the claim waits: a repeat is a poll.
    answer: Option<Essence>,
    /// Whether the machine remembered it exactly at `at`, and not later.
    is_exact: bool,
}

/// What a repeat must answer again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Essence {
    kind: std::mem::Discriminant<Outcome>,
    codes: Vec<Option<Code>>,
    tokens: Vec<(ItemId, Token)>,
}

/// 0: no cap.
#[derive(Clone, Copy, Debug, Default)]
struct Caps {
    concurrency: u32,
    max_leases: u32,
    line_max: u32,
    lease_max: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Anew,
    Again,
    Polled,
    /// Refused before the request memory was asked.
    Unheard,
}

fn must(holds: bool, which: &'static str, why: impl FnOnce() -> String) -> Found {
    if holds { Ok(()) } else { Err((which, why())) }
}

impl Essence {
    fn of(outcome: &Outcome) -> Self {
        let code = |outcome: &Outcome| outcome.refusal().map(Refusal::code);
        let codes = match outcome {
            Outcome::CreatedMany(outcomes) => outcomes.iter().map(code).collect(),
            Outcome::ClaimedMany { claims, releases } => claims.iter().chain(releases).map(code).collect(),
            _ => vec![code(outcome)],
        };
        let tokens = outcome.grants().into_iter().map(|grant| (grant.item.clone(), grant.token)).collect();
        Self { kind: std::mem::discriminant(outcome), codes, tokens }
    }
}

impl Oracle {
    pub(crate) fn counts(&self, space: &SpaceName) -> Counts {
        self.counts.get(space).copied().unwrap_or_default()
    }

    pub(crate) fn live_items(&self) -> u64 {
        self.counts.values().map(|counts| counts.live).sum()
    }

    pub(crate) fn observe(&mut self, entry: &Entry, applied: &Applied) -> Found {
        self.now = self.now.max(entry.at);
        self.entries += 1;
        must(applied.outcomes.len() == entry.commands.len(), "answers", || "one outcome per command".into())?;
        let mut asked = Vec::with_capacity(entry.commands.len());
        let mut effective: BTreeSet<&ActorId> = BTreeSet::new();
        let mut created = VecDeque::new();
        let mut caps = self.caps.clone();
        for (request, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            let how = self.remember(request, outcome)?;
            if how != Asked::Again && passed_through_a_line(request, outcome, &applied.events) {
                effective.insert(&request.caller.actor);
            }
            if how != Asked::Again && outcome.refusal().is_none() {
                effective.insert(&request.caller.actor);
                self.note_polls(request, outcome);
                note_created(request, outcome, &mut created);
                self.note_policy(request, outcome, &mut caps);
            }
            asked.push(how);
        }
        let widest = caps;
        for event in &applied.events {
            if let Some(by) = &event.by {
                let all_by_policy =
                    applied.outcomes.iter().all(|outcome| code_of(outcome) == Some(Code::RejectedByPolicy));
                let which = if all_by_policy { "I13" } else { "I10" };
                must(effective.contains(&by.actor), which, || {
                    format!("an event by somebody whose every command was refused or a repeat: {event:?}")
                })?;
            }
            self.event(event, &mut created, &widest)?;
        }
        for ((request, outcome), how) in entry.commands.iter().zip(&applied.outcomes).zip(asked) {
            self.answer(request, outcome, how)?;
        }
        self.all_or_none(entry, applied)?;
        self.check_caps(&widest)
    }

    /// I10: classifies a request by what was answered to its id before.
    fn remember(&mut self, request: &Request, outcome: &Outcome) -> Result<Asked, (&'static str, String)> {
        let code = code_of(outcome);
        if matches!(code, Some(Code::Invalid | Code::RejectedByPolicy | Code::NotActivated)) {
            // `invalid` may also come from a verb; such an answer is not remembered either.
            return Ok(Asked::Unheard);
        }
        let name = (
            request.space.clone(),
            request.caller.actor.clone(),
            request.caller.session.clone(),
            request.request_id.clone(),
        );
        let known = self.requests.get(&name).filter(|known| known.at.after(REQUEST_MEMORY) > self.now);
        // A claim that waited was answered some time after its last poll, so it is remembered longer, for an unknown
        // time.
        let is_gone =
            known.is_none() && self.requests.get(&name).is_none_or(|known| known.is_exact && known.answer.is_some());
        let is_renewal = matches!(request.command, Command::Renew(_) | Command::RenewAll(_));
        let is_late = request.attempt == Attempt::LateRepeat && !is_renewal;
        if code == Some(Code::RequestForgotten) {
            must(is_late && known.is_none(), "I10", || format!("forgotten, far below the cap: {request:?}"))?;
            return Ok(Asked::Unheard);
        }
        must(!(is_late && is_gone), "I10", || format!("a repeat of what is forgotten has run: {request:?}"))?;
        let mut how = Asked::Anew;
        let mut at = self.now;
        if let Some(known) = known {
            let is_reused = code == Some(Code::RequestIdReused);
            must((known.command != request.command) == is_reused, "I10", || {
                format!("{:?} again with {:?} was answered {outcome:?}", known.command, request.command)
            })?;
            if is_reused {
                return Ok(Asked::Unheard);
            }
            if let Some(answer) = &known.answer {
                self.repeats += 1;
                let now = Essence::of(outcome);
                must(*answer == now, "I10", || {
                    format!("{:?} was answered {answer:?}, again it was {now:?}", request.command)
                })?;
                return Ok(Asked::Again);
            }
            self.polls += 1;
            how = Asked::Polled;
            if !matches!(outcome, Outcome::Waiting { .. }) {
                // It was answered at some time between the last poll and this one.
                at = known.at;
            }
        } else if !self.requests.contains_key(&name) {
            must(code != Some(Code::RequestIdReused), "I10", || "a new name was taken for a used one".into())?;
        } else if self.requests.get(&name).is_some_and(|known| known.answer.is_none() || !known.is_exact) {
            // Answered some time after its last poll, so it is remembered longer, for an unknown time.
            return Ok(Asked::Anew);
        }
        let is_exact = at == self.now;
        if !is_renewal && !matches!(outcome, Outcome::Empty { .. }) {
            let answer = (!matches!(outcome, Outcome::Waiting { .. })).then(|| Essence::of(outcome));
            self.requests.insert(name, Remembered { command: request.command.clone(), at, answer, is_exact });
        }
        Ok(how)
    }

    /// Waiting once more is a heartbeat; the same step may grant the place in its later part.
    fn note_polls(&mut self, request: &Request, outcome: &Outcome) {
        let waits = match outcome {
            Outcome::ClaimedMany { claims, .. } => claims.as_slice(),
            other => std::slice::from_ref(other),
        };
        for outcome in waits {
            if let Outcome::Waiting { item, .. } = outcome
                && let Some(item) = self.items.get_mut(&(request.space.clone(), item.clone()))
            {
                let holder = request.caller.holder();
                for waiter in item.line.iter_mut().filter(|waiter| waiter.holder == holder) {
                    waiter.polled = self.now;
                }
            }
        }
    }

    fn note_policy(
        &mut self,
        request: &Request,
        outcome: &Outcome,
        widest: &mut BTreeMap<(SpaceName, QueueName), Caps>,
    ) {
        let (Command::SetPolicy(set), Outcome::PolicySet { .. }) = (&request.command, outcome) else { return };
        let name = (request.space.clone(), set.queue.clone());
        let caps = self.caps.entry(name.clone()).or_insert(Caps {
            line_max: 1_000,
            lease_max: Span::secs(24 * 3600),
            ..Caps::default()
        });
        for setting in &set.settings {
            match setting {
                Setting::Concurrency(max) => caps.concurrency = *max,
                Setting::MaxLeases(max) => caps.max_leases = *max,
                Setting::LineMax(max) => caps.line_max = *max,
                Setting::LeaseMax(max) => caps.lease_max = *max,
                _ => {}
            }
        }
        let wider = |a: u32, b: u32| if a == 0 || b == 0 { 0 } else { a.max(b) };
        let before = widest.get(&name).copied().unwrap_or(Caps { line_max: 1_000, ..Caps::default() });
        widest.insert(
            name,
            Caps {
                concurrency: wider(before.concurrency, caps.concurrency),
                max_leases: wider(before.max_leases, caps.max_leases),
                line_max: before.line_max.max(caps.line_max),
                lease_max: before.lease_max.max(caps.lease_max),
            },
        );
    }

    fn event(
        &mut self,
        event: &Event,
        created: &mut VecDeque<(SpaceName, NewItem)>,
        widest: &BTreeMap<(SpaceName, QueueName), Caps>,
    ) -> Found {
        let last = self.last_event.entry(event.space.clone()).or_default();
        must(event.number.seq == *last + 1, "I16", || format!("after {last}: {event:?}"))?;
        *last = event.number.seq;
        must(event.at == self.now, "I16", || format!("not of this step: {event:?}"))?;
        let Some(id) = &event.item else { return Ok(()) };
        let path = (event.space.clone(), id.clone());
        match &event.what {
            What::Created => return self.create(event, path, created),
            What::Purged { .. } => return self.purge(&path),
            _ => {}
        }
        let now = self.now;
        let Some(item) = self.items.get_mut(&path) else {
            return Err(("I19", format!("of an item that does not exist: {event:?}")));
        };
        let counts = self.counts.entry(event.space.clone()).or_default();
        let comes_back =
            event.what == What::Reopened || event.what == What::Retried && std::mem::take(&mut item.is_terminal);
        if comes_back {
            must(event.what != What::Reopened || item.is_terminal, "I19", || format!("not terminal: {event:?}"))?;
            item.is_terminal = false;
            counts.terminal -= 1;
            counts.live += 1;
        }
        // Events that follow from an end come after it.
        let follows = matches!(event.what, What::MirrorSkipped { .. } | What::LeftLine { .. });
        must(!item.is_terminal || follows, "I7", || format!("the item is terminal: {event:?}"))?;
        if let Some(ended) = event.what.ended_lease() {
            must(item.lease.take().is_some_and(|(token, _)| token == ended), "I18", || {
                format!("ended, but is not the item's lease: {event:?}")
            })?;
            let is_lapse = matches!(event.what, What::Expired { .. } | What::NotPickedUp { .. });
            if is_lapse {
                must(item.promise.as_ref().is_none_or(|(_, until)| *until <= now), "I3", || {
                    format!("promised until {:?}, at {now}: {event:?}", item.promise)
                })?;
            } else {
                item.promise = None;
            }
            if matches!(event.what, What::Cancelled { .. }) && event.by.is_none() {
                let shown = item.cancel_shown;
                must(shown.is_some_and(|shown| shown.after(CANCEL_GRACE) <= now), "I3", || {
                    format!("cancelled before its grace was over (shown at {shown:?}): {event:?}")
                })?;
            }
            item.cancel_shown = None;
            let minted = self.tokens.get_mut(&ended).expect("granted before");
            minted.ended = Some(End { entry: self.entries, is_lapse });
        }
        match &event.what {
            What::Granted { holder, token, expires_at, from_line, .. } => {
                let last = self.last_token.entry(event.space.clone()).or_default();
                must(*token > *last, "I2", || format!("after {last}: {event:?}"))?;
                *last = *token;
                must(item.lease.is_none(), "I18", || format!("held by {:?}: {event:?}", item.lease))?;
                if let Some((other, until)) = item.promise.take() {
                    must(other == *holder || until <= now, "I3", || {
                        format!("promised to {other:?} until {until}, at {now}: {event:?}")
                    })?;
                }
                must(item.waits_for.is_empty(), "dependencies", || {
                    format!("still waits for {:?}: {event:?}", item.waits_for)
                })?;
                if *from_line {
                    let head = item.line.first();
                    must(head.is_some_and(|head| head.holder == *holder), "I8", || {
                        format!("the head is {head:?}: {event:?}")
                    })?;
                    must(head.is_some_and(|head| head.polled.after(PLACE_LIFE) > now), "I9", || {
                        format!("a dead waiter {head:?}: {event:?}")
                    })?;
                }
                item.line.retain(|waiter| waiter.holder != *holder);
                item.lapsed = None;
                item.lease = Some((*token, holder.clone()));
                item.is_offer = *from_line;
                let entry = self.entries;
                let minted = Minted { path, holder: holder.clone(), expires_at: *expires_at, entry, ended: None };
                must(self.tokens.insert(*token, minted).is_none(), "I1", || format!("twice: {event:?}"))?;
            }
            What::TakenOver { holder, .. } => {
                let by = event.by.as_ref();
                must(by.is_some_and(|by| by.actor == holder.actor), "I3", || format!("by another actor: {event:?}"))?;
            }
            What::Joined { holder, place } => {
                must(item.line.iter().all(|waiter| waiter.holder != *holder), "I8", || {
                    format!("a second place: {event:?}")
                })?;
                must(item.line.len() == *place as usize, "I8", || format!("behind {:?}: {event:?}", item.line))?;
                let max = widest.get(&(event.space.clone(), item.queue.clone())).map_or(1_000, |caps| caps.line_max);
                must(*place < max, "I21", || format!("a line of at most {max}: {event:?}"))?;
                item.line.push(Waiter { holder: holder.clone(), polled: now });
            }
            What::LeftLine { holder, .. } => {
                let before = item.line.len();
                item.line.retain(|waiter| waiter.holder != *holder);
                must(item.line.len() + 1 == before, "I8", || format!("was not in line: {event:?}"))?;
            }
            What::Reordered { first } => {
                let rank = |waiter: &Waiter| first.iter().position(|actor| *actor == waiter.holder.actor);
                item.line.sort_by_key(|waiter| rank(waiter).unwrap_or(usize::MAX));
            }
            What::Queued => must(item.waits_for.is_empty(), "dependencies", || {
                format!("still waits for {:?}: {event:?}", item.waits_for)
            })?,
            What::Blocked { by: BlockedBy::Dependency } => {
                must(item.waits_in_vain, "dependencies", || format!("none of them failed: {event:?}"))?;
                item.waits_for.clear();
            }
            What::Expired { token, .. } => item.lapsed = Some(*token),
            What::Completed { token, late: true, .. } | What::Failed { token, late: true, .. } => {
                must(item.lapsed == Some(*token), "I7", || format!("late, but something happened since: {event:?}"))?;
            }
            What::Revoked { .. }
            | What::Assigned { .. }
            | What::Unassigned { .. }
            | What::HandedOn { .. }
            | What::Reopened
            | What::Retried => {
                item.lapsed = None;
                if event.what == What::Retried {
                    item.waits_for.clear();
                }
            }
            What::AwaitedInput { token }
            | What::Resumed { token }
            | What::PickedUp { token, .. }
            | What::Extended { token, .. } => {
                must(item.lease.as_ref().is_some_and(|(open, _)| open == token), "I1", || {
                    format!("not with the live lease's token: {event:?}")
                })?;
                item.is_offer &= !matches!(event.what, What::PickedUp { .. });
            }
            _ => {}
        }
        let completed = matches!(event.what, What::Completed { .. });
        let failed = matches!(event.what, What::Cancelled { .. } | What::Failed { is_final: true, .. });
        if completed || failed {
            let item = self.items.get_mut(&(event.space.clone(), id.clone())).expect("just there");
            must(item.lease.is_none(), "I7", || format!("terminal with a lease: {event:?} {item:?}"))?;
            item.is_terminal = true;
            item.lapsed = None;
            item.waits_for.clear();
            counts.live -= 1;
            counts.terminal += 1;
            self.tell_dependents(event, id, completed);
        }
        Ok(())
    }

    fn tell_dependents(&mut self, event: &Event, id: &ItemId, completed: bool) {
        for ((space, _), other) in &mut self.items {
            if *space == event.space && other.waits_for.contains(id) {
                other.waits_for.retain(|dependency| dependency != id);
                other.waits_in_vain |= !completed;
            }
        }
    }

    fn create(&mut self, event: &Event, path: ItemPath, created: &mut VecDeque<(SpaceName, NewItem)>) -> Found {
        let new = created.pop_front();
        let new = new.filter(|(space, new)| *space == path.0 && new.id == path.1);
        let Some((_, new)) = new else { return Err(("I19", format!("nobody was told so: {event:?}"))) };
        must(!self.items.contains_key(&path), "I19", || format!("exists already: {event:?}"))?;
        let mut item = Item {
            is_offer: false,
            queue: new.queue,
            is_terminal: false,
            lease: None,
            promise: None,
            cancel_shown: None,
            lapsed: None,
            line: Vec::new(),
            waits_for: Vec::new(),
            waits_in_vain: false,
        };
        for dependency in new.depends_on {
            match self.items.get(&(path.0.clone(), dependency.clone())) {
                None => return Err(("dependencies", format!("on {dependency}, which does not exist: {event:?}"))),
                // Its own events say whether it completed or failed.
                Some(other) if other.is_terminal => item.waits_in_vain = true,
                Some(_) => item.waits_for.push(dependency),
            }
        }
        let counts = self.counts.entry(path.0.clone()).or_default();
        counts.created += 1;
        counts.live += 1;
        self.items.insert(path, item);
        Ok(())
    }

    fn purge(&mut self, path: &ItemPath) -> Found {
        let item = self.items.remove(path);
        must(item.is_some_and(|item| item.is_terminal), "I19", || format!("purged, but not terminal: {path:?}"))?;
        let counts = self.counts.entry(path.0.clone()).or_default();
        counts.terminal -= 1;
        counts.purged += 1;
        Ok(())
    }

    /// I3, I6, I12, I14: what the answers promise.
    fn answer(&mut self, request: &Request, outcome: &Outcome, how: Asked) -> Found {
        let is_next = matches!(request.command, Command::Next(_));
        let which = if is_next { "I6" } else { "I1" };
        for grant in outcome.grants() {
            self.promise(request, &grant.item, grant.token, grant.expires_at, grant.expires_in, which)?;
            if how != Asked::Again && grant.cancel_requested {
                self.show_cancel(request, &grant.item, grant.token);
            }
        }
        match outcome {
            Outcome::Dispatched(grants) => {
                let items: BTreeSet<_> = grants.iter().map(|grant| &grant.item).collect();
                must(items.len() == grants.len(), "I6", || format!("one item twice: {outcome:?}"))?;
            }
            Outcome::Renewed(renewal) => {
                let (item, token) = (&renewal.item, renewal.token);
                self.promise(request, item, token, renewal.expires_at, renewal.expires_in, "I14")?;
                if renewal.cancel_requested {
                    self.show_cancel(request, item, token);
                }
            }
            Outcome::RenewedAll(all) => {
                for item in &all.cancel_requested {
                    let path = (request.space.clone(), item.clone());
                    let lease = self.items.get(&path).and_then(|item| item.lease.clone());
                    if let Some((token, _)) = lease {
                        self.show_cancel(request, item, token);
                    }
                }
                if let Some(expires_in) = all.expires_in {
                    self.promise_all(request, expires_in);
                }
            }
            Outcome::Extended { item, token, expires_at, expires_in, capped_to, cancel_requested } => {
                if how != Asked::Again && *cancel_requested {
                    self.show_cancel(request, item, *token);
                }
                let before = self.tokens.get(token).map(|minted| minted.expires_at);
                // A cancel that is shown ends the lease sooner than any extension says.
                let is_excepted = how == Asked::Again || *cancel_requested;
                must(is_excepted || before.is_none_or(|before| *expires_at >= before), "I12", || {
                    format!("{outcome:?} ends before {before:?}")
                })?;
                self.promise(request, item, *token, *expires_at, *expires_in, "I14")?;
                let Command::Extend(extend) = &request.command else { return Ok(()) };
                must(is_excepted || capped_to.is_some() || *expires_in >= extend.by, "I12", || {
                    format!("a cut that no answer names: {extend:?} {outcome:?}")
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn promise(
        &mut self,
        request: &Request,
        item: &ItemId,
        token: Token,
        expires_at: Time,
        expires_in: Span,
        which: &'static str,
    ) -> Found {
        let path = (request.space.clone(), item.clone());
        let holder = request.caller.holder();
        let minted = self.tokens.get_mut(&token).filter(|minted| minted.path == path && minted.holder == holder);
        let Some(minted) = minted else {
            return Err((which, format!("{holder:?} gets token {token} of {path:?}, which it was never granted")));
        };
        if expires_in == Span(0) {
            return must(minted.ended.is_some(), "I3", || {
                format!("{token} of {path:?} is answered as lost, but is not")
            });
        }
        if let Some(end) = minted.ended {
            // Commands of this step may have ended it after the answer; a lapse comes before all of them.
            must(end.entry == self.entries && !end.is_lapse, "I14", || {
                format!("{token} of {path:?} has ended, and is answered {expires_in} more")
            })?;
            return Ok(());
        }
        must(expires_at == self.now.after(expires_in), "I3", || {
            format!("{token} of {path:?} ends at {expires_at}, in {expires_in} from {}", self.now)
        })?;
        minted.expires_at = minted.expires_at.max(expires_at);
        self.keep_promise(path, holder, expires_at);
        Ok(())
    }

    fn keep_promise(&mut self, path: ItemPath, holder: Holder, until: Time) {
        if let Some(item) = self.items.get_mut(&path) {
            let earlier = item.promise.take().filter(|(other, _)| *other == holder).map_or(Time(0), |(_, until)| until);
            item.promise = Some((holder, until.max(earlier)));
        }
    }

    fn promise_all(&mut self, request: &Request, expires_in: Span) {
        let holder = request.caller.holder();
        let until = self.now.after(expires_in);
        let mut held = Vec::new();
        for (path, item) in &self.items {
            let Some((token, of)) = &item.lease else { continue };
            // A lease that this step granted may be later than the answer.
            if path.0 == request.space && *of == holder && self.tokens[token].entry < self.entries {
                held.push(path.clone());
            }
        }
        for path in held {
            self.keep_promise(path, holder.clone(), until);
        }
    }

    fn show_cancel(&mut self, request: &Request, item: &ItemId, token: Token) {
        let now = self.now;
        if let Some(item) = self.items.get_mut(&(request.space.clone(), item.clone()))
            && item.lease.as_ref().is_some_and(|(open, _)| *open == token)
        {
            item.cancel_shown.get_or_insert(now);
        }
    }

    /// All or none: when a batch alone in its step was granted, all of it is held after it; else nothing happened.
    fn all_or_none(&self, entry: &Entry, applied: &Applied) -> Found {
        let [request] = entry.commands.as_slice() else { return Ok(()) };
        let Command::ClaimMany(many) = &request.command else { return Ok(()) };
        let Some(Outcome::ClaimedMany { claims, releases }) = applied.outcomes.first() else { return Ok(()) };
        if !many.all_or_none || applied.events.is_empty() {
            return Ok(());
        }
        let refused = claims.iter().filter(|outcome| outcome.refusal().is_some()).count();
        must(refused == 0 || refused == claims.len(), "all_or_none", || format!("{claims:?}"))?;
        if refused > 0 {
            return must(releases.iter().all(|outcome| outcome.refusal().is_some()), "all_or_none", || {
                format!("released, although no claim was granted: {releases:?}")
            });
        }
        // A repeat answers what happened in the past.
        let is_fresh = applied.events.iter().any(|event| event.by.is_some());
        for grant in claims.iter().filter_map(Outcome::grant).filter(|_| is_fresh) {
            let path = (request.space.clone(), grant.item.clone());
            let lease = self.items.get(&path).and_then(|item| item.lease.as_ref());
            must(lease.is_some_and(|(token, _)| *token == grant.token), "all_or_none", || {
                format!("answered token {} of {}, but {lease:?} holds it: {:?}", grant.token, grant.item, many)
            })?;
        }
        Ok(())
    }

    /// I21: no actor grows over the widest cap that applied during the step.
    fn check_caps(&mut self, widest: &BTreeMap<(SpaceName, QueueName), Caps>) -> Found {
        let mut leases = BTreeMap::new();
        for ((space, _), item) in &self.items {
            if let Some((_, holder)) = &item.lease {
                *leases.entry((space.clone(), item.queue.clone(), None)).or_insert(0) += 1;
                // A grant from a line counts when it is picked up.
                let taken = u32::from(!item.is_offer);
                *leases.entry((space.clone(), item.queue.clone(), Some(holder.actor.clone()))).or_insert(0) += taken;
            }
        }
        for (whose, count) in &leases {
            let caps = widest.get(&(whose.0.clone(), whose.1.clone())).copied().unwrap_or_default();
            let cap = if whose.2.is_some() { caps.max_leases } else { caps.concurrency };
            let before = self.leases.get(whose).copied().unwrap_or(0);
            must(cap == 0 || *count <= cap.max(before), "I21", || {
                format!("{whose:?} grew from {before} to {count} leases over {cap}")
            })?;
        }
        self.leases = leases;
        Ok(())
    }
}

fn code_of(outcome: &Outcome) -> Option<Code> {
    outcome.refusal().map(Refusal::code)
}

/// Whether a refused claim joined a line and left it in the same step: the waiters before it left, and then it could
/// not be granted either.
fn passed_through_a_line(request: &Request, outcome: &Outcome, events: &[Event]) -> bool {
    let holder = request.caller.holder();
    let has = |is_it: &dyn Fn(&What) -> bool| events.iter().any(|event| is_it(&event.what));
    outcome.refusal().is_some()
        && has(&|what| matches!(what, What::Joined { holder: who, .. } if *who == holder))
        && has(&|what| matches!(what, What::LeftLine { holder: who, .. } if *who == holder))
}

fn note_created(request: &Request, outcome: &Outcome, created: &mut VecDeque<(SpaceName, NewItem)>) {
    let mut note = |new: &NewItem, outcome: &Outcome| {
        if matches!(outcome, Outcome::Created { created: true, .. }) {
            created.push_back((request.space.clone(), new.clone()));
        }
    };
    match (&request.command, outcome) {
        (Command::Create(new), outcome) => note(new, outcome),
        (Command::CreateMany(items), Outcome::CreatedMany(outcomes)) => {
            items.iter().zip(outcomes).for_each(|(new, outcome)| note(new, outcome));
        }
        _ => {}
    }
}
