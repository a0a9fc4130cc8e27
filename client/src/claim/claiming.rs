//! Becoming the holder of one item: at once, or by waiting in line.

use super::Claim;
use crate::client::random_name;
use crate::retry::backoff;
use crate::{Answer, Client, Error, Moment};
use api::claim::{Claim as Wish, Claimed, Grant, OnConflict};
use api::hold::Release;
use api::words::Transition;
use lease::names::ItemId;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A claim that is not made yet.
#[derive(Clone, Debug)]
#[must_use = "nothing is claimed until it is awaited"]
pub struct Claiming {
    client: Client,
    item: ItemId,
    wish: Wish,
    within: Option<Duration>,
}

impl Client {
    /// A lease that renews itself.
    pub fn claim(&self, item: &ItemId) -> Claiming {
        Claiming { client: self.clone(), item: item.clone(), wish: Wish::default(), within: None }
    }
}

impl Claiming {
    /// The queue's default unless said; cut to its ceiling.
    pub fn lease_for(mut self, span: Duration) -> Self {
        self.wish.lease_for_ms = Some(millis(span));
        self
    }

    /// Tells observers what the holder is doing.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.wish.action = Some(action.into());
        self
    }

    /// And to which part.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.wish.field = Some(field.into());
        self
    }

    /// Ends the lease of the same actor's other session.
    pub fn takeover(mut self) -> Self {
        self.wish.takeover = true;
        self
    }

    /// Which steps may move the target's phase.
    pub fn mirrors(mut self, mirrors: impl IntoIterator<Item = Transition>) -> Self {
        self.wish.mirrors = Some(mirrors.into_iter().collect());
        self
    }

    /// Does not join a line that is already this long.
    pub fn line_max(mut self, length: u32) -> Self {
        self.wish.line_max = Some(length);
        self
    }

    /// Gives up waiting after so long. For ever unless said: dropping it gives the place up.
    pub fn within(mut self, span: Duration) -> Self {
        self.within = Some(span);
        self
    }

    /// Granted now, or refused.
    ///
    /// # Errors
    /// See [`Error`]: somebody else holding it is a refusal.
    pub async fn try_claim(mut self) -> Result<Claim, Error> {
        self.wish.on_conflict = OnConflict::Fail;
        self.wish.line_max = None;
        let mut pending = Pending::new(&self.client, &self.item, &self.wish)?;
        loop {
            match pending.ask(self.within).await? {
                Answer { value: Claimed::Granted(grant), sent_at, .. } if grant.expires_in_ms > 0 => {
                    return Ok(Claim::new(&self.client, *grant, sent_at));
                }
                // Granted to an attempt whose answer came too late.
                Answer { value: Claimed::Granted(_), .. } => pending.renamed()?,
                Answer { value: other, .. } => return Err(strange(&other)),
            }
        }
    }

    /// Waits in line until it is granted. Nobody overtakes.
    ///
    /// # Errors
    /// See [`Error`]. `wait_timeout` when the time to wait is over.
    pub async fn claim(mut self) -> Result<Claim, Error> {
        self.wish.on_conflict = OnConflict::Wait;
        self.wish.wait_for_ms = self.within.map(millis);
        let by = self.within.map(|within| Instant::now() + within);
        let mut pending = Pending::new(&self.client, &self.item, &self.wish)?;
        let mut has_place = false;
        let mut failed = 0;
        loop {
            let asked_at = Instant::now();
            match pending.ask(by.map(|by| by.saturating_duration_since(asked_at))).await {
                Ok(Answer { value: Claimed::Granted(grant), sent_at, .. }) if grant.expires_in_ms > 0 => {
                    return Ok(Claim::new(&self.client, *grant, sent_at));
                }
                Ok(Answer { value: Claimed::Granted(_), .. }) => pending.renamed()?,
                Ok(Answer { value: Claimed::Waiting(_), .. }) => {
                    has_place = true;
                    // A node that stops answers at once: another one goes on.
                    failed = if asked_at.elapsed() < Duration::from_secs(1) { failed + 1 } else { 0 };
                }
                Ok(Answer { value: other, .. }) => return Err(strange(&other)),
                // One who stands in line goes on: the place is kept for a while, and taken anew after that.
                Err(Error::Unavailable { .. }) if has_place && !is_past(by) => failed += 1,
                Err(Error::Unknown { .. }) if has_place && !is_past(by) => {
                    failed += 1;
                    pending.renamed()?;
                }
                Err(error) => return Err(error),
            }
            if failed > 0 {
                sleep(backoff(failed)).await;
            }
        }
    }
}

fn is_past(by: Option<Instant>) -> bool {
    by.is_some_and(|by| by <= Instant::now())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn strange(claimed: &Claimed) -> Error {
    Error::Invalid(format!("a claim was answered by what is no answer to it: {claimed:?}"))
}

/// A claim that may have a place or a lease that nobody knows of yet. Dropped, it is taken back.
struct Pending {
    client: Client,
    item: ItemId,
    wish: Wish,
    key: String,
    is_open: bool,
    asked_at: Moment,
}

impl Pending {
    fn new(client: &Client, item: &ItemId, wish: &Wish) -> Result<Self, Error> {
        let (client, asked_at) = (client.clone(), client.clock().now());
        Ok(Self { client, item: item.clone(), wish: wish.clone(), key: random_name()?, is_open: false, asked_at })
    }

    async fn ask(&mut self, within: Option<Duration>) -> Result<Answer<Claimed>, Error> {
        (self.is_open, self.asked_at) = (true, self.client.clock().now());
        let mut call = self.client.request_claim(&self.item, &self.wish).key(&self.key);
        if let Some(within) = within {
            call = call.within(within);
        }
        let answer = call.answered().await;
        // A lease is its caller's from here on; a refusal leaves nothing behind.
        self.is_open = match &answer {
            Ok(Answer { value: Claimed::Waiting(_), .. }) | Err(Error::Unknown { .. }) => true,
            Err(Error::Unavailable { .. }) => self.wish.on_conflict == OnConflict::Wait,
            Ok(_) | Err(Error::Refused(_) | Error::Invalid(_)) => false,
        };
        answer
    }

    /// Asks as if for the first time.
    fn renamed(&mut self) -> Result<(), Error> {
        self.key = random_name()?;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_open {
            let age = self.asked_at.until(self.client.clock().now());
            let undo = undo(self.client.clone(), self.item.clone(), self.wish.clone(), self.key.clone(), age);
            self.client.shared.background.spawn_on(undo, &runtime);
        }
    }
}

/// Asks what became of the request, and gives it back.
async fn undo(client: Client, item: ItemId, mut wish: Wish, key: String, age: Duration) {
    if wish.on_conflict == OnConflict::Wait {
        wish.poll_ms = Some(1);
    }
    let release = |grant: Grant| {
        let release = Release { token: Some(grant.token), keep_assignment: false };
        client.release(&grant.item, &release)
    };
    let undone = match client.request_claim(&item, &wish).key(key).repeated(age).await {
        Ok(Claimed::Granted(grant)) => release(*grant).await.map(|_| ()),
        Ok(Claimed::Waiting(_)) => client.withdraw(&item).await.map(|_| ()),
        Ok(Claimed::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = undone {
        tracing::debug!(%item, %error, "a claim that was given up could not be taken back: its time will end it");
    }
}
