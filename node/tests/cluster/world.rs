//! A cluster in one process, for tests with faults.

use lease::bounds::RULES_VERSION;
use lease::numbers::{Span, Token};
use lease::{Attempt, Command, Outcome, Request};
use node::admin::Admin;
use node::daemon::{Daemon, DaemonError, Settings, Start};
use node::peers::tokio_node::TokioNode;
use node::replica::no_outcome::NoOutcome;
use node::replica::node::RaftSettings;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::log::LogOptions;
use raft_store::types::{LeaderId, NodeId};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use test_support::fleet;
use test_support::gate::Gate;
use test_support::{LIMIT, until, within};
use tokio::runtime::Runtime;

static REQUESTS: AtomicU64 = AtomicU64::new(0);

pub(crate) struct World {
    folder: TempDir,
    pub(crate) daemons: BTreeMap<NodeId, Daemon>,
    /// The address of each node, used again after a restart.
    addresses: BTreeMap<NodeId, String>,
    pub(crate) raft: RaftSettings,
    /// A gate in front of each node's disk: while it is shut, fsync does not return.
    pub(crate) gates: BTreeMap<NodeId, Gate>,
    pub(crate) events_kept_for: Duration,
    /// The floor of free disk space of nodes that are started.
    pub(crate) disk_free_min: Option<u64>,
    /// The highest rules version that started nodes know.
    pub(crate) known_rules: u32,
}

pub(crate) fn quick() -> RaftSettings {
    RaftSettings {
        heartbeat: Duration::from_millis(100),
        election_min: Duration::from_millis(500),
        election_max: Duration::from_millis(900),
        compare_every: Duration::from_millis(200),
        ..RaftSettings::default()
    }
}

impl World {
    /// A cluster of this many voters.
    pub(crate) async fn of(nodes: u64) -> Self {
        Self::with(nodes, quick()).await
    }

    pub(crate) async fn with(nodes: u64, raft: RaftSettings) -> Self {
        Self::begin(nodes, raft, RULES_VERSION).await
    }

    /// A cluster whose build knows the rules up to this version.
    pub(crate) async fn knowing(nodes: u64, rules: u32) -> Self {
        Self::begin(nodes, quick(), rules).await
    }

    async fn begin(nodes: u64, raft: RaftSettings, known_rules: u32) -> Self {
        let mut world = Self::empty(raft);
        world.known_rules = known_rules;
        world.start(1, Start::Bootstrap).await;
        world.leader().await;
        for node in 2..=nodes {
            world.join(node).await;
        }
        world
    }

    /// A world in which no node runs yet.
    pub(crate) fn empty(raft: RaftSettings) -> Self {
        #[cfg(feature = "sabotage")]
        break_what_was_asked();
        let folder = TempDir::new().unwrap();
        let (daemons, addresses, gates) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let events_kept_for = Duration::from_secs(7 * 24 * 60 * 60);
        let (disk_free_min, known_rules) = (None, RULES_VERSION);
        Self { folder, daemons, addresses, raft, gates, events_kept_for, disk_free_min, known_rules }
    }

    pub(crate) fn directory(&self, node: NodeId) -> PathBuf {
        self.folder.path().join(format!("node-{node}"))
    }

    pub(crate) async fn start(&mut self, node: NodeId, start: Start) {
        self.gates.entry(node).or_default();
        self.start_with(self.settings(node, start)).await;
    }

    pub(crate) async fn start_with(&mut self, settings: Settings) {
        let node = settings.node;
        let daemon = Daemon::start(settings).await;
        self.started(node, daemon);
    }

    /// Starts a node on its own threads, which can be stopped.
    pub(crate) async fn restart_on(&mut self, node: NodeId, threads: &Threads) {
        let daemon = threads.spawn(Daemon::start(self.settings(node, Start::Again))).await;
        self.started(node, daemon);
    }

    pub(crate) fn started(&mut self, node: NodeId, daemon: Result<Daemon, DaemonError>) {
        let daemon = daemon.unwrap_or_else(|error| panic!("node {node} did not start: {error}"));
        self.addresses.insert(node, daemon.member().peer_address.clone());
        self.daemons.insert(node, daemon);
    }

    pub(crate) fn settings(&self, node: NodeId, start: Start) -> Settings {
        let gate = self.gates.get(&node).cloned().unwrap_or_default();
        Settings {
            node,
            directory: self.directory(node),
            peer_listen: self.addresses.get(&node).cloned().unwrap_or_else(|| "127.0.0.1:0".into()),
            peer_address: String::new(),
            api_address: String::new(),
            edge: None,
            start,
            learner: false,
            join_secret: None,
            admitted: BTreeMap::new(),
            events_kept_for: self.events_kept_for,
            disk_free_min: self.disk_free_min,
            tls: None,
            raft: self.raft.clone(),
            log: LogOptions { before_write: gate.before_write(), ..LogOptions::default() },
            known_rules: self.known_rules,
            peer_connections_max: node::peers::server::CONNECTIONS_MAX,
        }
    }

    /// Starts a node that joins, and waits until it has a vote.
    pub(crate) async fn join(&mut self, node: NodeId) {
        self.start(node, self.seeds()).await;
        until("all know that the node has a vote", async || {
            self.nodes().all(|each| {
                let membership = each.membership();
                // While the change is half done, old and new voters must agree.
                membership.get_joint_config().len() == 1 && membership.voter_ids().any(|voter| voter == node)
            })
        })
        .await;
    }

    pub(crate) fn node(&self, node: NodeId) -> &TokioNode {
        self.daemons[&node].node()
    }

    pub(crate) fn admin(&self, node: NodeId) -> &Admin {
        self.daemons[&node].admin()
    }

    /// The addresses of running nodes.
    pub(crate) fn seeds(&self) -> Start {
        Start::Join(self.daemons.values().map(|daemon| daemon.member().peer_address.clone()).collect())
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &TokioNode> {
        self.daemons.values().map(Daemon::node)
    }

    /// Waits for a leader that all other nodes know.
    pub(crate) async fn leader(&self) -> NodeId {
        let mut leader = None;
        until("a leader is known to all", async || {
            let known: Vec<_> = self.nodes().map(TokioNode::leader).collect();
            leader = known.first().copied().flatten();
            leader.is_some_and(|leader| self.daemons.contains_key(&leader))
                && known.iter().all(|known| *known == leader)
        })
        .await;
        leader.unwrap()
    }

    pub(crate) async fn follower(&self) -> NodeId {
        let leader = self.leader().await;
        *self.daemons.keys().find(|node| **node != leader).unwrap()
    }

    /// The node gets another address at its next start.
    pub(crate) fn forget_address(&mut self, node: NodeId) {
        self.addresses.remove(&node);
    }

    /// Kills the node, whatever it is doing.
    pub(crate) async fn kill(&mut self, node: NodeId) {
        self.daemons.remove(&node).unwrap().abandon().await;
    }

    pub(crate) async fn kill_all(&mut self) {
        for node in self.daemons.keys().copied().collect::<Vec<_>>() {
            self.kill(node).await;
        }
    }

    pub(crate) async fn restart(&mut self, node: NodeId) {
        self.start(node, Start::Again).await;
    }

    /// Waits until all nodes have applied the same entries, and checks that their states are equal.
    pub(crate) async fn agree(&self) {
        until("all have applied the same", async || {
            let progress: Vec<_> = self.nodes().map(|node| node.hub().current().applied).collect();
            progress.windows(2).all(|pair| pair[0] == pair[1])
        })
        .await;
        let mut marks: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for node in self.nodes() {
            for mark in node.store().hash_marks() {
                marks.entry(mark.index).or_default().push(mark.hash);
            }
        }
        for (index, hashes) in marks {
            assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "at index {index}: {hashes:?}");
        }
        let hashes: Vec<_> =
            self.nodes().map(|node| node.hub().current()).map(|seen| (seen.applied, seen.hash)).collect();
        if hashes.windows(2).all(|pair| pair[0].0 == pair[1].0) {
            assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
        }
        for node in self.nodes() {
            assert_eq!(node.failure(), None);
        }
    }

    /// Asks a node, and repeats under the same request id while the result is unknown.
    pub(crate) async fn ask(&self, node: NodeId, actor: &str, command: Command) -> Outcome {
        ask(self.node(node), request(actor, command)).await
    }

    pub(crate) async fn claim(&self, node: NodeId, actor: &str, item: &str, lease_for: Span) -> Token {
        let outcome = self.ask(node, actor, fleet::claim(item, lease_for)).await;
        outcome.grant().unwrap_or_else(|| panic!("{outcome:?}")).token
    }

    /// Makes this node the leader.
    pub(crate) async fn lead(&self, node: NodeId) {
        let leader = self.leader().await;
        if leader != node {
            within("a transfer", self.node(leader).transfer(Some(node), LIMIT)).await.unwrap();
        }
        assert_eq!(self.leader().await, node);
    }

    /// The leadership that this node knows of.
    pub(crate) async fn leadership(&self, node: NodeId) -> LeaderId {
        self.node(node).raft().with_raft_state(|state| *state.vote_ref().leader_id()).await.unwrap()
    }

    pub(crate) fn snapshots_folder(&self, node: NodeId) -> PathBuf {
        self.directory(node).join("snapshots")
    }

    /// Entries that the leader's log has.
    pub(crate) fn last_index(&self, node: NodeId) -> u64 {
        self.node(node).raft().metrics().borrow_watched().last_log_index.unwrap_or(0)
    }
}

/// With the feature `sabotage`, `TENURED_BREAK` puts a known defect back: its test must fail then.
#[cfg(feature = "sabotage")]
fn break_what_was_asked() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if let Ok(name) = std::env::var("TENURED_BREAK") {
            sabotage::break_it(sabotage::Broken::named(&name).expect("a name of a broken guarantee"));
        }
    });
}

impl Drop for World {
    /// Opens the gates, so that a failed test does not wait for a blocked writer.
    fn drop(&mut self) {
        self.gates.values().for_each(Gate::open);
    }
}

/// A node's own threads, so that it can be stopped like a process: it computes nothing, answers nothing and receives
/// nothing, while its connections stay open and every clock continues.
pub(crate) struct Threads(Option<Runtime>);

/// The node resumes when this is dropped.
pub(crate) struct Stopped(#[expect(dead_code, reason = "its drop is what it is for")] std::sync::mpsc::Sender<()>);

impl Threads {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self(Some(runtime.unwrap()))
    }

    async fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.0.as_ref().unwrap().spawn(future).await.unwrap()
    }

    pub(crate) async fn stop(&self) -> Stopped {
        let (go_on, gone_on) = std::sync::mpsc::channel();
        let (stopping, stopped) = tokio::sync::oneshot::channel();
        // On the only thread there is.
        self.0.as_ref().unwrap().spawn(async move {
            let _ = stopping.send(());
            let _ = gone_on.recv();
        });
        within("the node is stopped", stopped).await.unwrap();
        Stopped(go_on)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) fn request(actor: &str, command: Command) -> Request {
    let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
    fleet::request(actor, &format!("request-{number}"), command)
}

pub(crate) async fn ask(node: &TokioNode, mut request: Request) -> Outcome {
    let mut last = None;
    let asking = async {
        loop {
            match node.submit(vec![request.clone()], Duration::from_secs(10)).await {
                Ok(mut outcomes) => return outcomes.pop().unwrap(),
                Err(no_outcome @ (NoOutcome::Unavailable(_) | NoOutcome::LowOnDisk(_) | NoOutcome::Unknown(_))) => {
                    last = Some(no_outcome)
                }
                Err(error @ (NoOutcome::TooLarge { .. } | NoOutcome::InDoubt(_))) => panic!("{error}"),
            }
            request.attempt = Attempt::Repeat;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let answer = tokio::time::timeout(LIMIT, asking).await;
    answer.unwrap_or_else(|_| panic!("no answer from {node:?}, whose leader is {:?}: {last:?}", node.leader()))
}
