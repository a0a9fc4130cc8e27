//! The proposer: many callers share one append. While a batch is in flight, arriving commands form the next one.
//!
//! On the leader a batch is stamped when it is sealed, and proposed under the leadership of its stamp; a follower sends
//! it to the leader in one frame, unstamped. A command that may have happened is never reported as failed: a batch that
//! was not accepted is retried until its callers' time is over, and a batch whose answer was lost is unknown.

use crate::replica::clock::Clock;
use crate::replica::disk_space::DiskSpace;
use crate::replica::leadership::known_leader;
use crate::replica::no_outcome::NoOutcome;
use crate::replica::peer_calls::PeerCalls;
use crate::replica::wall::WallClock;
use futures_util::future::{self, Either};
use lease::answer_size::GRANT_BYTES_MAX;
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
use sabotage::{Broken, is_broken};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Maximum number of commands in one entry: commands that share an append also share its latency.
const BATCH_COMMANDS: usize = 1_024;
/// Approximate maximum size of an entry; a single larger command gets an entry for itself.
const BATCH_BYTES: usize = 1024 * 1024;
/// Maximum size of one submission: it must fit into a frame between nodes and an entry of the log, with room to spare.
pub const SUBMISSION_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum size of the answers to a batch: the leader returns them in one frame, with room for the frame's other
/// fields.
pub const ANSWERS_BYTES_MAX: usize = 16 * 1024 * 1024 - 1024;
/// A grant contains its item. A full batch of the largest grants fits, and so does any single command.
const _: () = assert!(BATCH_COMMANDS * GRANT_BYTES_MAX <= ANSWERS_BYTES_MAX && lease::bounds::BATCH < BATCH_COMMANDS);
/// Submissions that wait for the next batch. Further callers wait for a place in this queue.
const QUEUE: usize = 4_096;
/// An answer that takes longer counts as lost: the callers get [`NoOutcome::Unknown`].
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait for the answer of a leader after it was replaced.
const REPLACED_ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// Pause between two attempts to find a leader.
const LEADER_RETRY: Duration = Duration::from_millis(20);

/// Sent to callers.
const LOW_ON_DISK: &str = "disk space is low: until there is room, only commands that keep or end a lease are accepted, such as renew, release and complete";

/// Type parameters with the responder that the proposer needs.
pub trait Responds:
    Types + RaftTypeConfig<Responder<ClientWriteResult<Self>> = ProgressResponder<Self, ClientWriteResult<Self>>>
{
}

impl<C> Responds for C where
    C: Types + RaftTypeConfig<Responder<ClientWriteResult<C>> = ProgressResponder<C, ClientWriteResult<C>>>
{
}

/// Commands of one caller, with the channel for their answer.
struct Submission<C: Types> {
    requests: Vec<Request>,
    size: Size,
    /// It is not sent after this.
    send_by: InstantOf<C>,
    /// Whether it comes from a caller of this node: commands from other nodes are not forwarded again.
    may_forward: bool,
    /// The span of its request, so that log lines about it carry the request's trace.
    span: tracing::Span,
    answer: oneshot::Sender<Result<Vec<Outcome>, NoOutcome>>,
}

impl<C: Types> Submission<C> {
    /// Whether it is accepted even while disk space is low. A tick is, too.
    fn keeps_or_ends(&self) -> bool {
        self.requests.iter().all(|request| request.command.keeps_or_ends())
    }
}

/// The sizes that limit a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    commands: usize,
    bytes: usize,
    /// Largest possible size of their answers.
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

/// Accepts commands from callers and from other nodes.
pub struct Proposer<C: Types> {
    submissions: mpsc::Sender<Submission<C>>,
    counts: Arc<ProposerCounts>,
    /// Accepts nothing any more.
    is_closed: Arc<AtomicBool>,
    /// Accepts no commands of this node's callers; as the leader it still serves the other nodes.
    refuses_callers: Arc<AtomicBool>,
}

/// Counters of the proposer, for metrics.
#[derive(Debug)]
pub struct ProposerCounts {
    pub batches: AtomicU64,
    pub commands: AtomicU64,
    pub forwarded: AtomicU64,
    /// Commands per batch, without empty batches: a tick has no commands.
    pub batch_commands: Histogram,
    /// Time from a batch's proposal on this node to its answer.
    pub commit_nanos: Histogram,
}

impl Default for ProposerCounts {
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
    /// Returns an outcome per request, in order.
    ///
    /// # Errors
    /// When there is no outcome: it did not happen, or it is unknown whether it happened.
    pub async fn submit(&self, requests: Vec<Request>, within: Duration) -> Result<Vec<Outcome>, NoOutcome> {
        self.send(requests, within, true).await
    }

    /// Carries out commands that another node forwarded to this one as the leader.
    ///
    /// # Errors
    /// Those of [`Proposer::submit`]; unavailable at once if this node does not lead.
    pub async fn submit_here(&self, requests: Vec<Request>, within: Duration) -> Result<Vec<Outcome>, NoOutcome> {
        self.send(requests, within, false).await
    }

    /// Advances the time and processes deadlines that have passed.
    ///
    /// # Errors
    /// Those of [`Proposer::submit`].
    pub async fn tick(&self) -> Result<(), NoOutcome> {
        self.send(Vec::new(), ANSWER_WITHIN, false).await.map(|_| ())
    }

    /// Accepts nothing more, and returns when all accepted commands are answered, or the time is over.
    pub async fn close(&self, within: Duration) {
        self.is_closed.store(true, Ordering::Release);
        self.settled(within).await;
    }

    /// Sets whether commands of this node's callers are refused.
    pub fn refuse_callers(&self, refuses: bool) {
        self.refuses_callers.store(refuses, Ordering::Release);
    }

    #[must_use]
    pub fn refuses_callers(&self) -> bool {
        self.refuses_callers.load(Ordering::Acquire)
    }

    /// Returns when all commands that were accepted before are answered, or the time is over.
    pub async fn settled(&self, within: Duration) {
        // Batches are sent one at a time and in order: when this one is answered, so are all before it.
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
    pub fn counts(&self) -> &ProposerCounts {
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

/// Gathers, seals and sends batches until every [`Proposer`] is dropped.
pub(crate) struct Gatherer<C: Types, D: StateDisk, P> {
    pub(crate) id: NodeId,
    pub(crate) raft: Raft<C, Machine<C, D>>,
    pub(crate) clock: Arc<Clock<InstantOf<C>>>,
    pub(crate) wall: WallClock,
    pub(crate) calls: P,
    disk: DiskSpace,
    submissions: mpsc::Receiver<Submission<C>>,
    left_over: Option<Submission<C>>,
    counts: Arc<ProposerCounts>,
}

impl<C: Responds, D: StateDisk, P: PeerCalls> Gatherer<C, D, P> {
    pub(crate) fn new(
        id: NodeId,
        raft: Raft<C, Machine<C, D>>,
        clock: Arc<Clock<InstantOf<C>>>,
        wall: WallClock,
        calls: P,
        disk: DiskSpace,
    ) -> (Proposer<C>, Self) {
        let (sender, submissions) = mpsc::channel(QUEUE);
        let counts = Arc::new(ProposerCounts::default());
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

    /// Waits for the first submission, and takes those that are already waiting as well.
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

    /// Sends a batch until it is accepted, its answer is lost, or its callers' time is over.
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
            match self.try_send(&batch).await {
                Ok(outcomes) => return answer_each(batch, outcomes),
                Err(NoOutcome::LowOnDisk(reason)) => {
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
                Err(NoOutcome::Unavailable(reason)) if batch[0].may_forward => why = reason,
                Err(no_outcome) => {
                    for submission in batch {
                        let _ = submission.answer.send(Err(no_outcome.clone()));
                    }
                    return;
                }
            }
            C::sleep(LEADER_RETRY).await;
        }
    }

    /// Sends a batch once. Unavailable: it was not accepted, and may be sent again. There may be fewer outcomes than
    /// commands; the last commands may then have happened.
    async fn try_send(&self, batch: &[Submission<C>]) -> Result<Vec<Outcome>, NoOutcome> {
        let requests: Vec<Request> = batch.iter().flat_map(|submission| submission.requests.iter().cloned()).collect();
        if self.clock.observe(C::now()).is_some() {
            if self.disk.refuses_work() && !batch.iter().all(Submission::keeps_or_ends) {
                return Err(NoOutcome::LowOnDisk(LOW_ON_DISK.into()));
            }
            return self.propose(requests).await;
        }
        if !batch[0].may_forward {
            return Err(NoOutcome::Unavailable("this node does not lead".into()));
        }
        let Some((leader, member)) = known_leader(&self.raft).filter(|(leader, _)| *leader != self.id) else {
            return Err(NoOutcome::Unavailable("no leader is known".into()));
        };
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        // Only a batch of one submission can exceed this: larger batches are closed before. Nothing was sent yet.
        let answers = batch.iter().map(|submission| submission.size.answers).sum();
        if answers > ANSWERS_BYTES_MAX {
            return Err(NoOutcome::TooLarge { what: "answers", bytes: answers, max: ANSWERS_BYTES_MAX });
        }
        self.counts.forwarded.fetch_add(requests.len() as u64, Ordering::Relaxed);
        for submission in batch.iter() {
            submission.span.in_scope(|| tracing::debug!(leader, "forwarded to the leader"));
        }
        let forwarded = self.calls.forward(leader, &member, requests, ANSWER_WITHIN);
        match future::select(pin!(forwarded), pin!(self.is_replaced(leader))).await {
            Either::Left((outcomes, _)) => outcomes,
            // It may be stopped for long. A repeat tells whether the new leader has what the old one accepted.
            Either::Right(_) => Err(NoOutcome::Unknown("the leader was replaced before it answered".into())),
        }
    }

    async fn propose(&self, requests: Vec<Request>) -> Result<Vec<Outcome>, NoOutcome> {
        let unknown = |why: String| Err(NoOutcome::Unknown(why));
        let wanted = requests.len();
        self.counts.batches.fetch_add(1, Ordering::Relaxed);
        self.counts.commands.fetch_add(wanted as u64, Ordering::Relaxed);
        if wanted > 0 {
            self.counts.batch_commands.observe(wanted as u64);
        }
        let began = C::now();
        let mut entry = Entry { commands: requests, wall: (self.wall)(), ..Entry::default() };
        // The batch is stamped when it is sealed, not when it was opened.
        let Some(stamp) = self.clock.observe(C::now()) else {
            return Err(NoOutcome::Unavailable("this node does not lead".into()));
        };
        entry.at = stamp.at;
        let (responder, answered) = ProgressResponder::complete_only();
        let write = self.raft.write(Proposal::seal(&entry)).with_leader(stamp.leader).responder(responder);
        if let Err(fatal) = write.await {
            return unknown(format!("Raft stopped: {fatal}"));
        }
        let answered = C::timeout(ANSWER_WITHIN, answered).await;
        if let Ok(Ok(Ok(_))) = answered {
            self.counts.commit_nanos.observe_time(C::now().saturating_duration_since(began));
        }
        match answered {
            Ok(Ok(Ok(response))) if response.data.outcomes.len() == wanted => Ok(response.data.outcomes),
            Ok(Ok(Ok(_))) => unknown("the answer does not match the commands".into()),
            Ok(Ok(Err(ClientWriteError::ForwardToLeader(_)))) => {
                Err(NoOutcome::Unavailable("the leader changed before it accepted the command".into()))
            }
            Ok(Ok(Err(error))) => unknown(error.to_string()),
            Ok(Err(_)) => unknown("Raft stopped before it answered".into()),
            Err(_) => unknown(format!("no quorum answered within {} s", ANSWER_WITHIN.as_secs())),
        }
    }

    /// Returns some time after this node has learned of another leader.
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

/// Answers each submission. The leader omits the last outcomes if they do not fit into a frame; those callers ask
/// again.
fn answer_each<C: Types>(batch: Vec<Submission<C>>, outcomes: Vec<Outcome>) {
    let mut outcomes = outcomes.into_iter();
    for submission in batch {
        let own: Vec<Outcome> = outcomes.by_ref().take(submission.requests.len()).collect();
        let is_whole = own.len() == submission.requests.len();
        let cut = || NoOutcome::Unknown("the answer did not fit together with those of other callers".into());
        let _ = submission.answer.send(if is_whole { Ok(own) } else { Err(cut()) });
    }
}
