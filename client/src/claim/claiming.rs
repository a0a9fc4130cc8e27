//! Claims one item: at once, or by waiting in line.

use super::Lease;
use crate::client::random_name;
use crate::retry::backoff;
use crate::{Answer, Client, Error, Moment};
use api::claim::{Claim as Wish, Claimed, Grant, OnConflict};
use api::hold::Release;
use api::words::Transition;
use lease::names::ItemId;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A claim that has not been sent yet.
#[derive(Clone, Debug)]
#[must_use = "nothing is claimed until it is awaited"]
pub struct Claiming {
    client: Client,
    item: ItemId,
    wish: Wish,
    within: Option<Duration>,
}

impl Client {
    /// Claims an item. The lease renews itself.
    pub fn claim(&self, item: &ItemId) -> Claiming {
        Claiming { client: self.clone(), item: item.clone(), wish: Wish::default(), within: None }
    }
}

impl Claiming {
    /// The lease duration, at most the queue's maximum. By default the queue's.
    pub fn lease_for(mut self, span: Duration) -> Self {
        self.wish.lease_for_ms = Some(millis(span));
        self
    }

    /// What the holder is doing; observers can see it.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.wish.action = Some(action.into());
        self
    }

    /// Which part of the item the holder works on; observers can see it.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.wish.field = Some(field.into());
        self
    }

    /// Ends the lease of another session of the same actor.
    pub fn takeover(mut self) -> Self {
        self.wish.takeover = true;
        self
    }

    /// The steps that may move the target's phase.
    pub fn mirrors(mut self, mirrors: impl IntoIterator<Item = Transition>) -> Self {
        self.wish.mirrors = Some(mirrors.into_iter().collect());
        self
    }

    /// Does not join a line that is already this long.
    pub fn line_max(mut self, length: u32) -> Self {
        self.wish.line_max = Some(length);
        self
    }

    /// Stops waiting after this long. By default it waits for ever. Dropping the claim leaves the line.
    pub fn within(mut self, span: Duration) -> Self {
        self.within = Some(span);
        self
    }

    /// Claims the item now, or fails.
    ///
    /// # Errors
    /// See [`Error`]: it is a refusal if somebody else holds the item.
    pub async fn try_claim(mut self) -> Result<Lease, Error> {
        self.wish.on_conflict = OnConflict::Fail;
        self.wish.line_max = None;
        let mut pending = Pending::new(&self.client, &self.item, &self.wish)?;
        loop {
            match pending.ask(self.within).await? {
                Answer { value: Claimed::Granted(grant), sent_at, .. } if grant.expires_in_ms > 0 => {
                    return Ok(Lease::new(&self.client, *grant, sent_at));
                }
                // Granted to an earlier attempt whose answer came too late: the lease has expired.
                Answer { value: Claimed::Granted(_), .. } => pending.renamed()?,
                Answer { value: other, .. } => return Err(strange(&other)),
            }
        }
    }

    /// Waits in line until the item is granted. Later callers do not overtake.
    ///
    /// # Errors
    /// See [`Error`]. `wait_timeout` if the time to wait is over.
    pub async fn claim(mut self) -> Result<Lease, Error> {
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
                    return Ok(Lease::new(&self.client, *grant, sent_at));
                }
                Ok(Answer { value: Claimed::Granted(_), .. }) => pending.renamed()?,
                Ok(Answer { value: Claimed::Waiting(_), .. }) => {
                    has_place = true;
                    // A stopping node answers at once: ask another one after a pause.
                    failed = if asked_at.elapsed() < Duration::from_secs(1) { failed + 1 } else { 0 };
                }
                Ok(Answer { value: other, .. }) => return Err(strange(&other)),
                // A caller in line continues: its place is kept for a while, and a later poll joins again.
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
    Error::Invalid(format!("unexpected answer to a claim: {claimed:?}"))
}

/// A claim that may have a place in line or a lease that the caller does not know of yet. Dropping it gives them up.
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
        // From here on the caller owns the lease. A refusal leaves nothing behind.
        self.is_open = match &answer {
            Ok(Answer { value: Claimed::Waiting(_), .. }) | Err(Error::Unknown { .. }) => true,
            Err(Error::Unavailable { .. }) => self.wish.on_conflict == OnConflict::Wait,
            Ok(_) | Err(Error::Refused(_) | Error::Invalid(_)) => false,
        };
        answer
    }

    /// Uses a new request id, as if asking for the first time.
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

/// Asks for the result of the request, and gives up what it got.
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
        tracing::debug!(%item, %error, "could not undo an abandoned claim; it will expire");
    }
}
