//! The state of one lease: until when it is certainly held, and why it was lost. Measured on this machine's own clock,
//! so that work stops in time even if no node answers.

use crate::clock::{Clock, Moment};
use api::Code;
use api::names::Number;
use lease::names::ItemId;
use lease::numbers::Token;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Timers do not count the machine's sleep, so the clock is read at least this often.
const LOOK: Duration = Duration::from_secs(1);

/// The shortest pause between renewals, for a near end that renewals do not move.
const RENEW_MIN: Duration = Duration::from_millis(100);

/// Why a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It was not renewed in time, by this machine's own clock.
    Lapsed,
    /// Nodes say that it ended early; the reason is not known yet, or cannot be found out.
    Ended,
    /// The item was cancelled.
    Cancelled,
    /// The item is complete or failed for good.
    Finished,
    /// Another session of the same actor holds the item.
    TakenOver,
    /// Somebody else holds the item.
    Replaced,
    /// Nobody holds the item: an operator ended the lease.
    Revoked,
    /// The caller may no longer see the item.
    Denied(Code),
    /// The holder released, reserved, completed, failed or handed on the item.
    GivenBack,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lapsed => f.write_str("the lease was not renewed in time"),
            Self::Ended => f.write_str("the lease was ended"),
            Self::Cancelled => f.write_str("the item was cancelled"),
            Self::Finished => f.write_str("the item is finished"),
            Self::TakenOver => f.write_str("another session of the same actor took over"),
            Self::Replaced => f.write_str("somebody else holds the item"),
            Self::Revoked => f.write_str("the lease was revoked"),
            Self::Denied(code) => write!(f, "the caller may no longer see the item: {}", code.name()),
            Self::GivenBack => f.write_str("the lease was released"),
        }
    }
}

/// What an answer says about a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseReply {
    /// When the answered request was sent.
    pub(crate) sent_at: Moment,
    pub(crate) expires_in_ms: u64,
    pub(crate) renew_after_ms: u64,
    pub(crate) cancel_requested: bool,
    /// If the answer contains it.
    pub(crate) line_length: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct LeaseState {
    pub(crate) item: ItemId,
    pub(crate) token: Token,
    clock: Clock,
    current: Mutex<Current>,
    /// Fires when the work has to stop.
    pub(crate) stop: CancellationToken,
    /// Fires when cancellation of the item is requested.
    pub(crate) wind_down: CancellationToken,
    /// Fires when the lease is lost, after `stop`.
    pub(crate) gone: CancellationToken,
    /// Fires when the lease need not be kept any more.
    pub(crate) over: CancellationToken,
    /// Fires when the reason of the loss is known, or cannot be found out.
    pub(crate) explained: CancellationToken,
    /// Notifies when the time of the next renewal has changed.
    moved: Notify,
}

#[derive(Debug)]
struct Current {
    valid_until: Moment,
    renew_at: Moment,
    line_length: u32,
    revision: Option<Number>,
    lost: Option<Lost>,
}

impl LeaseState {
    pub(crate) fn new(item: ItemId, token: Token, clock: Clock, revision: Option<Number>, reply: LeaseReply) -> Self {
        let state = Self {
            item,
            token,
            clock,
            current: Mutex::new(Current {
                valid_until: reply.sent_at,
                renew_at: reply.sent_at,
                line_length: 0,
                revision,
                lost: None,
            }),
            stop: CancellationToken::new(),
            wind_down: CancellationToken::new(),
            gone: CancellationToken::new(),
            over: CancellationToken::new(),
            explained: CancellationToken::new(),
            moved: Notify::new(),
        };
        state.update(reply);
        state
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a node's answer. One hundredth of the lease is not used, because clocks run at different rates.
    pub(crate) fn update(&self, reply: LeaseReply) {
        let span = Duration::from_millis(reply.expires_in_ms - reply.expires_in_ms.div_ceil(100));
        let until = reply.sent_at.after(span);
        let mut current = self.current();
        // Only a cancellation moves the end earlier.
        current.valid_until = if reply.cancel_requested { until } else { until.max(current.valid_until) };
        current.renew_at = reply.sent_at.after(Duration::from_millis(reply.renew_after_ms).max(RENEW_MIN));
        current.line_length = reply.line_length.unwrap_or(current.line_length);
        drop(current);
        if reply.cancel_requested {
            self.wind_down.cancel();
        }
        self.moved.notify_waiters();
    }

    /// Marks the lease as lost and stops the work. The first reason is kept.
    pub(crate) fn lose(&self, why: Lost) {
        let mut current = self.current();
        if current.lost.is_none() {
            current.lost = Some(why);
        }
        drop(current);
        self.stop.cancel();
        self.gone.cancel();
    }

    /// Sets the reason of the loss, now that it is known.
    pub(crate) fn explain(&self, why: Option<Lost>) {
        let mut current = self.current();
        if current.lost == Some(Lost::Ended) {
            current.lost = Some(why.unwrap_or(Lost::Ended));
        }
        drop(current);
        self.explained.cancel();
    }

    pub(crate) fn lost(&self) -> Option<Lost> {
        self.current().lost.clone()
    }

    pub(crate) fn valid_until(&self) -> Moment {
        self.current().valid_until
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self.lost() {
            Some(_) => Duration::ZERO,
            None => self.clock.now().until(self.valid_until()),
        }
    }

    pub(crate) fn renew_at(&self) -> Moment {
        self.current().renew_at
    }

    pub(crate) fn line_length(&self) -> u32 {
        self.current().line_length
    }

    pub(crate) fn revision(&self) -> Option<Number> {
        self.current().revision
    }

    pub(crate) fn saw(&self, revision: Number) {
        self.current().revision = Some(revision);
    }

    /// Stops the work at the end of the lease, whether or not a node answers.
    pub(crate) async fn lapse(&self) {
        loop {
            let left = self.clock.now().until(self.valid_until());
            if left.is_zero() {
                self.lose(Lost::Lapsed);
                return;
            }
            sleep(left.min(LOOK)).await;
        }
    }

    /// Waits until the lease is due for renewal.
    pub(crate) async fn due(&self) {
        loop {
            let moved = self.moved.notified();
            let left = self.clock.now().until(self.renew_at());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left.min(LOOK)) => {}
                () = moved => {}
            }
        }
    }
}
