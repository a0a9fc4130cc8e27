//! The state of a connection and its deadline: waiting for a request, reading one, answering, or stuck.
//!
//! hyper has one limit for both the wait between requests and the reading of a head, and none for a caller that does
//! not read its response. Here each has a separate limit.

use super::ServerLimits;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// After the last byte was sent, incoming bytes are read and dropped for this long.
const LINGER_WITHIN: Duration = Duration::from_secs(1);
/// Time for a connection to end after it was asked to and nothing is in flight.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pulse {
    limits: PulseLimits,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
struct PulseLimits {
    head_within: Duration,
    idle_within: Duration,
    taken_within: Duration,
}

#[derive(Debug)]
struct State {
    /// Requests in the router that are not fully answered.
    in_flight: usize,
    has_asked: bool,
    is_http2: bool,
    idle_since: Instant,
    told_at: Option<Instant>,
    head_since: Option<Instant>,
    /// Responses with bytes that the caller has to read, and when it last read some.
    answers: usize,
    taken_at: Instant,
    lingering_since: Option<Instant>,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// No requests. The connection can be closed gracefully, as far as its protocol supports that.
    Idle,
    /// The caller does not send or read as it should.
    Stuck,
}

impl Pulse {
    pub(super) fn new(limits: &ServerLimits, now: Instant) -> Self {
        let ServerLimits { head_within, idle_within, taken_within, .. } = *limits;
        Self {
            limits: PulseLimits { head_within, idle_within, taken_within },
            state: Mutex::new(State {
                in_flight: 0,
                has_asked: false,
                is_http2: false,
                idle_since: now,
                told_at: None,
                head_since: None,
                answers: 0,
                taken_at: now,
                lingering_since: None,
            }),
        }
    }

    /// The head of a request arrived. The request is in flight until the guard is dropped.
    pub(super) fn asked(self: &Arc<Self>, is_http2: bool) -> InFlight {
        let mut state = self.lock();
        state.in_flight += 1;
        state.has_asked = true;
        state.is_http2 = is_http2;
        state.head_since = None;
        InFlight { pulse: self.clone(), waits_for_caller: false }
    }

    /// Requests that are not fully answered.
    pub(super) fn in_flight(&self) -> usize {
        self.lock().in_flight
    }

    pub(super) fn has_read(&self) {
        let mut state = self.lock();
        if state.in_flight == 0 && state.head_since.is_none() {
            state.head_since = Some(Instant::now());
        }
    }

    /// The connection must end when nothing is in flight.
    pub(super) fn told(&self) {
        self.lock().told_at.get_or_insert_with(Instant::now);
    }

    pub(super) fn lingers(&self) {
        self.lock().lingering_since.get_or_insert_with(Instant::now);
    }

    /// The deadline of the current state, and why the connection is closed if nothing changes by then.
    pub(super) fn deadline(&self) -> Option<(Instant, Overdue)> {
        let PulseLimits { head_within, idle_within, taken_within } = self.limits;
        let state = self.lock();
        if let Some(since) = state.lingering_since {
            return Some((since + LINGER_WITHIN, Overdue::Stuck));
        }
        // The kernel notices when sent bytes are not read. But an HTTP/2 caller may also close its flow-control window.
        let untaken = (state.answers > 0).then(|| (state.taken_at + taken_within, Overdue::Stuck));
        let quiet = if state.in_flight > 0 {
            None
        } else if let Some(told_at) = state.told_at {
            Some((told_at.max(state.idle_since) + CLOSE_WITHIN, Overdue::Stuck))
        } else if !state.has_asked {
            Some((state.idle_since + head_within, Overdue::Stuck))
        } else {
            // On HTTP/2 bytes arrive without a request, for example answers to pings.
            let head = state.head_since.filter(|_| !state.is_http2);
            Some(match head {
                Some(since) => (since + head_within, Overdue::Stuck),
                None => (state.idle_since + idle_within, Overdue::Idle),
            })
        };
        [untaken, quiet].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// How long to sleep when there is no deadline.
    pub(super) fn rest(&self) -> Duration {
        self.limits.idle_within
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request of the connection, until it is answered or abandoned.
#[derive(Debug)]
pub(super) struct InFlight {
    pulse: Arc<Pulse>,
    waits_for_caller: bool,
}

impl InFlight {
    /// Bytes of the response are ready. The caller has to read them, and has read the previous ones.
    pub(super) fn is_there(&mut self) {
        let mut state = self.pulse.lock();
        state.answers += usize::from(!self.waits_for_caller);
        state.taken_at = Instant::now();
        self.waits_for_caller = true;
    }

    /// The caller has read all ready bytes; the handler has to produce more.
    pub(super) fn is_through(&mut self) {
        if self.waits_for_caller {
            self.pulse.lock().answers -= 1;
            self.waits_for_caller = false;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.pulse.lock();
        if self.waits_for_caller {
            state.answers -= 1;
            state.taken_at = now;
        }
        state.in_flight -= 1;
        if state.in_flight == 0 {
            state.idle_since = now;
            state.head_since = None;
        }
    }
}
