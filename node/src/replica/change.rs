//! One change of the membership: why it did not happen, on which members it may be made, and how a change that a lost
//! leader left half done is finished.

use crate::replica::propose::Responds;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ChangeMembershipError, ClientWriteError, PreconditionFailed, RaftError};
use openraft::raft::Precondition;
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::LogIdOf;
use openraft::{ChangeMembers, Raft};
use raft_store::state::Machine;
use raft_store::state::disk::StateDisk;
use raft_store::types::{Member, Membership, NodeId, Types};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// A change takes milliseconds. If it is half done for this long, the leader that made it is gone.
const HALF_DONE_FOR: Duration = Duration::from_secs(1);

/// Why a change did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// This node does not lead; the leader, if it is known.
    NotLeader(Option<NodeId>),
    Refused(String),
    /// It may have happened: check the status, and repeat it.
    Unknown(String),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLeader(Some(leader)) => write!(f, "this node does not lead; node {leader} does"),
            Self::NotLeader(None) => write!(f, "no leader is known: wait, or check the cluster's status"),
            Self::Refused(why) => write!(f, "{why}"),
            Self::Unknown(why) => write!(f, "unknown whether it happened: {why}. Check the status and repeat it"),
        }
    }
}

impl std::error::Error for ChangeError {}

/// Makes the target of a half-done change the only voters. It names no node, so it cannot bring back members that
/// another change has replaced.
pub(crate) fn flatten() -> ChangeMembers<NodeId, Member> {
    ChangeMembers::AddVoterIds(BTreeSet::new())
}

/// A change is made only on the members that it was computed from. Raft checks this when it appends the change.
pub(crate) fn only_on<C: Types>(last: Option<LogIdOf<C>>) -> [Precondition<C>; 1] {
    [Precondition::LastMembershipLogId { last_membership_log_id: last }]
}

/// Finishes, while this node leads, a change that another leader left half done. Until then the old and the new
/// voters must both have a majority: the loss of one node could stop a cluster of three.
pub(crate) async fn finish_left_changes<C: Responds, D: StateDisk>(raft: Raft<C, Machine<C, D>>) {
    let mut seen = None;
    loop {
        C::sleep(HALF_DONE_FOR).await;
        let half_done = {
            let metrics = raft.metrics();
            let metrics = metrics.borrow_watched();
            let is_half_done = metrics.state.is_leader() && is_joint(metrics.membership_config.membership());
            is_half_done.then_some(*metrics.membership_config.log_id()).flatten()
        };
        let Some(id) = half_done else {
            seen = None;
            continue;
        };
        if seen.replace(id) == Some(id)
            && let Err(error) = raft.change_membership_if(flatten(), false, only_on(Some(id))).await
            && !is_not_our_turn(&error)
        {
            tracing::warn!(%error, "cannot finish the last membership change; retrying");
        }
    }
}

pub(crate) fn is_joint(members: &Membership) -> bool {
    members.get_joint_config().len() > 1
}

/// Whether another change is in progress or came first, or a new leader has not committed anything yet.
pub(crate) fn is_not_our_turn<C: Responds>(error: &RaftError<C, ClientWriteError<C>>) -> bool {
    matches!(
        error,
        RaftError::APIError(
            ClientWriteError::ChangeMembershipError(
                ChangeMembershipError::InProgress(_) | ChangeMembershipError::UncommittedLeaderLog(_)
            ) | ClientWriteError::PreconditionFailed(PreconditionFailed::LastMembershipLogIdMismatch { .. })
        )
    )
}
