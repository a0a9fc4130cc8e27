//! The roles of a node in Raft, and how often it changed its role.

use openraft::{RaftMetrics, ServerState};
use raft_store::types::{NodeId, Types};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// The role of a node. The order is part of the messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Learner,
    Follower,
    Candidate,
    Leader,
    Stopped,
}

impl Role {
    /// Every role, in the order of the enum.
    pub const ALL: [Self; 5] = [Self::Learner, Self::Follower, Self::Candidate, Self::Leader, Self::Stopped];

    /// The node's role; stopped if its Raft has ended.
    pub fn of<C: Types>(metrics: &RaftMetrics<C>) -> Self {
        if metrics.running_state.is_ok() { metrics.state.into() } else { Self::Stopped }
    }

    /// Its name in metrics and in the status of the cluster.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Learner => "learner",
            Self::Follower => "follower",
            Self::Candidate => "candidate",
            Self::Leader => "leader",
            Self::Stopped => "stopped",
        }
    }
}

impl From<ServerState> for Role {
    fn from(state: ServerState) -> Self {
        match state {
            ServerState::Learner => Self::Learner,
            ServerState::Follower => Self::Follower,
            ServerState::Candidate => Self::Candidate,
            ServerState::Leader => Self::Leader,
            ServerState::Shutdown => Self::Stopped,
        }
    }
}

/// Counts this node's changes of role, and the leaders that it learned of.
#[derive(Debug, Default)]
pub struct RoleChanges {
    by_role: [AtomicU64; Role::ALL.len()],
    leaders: AtomicU64,
}

impl RoleChanges {
    /// Counts a change of the node's role or of the leader that it knows.
    pub(crate) fn count(&self, before: Option<(Role, Option<NodeId>)>, now: (Role, Option<NodeId>)) {
        if before.map(|(role, _)| role) != Some(now.0) {
            self.by_role[now.0 as usize].fetch_add(1, Ordering::Relaxed);
        }
        if now.1.is_some() && before.and_then(|(_, leader)| leader) != now.1 {
            self.leaders.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of changes to each role.
    pub fn by_role(&self) -> impl Iterator<Item = (Role, u64)> {
        Role::ALL.into_iter().zip(&self.by_role).map(|(role, count)| (role, count.load(Ordering::Relaxed)))
    }

    /// How often this node learned of a new leader.
    pub fn leaders(&self) -> u64 {
        self.leaders.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_changes_and_leader_changes_are_counted() {
        let changes = RoleChanges::default();
        let steps = [
            (Role::Follower, None),
            (Role::Follower, Some(2)),
            (Role::Candidate, None),
            (Role::Leader, Some(1)),
            (Role::Leader, Some(1)),
        ];
        let mut before = None;
        for now in steps {
            changes.count(before.replace(now), now);
        }
        let counts: Vec<_> = changes.by_role().map(|(role, count)| (role.name(), count)).collect();
        assert_eq!(counts, [("learner", 0), ("follower", 1), ("candidate", 1), ("leader", 1), ("stopped", 0)]);
        assert_eq!(changes.leaders(), 2);
    }
}
