//! Calls between nodes above Raft: forward commands, get a read index, compare hashes.

use crate::replica::no_outcome::NoOutcome;
use lease::{Outcome, Request};
use raft_store::codec::records::HashMark;
use raft_store::types::{Member, NodeId};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// Limit for a forwarded command on the node that leads; the node that forwarded it waits longer.
pub(crate) const FORWARDED_WITHIN: Duration = Duration::from_secs(8);

/// Calls to other nodes: over TCP in a daemon, through memory in a simulation.
pub trait PeerCalls: Clone + Send + Sync + 'static {
    /// Forwards commands to the leader, which answers them in order. The last outcomes may be missing: those commands
    /// may have happened.
    ///
    /// Unavailable: no command entered any log, so they may be sent again. Low on disk: the same, and commands that
    /// keep or end a lease may be sent again at once.
    fn forward(
        &self,
        to: NodeId,
        member: &Member,
        requests: Vec<Request>,
        within: Duration,
    ) -> impl Future<Output = Result<Vec<Outcome>, NoOutcome>> + Send;

    /// The index that a read which starts now must have applied. None: that node does not lead, or did not answer.
    fn read_index(&self, to: NodeId, member: &Member, within: Duration) -> impl Future<Output = Option<u64>> + Send;

    /// The state hashes of that node at the last compared indexes. None: it did not answer.
    fn hash_marks(
        &self,
        to: NodeId,
        member: &Member,
        within: Duration,
    ) -> impl Future<Output = Option<Vec<HashMark>>> + Send;

    /// The highest rules version that the node's build knows. None: it did not answer.
    fn rules_version(&self, to: NodeId, member: &Member, within: Duration) -> impl Future<Output = Option<u32>> + Send;

    /// Whether that node is draining. None: it did not answer.
    fn is_draining(&self, to: NodeId, member: &Member, within: Duration) -> impl Future<Output = Option<bool>> + Send;

    /// Sets the current members and their addresses. Raft itself keeps the address with which it first saw a member.
    fn know(&self, members: BTreeMap<NodeId, Member>) {
        drop(members);
    }
}
