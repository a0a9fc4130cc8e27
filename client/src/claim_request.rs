//! The claim of one item: at once, or by waiting in line. A waiting claim is polled, so that it keeps its place.

use crate::client::random_name;
use crate::lease::Lease;
use crate::retry::backoff;
use crate::{Client, Error, Moment, Reply};
use api::claim::{Claim, Claimed, Grant, OnConflict, Waiting};
use api::hold::Release;
use api::limits::POLL_MAX;
use api::words::Transition;
use lease::names::ItemId;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A claim that has not been sent yet.
#[derive(Clone, Debug)]
#[must_use = "nothing is claimed until it is awaited"]
pub struct ClaimRequest {
    client: Client,
    item: ItemId,
    claim: Claim,
    within: Option<Duration>,
    key: Option<String>,
    repeat_after: Option<Duration>,
}

impl Client {
    /// Claims an item. The lease renews itself.
    pub fn claim(&self, item: &ItemId) -> ClaimRequest {
        ClaimRequest {
            client: self.clone(),
            item: item.clone(),
            claim: Claim::default(),
            within: None,
            key: None,
            repeat_after: None,
        }
    }
}

impl ClaimRequest {
    /// The lease duration, at most the queue's maximum. By default the queue's.
    pub fn lease_for(mut self, span: Duration) -> Self {
        self.claim.lease_for_ms = Some(millis(span));
        self
    }

    /// What the holder is doing; observers can see it.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.claim.action = Some(action.into());
        self
    }

    /// Which part of the item the holder works on; observers can see it.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.claim.field = Some(field.into());
        self
    }

    /// Ends the lease of another session of the same actor.
    pub fn takeover(mut self) -> Self {
        self.claim.takeover = true;
        self
    }

    /// The steps that may move the target's phase.
    pub fn mirrors(mut self, mirrors: impl IntoIterator<Item = Transition>) -> Self {
        self.claim.mirrors = Some(mirrors.into_iter().collect());
        self
    }

    /// Does not join a line that is already this long.
    pub fn line_max(mut self, length: u32) -> Self {
        self.claim.line_max = Some(length);
        self
    }

    /// Stops waiting after this long. By default it waits for ever. Dropping the claim leaves the line.
    pub fn within(mut self, span: Duration) -> Self {
        self.within = Some(span);
        self
    }

    /// How long the node waits before it answers the first poll, so that the caller soon knows its place in line.
    pub fn first_poll(mut self, span: Duration) -> Self {
        self.claim.poll_ms = Some(millis(span));
        self
    }

    /// Uses this request id for every poll, so that the caller can repeat the claim, for example after a restart. Then
    /// an unknown outcome is returned at once, and dropping the claim gives nothing up.
    pub fn key(mut self, id: impl Into<String>) -> Self {
        self.key = Some(id.into());
        self
    }

    /// Marks this as a repeat of a claim that was first sent with this key this long ago. See
    /// [`Call::repeated`](crate::Call::repeated).
    pub fn repeated(mut self, after: Duration) -> Self {
        self.repeat_after = Some(after);
        self
    }

    /// Claims the item now, or fails.
    ///
    /// # Errors
    /// See [`Error`]: it is a refusal if somebody else holds the item.
    pub async fn try_claim(self) -> Result<Lease, Error> {
        self.pending(OnConflict::Fail)?.lease().await
    }

    /// Waits in line until the item is granted. Later callers do not overtake.
    ///
    /// # Errors
    /// See [`Error`]. `wait_timeout` if the time to wait is over.
    pub async fn claim(self) -> Result<Lease, Error> {
        self.pending(OnConflict::Wait)?.lease().await
    }

    /// The claim for a caller that polls it itself, to see its place in line or to get the grant alone.
    ///
    /// # Errors
    /// If the machine provides no random numbers.
    pub fn pending(self, on_conflict: OnConflict) -> Result<PendingClaim, Error> {
        let mut claim = Claim { on_conflict, ..self.claim };
        match on_conflict {
            OnConflict::Wait => claim.wait_for_ms = self.within.map(millis),
            OnConflict::Fail => (claim.line_max, claim.poll_ms) = (None, None),
        }
        let has_callers_key = self.key.is_some();
        Ok(PendingClaim {
            client: self.client,
            item: self.item,
            claim,
            key: self.key.map_or_else(random_name, Ok)?,
            has_callers_key,
            repeat_after: self.repeat_after,
            deadline: self.within.map(|within| Instant::now() + within),
            sent_at: None,
            is_open: false,
            has_place: false,
            failed: 0,
        })
    }
}

/// A claim that may have a place in line, or a lease that the caller does not know of yet. Dropping it gives them up,
/// unless the caller chose the request id.
#[derive(Debug)]
pub struct PendingClaim {
    client: Client,
    item: ItemId,
    claim: Claim,
    key: String,
    has_callers_key: bool,
    repeat_after: Option<Duration>,
    /// When the caller stops waiting.
    deadline: Option<Instant>,
    /// When it was last sent.
    sent_at: Option<Moment>,
    /// Whether a node may keep something for it that the caller does not know of.
    is_open: bool,
    has_place: bool,
    /// Number of polls in a row that were not answered, or answered at once.
    failed: u32,
}

/// The result of one poll.
#[derive(Debug)]
pub enum ClaimProgress {
    /// The item is granted; nobody renews this lease.
    Granted { grant: Box<Grant>, sent_at: Moment },
    /// The place in line.
    Waiting(Waiting),
    /// No node answered. The place is kept for a while, and a later poll joins the line again.
    Unanswered(Error),
}

impl PendingClaim {
    /// Asks for the result once: until the item is granted, the poll is over or no node answers. Cancelling it is safe.
    ///
    /// # Errors
    /// See [`Error`]: the claim is over.
    pub async fn poll(&mut self) -> Result<ClaimProgress, Error> {
        loop {
            if self.failed > 0 {
                sleep(backoff(self.failed)).await;
            }
            let (asked_at, is_short) = (Instant::now(), self.claim.poll_ms.is_some());
            let reply = self.send().await;
            self.claim.poll_ms = None;
            match reply {
                // Granted to an earlier attempt whose answer came too late: the lease has expired.
                Ok(Reply { value: Claimed::Granted(grant), .. })
                    if grant.expires_in_ms == 0 && !self.has_callers_key =>
                {
                    self.rename()?;
                }
                Ok(Reply { value: Claimed::Granted(grant), sent_at, .. }) => {
                    return Ok(ClaimProgress::Granted { grant, sent_at });
                }
                Ok(Reply { value: Claimed::Waiting(waiting), .. }) if self.claim.on_conflict == OnConflict::Wait => {
                    self.has_place = true;
                    // A stopping node answers at once: ask another one after a pause.
                    let is_early = !is_short && asked_at.elapsed() < Duration::from_secs(1);
                    self.failed = if is_early { self.failed + 1 } else { 0 };
                    return Ok(ClaimProgress::Waiting(waiting));
                }
                Ok(Reply { value: other, .. }) => {
                    return Err(Error::Invalid(format!("unexpected answer to a claim: {other:?}")));
                }
                Err(error @ Error::Unavailable { .. }) if self.may_go_on() => {
                    self.failed += 1;
                    return Ok(ClaimProgress::Unanswered(error));
                }
                Err(error @ Error::Unknown { .. }) if self.may_go_on() && !self.has_callers_key => {
                    self.failed += 1;
                    self.rename()?;
                    return Ok(ClaimProgress::Unanswered(error));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives up what the claim got: leaves the line, or releases the lease if the item was granted meanwhile.
    ///
    /// # Errors
    /// See [`Error`]. What is left expires by itself.
    pub async fn withdraw(mut self) -> Result<(), Error> {
        self.is_open = false;
        match self.undo() {
            Some(undo) => undo.await,
            None => Ok(()),
        }
    }

    async fn lease(mut self) -> Result<Lease, Error> {
        loop {
            if let ClaimProgress::Granted { grant, sent_at } = self.poll().await? {
                return Ok(Lease::new(&self.client, *grant, sent_at));
            }
        }
    }

    async fn send(&mut self) -> Result<Reply<Claimed>, Error> {
        (self.is_open, self.sent_at) = (true, Some(self.client.clock().now()));
        let mut call = self.client.request_claim(&self.item, &self.claim).key(&self.key);
        if let Some(after) = self.repeat_after.take() {
            call = call.repeated(after);
        }
        if let Some(deadline) = self.deadline {
            // A short poll has as much time for its attempts as a long one.
            let poll = self.claim.poll_ms.map_or(POLL_MAX, Duration::from_millis);
            let left = deadline.saturating_duration_since(Instant::now()) + POLL_MAX.saturating_sub(poll);
            call = call.within(left.min(self.client.shared.within));
        }
        let reply = call.reply().await;
        // From here on the caller owns the lease. A refusal leaves nothing behind.
        self.is_open = match &reply {
            Ok(Reply { value: Claimed::Waiting(_), .. }) | Err(Error::Unknown { .. }) => true,
            Err(Error::Unavailable { .. }) => self.claim.on_conflict == OnConflict::Wait,
            Ok(_) | Err(Error::Refused(_) | Error::Invalid(_)) => false,
        };
        reply
    }

    /// A caller in line continues after a failure, until its time to wait is over.
    fn may_go_on(&self) -> bool {
        self.has_place && self.deadline.is_none_or(|deadline| deadline > Instant::now())
    }

    /// Uses a new request id, as if asking for the first time.
    fn rename(&mut self) -> Result<(), Error> {
        self.key = random_name()?;
        Ok(())
    }

    /// Asks for the result of the request, and gives up what it got. `None` if nothing was sent.
    fn undo(&self) -> Option<impl Future<Output = Result<(), Error>> + Send + use<>> {
        let (client, item, key) = (self.client.clone(), self.item.clone(), self.key.clone());
        let age = self.sent_at?.until(client.clock().now());
        let mut claim = self.claim.clone();
        if claim.on_conflict == OnConflict::Wait {
            claim.poll_ms = Some(1);
        }
        Some(async move {
            match client.request_claim(&item, &claim).key(key).repeated(age).await {
                Ok(Claimed::Granted(grant)) => {
                    let release = Release { token: Some(grant.token), keep_assignment: false };
                    client.release(&item, &release).await.map(drop)
                }
                Ok(Claimed::Waiting(_)) => client.withdraw(&item).await.map(drop),
                Ok(Claimed::Refused { .. }) | Err(Error::Refused(_)) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.is_open || self.has_callers_key {
            return;
        }
        let Some(undo) = self.undo() else { return };
        let item = self.item.clone();
        let undoing = async move {
            if let Err(error) = undo.await {
                tracing::debug!(%item, %error, "could not undo an abandoned claim; it will expire");
            }
        };
        self.client.shared.background.spawn_on(undoing, &runtime);
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests;
