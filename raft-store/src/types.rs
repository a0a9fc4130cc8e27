//! What Raft is made of here: who a member is, what an entry carries, what applying it answers.
//!
//! Everything above is generic over [`Types`], which leaves open only the runtime: tokio in a daemon, a simulated
//! one in a simulation.

use lease::encoding::{DecodeError, decode, encode};
use lease::{Entry, Outcome};
use openraft::RaftTypeConfig;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Chosen by the operator, never given to another directory again.
pub type NodeId = u64;

/// Which Raft group: always 0 for now, and already in every key and frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Group(pub u32);

/// What the cluster knows about a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Where other nodes reach it, `host:port`.
    pub peer_address: String,
    /// Where callers reach it. Empty: it serves none.
    pub api_address: String,
    /// Made with the member's directory: a wiped node that comes back under its old id is told apart.
    pub instance: u64,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.peer_address)
    }
}

/// An entry of the lease machine, encoded once when it was sealed: the log, the wire and the cache share its bytes.
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
    /// When a build of a later version made it, or it is damaged.
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

/// What applying an entry answers: an outcome per command. Empty for what is no entry of the lease machine.
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

/// Raft's type parameters, all but the runtime.
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
    /// The daemon's: on tokio.
    pub OnTokio:
        D = Proposal,
        R = Answer,
        NodeId = NodeId,
        Node = Member,
        AsyncRuntime = openraft_rt_tokio::TokioRuntime,
);
