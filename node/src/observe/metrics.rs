//! The metrics of a node. Some are counted here as they happen; the others are sampled at each scrape, see [`sample`].
//!
//! There is a registry per node, since several may run in one process. No label carries an actor, an item or anything
//! else that a caller chose, except the names of queues and spaces, whose number is limited.

mod command;
mod encode;
mod process;
mod queues;
mod sample;

pub use command::{CommandName, name};
pub(crate) use process::bytes_in;

use crate::daemon::service::TokioNode;
use crate::edge::gate::GateStatus;
use lease::Code;
use openraft::ServerState;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use raft_store::log::LogMonitor;
use raft_store::types::NodeId;
use sample::Sample;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

/// The content type of the rendered text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The outcome of a call that was not refused.
pub const OK: &str = "ok";

/// The prefix of every name.
const PREFIX: &str = "tenure";
/// Bounds in seconds: from a read from memory to a claim that waits in line.
const CALL_BUCKETS: [f64; 11] = [0.0005, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

type Labels<const N: usize> = [(&'static str, &'static str); N];
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// The metrics of one node. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: SystemTime,
    registry: Registry,
    calls: Histograms<2>,
    refusals: Family<Labels<1>, Counter>,
    shed: Family<Labels<1>, Counter>,
    denied: Counter,
    auth_failures: Family<Labels<1>, Counter>,
    tls_failures: Counter,
    body_bytes: Counter,
    command_bytes: Counter,
    streams: Gauge,
    in_flight: Gauge,
    connections: Gauge,
    room: Gauge,
    share: Gauge<f64, AtomicU64>,
    unsent: Gauge,
    admitted: Gauge,
    roles: Family<Labels<1>, Counter>,
    leaders: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    #[must_use]
    pub fn new() -> Self {
        let inner = Inner {
            started: SystemTime::now(),
            registry: Registry::with_prefix(PREFIX),
            calls: Family::new_with_constructor(|| Histogram::new(CALL_BUCKETS)),
            refusals: Family::default(),
            shed: Family::default(),
            denied: Counter::default(),
            auth_failures: Family::default(),
            tls_failures: Counter::default(),
            body_bytes: Counter::default(),
            command_bytes: Counter::default(),
            streams: Gauge::default(),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            room: Gauge::default(),
            share: Gauge::default(),
            unsent: Gauge::default(),
            admitted: Gauge::default(),
            roles: Family::default(),
            leaders: Counter::default(),
        };
        Self(Arc::new(inner.registered()))
    }

    /// A call was answered. `outcome` is [`OK`], a refusal's code or a code of the edge: from a closed set, never text
    /// from a caller.
    pub fn call(&self, command: CommandName, outcome: &'static str, took: Duration) {
        let labels = [("command", command.as_str()), ("outcome", outcome)];
        self.0.calls.get_or_create(&labels).observe(took.as_secs_f64());
        if outcome != OK {
            self.0.refusals.get_or_create(&[("code", outcome)]).inc();
        }
    }

    /// An entry of a batch was refused; the batch itself is counted as a [`Metrics::call`].
    pub fn entry_refused(&self, code: Code) {
        self.0.refusals.get_or_create(&[("code", code.name())]).inc();
    }

    /// A request was rejected unread.
    pub fn shed(&self, reason: &'static str) {
        self.0.shed.get_or_create(&[("reason", reason)]).inc();
    }

    /// Commands were answered without being proposed, because their callers had no right to them.
    pub fn denied(&self, commands: u64) {
        self.0.denied.inc_by(commands);
    }

    /// A request had no valid credential.
    pub fn auth_failed(&self, reason: &'static str) {
        self.0.auth_failures.get_or_create(&[("reason", reason)]).inc();
    }

    pub fn tls_failed(&self) {
        self.0.tls_failures.inc();
    }

    /// The body of a request was read.
    pub fn body_read(&self, bytes: u64) {
        self.0.body_bytes.inc_by(bytes);
    }

    /// A command of this many bytes was admitted.
    pub fn command_bytes(&self, bytes: u64) {
        self.0.command_bytes.inc_by(bytes);
    }

    /// A watch stream is open as long as the returned value lives.
    pub fn stream_opened(&self) -> Open {
        Open::of(&self.0.streams)
    }

    /// A request is in progress as long as the returned value lives.
    pub fn request_began(&self) -> Open {
        Open::of(&self.0.in_flight)
    }

    /// A caller's connection is open as long as the returned value lives.
    pub fn connection_opened(&self) -> Open {
        Open::of(&self.0.connections)
    }

    /// Sets the bytes of answers that wait to be sent.
    pub fn unsent(&self, bytes: usize) {
        self.0.unsent.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Sets the current values of the gate.
    pub fn room(&self, gate: GateStatus) {
        let shown = |commands: usize| i64::try_from(commands).unwrap_or(i64::MAX);
        self.0.room.set(shown(gate.room));
        self.0.admitted.set(shown(gate.in_flight));
        self.0.share.set(f64::from(u32::try_from(gate.share).unwrap_or(1_000)) / 1_000.0);
    }

    /// Counts a change of the node's role or of the leader that it knows.
    pub(crate) fn role(&self, before: Option<(ServerState, Option<NodeId>)>, now: (ServerState, Option<NodeId>)) {
        if before.map(|(state, _)| state) != Some(now.0) {
            self.0.roles.get_or_create(&[("role", sample::role_name(now.0))]).inc();
        }
        if now.1.is_some() && before.and_then(|(_, leader)| leader) != now.1 {
            self.0.leaders.inc();
        }
    }

    /// Renders all metrics. Reads files and, in pieces, the state: this takes some milliseconds with thousands of
    /// queues, so do not call it on a runtime thread.
    #[must_use]
    pub fn render(&self, node: &TokioNode, log: &LogMonitor) -> String {
        self.text(Sample::take(node, log, self.0.started))
    }

    fn text(&self, sample: Sample) -> String {
        let mut sampled = Registry::with_prefix(PREFIX);
        sampled.register_collector(Box::new(sample));
        let mut text = String::new();
        encode_registry(&mut text, &self.0.registry)
            .and_then(|()| encode_registry(&mut text, &sampled))
            .and_then(|()| encode_eof(&mut text))
            .expect("a String takes whatever is written");
        text
    }
}

impl Inner {
    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register_with_unit(
            "call",
            "Time from a call to its answer, by command and outcome: ok, or an error code",
            Unit::Seconds,
            self.calls.clone(),
        );
        registry.register("refusals", "Refused calls and refused entries of batches, by code", self.refusals.clone());
        registry.register(
            "requests_shed",
            "Requests rejected unread because a limit was reached, by reason",
            self.shed.clone(),
        );
        registry.register(
            "commands_denied",
            "Commands refused before the log because their callers had no right to them; a batch counts as one",
            self.denied.clone(),
        );
        registry.register(
            "auth_failures",
            "Requests without a valid credential, by reason",
            self.auth_failures.clone(),
        );
        registry.register(
            "tls_handshake_failures",
            "Callers' connections that ended before the TLS handshake was complete",
            self.tls_failures.clone(),
        );
        registry.register_with_unit(
            "request_body",
            "Bytes of request bodies read",
            Unit::Bytes,
            self.body_bytes.clone(),
        );
        registry.register_with_unit(
            "command",
            "Bytes of admitted commands, as encoded in the log",
            Unit::Bytes,
            self.command_bytes.clone(),
        );
        registry.register("streams_open", "Open watch streams", self.streams.clone());
        registry.register("requests_in_flight", "Requests in progress", self.in_flight.clone());
        registry.register("connections_open", "Open connections from callers", self.connections.clone());
        registry.register_with_unit(
            "unsent_answer",
            "Bytes of finished answers that are not sent to their callers yet",
            Unit::Bytes,
            self.unsent.clone(),
        );
        registry.register(
            "room_commands",
            "Commands that the node admits at a time: fewer while answers are slow, more while answers are fast and there is demand",
            self.room.clone(),
        );
        registry.register(
            "actor_share",
            "Part of its rates that an actor may use, from 0 to 1: less than 1 while light callers wait longer than usual",
            self.share.clone(),
        );
        registry.register("commands_in_flight", "Admitted commands that are not answered yet", self.admitted.clone());
        registry.register(
            "raft_role_changes",
            "Changes of this node's role, by the new role: candidate is an election started, leader is an election won",
            self.roles.clone(),
        );
        registry.register("raft_leader_changes", "Times this node learned of a new leader", self.leaders.clone());
        self
    }
}

/// Increments a gauge as long as it lives.
#[derive(Debug)]
#[must_use = "it is counted only as long as this lives"]
pub struct Open(Gauge);

impl Open {
    fn of(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests;
