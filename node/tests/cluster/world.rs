//! A cluster to be torn at.

use crate::fleet;
use lease::numbers::{Span, Token};
use lease::{Command, Outcome, Request};
use node::daemon::{Daemon, Settings, Start};
use node::node::RaftSettings;
use node::propose::NoOutcome;
use node::service::TokioNode;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::types::NodeId;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine; nothing waits that long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

static REQUESTS: AtomicU64 = AtomicU64::new(0);

pub(crate) struct World {
    folder: TempDir,
    pub(crate) daemons: BTreeMap<NodeId, Daemon>,
    /// Where each node listened: it comes back there.
    addresses: BTreeMap<NodeId, String>,
    pub(crate) raft: RaftSettings,
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
    /// A cluster of so many voters.
    pub(crate) async fn of(nodes: u64) -> Self {
        Self::with(nodes, quick()).await
    }

    pub(crate) async fn with(nodes: u64, raft: RaftSettings) -> Self {
        let folder = TempDir::new().unwrap();
        let mut world = Self { folder, daemons: BTreeMap::new(), addresses: BTreeMap::new(), raft };
        world.start(1, Start::Bootstrap).await;
        world.leader().await;
        for node in 2..=nodes {
            world.join(node).await;
        }
        world
    }

    pub(crate) async fn start(&mut self, node: NodeId, start: Start) {
        let daemon = Daemon::start(self.settings(node, start)).await;
        let daemon = daemon.unwrap_or_else(|error| panic!("node {node} did not start: {error}"));
        self.addresses.insert(node, daemon.member().peer_address.clone());
        self.daemons.insert(node, daemon);
    }

    pub(crate) fn settings(&self, node: NodeId, start: Start) -> Settings {
        Settings {
            node,
            directory: self.folder.path().join(format!("node-{node}")),
            peer_listen: self.addresses.get(&node).cloned().unwrap_or_else(|| "127.0.0.1:0".into()),
            peer_address: String::new(),
            start,
            tls: None,
            raft: self.raft.clone(),
        }
    }

    /// Starts a node that finds its way in, and waits until it has a vote.
    pub(crate) async fn join(&mut self, node: NodeId) {
        let seeds = self.daemons.values().map(|daemon| daemon.member().peer_address.clone()).collect();
        self.start(node, Start::Join(seeds)).await;
        let joined = self.node(node).clone();
        until("the node has a vote", || {
            // In one set of voters: while the change is under way the old set has to agree, too, without this node.
            let membership = joined.membership();
            let sets = membership.get_joint_config();
            sets.len() == 1 && sets[0].contains(&node)
        })
        .await;
    }

    pub(crate) fn node(&self, node: NodeId) -> &TokioNode {
        self.daemons[&node].node()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &TokioNode> {
        self.daemons.values().map(Daemon::node)
    }

    /// A node that leads, and that the others know of.
    pub(crate) async fn leader(&self) -> NodeId {
        let mut leader = None;
        until("a leader is known to all", || {
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

    /// The node is gone in the middle of whatever it did.
    pub(crate) async fn kill(&mut self, node: NodeId) {
        self.daemons.remove(&node).unwrap().abandon().await;
    }

    pub(crate) async fn restart(&mut self, node: NodeId) {
        self.start(node, Start::Again).await;
    }

    /// All have applied the same, and it is the same.
    pub(crate) async fn agree(&self) {
        until("all have applied the same", || {
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

    /// Asks a node, again under the same request id while nobody can say what became of it.
    pub(crate) async fn ask(&self, node: NodeId, actor: &str, command: Command) -> Outcome {
        ask(self.node(node), request(actor, command)).await
    }

    pub(crate) async fn claim(&self, node: NodeId, actor: &str, item: &str, lease_for: Span) -> Token {
        let outcome = self.ask(node, actor, fleet::claim(item, lease_for)).await;
        outcome.grant().unwrap_or_else(|| panic!("{outcome:?}")).token
    }

    /// Entries that the leader's log has.
    pub(crate) fn last_index(&self, node: NodeId) -> u64 {
        self.node(node).raft().metrics().borrow_watched().last_log_index.unwrap_or(0)
    }
}

pub(crate) fn request(actor: &str, command: Command) -> Request {
    let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
    fleet::request(actor, &format!("request-{number}"), command)
}

pub(crate) async fn ask(node: &TokioNode, mut request: Request) -> Outcome {
    let asking = async {
        loop {
            match node.submit(vec![request.clone()], Duration::from_secs(10)).await {
                Ok(mut outcomes) => return outcomes.pop().unwrap(),
                Err(NoOutcome::Unavailable(_) | NoOutcome::Unknown(_)) => request.retry = true,
            }
        }
    };
    within("an answer", asking).await
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("never: {what}"))
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let holding = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(what, holding).await;
}
