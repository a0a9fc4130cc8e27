//! A node: Raft, the state machine, and the tasks around them. Generic over runtime, disk and network, so that a
//! simulation runs the same code.

use crate::replica::change;
use crate::replica::clock::Clock;
use crate::replica::compare;
use crate::replica::disk_space::DiskSpace;
use crate::replica::hub::Hub;
use crate::replica::leadership;
use crate::replica::no_outcome::NoOutcome;
use crate::replica::peer_calls::PeerCalls;
use crate::replica::propose::{Gatherer, Proposer, Responds};
use crate::replica::reads::{self, Reads, Rounds};
use crate::replica::role::RoleChanges;
use crate::replica::tick;
use crate::replica::wall::WallClock;
use futures_util::FutureExt;
use futures_util::future::{self, Either};
use lease::{Archive, State};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::network::{NetSnapshot, RaftNetworkFactory};
use openraft::storage::RaftLogStorage;
use openraft::type_config::TypeConfigExt;
use openraft::type_config::alias::{InstantOf, JoinHandleOf};
use openraft::{Config, Raft, SnapshotPolicy};
use raft_store::state::disk::StateDisk;
use raft_store::state::{Machine, Progress, StateStore};
use raft_store::types::{NodeId, Types};
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Raft's settings. The defaults are for production; tests use tiny values.
#[derive(Clone, Debug)]
pub struct RaftSettings {
    pub heartbeat: Duration,
    pub election_min: Duration,
    pub election_max: Duration,
    /// A snapshot is taken, and the log may be purged, after this many entries, or after this many bytes of entries.
    pub snapshot_every: u64,
    pub snapshot_bytes: u64,
    /// Entries, and bytes of entries, kept after a snapshot: a node that missed fewer needs no snapshot.
    pub entries_kept: u64,
    pub bytes_kept: u64,
    /// How often nodes compare their state hashes.
    pub compare_every: Duration,
}

impl Default for RaftSettings {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(400),
            election_max: Duration::from_millis(600),
            snapshot_every: 100_000,
            snapshot_bytes: 256 * 1024 * 1024,
            entries_kept: 100_000,
            bytes_kept: 256 * 1024 * 1024,
            compare_every: Duration::from_secs(10),
        }
    }
}

impl RaftSettings {
    fn config(&self) -> Result<Config, StartError> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: "tenure".into(),
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: millis(self.election_min),
            election_timeout_max: millis(self.election_max),
            // A partitioned or restarted node must not depose a leader that all others still hear.
            enable_pre_vote: Some(true),
            // A restored leader would lead before a quorum has confirmed it.
            enable_leader_restore: Some(false),
            // In a partial partition an old leader's heartbeats would hold a connected quorum back for ever.
            quorum_loss_probe_interval: Some(millis(self.election_max) * 5 / 2),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            // `log_size` purges, since it also counts bytes.
            max_in_snapshot_log_to_keep: u64::MAX,
            // Enough for a large state over a slow link.
            install_snapshot_timeout: 10 * 60 * 1_000,
            // The log itself bounds the bytes that are read for one frame.
            max_payload_entries: 1_024,
            // A follower that lost the end of its log receives it again: decision 0011.
            allow_log_reversion: Some(true),
            ..Config::default()
        };
        config.validate().map_err(|error| StartError::Settings(error.to_string()))
    }
}

/// The position and the age of the state that a local read saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateAge {
    pub progress: Progress,
    /// The state has everything that was committed this long ago. None: unknown since this node started.
    pub in_step_within: Option<Duration>,
}

/// Why a node did not start.
#[derive(Debug)]
pub enum StartError {
    Settings(String),
    Raft(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(why) => write!(f, "invalid Raft settings: {why}"),
            Self::Raft(why) => write!(f, "Raft could not start: {why}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A running node. Clones share it.
pub struct Node<C: Types, D: StateDisk, P> {
    inner: Arc<Inner<C, D, P>>,
}

struct Inner<C: Types, D: StateDisk, P> {
    id: NodeId,
    raft: Raft<C, Machine<C, D>>,
    store: Arc<StateStore<D>>,
    hub: Arc<Hub>,
    clock: Arc<Clock<InstantOf<C>>>,
    proposer: Proposer<C>,
    reads: Reads<C>,
    calls: P,
    failure: Arc<Mutex<Option<String>>>,
    roles: Arc<RoleChanges>,
    /// Commands that were answered without being proposed, because their callers had no right to them.
    denied: AtomicU64,
    disk: DiskSpace,
    tasks: Mutex<Vec<JoinHandleOf<C, ()>>>,
    stop: CancellationToken,
}

impl<C: Types, D: StateDisk, P> Clone for Node<C, D, P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<C: Types, D: StateDisk, P> fmt::Debug for Node<C, D, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node {}", self.inner.id)
    }
}

impl<C: Responds, D: StateDisk, P: PeerCalls> Node<C, D, P> {
    /// Starts Raft and the tasks around it. The node votes and follows from now on; it serves once it knows a leader.
    ///
    /// # Errors
    /// When the settings are invalid or storage cannot be read.
    pub async fn start<L, N>(
        id: NodeId,
        settings: &RaftSettings,
        log: L,
        store: Arc<StateStore<D>>,
        network: N,
        calls: P,
        wall: WallClock,
    ) -> Result<Self, StartError>
    where
        L: RaftLogStorage<C>,
        N: RaftNetworkFactory<C, Network: NetSnapshot<C, SnapshotData = D::Snapshot>>,
    {
        let config = Arc::new(settings.config()?);
        let hub = Hub::new(store.progress());
        let machine = Machine::new(store.clone(), hub.clone());
        let raft =
            Raft::new(id, config, network, log, machine).await.map_err(|fatal| StartError::Raft(fatal.to_string()))?;
        let (backing, leader_lease) = (raft.clone(), settings.election_max);
        let clock = Arc::new(Clock::new(move |now| leadership::backed_until(&backing, leader_lease, now)));
        let failure = Arc::new(Mutex::new(None));
        let roles = Arc::new(RoleChanges::default());
        let disk = DiskSpace::default();
        let (proposer, gatherer) =
            Gatherer::new(id, raft.clone(), clock.clone(), wall.clone(), calls.clone(), disk.clone());
        let (reads, rounds) = Rounds::new(id, raft.clone(), calls.clone(), hub.clone());
        let stop = CancellationToken::new();
        let own = (raft.clone(), store.clone(), calls.clone(), failure.clone());
        let (followed, counted) = (failure.clone(), roles.clone());
        let following =
            leadership::follow(id, raft.clone(), calls.clone(), clock.clone(), hub.clone(), followed, counted);
        let comparing = compare::run(id, settings.compare_every, own.0, own.1, own.2, own.3);
        let ticking = tick::run(clock.clone(), hub.clone(), proposer.clone(), wall);
        let finishing = change::finish_left_changes(raft.clone());
        let tasks = Mutex::default();
        let denied = AtomicU64::new(0);
        let inner =
            Inner { id, raft, store, hub, clock, proposer, reads, calls, failure, roles, denied, disk, tasks, stop };
        let node = Self { inner: Arc::new(inner) };
        node.keep("proposer", gatherer.run());
        node.keep("reads", rounds.run());
        node.keep("in step", node.inner.reads.clone().stay_in_step());
        node.keep("leadership", following);
        node.keep("tick", ticking);
        node.keep("compare", comparing);
        node.keep("members", finishing);
        Ok(node)
    }

    /// Runs a task until this node stops. If the task panics, the node fails and stops: it must not continue to lead
    /// while part of its work is not done.
    pub fn keep(&self, what: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.inner.stop.clone();
        let (raft, failure) = (self.inner.raft.clone(), self.inner.failure.clone());
        let kept = C::spawn(async move {
            let task = AssertUnwindSafe(task).catch_unwind();
            if let Either::Right((Err(panic), _)) = future::select(pin!(stop.cancelled()), pin!(task)).await {
                let why = format!(
                    "the task `{what}` of this node panicked: {}. This is a defect: report it, and restart the node",
                    panic_message(panic.as_ref())
                );
                tracing::error!("{why}");
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                let _ = raft.shutdown().await;
            }
        });
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
    }

    #[must_use]
    pub fn id(&self) -> NodeId {
        self.inner.id
    }

    #[must_use]
    pub fn raft(&self) -> &Raft<C, Machine<C, D>> {
        &self.inner.raft
    }

    #[must_use]
    pub fn store(&self) -> &Arc<StateStore<D>> {
        &self.inner.store
    }

    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.inner.hub
    }

    #[must_use]
    pub fn clock(&self) -> &Clock<InstantOf<C>> {
        &self.inner.clock
    }

    #[must_use]
    pub fn proposer(&self) -> &Proposer<C> {
        &self.inner.proposer
    }

    /// How often this node changed its role.
    #[must_use]
    pub fn role_changes(&self) -> &RoleChanges {
        &self.inner.roles
    }

    /// Commands that were answered without being proposed, because their callers had no right to them.
    #[must_use]
    pub fn denied(&self) -> &AtomicU64 {
        &self.inner.denied
    }

    /// What this node knows about free disk space.
    #[must_use]
    pub fn disk_space(&self) -> &DiskSpace {
        &self.inner.disk
    }

    #[must_use]
    pub fn calls(&self) -> &P {
        &self.inner.calls
    }

    /// Returns when this node's state has everything that was committed at the time of the call, confirmed by a quorum.
    ///
    /// # Errors
    /// When no leader could be asked in time, or this node is too far behind.
    pub async fn in_step(&self, within: Duration) -> Result<(), NoOutcome> {
        self.inner.reads.ready(within).await
    }

    /// Reads a state that has everything that was committed at the time of the call.
    ///
    /// # Errors
    /// When no leader could be asked in time, or the disk failed.
    pub async fn read<R>(
        &self,
        within: Duration,
        look: impl FnOnce(&State, &dyn Archive) -> R,
    ) -> Result<R, NoOutcome> {
        self.in_step(within).await?;
        self.inner.store.read(look).map_err(|error| NoOutcome::Unavailable(error.to_string()))
    }

    /// Reads this node's own state and returns its position and maximum age. It asks no other node.
    ///
    /// # Errors
    /// When the disk failed.
    pub fn read_local<R>(&self, look: impl FnOnce(&State, &dyn Archive) -> R) -> io::Result<(R, StateAge)> {
        use openraft::Instant;
        // Before the read, so that the state is of this moment or later.
        let (in_step_at, progress) = (self.inner.reads.in_step_at(), self.inner.hub.current());
        let seen = self.inner.store.read(look)?;
        Ok((seen, StateAge { progress, in_step_within: in_step_at.map(|at| at.elapsed()) }))
    }

    /// The index that a read which starts now must have applied; `None` on a node that does not lead.
    pub async fn own_read_index(&self) -> Option<u64> {
        reads::own_read_index(&self.inner.raft).await
    }

    /// The leader, as far as this node knows.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        self.inner.raft.metrics().borrow_watched().current_leader
    }

    /// Why this node must stop: Raft or storage failed, or its state differs from the cluster's.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let own = self.inner.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        own.or_else(|| {
            let metrics = self.inner.raft.metrics();
            let running = metrics.borrow_watched().running_state.clone();
            running.err().map(|fatal| fatal.to_string())
        })
    }

    /// Ends every task without handing over leadership or flushing. Waiting callers get [`NoOutcome::Unknown`].
    pub async fn halt(&self) {
        let _ = self.inner.raft.shutdown().await;
        self.inner.stop.cancel();
        let tasks = std::mem::take(&mut *self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            let _ = task.await;
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
