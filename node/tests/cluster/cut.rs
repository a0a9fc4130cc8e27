//! A network between nodes that can be cut: each node is reached through its own relay.

use crate::world::World;
use node::daemon::Start;
use raft_store::types::NodeId;
use std::net::SocketAddr;
use std::sync::Arc;
use test_support::relay::{self, Relay};
use test_support::until;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// While it is shut, every node of the world that uses it is cut off from every other node.
pub(crate) struct Relays {
    is_open: Arc<watch::Sender<bool>>,
    relays: Vec<Relay>,
}

impl Relays {
    /// A cluster whose nodes reach each other through relays.
    pub(crate) async fn between(world: &mut World, nodes: NodeId) -> Self {
        let mut relays = Self { is_open: Arc::new(watch::Sender::new(true)), relays: Vec::new() };
        for node in 1..=nodes {
            let start = if node == 1 { Start::Bootstrap } else { world.seeds() };
            let mut settings = world.settings(node, start);
            let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let listen = free.local_addr().unwrap();
            drop(free);
            settings.peer_listen = listen.to_string();
            settings.peer_address = relays.add(listen).await.to_string();
            world.start_with(settings).await;
            until("the node has a vote", async || {
                world.nodes().all(|each| {
                    let members = each.membership();
                    members.get_joint_config().len() == 1 && members.voter_ids().any(|voter| voter == node)
                })
            })
            .await;
        }
        relays
    }

    pub(crate) fn cut(&self) {
        self.is_open.send_replace(false);
    }

    pub(crate) fn heal(&self) {
        self.is_open.send_replace(true);
    }

    async fn add(&mut self, to: SocketAddr) -> SocketAddr {
        let is_open = self.is_open.subscribe();
        let relay = Relay::to(to, move |near, far| carry(near, far, is_open.clone())).await;
        let address = relay.address;
        self.relays.push(relay);
        address
    }
}

async fn carry(near: TcpStream, far: TcpStream, mut is_open: watch::Receiver<bool>) {
    tokio::select! {
        biased;
        _ = is_open.wait_for(|is_open| !is_open) => {}
        () = relay::everything(near, far) => {}
    }
}
