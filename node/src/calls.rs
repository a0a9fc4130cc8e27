//! What a node asks of another, above Raft: to take commands, to say how far a read must wait, to compare hashes.

use lease::{Outcome, Request};
use raft_store::codec::records::HashMark;
use raft_store::types::{Member, NodeId};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// The way to other nodes. Over TCP in a daemon, through memory in a simulation.
pub trait Calls: Clone + Send + Sync + 'static {
    /// Commands for the leader, to be answered in order.
    fn forward(
        &self,
        to: NodeId,
        member: &Member,
        requests: Vec<Request>,
        within: Duration,
    ) -> impl Future<Output = Forwarded> + Send;

    /// The index that a read which starts now must have applied. None: that node does not lead, or did not answer.
    fn read_index(&self, to: NodeId, member: &Member, within: Duration) -> impl Future<Output = Option<u64>> + Send;

    /// The state hashes of that node at the last compared indexes. None: it did not answer.
    fn hash_marks(
        &self,
        to: NodeId,
        member: &Member,
        within: Duration,
    ) -> impl Future<Output = Option<Vec<HashMark>>> + Send;

    /// Up to which version that node's build knows the rules. None: it did not answer.
    fn rules_version(&self, to: NodeId, member: &Member, within: Duration) -> impl Future<Output = Option<u32>> + Send;

    /// Whether that node is draining. None: it did not answer.
    fn is_draining(&self, to: NodeId, member: &Member, within: Duration) -> impl Future<Output = Option<bool>> + Send;

    /// Who belongs to the cluster now, and where. Raft keeps to the address with which it first met a member.
    fn know(&self, members: BTreeMap<NodeId, Member>) {
        drop(members);
    }
}

/// What became of forwarded commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// In order. The last ones may be missing: they may have happened.
    Answered(Vec<Outcome>),
    /// Nothing of it entered any log: it may be sent again.
    NotTaken(String),
    /// The same, because of [`crate::propose::NoOutcome::LowOnDisk`]: what keeps or ends a lease may be sent again at once.
    LowOnDisk(String),
    /// It may have happened.
    Unknown(String),
}
