//! Follows Raft's role and membership: starts and stops the clock with leadership, and updates the members for calls.

use crate::replica::clock::Clock;
use crate::replica::hub::Hub;
use crate::replica::peer_calls::PeerCalls;
use crate::replica::role::RoleChanges;
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Fatal;
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::InstantOf;
use raft_store::state::Machine;
use raft_store::state::disk::StateDisk;
use raft_store::types::{Member, NodeId, Types};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Follows Raft's changes of role and members until it stops.
pub(crate) async fn follow<C: Types, D: StateDisk, P: PeerCalls>(
    id: NodeId,
    raft: Raft<C, Machine<C, D>>,
    calls: P,
    clock: Arc<Clock<InstantOf<C>>>,
    hub: Arc<Hub>,
    failure: Arc<Mutex<Option<String>>>,
    counted: Arc<RoleChanges>,
) {
    let mut metrics = raft.server_metrics();
    let (mut told, mut members_told) = (None, None);
    let mut known = BTreeMap::new();
    loop {
        let (state, vote, leader, members) = {
            let metrics = metrics.borrow_watched();
            (metrics.state, metrics.vote, metrics.current_leader, metrics.membership_config.clone())
        };
        let nodes: BTreeMap<NodeId, Member> = members.nodes().map(|(id, member)| (*id, member.clone())).collect();
        if nodes != known {
            calls.know(nodes.clone());
            known = nodes;
        }
        if state.is_leader() && vote.is_committed() {
            // The state's time first: time between the two readings is not charged to holders.
            let base = hub.current().now;
            clock.begin(*vote.leader_id(), base, C::now());
        } else {
            clock.end();
        }
        let role = (state, leader, vote.leader_id().term);
        let before = told.replace(role);
        if before != Some(role) {
            tracing::info!(node = id, role = ?state, ?leader, term = vote.leader_id().term, "role");
            counted.count(before.map(|(state, leader, _)| (state.into(), leader)), (state.into(), leader));
        }
        let changed = members.log_id().filter(|change| members_told != Some(*change));
        if let Some(change) = changed {
            members_told = Some(change);
            let learners: Vec<NodeId> = members.membership().learner_ids().collect();
            let voters = members.membership().get_joint_config();
            tracing::info!(node = id, index = change.index, ?voters, ?learners, "members");
        }
        if metrics.changed().await.is_err() {
            clock.end();
            if let Some(why) = ended_by_itself(&raft).await {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
            }
            return;
        }
    }
}

/// The moment, at most `now`, up to which a quorum backs this leader. After it Raft refuses writes, so holders cannot
/// renew. `None` until a quorum has answered.
pub(crate) fn backed_until<C: Types, D: StateDisk>(
    raft: &Raft<C, Machine<C, D>>,
    leader_lease: Duration,
    now: InstantOf<C>,
) -> Option<InstantOf<C>> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let mut voters = metrics.membership_config.voter_ids();
    if voters.next() == Some(metrics.id) && voters.next().is_none() {
        return Some(now);
    }
    metrics.last_quorum_acked.map(|acked| now.min(acked.into_inner() + leader_lease))
}

/// The leader and its address, as far as this node knows.
pub(crate) fn known_leader<C: Types, D: StateDisk>(raft: &Raft<C, Machine<C, D>>) -> Option<(NodeId, Member)> {
    let metrics = raft.server_metrics();
    let metrics = metrics.borrow_watched();
    let leader = metrics.current_leader?;
    Some((leader, metrics.membership_config.get_node(&leader)?.clone()))
}

/// Raft's metrics report a failed disk, but not a panic: without this check a node would keep running without Raft.
async fn ended_by_itself<C: Types, D: StateDisk>(raft: &Raft<C, Machine<C, D>>) -> Option<String> {
    match raft.with_raft_state(|_| ()).await {
        Ok(()) | Err(Fatal::Stopped) => None,
        Err(fatal) => Some(format!("Raft has ended: {fatal}. Earlier log lines say more; restart this node")),
    }
}
