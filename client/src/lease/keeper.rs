//! Keeps one lease alive: renews it in time, retries until a node answers or the lease is over, and never renews after
//! that.

use super::state::{LeaseReply, LeaseState, Lost};
use crate::retry::backoff;
use crate::{Client, Error};
use api::Code;
use api::hold::{Renew, Renewed};
use api::words::ItemState;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The shortest time limit for one renewal attempt, however little is left of the lease.
const ATTEMPT_MIN: Duration = Duration::from_millis(250);
/// Time limit for finding out why a lease is gone. No work waits for it.
const EXPLAIN_WITHIN: Duration = Duration::from_secs(5);
/// How many of the caller's own leases are searched for one of another session.
const CARRIED: usize = 1_000;

/// Renews a lease until it is over, and finds out why it ended.
pub(super) async fn keep(client: Client, state: Arc<LeaseState>) {
    tokio::select! {
        biased;
        () = state.over.cancelled() => {}
        () = state.lapse() => {}
        () = renew(&client, &state) => {}
    }
    explain(&client, &state).await;
}

/// Like [`keep`], for a lease that is renewed elsewhere.
pub(super) async fn guard(client: Client, state: Arc<LeaseState>) {
    tokio::select! {
        biased;
        () = state.over.cancelled() => {}
        () = state.lapse() => {}
        () = state.gone.cancelled() => {}
    }
    explain(&client, &state).await;
}

async fn renew(client: &Client, state: &LeaseState) {
    let mut failed = 0;
    loop {
        state.due().await;
        // After the machine slept, both the renewal and the end of the lease may be due.
        if state.remaining().is_zero() {
            return state.lose(Lost::Lapsed);
        }
        match renew_once(client, state).await {
            Ok(()) => failed = 0,
            Err(error) if is_loss(&error) => return state.lose(loss(&error)),
            Err(error) => {
                failed += 1;
                tracing::warn!(item = %state.item, %error, left = ?state.remaining(), "could not renew a lease; retrying");
                sleep(backoff(failed)).await;
            }
        }
    }
}

pub(crate) async fn renew_once(client: &Client, state: &LeaseState) -> Result<(), Error> {
    let left = state.remaining();
    let attempt = attempt_within(client, left);
    let renew = Renew { token: state.token, lease_for_ms: None };
    let answer = client.renew(&state.item, &renew).within(left).attempt_within(attempt).reply().await?;
    state.update(lease_reply(&answer.value, answer.sent_at));
    Ok(())
}

/// Time limit for one attempt, so that several fit into what is left of a lease.
pub(crate) fn attempt_within(client: &Client, left: Duration) -> Duration {
    (left / 4).clamp(ATTEMPT_MIN, client.shared.attempt_within.max(ATTEMPT_MIN))
}

fn lease_reply(renewed: &Renewed, sent_at: crate::Moment) -> LeaseReply {
    LeaseReply {
        sent_at,
        expires_in_ms: renewed.expires_in_ms,
        renew_after_ms: renewed.renew_after_ms,
        cancel_requested: renewed.cancel_requested,
        line_length: Some(renewed.line_length),
    }
}

/// Whether a refusal says that the lease is gone. After any other error a retry may succeed.
pub(crate) fn is_loss(error: &Error) -> bool {
    matches!(error.code(), Some(Code::LeaseLost | Code::NotHolder | Code::StaleToken | Code::NotFound))
}

pub(crate) fn loss(error: &Error) -> Lost {
    match error.code() {
        Some(code @ Code::NotFound) => Lost::Denied(code),
        _ => Lost::Ended,
    }
}

async fn explain(client: &Client, state: &LeaseState) {
    let why = match state.lost() {
        Some(Lost::Ended) => find_out(client, state).await,
        _ => None,
    };
    state.explain(why);
}

async fn find_out(client: &Client, state: &LeaseState) -> Option<Lost> {
    let item = match client.item(&state.item).within(EXPLAIN_WITHIN).await {
        Ok(item) => item,
        Err(error) => return error.code().map(Lost::Denied),
    };
    Some(match item.state {
        ItemState::Cancelled => Lost::Cancelled,
        ItemState::Complete | ItemState::Error => Lost::Finished,
        _ if !item.claimed => Lost::Revoked,
        _ => {
            let carrying = client.carrying(Some(CARRIED)).within(EXPLAIN_WITHIN).await.ok()?;
            let is_own = carrying.leased.iter().any(|carried| carried.id == state.item);
            if is_own { Lost::TakenOver } else { Lost::Replaced }
        }
    })
}
