//! A cluster of three nodes, each a separate process, with API keys for its callers.

use crate::network::Network;
use crate::process::Process;
use crate::program::tenured;
use crate::until;
use client::{CallerIdentity, Client, Config};
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Its nodes are counted from 0; node 0 has the id 1.
#[derive(Debug)]
pub struct Cluster {
    folder: TempDir,
    network: Network,
    actors: Vec<String>,
    nodes: [Option<Process>; 3],
}

impl Cluster {
    /// Starts a cluster for one admin.
    pub async fn start() -> Self {
        Self::start_for(["root"]).await
    }

    /// Starts a cluster for these actors, who have all rights.
    pub async fn start_for<S: Into<String>>(actors: impl IntoIterator<Item = S>) -> Self {
        let actors: Vec<String> = actors.into_iter().map(Into::into).collect();
        let folder = TempDir::new().unwrap();
        let mut api_keys = Vec::new();
        for actor in &actors {
            api_keys.extend(admit(actor, &api_key_file(folder.path(), actor)));
        }
        fs::write(folder.path().join("api-keys.toml"), &api_keys).unwrap();
        let mut cluster = Self { folder, network: Network::free(), actors, nodes: [None, None, None] };
        for at in 0..3 {
            cluster.launch(at);
        }
        let client = cluster.client(&cluster.actors[0]);
        until("three nodes vote", async || {
            cluster.check_alive();
            client.cluster().await.is_ok_and(|status| {
                status.leader.is_some() && status.members.iter().filter(|member| member.votes).count() == 3
            })
        })
        .await;
        cluster
    }

    /// Starts a node with its earlier data.
    pub fn launch(&mut self, at: usize) {
        let mut command = self.command(at, &format!("node-{at}"));
        if at == 0 {
            command.arg("--bootstrap");
        } else {
            command.args(["--join", &self.network.peers(1).to_string()]);
        }
        self.run(at, command);
    }

    /// Replaces a node by a new one that waits for a backup, with the same API keys.
    pub fn await_restore(&mut self, at: usize) {
        self.kill(at);
        let mut command = self.command(at, &format!("restored-{at}"));
        command.arg("--await-restore");
        self.run(at, command);
    }

    fn command(&self, at: usize, data: &str) -> Command {
        let (folder, host) = (self.folder.path(), host(at));
        let mut command = Command::new(tenured());
        command.args(["--node-id", &host.to_string()]).arg("--data").arg(folder.join(data));
        command.args(["--peer-listen", &self.network.peers(host).to_string()]);
        command.args(["--listen", &self.address(at).to_string()]);
        command.arg("--api-keys").arg(folder.join("api-keys.toml"));
        command
    }

    fn run(&mut self, at: usize, command: Command) {
        self.nodes[at] = Some(Process::start(command, self.folder.path().join(format!("node-{at}.stderr"))));
    }

    /// Kills a node, like a power failure.
    pub fn kill(&mut self, at: usize) {
        self.nodes[at] = None;
    }

    pub fn kill_all(&mut self) {
        self.nodes = [None, None, None];
    }

    /// Checks that every node that was started and not killed is running.
    #[track_caller]
    pub fn check_alive(&mut self) {
        self.nodes.iter_mut().flatten().for_each(Process::check_alive);
    }

    pub fn address(&self, at: usize) -> SocketAddr {
        self.network.callers(host(at))
    }

    pub fn endpoint(&self, at: usize) -> String {
        format!("http://{}", self.address(at))
    }

    pub fn api_key_file(&self) -> PathBuf {
        self.api_key_file_of(&self.actors[0])
    }

    pub fn api_key_file_of(&self, actor: &str) -> PathBuf {
        api_key_file(self.folder.path(), actor)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client of this actor with all three endpoints.
    pub fn client(&self, actor: &str) -> Client {
        let endpoints = (0..3).map(|at| self.endpoint(at));
        let api_key = fs::read_to_string(self.api_key_file_of(actor)).unwrap();
        Client::new(Config::new(endpoints, CallerIdentity::ApiKey(api_key))).unwrap()
    }
}

fn host(at: usize) -> u8 {
    u8::try_from(at + 1).unwrap()
}

fn api_key_file(folder: &Path, actor: &str) -> PathBuf {
    folder.join(format!("api-key-of-{actor}"))
}

/// Creates an API key with all rights in this file, and returns the entry for the nodes.
fn admit(actor: &str, file: &Path) -> Vec<u8> {
    let made = Command::new(tenured())
        .args(["api-key", "--actor", actor, "--kind", "user", "--space", "*"])
        .args(["--role", "reader,worker,dispatcher,operator", "--cluster", "admin"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8(made.stderr).unwrap();
    let api_key = said.lines().find(|line| line.starts_with("tenure_")).unwrap();
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    file.unwrap().write_all(api_key.as_bytes()).unwrap();
    made.stdout
}
