//! Encodes a sample: the name, help text and labels of every sampled metric.

use super::queues::{Depth, Queues};
use super::sample::{ProposerSample, RaftSample, Sample};
use crate::replica::role::Role;
use lease::bounds::RULES_VERSION;
use lease::numbers::Time;
use lease::standing::StateKind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use raft_store::histogram::Counted;
use std::fmt;
use std::time::Duration;

/// The states of live items. Items in a final state are in the archive and are not counted by queue.
const LIVE: [StateKind; 7] = [
    StateKind::Pending,
    StateKind::Queued,
    StateKind::Active,
    StateKind::AwaitingInput,
    StateKind::Stale,
    StateKind::Reserved,
    StateKind::Blocked,
];

impl Collector for Sample {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out(encoder);
        out.about_the_process(self)?;
        out.about_raft(&self.raft)?;
        out.about_role_changes(self)?;
        out.about_snapshots(self)?;
        out.about_time(self)?;
        out.about_proposals(&self.proposer, self.denied)?;
        out.about_the_disk(self)?;
        out.about_the_state(self)?;
        out.about_queues(&self.queues, self.cluster_time)
    }
}

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn about_the_process(&mut self, sample: &Sample) -> fmt::Result {
        let rules = RULES_VERSION.to_string();
        let build = [("version", env!("CARGO_PKG_VERSION")), ("rules_version", rules.as_str())];
        self.gauges(
            "build_info",
            "Always 1: the build's version, and the highest rules version that it knows",
            None,
            [(build, 1_u64)],
        )?;
        self.gauge(
            "start_time",
            "Start time of this node, in Unix time",
            Some(Unit::Seconds),
            sample.started.as_secs_f64(),
        )?;
        self.gauge("failed", "1 if this node has failed and is about to stop", None, u64::from(sample.has_failed))?;
        let process = &sample.process;
        if let Some(bytes) = process.resident_bytes {
            self.gauge("process_resident_memory", "Resident memory of the process", Some(Unit::Bytes), bytes)?;
        }
        if let Some(files) = process.open_files {
            self.gauge("process_open_fds", "Open files and sockets of the process", None, files)?;
        }
        if let Some(max) = process.open_files_max {
            self.gauge("process_max_fds", "Limit of open files and sockets of the process", None, max)?;
        }
        Ok(())
    }

    fn about_raft(&mut self, raft: &RaftSample) -> fmt::Result {
        let roles = Role::ALL.map(|role| ([("role", role.name())], u64::from(role.name() == raft.role)));
        self.gauges("raft_role", "1 for the role that this node has, 0 for the others", None, roles)?;
        self.gauge("raft_term", "Raft's term", None, raft.term)?;
        self.gauge("raft_leader_known", "1 if this node knows a leader", None, u64::from(raft.knows_leader))?;
        let members = [([("kind", "voter")], raft.voters), ([("kind", "learner")], raft.learners)];
        self.gauges("raft_members", "Nodes of the cluster, by kind: voter or learner", None, members)?;
        self.gauge("raft_last_log_index", "Index of the newest entry in this node's log", None, raft.last_log)?;
        self.gauge(
            "raft_committed_index",
            "Index of the newest entry that this node knows to be committed",
            None,
            raft.committed,
        )?;
        self.gauge(
            "raft_applied_index",
            "Index of the newest entry that this node has applied to its state",
            None,
            raft.applied,
        )?;
        self.gauge(
            "raft_snapshot_index",
            "Index of the newest entry in this node's newest snapshot",
            None,
            raft.snapshot,
        )?;
        self.gauge(
            "raft_purged_index",
            "Index of the newest entry that this node has purged from its log",
            None,
            raft.purged,
        )?;
        let ids: Vec<(String, u64)> = raft.lag.iter().map(|(id, lag)| (id.to_string(), *lag)).collect();
        let lag = ids.iter().map(|(id, lag)| ([("node", id.as_str())], *lag));
        self.gauges(
            "raft_member_lag_entries",
            "Entries that another member lacks, as the leader sees it; on the leader only",
            None,
            lag,
        )?;
        if let Some(before) = raft.quorum_acked_before {
            let help = "Time since a majority last answered the leader; on the leader only";
            self.gauge("raft_quorum_acked_age", help, Some(Unit::Seconds), before.as_secs_f64())?;
        }
        Ok(())
    }

    fn about_role_changes(&mut self, sample: &Sample) -> fmt::Result {
        let help =
            "Changes of this node's role, by the new role: candidate is an election started, leader is an election won";
        let changes = sample.role_changes.iter().map(|(role, count)| ([("role", *role)], *count));
        self.counters("raft_role_changes", help, changes)?;
        let help = "Times this node learned of a new leader";
        self.counter("raft_leader_changes", help, None, sample.leader_changes)
    }

    fn about_snapshots(&mut self, sample: &Sample) -> fmt::Result {
        self.counter("snapshots_taken", "Snapshots that this node took of its state", None, sample.snapshots_taken)?;
        self.counter(
            "snapshots_installed",
            "Snapshots of other nodes that replaced this node's state",
            None,
            sample.snapshots_installed,
        )?;
        self.counter(
            "snapshots_sent",
            "Snapshots that this node sent and another one installed",
            None,
            sample.snapshots_sent,
        )
    }

    fn about_time(&mut self, sample: &Sample) -> fmt::Result {
        let time = sample.cluster_time.as_secs_f64();
        self.gauge(
            "cluster_time",
            "Cluster time of this node's state; leases expire by it",
            Some(Unit::Seconds),
            time,
        )?;
        let help = "Time that this leadership did not charge to holders because the leader had stalled or no quorum answered it; 0 on a node that does not lead";
        self.gauge("clock_withheld", help, Some(Unit::Seconds), sample.withheld.as_secs_f64())
    }

    fn about_proposals(&mut self, proposer: &ProposerSample, denied: u64) -> fmt::Result {
        self.counter(
            "proposed_batches",
            "Batches that this node proposed as the leader; a batch without commands is a tick",
            None,
            proposer.batches,
        )?;
        self.counter("proposed_commands", "Commands in the batches that this node proposed", None, proposer.commands)?;
        self.counter(
            "forwarded_commands",
            "Commands that this node forwarded to the leader",
            None,
            proposer.forwarded,
        )?;
        let help = "Commands refused before the log because their callers had no right to them; a batch counts as one";
        self.counter("commands_denied", help, None, denied)?;
        self.histogram("batch_commands", "Commands per batch", None, &proposer.batch_commands, 1.0)?;
        let help = "Time from a batch's proposal to its answer: log, replication and apply; on the leader only";
        self.histogram("commit", help, Some(Unit::Seconds), &proposer.commit_nanos, 1e9)
    }

    fn about_the_disk(&mut self, sample: &Sample) -> fmt::Result {
        let help = "Time of a write to the log that ended with an fsync";
        self.histogram("log_sync", help, Some(Unit::Seconds), &sample.log_histograms.sync_nanos, 1e9)?;
        self.histogram("log_write_entries", "Entries per write to the log", None, &sample.log_histograms.entries, 1.0)?;
        self.counter("log_entries_written", "Entries written to the log", None, sample.log.entries_written)?;
        self.counter("log_written", "Bytes written to the log", Some(Unit::Bytes), sample.log.bytes_written)?;
        let parts = sample.disk_bytes.map(|(part, bytes)| ([("part", part)], bytes));
        let help = "Bytes of this node's files, by part of its directory. Snapshots share files with the state: the sum counts them twice";
        self.gauges("disk_used", help, Some(Unit::Bytes), parts)?;
        let help = "Bytes of the entries in the log; its files are larger";
        self.gauge("log_held", help, Some(Unit::Bytes), sample.log_held)?;
        let disk = &sample.disk;
        self.gauge("disk_free", "Free space of this node's file system", Some(Unit::Bytes), disk.free)?;
        let help = "Free space below which this node is low on disk; below a quarter of it the node stops";
        self.gauge("disk_floor", help, Some(Unit::Bytes), disk.floor)?;
        let help =
            "1 for a voter that is low on disk or, on the leader, does not answer; other voters on the leader only";
        let low = disk.low.iter().map(|(node, is_low)| ([("node", *node)], u64::from(*is_low)));
        self.gauges("disk_low", help, None, low)?;
        let help = "1 on a leader that accepts only commands that keep or end a lease, because disk space is low";
        self.gauge("disk_work_refused", help, None, u64::from(disk.refuses_work))
    }

    fn about_the_state(&mut self, sample: &Sample) -> fmt::Result {
        let kinds = sample.events.iter().map(|(kind, count)| ([("kind", *kind)], *count));
        self.counters("events", "Events that this node has applied since it started, by kind", kinds)?;
        self.gauge("rules_version", "The rules version that the cluster uses", None, sample.rules_version)?;
        let help = "1 if leases are granted: 0 between a restore and its activation";
        self.gauge("activated", help, None, u64::from(sample.is_activated))?;
        self.gauge(
            "remembered_requests",
            "Requests whose answers are remembered, so that a repeat has no second effect",
            None,
            sample.remembered_requests,
        )?;
        self.gauge("waiters", "Callers on this node that wait for an event", None, sample.waiting)
    }

    fn about_queues(&mut self, queues: &Queues, now: Duration) -> fmt::Result {
        let now = Time(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let all = &queues.all;
        self.gauge("queues", "Queues of all spaces", None, queues.count)?;
        let states = LIVE.map(|state| ([("state", state.name())], count(all, state)));
        self.gauges("items", "Items that are not in a final state, by state", None, states)?;
        self.gauge("leases", "Live leases", None, all.leases)?;
        self.gauge("ready_items", "Items that `next` could hand out", None, all.ready)?;
        self.gauge(
            "oldest_ready_age",
            "Age of the oldest ready item, in cluster time",
            Some(Unit::Seconds),
            age(all, now),
        )?;
        self.gauge("items_with_line", "Items with a wait line", None, all.lines)?;
        self.gauge("waiting_claims", "Claims that wait in a line", None, all.waiting)?;

        let named = queues.named.iter().map(|((space, queue), depth)| (space.as_str(), queue.as_str(), depth));
        // No space has an empty name, so a queue with the name `other` is a different series.
        let shown: Vec<_> = named.chain(queues.other.as_ref().map(|depth| ("", "other", depth))).collect();
        let labelled = |value: &dyn Fn(&Depth) -> u64| -> Vec<_> {
            shown.iter().map(|(space, queue, depth)| ([("space", *space), ("queue", *queue)], value(depth))).collect()
        };
        let by_state = shown.iter().flat_map(|(space, queue, depth)| {
            LIVE.map(|state| ([("space", *space), ("queue", *queue), ("state", state.name())], count(depth, state)))
        });
        self.gauges("queue_items", "Items of a queue that are not in a final state, by state", None, by_state)?;
        self.gauges("queue_leases", "Live leases in a queue", None, labelled(&|depth| depth.leases))?;
        self.gauges(
            "queue_ready_items",
            "Items of a queue that `next` could hand out",
            None,
            labelled(&|depth| depth.ready),
        )?;
        let ages = shown.iter().map(|(space, queue, depth)| ([("space", *space), ("queue", *queue)], age(depth, now)));
        self.gauges(
            "queue_oldest_ready_age",
            "Age of the oldest ready item, in cluster time",
            Some(Unit::Seconds),
            ages,
        )?;
        self.gauges(
            "queue_waiting_claims",
            "Claims that wait in a line for items of a queue",
            None,
            labelled(&|depth| depth.waiting),
        )
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<Unit>, value: impl EncodeGaugeValue) -> fmt::Result {
        self.begin(name, help, unit.as_ref(), MetricType::Gauge)?.encode_gauge(&value)
    }

    fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        values: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut encoder = self.begin(name, help, unit.as_ref(), MetricType::Gauge)?;
        for (labels, value) in values {
            encoder.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, unit: Option<Unit>, value: u64) -> fmt::Result {
        self.begin(name, help, unit.as_ref(), MetricType::Counter)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut encoder = self.begin(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// `per_unit` is the number of counted units in one displayed unit.
    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        counted: &Counted,
        per_unit: f64,
    ) -> fmt::Result {
        // Counts below 2^53 are exact; sums are precise enough.
        #[allow(clippy::cast_precision_loss)]
        let shown = |value: u64| value as f64 / per_unit;
        let bounds = counted.bounds.iter().map(|bound| shown(*bound)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counted.counts.iter().copied()).collect();
        let total = counted.counts.iter().sum();
        let mut encoder = self.begin(name, help, unit.as_ref(), MetricType::Histogram)?;
        encoder.encode_histogram::<NoLabelSet>(shown(counted.sum), total, &buckets, None)
    }

    fn begin<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        unit: Option<&'s Unit>,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        // The registry also appends a full stop to its help texts.
        self.0.encode_descriptor(name, &format!("{help}."), unit, kind)
    }
}

fn count(depth: &Depth, state: StateKind) -> u64 {
    depth.by_state.get(&state).copied().unwrap_or(0)
}

fn age(depth: &Depth, now: Time) -> f64 {
    let millis = depth.oldest_ready_since.map_or(0, |since| now.0.saturating_sub(since.0));
    Duration::from_millis(millis).as_secs_f64()
}
