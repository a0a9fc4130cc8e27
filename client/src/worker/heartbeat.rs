//! One heartbeat for all leases of a worker. It depends on progress: leases of stalled work are not renewed.

use super::desk::Desk;
use crate::Error;
use crate::lease::keeper::{attempt_within, is_loss, loss, renew_once};
use crate::lease::state::{LeaseReply, LeaseState, Lost};
use crate::retry::backoff;
use api::hold::{Expected, Release, RenewAll};
use futures_util::future::{join, join_all};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The clock is read at least this often, because the machine may have slept.
const LOOK: Duration = Duration::from_secs(1);

/// Sends heartbeats until it is dropped.
pub(super) async fn run(desk: Arc<Desk>, alive_for: Duration) {
    let mut heard_at = desk.client.clock().now();
    let mut failed = 0;
    loop {
        wait(&desk, heard_at, alive_for).await;
        let sent_at = desk.client.clock().now();
        match beat(&desk, alive_for).await {
            Ok(()) => (failed, heard_at) = (0, sent_at),
            Err(error) => {
                failed += 1;
                tracing::warn!(%error, "could not renew a worker's leases; retrying");
                sleep(backoff(failed)).await;
            }
        }
    }
}

/// Waits until a lease has to be renewed or released, or until the worker would be shown as quiet.
async fn wait(desk: &Desk, heard_at: crate::Moment, alive_for: Duration) {
    loop {
        if !desk.adrift().is_empty() {
            return;
        }
        let quiet_at = heard_at.after(alive_for / 3);
        let due_at = desk.alive().iter().map(|lease| lease.renew_at()).fold(quiet_at, Ord::min);
        let left = desk.client.clock().now().until(due_at);
        if left.is_zero() {
            return;
        }
        tokio::select! {
            () = sleep(left.min(LOOK)) => {}
            () = desk.changed.notified() => {}
        }
    }
}

async fn beat(desk: &Desk, alive_for: Duration) -> Result<(), Error> {
    let leases = desk.alive();
    if desk.is_of_one_kind() {
        return together(desk, &leases, alive_for).await;
    }
    let left = leases.iter().map(|lease| lease.remaining()).fold(alive_for, Ord::min);
    let (renewed, given_back) = join(one_by_one(desk, &leases), give_back(desk, left)).await;
    renewed.and(given_back)
}

/// Releases leases that have expired by this machine's clock and may still be held by the cluster's.
async fn give_back(desk: &Desk, left: Duration) -> Result<(), Error> {
    let within = attempt_within(&desk.client, left);
    let releases = desk.adrift().into_iter().map(async |(item, token)| {
        let release = Release { token: Some(token), keep_assignment: false };
        match desk.client.release(&item, &release).within(within).await {
            Ok(_) | Err(Error::Refused(_) | Error::Invalid(_)) => {
                desk.forget(token);
                Ok(())
            }
            Err(error) => Err(error),
        }
    });
    join_all(releases).await.into_iter().collect()
}

/// Renews the whole session in one request.
async fn together(desk: &Desk, leases: &[Arc<LeaseState>], alive_for: Duration) -> Result<(), Error> {
    let expected = |lease: &Arc<LeaseState>| Expected { item: lease.item.clone(), token: lease.token };
    let all = RenewAll { lease_for_ms: None, expected: leases.iter().map(expected).collect() };
    let left = leases.iter().map(|lease| lease.remaining()).fold(alive_for, Ord::min);
    let call = desk.client.renew_all(&all).within(left).attempt_within(attempt_within(&desk.client, left));
    let answer = call.reply().await?;
    let renewed = answer.value;
    for lease in leases {
        if renewed.lost.contains(&lease.item) {
            lease.lose(Lost::Ended);
            continue;
        }
        let cancel_requested = renewed.cancel_requested.contains(&lease.item);
        // The answer describes the lease that ends first. If that one is being cancelled, the answer says nothing about
        // the others: each of them is renewed separately at once.
        if !renewed.cancel_requested.is_empty() && !cancel_requested {
            continue;
        }
        lease.update(LeaseReply {
            sent_at: answer.sent_at,
            expires_in_ms: renewed.expires_in_ms.unwrap_or(0),
            renew_after_ms: renewed.renew_after_ms.unwrap_or(0),
            cancel_requested,
            line_length: None,
        });
    }
    if renewed.drain {
        desk.drain.cancel();
    }
    Ok(())
}

async fn one_by_one(desk: &Desk, leases: &[Arc<LeaseState>]) -> Result<(), Error> {
    let now = desk.client.clock().now();
    let due = leases.iter().filter(|lease| lease.renew_at() <= now);
    let renewals = join_all(due.map(|lease| async { (lease.clone(), renew_once(&desk.client, lease).await) })).await;
    let mut failed = Ok(());
    for (lease, renewal) in renewals {
        match renewal {
            Err(error) if is_loss(&error) => lease.lose(loss(&error)),
            Err(error) => failed = Err(error),
            Ok(()) => {}
        }
    }
    failed
}
