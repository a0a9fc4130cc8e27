//! A development node as a separate process.

use client::api::item::NewItem;
use client::api::words::ActorKind;
use client::names::{ActorId, ItemId, QueueName};
use client::{Client, Config, Health, Identity};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use test_support::until;

pub(crate) struct Daemon {
    folder: TempDir,
    pub(crate) address: SocketAddr,
    process: Option<Child>,
}

pub(crate) fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("TENURED") {
        return path.into();
    }
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().and_then(|folder| folder.parent()).map(|folder| folder.join("tenured"));
    match beside.filter(|path| path.exists()) {
        Some(path) => path,
        None => panic!("there is no daemon: run `cargo build --package node --bin tenured`, or name one in TENURED"),
    }
}

impl Daemon {
    pub(crate) async fn start() -> Self {
        // Free now; another process is unlikely to take it before the node does.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut daemon = Self { folder: tempfile::tempdir().unwrap(), address, process: None };
        daemon.again().await;
        daemon
    }

    /// Starts the node with its earlier data.
    pub(crate) async fn again(&mut self) {
        let mut command = Command::new(program());
        command.arg("--dev").arg("--data").arg(self.folder.path().join("data"));
        command.arg("--listen").arg(self.address.to_string()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().unwrap());
        let client = self.client("operator");
        let node = client.node(client.endpoints()[0].clone());
        until("the node is ready", async || matches!(node.readiness().await, Ok(Health::Fine))).await;
    }

    /// Kills the node, like a power failure.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn client(&self, actor: &str) -> Client {
        client_at(self.address, actor)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn client_at(address: SocketAddr, actor: &str) -> Client {
    let actor = ActorId::new(actor).unwrap();
    let identity = Identity::SelfReported { actor, kind: ActorKind::Agent, parent: None };
    Client::new(Config::new([format!("http://{address}")], identity)).unwrap()
}

pub(crate) fn item(name: &str) -> ItemId {
    ItemId::new(name).unwrap()
}

pub(crate) fn queue() -> QueueName {
    QueueName::new("ops").unwrap()
}

pub(crate) async fn create(client: &Client, name: &str) -> ItemId {
    let new = NewItem { title: format!("the work on {name}"), ..NewItem::new(item(name), queue()) };
    assert!(client.create(&new).await.unwrap().created);
    new.id
}
