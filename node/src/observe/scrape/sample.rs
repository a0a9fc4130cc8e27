//! A sample of a running node, taken at each scrape.

use super::process::{Process, bytes_in};
use super::queues::Queues;
use crate::peers::tokio_node::TokioNode;
use crate::replica::role::Role;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::histogram::Counted;
use raft_store::log::{LogHistograms, LogMonitor, LogStats};
use raft_store::types::NodeId;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) started: Duration,
    pub(super) has_failed: bool,
    pub(super) raft: RaftSample,
    pub(super) cluster_time: Duration,
    pub(super) withheld: Duration,
    /// The cluster's rules version, which may be lower than the highest one that this build knows.
    pub(super) rules_version: u32,
    pub(super) is_activated: bool,
    pub(super) remembered_requests: u64,
    pub(super) queues: Queues,
    pub(super) events: Vec<(&'static str, u64)>,
    pub(super) snapshots_taken: u64,
    pub(super) snapshots_installed: u64,
    pub(super) snapshots_sent: u64,
    pub(super) waiting: u64,
    pub(super) proposer: ProposerSample,
    pub(super) denied: u64,
    /// Changes to each role.
    pub(super) role_changes: Vec<(&'static str, u64)>,
    pub(super) leader_changes: u64,
    pub(super) log: LogStats,
    pub(super) log_histograms: LogHistograms,
    /// By part of the directory.
    pub(super) disk_bytes: [(&'static str, u64); 4],
    /// Bytes of the entries in the log.
    pub(super) log_held: u64,
    pub(super) disk: DiskSample,
    pub(super) process: Process,
}

#[derive(Clone, Debug, Default)]
pub(super) struct DiskSample {
    pub(super) free: u64,
    pub(super) floor: u64,
    /// Whether it is low, by node: this one, and the other voters if it leads.
    pub(super) low: BTreeMap<NodeId, bool>,
    pub(super) refuses_work: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RaftSample {
    pub(super) role: &'static str,
    pub(super) term: u64,
    pub(super) knows_leader: bool,
    pub(super) voters: u64,
    pub(super) learners: u64,
    pub(super) last_log: u64,
    pub(super) committed: u64,
    pub(super) applied: u64,
    pub(super) snapshot: u64,
    pub(super) purged: u64,
    /// Entries that each other member lacks; only a leader knows.
    pub(super) lag: BTreeMap<NodeId, u64>,
    /// Only on a leader.
    pub(super) quorum_acked_before: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ProposerSample {
    pub(super) batches: u64,
    pub(super) commands: u64,
    pub(super) forwarded: u64,
    pub(super) batch_commands: Counted,
    pub(super) commit_nanos: Counted,
}

impl Sample {
    pub(super) fn take(node: &TokioNode, log: &LogMonitor, started: SystemTime) -> Self {
        let store = node.store();
        let of_state =
            store.read(|state, _| (state.rules_version(), state.is_activated(), state.remembered_requests() as u64));
        // A disk failure ends the node and is reported elsewhere.
        let (rules_version, is_activated, remembered_requests) = of_state.unwrap_or_default();
        let directory = store.disk().directory();
        let state_path = directory.state_path().ok().flatten();
        let hub = node.hub();
        Self {
            started: started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            has_failed: log.failure().is_some() || node.failure().is_some(),
            raft: RaftSample::take(node),
            cluster_time: Duration::from_millis(hub.current().now.0),
            withheld: node.clock().withheld(),
            rules_version,
            is_activated,
            remembered_requests,
            queues: Queues::look(store).unwrap_or_default(),
            events: hub.counts().events().collect(),
            snapshots_taken: hub.counts().snapshots_taken.load(Ordering::Relaxed),
            snapshots_installed: hub.counts().snapshots_installed.load(Ordering::Relaxed),
            snapshots_sent: node.calls().snapshots_sent(),
            waiting: hub.waiting() as u64,
            proposer: ProposerSample::take(node),
            denied: node.denied().load(Ordering::Relaxed),
            role_changes: node.role_changes().by_role().map(|(role, count)| (role.name(), count)).collect(),
            leader_changes: node.role_changes().leaders(),
            log: log.stats(),
            log_histograms: log.histograms(),
            disk_bytes: [
                ("log", bytes_in(&directory.log_path())),
                ("state", state_path.map_or(0, |path| bytes_in(&path))),
                ("snapshots", bytes_in(&directory.snapshots_path())),
                ("incoming", bytes_in(&directory.incoming_path())),
            ],
            log_held: log.bytes_of(0..u64::MAX),
            disk: DiskSample::take(node),
            process: Process::look(),
        }
    }
}

impl DiskSample {
    fn take(node: &TokioNode) -> Self {
        let disk = node.disk_space();
        let mut low = disk.others();
        low.insert(node.id(), disk.is_low());
        Self { free: disk.free(), floor: disk.floor(), low, refuses_work: disk.refuses_work() }
    }
}

impl RaftSample {
    fn take(node: &TokioNode) -> Self {
        use openraft::Instant;
        let metrics = node.raft().metrics();
        let metrics = metrics.borrow_watched();
        let last_log = metrics.last_log_index.unwrap_or(0);
        let others = metrics.replication.iter().flatten().filter(|(id, _)| **id != node.id());
        let membership = metrics.membership_config.membership();
        Self {
            role: Role::of(&metrics).name(),
            term: metrics.current_term,
            knows_leader: metrics.current_leader.is_some(),
            voters: membership.voter_ids().count() as u64,
            learners: membership.learner_ids().count() as u64,
            last_log,
            committed: metrics.local_committed.map_or(0, |id| id.index),
            applied: metrics.last_applied.map_or(0, |id| id.index),
            snapshot: metrics.snapshot.map_or(0, |id| id.index),
            purged: metrics.purged.map_or(0, |id| id.index),
            lag: others
                .map(|(id, matched)| {
                    (*id, last_log.saturating_sub(matched.as_ref().map_or(0, |matched| matched.index)))
                })
                .collect(),
            quorum_acked_before: metrics.last_quorum_acked.map(|acked| acked.elapsed()),
        }
    }
}

impl ProposerSample {
    fn take(node: &TokioNode) -> Self {
        let counts = node.proposer().counts();
        Self {
            batches: counts.batches.load(Ordering::Relaxed),
            commands: counts.commands.load(Ordering::Relaxed),
            forwarded: counts.forwarded.load(Ordering::Relaxed),
            batch_commands: counts.batch_commands.read(),
            commit_nanos: counts.commit_nanos.read(),
        }
    }
}
