//! Keeps one lease alive: renews it in time, again and again until it is answered or the lease is over, and never after.

use super::hold::{Hold, Lost, Word};
use crate::retry::backoff;
use crate::{Client, Error};
use api::Code;
use api::hold::{Renew, Renewed};
use api::words::ItemState;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// A node that does not answer a renewal for so long is given up, however long the lease still is.
const ATTEMPT_MIN: Duration = Duration::from_millis(250);
/// To find out why a lease is gone. Nobody's work waits for it.
const EXPLAIN_WITHIN: Duration = Duration::from_secs(5);
/// What of the caller's own leases is looked through to find one of another session.
const CARRIED: usize = 1_000;

/// Until the lease is over, one way or the other.
pub(super) async fn keep(client: Client, hold: Arc<Hold>) {
    tokio::select! {
        biased;
        () = hold.over.cancelled() => {}
        () = hold.lapse() => {}
        () = renew(&client, &hold) => {}
    }
    explain(&client, &hold).await;
}

/// As [`keep`], where somebody else renews.
pub(super) async fn guard(client: Client, hold: Arc<Hold>) {
    tokio::select! {
        biased;
        () = hold.over.cancelled() => {}
        () = hold.lapse() => {}
        () = hold.gone.cancelled() => {}
    }
    explain(&client, &hold).await;
}

async fn renew(client: &Client, hold: &Hold) {
    let mut failed = 0;
    loop {
        hold.due().await;
        // After a sleep both are due: the moment to renew, and the end.
        if hold.remaining().is_zero() {
            return hold.lose(Lost::Lapsed);
        }
        match renew_once(client, hold).await {
            Ok(()) => failed = 0,
            Err(error) if is_loss(&error) => return hold.lose(loss(&error)),
            Err(error) => {
                failed += 1;
                tracing::warn!(item = %hold.item, %error, left = ?hold.remaining(), "a lease was not renewed yet");
                sleep(backoff(failed)).await;
            }
        }
    }
}

pub(crate) async fn renew_once(client: &Client, hold: &Hold) -> Result<(), Error> {
    let left = hold.remaining();
    let attempt = attempt_within(client, left);
    let renew = Renew { token: hold.token, lease_for_ms: None };
    let answer = client.renew(&hold.item, &renew).within(left).attempt_within(attempt).answered().await?;
    hold.heard(word_of(&answer.value, answer.sent_at));
    Ok(())
}

/// Several attempts fit into what is left of a lease.
pub(crate) fn attempt_within(client: &Client, left: Duration) -> Duration {
    (left / 4).clamp(ATTEMPT_MIN, client.shared.attempt_within.max(ATTEMPT_MIN))
}

fn word_of(renewed: &Renewed, sent_at: crate::Moment) -> Word {
    Word {
        sent_at,
        expires_in_ms: renewed.expires_in_ms,
        renew_after_ms: renewed.renew_after_ms,
        cancel_requested: renewed.cancel_requested,
        line_length: Some(renewed.line_length),
    }
}

/// Whether a refusal says that the lease is gone. All else may be different the next time.
pub(crate) fn is_loss(error: &Error) -> bool {
    matches!(error.code(), Some(Code::LeaseLost | Code::NotHolder | Code::StaleToken | Code::NotFound))
}

pub(crate) fn loss(error: &Error) -> Lost {
    match error.code() {
        Some(code @ Code::NotFound) => Lost::Denied(code),
        _ => Lost::Ended,
    }
}

async fn explain(client: &Client, hold: &Hold) {
    let why = match hold.lost() {
        Some(Lost::Ended) => find_out(client, hold).await,
        _ => None,
    };
    hold.explain(why);
}

async fn find_out(client: &Client, hold: &Hold) -> Option<Lost> {
    let item = match client.item(&hold.item).within(EXPLAIN_WITHIN).await {
        Ok(item) => item,
        Err(error) => return error.code().map(Lost::Denied),
    };
    Some(match item.state {
        ItemState::Cancelled => Lost::Cancelled,
        ItemState::Complete | ItemState::Error => Lost::Finished,
        _ if !item.claimed => Lost::Revoked,
        _ => {
            let carrying = client.carrying(Some(CARRIED)).within(EXPLAIN_WITHIN).await.ok()?;
            let is_own = carrying.leased.iter().any(|carried| carried.id == hold.item);
            if is_own { Lost::TakenOver } else { Lost::Replaced }
        }
    })
}
