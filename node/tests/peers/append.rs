//! Entries: they go out before earlier ones are answered, answers come back in their order, and a real Raft runs on it.

use super::store::State;
use super::world::{Node, identity, member};
use futures_util::stream::{self, BoxStream, StreamExt};
use node::peers::Peers;
use node::peers::network::{DIAL_PAUSE, Factory, Network};
use node::peers::wire::Purpose;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::RPCError;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{AppendEntriesRequest, StreamAppendError, TransferLeaderRequest, VoteRequest};
use openraft::{Config, Raft};
use raft_store::types::{LeaderId, LogEntry, LogId, Member, OnTokio, Payload, Proposal, Vote};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use test_support::authority::Authority;
use test_support::{LIMIT, until, within};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

type Request = AppendEntriesRequest<OnTokio>;

fn id(index: u64) -> LogId {
    LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index }
}

fn vote() -> Vote {
    Vote { leader_id: LeaderId { term: 1, node_id: 1 }, committed: true }
}

fn proposal(number: u64) -> Proposal {
    Proposal::from_bytes(number.to_le_bytes().to_vec().into())
}

/// The entry of this index, after the previous one.
fn entry(index: u64) -> Request {
    let entry = LogEntry { log_id: id(index), payload: Payload::Normal(proposal(index)) };
    Request { vote: vote(), prev_log_id: index.checked_sub(1).map(id), entries: vec![entry], leader_commit: None }
}

fn requests(requests: impl IntoIterator<Item = Request>) -> BoxStream<'static, Request> {
    stream::iter(requests.into_iter().collect::<Vec<_>>()).boxed()
}

fn option() -> RPCOption {
    RPCOption::new(LIMIT)
}

async fn client(member: &Member) -> Network<OnTokio> {
    Factory::new(Peers::new(identity(1), None)).new_client(2, member).await
}

async fn heartbeat_client(member: &Member) -> Network<OnTokio> {
    Factory::new(Peers::new(identity(1), None)).new_heartbeat_client(2, member).await
}

/// The indexes of the answers up to the stream's end.
async fn appended(network: &mut Network<OnTokio>, frames: BoxStream<'static, Request>) -> Vec<u64> {
    let answers = network.stream_append(frames, option()).await.unwrap();
    let answers: Vec<_> = within("the end of a stream", answers.collect()).await;
    answers.into_iter().map(|answer| answer.unwrap().unwrap().unwrap().index).collect()
}

#[tokio::test]
async fn entries_go_out_before_earlier_ones_are_durable_and_are_answered_in_order() {
    let node = Node::quiet(2, None).await;
    let mut network = client(&node.member()).await;
    node.log.hold();
    let mut answers = network.stream_append(requests((0..10).map(entry)), option()).await.unwrap();
    {
        let mut first = answers.next();
        tokio::select! {
            answer = &mut first => panic!("{answer:?}, though nothing is durable"),
            () = until("all ten are in the log", async || node.log.last_index() == Some(9)) => {}
        }
    }
    node.log.let_go();
    for index in 0..10 {
        let answer = within("an answer", answers.next()).await;
        assert_eq!(answer.unwrap().unwrap(), Ok(Some(id(index))));
    }
    assert!(within("the end of a stream", answers.next()).await.is_none());
    drop(answers);

    assert_eq!(appended(&mut network, requests((10..400).map(entry))).await, (10..400).collect::<Vec<_>>());
    assert_eq!(node.connections(), 1, "one stream follows the other on the same connection");
}

#[tokio::test]
async fn a_conflict_ends_its_stream_and_not_the_connection() {
    let node = Node::quiet(2, None).await;
    let mut network = client(&node.member()).await;
    assert_eq!(appended(&mut network, requests((0..3).map(entry))).await, [0, 1, 2]);
    {
        // Three frames that follow each other, and twenty that cannot be appended.
        let frames = requests((3..6).chain(50..70).map(entry));
        let answers = network.stream_append(frames, option()).await.unwrap();
        let mut answers: Vec<_> = within("the end of a stream", answers.collect()).await;
        assert_eq!(answers.pop().unwrap().unwrap(), Err(StreamAppendError::Conflict(id(49))));
        assert_eq!(answers.len(), 3);
    }
    assert_eq!(appended(&mut network, requests((6..9).map(entry))).await, [6, 7, 8]);
    assert_eq!(node.connections(), 1);
}

#[tokio::test]
async fn an_old_leader_gets_the_higher_vote() {
    let node = Node::quiet(2, None).await;
    let higher = Vote { leader_id: LeaderId { term: 5, node_id: 3 }, committed: true };
    let mut network = client(&node.member()).await;
    let newer = Request { vote: higher, ..entry(0) };
    network.append_entries(newer, option()).await.unwrap();
    let mut answers = network.stream_append(requests([entry(1)]), option()).await.unwrap();
    assert_eq!(answers.next().await.unwrap().unwrap(), Err(StreamAppendError::HigherVote(higher)));
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn a_late_answer_is_not_matched_to_the_next_stream() {
    let node = Node::quiet(2, None).await;
    let mut network = heartbeat_client(&node.member()).await;
    assert_eq!(appended(&mut network, requests([entry(0)])).await, [0]);
    node.log.hold();
    {
        let short = RPCOption::new(Duration::from_millis(200));
        let mut answers = network.stream_append(requests([entry(1)]), short).await.unwrap();
        let answer = within("a time-out", answers.next()).await.unwrap();
        assert!(matches!(answer, Err(RPCError::Timeout(_))), "{answer:?}");
        assert!(answers.next().await.is_none());
    }
    node.log.let_go();
    assert_eq!(appended(&mut network, requests([entry(2), entry(3)])).await, [2, 3]);
    assert_eq!(node.connections(), 1, "a slow answer is no reason for a new connection");
}

#[tokio::test]
async fn a_dropped_stream_leaves_the_connection_usable() {
    let node = Node::quiet(2, None).await;
    let mut network = client(&node.member()).await;
    {
        let endless = requests((0..5).map(entry)).chain(stream::pending());
        let mut answers = network.stream_append(endless.boxed(), option()).await.unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap(), Ok(Some(id(0))));
    }
    until("the rest has arrived", async || node.log.last_index() == Some(4)).await;
    assert_eq!(appended(&mut network, requests((5..8).map(entry))).await, [5, 6, 7]);
    assert_eq!(node.connections(), 1);
}

#[tokio::test]
async fn a_lost_connection_ends_even_an_idle_stream() {
    let node = Node::quiet(2, None).await;
    let mut network = client(&node.member()).await;
    let idle = requests([entry(0)]).chain(stream::pending());
    let mut answers = network.stream_append(idle.boxed(), option()).await.unwrap();
    assert_eq!(answers.next().await.unwrap().unwrap(), Ok(Some(id(0))));
    node.server.shutdown().await;
    let lost = within("the loss", answers.next()).await.unwrap();
    assert!(matches!(lost, Err(RPCError::Network(_))), "{lost:?}");
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn an_unreachable_node_grants_no_vote() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = member(2, listener.local_addr().unwrap());
    drop(listener);
    let mut network = client(&nowhere).await;
    let candidate = Vote { committed: false, ..vote() };
    let pre_vote = network.pre_vote(VoteRequest::new(candidate, None), option()).await;
    assert!(matches!(pre_vote, Err(RPCError::Unreachable(_))), "{pre_vote:?}");
    let granted = network.vote(VoteRequest::new(candidate, None), option()).await;
    assert!(matches!(granted, Err(RPCError::Unreachable(_))), "{granted:?}");
    let transferred = network.transfer_leader(TransferLeaderRequest::new(vote(), 2, None), option()).await;
    assert!(matches!(transferred, Err(RPCError::Unreachable(_))), "{transferred:?}");
    let appended = network.append_entries(entry(0), option()).await;
    assert!(matches!(appended, Err(RPCError::Unreachable(_))), "{appended:?}");
}

#[tokio::test]
async fn a_pre_vote_is_granted_and_changes_nothing() {
    let node = Node::quiet(2, None).await;
    let mut network = client(&node.member()).await;
    let candidate = Vote { committed: false, ..vote() };
    let before = node.raft.metrics().borrow_watched().vote;
    let pre_vote = network.pre_vote(VoteRequest::new(candidate, None), option()).await.unwrap();
    assert!(pre_vote.vote_granted);
    assert_eq!(pre_vote.vote, before);
    let granted = network.vote(VoteRequest::new(candidate, None), option()).await.unwrap();
    assert!(granted.vote_granted);
    assert_eq!(granted.vote, candidate);
}

async fn leader_of(raft: &Raft<OnTokio, State>, leader: u64) {
    raft.wait(Some(LIMIT)).current_leader(leader, "the leader").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_replicates_concurrent_writes_and_moves_its_leader_over_tls() {
    const WRITES: u64 = 500;
    let authority = Authority::new();
    let config = Config {
        heartbeat_interval: 100,
        election_timeout_min: 1000,
        election_timeout_max: 2000,
        enable_pre_vote: Some(true),
        ..Config::default()
    };
    let mut nodes = Vec::new();
    for id in 1..=3 {
        nodes.push(Node::start(id, Some(authority.tls("127.0.0.1")), config.clone()).await);
    }
    let [one, two, three] = &nodes[..] else { unreachable!() };
    one.raft.initialize(Node::members(&[one, two, three])).await.unwrap();
    leader_of(&one.raft, 1).await;

    let mut writers = JoinSet::new();
    for number in 0..WRITES {
        let raft = one.raft.clone();
        writers.spawn(async move {
            let writing = async {
                // A new leader accepts nothing before its first quorum.
                while raft.client_write(proposal(number)).await.is_err() {
                    tokio::task::yield_now().await;
                }
            };
            within("a write", writing).await;
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    let written = one.state.applied();
    assert_eq!(written.iter().collect::<BTreeSet<_>>().len() as u64, WRITES);
    for node in &nodes {
        until("all is applied in the same order everywhere", async || node.state.applied() == written).await;
    }
    until("heartbeats have their own connection", async || {
        let hellos = two.service.hellos.lock().unwrap();
        let purposes: BTreeSet<Purpose> = hellos.iter().map(|hello| hello.purpose).collect();
        purposes == BTreeSet::from([Purpose::Raft, Purpose::Heartbeat, Purpose::Calls])
    })
    .await;

    one.raft.trigger().transfer_leader(2).await.unwrap();
    for node in &nodes {
        leader_of(&node.raft, 2).await;
    }
}

/// Raft retries at once: without a pause a leader would waste its time connecting to a node that is down.
#[tokio::test]
async fn connection_attempts_to_a_dead_node_pause() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut network = client(&member(2, gone)).await;
    let began = Instant::now();
    for _ in 0..5 {
        let failed = network.stream_append(requests([entry(0)]), option()).await.err();
        assert!(matches!(failed, Some(RPCError::Unreachable(_))), "{failed:?}");
    }
    assert!(began.elapsed() >= DIAL_PAUSE * 4, "{:?}", began.elapsed());
}
