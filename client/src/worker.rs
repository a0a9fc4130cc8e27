//! A worker: takes the next items of a queue, runs the work for each, and reports the result.
//!
//! One heartbeat renews all of its leases. The worker uses its own session, so that the heartbeat renews only this
//! worker's leases.

mod carry_out;
mod desk;
mod heartbeat;
mod job;

pub use job::{Job, JobFailure};

use crate::client::random_name;
use crate::config::Session;
use crate::retry::{REPEAT_WITHIN, backoff};
use crate::{Client, Error, Moment, Reply};
use api::Code;
use api::claim::{Dispatched, Next};
use api::hold::Release;
use api::limits::{COUNT_MAX, POLL_MAX};
use api::names::Cursor;
use api::words::{EmptyReason, Order, RunsIn};
use api::worker::Register;
use desk::Desk;
use lease::names::{Label, Phase, QueueName};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Time for running work to finish when the worker stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(30);
/// How many of the actor's leases are searched for those that nobody works on.
const CARRIED: usize = 1_000;
/// A worker without a heartbeat for this long is shown as quiet.
const ALIVE_FOR: Duration = Duration::from_secs(60);

/// Why a worker stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Its program or a signal stopped it.
    Shutdown,
    /// An operator drains it.
    Drained,
}

/// A worker that is not running yet.
#[derive(Clone, Debug)]
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    client: Client,
    queue: QueueName,
    next: Next,
    register: Register,
    concurrency: usize,
    progress_within: Option<Duration>,
    drain_within: Duration,
    session: Session,
}

impl Worker {
    pub fn new(client: &Client, queue: &QueueName) -> Self {
        Self {
            client: client.clone(),
            queue: queue.clone(),
            next: Next::default(),
            register: Register {
                capabilities: Vec::new(),
                labels: Vec::new(),
                mode: RunsIn::Any,
                alive_for_ms: millis(ALIVE_FOR),
            },
            concurrency: 1,
            progress_within: None,
            drain_within: DRAIN_WITHIN,
            session: Session::Random,
        }
    }

    /// Items to work on at a time. By default 1.
    pub fn concurrency(mut self, items: usize) -> Self {
        self.concurrency = items.max(1);
        self
    }

    /// The worker's capabilities: it gets only items that need no others.
    pub fn capabilities(mut self, capabilities: impl IntoIterator<Item = Label>) -> Self {
        self.register.capabilities = capabilities.into_iter().collect();
        self
    }

    /// Labels of the worker, for operators.
    pub fn labels(mut self, labels: impl IntoIterator<Item = Label>) -> Self {
        self.register.labels = labels.into_iter().collect();
        self
    }

    pub fn mode(mut self, mode: RunsIn) -> Self {
        self.register.mode = mode;
        self.next.mode = Some(mode);
        self
    }

    /// The lease duration. By default the queue's. If it is short, a crash is noticed sooner; one heartbeat renews all
    /// leases.
    pub fn lease_for(mut self, span: Duration) -> Self {
        self.next.lease_for_ms = Some(millis(span));
        self
    }

    /// Takes only items with all of these labels.
    pub fn with_labels(mut self, labels: impl IntoIterator<Item = Label>) -> Self {
        self.next.labels = labels.into_iter().collect();
        self
    }

    /// Takes only items in this phase.
    pub fn phase(mut self, phase: Phase) -> Self {
        self.next.phase = Some(phase);
        self
    }

    pub fn order(mut self, order: Order) -> Self {
        self.next.order = Some(order);
        self
    }

    /// If work does not call [`Job::progress`] for this long, its lease is no longer renewed, and the work is stopped
    /// when the lease ends.
    pub fn progress_within(mut self, span: Duration) -> Self {
        self.progress_within = Some(span);
        self
    }

    /// Time for running work to finish when the worker stops. Then the work is stopped and its items are released.
    pub fn drain_within(mut self, span: Duration) -> Self {
        self.drain_within = span;
        self
    }

    /// The session of the worker. By default a random one. The heartbeat also renews other leases that are held in the
    /// session.
    pub fn in_session(mut self, session: Session) -> Self {
        self.session = session;
        self
    }

    /// Runs the worker until SIGTERM or SIGINT, or until an operator drains it.
    ///
    /// # Errors
    /// If nodes refuse this worker: see [`Error::Refused`].
    pub async fn run<W, F>(self, work: W) -> Result<Stopped, Error>
    where
        W: Fn(Job) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Option<String>, JobFailure>> + Send + 'static,
    {
        let invalid = |error: std::io::Error| Error::Invalid(format!("cannot listen for signals: {error}"));
        let mut terminate = signal(SignalKind::terminate()).map_err(invalid)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(invalid)?;
        let shutdown = CancellationToken::new();
        let heard = shutdown.clone();
        let _signals = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            heard.cancel();
        }));
        self.run_until(shutdown, work).await
    }

    /// Runs the worker until `shutdown` is cancelled, or until an operator drains it.
    ///
    /// # Errors
    /// If nodes refuse this worker: see [`Error::Refused`].
    pub async fn run_until<W, F>(self, shutdown: CancellationToken, work: W) -> Result<Stopped, Error>
    where
        W: Fn(Job) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Option<String>, JobFailure>> + Send + 'static,
    {
        let client = self.client.in_session(self.session.clone())?;
        let desk = Arc::new(Desk::new(client.clone(), self.progress_within));
        if let Some(stopped) = self.begin(&client, &shutdown).await? {
            return Ok(stopped);
        }
        let beat = heartbeat::run(desk.clone(), Duration::from_millis(self.register.alive_for_ms));
        let beating = AbortOnDropHandle::new(tokio::spawn(beat));
        let mut jobs = JoinSet::new();
        let ended = self.take(&desk, &shutdown, &Arc::new(work), &mut jobs).await;
        let finishing = async { while jobs.join_next().await.is_some() {} };
        if timeout(self.drain_within, finishing).await.is_err() {
            desk.kill.cancel();
            while jobs.join_next().await.is_some() {}
        }
        drop(beating);
        ended
    }

    /// Registers the worker; retries without a limit, because a worker may start before its nodes.
    async fn begin(&self, client: &Client, shutdown: &CancellationToken) -> Result<Option<Stopped>, Error> {
        let mut failed = 0;
        loop {
            let registered = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(Some(Stopped::Shutdown)),
                registered = client.register_worker(&self.register) => registered,
            };
            match registered {
                Ok(registered) => return Ok(registered.draining.then_some(Stopped::Drained)),
                Err(error @ (Error::Unavailable { .. } | Error::Unknown { .. })) => {
                    failed += 1;
                    tracing::warn!(queue = %self.queue, %error, "could not register the worker; retrying");
                    sleep(backoff(failed)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks for items while there is room for them.
    async fn take<W, F>(
        &self,
        desk: &Arc<Desk>,
        shutdown: &CancellationToken,
        work: &Arc<W>,
        jobs: &mut JoinSet<()>,
    ) -> Result<Stopped, Error>
    where
        W: Fn(Job) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Option<String>, JobFailure>> + Send + 'static,
    {
        let room = Arc::new(Semaphore::new(self.concurrency));
        let mut cursor = None;
        let mut failed = 0;
        let mut open: Option<PendingNext> = None;
        loop {
            while jobs.try_join_next().is_some() {}
            let is_room = async {
                // Only waits for a free permit: the semaphore is never closed.
                drop(room.acquire().await);
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(Stopped::Shutdown),
                () = desk.drain.cancelled() => return Ok(Stopped::Drained),
                () = is_room => {}
            }
            let free = u32::try_from(room.available_permits()).unwrap_or(COUNT_MAX);
            let mut pending = match open.take() {
                Some(pending) => pending,
                None => self.pending(desk, free, cursor.take())?,
            };
            let asked_at = Instant::now();
            let answer = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(Stopped::Shutdown),
                () = desk.drain.cancelled() => return Ok(Stopped::Drained),
                answer = pending.send() => answer,
            };
            match answer {
                Ok((Dispatched::Granted { grants }, sent_at)) => {
                    failed = 0;
                    for grant in grants {
                        let place = room.clone().try_acquire_owned();
                        let job = desk.take(grant, sent_at);
                        let (desk, work) = (desk.clone(), work.clone());
                        jobs.spawn(async move {
                            carry_out::carry_out(&desk, job, &*work).await;
                            drop(place);
                        });
                    }
                    continue;
                }
                Ok((Dispatched::Empty { reason: EmptyReason::WorkerDraining, .. }, _)) => return Ok(Stopped::Drained),
                Ok((Dispatched::Empty { cursor: Some(next), .. }, _)) => {
                    cursor = Some(next);
                    continue;
                }
                Ok((Dispatched::Empty { cursor: None, .. }, _)) => {
                    // The node waited until now, unless it is stopping or the queue grants nothing.
                    failed = if asked_at.elapsed() < Duration::from_secs(1) { failed + 1 } else { 0 };
                }
                Err(error) if error.code() == Some(Code::WorkerDraining) => return Ok(Stopped::Drained),
                Err(error @ (Error::Refused(_) | Error::Invalid(_))) if !error.may_retry() => return Err(error),
                Err(error) => {
                    failed += 1;
                    tracing::warn!(queue = %self.queue, %error, "could not get items; retrying");
                    if pending.is_late() {
                        tokio::select! {
                            () = shutdown.cancelled() => return Ok(Stopped::Shutdown),
                            () = pending.give_up() => {}
                        }
                    }
                    open = pending.open_since.is_some().then_some(pending);
                }
            }
            if failed > 0 {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = sleep(backoff(failed)) => {}
                }
            }
        }
    }

    fn pending(&self, desk: &Arc<Desk>, free: u32, cursor: Option<Cursor>) -> Result<PendingNext, Error> {
        Ok(PendingNext {
            desk: desk.clone(),
            queue: self.queue.clone(),
            next: self.next_request(free, cursor),
            key: random_name()?,
            open_since: None,
            is_alone: self.session == Session::Random,
        })
    }

    fn next_request(&self, free: u32, cursor: Option<Cursor>) -> Next {
        Next {
            count: Some(free.clamp(1, COUNT_MAX)),
            capabilities: Some(self.register.capabilities.clone()),
            cursor,
            wait_ms: Some(millis(POLL_MAX)),
            ..self.next.clone()
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// A request for items that may have been granted without the worker knowing. If it got no answer, it is repeated. If
/// it is dropped before its answer, the items that it got are released.
struct PendingNext {
    desk: Arc<Desk>,
    queue: QueueName,
    next: Next,
    key: String,
    /// When it was first sent, while there is no answer.
    open_since: Option<Moment>,
    /// Whether the session holds only this worker's leases.
    is_alone: bool,
}

impl PendingNext {
    async fn send(&mut self) -> Result<(Dispatched, Moment), Error> {
        let call = self.desk.client.next(&self.queue, &self.next).key(&self.key);
        let now = self.desk.client.clock().now();
        let call = match self.open_since {
            Some(since) => call.repeated(since.until(now)),
            None => call,
        };
        self.open_since.get_or_insert(now);
        let answer = call.reply().await;
        if !matches!(answer, Err(Error::Unknown { .. })) {
            self.open_since = None;
        }
        answer.map(|Reply { value, sent_at, .. }| (value, sent_at))
    }

    /// Whether nodes may have forgotten its result by now.
    fn is_late(&self) -> bool {
        let now = self.desk.client.clock().now();
        self.open_since.is_some_and(|since| since.until(now) >= REPEAT_WITHIN)
    }

    /// Releases what it may have been granted, so that a new request can be sent. Stays open if no node answers.
    async fn give_up(&mut self) {
        if !self.is_alone || give_back(&self.desk).await {
            self.open_since = None;
        }
    }
}

impl Drop for PendingNext {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.open_since.is_some() && self.is_alone {
            let desk = self.desk.clone();
            let giving_back = async move {
                give_back(&desk).await;
            };
            self.desk.client.shared.background.spawn_on(giving_back, &runtime);
        }
    }
}

/// Releases what the session holds and nobody works on. It lists the leases, because asking again might take another
/// item. Returns false if that failed.
async fn give_back(desk: &Desk) -> bool {
    let leased = match desk.client.carrying(Some(CARRIED)).await {
        Ok(carrying) => carrying.leased,
        Err(error) => {
            tracing::debug!(%error, "could not list the worker's leases");
            return false;
        }
    };
    let own = leased.into_iter().filter_map(|item| Some((item.id, item.token?)));
    for (item, token) in own.filter(|(_, token)| !desk.has(*token)) {
        let release = Release { token: Some(token), keep_assignment: false };
        if let Err(error) = desk.client.release(&item, &release).await {
            tracing::debug!(%item, %error, "could not release an item that nobody works on");
            if !matches!(error, Error::Refused(_)) {
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests;
