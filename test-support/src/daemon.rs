//! A development node as a separate process, and clients of it.

use crate::network::Network;
use crate::process::Process;
use crate::program::tenured;
use crate::until;
use client::api::item::NewItem;
use client::api::words::ActorKind;
use client::names::{ActorId, ItemId, QueueName};
use client::{CallerIdentity, Client, Config, Health};
use std::net::SocketAddr;
use std::process::Command;
use tempfile::TempDir;

#[derive(Debug)]
pub struct Daemon {
    folder: TempDir,
    pub address: SocketAddr,
    process: Option<Process>,
}

impl Daemon {
    pub async fn start() -> Self {
        let address = Network::free().callers(1);
        let mut daemon = Self { folder: TempDir::new().unwrap(), address, process: None };
        daemon.again().await;
        daemon
    }

    /// Starts the node with its earlier data.
    pub async fn again(&mut self) {
        let folder = self.folder.path();
        let mut command = Command::new(tenured());
        command.arg("--dev").arg("--data").arg(folder.join("data")).args(["--listen", &self.address.to_string()]);
        let mut process = Process::start(command, folder.join("stderr"));
        let client = self.client("operator");
        let node = client.node(client.endpoints()[0].clone());
        until("the node is ready", async || {
            process.check_alive();
            matches!(node.readiness().await, Ok(Health::Fine))
        })
        .await;
        self.process = Some(process);
    }

    /// Kills the node, like a power failure.
    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    pub fn client(&self, actor: &str) -> Client {
        client_at(self.address, actor)
    }
}

pub fn client_at(address: SocketAddr, actor: &str) -> Client {
    let actor = ActorId::new(actor).unwrap();
    let identity = CallerIdentity::SelfReported { actor, kind: ActorKind::Agent, parent: None };
    Client::new(Config::new([format!("http://{address}")], identity)).unwrap()
}

pub fn item(name: &str) -> ItemId {
    ItemId::new(name).unwrap()
}

pub fn queue() -> QueueName {
    QueueName::new("ops").unwrap()
}

pub async fn create(client: &Client, name: &str) -> ItemId {
    let new = NewItem { title: format!("the work on {name}"), ..NewItem::new(item(name), queue()) };
    assert!(client.create(&new).await.unwrap().created);
    new.id
}
