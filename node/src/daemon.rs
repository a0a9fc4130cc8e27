//! The daemon: a node on tokio, RocksDB and TCP, from its directory to its last flush.

use crate::admin::Admin;
use crate::admission::Admitted;
use crate::certificates;
use crate::disk_space::{self, Floor};
use crate::edge::cursor::Cursors;
use crate::edge::front::Front;
use crate::edge::gate::{Gate, GateLimits};
use crate::edge::local::host_of;
use crate::edge::server::{EdgeServer, ServerLimits};
use crate::edge::survey::Surveys;
use crate::edge::tls::EdgeTls;
use crate::edge::unsent::{Unsent, UnsentLimits};
use crate::edge::watch::PATIENCE;
use crate::edge::{Edge, Shared, awaiting};
use crate::identity::{Authenticator, Tokens};
use crate::log_size;
use crate::members::ChangeError;
use crate::node::{RaftSettings, StartError};
use crate::peers::connection::Peers;
use crate::peers::network::Factory;
use crate::peers::server::PeerServer;
use crate::peers::tls::PeerTls;
use crate::peers::wire::{JoinRequest, NodeQuestion, NodeReply};
use crate::peers::{Identity, PeerError};
use crate::retention;
use crate::roster::Roster;
use crate::service::{NodeService, TokioNode};
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

/// Between two attempts to join.
const JOIN_AGAIN: Duration = Duration::from_millis(300);
const JOIN_ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// For handing leadership over when it stops.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How soon changed tokens are found.
const TOKENS_EVERY: Duration = Duration::from_secs(2);
const CLOSE_LOOK: Duration = Duration::from_millis(5);

/// What a daemon needs to know. Read from flags, environment and file by [`crate::config`].
#[derive(Clone, Debug)]
pub struct Settings {
    pub node: NodeId,
    pub directory: PathBuf,
    pub peer_listen: String,
    /// What the others are told; the listening address when empty.
    pub peer_address: String,
    /// What callers are told; the listening address when empty.
    pub api_address: String,
    /// None: it serves no callers.
    pub edge: Option<EdgeSettings>,
    pub start: Start,
    /// It does not ask for a vote: only an operator gives it one.
    pub learner: bool,
    /// Shown to the cluster by this node when it joins or has moved.
    pub join_secret: Option<String>,
    /// Nodes that may join by themselves.
    pub admitted: Admitted,
    /// Events of the past are kept at least so long.
    pub events_kept_for: Duration,
    /// Free bytes below which new work is refused. None: as fits the file system.
    pub disk_free_min: Option<u64>,
    pub tls: Option<PeerTls>,
    pub raft: RaftSettings,
    pub log: LogOptions,
    /// Connections of other nodes at a time.
    pub peer_connections_max: usize,
    /// Up to which version this build knows the rules: what it was made with. Only tests say otherwise.
    pub known_rules: u32,
}

/// How callers are served.
#[derive(Clone, Debug)]
pub struct EdgeSettings {
    pub listen: String,
    /// Where callers reach it; empty: where it listens.
    pub address: String,
    pub authenticator: Authenticator,
    pub tls: Option<EdgeTls>,
    /// What it takes. As it comes but in tests.
    pub server: ServerLimits,
    pub gate: GateLimits,
    /// A reader of a stream that takes nothing for so long is told so, and its stream ends.
    pub patience: Duration,
    /// Metrics are told without a token to whoever asks on this machine.
    pub metrics_open: bool,
}

impl EdgeSettings {
    /// With the limits of a node that is run. Where callers are believed anyway, metrics are open to them too.
    #[must_use]
    pub fn new(listen: String, authenticator: Authenticator, tls: Option<EdgeTls>) -> Self {
        let (server, gate) = (ServerLimits::default(), GateLimits::default());
        let metrics_open = matches!(authenticator, Authenticator::SelfReported);
        Self { listen, address: String::new(), authenticator, tls, server, gate, patience: PATIENCE, metrics_open }
    }
}

/// How a node with an empty directory begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// As the first of a new cluster.
    Bootstrap,
    /// As the first of a new cluster that is made of a backup, which a caller sends.
    Restore,
    /// With whom of these answers.
    Join(Vec<String>),
    /// Not at all: only a used directory will do.
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
    /// The directory was restored from a backup, and cannot begin.
    Restored(RestoreError),
    /// Empty, and nobody said how to begin.
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
                "{}: is empty. Say --bootstrap to begin a new cluster with this node, or --join with the addresses of nodes of \
                 the cluster it belongs to",
                path.display()
            ),
            Self::Refused(why) => write!(f, "the cluster does not take this node: {why}"),
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
    /// Why it has to stop for want of disk space.
    out_of_space: Arc<OnceLock<String>>,
}

impl Daemon {
    /// Opens or makes the directory, joins the cluster, and runs.
    ///
    /// # Errors
    /// When it must not run, with words that say what to do.
    pub async fn start(mut settings: Settings) -> Result<Self, DaemonError> {
        if settings.start == Start::Restore {
            await_backup(&settings).await?;
            settings.start = Start::Bootstrap;
        }
        let floor = Floor::new(settings.directory.clone(), settings.disk_free_min);
        disk_space::wait_for_room(&floor)
            .await
            .map_err(doing("the free space of the file system cannot be found out"))?;
        let listener = TcpListener::bind(&settings.peer_listen).await;
        let listener = listener.map_err(doing(format!("cannot listen at {}", settings.peer_listen)))?;
        let bound = listener.local_addr().map_err(doing("cannot tell where it listens"))?;
        let peer_address =
            if settings.peer_address.is_empty() { bound.to_string() } else { settings.peer_address.clone() };
        let mut edge_listener = None;
        let mut api_address = settings.api_address.clone();
        if let Some(edge) = &settings.edge {
            let listener = TcpListener::bind(&edge.listen).await;
            let listener = listener.map_err(doing(format!("cannot listen at {}", edge.listen)))?;
            if api_address.is_empty() {
                api_address = listener.local_addr().map_err(doing("cannot tell where it listens"))?.to_string();
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

    /// What operators do with the cluster. To be dropped before this is stopped: it keeps the databases open.
    #[must_use]
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// Where callers reach it, if it serves any.
    #[must_use]
    pub fn edge(&self) -> Option<&EdgeServer> {
        self.edge.as_ref()
    }

    /// What the others know of this node.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.member
    }

    #[must_use]
    pub fn log(&self) -> &LogMonitor {
        &self.log
    }

    /// Why it must stop by itself, if it must.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let of_listeners = || {
            let has_ended = self.server.has_ended() || self.edge.as_ref().is_some_and(EdgeServer::has_ended);
            has_ended.then(|| {
                "a listener of this node panicked. This is a defect: report it, and start the node again".into()
            })
        };
        self.admin.failure().or_else(of_listeners)
    }

    /// Why it has to stop before its disk is full, if it has to: see [`Daemon::leave`].
    #[must_use]
    pub fn out_of_space(&self) -> Option<&str> {
        self.out_of_space.get().map(String::as_str)
    }

    /// Lets what is in flight end and hands leadership over; writes nothing that the log has anyway.
    pub async fn leave(mut self) {
        if let Some(edge) = self.edge.take() {
            edge.shutdown(STOP_WITHIN).await;
        }
        self.node.leave(STOP_WITHIN).await;
        self.close().await;
    }

    /// Lets what is in flight end, hands leadership over, makes the state durable.
    pub async fn stop(mut self) {
        if let Some(edge) = self.edge.take() {
            edge.shutdown(STOP_WITHIN).await;
        }
        self.node.stop(STOP_WITHIN).await;
        self.close().await;
    }

    /// As if the process were killed, as far as that can be done from inside: nothing is handed over or flushed.
    pub async fn abandon(mut self) {
        drop(self.edge.take());
        self.node.halt().await;
        self.close().await;
    }

    /// Returns when both databases are closed: the directory may be opened again.
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
            tracing::warn!("something still reads from this node's disk");
        }
    }
}

/// Without effect once a backup has been restored.
async fn await_backup(settings: &Settings) -> Result<(), DaemonError> {
    if let Found::Used(_) = Directory::find(&settings.directory)? {
        return Ok(());
    }
    let Some(edge) = &settings.edge else { return Err(DaemonError::NothingToStart(settings.directory.clone())) };
    let target =
        Target { directory: settings.directory.clone(), node: settings.node, token_floor: None, accept_clock: false };
    let waiting = awaiting::backup_has_come(edge, target).await;
    waiting.map_err(doing(format!("cannot listen at {}", edge.listen)))
}

/// Serves callers, and keeps up with the files that say who they are and what they are shown.
fn serve(
    settings: EdgeSettings,
    listener: TcpListener,
    admin: &Admin,
    log: &LogMonitor,
) -> Result<EdgeServer, DaemonError> {
    if let Authenticator::Tokens(tokens) = settings.authenticator.clone() {
        admin.node().keep("tokens", renew_tokens(tokens));
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

/// Takes up tokens that were added or taken away, without a restart.
pub(crate) async fn renew_tokens(tokens: Tokens) {
    let mut is_told = false;
    loop {
        sleep(TOKENS_EVERY).await;
        match tokens.reload() {
            Ok(is_new) => {
                if is_new {
                    tracing::info!("the tokens have changed");
                }
                is_told = false;
            }
            Err(error) => {
                if !is_told {
                    tracing::warn!(%error, "the tokens cannot be used; the ones before are kept");
                }
                is_told = true;
            }
        }
    }
}

/// Loads on a thread of its own: a large state takes seconds. One that was restored first begins its epoch: Raft does
/// not run yet, so nothing can come before it.
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
                "restored from a backup: all leases end, and nothing is granted until the cluster is activated"
            );
        }
        StateStore::open(state_disk, salt).map_err(doing("the state cannot be loaded"))
    });
    loading.await.map_err(io::Error::other).map_err(doing("the state cannot be loaded"))?
}

/// For one that joined also who the members are.
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
            .map_err(doing("the log cannot be made"))?;
        RocksDisk::make(state).map_err(doing("the state cannot be made"))
    })?;
    Ok((directory, members))
}

/// Of a node that belongs to no cluster yet.
fn join_request(own: Identity, member: &Member, secret: Option<String>) -> JoinRequest {
    JoinRequest {
        node: own.node,
        member: member.clone(),
        is_new: true,
        wants_vote: true,
        rules_version: own.rules_version,
        cluster: None,
        secret,
        // For those to say who pass it on.
        certificate: None,
        is_admitted: false,
    }
}

/// Asks the seeds, over and over, until one of them has it added.
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
    let mut is_told = false;
    loop {
        let mut refused = None;
        for seed in seeds {
            match peers.ask_address(seed, NodeQuestion::JoinBy(asked.clone()), JOIN_ANSWER_WITHIN).await {
                Ok(NodeReply::Joined { cluster, salt, members }) => return Ok((cluster, salt, Some(members))),
                Ok(NodeReply::Refused { why }) => return Err(DaemonError::Refused(why)),
                Ok(other) => tracing::debug!(seed, ?other, "not joined yet"),
                // It does not even talk to this node: the next seed may, though asking again will not help.
                Err(PeerError::Refused { why }) => refused = Some(why),
                Err(error) => {
                    if !is_told {
                        tracing::warn!(seed, %error, "a seed did not answer; trying on");
                        is_told = true;
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

/// Until the cluster knows where this node is and, if this node is not to stay a learner, has given it a vote.
async fn become_member(node: TokioNode, roster: Roster, asked: JoinRequest, seeds: Vec<String>) {
    // Who moved is no member at its new address yet.
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
        // One that was removed stays out, whatever it was started with.
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
                        tracing::warn!(address, "the cluster does not take this node as it is: {why}");
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
        doing: "the machine gives no random numbers".into(),
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
