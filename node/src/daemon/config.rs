//! The daemon's options: flags take precedence over environment variables, then the TOML file, then defaults. One
//! struct holds them all.

use crate::daemon::open_files::Share;
use crate::daemon::settings::{Settings, Start};
use crate::edge::gate::GateLimits;
use crate::edge::identity::{ApiKeys, Authenticator};
use crate::edge::settings::EdgeSettings;
use crate::edge::tls::{EdgeFiles, EdgeTls};
use crate::observe::logs::LogFormat;
use crate::observe::otlp::Endpoint;
use crate::peers::admission::AdmittedNodes;
use crate::peers::server::CONNECTIONS_MAX as PEER_CONNECTIONS_MAX;
use crate::peers::tls::{PeerTls, TlsFiles};
use crate::replica::node::RaftSettings;
use clap::Args;
use lease::bounds::RULES_VERSION;
use raft_store::log::LogOptions;
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Data directory of a development node, relative to the working directory.
const DEV_DIRECTORY: &str = "tenure-data";
const PEER_PORT: u16 = 7401;
/// Address on which a development node listens for callers.
const DEV_LISTEN: &str = "127.0.0.1:7400";
/// One week: incidents are usually investigated within days.
const EVENTS_KEPT_HOURS: u32 = 7 * 24;

/// All options. In the file, an option has the flag's name with `_` for `-`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// TOML file with any of these options; flags and environment variables take precedence over it
    #[arg(long, env = "TENURED_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,

    /// Run a whole development cluster in this process, with data in ./tenure-data; no other option is needed
    #[arg(long, env = "TENURED_DEV", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub dev: Option<bool>,

    /// This node's id in the cluster, 1 or above; never use it again with another data directory
    #[arg(long, env = "TENURED_NODE_ID", value_name = "N")]
    pub node_id: Option<u64>,

    /// Folder for this node's data
    #[arg(long, env = "TENURED_DATA", value_name = "FOLDER")]
    pub data: Option<PathBuf>,

    /// Address on which to listen for other nodes [default: 0.0.0.0:7401; a free port of 127.0.0.1 with --dev]
    #[arg(long, env = "TENURED_PEER_LISTEN", value_name = "HOST:PORT")]
    pub peer_listen: Option<String>,

    /// Address at which other nodes reach this one [default: the listening address]
    #[arg(long, env = "TENURED_PEER_ADDRESS", value_name = "HOST:PORT")]
    pub peer_address: Option<String>,

    /// Start a new cluster with this node; no effect once the data folder belongs to a cluster
    #[arg(long, env = "TENURED_BOOTSTRAP", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub bootstrap: Option<bool>,

    /// Start a new cluster from a backup that is sent to POST /v1/cluster/restore; no effect once the data folder
    /// belongs to a cluster
    #[arg(long, env = "TENURED_AWAIT_RESTORE", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub await_restore: Option<bool>,

    /// Join the cluster of the nodes at these peer addresses; no effect once this node has joined
    #[arg(long, env = "TENURED_JOIN", value_name = "HOST:PORT", value_delimiter = ',')]
    pub join: Option<Vec<String>>,

    /// File with the join secret that `tenure cluster join-secret` printed, which lets this node join [default: the
    /// value of TENURED_JOIN_SECRET]
    #[arg(long, env = "TENURED_JOIN_SECRET_FILE", value_name = "FILE")]
    pub join_secret_file: Option<PathBuf>,

    /// Let node N join without a join secret if it has this peer address and a certificate for that host; may be
    /// repeated
    #[arg(long, env = "TENURED_ADMIT", value_name = "N=HOST:PORT", value_delimiter = ',')]
    pub admit: Option<Vec<String>>,

    /// Follow without a vote: this node does not ask for one and gets one only when an operator promotes it
    #[arg(long, env = "TENURED_LEARNER", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub learner: Option<bool>,

    /// Hours for which this node keeps past events; deleted events can no longer be read [default: 168]
    #[arg(long, env = "TENURED_EVENTS_KEPT_FOR", value_name = "HOURS")]
    pub events_kept_for: Option<u32>,

    /// Certificate authority of the cluster, PEM
    #[arg(long, env = "TENURED_PEER_CA", value_name = "FILE")]
    pub peer_ca: Option<PathBuf>,

    /// This node's certificate for connections between nodes, PEM
    #[arg(long, env = "TENURED_PEER_CERT", value_name = "FILE")]
    pub peer_cert: Option<PathBuf>,

    /// Private key of --peer-cert, PEM
    #[arg(long, env = "TENURED_PEER_KEY", value_name = "FILE")]
    pub peer_key: Option<PathBuf>,

    /// Revocation lists for the nodes' certificates, from their authorities, PEM; reloaded when the file changes
    #[arg(long, env = "TENURED_PEER_CRL", value_name = "FILE")]
    pub peer_crl: Option<PathBuf>,

    /// Connect to other nodes without TLS even if they are not on this machine
    #[arg(long, env = "TENURED_INSECURE_PEERS", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub insecure_peers: Option<bool>,

    /// Address on which to listen for callers [default: none, serves no callers; 127.0.0.1:7400 with --dev]
    #[arg(long, env = "TENURED_LISTEN", value_name = "HOST:PORT")]
    pub listen: Option<String>,

    /// Address at which callers reach this node [default: the listening address]
    #[arg(long, env = "TENURED_ADDRESS", value_name = "HOST:PORT")]
    pub address: Option<String>,

    /// TOML file with the callers' rights and the hashes of their API keys; reloaded when it changes
    #[arg(long, env = "TENURED_API_KEYS", value_name = "FILE")]
    pub api_keys: Option<PathBuf>,

    /// This node's certificate for callers, PEM; reloaded when it changes
    #[arg(long, env = "TENURED_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, PEM
    #[arg(long, env = "TENURED_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Serve callers without TLS even if they are not on this machine
    #[arg(long, env = "TENURED_INSECURE_CALLERS", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub insecure_callers: Option<bool>,

    /// Serve metrics without an API key to any caller on this machine; a proxy on this machine then exposes them to all
    /// of its callers
    #[arg(long, env = "TENURED_METRICS_OPEN", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub metrics_open: Option<bool>,

    /// Open connections from callers [default: 20,000 or what the limit of open files leaves, whichever is less]
    #[arg(long, env = "TENURED_CONNECTIONS_MAX", value_name = "N", hide_short_help = true)]
    pub connections_max: Option<usize>,

    /// Open connections from one address or one IPv6 /64 network [default: half of --connections-max]
    #[arg(long, env = "TENURED_CONNECTIONS_PER_ADDRESS", value_name = "N", hide_short_help = true)]
    pub connections_per_address: Option<usize>,

    /// Commands per second that one actor may send to this node; each entry of a batch counts as one [default: 5000]
    #[arg(long, env = "TENURED_ACTOR_COMMANDS_PER_SECOND", value_name = "N", hide_short_help = true)]
    pub actor_commands_per_second: Option<u32>,

    /// Bytes per second that one actor's commands to this node may add to the log [default: 8 MiB]
    #[arg(long, env = "TENURED_ACTOR_BYTES_PER_SECOND", value_name = "BYTES", hide_short_help = true)]
    pub actor_bytes_per_second: Option<u64>,

    /// Bytes per second that all commands to this node in one space may add to the log [default: 32 MiB]
    #[arg(long, env = "TENURED_SPACE_BYTES_PER_SECOND", value_name = "BYTES", hide_short_help = true)]
    pub space_bytes_per_second: Option<u64>,

    /// Milliseconds of one core's time per second for the lists and event pages of one actor [default: 100]
    #[arg(long, env = "TENURED_ACTOR_READING_MS_PER_SECOND", value_name = "MS", hide_short_help = true)]
    pub actor_reading_ms_per_second: Option<u32>,

    /// Format of the log output [default: text]
    #[arg(long, env = "TENURED_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Send request spans to the collector at this URL, by OTLP over HTTP
    #[arg(long, env = "TENURED_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// Milliseconds between heartbeats [default: 100]
    #[arg(long, env = "TENURED_HEARTBEAT_MS", value_name = "MS", hide_short_help = true)]
    pub heartbeat_ms: Option<u64>,

    /// Shortest time without a leader before an election, in milliseconds [default: 400]
    #[arg(long, env = "TENURED_ELECTION_MIN_MS", value_name = "MS", hide_short_help = true)]
    pub election_min_ms: Option<u64>,

    /// Longest time without a leader before an election, in milliseconds [default: 600]
    #[arg(long, env = "TENURED_ELECTION_MAX_MS", value_name = "MS", hide_short_help = true)]
    pub election_max_ms: Option<u64>,

    /// Take a snapshot after this many log entries [default: 100,000]
    #[arg(long, env = "TENURED_SNAPSHOT_EVERY", value_name = "ENTRIES", hide_short_help = true)]
    pub snapshot_every: Option<u64>,

    /// Log entries to keep after a snapshot, for nodes that were away [default: 100,000]
    #[arg(long, env = "TENURED_ENTRIES_KEPT", value_name = "ENTRIES", hide_short_help = true)]
    pub entries_kept: Option<u64>,

    /// Also take a snapshot after this many bytes of log entries [default: 256 MiB]
    #[arg(long, env = "TENURED_SNAPSHOT_BYTES", value_name = "BYTES", hide_short_help = true)]
    pub snapshot_bytes: Option<u64>,

    /// Bytes of log entries to keep after a snapshot; four times as many if a member still lacks them [default: 256
    /// MiB]
    #[arg(long, env = "TENURED_LOG_BYTES_KEPT", value_name = "BYTES", hide_short_help = true)]
    pub log_bytes_kept: Option<u64>,

    /// Free disk space below which this node rejects new work; below a quarter of it the node stops, and a start waits
    /// for half of it [default: 1 GiB or a tenth of the file system, whichever is less]
    #[arg(long, env = "TENURED_DISK_FREE_MIN", value_name = "BYTES", hide_short_help = true)]
    pub disk_free_min: Option<u64>,
}

/// An invalid configuration: which option is wrong, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Whether the address is reachable from this machine only.
fn is_local(address: &str) -> bool {
    split("", address)
        .is_ok_and(|(host, _)| host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

fn wrong<T>(why: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(why.into()))
}

impl Options {
    /// These options, with values from the file for those that are not set.
    ///
    /// # Errors
    /// When the file cannot be read or has an unknown option.
    pub fn with_file(self) -> Result<Self, ConfigError> {
        let Some(path) = &self.config else { return Ok(self) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError(format!("{}: cannot be read: {error}", path.display())))?;
        let file: Self = toml::from_str(&text).map_err(|error| ConfigError(format!("{}: {error}", path.display())))?;
        Ok(self.or(file))
    }

    fn or(self, file: Self) -> Self {
        // Names each field once. A field that is missing here does not compile.
        macro_rules! each_or {
            ($($field:ident),* $(,)?) => {
                Self { config: self.config, $($field: self.$field.or(file.$field)),* }
            };
        }
        each_or! {
            dev, node_id, data, peer_listen, peer_address, bootstrap, await_restore, join, join_secret_file, admit,
            learner, events_kept_for, peer_ca, peer_cert, peer_key, peer_crl, insecure_peers, listen, address,
            api_keys, tls_cert, tls_key, insecure_callers, metrics_open, connections_max, connections_per_address,
            log_format, otlp_endpoint, actor_commands_per_second, actor_bytes_per_second, space_bytes_per_second,
            actor_reading_ms_per_second, heartbeat_ms, election_min_ms, election_max_ms, snapshot_every,
            entries_kept, snapshot_bytes, log_bytes_kept, disk_free_min
        }
    }

    /// The daemon's settings, checked and with defaults filled in.
    ///
    /// # Errors
    /// When options are missing or contradict each other.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let dev = self.dev.unwrap_or(false);
        let node = match self.node_id {
            Some(0) => return wrong("--node-id: 0 is invalid; node ids begin with 1"),
            Some(id) => id,
            None if dev => 1,
            None => return wrong("--node-id is missing: give each node of the cluster its own id"),
        };
        let directory = match &self.data {
            Some(path) => path.clone(),
            None if dev => PathBuf::from(DEV_DIRECTORY),
            None => return wrong("--data is missing: give the folder for this node's data"),
        };
        let peer_listen = self.peer_listen.clone().unwrap_or_else(|| {
            // A development node has no peers: any free port will do.
            if dev { "127.0.0.1:0".into() } else { format!("0.0.0.0:{PEER_PORT}") }
        });
        let peer_address = self.peer_address.clone().unwrap_or_default();
        let (listen_host, _) = split("--peer-listen", &peer_listen)?;
        if !peer_address.is_empty() {
            split("--peer-address", &peer_address)?;
        } else if listen_host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
            return wrong(format!(
                "--peer-address is missing: {peer_listen} is every address of this machine; give the one at which other nodes \
                 reach it"
            ));
        }
        let start = self.start(dev)?;
        let learner = self.learner.unwrap_or(false);
        if learner && matches!(start, Start::Bootstrap | Start::Restore) {
            return wrong("--learner follows an existing cluster: the first node of a new cluster cannot use it");
        }
        let hours = self.events_kept_for.unwrap_or(EVENTS_KEPT_HOURS);
        if hours == 0 {
            return wrong("--events-kept-for must be above 0");
        }
        let raft = self.raft()?;
        Ok(Settings {
            node,
            directory,
            tls: self.tls(&peer_listen, &peer_address)?,
            peer_listen,
            peer_address,
            api_address: self.address.clone().unwrap_or_default(),
            edge: self.edge()?,
            start,
            learner,
            join_secret: self.join_secret()?,
            admitted: self.admitted()?,
            events_kept_for: Duration::from_secs(u64::from(hours) * 60 * 60),
            disk_free_min: self.disk_free_min,
            raft,
            log: LogOptions::default(),
            known_rules: RULES_VERSION,
            peer_connections_max: PEER_CONNECTIONS_MAX,
        })
    }

    /// The join secret: from the file, else from the environment.
    fn join_secret(&self) -> Result<Option<String>, ConfigError> {
        let secret = match &self.join_secret_file {
            None => std::env::var("TENURED_JOIN_SECRET").ok(),
            Some(path) => {
                let read = std::fs::read_to_string(path);
                let read = read.map_err(|error| ConfigError(format!("{}: cannot be read: {error}", path.display())));
                Some(read?)
            }
        };
        Ok(secret.map(|secret| secret.trim().to_owned()).filter(|secret| !secret.is_empty()))
    }

    fn admitted(&self) -> Result<AdmittedNodes, ConfigError> {
        let mut admitted = AdmittedNodes::new();
        for word in self.admit.iter().flatten() {
            let parts =
                word.split_once('=').and_then(|(node, address)| Some((node.trim().parse().ok()?, address.trim())));
            let Some((node @ 1.., address)) = parts else {
                return wrong(format!("--admit: {word:?} is invalid; write N=HOST:PORT"));
            };
            split("--admit", address)?;
            if admitted.insert(node, address.to_owned()).is_some() {
                return wrong(format!("--admit: node {node} appears more than once"));
            }
        }
        Ok(admitted)
    }

    /// How a node with an empty directory starts.
    fn start(&self, dev: bool) -> Result<Start, ConfigError> {
        let awaits = self.await_restore.unwrap_or(false);
        let begins = self.bootstrap.unwrap_or(dev && !awaits);
        match &self.join {
            _ if awaits && (begins || self.join.is_some()) => wrong(
                "--await-restore starts a cluster from a backup: it cannot be combined with --bootstrap or --join",
            ),
            _ if awaits && self.listen.is_none() && !dev => {
                wrong("--await-restore needs --listen: give the address to which the backup is sent")
            }
            _ if awaits => Ok(Start::Restore),
            Some(_) if begins => {
                wrong("--bootstrap starts a new cluster and --join joins an existing one: give only one of them")
            }
            Some(seeds) if seeds.is_empty() => wrong("--join: no address given"),
            Some(seeds) => {
                for seed in seeds {
                    split("--join", seed)?;
                }
                Ok(Start::Join(seeds.clone()))
            }
            None if begins => Ok(Start::Bootstrap),
            None => Ok(Start::Again),
        }
    }

    /// Divides the limit of open files: sets the maximum numbers of connections from callers and from nodes.
    ///
    /// # Errors
    /// When --connections-max does not fit.
    pub fn share_files(&self, settings: &mut Settings, limit: u64) -> Result<(), ConfigError> {
        let share = Share::of(limit);
        settings.peer_connections_max = share.peers;
        if self.connections_max == Some(0) || self.connections_per_address == Some(0) {
            return wrong("--connections-max and --connections-per-address must be above 0");
        }
        if let Some(asked) = self.connections_max.filter(|asked| *asked > share.callers) {
            return wrong(format!(
                "--connections-max {asked}: this process may open {limit} files, which leaves {} for connections from callers; \
                 raise the limit (ulimit -n, LimitNOFILE) or set a lower value",
                share.callers
            ));
        }
        let Some(edge) = &mut settings.edge else { return Ok(()) };
        let max = self.connections_max.unwrap_or_else(|| edge.server.connections_max.min(share.callers)).max(1);
        edge.server.connections_max = max;
        edge.server.address_connections_max = self.connections_per_address.unwrap_or(max.div_ceil(2)).min(max);
        Ok(())
    }

    /// The collector that gets the spans, if any.
    ///
    /// # Errors
    /// When the URL is invalid, or this build exports no spans.
    pub fn spans(&self) -> Result<Option<Endpoint>, ConfigError> {
        let read = self.otlp_endpoint.as_deref().map(Endpoint::parse).transpose();
        read.map_err(|why| ConfigError(format!("--otlp-endpoint: {why}")))
    }

    /// How callers are served; `None` if this node serves none.
    fn edge(&self) -> Result<Option<EdgeSettings>, ConfigError> {
        let dev = self.dev.unwrap_or(false);
        let Some(listen) = self.listen.clone().or_else(|| dev.then(|| DEV_LISTEN.into())) else {
            if self.address.is_some() || self.api_keys.is_some() || self.tls_cert.is_some() || self.tls_key.is_some() {
                return wrong("--listen is missing: give the address on which to listen for callers");
            }
            return Ok(None);
        };
        let (host, _) = split("--listen", &listen)?;
        match &self.address {
            Some(address) => {
                split("--address", address)?;
            }
            None if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) => {
                return wrong(format!(
                    "--address is missing: {listen} is every address of this machine; give the one at which callers reach it"
                ));
            }
            None => {}
        }
        let authenticator = match &self.api_keys {
            Some(path) => {
                let api_keys = ApiKeys::from_file(path).map_err(|error| ConfigError(error.to_string()))?;
                Authenticator::ApiKeys(api_keys)
            }
            None if dev && is_local(&listen) => Authenticator::SelfReported,
            None if dev => {
                return wrong(format!(
                    "--listen: {listen} is not on this machine; --dev accepts callers without an API key, so it listens on this \
                     machine only"
                ));
            }
            None => {
                return wrong(
                    "--api-keys is missing: give the file with the callers' API keys; `tenured api-key` makes a key",
                );
            }
        };
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let files = EdgeFiles { certificate: certificate.clone(), key: key.clone() };
                Some(EdgeTls::from_files(files).map_err(|error| ConfigError(error.to_string()))?)
            }
            (None, None) if is_local(&listen) || self.insecure_callers.unwrap_or(false) => None,
            (None, None) => {
                return wrong(
                    "callers send their API keys, so they must be served over TLS: give --tls-cert and --tls-key, or \
                     --insecure-callers behind a proxy that serves TLS",
                );
            }
            _ => return wrong("only one of --tls-cert and --tls-key is given: give both"),
        };
        let mut edge = EdgeSettings::new(listen, authenticator, tls);
        edge.address = self.address.clone().unwrap_or_default();
        edge.metrics_open = self.metrics_open.unwrap_or(edge.metrics_open);
        self.set_rates(&mut edge.gate)?;
        Ok(Some(edge))
    }

    /// Sets the rate limits of one actor and of all callers in one space.
    fn set_rates(&self, gate: &mut GateLimits) -> Result<(), ConfigError> {
        let positive = |flag: &str, given: Option<u64>| match given {
            Some(0) => wrong(format!("{flag} must be above 0")),
            given => Ok(given),
        };
        if let Some(rate) = self.actor_commands_per_second {
            positive("--actor-commands-per-second", Some(u64::from(rate)))?;
            (gate.actor_rate, gate.actor_burst) = (rate, rate.saturating_mul(2));
        }
        let of_actor = positive("--actor-bytes-per-second", self.actor_bytes_per_second)?;
        let of_space = positive("--space-bytes-per-second", self.space_bytes_per_second)?;
        gate.actor_byte_rate = of_actor.unwrap_or(gate.actor_byte_rate);
        gate.space_byte_rate = of_space.unwrap_or(gate.space_byte_rate);
        if let Some(millis) = self.actor_reading_ms_per_second {
            positive("--actor-reading-ms-per-second", Some(u64::from(millis)))?;
            gate.actor_reading = Duration::from_millis(u64::from(millis));
        }
        Ok(())
    }

    /// The certificate, key and authority for connections between nodes, if given.
    ///
    /// # Errors
    /// When only some of them are given, or a file is invalid.
    pub fn peer_tls(&self) -> Result<Option<PeerTls>, ConfigError> {
        match (&self.peer_ca, &self.peer_cert, &self.peer_key) {
            (Some(authority), Some(certificate), Some(key)) => {
                let files = TlsFiles {
                    authority: authority.clone(),
                    certificate: certificate.clone(),
                    key: key.clone(),
                    revoked: self.peer_crl.clone(),
                };
                PeerTls::from_files(files).map(Some).map_err(|error| ConfigError(error.to_string()))
            }
            (None, None, None) if self.peer_crl.is_some() => {
                wrong("--peer-crl works only with TLS between nodes: give --peer-ca, --peer-cert and --peer-key, too")
            }
            (None, None, None) => Ok(None),
            _ => wrong("only some of --peer-ca, --peer-cert and --peer-key are given: give all three"),
        }
    }

    fn tls(&self, listen: &str, address: &str) -> Result<Option<PeerTls>, ConfigError> {
        match self.peer_tls()? {
            Some(tls) => Ok(Some(tls)),
            None => {
                let mut addresses = [listen, address].into_iter().filter(|address| !address.is_empty());
                if addresses.all(is_local) || self.insecure_peers.unwrap_or(false) {
                    return Ok(None);
                }
                wrong(
                    "nodes must talk to each other over TLS: give --peer-ca, --peer-cert and --peer-key, or --insecure-peers on a \
                     network that you trust with your leases",
                )
            }
        }
    }

    fn raft(&self) -> Result<RaftSettings, ConfigError> {
        let usual = RaftSettings::default();
        let millis = |given: Option<u64>, usual: Duration| given.map_or(usual, Duration::from_millis);
        let raft = RaftSettings {
            heartbeat: millis(self.heartbeat_ms, usual.heartbeat),
            election_min: millis(self.election_min_ms, usual.election_min),
            election_max: millis(self.election_max_ms, usual.election_max),
            snapshot_every: self.snapshot_every.unwrap_or(usual.snapshot_every),
            entries_kept: self.entries_kept.unwrap_or(usual.entries_kept),
            snapshot_bytes: self.snapshot_bytes.unwrap_or(usual.snapshot_bytes),
            bytes_kept: self.log_bytes_kept.unwrap_or(usual.bytes_kept),
            ..usual
        };
        if raft.heartbeat.is_zero() || raft.heartbeat * 2 > raft.election_min {
            return wrong("--heartbeat-ms must be above 0 and at most half of --election-min-ms");
        }
        if raft.election_min >= raft.election_max {
            return wrong("--election-min-ms must be below --election-max-ms");
        }
        if raft.snapshot_every == 0 || raft.snapshot_bytes == 0 {
            return wrong("--snapshot-every and --snapshot-bytes must be above 0");
        }
        Ok(raft)
    }
}

/// Host and port of an address.
fn split<'a>(option: &str, address: &'a str) -> Result<(&'a str, u16), ConfigError> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match parts {
        Some((host, port)) if !host.is_empty() => Ok((host.trim_start_matches('[').trim_end_matches(']'), port)),
        _ => wrong(format!("{option}: {address:?} is invalid; write HOST:PORT")),
    }
}

/// The output of `check-config`: the settings that the daemon would use.
#[must_use]
pub fn describe(settings: &Settings) -> String {
    let start = match &settings.start {
        Start::Bootstrap => "starts a new cluster if its directory is empty".to_owned(),
        Start::Restore => "waits for a backup if its directory is empty".to_owned(),
        Start::Join(seeds) => format!("joins the cluster of {} if its directory is empty", seeds.join(", ")),
        Start::Again => "starts only with a directory that was used before".to_owned(),
    };
    let address = if settings.peer_address.is_empty() { &settings.peer_listen } else { &settings.peer_address };
    let data: &Path = &settings.directory;
    let callers = match &settings.edge {
        None => "serves no callers".to_owned(),
        Some(edge) => format!(
            "listens for callers at {}, {}, {}",
            edge.listen,
            if edge.tls.is_some() { "with TLS" } else { "without TLS" },
            match edge.authenticator {
                Authenticator::ApiKeys(_) => "who need an API key",
                Authenticator::SelfReported => "without API keys: callers name themselves",
            },
        ),
    };
    format!(
        "node {}\ndata in {}\nlistens for nodes at {}, is reached at {address}, {}\n{callers}\n{start}\nheartbeat {} ms, election \
         after {} to {} ms, snapshot every {} entries or {} bytes, {} entries and {} bytes kept\nevents kept for {} hours\n{}\n",
        settings.node,
        data.display(),
        settings.peer_listen,
        if settings.tls.is_some() { "with mutual TLS" } else { "without TLS" },
        settings.raft.heartbeat.as_millis(),
        settings.raft.election_min.as_millis(),
        settings.raft.election_max.as_millis(),
        settings.raft.snapshot_every,
        settings.raft.snapshot_bytes,
        settings.raft.entries_kept,
        settings.raft.bytes_kept,
        settings.events_kept_for.as_secs() / 3_600,
        settings.disk_free_min.map_or_else(
            || "rejects new work below 1 GiB of free disk space, or a tenth of the file system if that is less".into(),
            |floor| format!("rejects new work below {floor} bytes of free disk space"),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(toml: &str) -> Options {
        toml::from_str(toml).unwrap()
    }

    fn refusal(toml: &str) -> String {
        options(toml).settings().unwrap_err().to_string()
    }

    #[test]
    fn a_development_node_needs_nothing_else() {
        let settings = options("dev = true").settings().unwrap();
        assert_eq!((settings.node, settings.start), (1, Start::Bootstrap));
        assert_eq!(settings.directory, Path::new("tenure-data"));
        assert!(settings.tls.is_none());
    }

    #[test]
    fn errors_name_the_missing_or_contradicting_option() {
        assert!(refusal("").contains("--node-id"));
        assert!(refusal("node_id = 0").contains("begin with 1"));
        assert!(refusal("node_id = 1").contains("--data"));
        assert!(refusal("node_id = 1\ndata = 'd'").contains("--peer-address"));
        let there = "node_id = 1\ndata = 'd'\npeer_listen = '127.0.0.1:1'\n";
        assert!(refusal(&format!("{there}bootstrap = true\njoin = ['a:1']")).contains("give only one of them"));
        assert!(refusal(&format!("{there}bootstrap = true\nawait_restore = true")).contains("cannot be combined"));
        assert!(refusal(&format!("{there}await_restore = true")).contains("--await-restore needs --listen"));
        assert!(refusal(&format!("{there}join = ['a']")).contains("write HOST:PORT"));
        assert!(refusal(&format!("{there}events_kept_for = 0")).contains("--events-kept-for"));
        assert!(refusal(&format!("{there}peer_ca = 'x'")).contains("give all three"));
        assert!(refusal(&format!("{there}peer_crl = 'x'")).contains("--peer-ca"));
        assert!(refusal(&format!("{there}join_secret_file = '/nowhere'")).contains("/nowhere"));
        for wrong in ["2", "=a:1", "0=a:1", "b=a:1", "2=a", "2=a:1', '2=b:1"] {
            assert!(refusal(&format!("{there}admit = ['{wrong}']")).contains("--admit"), "{wrong}");
        }
        assert!(refusal("node_id = 1\ndata = 'd'\npeer_listen = '10.0.0.1:1'").contains("over TLS"));
        assert!(refusal(&format!("{there}heartbeat_ms = 300")).contains("half"));
        assert!(refusal(&format!("{there}election_min_ms = 600")).contains("below"));
        assert!(refusal(&format!("{there}snapshot_bytes = 0")).contains("--snapshot-bytes"));
    }

    #[test]
    fn connections_fit_into_the_limit_of_open_files() {
        let shared = |toml: &str, limit: u64| {
            let options = options(toml);
            let mut settings = options.settings().unwrap();
            options.share_files(&mut settings, limit)?;
            let server = settings.edge.unwrap().server;
            Ok::<_, ConfigError>((
                server.connections_max,
                server.address_connections_max,
                settings.peer_connections_max,
            ))
        };
        assert_eq!(shared("dev = true", 1_000_000), Ok((20_000, 10_000, 640)));
        assert_eq!(shared("dev = true", 1_024), Ok((256, 128, 256)));
        assert_eq!(shared("dev = true\nconnections_max = 100", 1_024), Ok((100, 50, 256)));
        assert_eq!(shared("dev = true\nconnections_per_address = 7", 1_024), Ok((256, 7, 256)));
        let refused = shared("dev = true\nconnections_max = 257", 1_024).unwrap_err().to_string();
        assert!(refused.contains("may open 1024 files, which leaves 256"), "{refused}");
        assert!(shared("dev = true\nconnections_max = 0", 1_024).is_err());
    }

    #[test]
    fn an_invalid_otlp_endpoint_is_refused_with_the_option_name() {
        assert_eq!(options("").spans(), Ok(None));
        let refused = options("otlp_endpoint = 'https://otel'").spans().unwrap_err().to_string();
        assert!(refused.starts_with("--otlp-endpoint: "), "{refused}");
    }

    #[test]
    fn callers_need_api_keys_and_tls_unless_they_are_on_this_machine() {
        let there = "node_id = 1\ndata = 'd'\npeer_listen = '127.0.0.1:1'\n";
        assert!(options(there).settings().unwrap().edge.is_none());
        assert!(refusal(&format!("{there}api_keys = 'x'")).contains("--listen"));
        assert!(refusal(&format!("{there}listen = '127.0.0.1:1'")).contains("--api-keys"));
        assert!(refusal(&format!("{there}listen = '0.0.0.0:1'")).contains("--address"));
        assert!(refusal("dev = true\nlisten = '10.0.0.1:1'").contains("on this machine only"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api-keys.toml");
        std::fs::write(&path, "").unwrap();
        let far = format!("{there}listen = '10.0.0.1:1'\napi_keys = {path:?}\n");
        assert!(refusal(&far).contains("--tls-cert"));
        assert!(refusal(&format!("{far}tls_cert = 'x'")).contains("give both"));
        assert!(options(&format!("{far}insecure_callers = true")).settings().unwrap().edge.is_some());
        let dev = options("dev = true").settings().unwrap().edge.unwrap();
        assert!(matches!(dev.authenticator, Authenticator::SelfReported));
    }

    #[test]
    fn metrics_need_an_api_key_unless_opened_or_in_development() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api-keys.toml");
        std::fs::write(&path, "").unwrap();
        let there = format!(
            "node_id = 1\ndata = 'd'\npeer_listen = '127.0.0.1:1'\nlisten = '127.0.0.1:2'\napi_keys = {path:?}\n"
        );
        let is_open = |toml: &str| options(toml).settings().unwrap().edge.unwrap().metrics_open;
        assert!(!is_open(&there));
        assert!(is_open(&format!("{there}metrics_open = true")));
        assert!(is_open("dev = true") && !is_open("dev = true\nmetrics_open = false"));
    }

    #[test]
    fn flags_take_precedence_over_the_file_and_unknown_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.toml");
        std::fs::write(&path, "node_id = 3\ndata = '/a'\npeer_listen = '127.0.0.1:5'\n").unwrap();
        let flags = Options { config: Some(path.clone()), data: Some("/b".into()), ..Options::default() };
        let settings = flags.clone().with_file().unwrap().settings().unwrap();
        assert_eq!((settings.node, settings.directory.as_path()), (3, Path::new("/b")));
        std::fs::write(&path, "node = 3").unwrap();
        assert!(flags.with_file().unwrap_err().to_string().contains("unknown field `node`"));
    }

    #[test]
    fn peers_on_other_machines_need_tls_unless_insecure_peers_is_set() {
        let far = "node_id = 1\ndata = 'd'\npeer_listen = '10.0.0.1:1'\ninsecure_peers = true";
        assert!(options(far).settings().unwrap().tls.is_none());
        assert!(options("dev = true\npeer_listen = '[::1]:0'").settings().is_ok());
    }
}
