//! Linearizable reads on any node: waiting reads share one round with the leader, then each is answered from this
//! node's own state once it has applied what the leader had committed.

use crate::replica::hub::Hub;
use crate::replica::leadership::known_leader;
use crate::replica::no_outcome::NoOutcome;
use crate::replica::peer_calls::PeerCalls;
use openraft::Raft;
use openraft::async_runtime::WatchReceiver as _;
use openraft::raft::ReadPolicy;
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::InstantOf;
use raft_store::state::Machine;
use raft_store::state::disk::StateDisk;
use raft_store::types::{NodeId, Types};
use sabotage::{Broken, is_broken};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Reads that wait for the next round.
const QUEUE: usize = 16_384;
/// Limit for one round with the leader.
const ROUND_WITHIN: Duration = Duration::from_secs(2);
const LEADER_RETRY: Duration = Duration::from_millis(20);
/// How often a node checks how old its state is.
const IN_STEP_EVERY: Duration = Duration::from_millis(500);

struct Ask<C: Types> {
    by: InstantOf<C>,
    answer: oneshot::Sender<Result<u64, NoOutcome>>,
}

/// The check before every linearizable read. Clones share it.
pub struct Reads<C: Types> {
    asks: mpsc::Sender<Ask<C>>,
    hub: Arc<Hub>,
    /// The latest moment at which this node's state is known to have had everything that was committed.
    in_step_at: Arc<Mutex<Option<InstantOf<C>>>>,
}

impl<C: Types> Clone for Reads<C> {
    fn clone(&self) -> Self {
        Self { asks: self.asks.clone(), hub: self.hub.clone(), in_step_at: self.in_step_at.clone() }
    }
}

impl<C: Types> fmt::Debug for Reads<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reads")
    }
}

impl<C: Types> Reads<C> {
    /// Returns when this node's state has everything that was committed at the time of the call.
    ///
    /// # Errors
    /// When no leader could be asked in time, or this node is too far behind.
    pub async fn ready(&self, within: Duration) -> Result<(), NoOutcome> {
        let unavailable = |why: &str| Err(NoOutcome::Unavailable(why.into()));
        let (answer, answered) = oneshot::channel();
        let asked_at = C::now();
        let by = asked_at + within;
        if self.asks.send(Ask { by, answer }).await.is_err() {
            return unavailable("this node is stopping");
        }
        let Ok(index) = answered.await else { return unavailable("this node is stopping") };
        match C::timeout_at(by, self.hub.has_applied(index?)).await {
            Ok(()) => {
                let mut in_step_at = self.in_step_at.lock().unwrap_or_else(PoisonError::into_inner);
                *in_step_at = (*in_step_at).max(Some(asked_at));
                Ok(())
            }
            Err(_) => unavailable("this node is too far behind the leader to answer in time: ask another one"),
        }
    }

    /// The latest moment at which this node's state is known to have had everything that was committed; `None` if there
    /// was none since it started. The arrival of a leader's message does not count: it may have been sent long before.
    pub fn in_step_at(&self) -> Option<InstantOf<C>> {
        *self.in_step_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the leader periodically, so that a local read can state a recent age even on an idle node.
    pub(crate) async fn stay_in_step(self) {
        loop {
            let _ = self.ready(ROUND_WITHIN).await;
            C::sleep(IN_STEP_EVERY).await;
        }
    }
}

/// Runs the rounds, one at a time.
pub(crate) struct Rounds<C: Types, D: StateDisk, P> {
    id: NodeId,
    raft: Raft<C, Machine<C, D>>,
    calls: P,
    asks: mpsc::Receiver<Ask<C>>,
}

impl<C: Types, D: StateDisk, P: PeerCalls> Rounds<C, D, P> {
    pub(crate) fn new(id: NodeId, raft: Raft<C, Machine<C, D>>, calls: P, hub: Arc<Hub>) -> (Reads<C>, Self) {
        let (sender, asks) = mpsc::channel(QUEUE);
        (Reads { asks: sender, hub, in_step_at: Arc::default() }, Self { id, raft, calls, asks })
    }

    pub(crate) async fn run(mut self) {
        while let Some(first) = self.asks.recv().await {
            let mut asks = vec![first];
            while let Ok(next) = self.asks.try_recv() {
                asks.push(next);
            }
            self.round(asks).await;
        }
    }

    async fn round(&self, mut asks: Vec<Ask<C>>) {
        loop {
            if let Some(index) = self.read_index().await {
                for ask in asks {
                    let _ = ask.answer.send(Ok(index));
                }
                return;
            }
            let now = C::now();
            let (alive, late): (Vec<_>, Vec<_>) = asks.into_iter().partition(|ask| ask.by > now);
            for ask in late {
                let why = "no leader with a quorum answered in time".into();
                let _ = ask.answer.send(Err(NoOutcome::Unavailable(why)));
            }
            asks = alive;
            if asks.is_empty() {
                return;
            }
            C::sleep(LEADER_RETRY).await;
        }
    }

    async fn read_index(&self) -> Option<u64> {
        let (leader, member) = known_leader(&self.raft)?;
        if leader == self.id {
            own_read_index(&self.raft).await
        } else {
            self.calls.read_index(leader, &member, ROUND_WITHIN).await
        }
    }
}

/// On the leader: the committed index, after a quorum has confirmed that it still leads. Never relies on the leader
/// lease.
pub(crate) async fn own_read_index<C: Types, D: StateDisk>(raft: &Raft<C, Machine<C, D>>) -> Option<u64> {
    if is_broken(Broken::LeaseRead) {
        return raft.metrics().borrow_watched().last_applied.map(|last| last.index());
    }
    let linearizer = raft.get_read_linearizer(ReadPolicy::ReadIndex);
    let linearizer = C::timeout(ROUND_WITHIN, linearizer).await.ok()?.ok()?;
    Some(linearizer.read_log_id().index())
}
