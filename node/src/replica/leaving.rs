//! Takes a node out of service: drains it, hands over leadership, and stops it.

use crate::replica::change::ChangeError;
use crate::replica::node::Node;
use crate::replica::peer_calls::PeerCalls;
use crate::replica::propose::Responds;
use openraft::type_config::TypeConfigExt;
use raft_store::state::disk::StateDisk;
use std::time::Duration;

impl<C: Responds, D: StateDisk, P: PeerCalls> Node<C, D, P> {
    /// Prepares this node to be taken away: it rejects new commands of its callers, finishes accepted ones, hands over
    /// leadership and does not stand for election. It follows, votes and answers other nodes as before, and stops
    /// draining when it is restarted. The call may be repeated; the node drains whatever it returns.
    ///
    /// # Errors
    /// When it still leads although other voters exist. It then still carries out the commands of other nodes' callers.
    pub async fn drain(&self, within: Duration) -> Result<(), ChangeError> {
        self.proposer().refuse_callers(true);
        self.raft().runtime_config().elect(false);
        self.proposer().settled(within).await;
        if !self.raft().is_leader() || self.membership().voter_ids().count() == 1 {
            return Ok(());
        }
        match C::timeout(within, self.hand_over()).await {
            Ok(handed_over) => handed_over,
            Err(_) => Err(ChangeError::Unknown("no new leader was seen in time".into())),
        }
    }

    /// Ends draining: this node accepts commands and stands for election again.
    pub fn undrain(&self) {
        self.proposer().refuse_callers(false);
        self.raft().runtime_config().elect(true);
    }

    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.proposer().refuses_callers()
    }

    /// Finishes commands in flight, hands over leadership, and flushes the state to disk.
    pub async fn stop(&self, within: Duration) {
        self.leave(within).await;
        if let Err(error) = self.store().flush() {
            tracing::error!(%error, "could not flush the state; no data is lost, the log has it");
        }
    }

    /// Like [`Node::stop`], but does not flush the state: the log has what the state on disk lacks.
    pub async fn leave(&self, within: Duration) {
        self.proposer().close(within).await;
        if self.raft().is_leader() {
            let _ = C::timeout(within, self.hand_over()).await;
        }
        self.halt().await;
    }
}
