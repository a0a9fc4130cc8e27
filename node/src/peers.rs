//! The transport between nodes: framed TCP, with mutual TLS where it is configured.
//!
//! It carries the messages of Raft and between nodes, in order and with limits; for a message that failed it reports
//! whether it may have been processed. It decides nothing about leases, and trusts no input that it has not checked.
//!
//! A pair of nodes has one connection per [`Purpose`](wire::Purpose), so that a snapshot delays no entry and an entry
//! no heartbeat. Each connection begins with a [`Hello`](wire::Hello), in which both sides identify themselves.

pub mod admission;
mod append;
pub mod connection;
pub mod frame;
pub mod network;
mod peer_calls;
mod questions;
pub mod roster;
pub mod server;
pub mod service;
pub mod shown;
mod snapshot;
pub mod tls;
pub mod tokio_node;
pub mod wire;

use connection::{Dialer, Expected};
use questions::QuestionLink;
use raft_store::types::{Group, Member, NodeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tls::PeerTls;
use wire::{Hello, NodeQuestion, NodeReply, Purpose, Question, Reply, Welcome};

/// This node's identity for its peers, and its calls to them. Clones share the connections.
///
/// The connections for calls are made when they are first needed, and again after a loss. Connections for entries,
/// heartbeats and snapshots belong to their senders.
#[derive(Clone, Debug)]
pub struct Peers {
    dialer: Dialer,
    links: Arc<Mutex<Links>>,
    snapshots_sent: Arc<AtomicU64>,
    /// Entries up to here are no longer sent.
    cut_off: Arc<AtomicU64>,
    /// The members, as this node knows them. Empty: not known yet.
    members: Arc<Mutex<BTreeMap<NodeId, Member>>>,
}

/// Each with the member that it was made for: a change of the member's address or directory makes a new one.
type Links = BTreeMap<(NodeId, LinkKind), (Member, QuestionLink)>;

/// Two connections for calls to each node, so that calls between nodes never delay an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LinkKind {
    Raft,
    Node,
}

impl Peers {
    #[must_use]
    pub fn new(identity: NodeIdentity, tls: Option<PeerTls>) -> Self {
        Self {
            dialer: Dialer { identity, tls },
            links: Arc::default(),
            snapshots_sent: Arc::default(),
            cut_off: Arc::default(),
            members: Arc::default(),
        }
    }

    #[must_use]
    pub fn identity(&self) -> &NodeIdentity {
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
        let link = QuestionLink::start(self.dialer.clone(), Expected::address(address));
        node_reply(link.ask(Question::Node(question), limit).await?)
    }

    /// This node as a node that asks to join: it presents its certificate and states no cluster.
    #[must_use]
    pub fn as_stranger(&self) -> Self {
        let Dialer { identity, tls } = self.dialer.clone();
        Self::new(NodeIdentity { cluster: None, ..identity }, tls)
    }

    /// Sets the current members. Connections for calls to other nodes are closed.
    pub(crate) fn set_members(&self, members: BTreeMap<NodeId, Member>) {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|(node, _), _| members.contains_key(node));
        drop(links);
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
        let kind = match &question {
            Question::Vote(_) | Question::PreVote(_) | Question::TransferLeader { .. } => LinkKind::Raft,
            Question::Node(_) => LinkKind::Node,
        };
        let link = {
            let mut all = self.links.lock().unwrap_or_else(PoisonError::into_inner);
            match all.get(&(target, kind)) {
                Some((known, link)) if known == member => link.clone(),
                _ => {
                    let link = QuestionLink::start(self.dialer.clone(), Expected::member(target, member));
                    all.insert((target, kind), (member.clone(), link.clone()));
                    link
                }
            }
        };
        link.ask(question, limit).await
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

/// The identity of this node towards its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    pub group: Group,
    /// None: the node belongs to no cluster yet and wants to join one.
    pub cluster: Option<u128>,
    pub node: NodeId,
    pub instance: u64,
    pub rules_version: u32,
}

impl NodeIdentity {
    pub(crate) fn hello(&self, expects: Option<NodeId>, purpose: Purpose) -> Hello {
        Hello {
            protocol: wire::PROTOCOL,
            group: self.group,
            cluster: self.cluster,
            node: self.node,
            instance: self.instance,
            rules_version: self.rules_version,
            expects,
            purpose,
        }
    }

    /// This node's answer to an accepted hello.
    ///
    /// # Errors
    /// When this node belongs to no cluster yet.
    pub fn welcome(&self) -> Result<Welcome, String> {
        let cluster = self.cluster.ok_or("this node belongs to no cluster yet")?;
        Ok(Welcome { cluster, node: self.node, instance: self.instance, rules_version: self.rules_version })
    }

    /// Whether the peer states this cluster, or may ask to join it. The message to the peer does not reveal the
    /// cluster's id.
    pub(crate) fn check(&self, hello: &Hello) -> Result<(), Refusal> {
        if hello.protocol != wire::PROTOCOL {
            return Err(format!("protocol {}, this node speaks {}", hello.protocol, wire::PROTOCOL).into());
        }
        if hello.group != self.group {
            return Err(format!("group {}, this is group {}", hello.group.0, self.group.0).into());
        }
        match (hello.cluster, self.cluster) {
            (_, None) => Err("this node belongs to no cluster yet".to_owned().into()),
            (Some(theirs), Some(ours)) if theirs != ours => Err(Refusal {
                told: "this node belongs to another cluster".to_owned(),
                detail: Some(format!("cluster {theirs:032x}, this node belongs to {ours:032x}")),
            }),
            (None, Some(_)) if hello.purpose != Purpose::Calls => {
                Err("a node that has not joined may only make calls".to_owned().into())
            }
            (Some(_) | None, Some(_)) => Ok(()),
        }
    }

    /// Whether the hello of a member has reached the expected node.
    pub(crate) fn check_target(&self, hello: &Hello) -> Result<(), String> {
        match hello.expects {
            Some(expected) if expected != self.node => {
                Err(format!("node {expected} is expected, this is node {}", self.node))
            }
            _ => Ok(()),
        }
    }
}

/// Why a peer is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Sent to the peer. Since it may not be a member, this names neither the cluster nor its members.
    pub told: String,
    /// For this node's log.
    pub detail: Option<String>,
}

impl From<String> for Refusal {
    fn from(told: String) -> Self {
        Self { told, detail: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail.as_ref().unwrap_or(&self.told))
    }
}

/// Why a question to a peer failed, and whether it may have been processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerError {
    /// It was never sent: it has not happened.
    Unreachable { why: String },
    /// The connection was lost after it was sent: it may have happened.
    Lost { why: String },
    /// It was sent, and no answer came in time: it may have happened, or may still happen.
    TimedOut { limit: Duration },
    /// The peer, or this node, refused it: it has not happened.
    Refused { why: String },
}

impl PeerError {
    /// Whether the question may have been processed although no answer came.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::TimedOut { .. } => true,
            Self::Unreachable { .. } | Self::Refused { .. } => false,
        }
    }

    pub(crate) fn unreachable(why: impl fmt::Display) -> Self {
        Self::Unreachable { why: why.to_string() }
    }

    pub(crate) fn lost(why: impl fmt::Display) -> Self {
        Self::Lost { why: why.to_string() }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { why } => write!(f, "unreachable: {why}"),
            Self::Lost { why } => write!(f, "the connection was lost: {why}"),
            Self::TimedOut { limit } => write!(f, "no answer within {limit:?}"),
            Self::Refused { why } => write!(f, "refused: {why}"),
        }
    }
}

impl std::error::Error for PeerError {}
