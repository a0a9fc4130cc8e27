//! A held lease. It renews itself, tells until when it is certainly held, and stops the work in time when it is not.

pub(crate) mod keeper;
pub(crate) mod state;

pub use state::Lost;

use crate::call::Call;
use crate::client::random_name;
use crate::clock::Moment;
use crate::retry::REPEAT_WITHIN;
use crate::{Client, Error};
use api::claim::{Grant, ItemSnapshot};
use api::hold::{Extend, Extended, Release, Released, Reserve, Reserved};
use api::names::Number;
use api::words::ActivityKind;
use api::write::{Activity, AwaitInput, Complete, Fail, HandOn, Moved, Resume, Update, Updated};
use lease::names::{ItemId, Phase, SessionId};
use lease::numbers::Token;
use state::{LeaseReply, LeaseState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A held lease: the right to work on an item. The work has to watch [`Lease::cancelled`], which fires when the right
/// ends, even if no node can be reached. Dropping the lease stops the work and releases the lease in the background.
#[derive(Debug)]
pub struct Lease {
    client: Client,
    state: Arc<LeaseState>,
    grant: Grant,
    unanswered: Mutex<Option<Unanswered>>,
    _keeper: AbortOnDropHandle<()>,
}

/// A write that may have had an effect.
#[derive(Clone, Debug)]
struct Unanswered {
    what: String,
    key: String,
    first_sent: Moment,
}

/// Who renews the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewedBy {
    Itself,
    Worker,
}

impl Lease {
    pub(crate) fn new(client: &Client, grant: Grant, sent_at: Moment) -> Self {
        Self::kept(client, grant, sent_at, RenewedBy::Itself)
    }

    pub(crate) fn kept(client: &Client, grant: Grant, sent_at: Moment, by: RenewedBy) -> Self {
        // A grant from the wait line is short until its first renewal.
        let is_picked_up = grant.expires_in_ms >= grant.lease_for_ms || grant.cancel_requested;
        let reply = LeaseReply {
            sent_at,
            expires_in_ms: grant.expires_in_ms,
            renew_after_ms: if is_picked_up { grant.expires_in_ms / 3 } else { 0 },
            cancel_requested: grant.cancel_requested,
            line_length: Some(grant.line_length),
        };
        let revision = grant.snapshot.as_ref().map(|snapshot| snapshot.revision);
        let clock = client.clock().clone();
        let state = Arc::new(LeaseState::new(grant.item.clone(), grant.token, clock, revision, reply));
        let keeper = match by {
            RenewedBy::Itself => tokio::spawn(keeper::keep(client.clone(), state.clone())),
            RenewedBy::Worker => tokio::spawn(keeper::guard(client.clone(), state.clone())),
        };
        let keeper = AbortOnDropHandle::new(keeper);
        Self { client: client.clone(), state, grant, unanswered: Mutex::default(), _keeper: keeper }
    }

    pub(crate) fn state(&self) -> &Arc<LeaseState> {
        &self.state
    }

    #[must_use]
    pub fn item(&self) -> &ItemId {
        &self.state.item
    }

    /// The session that holds it.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        self.client.session()
    }

    /// The fencing token. Send it to the item's resource with every write.
    #[must_use]
    pub fn token(&self) -> Token {
        self.state.token
    }

    /// The grant, as the node returned it.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Until this moment nobody else is granted the item, whatever happens to nodes and networks. Measured on
    /// [`Client::clock`].
    #[must_use]
    pub fn valid_until(&self) -> Moment {
        self.state.valid_until()
    }

    /// The time until [`Lease::valid_until`]; zero once the lease is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.state.remaining()
    }

    /// Fires when the work has to stop: at [`Lease::valid_until`] at the latest.
    #[must_use]
    pub fn cancelled(&self) -> CancellationToken {
        self.state.stop.clone()
    }

    /// Fires when cancellation of the item is requested: 30 s are left to stop the work.
    #[must_use]
    pub fn wind_down(&self) -> CancellationToken {
        self.state.wind_down.clone()
    }

    #[must_use]
    pub fn cancel_requested(&self) -> bool {
        self.state.wind_down.is_cancelled()
    }

    /// The number of waiters for the item, as of the last renewal.
    #[must_use]
    pub fn line_length(&self) -> u32 {
        self.state.line_length()
    }

    /// Why the lease is lost, as far as known; `None` if it is held.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        self.state.lost()
    }

    /// Waits until the lease is lost and the reason is known, or cannot be found out.
    pub async fn why_lost(&self) -> Lost {
        self.state.explained.cancelled().await;
        self.state.lost().unwrap_or(Lost::GivenBack)
    }

    /// The item that the work starts from; read from a node if the grant does not contain it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn snapshot(&self) -> Result<ItemSnapshot, Error> {
        if let Some(snapshot) = &self.grant.snapshot {
            return Ok(snapshot.clone());
        }
        self.look().await
    }

    /// Reads the item as it is now. Later writes are based on the revision that it returns.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn look(&self) -> Result<ItemSnapshot, Error> {
        let item = self.client.item(self.item()).await?;
        self.state.saw(item.revision);
        Ok(ItemSnapshot {
            queue: item.queue,
            state: item.state,
            revision: item.revision,
            attempts: item.attempts,
            content: item.content,
        })
    }

    /// The revision that writes are based on.
    #[must_use]
    pub fn revision(&self) -> Option<Number> {
        self.state.revision()
    }

    /// Extends the lease for a known idle gap: it lasts at least `span` from now.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn extend(&self, span: Duration) -> Result<Extended, Error> {
        let for_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let extend = Extend { token: self.token(), for_ms };
        let answer = self.client.extend(self.item(), &extend).reply().await?;
        self.state.update(LeaseReply {
            sent_at: answer.sent_at,
            expires_in_ms: answer.value.expires_in_ms,
            renew_after_ms: answer.value.expires_in_ms / 3,
            cancel_requested: answer.value.cancel_requested,
            line_length: None,
        });
        Ok(answer.value)
    }

    /// Changes the item, with the token; refused if the item has changed since it was last read.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn update(&self, update: Update) -> Result<Updated, Error> {
        let update = Update { token: Some(self.token()), read_at: update.read_at.or(self.revision()), ..update };
        let updated = self.written("update", &update, self.client.update(self.item(), &update)).await?;
        self.state.saw(updated.revision);
        Ok(updated)
    }

    /// Reports progress to observers.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn activity(&self, kind: ActivityKind, note: impl Into<String>) -> Result<Moved, Error> {
        let (token, read_at) = (Some(self.token()), self.revision());
        let activity = Activity { token, read_at, kind, note: note.into() };
        self.moved("activity", &activity, self.client.activity(self.item(), &activity)).await
    }

    /// Reports that the work waits for input. The lease continues.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn await_input(&self, question: impl Into<String>) -> Result<Moved, Error> {
        let (token, read_at) = (Some(self.token()), self.revision());
        let awaits = AwaitInput { token, read_at, question: question.into() };
        self.moved("await_input", &awaits, self.client.await_input(self.item(), &awaits)).await
    }

    /// Resumes the work after waiting for input.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resume(&self) -> Result<Moved, Error> {
        let resume = Resume { token: Some(self.token()), read_at: self.revision() };
        self.moved("resume", &resume, self.client.resume(self.item(), &resume)).await
    }

    /// Stops the work and queues the item in the next phase.
    ///
    /// # Errors
    /// See [`Error`]. The lease is held until a node answers: try again.
    pub async fn hand_on(&self, phase: Phase) -> Result<Moved, Error> {
        self.state.stop.cancel();
        let hand_on = HandOn { token: Some(self.token()), read_at: self.revision(), phase };
        self.ended("hand_on", &hand_on, self.client.hand_on(self.item(), &hand_on)).await
    }

    /// Stops the work and completes the item.
    ///
    /// # Errors
    /// See [`Error`]. The lease is held until a node answers: try again.
    pub async fn complete(&self, result: Option<String>) -> Result<Moved, Error> {
        self.state.stop.cancel();
        let complete = Complete { token: Some(self.token()), read_at: self.revision(), result };
        self.ended("complete", &complete, self.client.complete(self.item(), &complete)).await
    }

    /// Stops the work and fails the item: it is queued again after its backoff, unless `is_final`.
    ///
    /// # Errors
    /// See [`Error`]. The lease is held until a node answers: try again.
    pub async fn fail(&self, error: Option<String>, is_final: bool) -> Result<Moved, Error> {
        self.state.stop.cancel();
        let fail = Fail { token: Some(self.token()), read_at: self.revision(), error, is_final };
        self.ended("fail", &fail, self.client.fail(self.item(), &fail)).await
    }

    /// Stops the work, and only then releases the lease.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn release(&self) -> Result<Released, Error> {
        self.state.stop.cancel();
        let release = Release { token: Some(self.token()), keep_assignment: false };
        let released = self.written("release", &release, self.client.release(self.item(), &release)).await?;
        self.finish();
        Ok(released)
    }

    /// Stops the work and reserves the item for its assignee, without a heartbeat.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn reserve(&self, span: Option<Duration>) -> Result<Reserved, Error> {
        self.state.stop.cancel();
        let for_ms = span.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let reserve = Reserve { token: self.token(), for_ms };
        let reserved = self.written("reserve", &reserve, self.client.reserve(self.item(), &reserve)).await?;
        self.finish();
        Ok(reserved)
    }

    async fn ended(&self, verb: &str, body: &impl serde::Serialize, call: Call<Moved>) -> Result<Moved, Error> {
        let moved = self.moved(verb, body, call).await?;
        self.finish();
        Ok(moved)
    }

    async fn moved(&self, verb: &str, body: &impl serde::Serialize, call: Call<Moved>) -> Result<Moved, Error> {
        let moved = self.written(verb, body, call).await?;
        self.state.saw(moved.revision);
        Ok(moved)
    }

    /// Sends a write. If the same write got no answer before, this one is a repeat and not a second write, for as long
    /// as nodes are sure to remember the first.
    async fn written<T: serde::de::DeserializeOwned>(
        &self,
        verb: &str,
        body: &impl serde::Serialize,
        call: Call<T>,
    ) -> Result<T, Error> {
        let what = format!("{verb} {}", serde_json::to_string(body).unwrap_or_default());
        let before = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).take();
        let age = |write: &Unanswered| write.first_sent.until(self.client.clock().now());
        let (write, call) = match before.filter(|before| before.what == what) {
            Some(before) => {
                let call = call.key(&before.key).repeated(age(&before));
                (before, call)
            }
            None => {
                let write = Unanswered { what, key: random_name()?, first_sent: self.client.clock().now() };
                let call = call.key(&write.key);
                (write, call)
            }
        };
        let answer = call.reply().await;
        if matches!(answer, Err(Error::Unknown { .. })) && age(&write) < REPEAT_WITHIN {
            *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = Some(write);
        }
        answer.map(|answer| answer.value)
    }

    fn finish(&self) {
        self.state.lose(Lost::GivenBack);
        self.state.over.cancel();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let is_lost = self.state.lost().is_some();
        self.finish();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if is_lost {
            return;
        }
        let (client, item) = (self.client.clone(), self.item().clone());
        let release = Release { token: Some(self.token()), keep_assignment: false };
        let releasing = async move {
            if let Err(error) = client.release(&item, &release).await {
                tracing::debug!(%item, %error, "could not release a dropped lease; it will expire");
            }
        };
        self.client.shared.background.spawn_on(releasing, &runtime);
    }
}

#[cfg(test)]
pub(crate) mod tests;
