//! The proposer: many callers share one append. While a batch is on its way, whatever arrives forms the next one.
//!
//! On the leader a batch is stamped when it is sealed and proposed under the leadership its stamp belongs to; on a
//! follower it goes to the leader in one frame, unstamped. What may have happened is never reported as failed: a
//! batch that was not taken is tried again until its callers' time is over, a batch whose answer was lost is unknown.

use crate::calls::{Calls, Forwarded};
use crate::clock::Clock;
use crate::disk_space::DiskSpace;
use crate::leadership::known_leader;
use futures_util::future::{self, Either};
use lease::answer_size::GRANT_BYTES_MAX;
use lease::numbers::Wall;
use lease::sabotage::{Broken, is_broken};
use lease::{Entry, Outcome, Request};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::InstantOf;
use openraft::{Instant as _, Raft, RaftTypeConfig};
use raft_store::histogram::{Histogram, LATENCY_NANOS, SIZES};
use raft_store::state::Machine;
use raft_store::state::disk::StateDisk;
use raft_store::types::{NodeId, Proposal, Types};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// One entry holds at most so many commands: what shares an append also shares its latency.
const BATCH_COMMANDS: usize = 1_024;
/// And about so many bytes; a single larger command goes alone.
const BATCH_BYTES: usize = 1024 * 1024;
/// What one caller may send at once: it has to fit into a frame between nodes and an entry of the log, with room.
pub const SUBMISSION_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What the answers to a batch may take: they come back from the leader in one frame, with room for what is around them.
pub const ANSWERS_BYTES_MAX: usize = 16 * 1024 * 1024 - 1024;
/// A grant shows its item, but also the largest one takes no claim's place in a batch. Nor is any single command too large.
const _: () = assert!(BATCH_COMMANDS * GRANT_BYTES_MAX <= ANSWERS_BYTES_MAX && lease::bounds::BATCH < BATCH_COMMANDS);
/// Callers that wait for the next batch. Beyond it a caller waits before it is taken up.
const QUEUE: usize = 4_096;
/// An answer that takes longer is lost: the callers are told that they cannot know.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A leader that was replaced, and does not answer within this time from then, is not waited for.
const REPLACED_ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// Between two looks for a leader.
const LEADER_RETRY: Duration = Duration::from_millis(20);

/// What callers are told.
const LOW_ON_DISK: &str = "disk space is low: until there is room, only what keeps or ends a lease is taken, such as renew, release and complete";

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOutcome {
    /// It did not happen and will not: it may be sent again, to any node.
    Unavailable(String),
    /// It did not happen: disks are short of space, and this neither keeps nor ends what is held. It may be sent again later.
    LowOnDisk(String),
    /// It did not happen, and never will: the commands, or what their answers could take, are more than is taken at once.
    TooLarge { what: &'static str, bytes: usize, max: usize },
    /// It may have happened, or may still. Send it again under the same request id to learn which.
    Unknown(String),
    /// This attempt was refused, and an earlier one may still happen. Asking again at once would tell no more.
    InDoubt(String),
}

impl fmt::Display for NoOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) | Self::LowOnDisk(why) => write!(f, "unavailable: {why}"),
            Self::TooLarge { what, bytes, max } => {
                write!(f, "too large: {what} of {bytes} bytes, at most {max} are taken at once")
            }
            Self::Unknown(why) | Self::InDoubt(why) => write!(f, "unknown whether it happened: {why}"),
        }
    }
}

impl std::error::Error for NoOutcome {}

/// Runtime of the type parameters' responders.
pub trait Responds:
    Types + RaftTypeConfig<Responder<ClientWriteResult<Self>> = ProgressResponder<Self, ClientWriteResult<Self>>>
{
}

impl<C> Responds for C where
    C: Types + RaftTypeConfig<Responder<ClientWriteResult<C>> = ProgressResponder<C, ClientWriteResult<C>>>
{
}

/// Commands of one caller, with the way back.
struct Submission<C: Types> {
    requests: Vec<Request>,
    size: Size,
    /// Nothing of it is sent after this.
    send_by: InstantOf<C>,
    /// A follower's own: a leader does not send on what was sent to it.
    may_forward: bool,
    /// Of the request that it belongs to: what is said of it carries the request's trace.
    span: tracing::Span,
    answer: oneshot::Sender<Result<Vec<Outcome>, NoOutcome>>,
}

impl<C: Types> Submission<C> {
    /// It is taken also while disk space is low; so is a tick.
    fn keeps_or_ends(&self) -> bool {
        self.requests.iter().all(|request| request.command.keeps_or_ends())
    }
}

/// What a batch is bounded by.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    commands: usize,
    bytes: usize,
    /// What their answers take at most.
    answers: usize,
}

impl Size {
    fn of(requests: &[Request]) -> Self {
        let answer = |request: &Request| request.command.answer_bytes_max();
        Self {
            commands: requests.len(),
            bytes: requests.iter().map(lease::encoding::encoded_len).sum(),
            answers: if is_broken(Broken::LongAnswers) { 0 } else { requests.iter().map(answer).sum() },
        }
    }

    fn with(self, other: Self) -> Self {
        Self {
            commands: self.commands + other.commands,
            bytes: self.bytes + other.bytes,
            answers: self.answers + other.answers,
        }
    }

    fn fits(self) -> bool {
        self.commands <= BATCH_COMMANDS && self.bytes <= BATCH_BYTES && self.answers <= ANSWERS_BYTES_MAX
    }
}

/// Takes commands from anyone.
pub struct Proposer<C: Types> {
    submissions: mpsc::Sender<Submission<C>>,
    counts: Arc<Counts>,
    /// Takes nothing any more.
    is_closed: Arc<AtomicBool>,
    /// Takes nothing of callers on this node any more; leading, it goes on for the others.
    refuses_callers: Arc<AtomicBool>,
}

/// What the proposer has done, for metrics.
#[derive(Debug)]
pub struct Counts {
    pub batches: AtomicU64,
    pub commands: AtomicU64,
    pub forwarded: AtomicU64,
    /// Commands that shared a batch, of those that had any: a tick has none.
    pub batch_commands: Histogram,
    /// From a batch's proposal on this node to its answer.
    pub commit_nanos: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            batches: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            batch_commands: Histogram::new(SIZES),
            commit_nanos: Histogram::new(LATENCY_NANOS),
        }
    }
}

impl<C: Types> Clone for Proposer<C> {
    fn clone(&self) -> Self {
        Self {
            submissions: self.submissions.clone(),
            counts: self.counts.clone(),
            is_closed: self.is_closed.clone(),
            refuses_callers: self.refuses_callers.clone(),
        }
    }
}

impl<C: Types> fmt::Debug for Proposer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proposer")
    }
}

impl<C: Types> Proposer<C> {
    /// An outcome per request, in order.
    ///
    /// # Errors
    /// When there is no outcome: it did not happen, or nobody can say.
    pub async fn submit(&self, requests: Vec<Request>, within: Duration) -> Result<Vec<Outcome>, NoOutcome> {
        self.send(requests, within, true).await
    }

    /// What another node sent here because it takes this one for the leader.
    ///
    /// # Errors
    /// As [`Proposer::submit`]; unavailable at once if this node does not lead.
    pub async fn submit_here(&self, requests: Vec<Request>, within: Duration) -> Result<Vec<Outcome>, NoOutcome> {
        self.send(requests, within, false).await
    }

    /// Moves time, and lets happen what is due.
    ///
    /// # Errors
    /// As [`Proposer::submit`].
    pub async fn tick(&self) -> Result<(), NoOutcome> {
        self.send(Vec::new(), ANSWER_WITHIN, false).await.map(|_| ())
    }

    /// Takes nothing more, and returns when all that was taken is answered, or the time is over.
    pub async fn close(&self, within: Duration) {
        self.is_closed.store(true, Ordering::Release);
        self.settled(within).await;
    }

    /// From now on commands of callers on this node are refused, or taken again.
    pub fn refuse_callers(&self, refuses: bool) {
        self.refuses_callers.store(refuses, Ordering::Release);
    }

    #[must_use]
    pub fn refuses_callers(&self) -> bool {
        self.refuses_callers.load(Ordering::Acquire)
    }

    /// Returns when all that was taken before is answered, or the time is over.
    pub async fn settled(&self, within: Duration) {
        // One batch is on its way at a time and in order: when this one is answered, so are all before it.
        let _ = C::timeout(within, self.enqueue(Vec::new(), Size::default(), within, true)).await;
    }

    #[cfg(test)]
    pub(crate) fn of_a_stopped_node() -> Self {
        Self {
            submissions: mpsc::channel(1).0,
            counts: Arc::default(),
            is_closed: Arc::default(),
            refuses_callers: Arc::default(),
        }
    }

    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    async fn send(
        &self,
        requests: Vec<Request>,
        within: Duration,
        may_forward: bool,
    ) -> Result<Vec<Outcome>, NoOutcome> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(NoOutcome::Unavailable("this node is stopping: ask another one".into()));
        }
        if may_forward && self.refuses_callers() {
            return Err(NoOutcome::Unavailable("this node is draining: ask another one".into()));
        }
        let size = Size::of(&requests);
        if size.bytes > SUBMISSION_BYTES_MAX {
            return Err(NoOutcome::TooLarge { what: "commands", bytes: size.bytes, max: SUBMISSION_BYTES_MAX });
        }
        self.enqueue(requests, size, within, may_forward).await
    }

    async fn enqueue(
        &self,
        requests: Vec<Request>,
        size: Size,
        within: Duration,
        may_forward: bool,
    ) -> Result<Vec<Outcome>, NoOutcome> {
        let (answer, answered) = oneshot::channel();
        let span = tracing::Span::current();
        let submission = Submission { requests, size, send_by: C::now() + within, may_forward, span, answer };
        if self.submissions.send(submission).await.is_err() {
            return Err(NoOutcome::Unavailable("this node is stopping: ask another one".into()));
        }
        answered.await.unwrap_or_else(|_| Err(NoOutcome::Unknown("this node stopped".into())))
    }
}

/// The one that gathers, seals and sends, until everyone who could submit is gone.
pub(crate) struct Gatherer<C: Types, D: StateDisk, P> {
    pub(crate) id: NodeId,
    pub(crate) raft: Raft<C, Machine<C, D>>,
    pub(crate) clock: Arc<Clock<InstantOf<C>>>,
    pub(crate) wall: Arc<dyn Fn() -> Wall + Send + Sync>,
    pub(crate) calls: P,
    disk: DiskSpace,
    submissions: mpsc::Receiver<Submission<C>>,
    left_over: Option<Submission<C>>,
    counts: Arc<Counts>,
}

/// Where a batch went.
enum Sent {
    /// In order, and maybe not all: what is missing may have happened.
    Answered(Vec<Outcome>),
    /// It may be sent again.
    NotTaken(String),
    /// Nothing of it: what keeps or ends what is held may be sent again.
    LowOnDisk(String),
    Over(NoOutcome),
}

impl Sent {
    fn unknown(why: impl Into<String>) -> Self {
        Self::Over(NoOutcome::Unknown(why.into()))
    }
}

impl<C: Responds, D: StateDisk, P: Calls> Gatherer<C, D, P> {
    pub(crate) fn new(
        id: NodeId,
        raft: Raft<C, Machine<C, D>>,
        clock: Arc<Clock<InstantOf<C>>>,
        wall: Arc<dyn Fn() -> Wall + Send + Sync>,
        calls: P,
        disk: DiskSpace,
    ) -> (Proposer<C>, Self) {
        let (sender, submissions) = mpsc::channel(QUEUE);
        let counts = Arc::new(Counts::default());
        let proposer = Proposer {
            submissions: sender,
            counts: counts.clone(),
            is_closed: Arc::default(),
            refuses_callers: Arc::default(),
        };
        (proposer, Self { id, raft, clock, wall, calls, disk, submissions, left_over: None, counts })
    }

    pub(crate) async fn run(mut self) {
        while let Some(batch) = self.gather().await {
            self.send(batch).await;
        }
    }

    /// Whatever is waiting, at least one.
    async fn gather(&mut self) -> Option<Vec<Submission<C>>> {
        let first = match self.left_over.take() {
            Some(first) => first,
            None => self.submissions.recv().await?,
        };
        let mut size = first.size;
        let may_forward = first.may_forward;
        let mut batch = vec![first];
        while let Ok(next) = self.submissions.try_recv() {
            size = size.with(next.size);
            if !size.fits() || next.may_forward != may_forward {
                self.left_over = Some(next);
                break;
            }
            batch.push(next);
        }
        Some(batch)
    }

    /// Sends a batch until it is taken, its answer is lost, or its callers' time is over.
    async fn send(&mut self, mut batch: Vec<Submission<C>>) {
        let mut why = String::from("no leader is known");
        loop {
            let now = C::now();
            let (alive, late): (Vec<_>, Vec<_>) = batch.into_iter().partition(|submission| submission.send_by > now);
            for submission in late {
                let _ = submission.answer.send(Err(NoOutcome::Unavailable(why.clone())));
            }
            batch = alive;
            if batch.is_empty() {
                return;
            }
            match self.try_send(&mut batch).await {
                Sent::Answered(outcomes) => return answer_each(batch, outcomes),
                Sent::Over(no_outcome) => {
                    for submission in batch {
                        let _ = submission.answer.send(Err(no_outcome.clone()));
                    }
                    return;
                }
                Sent::LowOnDisk(reason) => {
                    let (taken, refused): (Vec<_>, Vec<_>) = batch.into_iter().partition(Submission::keeps_or_ends);
                    let is_any_refused = !refused.is_empty();
                    for submission in refused {
                        let _ = submission.answer.send(Err(NoOutcome::LowOnDisk(reason.clone())));
                    }
                    batch = taken;
                    if is_any_refused {
                        continue;
                    }
                    why = reason;
                }
                Sent::NotTaken(reason) if !batch[0].may_forward => {
                    for submission in batch {
                        let _ = submission.answer.send(Err(NoOutcome::Unavailable(reason.clone())));
                    }
                    return;
                }
                Sent::NotTaken(reason) => why = reason,
            }
            C::sleep(LEADER_RETRY).await;
        }
    }

    async fn try_send(&mut self, batch: &mut [Submission<C>]) -> Sent {
        let requests: Vec<Request> = batch.iter().flat_map(|submission| submission.requests.iter().cloned()).collect();
        if self.clock.observe(C::now()).is_some() {
            if self.disk.refuses_work() && !batch.iter().all(Submission::keeps_or_ends) {
                return Sent::LowOnDisk(LOW_ON_DISK.into());
            }
            return self.propose(requests).await;
        }
        if !batch[0].may_forward {
            return Sent::NotTaken("this node does not lead".into());
        }
        let Some((leader, member)) = known_leader(&self.raft).filter(|(leader, _)| *leader != self.id) else {
            return Sent::NotTaken("no leader is known".into());
        };
        if requests.is_empty() {
            return Sent::Answered(Vec::new());
        }
        // Only one caller's can be: a batch is closed before. Nothing of it was sent.
        let answers = batch.iter().map(|submission| submission.size.answers).sum();
        if answers > ANSWERS_BYTES_MAX {
            return Sent::Over(NoOutcome::TooLarge { what: "answers", bytes: answers, max: ANSWERS_BYTES_MAX });
        }
        self.counts.forwarded.fetch_add(requests.len() as u64, Ordering::Relaxed);
        for submission in batch.iter() {
            submission.span.in_scope(|| tracing::debug!(leader, "sent on to the leader"));
        }
        let forwarded = self.calls.forward(leader, &member, requests, ANSWER_WITHIN);
        let forwarded = match future::select(pin!(forwarded), pin!(self.is_replaced(leader))).await {
            Either::Left((forwarded, _)) => forwarded,
            // It may be stopped for long. Whether the new one has what the old one took, asking again tells.
            Either::Right(_) => Forwarded::Unknown("the leader was replaced before it answered".into()),
        };
        match forwarded {
            Forwarded::Answered(outcomes) => Sent::Answered(outcomes),
            Forwarded::NotTaken(why) => Sent::NotTaken(why),
            Forwarded::LowOnDisk(why) => Sent::LowOnDisk(why),
            Forwarded::Unknown(why) => Sent::unknown(why),
        }
    }

    async fn propose(&self, requests: Vec<Request>) -> Sent {
        let wanted = requests.len();
        self.counts.batches.fetch_add(1, Ordering::Relaxed);
        self.counts.commands.fetch_add(wanted as u64, Ordering::Relaxed);
        if wanted > 0 {
            self.counts.batch_commands.observe(wanted as u64);
        }
        let began = C::now();
        let mut entry = Entry { commands: requests, wall: (self.wall)(), ..Entry::default() };
        // Sealed: now, not when the batch was opened.
        let Some(stamp) = self.clock.observe(C::now()) else {
            return Sent::NotTaken("this node does not lead".into());
        };
        entry.at = stamp.at;
        let (responder, answered) = ProgressResponder::complete_only();
        let write = self.raft.write(Proposal::seal(&entry)).with_leader(stamp.leader).responder(responder);
        if let Err(fatal) = write.await {
            return Sent::unknown(format!("Raft stopped: {fatal}"));
        }
        let answered = C::timeout(ANSWER_WITHIN, answered).await;
        if let Ok(Ok(Ok(_))) = answered {
            self.counts.commit_nanos.observe_time(C::now().saturating_duration_since(began));
        }
        match answered {
            Ok(Ok(Ok(response))) if response.data.outcomes.len() == wanted => Sent::Answered(response.data.outcomes),
            Ok(Ok(Ok(_))) => Sent::unknown("the answer does not fit the question"),
            Ok(Ok(Err(ClientWriteError::ForwardToLeader(_)))) => {
                Sent::NotTaken("the leader changed before it took the command".into())
            }
            Ok(Ok(Err(error))) => Sent::unknown(error.to_string()),
            Ok(Err(_)) => Sent::unknown("Raft stopped before it answered"),
            Err(_) => Sent::unknown(format!("no quorum answered within {} s", ANSWER_WITHIN.as_secs())),
        }
    }

    /// Returns some time after this node has heard of another leader.
    async fn is_replaced(&self, leader: NodeId) {
        let mut metrics = self.raft.server_metrics();
        while metrics.borrow_watched().current_leader.is_none_or(|current| current == leader) {
            if metrics.changed().await.is_err() {
                break;
            }
        }
        C::sleep(REPLACED_ANSWERS_WITHIN).await;
    }
}

/// The leader leaves out, from the end, what does not fit into a frame. Who asked for that asks again.
fn answer_each<C: Types>(batch: Vec<Submission<C>>, outcomes: Vec<Outcome>) {
    let mut outcomes = outcomes.into_iter();
    for submission in batch {
        let own: Vec<Outcome> = outcomes.by_ref().take(submission.requests.len()).collect();
        let is_whole = own.len() == submission.requests.len();
        let cut = || NoOutcome::Unknown("the answer did not fit beside those of other callers".into());
        let _ = submission.answer.send(if is_whole { Ok(own) } else { Err(cut()) });
    }
}
