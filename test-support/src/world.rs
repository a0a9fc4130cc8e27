//! A cluster of processes. Whatever a test does, and however it ends, none of them outlives it.

use crate::authority::{Authority, Files};
use crate::fleet;
use crate::network::Network;
use crate::peer_client::Client;
use crate::process::Process;
use crate::program::tenured;
use crate::until;
use lease::names::SpaceName;
use lease::standing::StateKind;
use lease::views::IfClaimed;
use node::peers::tls::PeerTls;
use node::peers::wire::{NodeQuestion, NodeReply, StatusReply};
use node::replica::role::Role;
use raft_store::codec::records::IdentityRecord;
use raft_store::directory::{Directory, Found};
use raft_store::state::StateStore;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::{Group, Member, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use tempfile::TempDir;

#[derive(Debug)]
pub struct World {
    folder: TempDir,
    network: Network,
    /// Options of every node, in addition to its id and addresses.
    pub options: Vec<String>,
    /// Whether the nodes serve callers.
    pub serves: bool,
    /// The nodes' log filter, as in RUST_LOG.
    pub log: Option<&'static str>,
    /// How many files each process may open.
    pub open_files: Option<u32>,
    /// How the first node starts.
    pub first: &'static str,
    /// Signs the certificates of the nodes, if there is TLS between them.
    pub authority: Option<Authority>,
    /// Certificates of nodes, where they are not the default ones.
    pub certificates: BTreeMap<NodeId, Files>,
    /// Nodes with a different address than their id implies: the last number of the address.
    pub hosts: BTreeMap<NodeId, u8>,
    /// Options of a node instead of those to join.
    pub begins: BTreeMap<NodeId, Vec<String>>,
    /// Nodes with another data folder.
    data: BTreeMap<NodeId, PathBuf>,
    nodes: BTreeSet<NodeId>,
    processes: BTreeMap<NodeId, Process>,
}

impl World {
    /// A world in which no node runs yet.
    pub fn empty() -> Self {
        let folder = TempDir::new().unwrap();
        Self {
            folder,
            network: Network::free(),
            options: Vec::new(),
            serves: false,
            log: None,
            open_files: None,
            first: "--bootstrap",
            authority: None,
            certificates: BTreeMap::new(),
            hosts: BTreeMap::new(),
            begins: BTreeMap::new(),
            data: BTreeMap::new(),
            nodes: BTreeSet::new(),
            processes: BTreeMap::new(),
        }
    }

    /// A cluster of three voters.
    pub async fn of_three() -> Self {
        let mut world = Self::empty();
        world.start_three().await;
        world
    }

    pub async fn start_three(&mut self) {
        for node in 1..=3 {
            self.start(node);
            self.has_vote(node).await;
        }
        self.leader().await;
    }

    /// Starts a node with the same options each time: those for the first start have no effect later.
    pub fn start(&mut self, node: NodeId) {
        let mut command = self.command();
        command.args(["--node-id", &node.to_string(), "--peer-listen", &self.address(node)]);
        command.arg("--data").arg(self.data(node));
        match self.begins.get(&node) {
            Some(begin) => command.args(begin),
            None if node == 1 => command.arg(self.first),
            None => command.args(["--join", &format!("{},{}", self.address(1), self.address(2))]),
        };
        if let Some(authority) = &self.authority {
            let host = self.host(node);
            command.args(self.certificates.entry(node).or_insert_with(|| authority.files(&host)).options());
        }
        if self.serves {
            command.args(["--listen", &self.edge_address(node)]);
        }
        command.args(&self.options);
        self.nodes.insert(node);
        let process = Process::start(command, self.words_path(node));
        assert!(self.processes.insert(node, process).is_none(), "node {node} runs already");
    }

    pub fn command(&self) -> Command {
        let program = tenured();
        let mut command = match self.open_files {
            None => Command::new(program),
            Some(most) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("ulimit -n {most} && exec \"$0\" \"$@\"")]).arg(program);
                shell
            }
        };
        command.env_clear().current_dir(self.folder.path());
        command.envs(self.log.map(|log| ("RUST_LOG", log)));
        command
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn put_data(&mut self, node: NodeId, path: PathBuf) {
        self.data.insert(node, path);
    }

    pub fn data(&self, node: NodeId) -> PathBuf {
        self.data.get(&node).cloned().unwrap_or_else(|| self.folder.path().join(format!("node-{node}")))
    }

    pub fn address(&self, node: NodeId) -> String {
        self.network.peers(self.number(node)).to_string()
    }

    pub fn host(&self, node: NodeId) -> String {
        self.network.host(self.number(node)).to_string()
    }

    fn number(&self, node: NodeId) -> u8 {
        self.hosts.get(&node).copied().unwrap_or_else(|| u8::try_from(node).unwrap())
    }

    /// As a node shows itself, if there is TLS between the nodes.
    pub fn tls(&self, node: NodeId) -> Option<PeerTls> {
        self.certificates.get(&node).map(Files::tls)
    }

    /// Where callers reach a node of a world that serves.
    pub fn edge_address(&self, node: NodeId) -> String {
        self.network.callers(u8::try_from(node).unwrap()).to_string()
    }

    fn words_path(&self, node: NodeId) -> PathBuf {
        self.folder.path().join(format!("node-{node}.stderr"))
    }

    /// Everything that a node wrote to standard error, over all its runs.
    pub fn words(&self, node: NodeId) -> String {
        fs::read_to_string(self.words_path(node)).unwrap()
    }

    pub fn running(&self) -> Vec<NodeId> {
        self.processes.keys().copied().collect()
    }

    /// One that speaks to every node of this world.
    pub fn client(&self) -> Client {
        self.client_of(&self.nodes.iter().copied().collect::<Vec<_>>())
    }

    pub fn client_of(&self, nodes: &[NodeId]) -> Client {
        let at = |node: NodeId| Member { peer_address: self.address(node), ..Member::default() };
        Client::new(&self.identity(nodes[0]), self.tls(nodes[0]), nodes.iter().map(|node| (*node, at(*node))).collect())
    }

    /// Of a node's directory.
    pub fn identity(&self, node: NodeId) -> IdentityRecord {
        *self.directory(node).identity()
    }

    fn directory(&self, node: NodeId) -> Directory {
        match Directory::find(&self.data(node)).unwrap() {
            Found::Used(directory) => directory,
            Found::Empty => panic!("node {node} has never run"),
        }
    }

    /// SIGKILL, in the middle of whatever it does. It must have been alive.
    pub fn kill(&mut self, node: NodeId) {
        self.processes.remove(&node).unwrap().kill();
    }

    /// Sends SIGTERM and returns the exit status.
    pub async fn stop(&mut self, node: NodeId) -> ExitStatus {
        self.processes[&node].signal("TERM");
        self.ended(node).await
    }

    pub fn pause(&self, node: NodeId) {
        self.processes[&node].signal("STOP");
    }

    pub fn resume(&self, node: NodeId) {
        self.processes[&node].signal("CONT");
    }

    /// Waits until a process has ended, by itself or by a signal.
    pub async fn ended(&mut self, node: NodeId) -> ExitStatus {
        let mut process = self.processes.remove(&node).unwrap();
        let mut status = None;
        until("the process has ended", async || {
            status = process.ended();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// Checks that every process that should run does.
    pub fn check_alive(&mut self) {
        self.processes.values_mut().for_each(Process::check_alive);
    }

    pub async fn status(&self, node: NodeId) -> Option<StatusReply> {
        Client::status_at(&self.address(node), self.tls(node)).await
    }

    /// Waits for a leader that all running nodes know. Paused ones are not asked.
    pub async fn leader(&mut self) -> NodeId {
        let all = self.running();
        self.leader_of(&all).await
    }

    pub async fn leader_of(&mut self, nodes: &[NodeId]) -> NodeId {
        let mut leader = None;
        until("a leader is known to all", async || {
            self.check_alive();
            let mut leads = Vec::new();
            for node in nodes {
                let Some(status) = self.status(*node).await else { return false };
                if (status.role == Role::Leader) != (status.leader == Some(*node)) {
                    return false;
                }
                leads.push(status.leader);
            }
            leader = leads[0].filter(|leader| nodes.contains(leader));
            leader.is_some() && leads.iter().all(|other| *other == leader)
        })
        .await;
        leader.unwrap()
    }

    pub async fn follower(&mut self) -> NodeId {
        let leader = self.leader().await;
        self.running().into_iter().find(|node| *node != leader).unwrap()
    }

    pub async fn has_vote(&mut self, node: NodeId) {
        until("the node has a vote", async || {
            self.check_alive();
            let status = self.status(node).await;
            status.is_some_and(|status| status.members.voters.len() == 1 && status.members.voters[0].contains(&node))
        })
        .await;
    }

    /// Waits until all running nodes have applied the same entries. [`World::compare_marks`] compares their states
    /// while they run, and [`World::stop_and_compare`] compares them after a stop.
    pub async fn in_step(&mut self) -> u64 {
        let mut applied = None;
        until("all have applied the same", async || {
            self.check_alive();
            let mut all = BTreeSet::new();
            for node in self.running() {
                all.insert(self.status(node).await.map(|status| status.applied));
            }
            applied = all.first().copied().flatten().flatten();
            all.len() == 1 && applied.is_some()
        })
        .await;
        applied.unwrap().index
    }

    /// Checks that nodes have the same hash at the same index. Returns the number of hashes that all of them have, without
    /// that of the first entry.
    pub async fn compare_marks(&self) -> usize {
        let client = self.client();
        let mut marks: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for node in self.running() {
            let Ok(NodeReply::HashMarks(own)) = client.ask(node, NodeQuestion::HashMarks).await else {
                panic!("node {node} does not tell its hashes");
            };
            for mark in own {
                marks.entry(mark.index).or_default().push(mark.hash);
            }
        }
        for (index, hashes) in &marks {
            assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "at index {index}: {hashes:?}");
        }
        marks.iter().filter(|(index, hashes)| **index > 0 && hashes.len() == self.processes.len()).count()
    }

    /// Stops all, the leader last, and opens what they left: it is whole, and the same everywhere.
    pub async fn stop_and_compare(&mut self) -> BTreeMap<NodeId, Arc<StateStore<RocksDisk>>> {
        loop {
            let leader = self.leader().await;
            self.in_step().await;
            let followers: Vec<_> = self.running().into_iter().filter(|node| *node != leader).collect();
            for node in followers.iter().copied().chain([leader]) {
                let status = self.stop(node).await;
                assert!(status.success(), "node {node} ended with {status}");
            }
            let states: BTreeMap<_, _> = self.nodes.iter().map(|node| (*node, self.state(*node))).collect();
            let progress: Vec<_> = states.values().map(|state| state.progress()).collect();
            if progress.windows(2).all(|pair| pair[0].applied == pair[1].applied) {
                assert!(progress.windows(2).all(|pair| pair[0].hash == pair[1].hash), "{progress:?}");
                for (node, state) in &states {
                    assert_eq!(state.verify().unwrap(), Vec::<String>::new(), "on node {node}");
                }
                return states;
            }
            // Time moved between two of them: another try.
            drop(states);
            for node in self.nodes.clone() {
                self.start(node);
            }
        }
    }

    fn state(&self, node: NodeId) -> Arc<StateStore<RocksDisk>> {
        let directory = self.directory(node);
        let salt = directory.identity().salt;
        StateStore::open(RocksDisk::open(directory, Group::default()).unwrap(), salt).unwrap()
    }
}

/// How an item is, as a node's disk has it.
pub fn state_of(state: &StateStore<RocksDisk>, id: &str) -> Option<StateKind> {
    let (viewer, space, item) = (fleet::caller("op"), SpaceName::fallback(), fleet::item(id));
    let view = state.read(|state, archive| state.view_item(archive, &viewer, &space, &item, IfClaimed::Return));
    view.unwrap().ok().map(|view| view.state)
}
