//! The daemon: runs a node on tokio, RocksDB and TCP, from opening its directory to the last flush.

pub mod config;
pub mod ending;
mod log_size;
pub mod open_files;
mod retention;
pub mod service;

use crate::admin::Admin;
use crate::daemon::service::{NodeService, TokioNode};
use crate::edge::cursor::Cursors;
use crate::edge::front::Front;
use crate::edge::gate::{Gate, GateLimits};
use crate::edge::identity::{ApiKeys, Authenticator};
use crate::edge::local::host_of;
use crate::edge::parser::Parser;
use crate::edge::server::{EdgeServer, ServerLimits};
use crate::edge::survey::Surveys;
use crate::edge::tls::EdgeTls;
use crate::edge::unsent::{Unsent, UnsentLimits};
use crate::edge::watch::PATIENCE;
use crate::edge::{Edge, Shared, restore_mode};
use crate::net::certificates;
use crate::peers::admission::Admitted;
use crate::peers::connection::Peers;
use crate::peers::network::Factory;
use crate::peers::roster::Roster;
use crate::peers::server::PeerServer;
use crate::peers::tls::PeerTls;
use crate::peers::wire::{JoinRequest, NodeQuestion, NodeReply};
use crate::peers::{Identity, PeerError};
use crate::replica::disk_space::{self, Floor};
use crate::replica::members::ChangeError;
use crate::replica::node::{RaftSettings, StartError};
use lease::Salt;
use lease::numbers::Wall;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::codec::records::{IdentityRecord, MembershipRecord};
use raft_store::directory::{Directory, DirectoryError, Found};
use raft_store::log::{LogMonitor, LogOptions, LogStore};
use raft_store::restore::{self, RestoreError, Target};
use raft_store::state::StateStore;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::{Group, Member, NodeId, OnTokio};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

/// Pause between two attempts to join.
const JOIN_AGAIN: Duration = Duration::from_millis(300);
const JOIN_ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// Limit for finishing requests, and for handing over leadership, when the node stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How often the file of API keys is checked for changes.
const API_KEYS_EVERY: Duration = Duration::from_secs(2);
const CLOSE_LOOK: Duration = Duration::from_millis(5);

/// The settings of a daemon. [`crate::daemon::config`] reads them from flags, environment and file.
#[derive(Clone, Debug)]
pub struct Settings {
    pub node: NodeId,
    pub directory: PathBuf,
    pub peer_listen: String,
    /// The address that other nodes use; the listening address when empty.
    pub peer_address: String,
    /// The address that callers use; the listening address when empty.
    pub api_address: String,
    /// None: the node serves no callers.
    pub edge: Option<EdgeSettings>,
    pub start: Start,
    /// The node does not ask for a vote: only an operator gives it one.
    pub learner: bool,
    /// Sent to the cluster when this node joins or has moved.
    pub join_secret: Option<String>,
    /// Nodes that may join without a join secret.
    pub admitted: Admitted,
    /// Past events are kept at least this long.
    pub events_kept_for: Duration,
    /// Free bytes below which new work is rejected. None: depends on the size of the file system.
    pub disk_free_min: Option<u64>,
    pub tls: Option<PeerTls>,
    pub raft: RaftSettings,
    pub log: LogOptions,
    /// Open connections from other nodes.
    pub peer_connections_max: usize,
    /// The highest rules version that this build knows. Only tests change it.
    pub known_rules: u32,
}

/// How callers are served.
#[derive(Clone, Debug)]
pub struct EdgeSettings {
    pub listen: String,
    /// Address at which callers reach this node; the listening address when empty.
    pub address: String,
    pub authenticator: Authenticator,
    pub tls: Option<EdgeTls>,
    /// Only tests change these limits.
    pub server: ServerLimits,
    pub gate: GateLimits,
    /// A stream whose reader takes nothing for this long ends with a message that says so.
    pub patience: Duration,
    /// Metrics need no API key for callers on this machine.
    pub metrics_open: bool,
}

impl EdgeSettings {
    /// Settings with production limits. Metrics are open where callers need no API key anyway.
    #[must_use]
    pub fn new(listen: String, authenticator: Authenticator, tls: Option<EdgeTls>) -> Self {
        let (server, gate) = (ServerLimits::default(), GateLimits::default());
        let metrics_open = matches!(authenticator, Authenticator::SelfReported);
        Self { listen, address: String::new(), authenticator, tls, server, gate, patience: PATIENCE, metrics_open }
    }
}

/// How a node with an empty directory starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// As the first node of a new cluster.
    Bootstrap,
    /// As the first node of a new cluster that is restored from a backup, which a caller sends.
    Restore,
    /// It joins the cluster of the first of these addresses that answers.
    Join(Vec<String>),
    /// It does not start: a used directory is required.
    Again,
}

/// Why the daemon did not start.
#[derive(Debug)]
pub enum DaemonError {
    Directory(DirectoryError),
    Log(raft_store::log::OpenError),
    Io {
        doing: String,
        error: io::Error,
    },
    Start(StartError),
    Change(ChangeError),
    /// The directory was restored from a backup, and its epoch cannot begin.
    Restored(RestoreError),
    /// The directory is empty, and no option says how to start.
    NothingToStart(PathBuf),
    Refused(String),
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
            Self::Start(error) => error.fmt(f),
            Self::Change(error) => error.fmt(f),
            Self::Restored(error) => error.fmt(f),
            Self::NothingToStart(path) => write!(
                f,
                "{}: is empty; give --bootstrap to start a new cluster with this node, or --join with the addresses of nodes of \
                 the cluster it belongs to",
                path.display()
            ),
            Self::Refused(why) => write!(f, "the cluster rejected this node: {why}"),
        }
    }
}

impl std::error::Error for DaemonError {}

impl From<DirectoryError> for DaemonError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}

impl From<StartError> for DaemonError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

/// A node that serves its peers.
#[derive(Debug)]
pub struct Daemon {
    node: TokioNode,
    admin: Admin,
    server: PeerServer,
    edge: Option<EdgeServer>,
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
        disk_space::wait_for_room(&floor).await.map_err(doing("cannot determine the free space of the file system"))?;
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
        let own = Identity {
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
            let _ = found.set(disk_space::watch(&disk, &floor).await);
        });
        node.keep("disk guard", disk_space::guard(node.clone()));
        node.keep("log size", log_size::run(node.clone(), monitor.clone(), settings.raft.clone(), log_folder));
        node.keep("retention", retention::run(node.clone(), settings.events_kept_for));
        if let Some(tls) = renewed {
            node.keep("peer certificates", certificates::renew("peers", move || tls.reload()));
        }
        let edge = match settings.edge.zip(edge_listener) {
            None => None,
            Some((edge, listener)) => Some(serve(edge, listener, &admin, &monitor)?),
        };
        Ok(Self { node, admin, server, edge, member, log: monitor, out_of_space })
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
) -> Result<EdgeServer, DaemonError> {
    if let Authenticator::ApiKeys(api_keys) = settings.authenticator.clone() {
        admin.node().keep("API keys", reload_api_keys(api_keys));
    }
    if let Some(tls) = settings.tls.clone() {
        admin.node().keep("certificates", certificates::renew("callers", move || tls.reload()));
    }
    let edge = Edge::new(Shared {
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
        own_hosts: own_hosts(&settings.listen, &settings.address),
        audit: Default::default(),
        unfit: Mutex::default(),
        wall: Arc::new(wall_now),
    });
    let metrics = admin.node().metrics().clone();
    let served = EdgeServer::start(listener, settings.tls, Front::new(edge), settings.server, metrics);
    served.map_err(doing("cannot serve callers"))
}

pub(crate) fn own_hosts(listen: &str, address: &str) -> Vec<String> {
    let given = [listen, address].into_iter().filter(|address| !address.is_empty());
    given.map(|address| host_of(address).to_owned()).collect()
}

/// Applies changes of the file of API keys without a restart.
pub(crate) async fn reload_api_keys(api_keys: ApiKeys) {
    let mut is_logged = false;
    loop {
        sleep(API_KEYS_EVERY).await;
        match api_keys.reload() {
            Ok(is_new) => {
                if is_new {
                    tracing::info!("the API keys have changed");
                }
                is_logged = false;
            }
            Err(error) => {
                if !is_logged {
                    tracing::warn!(%error, "the API keys cannot be loaded; the previous ones stay in use");
                }
                is_logged = true;
            }
        }
    }
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

/// The request of a node that belongs to no cluster yet.
fn join_request(own: Identity, member: &Member, secret: Option<String>) -> JoinRequest {
    JoinRequest {
        node: own.node,
        member: member.clone(),
        is_new: true,
        wants_vote: true,
        rules_version: own.rules_version,
        cluster: None,
        secret,
        // Set by the node that passes the request on.
        certificate: None,
        is_admitted: false,
    }
}

/// Asks the seeds repeatedly until one of them has this node added.
async fn join(
    settings: &Settings,
    member: &Member,
    seeds: &[String],
) -> Result<(u128, Salt, Option<MembershipRecord>), DaemonError> {
    let nobody = Identity {
        group: Group::default(),
        cluster: None,
        node: settings.node,
        instance: member.instance,
        rules_version: settings.known_rules,
    };
    let peers = Peers::new(nobody, settings.tls.clone());
    let asked = join_request(nobody, member, settings.join_secret.clone());
    let mut is_logged = false;
    loop {
        let mut refused = None;
        for seed in seeds {
            match peers.ask_address(seed, NodeQuestion::JoinBy(asked.clone()), JOIN_ANSWER_WITHIN).await {
                Ok(NodeReply::Joined { cluster, salt, members }) => return Ok((cluster, salt, Some(members))),
                Ok(NodeReply::Refused { why }) => return Err(DaemonError::Refused(why)),
                Ok(other) => tracing::debug!(seed, ?other, "not joined yet"),
                // This seed rejects every request of this node: asking it again does not help, but the next seed may
                // accept.
                Err(PeerError::Refused { why }) => refused = Some(why),
                Err(error) => {
                    if !is_logged {
                        tracing::warn!(seed, %error, "a seed did not answer; retrying");
                        is_logged = true;
                    }
                }
            }
        }
        if let Some(why) = refused {
            return Err(DaemonError::Refused(why));
        }
        sleep(JOIN_AGAIN).await;
    }
}

/// Runs until the cluster knows this node's address and, unless this node is to stay a learner, has given it a vote.
async fn become_member(node: TokioNode, roster: Roster, asked: JoinRequest, seeds: Vec<String>) {
    // A node that moved is not a member at its new address yet.
    let peers = node.calls().as_stranger();
    let (mut has_asked, mut refused) = (false, None);
    loop {
        let membership = node.membership();
        let known = membership.get_node(&node.id());
        let is_voter = membership.voter_ids().any(|voter| voter == node.id());
        if (is_voter || !asked.wants_vote) && known == Some(&asked.member) {
            if has_asked {
                let said = if is_voter { "this node has a vote" } else { "this node follows without a vote" };
                tracing::info!(node = node.id(), address = asked.member.peer_address, "{said}");
            }
            return;
        }
        // A removed node stays out, whatever options it has.
        let was_never_told = node.raft().server_metrics().borrow_watched().membership_config.log_id().is_none();
        if known.is_some() || was_never_told {
            has_asked = true;
            let mut addresses: Vec<String> = seeds.clone();
            let others = membership.nodes().filter(|(id, _)| **id != node.id());
            addresses.extend(others.map(|(_, member)| member.peer_address.clone()));
            if node.leader() == Some(node.id()) {
                let _ = node.add_learner(node.id(), asked.member.clone()).await;
            }
            if addresses.is_empty() && was_never_told && refused.is_none() {
                refused = Some(String::new());
                tracing::warn!("this node knows no other node of its cluster yet: start it with --join");
            }
            for address in addresses {
                match peers.ask_address(&address, NodeQuestion::JoinBy(asked.clone()), JOIN_ANSWER_WITHIN).await {
                    Ok(NodeReply::Joined { cluster, members, .. }) if Some(cluster) == asked.cluster => {
                        roster.joined(members);
                        break;
                    }
                    Ok(NodeReply::Refused { why }) if refused.as_ref() != Some(&why) => {
                        tracing::warn!(address, "the cluster rejected this node: {why}");
                        refused = Some(why);
                    }
                    _ => {}
                }
            }
        }
        sleep(JOIN_AGAIN).await;
    }
}

pub(crate) fn wall_now() -> Wall {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
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

fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> DaemonError {
    let what = what.into();
    move |error| DaemonError::Io { doing: what, error }
}
