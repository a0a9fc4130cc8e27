//! Connections from this node to its peers: how they are made and authenticated, and the calls over them.
//!
//! A connection is returned only after both sides are authenticated. [`Peers`] keeps the connections for calls to each
//! node, made when they are first needed and again after a loss; connections for entries, heartbeats and snapshots
//! belong to their senders.

use super::calls::Calls;
use super::frame::{FrameReader, FrameWriter};
use super::tls::{self, PeerTls};
use super::wire::{GREETING_BYTES_MAX, Greeting, NodeQuestion, NodeReply, Purpose, Question, Reply, Welcome};
use super::{Identity, PeerError};
use raft_store::types::{Member, NodeId};
use socket2::{SockRef, TcpKeepalive};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Limit for everything before the first frame: name lookup, TCP, TLS, hello.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// An idle connection to a machine that is gone ends after 10 + 3 × 5 seconds.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
#[cfg(target_os = "linux")]
const KEEPALIVE_TRIES: u32 = 3;

/// This node's identity for its peers, and its calls to them. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Peers {
    dialer: Dialer,
    lines: Arc<Mutex<Lines>>,
    snapshots_sent: Arc<AtomicU64>,
    /// Entries up to here are no longer sent.
    cut_off: Arc<AtomicU64>,
    /// The members, as this node knows them. Empty: not known yet.
    members: Arc<Mutex<BTreeMap<NodeId, Member>>>,
}

/// Each with the member that it was made for: a change of the member's address or directory makes a new one.
type Lines = BTreeMap<(NodeId, Line), (Member, Calls)>;

/// Two connections for calls to each node, so that calls between nodes never delay an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Raft,
    Node,
}

impl Peers {
    #[must_use]
    pub fn new(identity: Identity, tls: Option<PeerTls>) -> Self {
        Self {
            dialer: Dialer { identity, tls },
            lines: Arc::default(),
            snapshots_sent: Arc::default(),
            cut_off: Arc::default(),
            members: Arc::default(),
        }
    }

    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.dialer.identity
    }

    /// Asks a member, over the shared connection for such questions to it.
    ///
    /// # Errors
    /// A [`PeerError`], which tells whether the call may have happened.
    pub async fn ask(
        &self,
        target: NodeId,
        member: &Member,
        question: NodeQuestion,
        limit: Duration,
    ) -> Result<NodeReply, PeerError> {
        node_reply(self.question(target, member, Question::Node(question), limit).await?)
    }

    /// Asks the node at this address, over a connection that is used once. A node joins with this.
    ///
    /// # Errors
    /// A [`PeerError`], which tells whether the call may have happened.
    pub async fn ask_address(
        &self,
        address: &str,
        question: NodeQuestion,
        limit: Duration,
    ) -> Result<NodeReply, PeerError> {
        let calls = Calls::start(self.dialer.clone(), Expected::address(address));
        node_reply(calls.ask(Question::Node(question), limit).await?)
    }

    /// This node as a node that asks to join: it presents its certificate and states no cluster.
    #[must_use]
    pub fn as_stranger(&self) -> Self {
        let Dialer { identity, tls } = self.dialer.clone();
        Self::new(Identity { cluster: None, ..identity }, tls)
    }

    /// Sets the current members. Connections for calls to other nodes are closed.
    pub(crate) fn set_members(&self, members: BTreeMap<NodeId, Member>) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|(node, _), _| members.contains_key(node));
        drop(lines);
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    /// The current entry of a member, if the node is one.
    pub(crate) fn member(&self, node: NodeId) -> Option<Member> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned()
    }

    pub(crate) async fn question(
        &self,
        target: NodeId,
        member: &Member,
        question: Question,
        limit: Duration,
    ) -> Result<Reply, PeerError> {
        let line = match &question {
            Question::Vote(_) | Question::PreVote(_) | Question::TransferLeader { .. } => Line::Raft,
            Question::Node(_) => Line::Node,
        };
        let calls = {
            let mut all = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            match all.get(&(target, line)) {
                Some((known, calls)) if known == member => calls.clone(),
                _ => {
                    let calls = Calls::start(self.dialer.clone(), Expected::member(target, member));
                    all.insert((target, line), (member.clone(), calls.clone()));
                    calls
                }
            }
        };
        calls.ask(question, limit).await
    }

    pub(crate) fn note_snapshot_sent(&self) {
        self.snapshots_sent.fetch_add(1, Ordering::Relaxed);
    }

    /// How many snapshots were sent and then installed by the receiver.
    #[must_use]
    pub fn snapshots_sent(&self) -> u64 {
        self.snapshots_sent.load(Ordering::Relaxed)
    }

    /// Entries up to here are no longer sent to any node.
    pub(crate) fn cut_off_upto(&self, upto: u64) {
        self.cut_off.fetch_max(upto, Ordering::Relaxed);
    }

    pub(crate) fn cut_off(&self) -> u64 {
        self.cut_off.load(Ordering::Relaxed)
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }
}

fn node_reply(reply: Reply) -> Result<NodeReply, PeerError> {
    match reply {
        Reply::Node(reply) => Ok(reply),
        Reply::Refused { why } => Err(PeerError::Refused { why }),
        Reply::Failed { why } => Err(PeerError::lost(why)),
        Reply::Vote(_) | Reply::TransferLeader(_) => Err(PeerError::lost("the reply is to another question")),
    }
}

/// The node that a connection must lead to.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub address: String,
    pub node: Option<NodeId>,
    /// None: any.
    pub instance: Option<u64>,
}

impl Expected {
    /// An instance of 0 means that it is not known yet.
    pub(crate) fn member(target: NodeId, member: &Member) -> Self {
        let instance = Some(member.instance).filter(|instance| *instance != 0);
        Self { address: member.peer_address.clone(), node: Some(target), instance }
    }

    fn address(address: &str) -> Self {
        Self { address: address.to_owned(), node: None, instance: None }
    }

    fn check(&self, ours: &Identity, welcome: &Welcome) -> Result<(), String> {
        let address = &self.address;
        match (ours.cluster, self.node, self.instance) {
            (Some(cluster), _, _) if welcome.cluster != cluster => {
                Err(format!("{address} belongs to cluster {:032x}, not to {cluster:032x}", welcome.cluster))
            }
            (_, Some(node), _) if welcome.node != node => {
                Err(format!("{address} is node {}, not node {node}", welcome.node))
            }
            (_, _, Some(instance)) if welcome.instance != instance => {
                let node = welcome.node;
                Err(format!(
                    "node {node} is instance {:016x}, not {instance:016x}: another directory",
                    welcome.instance
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Makes connections.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    identity: Identity,
    tls: Option<PeerTls>,
}

impl Dialer {
    pub(crate) fn node(&self) -> NodeId {
        self.identity.node
    }

    /// Makes a connection on which both sides are authenticated.
    pub(crate) async fn connect(&self, expected: &Expected, purpose: Purpose) -> Result<Connection, PeerError> {
        match timeout(CONNECT_LIMIT, self.dial(expected, purpose)).await {
            Ok(result) => result,
            Err(_) => Err(PeerError::unreachable(format_args!(
                "{}: no connection within {CONNECT_LIMIT:?}",
                expected.address
            ))),
        }
    }

    async fn dial(&self, expected: &Expected, purpose: Purpose) -> Result<Connection, PeerError> {
        let address = &expected.address;
        let unreachable = |error: &dyn fmt::Display| PeerError::unreachable(format_args!("{address}: {error}"));
        let stream = TcpStream::connect(address).await.map_err(|error| unreachable(&error))?;
        let taken_within = match purpose {
            Purpose::Raft | Purpose::Heartbeat | Purpose::Calls => TAKEN_WITHIN,
            Purpose::Snapshot => SNAPSHOT_TAKEN_WITHIN,
        };
        tune(&stream, taken_within).map_err(|error| unreachable(&error))?;
        let mut connection = match &self.tls {
            None => Connection::plain(stream),
            Some(tls) => {
                let name = tls::server_name(address).map_err(|error| unreachable(&error))?;
                let stream = tls.connector().connect(name, stream).await.map_err(|error| unreachable(&error))?;
                Connection::split(stream)
            }
        };
        let hello = self.identity.hello(expected.node, purpose);
        connection.writer.send(&hello).await.map_err(|error| unreachable(&error))?;
        let greeting = connection.reader.next().await.map_err(|error| unreachable(&error))?;
        match greeting {
            Some(Greeting::Welcome(welcome)) => {
                expected.check(&self.identity, &welcome).map_err(|why| PeerError::Refused { why })?;
                connection.open(purpose);
                Ok(connection)
            }
            Some(Greeting::Refused { why }) => Err(PeerError::Refused { why }),
            None => Err(unreachable(&"closed without a greeting")),
        }
    }
}

pub(crate) type Reading = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writing = Box<dyn AsyncWrite + Send + Unpin>;

/// Both directions of a connection, with or without TLS. Before it is opened it accepts only small frames.
pub(crate) struct Connection {
    pub reader: FrameReader<Reading>,
    pub writer: FrameWriter<Writing>,
}

impl Connection {
    pub(crate) fn plain(stream: TcpStream) -> Self {
        let (reading, writing) = stream.into_split();
        Self::of(Box::new(reading), Box::new(writing))
    }

    pub(crate) fn split(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (reading, writing) = tokio::io::split(stream);
        Self::of(Box::new(reading), Box::new(writing))
    }

    fn of(reading: Reading, writing: Writing) -> Self {
        Self {
            reader: FrameReader::new(reading, GREETING_BYTES_MAX),
            writer: FrameWriter::new(writing, GREETING_BYTES_MAX),
        }
    }

    pub(crate) fn open(&mut self, purpose: Purpose) {
        self.reader.set_max(purpose.frame_bytes_max());
        self.writer.set_max(purpose.frame_bytes_max());
    }
}

/// The peer's machine must acknowledge sent bytes within this time. After a network cut a new connection works at once,
/// while the old one may wait long for its next retransmission.
pub(crate) const TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// The receiver's disk may be slow.
const SNAPSHOT_TAKEN_WITHIN: Duration = Duration::from_secs(30);

/// Sends small frames at once, and detects a peer that is gone.
pub(crate) fn tune(stream: &TcpStream, taken_within: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    #[cfg(target_os = "linux")]
    let keepalive = keepalive.with_retries(KEEPALIVE_TRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(taken_within))?;
    #[cfg(not(target_os = "linux"))]
    let _ = taken_within;
    Ok(())
}
