//! The metrics that are counted as they happen. This module knows nothing of a node: [`super::scrape`] adds what is
//! sampled.
//!
//! There is a registry per node, since several may run in one process. No label carries an actor, an item or anything
//! else that a caller chose.

use lease::Code;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

/// The outcome of a call that was not refused.
pub const OK: &str = "ok";

/// The prefix of every name.
pub(super) const PREFIX: &str = "tenure";
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
        };
        Self(Arc::new(inner.registered()))
    }

    /// A call was answered. `command` is the name of the operation; `outcome` is [`OK`], a refusal's code or a code of
    /// the edge. Both are from closed sets, never text from a caller.
    pub fn call(&self, command: &'static str, outcome: &'static str, took: Duration) {
        let labels = [("command", command), ("outcome", outcome)];
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
        self.0.unsent.set(level(bytes));
    }

    /// Sets the number of commands that the gate admits at a time.
    pub fn room(&self, commands: usize) {
        self.0.room.set(level(commands));
    }

    /// Sets the number of commands that the gate has admitted and that are not answered yet.
    pub fn admitted(&self, commands: usize) {
        self.0.admitted.set(level(commands));
    }

    /// Sets the part of its rates that an actor may use, in thousandths.
    pub fn share(&self, thousandths: u64) {
        self.0.share.set(f64::from(u32::try_from(thousandths).unwrap_or(1_000)) / 1_000.0);
    }

    pub(super) fn started(&self) -> SystemTime {
        self.0.started
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.0.registry
    }
}

fn level(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
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
