//! Raft's types: the data of a member, the payload of an entry, and the answer of applying it.
//!
//! Everything else is generic over [`Types`], which leaves only the runtime open: tokio in a daemon, a simulated one in
//! a simulation.

use lease::encoding::{DecodeError, decode, encode};
use lease::{Entry, Outcome};
use openraft::RaftTypeConfig;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Chosen by the operator, and never reused with another directory.
pub type NodeId = u64;

/// The Raft group: always 0 for now, but already part of every key and frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Group(pub u32);

/// What the cluster stores about a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The address for other nodes, `host:port`.
    pub peer_address: String,
    /// The address for callers. Empty: the node serves no callers.
    pub api_address: String,
    /// Created with the member's directory: it identifies a wiped node that returns under its old id.
    pub instance: u64,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.peer_address)
    }
}

/// An entry of the lease machine, encoded once when it was sealed: the log, the network and the cache share its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Proposal(Arc<[u8]>);

impl Proposal {
    #[must_use]
    pub fn seal(entry: &Entry) -> Self {
        Self(encode(entry).into())
    }

    #[must_use]
    pub fn from_bytes(bytes: Arc<[u8]>) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub fn as_bytes(&self) -> &Arc<[u8]> {
        &self.0
    }

    /// # Errors
    /// When a later build made the entry, or it is damaged.
    pub fn open(&self) -> Result<Entry, DecodeError> {
        decode(&self.0)
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The answer of applying an entry: one outcome for each command. Empty for entries that are not the lease machine's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub outcomes: Vec<Outcome>,
}

pub type LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, NodeId>;
pub type Vote = openraft::impls::Vote<LeaderId>;
pub type LogId = openraft::impls::LogId<LeaderId>;
pub type Payload = openraft::EntryPayload<Proposal, NodeId, Member>;
pub type LogEntry = openraft::impls::Entry<LeaderId, Payload>;
pub type Membership = openraft::Membership<NodeId, Member>;
pub type StoredMembership = openraft::StoredMembership<LeaderId, NodeId, Member>;
pub type SnapshotMeta = openraft::storage::SnapshotMeta<LeaderId, NodeId, Member>;

/// Raft's type parameters, except the runtime.
pub trait Types:
    RaftTypeConfig<
        D = Proposal,
        R = Answer,
        NodeId = NodeId,
        Node = Member,
        Term = u64,
        LeaderId = LeaderId,
        Vote = Vote,
        Payload = Payload,
        Entry = LogEntry,
    >
{
}

impl<C> Types for C where
    C: RaftTypeConfig<
            D = Proposal,
            R = Answer,
            NodeId = NodeId,
            Node = Member,
            Term = u64,
            LeaderId = LeaderId,
            Vote = Vote,
            Payload = Payload,
            Entry = LogEntry,
        >
{
}

openraft::declare_raft_types!(
    /// The types of the daemon, which runs on tokio.
    pub OnTokio:
        D = Proposal,
        R = Answer,
        NodeId = NodeId,
        Node = Member,
        AsyncRuntime = openraft_rt_tokio::TokioRuntime,
);
