//! Raft's network: carries openraft's messages in our frames.
//!
//! Nothing here retries, since openraft does, or reorders, which openraft forbids. A missing answer is always an error
//! and never assumed: an assumed pre-vote would let an isolated node raise its term.

use super::append::AppendLink;
use super::connection::{Connection, Expected};
use super::snapshot::send;
use super::wire::{AppendFrame, AppendResult, Purpose, Question, Reply, TransferReply, VoteQuestion, VoteReply};
use super::{PeerError, Peers};
use futures_util::stream::{self, Fuse, Stream, StreamExt};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError, StreamAppendResult,
    TransferLeaderRequest, VoteRequest, VoteResponse,
};
use raft_store::codec::records::EntryRecord;
use raft_store::snapshot::SnapshotDir;
use raft_store::types::{Member, NodeId, Types, Vote};
use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Raft's limit for an answer comes from the heartbeat interval. A disk that takes a few intervals for one write is
/// slow, not gone, and sending the same entries again would make it slower: a stream of entries is given up, and the
/// connection dropped, only after this many limits without any answer.
const STALLED_AFTER: u32 = 8;

/// Pause after a failed connection attempt. Raft's own pause does not help here: it comes before the first request of a
/// stream, and without a connection no request is taken.
pub const DIAL_PAUSE: Duration = Duration::from_millis(50);

/// Makes the [`Network`]s of one node.
#[derive(Clone, Debug)]
pub struct Factory {
    peers: Peers,
}

impl Factory {
    #[must_use]
    pub fn new(peers: Peers) -> Self {
        Self { peers }
    }

    fn network<C: Types>(&self, purpose: Purpose, target: NodeId, member: &Member) -> Network<C> {
        Network {
            peers: self.peers.clone(),
            purpose,
            target,
            member: member.clone(),
            connecting: None,
            failed_at: None,
            acknowledged: None,
            link: None,
            types: PhantomData,
        }
    }
}

impl<C: Types> RaftNetworkFactory<C> for Factory {
    type Network = Network<C>;

    async fn new_client(&mut self, target: NodeId, member: &Member) -> Network<C> {
        self.network(Purpose::Raft, target, member)
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, member: &Member) -> Network<C> {
        self.network(Purpose::Heartbeat, target, member)
    }

    async fn new_snapshot_client(&mut self, target: NodeId, member: &Member) -> Network<C> {
        self.network(Purpose::Raft, target, member)
    }
}

/// The network to one node. It connects on first use.
pub struct Network<C> {
    peers: Peers,
    /// The purpose of its streams: Raft or Heartbeat. Questions share the connection for calls, and a snapshot makes
    /// its own.
    purpose: Purpose,
    target: NodeId,
    member: Member,
    /// Continues when its caller gives up: connecting to a distant peer may take longer than one limit.
    connecting: Option<AbortOnDropHandle<Result<Connection, PeerError>>>,
    /// When the last connection attempt failed.
    failed_at: Option<Instant>,
    /// The last entry that the node has reported as durable.
    acknowledged: Option<u64>,
    link: Option<AppendLink>,
    types: PhantomData<fn() -> C>,
}

impl<C> std::fmt::Debug for Network<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Network({} to node {} at {})", self.purpose, self.target, self.member)
    }
}

impl<C: Types> Network<C> {
    /// The member's current entry: Raft makes this network once for each leadership, and the member may have moved
    /// since.
    fn member(&self) -> Member {
        self.peers.member(self.target).unwrap_or_else(|| self.member.clone())
    }

    /// Makes a connection; returns an error after the limit, while the attempt continues.
    async fn connect(&mut self, limit: Duration) -> Result<Connection, PeerError> {
        if let Some(failed_at) = self.failed_at.filter(|_| self.connecting.is_none()) {
            sleep_until(failed_at + DIAL_PAUSE).await;
        }
        let connecting = self.connecting.get_or_insert_with(|| {
            let dialer = self.peers.dialer().clone();
            let expected = Expected::member(self.target, &self.member);
            let purpose = self.purpose;
            AbortOnDropHandle::new(tokio::spawn(async move { dialer.connect(&expected, purpose).await }))
        });
        let Ok(connected) = timeout(limit, connecting).await else {
            return Err(PeerError::unreachable(format_args!("{}: not connected yet", self.member)));
        };
        self.connecting = None;
        let connected = connected.map_err(PeerError::unreachable).flatten();
        self.failed_at = connected.is_err().then(Instant::now);
        connected
    }

    async fn ready(&mut self, limit: Duration) -> Result<(), PeerError> {
        let member = self.member();
        if member.peer_address != self.member.peer_address || member.instance != self.member.instance {
            self.member = member;
            self.connecting = None;
            self.link = None;
        }
        if !self.link.as_ref().is_some_and(AppendLink::is_alive) {
            self.link = None;
            self.link = Some(AppendLink::new(self.connect(limit).await?));
        }
        Ok(())
    }

    /// Logs that a follower has lost entries: Raft silently sends them again, but the operator must know.
    fn note(&mut self, answer: &AppendResult) {
        match answer {
            AppendResult::Appended { up_to } => {
                self.acknowledged = self.acknowledged.max(up_to.map(|up_to| up_to.index));
            }
            AppendResult::Conflict { at } if Some(at.index) <= self.acknowledged => {
                tracing::error!(
                    "node {} has lost entries from {} on, which it had acknowledged up to {}: its disk does not keep what it \
                     synced. They are sent again, but do not trust that node any more: replace it",
                    self.target,
                    at.index,
                    self.acknowledged.unwrap_or_default()
                );
                self.acknowledged = None;
            }
            AppendResult::Conflict { .. } | AppendResult::HigherVote { .. } | AppendResult::Failed { .. } => {}
        }
    }

    async fn ask(&self, question: Question, option: &RPCOption, action: RPCTypes) -> Result<Reply, RPCError<C>> {
        let reply = self.peers.question(self.target, &self.member(), question, option.soft_ttl()).await;
        reply.map_err(|error| self.rpc_error(error, action))
    }

    fn rpc_error(&self, error: PeerError, action: RPCTypes) -> RPCError<C> {
        match error {
            PeerError::Unreachable { .. } | PeerError::Refused { .. } => Unreachable::new(&error).into(),
            PeerError::Lost { .. } => NetworkError::new(&error).into(),
            PeerError::TimedOut { limit } => self.timeout(action, limit).into(),
        }
    }

    fn timeout(&self, action: RPCTypes, limit: Duration) -> Timeout<C> {
        Timeout { action, id: self.peers.dialer().node(), target: self.target, timeout: limit }
    }

    fn unexpected(&self, reply: &Reply) -> RPCError<C> {
        match reply {
            Reply::Failed { why } | Reply::Refused { why } => Unreachable::from_string(why).into(),
            Reply::Vote(_) | Reply::TransferLeader(_) | Reply::Node(_) => {
                NetworkError::from_string("the reply is to another question").into()
            }
        }
    }
}

impl<C: Types> RaftNetworkV2<C> for Network<C> {
    type SnapshotData = SnapshotDir;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<C>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<C>, RPCError<C>> {
        let one = Box::pin(stream::once(std::future::ready(rpc)));
        let mut answers = self.stream_append(one, option).await?;
        match answers.next().await {
            Some(answer) => Ok(answer?.into()),
            None => Err(NetworkError::from_string("the stream ended without an answer").into()),
        }
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<C>, RPCError<C>>>, RPCError<C>>>
    where
        S: Stream<Item = AppendEntriesRequest<C>> + Send + Unpin + 'static,
    {
        Box::pin(async move {
            let soft = option.soft_ttl();
            if let Err(error) = self.ready(soft).await {
                return Err(self.rpc_error(error, RPCTypes::AppendEntries));
            }
            if let Some(link) = &mut self.link {
                link.begin();
            }
            let limit = if self.purpose == Purpose::Heartbeat { soft } else { soft * STALLED_AFTER };
            let appending = Appending {
                network: self,
                input: input.fuse(),
                has_input: true,
                unanswered: 0,
                since: Instant::now(),
                soft,
                limit,
            };
            let answers = stream::unfold(Some(appending), |appending| async move {
                let mut appending = appending?;
                let answer = appending.next().await?;
                // Anything but a success ends the stream.
                let next = if matches!(answer, Ok(Ok(_))) { Some(appending) } else { None };
                Some((answer, next))
            });
            let answers: BoxStream<'s, _> = Box::pin(answers);
            Ok(answers)
        })
    }

    async fn vote(&mut self, rpc: VoteRequest<C>, option: RPCOption) -> Result<VoteResponse<C>, RPCError<C>> {
        match self.ask(Question::Vote(vote_question(&rpc)), &option, RPCTypes::Vote).await? {
            Reply::Vote(reply) => Ok(vote_response(&reply)),
            other => Err(self.unexpected(&other)),
        }
    }

    async fn pre_vote(&mut self, rpc: VoteRequest<C>, option: RPCOption) -> Result<VoteResponse<C>, RPCError<C>> {
        match self.ask(Question::PreVote(vote_question(&rpc)), &option, RPCTypes::Vote).await? {
            Reply::Vote(reply) => Ok(vote_response(&reply)),
            other => Err(self.unexpected(&other)),
        }
    }

    async fn transfer_leader(
        &mut self,
        rpc: TransferLeaderRequest<C>,
        option: RPCOption,
    ) -> Result<openraft::raft::TransferLeaderResponse<C>, RPCError<C>> {
        let question = Question::TransferLeader {
            from: (*rpc.from_leader()).into(),
            to: *rpc.to_node_id(),
            last: rpc.last_log_id().map(|last| (*last).into()),
        };
        match self.ask(question, &option, RPCTypes::TransferLeader).await? {
            Reply::TransferLeader(reply) => Ok(transfer_response(reply)),
            other => Err(self.unexpected(&other)),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: openraft::alias::SnapshotOf<C, SnapshotDir>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<C>, StreamingError<C>> {
        let sending = async {
            let expected = Expected::member(self.target, &self.member());
            let connection = self.peers.dialer().connect(&expected, Purpose::Snapshot).await?;
            let meta = (&snapshot.meta).into();
            send::send(connection, vote.into(), meta, snapshot.snapshot, option.soft_ttl()).await
        };
        tokio::select! {
            closed = cancel => Err(closed.into()),
            sent = sending => match sent {
                Ok(vote) => {
                    self.peers.note_snapshot_sent();
                    Ok(SnapshotResponse::new(vote.into()))
                }
                Err(error) => Err(StreamingError::from(self.rpc_error(error, RPCTypes::InstallSnapshot))),
            },
        }
    }
}

/// One open stream.
struct Appending<'s, C: Types, S> {
    network: &'s mut Network<C>,
    input: Fuse<S>,
    has_input: bool,
    unanswered: usize,
    /// When the last answer on this stream came, or the first unanswered frame was sent.
    since: Instant,
    soft: Duration,
    /// Limit without any answer.
    limit: Duration,
}

impl<C, S> Appending<'_, C, S>
where
    C: Types,
    S: Stream<Item = AppendEntriesRequest<C>> + Unpin,
{
    /// Sends frames until an answer arrives. None: everything was sent and answered.
    async fn next(&mut self) -> Option<Result<StreamAppendResult<C>, RPCError<C>>> {
        loop {
            if !self.has_input && self.unanswered == 0 {
                return None;
            }
            let Some(link) = &mut self.network.link else {
                return Some(Err(NetworkError::from_string("the connection was lost").into()));
            };
            let has_room = link.has_room();
            let failed = tokio::select! {
                // Read even if no answer is due, so that a lost connection is detected and replaced before the next
                // entry.
                answer = link.answer() => match answer {
                    Ok(Some(answer)) => {
                        self.unanswered -= 1;
                        self.since = Instant::now();
                        self.network.note(&answer);
                        return Some(stream_result(answer));
                    }
                    Ok(None) => continue,
                    Err(error) => error,
                },
                request = self.input.next(), if self.has_input && has_room => match request {
                    Some(request) if lacks(&request, self.network.peers.cut_off()) => {
                        return Some(Err(NetworkError::from_string("its entries are purged: a snapshot is due").into()));
                    }
                    Some(request) => match link.send(frame(request)) {
                        Ok(()) => {
                            if self.unanswered == 0 {
                                self.since = Instant::now();
                            }
                            self.unanswered += 1;
                            continue;
                        }
                        // The connection's task knows the cause.
                        Err(error) => link.answer().await.err().unwrap_or(error),
                    },
                    None => {
                        self.has_input = false;
                        continue;
                    }
                },
                () = sleep_until(self.since + self.limit), if self.unanswered > 0 || !has_room => {
                    if link.progress() + self.soft * STALLED_AFTER <= Instant::now() {
                        self.network.link = None;
                    }
                    return Some(Err(self.network.timeout(RPCTypes::AppendEntries, self.limit).into()));
                }
            };
            self.network.link = None;
            return Some(Err(self.network.rpc_error(failed, RPCTypes::AppendEntries)));
        }
    }
}

/// Whether the request is for a node that lacks entries up to this one.
fn lacks<C: Types>(request: &AppendEntriesRequest<C>, upto: u64) -> bool {
    !request.entries.is_empty() && request.prev_log_id.map_or(0, |prev| prev.index) < upto
}

fn frame<C: Types>(request: AppendEntriesRequest<C>) -> AppendFrame {
    AppendFrame {
        // Set when it is sent.
        stream: 0,
        vote: request.vote.into(),
        prev: request.prev_log_id.map(Into::into),
        entries: request.entries.iter().map(EntryRecord::from).collect(),
        commit: request.leader_commit.map(Into::into),
    }
}

fn stream_result<C: Types>(result: AppendResult) -> Result<StreamAppendResult<C>, RPCError<C>> {
    match result {
        AppendResult::Appended { up_to } => Ok(Ok(up_to.map(Into::into))),
        AppendResult::Conflict { at } => Ok(Err(StreamAppendError::Conflict(at.into()))),
        AppendResult::HigherVote { vote } => Ok(Err(StreamAppendError::HigherVote(vote.into()))),
        AppendResult::Failed { why } => Err(Unreachable::from_string(why).into()),
    }
}

fn vote_question<C: Types>(rpc: &VoteRequest<C>) -> VoteQuestion {
    VoteQuestion {
        vote: rpc.vote.into(),
        last: rpc.last_log_id.map(Into::into),
        leadership_transfer: rpc.leadership_transfer,
    }
}

fn vote_response<C: Types>(reply: &VoteReply) -> VoteResponse<C> {
    VoteResponse { vote: reply.vote.into(), vote_granted: reply.granted, last_log_id: reply.last.map(Into::into) }
}

fn transfer_response<C: Types>(reply: TransferReply) -> openraft::raft::TransferLeaderResponse<C> {
    use openraft::raft::TransferLeaderError;
    match reply {
        TransferReply::Accepted => Ok(()),
        TransferReply::VoteChanged { expected, actual } => {
            Err(TransferLeaderError::VoteChanged { expected: expected.into(), actual: actual.into() })
        }
        TransferReply::LogNotFlushed { expected, actual } => Err(TransferLeaderError::LogNotFlushed {
            expected: expected.map(Into::into),
            actual: actual.map(Into::into),
        }),
    }
}
