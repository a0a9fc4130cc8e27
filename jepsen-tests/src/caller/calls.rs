//! Every call of a caller, and the part of its answer that is recorded.

use super::{Caller, Held, No, granted, item_id, queue_name};
use crate::history::{Answered, Asked, Micros, Outcome, SeenItem};
use api::claim::{Claim, ClaimOf, Claimed, Claims, Dispatched, Next, OnConflict};
use api::hold::{Expected, Extend, Release, Renew, RenewAll, Reserve, Revoke};
use api::item::{Item, NewItem};
use api::names::Number;
use api::words::RunsIn;
use api::worker::Register;
use api::write::{BodyChange, Cancel, Complete, Fail, HandOn, Update};
use client::Token;
use client::names::{ActorId, Label, Phase};
use std::time::Duration;

/// The place of a waiting claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Granted(Held),
    Place(u32),
}

impl Caller {
    /// Returns true if the item is new.
    pub async fn create(&mut self, item: &str, queue: &str) -> Result<bool, No> {
        self.create_with(new_item(item, queue)).await
    }

    /// Like `create`, with further properties of the item.
    pub async fn create_with(&mut self, new: NewItem) -> Result<bool, No> {
        self.world.made_item(new.id.as_str());
        let asked = Asked::Create {
            item: new.id.to_string(),
            queue: new.queue.to_string(),
            depends_on: new.depends_on.iter().map(ToString::to_string).collect(),
            needs: new.needs.iter().map(ToString::to_string).collect(),
        };
        let read = |answer: client::Reply<api::item::Created>, answered: &mut Answered| {
            answered.did = Some(answer.value.created);
            answered.revision = Some(answer.value.revision.to_string());
            answer.value.created
        };
        self.ask(asked, |client| client.create(&new), read).await
    }

    /// Claims without waiting.
    pub async fn claim(&mut self, item: &str, lease_for_ms: Option<u64>) -> Result<Held, No> {
        let claim = Claim { lease_for_ms, ..Claim::default() };
        match self.request_claim(item, &claim).await? {
            Standing::Granted(held) => Ok(held),
            Standing::Place(_) => Err(No::Strange),
        }
    }

    /// Ends the lease of the same actor's other session, if there is one.
    pub async fn take_over(&mut self, item: &str) -> Result<Held, No> {
        match self.request_claim(item, &Claim { takeover: true, ..Claim::default() }).await? {
            Standing::Granted(held) => Ok(held),
            Standing::Place(_) => Err(No::Strange),
        }
    }

    /// Claims these items in one call. Each entry is recorded as an operation, all with the same batch number.
    pub async fn claim_many(&mut self, items: &[String], all_or_none: bool) -> Result<Vec<Held>, No> {
        let claim = |item: &String| ClaimOf {
            item: item_id(item),
            lease_for_ms: None,
            action: None,
            field: None,
            on_conflict: OnConflict::Fail,
            wait_for_ms: None,
            line_max: None,
            takeover: false,
            mirrors: None,
        };
        let claims = Claims { claims: items.iter().map(claim).collect(), releases: Vec::new(), all_or_none };
        let asked =
            |item: &String| Asked::Claim { item: item.clone(), lease_for_ms: None, waits: false, takeover: false };
        let read = |value: &api::claim::ClaimsAnswered, sent: Micros| {
            let one = |claimed: &Claimed| {
                let mut answered = Answered { sent, ..Answered::default() };
                match claimed {
                    Claimed::Granted(grant) => {
                        let held = granted(grant, &mut answered);
                        (Outcome::Ok(answered), Some(held))
                    }
                    Claimed::Waiting(_) => (Outcome::Ok(answered), None),
                    Claimed::Refused { problem } => (Outcome::Refused { code: problem.code.name().to_owned() }, None),
                }
            };
            value.claims.iter().map(one).collect()
        };
        let asked = items.iter().map(asked).collect();
        let granted = self.ask_many(asked, all_or_none, |client| client.claim_many(&claims), read).await?;
        Ok(granted.into_iter().flatten().collect())
    }

    /// Joins the line, or keeps the place in it, and waits for this time. The same [`Caller::under`] keeps the place.
    pub async fn stand(&mut self, item: &str, lease_for_ms: Option<u64>, poll_ms: u64) -> Result<Standing, No> {
        let claim = Claim { lease_for_ms, on_conflict: OnConflict::Wait, poll_ms: Some(poll_ms), ..Claim::default() };
        self.request_claim(item, &claim).await
    }

    async fn request_claim(&mut self, item: &str, claim: &Claim) -> Result<Standing, No> {
        let waits = claim.on_conflict == OnConflict::Wait;
        let (item_said, takeover) = (item.to_owned(), claim.takeover);
        let asked = Asked::Claim { item: item_said, lease_for_ms: claim.lease_for_ms, waits, takeover };
        let id = item_id(item);
        let read = |answer: client::Reply<Claimed>, answered: &mut Answered| match &answer.value {
            Claimed::Granted(grant) => Some(Standing::Granted(granted(grant, answered))),
            Claimed::Waiting(waiting) => {
                answered.place = Some(waiting.place);
                Some(Standing::Place(waiting.place))
            }
            Claimed::Refused { .. } => None,
        };
        self.ask(asked, |client| client.request_claim(&id, claim), read).await?.ok_or(No::Strange)
    }

    pub async fn next(&mut self, queue: &str, count: u32, lease_for_ms: Option<u64>) -> Result<Vec<Held>, No> {
        self.next_with(queue, Next { count: Some(count), lease_for_ms, ..Next::default() }, None).await
    }

    /// Like `next`, with further options. `capabilities`: those that its worker was registered with.
    pub async fn next_with(
        &mut self,
        queue: &str,
        next: Next,
        capabilities: Option<Vec<String>>,
    ) -> Result<Vec<Held>, No> {
        let asked = Asked::Next {
            queue: queue.to_owned(),
            count: next.count.unwrap_or(1),
            lease_for_ms: next.lease_for_ms,
            wait_ms: next.wait_ms,
            capabilities,
        };
        let name = queue_name(queue);
        let read = |answer: client::Reply<Dispatched>, answered: &mut Answered| match &answer.value {
            Dispatched::Granted { grants } => grants.iter().map(|grant| granted(grant, answered)).collect(),
            Dispatched::Empty { .. } => Vec::new(),
        };
        self.ask(asked, |client| client.next(&name, &next), read).await
    }

    /// Moves the end of a lease.
    pub async fn renew(&mut self, held: &mut Held) -> Result<(), No> {
        let asked = Asked::Renew { item: held.item.clone(), token: held.token };
        let (id, renew) = (item_id(&held.item), Renew { token: Token(held.token), lease_for_ms: None });
        let read = |answer: client::Reply<api::hold::Renewed>, answered: &mut Answered| {
            answered.expires_in_ms = Some(answer.value.expires_in_ms);
            (answered.sent, answer.value.expires_in_ms)
        };
        let (sent, lasts_ms) = self.ask(asked, |client| client.renew(&id, &renew), read).await?;
        held.renewed(sent, lasts_ms);
        Ok(())
    }

    /// The heartbeat of a session; returns the lost leases.
    pub async fn renew_all(&mut self, expected: &[Held]) -> Result<Vec<String>, No> {
        let expect = |held: &Held| Expected { item: item_id(&held.item), token: Token(held.token) };
        let all = RenewAll { lease_for_ms: None, expected: expected.iter().map(expect).collect() };
        let read = |answer: client::Reply<api::hold::RenewedAll>, answered: &mut Answered| {
            answered.expires_in_ms = answer.value.expires_in_ms;
            answered.lost = answer.value.lost.iter().map(ToString::to_string).collect();
            answered.lost.clone()
        };
        self.ask(Asked::RenewAll, |client| client.renew_all(&all), read).await
    }

    pub async fn extend(&mut self, held: &mut Held, by_ms: u64) -> Result<(), No> {
        let asked = Asked::Extend { item: held.item.clone(), token: held.token, by_ms };
        let (id, extend) = (item_id(&held.item), Extend { token: Token(held.token), for_ms: by_ms });
        let read = |answer: client::Reply<api::hold::Extended>, answered: &mut Answered| {
            answered.expires_in_ms = Some(answer.value.expires_in_ms);
            answered.did = Some(answer.value.capped);
            (answered.sent, answer.value.expires_in_ms)
        };
        let (sent, lasts_ms) = self.ask(asked, |client| client.extend(&id, &extend), read).await?;
        held.renewed(sent, lasts_ms);
        Ok(())
    }

    /// Returns false if there was nothing to release.
    pub async fn release(&mut self, item: &str, token: u64) -> Result<bool, No> {
        let asked = Asked::Release { item: item.to_owned(), token };
        let (id, release) = (item_id(item), Release { token: Some(Token(token)), keep_assignment: false });
        let read = |answer: client::Reply<api::hold::Released>, answered: &mut Answered| {
            answered.did = Some(answer.value.released);
            answer.value.released
        };
        self.ask(asked, |client| client.release(&id, &release), read).await
    }

    /// Reserves the item for its actor when the lease ends. Returns the duration in milliseconds.
    pub async fn reserve(&mut self, item: &str, token: u64, for_ms: u64) -> Result<u64, No> {
        let asked = Asked::Reserve { item: item.to_owned(), token };
        let (id, reserve) = (item_id(item), Reserve { token: Token(token), for_ms: Some(for_ms) });
        let read = |answer: client::Reply<api::hold::Reserved>, answered: &mut Answered| {
            answered.expires_in_ms = Some(answer.value.for_ms);
            answer.value.for_ms
        };
        self.ask(asked, |client| client.reserve(&id, &reserve), read).await
    }

    /// Queues the item in that phase.
    pub async fn hand_on(&mut self, item: &str, token: u64, phase: &str) -> Result<(), No> {
        let asked = Asked::HandOn { item: item.to_owned(), token };
        let phase = Phase::new(phase).map_err(|_| No::Strange)?;
        let (id, hand_on) = (item_id(item), HandOn { token: Some(Token(token)), read_at: None, phase });
        self.ask(asked, |client| client.hand_on(&id, &hand_on), moved).await
    }

    pub async fn cancel(&mut self, item: &str, force: bool) -> Result<(), No> {
        let asked = Asked::Cancel { item: item.to_owned(), force };
        let (id, cancel) = (item_id(item), Cancel { reason: "as planned".into(), force });
        self.ask(asked, |client| client.cancel(&id, &cancel), |_, _| ()).await
    }

    /// Sets the capabilities of this caller's worker.
    pub async fn register(&mut self, capabilities: &[String]) -> Result<(), No> {
        let labels: Result<_, _> = capabilities.iter().map(|label| Label::new(label)).collect();
        let register = Register {
            capabilities: labels.map_err(|_| No::Strange)?,
            labels: Vec::new(),
            mode: RunsIn::Any,
            alive_for_ms: 60_000,
        };
        let asked = Asked::Change { verb: "register".into(), node: 0 };
        self.ask(asked, |client| client.register_worker(&register), |_, _| ()).await
    }

    /// A local read, from the node that is asked.
    pub async fn read_locally(&mut self, item: &str) -> Result<Item, No> {
        let id = item_id(item);
        let read = |answer: client::Reply<Item>, answered: &mut Answered| {
            answered.item = Some(seen_item(&answer.value));
            answered.revision = Some(answer.value.revision.to_string());
            if let Some(age) = answer.age {
                answered.applied = Some(age.applied);
                answered.age_ms = age.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            }
            answer.value
        };
        self.ask(Asked::ReadLocally { item: item.to_owned() }, |client| client.item_locally(&id), read).await
    }

    /// Returns false if there was no place to leave.
    pub async fn withdraw(&mut self, item: &str) -> Result<bool, No> {
        let id = item_id(item);
        let read = |answer: client::Reply<api::hold::Withdrawn>, answered: &mut Answered| {
            answered.did = Some(answer.value.withdrawn);
            answer.value.withdrawn
        };
        self.ask(Asked::Withdraw { item: item.to_owned() }, |client| client.withdraw(&id), read).await
    }

    /// For the operator.
    pub async fn revoke(&mut self, item: &str) -> Result<bool, No> {
        let (id, revoke) = (item_id(item), Revoke { reason: "as planned".into(), assign_to: None });
        let read = |answer: client::Reply<api::hold::Revoked>, answered: &mut Answered| {
            answered.did = Some(answer.value.revoked);
            answer.value.revoked
        };
        self.ask(Asked::Revoke { item: item.to_owned() }, |client| client.revoke(&id, &revoke), read).await
    }

    pub async fn assign(&mut self, item: &str, to: &str) -> Result<(), No> {
        let asked = Asked::Assign { item: item.to_owned(), to: to.to_owned() };
        let (id, actor) = (item_id(item), ActorId::new(to).map_err(|_| No::Strange)?);
        self.ask(asked, |client| client.assign(&id, &actor), |_, _| ()).await
    }

    /// Returns false if the item was not assigned to that actor.
    pub async fn unassign(&mut self, item: &str, from: &str) -> Result<bool, No> {
        let (id, actor) = (item_id(item), ActorId::new(from).map_err(|_| No::Strange)?);
        let read = |answer: client::Reply<api::hold::Unassigned>, answered: &mut Answered| {
            answered.did = Some(answer.value.unassigned);
            answer.value.unassigned
        };
        self.ask(Asked::Unassign { item: item.to_owned() }, |client| client.unassign(&id, &actor), read).await
    }

    /// Sets the item's data to a value that no other update sets.
    pub async fn update(&mut self, item: &str, token: Option<u64>, read_at: Option<Number>) -> Result<Number, No> {
        self.world.wrote(item);
        let value = self.world.value();
        let read_at_said = read_at.map(|number| number.to_string());
        let asked = Asked::Update { item: item.to_owned(), token, read_at: read_at_said, value };
        let body = BodyChange { data: Some(Some(value.to_string())), ..BodyChange::default() };
        let update = Update { token: token.map(Token), read_at, body: Some(body), ..Update::default() };
        let id = item_id(item);
        let read = |answer: client::Reply<api::write::Updated>, answered: &mut Answered| {
            answered.revision = Some(answer.value.revision.to_string());
            answer.value.revision
        };
        self.ask(asked, |client| client.update(&id, &update), read).await
    }

    /// A linearizable read.
    pub async fn read(&mut self, item: &str) -> Result<Item, No> {
        let id = item_id(item);
        let read = |answer: client::Reply<Item>, answered: &mut Answered| {
            answered.item = Some(seen_item(&answer.value));
            answered.revision = Some(answer.value.revision.to_string());
            answer.value
        };
        self.ask(Asked::Read { item: item.to_owned() }, |client| client.item(&id), read).await
    }

    /// The waiters of an item, as `actor/session` where it is shown.
    pub async fn line(&mut self, item: &str) -> Result<Vec<String>, No> {
        let id = item_id(item);
        let read = |answer: client::Reply<api::line::Line>, answered: &mut Answered| {
            let who = |place: &api::line::Place| {
                let actor = place.actor.as_ref().map_or("?", |actor| actor.as_str());
                let session = place.session.as_ref().map_or("", |session| session.as_str());
                format!("{actor}/{session}")
            };
            let line: Vec<_> = answer.value.places.iter().map(who).collect();
            answered.line = Some(line.clone());
            line
        };
        self.ask(Asked::Line { item: item.to_owned() }, |client| client.line(&id), read).await
    }

    pub async fn complete(&mut self, item: &str, token: u64) -> Result<(), No> {
        let asked = Asked::Complete { item: item.to_owned(), token };
        let (id, complete) = (item_id(item), Complete { token: Some(Token(token)), read_at: None, result: None });
        self.ask(asked, |client| client.complete(&id, &complete), moved).await
    }

    pub async fn fail(&mut self, item: &str, token: u64) -> Result<(), No> {
        let asked = Asked::Fail { item: item.to_owned(), token };
        let fail = Fail { token: Some(Token(token)), read_at: None, error: Some("as planned".into()), is_final: false };
        let id = item_id(item);
        self.ask(asked, |client| client.fail(&id, &fail), moved).await
    }

    /// Waits in line for this many polls, then leaves it. `None`: the claim was not granted.
    pub async fn wait_for(&mut self, item: &str, lease_for_ms: Option<u64>, polls: u64, poll_ms: u64) -> Option<Held> {
        let id = self.id();
        let mut is_repeat = false;
        for _ in 0..polls.max(1) {
            if !self.goes_on() {
                break;
            }
            match self.under(&id, is_repeat).stand(item, lease_for_ms, poll_ms).await {
                Ok(Standing::Granted(held)) if held.until > self.world.clock.now() => return Some(held),
                // Granted by a poll without an answer, and over by now.
                Ok(Standing::Granted(_)) => return None,
                Ok(Standing::Place(_)) => is_repeat = false,
                Err(No::Unknown(_)) => is_repeat = true,
                Err(No::Unavailable) => {
                    self.rest(Duration::from_millis(20)).await;
                }
                Err(No::Refused(_) | No::Strange) => return None,
            }
        }
        let _ = self.withdraw(item).await;
        None
    }
}

fn moved(answer: client::Reply<api::write::Moved>, answered: &mut Answered) {
    answered.revision = Some(answer.value.revision.to_string());
}

/// An item with only the required fields.
#[must_use]
pub fn new_item(item: &str, queue: &str) -> NewItem {
    NewItem::new(item_id(item), queue_name(queue))
}

/// An item with the fields that checkers use.
#[must_use]
pub fn seen_item(item: &Item) -> SeenItem {
    let state = serde_json::to_value(item.state).ok().and_then(|state| state.as_str().map(ToOwned::to_owned));
    let data = item.content.body.as_ref().and_then(|body| body.data.as_ref());
    SeenItem {
        state: state.unwrap_or_default(),
        revision: item.revision.to_string(),
        value: data.and_then(|data| data.parse().ok()),
        holder: item.holder.as_ref().and_then(|holder| holder.actor.as_ref()).map(ToString::to_string),
        token: item.token.map(|token| token.0),
        assignee: item.assignee.as_ref().map(ToString::to_string),
    }
}
