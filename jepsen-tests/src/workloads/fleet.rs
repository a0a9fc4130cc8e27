//! Three nodes on loopback for tests of workloads. The tests kill and start them, without a nemesis.

use crate::world::OPERATOR;
use client::{CallerIdentity, Client, Config};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use test_support::program::tenured;
use tokio::time::sleep;

const LIMIT: Duration = Duration::from_secs(120);

pub(super) struct Fleet {
    folder: TempDir,
    nodes: Vec<Node>,
    pub(super) api_keys: BTreeMap<String, String>,
}

struct Node {
    peers: SocketAddr,
    callers: SocketAddr,
    process: Option<Child>,
}

impl Fleet {
    pub(super) async fn start(actors: u32) -> Self {
        // Another process may take a free port before the node does. Then all nodes start again on other ports.
        for _ in 0..5 {
            if let Some(fleet) = Self::begin(actors).await {
                return fleet;
            }
        }
        panic!("a node exited at the start, five times in a row");
    }

    async fn begin(actors: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut api_keys = BTreeMap::new();
        let mut file = String::new();
        let names = (0..actors).map(|nth| format!("actor-{nth}")).chain([OPERATOR.to_owned()]);
        for actor in names {
            let (roles, cluster) =
                if actor == OPERATOR { ("operator,", &["--cluster", "admin"][..]) } else { ("", &[][..]) };
            let made = Command::new(tenured())
                .args(["api-key", "--actor", &actor, "--kind", "agent", "--space", "*"])
                .args(["--role", &format!("{roles}reader,worker,dispatcher")])
                .args(cluster)
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            file += &String::from_utf8(made.stdout).unwrap();
            let said = String::from_utf8(made.stderr).unwrap();
            let api_key = said.lines().find(|line| line.starts_with("tenure_")).unwrap();
            api_keys.insert(actor, api_key.to_owned());
        }
        std::fs::write(folder.path().join("api-keys.toml"), file).unwrap();
        // All are bound at once, so that no two are the same.
        let free: Vec<_> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |at: usize| free[at].local_addr().unwrap();
        let nodes = (0..3).map(|at| Node { peers: address(at), callers: address(3 + at), process: None }).collect();
        drop(free);
        let mut fleet = Self { folder, nodes, api_keys };
        (0..3).for_each(|at| fleet.launch(at));
        let client = fleet.client();
        let by = Instant::now() + LIMIT;
        loop {
            let has_ended =
                |node: &mut Node| node.process.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some());
            if fleet.nodes.iter_mut().any(has_ended) {
                return None;
            }
            assert!(Instant::now() < by, "three nodes do not vote within {LIMIT:?}");
            if let Ok(status) = client.cluster().within(Duration::from_secs(2)).await
                && status.leader.is_some()
                && status.members.iter().filter(|member| member.votes).count() == 3
            {
                return Some(fleet);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub(super) fn launch(&mut self, at: usize) {
        let mut command = Command::new(tenured());
        let folder = self.folder.path();
        command.arg("--node-id").arg((at + 1).to_string()).arg("--data").arg(folder.join(format!("node-{at}")));
        command.arg("--peer-listen").arg(self.nodes[at].peers.to_string());
        command.arg("--listen").arg(self.nodes[at].callers.to_string());
        command.arg("--api-keys").arg(folder.join("api-keys.toml"));
        if at == 0 {
            command.arg("--bootstrap");
        } else {
            command.arg("--join").arg(self.nodes[0].peers.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.nodes[at].process = Some(command.spawn().unwrap());
    }

    /// Kills a node with SIGKILL.
    pub(super) fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.nodes[at].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(super) fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("http://{}", node.callers)).collect()
    }

    pub(super) fn client(&self) -> Client {
        Client::new(Config::new(self.endpoints(), CallerIdentity::ApiKey(self.api_keys[OPERATOR].clone()))).unwrap()
    }

    /// The index of the leader, from 0.
    pub(super) async fn leader(&self) -> usize {
        let by = Instant::now() + LIMIT;
        loop {
            assert!(Instant::now() < by, "no leader within {LIMIT:?}");
            if let Ok(status) = self.client().cluster().await
                && let Some(leader) = status.leader.and_then(|leader| usize::try_from(leader).ok())
            {
                return leader - 1;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|at| self.kill(at));
    }
}
