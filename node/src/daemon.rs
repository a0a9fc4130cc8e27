//! The daemon: runs a node on tokio, RocksDB and TCP, from opening its directory to the last flush.

pub mod config;
mod disk_guard;
pub mod ending;
mod error;
mod joining;
mod log_size;
pub mod open_files;
mod retention;
pub mod service;
pub mod settings;

pub use error::DaemonError;
pub use settings::{Settings, Start};

use crate::admin::Admin;
use crate::edge::cursor::Cursors;
use crate::edge::front::Front;
use crate::edge::gate::Gate;
use crate::edge::identity::Authenticator;
use crate::edge::parser::Parser;
use crate::edge::server::EdgeServer;
use crate::edge::settings::EdgeSettings;
use crate::edge::survey::Surveys;
use crate::edge::unsent::{Unsent, UnsentLimits};
use crate::edge::{Edge, EdgeParts, restore_mode};
use crate::net::certificates;
use crate::observe::metrics::Metrics;
use crate::peers::NodeIdentity;
use crate::peers::Peers;
use crate::peers::network::Factory;
use crate::peers::roster::Roster;
use crate::peers::server::PeerServer;
use crate::peers::tokio_node::TokioNode;
use crate::peers::wire::JoinRequest;
use crate::replica::wall::wall_now;
use disk_guard::Floor;
use error::doing;
use joining::{become_member, join, join_request};
use lease::Salt;
use raft_store::codec::records::{IdentityRecord, MembershipRecord};
use raft_store::directory::{Directory, Found};
use raft_store::log::{LogMonitor, LogOptions, LogStore};
use raft_store::restore::{self, Target};
use raft_store::state::StateStore;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::{Group, Member, OnTokio};
use service::NodeService;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

/// Limit for finishing requests, and for handing over leadership, when the node stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);
const CLOSE_LOOK: Duration = Duration::from_millis(5);

/// A node that serves its peers.
#[derive(Debug)]
pub struct Daemon {
    node: TokioNode,
    admin: Admin,
    server: PeerServer,
    edge: Option<EdgeServer>,
    metrics: Metrics,
    member: Member,
    log: LogMonitor,
    /// Why it must stop for lack of disk space.
    out_of_space: Arc<OnceLock<String>>,
}

impl Daemon {
    /// Opens or creates the directory, joins the cluster, and runs.
    ///
    /// # Errors
    /// When it must not run; the message says what to do.
    pub async fn start(mut settings: Settings) -> Result<Self, DaemonError> {
        if settings.start == Start::Restore {
            await_backup(&settings).await?;
            settings.start = Start::Bootstrap;
        }
        let floor = Floor::new(settings.directory.clone(), settings.disk_free_min);
        disk_guard::wait_for_room(&floor).await.map_err(doing("cannot determine the free space of the file system"))?;
        let listener = TcpListener::bind(&settings.peer_listen).await;
        let listener = listener.map_err(doing(format!("cannot listen at {}", settings.peer_listen)))?;
        let bound = listener.local_addr().map_err(doing("cannot determine the listening address"))?;
        let peer_address =
            if settings.peer_address.is_empty() { bound.to_string() } else { settings.peer_address.clone() };
        let mut edge_listener = None;
        let mut api_address = settings.api_address.clone();
        if let Some(edge) = &settings.edge {
            let listener = TcpListener::bind(&edge.listen).await;
            let listener = listener.map_err(doing(format!("cannot listen at {}", edge.listen)))?;
            if api_address.is_empty() {
                let bound = listener.local_addr().map_err(doing("cannot determine the listening address"))?;
                api_address = bound.to_string();
            }
            edge_listener = Some(listener);
        }
        let mut member = Member { peer_address, api_address, instance: 0 };

        let mut joined = None;
        let directory = match Directory::find(&settings.directory)? {
            Found::Used(directory) => directory,
            Found::Empty if settings.start == Start::Again => {
                return Err(DaemonError::NothingToStart(settings.directory));
            }
            Found::Empty => {
                member.instance = Directory::plan(&settings.directory)?;
                let (directory, members) = make_directory(&settings, &member).await?;
                joined = members;
                directory
            }
        };
        directory.expect_node(settings.node)?;
        let identity = *directory.identity();
        member.instance = identity.instance;

        let group = Group::default();
        let log = LogStore::<OnTokio>::open(&directory.log_path(), group, settings.log);
        let log = log.map_err(DaemonError::Log)?;
        let monitor = log.monitor();
        let (incoming, log_folder) = (directory.incoming_path(), directory.log_path());
        let store = load(directory, group, identity.salt, settings.known_rules).await?;
        let own = NodeIdentity {
            group,
            cluster: Some(identity.cluster),
            node: identity.node,
            instance: identity.instance,
            rules_version: settings.known_rules,
        };
        let peers = Peers::new(own, settings.tls.clone());
        let factory = Factory::new(peers.clone());
        let node =
            TokioNode::start(identity.node, &settings.raft, log, store, factory, peers, Arc::new(wall_now)).await?;
        let admin = Admin::new(node.clone(), identity, monitor.clone());
        let seeds = if let Start::Join(seeds) = &settings.start { seeds.clone() } else { Vec::new() };
        let roster = Roster::new(node.clone(), seeds.clone(), joined);
        let service = NodeService::new(admin.clone(), roster.clone(), identity, settings.admitted, incoming);
        let renewed = settings.tls.clone();
        let server = PeerServer::start(listener, settings.tls, own, Arc::new(service), settings.peer_connections_max);
        let server = server.map_err(doing("cannot serve peers"))?;

        if settings.start == Start::Bootstrap {
            let members = BTreeMap::from([(identity.node, member.clone())]);
            node.bootstrap(members).await.map_err(DaemonError::Change)?;
        }
        node.keep("roster", roster.clone().keep_up());
        let asked = JoinRequest {
            cluster: Some(identity.cluster),
            is_new: false,
            wants_vote: !settings.learner,
            ..join_request(own, &member, settings.join_secret)
        };
        node.keep("joining", become_member(node.clone(), roster, asked, seeds));
        let out_of_space = Arc::new(OnceLock::new());
        let (disk, found) = (node.disk_space().clone(), out_of_space.clone());
        node.keep("disk space", async move {
            let _ = found.set(disk_guard::watch(&disk, &floor).await);
        });
        node.keep("disk guard", disk_guard::guard(node.clone()));
        node.keep("log size", log_size::run(node.clone(), monitor.clone(), settings.raft.clone(), log_folder));
        node.keep("retention", retention::run(node.clone(), settings.events_kept_for));
        if let Some(tls) = renewed {
            node.keep("peer certificates", certificates::renew("peers", move || tls.reload()));
        }
        let metrics = Metrics::new();
        let edge = match settings.edge.zip(edge_listener) {
            None => None,
            Some((edge, listener)) => Some(serve(edge, listener, &admin, &monitor, metrics.clone())?),
        };
        Ok(Self { node, admin, server, edge, metrics, member, log: monitor, out_of_space })
    }

    #[must_use]
    pub fn node(&self) -> &TokioNode {
        &self.node
    }

    /// The operators' interface. Drop every clone before stopping the daemon: each one keeps the databases open.
    #[must_use]
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// The server for callers, if this node serves any.
    #[must_use]
    pub fn edge(&self) -> Option<&EdgeServer> {
        self.edge.as_ref()
    }

    /// What this node counts as it happens.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// This node's entry in the membership.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.member
    }

    #[must_use]
    pub fn log(&self) -> &LogMonitor {
        &self.log
    }

    /// Why the daemon must stop by itself, if it must.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let of_listeners = || {
            let has_ended = self.server.has_ended() || self.edge.as_ref().is_some_and(EdgeServer::has_ended);
            has_ended
                .then(|| "a listener of this node panicked. This is a defect: report it, and restart the node".into())
        };
        self.admin.failure().or_else(of_listeners)
    }

    /// Why the daemon must stop before its disk is full, if it must: see [`Daemon::leave`].
    #[must_use]
    pub fn out_of_space(&self) -> Option<&str> {
        self.out_of_space.get().map(String::as_str)
    }

    /// Finishes requests in flight and hands over leadership; writes nothing that the log already has.
    pub async fn leave(mut self) {
        if let Some(edge) = self.edge.take() {
            edge.shutdown(STOP_WITHIN).await;
        }
        self.node.leave(STOP_WITHIN).await;
        self.close().await;
    }

    /// Finishes requests in flight, hands over leadership, and flushes the state to disk.
    pub async fn stop(mut self) {
        if let Some(edge) = self.edge.take() {
            edge.shutdown(STOP_WITHIN).await;
        }
        self.node.stop(STOP_WITHIN).await;
        self.close().await;
    }

    /// Ends as if the process were killed, as far as possible from inside: hands over and flushes nothing.
    pub async fn abandon(mut self) {
        drop(self.edge.take());
        self.node.halt().await;
        self.close().await;
    }

    /// Returns when both databases are closed, so that the directory can be opened again.
    async fn close(mut self) {
        self.server.shutdown().await;
        let store = Arc::downgrade(self.node.store());
        drop(self.node);
        drop(self.admin);
        let closed = async {
            let _ = self.log.failed().await;
            while store.strong_count() > 0 {
                sleep(CLOSE_LOOK).await;
            }
        };
        if timeout(STOP_WITHIN, closed).await.is_err() {
            tracing::warn!("the databases are still in use");
        }
    }
}

/// Waits until a backup was restored into the directory; returns at once if the directory is in use already.
async fn await_backup(settings: &Settings) -> Result<(), DaemonError> {
    if let Found::Used(_) = Directory::find(&settings.directory)? {
        return Ok(());
    }
    let Some(edge) = &settings.edge else { return Err(DaemonError::NothingToStart(settings.directory.clone())) };
    let target =
        Target { directory: settings.directory.clone(), node: settings.node, token_floor: None, accept_clock: false };
    let waiting = restore_mode::backup_has_come(edge, target).await;
    waiting.map_err(doing(format!("cannot listen at {}", edge.listen)))
}

/// Serves callers, and reloads the API keys and certificates when their files change.
fn serve(
    settings: EdgeSettings,
    listener: TcpListener,
    admin: &Admin,
    log: &LogMonitor,
    metrics: Metrics,
) -> Result<EdgeServer, DaemonError> {
    if let Authenticator::ApiKeys(api_keys) = settings.authenticator.clone() {
        admin.node().keep("API keys", api_keys.keep_up());
    }
    if let Some(tls) = settings.tls.clone() {
        admin.node().keep("certificates", certificates::renew("callers", move || tls.reload()));
    }
    let own_hosts = settings.own_hosts();
    let edge = Edge::new(EdgeParts {
        metrics: metrics.clone(),
        node: admin.node().clone(),
        admin: admin.clone(),
        log: log.clone(),
        authenticator: settings.authenticator,
        gate: Gate::new(settings.gate),
        unsent: Unsent::new(UnsentLimits::default()),
        surveys: Surveys::default(),
        parser: Parser::start().map_err(doing("cannot start the thread that parses large bodies"))?,
        cursors: Cursors::new(admin.salt()),
        patience: settings.patience,
        metrics_open: settings.metrics_open,
        own_hosts,
        audit: Default::default(),
        unfit: Mutex::default(),
        wall: Arc::new(wall_now),
    });
    let served = EdgeServer::start(listener, settings.tls, Front::new(edge), settings.server, metrics);
    served.map_err(doing("cannot serve callers"))
}

/// Loads the state on a blocking thread, since a large state takes seconds. A restored state first begins its epoch:
/// Raft does not run yet, so no entry can precede it.
async fn load(
    directory: Directory,
    group: Group,
    salt: Salt,
    known_rules: u32,
) -> Result<Arc<StateStore<RocksDisk>>, DaemonError> {
    let loading = tokio::task::spawn_blocking(move || {
        let state_disk = RocksDisk::open(directory, group).map_err(doing("the state cannot be loaded"))?;
        let state_disk = state_disk.knowing(known_rules);
        if let Some(begun) = restore::begin_epoch(&state_disk, wall_now()).map_err(DaemonError::Restored)? {
            tracing::warn!(
                epoch = begun.epoch.0,
                tokens_above = begun.tokens_above.0,
                "restored from a backup: all leases have ended, and nothing is granted until the cluster is activated"
            );
        }
        StateStore::open(state_disk, salt).map_err(doing("the state cannot be loaded"))
    });
    loading.await.map_err(io::Error::other).map_err(doing("the state cannot be loaded"))?
}

/// Creates the directory. A node that joined also gets the membership.
async fn make_directory(
    settings: &Settings,
    member: &Member,
) -> Result<(Directory, Option<MembershipRecord>), DaemonError> {
    let (cluster, salt, members) = match &settings.start {
        Start::Bootstrap => (random_u128()?, Salt([random_u64()?, random_u64()?]), None),
        Start::Join(seeds) => join(settings, member, seeds).await?,
        Start::Again | Start::Restore => return Err(DaemonError::NothingToStart(settings.directory.clone())),
    };
    let identity = IdentityRecord { cluster, salt, node: settings.node, instance: member.instance };
    let directory = Directory::make(&settings.directory, identity, |log, state| {
        LogStore::<OnTokio>::open(log, Group::default(), LogOptions::default())
            .map_err(DaemonError::Log)?
            .close()
            .map_err(doing("the log cannot be created"))?;
        RocksDisk::make(state).map_err(doing("the state cannot be created"))
    })?;
    Ok((directory, members))
}

fn random_u64() -> Result<u64, DaemonError> {
    getrandom::u64().map_err(|error| DaemonError::Io {
        doing: "the system provides no random numbers".into(),
        error: io::Error::other(error),
    })
}

fn random_u128() -> Result<u128, DaemonError> {
    Ok((u128::from(random_u64()?) << 64) | u128::from(random_u64()?))
}
