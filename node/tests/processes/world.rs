//! A cluster of processes. Whatever a test does, and however it ends, none of them outlives it.

use crate::certificates::{Authority, Files};
use crate::client::{Client, until};
use crate::fleet;
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
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// Below the ports that the system gives to outgoing connections: a node that is away finds its own free.
const PORT: u16 = 7401;
/// Where a node serves callers, if it serves any.
const EDGE_PORT: u16 = 7400;

/// What of a process's words a failed test shows.
const LAST_WORDS: usize = 4_000;

static WORLDS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct World {
    folder: TempDir,
    network: [u8; 2],
    /// Options of every node, in addition to its id and addresses.
    pub(crate) options: Vec<String>,
    /// Whether the nodes serve callers.
    pub(crate) serves: bool,
    /// The nodes' log filter, as in RUST_LOG.
    pub(crate) log: Option<&'static str>,
    /// How many files each process may open.
    pub(crate) open_files: Option<u32>,
    /// How the first node starts.
    pub(crate) first: &'static str,
    /// Signs the certificates of the nodes, if there is TLS between them.
    pub(crate) authority: Option<Authority>,
    /// Certificates of nodes, where they are not the default ones.
    pub(crate) certificates: BTreeMap<NodeId, Files>,
    /// Nodes with a different address than their id implies: the last number of the address.
    pub(crate) hosts: BTreeMap<NodeId, u8>,
    /// Options of a node instead of those to join.
    pub(crate) begins: BTreeMap<NodeId, Vec<String>>,
    /// Nodes with another data folder.
    data: BTreeMap<NodeId, PathBuf>,
    nodes: BTreeSet<NodeId>,
    processes: BTreeMap<NodeId, Process>,
}

/// A process that ends with this.
pub(crate) struct Process {
    child: Child,
    words: PathBuf,
}

impl World {
    /// A world in which no node runs yet.
    pub(crate) fn empty() -> Self {
        let folder = TempDir::new().unwrap();
        Self {
            folder,
            network: free_network(),
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
    pub(crate) async fn of_three() -> Self {
        let mut world = Self::empty();
        world.start_three().await;
        world
    }

    pub(crate) async fn start_three(&mut self) {
        for node in 1..=3 {
            self.start(node);
            self.has_vote(node).await;
        }
        self.leader().await;
    }

    /// Starts a node with the same options each time: those for the first start have no effect later.
    pub(crate) fn start(&mut self, node: NodeId) {
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

    pub(crate) fn command(&self) -> Command {
        let program = env!("CARGO_BIN_EXE_tenured");
        let mut command = match self.open_files {
            None => Command::new(program),
            Some(most) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("ulimit -n {most} && exec \"$0\" \"$@\""), program]);
                shell
            }
        };
        command.env_clear().current_dir(self.folder.path());
        command.envs(self.log.map(|log| ("RUST_LOG", log)));
        command
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn put_data(&mut self, node: NodeId, path: PathBuf) {
        self.data.insert(node, path);
    }

    pub(crate) fn data(&self, node: NodeId) -> PathBuf {
        self.data.get(&node).cloned().unwrap_or_else(|| self.folder.path().join(format!("node-{node}")))
    }

    pub(crate) fn address(&self, node: NodeId) -> String {
        format!("{}:{PORT}", self.host(node))
    }

    pub(crate) fn host(&self, node: NodeId) -> String {
        let [a, b] = self.network;
        let host = self.hosts.get(&node).map_or(node, |host| u64::from(*host));
        format!("127.{a}.{b}.{host}")
    }

    /// As a node shows itself, if there is TLS between the nodes.
    pub(crate) fn tls(&self, node: NodeId) -> Option<PeerTls> {
        self.certificates.get(&node).map(|files| PeerTls::from_files(files.paths()).unwrap())
    }

    /// Where callers reach a node of a world that serves.
    pub(crate) fn edge_address(&self, node: NodeId) -> String {
        let [a, b] = self.network;
        format!("127.{a}.{b}.{node}:{EDGE_PORT}")
    }

    fn words_path(&self, node: NodeId) -> PathBuf {
        self.folder.path().join(format!("node-{node}.stderr"))
    }

    /// Everything that a node wrote to standard error, over all its runs.
    pub(crate) fn words(&self, node: NodeId) -> String {
        fs::read_to_string(self.words_path(node)).unwrap()
    }

    pub(crate) fn running(&self) -> Vec<NodeId> {
        self.processes.keys().copied().collect()
    }

    /// One that speaks to every node of this world.
    pub(crate) fn client(&self) -> Client {
        self.client_of(&self.nodes.iter().copied().collect::<Vec<_>>())
    }

    pub(crate) fn client_of(&self, nodes: &[NodeId]) -> Client {
        let at = |node: NodeId| Member { peer_address: self.address(node), ..Member::default() };
        Client::new(&self.identity(nodes[0]), self.tls(nodes[0]), nodes.iter().map(|node| (*node, at(*node))).collect())
    }

    /// Of a node's directory.
    pub(crate) fn identity(&self, node: NodeId) -> IdentityRecord {
        *self.directory(node).identity()
    }

    fn directory(&self, node: NodeId) -> Directory {
        match Directory::find(&self.data(node)).unwrap() {
            Found::Used(directory) => directory,
            Found::Empty => panic!("node {node} has never run"),
        }
    }

    /// SIGKILL, in the middle of whatever it does. It must have been alive.
    pub(crate) fn kill(&mut self, node: NodeId) {
        let mut process = self.processes.remove(&node).unwrap();
        if let Some(status) = process.ended() {
            panic!("node {node} had ended by itself, with {status}:\n{}", process.last_words());
        }
        drop(process);
    }

    /// Sends SIGTERM and returns the exit status.
    pub(crate) async fn stop(&mut self, node: NodeId) -> ExitStatus {
        self.processes[&node].signal("TERM");
        self.ended(node).await
    }

    pub(crate) fn pause(&self, node: NodeId) {
        self.processes[&node].signal("STOP");
    }

    pub(crate) fn resume(&self, node: NodeId) {
        self.processes[&node].signal("CONT");
    }

    /// Waits until a process has ended, by itself or because it was told to.
    pub(crate) async fn ended(&mut self, node: NodeId) -> ExitStatus {
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
    pub(crate) fn check_alive(&mut self) {
        for (node, process) in &mut self.processes {
            if let Some(status) = process.ended() {
                panic!("node {node} has ended by itself, with {status}:\n{}", process.last_words());
            }
        }
    }

    pub(crate) async fn status(&self, node: NodeId) -> Option<StatusReply> {
        Client::status_at(&self.address(node), self.tls(node)).await
    }

    /// Waits for a leader that all running nodes know. Paused ones are not asked.
    pub(crate) async fn leader(&mut self) -> NodeId {
        let all = self.running();
        self.leader_of(&all).await
    }

    pub(crate) async fn leader_of(&mut self, nodes: &[NodeId]) -> NodeId {
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

    pub(crate) async fn follower(&mut self) -> NodeId {
        let leader = self.leader().await;
        self.running().into_iter().find(|node| *node != leader).unwrap()
    }

    pub(crate) async fn has_vote(&mut self, node: NodeId) {
        until("the node has a vote", async || {
            self.check_alive();
            let status = self.status(node).await;
            status.is_some_and(|status| status.members.voters.len() == 1 && status.members.voters[0].contains(&node))
        })
        .await;
    }

    /// Waits until all running nodes have applied the same entries. [`World::compare_marks`] compares their states
    /// while they run, and [`World::stop_and_compare`] compares them after a stop.
    pub(crate) async fn in_step(&mut self) -> u64 {
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

    /// The hashes that nodes have at the same indexes are the same; says how many all of them had, beside that of
    /// the first entry.
    pub(crate) async fn compare_marks(&self) -> usize {
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
    pub(crate) async fn stop_and_compare(&mut self) -> BTreeMap<NodeId, Arc<StateStore<RocksDisk>>> {
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

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (node, process) in &self.processes {
                eprintln!("node {node} said at last:\n{}", process.last_words());
            }
        }
    }
}

impl Process {
    pub(crate) fn start(mut command: Command, words: PathBuf) -> Self {
        let stderr = File::options().create(true).append(true).open(&words).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        Self { child, words }
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.child.id())).status().unwrap();
        assert!(status.success(), "no process {} to send {name} to", self.child.id());
    }

    pub(crate) fn words(&self) -> String {
        fs::read_to_string(&self.words).unwrap_or_default()
    }

    fn last_words(&self) -> String {
        let words = self.words();
        let begin = words.char_indices().rev().nth(LAST_WORDS).map_or(0, |(at, _)| at);
        words[begin..].to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended cannot be killed, only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How an item is, as a node's disk has it.
pub(crate) fn state_of(state: &StateStore<RocksDisk>, id: &str) -> Option<StateKind> {
    let (viewer, space, item) = (fleet::caller("op"), SpaceName::fallback(), fleet::item(id));
    let view = state.read(|state, archive| state.view_item(archive, &viewer, &space, &item, IfClaimed::Return));
    view.unwrap().ok().map(|view| view.state)
}

/// Two bytes of a loopback network on which nobody listens: worlds run side by side, in this process and in others.
fn free_network() -> [u8; 2] {
    let own = WORLDS.fetch_add(1, Ordering::Relaxed);
    let start = std::process::id().wrapping_mul(16).wrapping_add(own);
    let is_free = |[a, b]: [u8; 2]| -> io::Result<()> {
        for node in 1..=3 {
            TcpListener::bind((Ipv4Addr::new(127, a, b, node), PORT))?;
        }
        Ok(())
    };
    (0..1_000)
        .map(|step| start.wrapping_add(step * 16).to_be_bytes())
        .map(|[_, _, a, b]| [a.max(1), b])
        .find(|network| is_free(*network).is_ok())
        .expect("a loopback network is free")
}
