//! A cluster of three nodes, each a separate process, with API keys for its callers.

use crate::daemon::program;
use client::{Client, Config, Identity};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use test_support::until;

pub(crate) struct Cluster {
    folder: TempDir,
    actors: Vec<String>,
    nodes: Vec<Node>,
}

struct Node {
    peers: SocketAddr,
    callers: SocketAddr,
    process: Option<Child>,
}

fn is_over(process: &mut Child) -> bool {
    process.try_wait().unwrap().is_some()
}

impl Cluster {
    /// Starts a cluster for one admin.
    pub(crate) async fn start() -> Self {
        Self::start_for(["root"]).await
    }

    /// Starts a cluster for these actors, who have all rights.
    pub(crate) async fn start_for<S: Into<String>>(actors: impl IntoIterator<Item = S>) -> Self {
        let actors: Vec<String> = actors.into_iter().map(Into::into).collect();
        // A free port may be taken a moment later: then start again.
        for _ in 0..5 {
            if let Some(cluster) = Self::begin(&actors).await {
                return cluster;
            }
        }
        panic!("nodes end instead of beginning");
    }

    async fn begin(actors: &[String]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut api_keys = Vec::new();
        for actor in actors {
            let made = Command::new(program())
                .args(["api-key", "--actor", actor, "--kind", "user", "--space", "*"])
                .args(["--role", "reader,worker,dispatcher,operator", "--cluster", "admin"])
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            api_keys.extend(made.stdout);
            let said = String::from_utf8(made.stderr).unwrap();
            let api_key = said.lines().find(|line| line.starts_with("tenure_")).unwrap();
            let mut options = std::fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(api_key_file(folder.path(), actor));
            file.unwrap().write_all(api_key.as_bytes()).unwrap();
        }
        std::fs::write(folder.path().join("api-keys.toml"), &api_keys).unwrap();
        // Bound at the same time, so that no two ports are equal.
        let free: Vec<_> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |at: usize| free[at].local_addr().unwrap();
        let nodes = (0..3).map(|at| Node { peers: address(at), callers: address(3 + at), process: None }).collect();
        drop(free);
        let mut cluster = Self { folder, actors: actors.to_owned(), nodes };
        for at in 0..3 {
            cluster.launch(at);
        }
        let client = cluster.client(&actors[0]);
        let mut has_ended = false;
        until("three nodes vote", async || {
            has_ended = cluster.nodes.iter_mut().filter_map(|node| node.process.as_mut()).any(is_over);
            has_ended
                || client.cluster().await.is_ok_and(|status| {
                    status.leader.is_some() && status.members.iter().filter(|member| member.votes).count() == 3
                })
        })
        .await;
        (!has_ended).then_some(cluster)
    }

    /// Starts a node with its earlier data.
    pub(crate) fn launch(&mut self, at: usize) {
        let mut command = self.command(at, &format!("node-{at}"));
        if at == 0 {
            command.arg("--bootstrap");
        } else {
            command.arg("--join").arg(self.nodes[0].peers.to_string());
        }
        self.nodes[at].process = Some(command.spawn().unwrap());
    }

    fn command(&self, at: usize, data: &str) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new(program());
        command.arg("--node-id").arg((at + 1).to_string()).arg("--data").arg(folder.join(data));
        command.arg("--peer-listen").arg(self.nodes[at].peers.to_string());
        command.arg("--listen").arg(self.nodes[at].callers.to_string());
        command.arg("--api-keys").arg(folder.join("api-keys.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Replaces a node by a new one that waits for a backup, with the same API keys.
    pub(crate) fn await_restore(&mut self, at: usize) {
        self.kill(at);
        let mut command = self.command(at, &format!("restored-{at}"));
        self.nodes[at].process = Some(command.arg("--await-restore").spawn().unwrap());
    }

    /// Kills a node, like a power failure.
    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.nodes[at].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn kill_all(&mut self) {
        (0..3).for_each(|at| self.kill(at));
    }

    /// Whether every node that was started and not killed is running.
    pub(crate) fn runs(&mut self) -> bool {
        !self.nodes.iter_mut().filter_map(|node| node.process.as_mut()).any(is_over)
    }

    pub(crate) fn address(&self, at: usize) -> SocketAddr {
        self.nodes[at].callers
    }

    pub(crate) fn endpoint(&self, at: usize) -> String {
        format!("http://{}", self.address(at))
    }

    pub(crate) fn api_key_file(&self) -> PathBuf {
        self.api_key_file_of(&self.actors[0])
    }

    pub(crate) fn api_key_file_of(&self, actor: &str) -> PathBuf {
        api_key_file(self.folder.path(), actor)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client of this actor with all three endpoints.
    pub(crate) fn client(&self, actor: &str) -> Client {
        let endpoints = (0..3).map(|at| self.endpoint(at));
        let api_key = std::fs::read_to_string(self.api_key_file_of(actor)).unwrap();
        Client::new(Config::new(endpoints, Identity::ApiKey(api_key))).unwrap()
    }
}

fn api_key_file(folder: &Path, actor: &str) -> PathBuf {
    folder.join(format!("api-key-of-{actor}"))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill_all();
    }
}
