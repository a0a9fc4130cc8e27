//! What a node does for its peers, and how it sees them.

use super::Refusal;
use super::shown::Shown;
use super::wire::{Hello, NodeQuestion, NodeReply, Welcome};
use openraft::Raft;
use openraft::storage::RaftStateMachine;
use raft_store::snapshot::SnapshotDir;
use raft_store::types::{NodeId, Types};
use std::future::Future;
use std::path::PathBuf;

/// The node at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub hello: Hello,
    pub shown: Shown,
}

impl Peer {
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.hello.node
    }

    /// Whether it states this cluster; checked before it is admitted. Any other peer may only ask to join.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.hello.cluster.is_some()
    }
}

/// The service of the node for its peers.
pub trait Service: Send + Sync + 'static {
    type Types: Types;
    type State: RaftStateMachine<Self::Types, SnapshotData = SnapshotDir>;

    /// Whether this peer is a member with the instance and a certificate for the host in the membership; or, if it
    /// states no cluster, may ask to join. Protocol, group and cluster have been checked.
    ///
    /// # Errors
    /// Why it is not admitted.
    fn check(&self, peer: &Peer) -> Result<Welcome, Refusal>;

    /// Returns when the peer is no longer a member; its connection is then closed.
    fn left(&self, peer: &Peer) -> impl Future<Output = ()> + Send;

    /// Answers a peer. The future is dropped when the connection is lost, so it must be safe to drop at every await.
    fn ask(&self, from: &Peer, question: NodeQuestion) -> impl Future<Output = NodeReply> + Send;

    fn raft(&self) -> Raft<Self::Types, Self::State>;

    /// Where snapshots are received.
    fn snapshot_root(&self) -> PathBuf;
}
