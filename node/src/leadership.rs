//! Whether this node leads: its clock starts and ends with that.

use crate::clock::Clock;
use crate::hub::Hub;
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::InstantOf;
use raft_store::state::Machine;
use raft_store::state::disk::StateDisk;
use raft_store::types::{NodeId, Types};
use std::sync::Arc;

/// Follows Raft's changes of role until it stops.
pub(crate) async fn follow<C: Types, D: StateDisk>(
    id: NodeId,
    raft: Raft<C, Machine<C, D>>,
    clock: Arc<Clock<InstantOf<C>>>,
    hub: Arc<Hub>,
) {
    let mut metrics = raft.server_metrics();
    let mut told = None;
    loop {
        let (state, vote, leader) = {
            let metrics = metrics.borrow_watched();
            (metrics.state, metrics.vote, metrics.current_leader)
        };
        if state.is_leader() && vote.is_committed() {
            // The state's time first: what passes between the two readings is charged to nobody.
            let base = hub.current().now;
            clock.begin(*vote.leader_id(), base, C::now());
        } else {
            clock.end();
        }
        let role = (state, leader, vote.leader_id().term);
        if told.replace(role) != Some(role) {
            tracing::info!(node = id, role = ?state, ?leader, term = vote.leader_id().term, "role");
        }
        if metrics.changed().await.is_err() {
            clock.end();
            return;
        }
    }
}
