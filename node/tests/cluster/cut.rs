//! A network between nodes that can be cut: each node is reached through its own relay.

use crate::world::World;
use node::daemon::Start;
use raft_store::types::NodeId;
use std::net::SocketAddr;
use std::sync::Arc;
use test_support::until;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// While it is shut, every node of the world that uses it is cut off from every other node.
pub(crate) struct Relays {
    is_open: Arc<watch::Sender<bool>>,
    relaying: Vec<AbortOnDropHandle<()>>,
}

impl Relays {
    /// A cluster whose nodes reach each other through relays.
    pub(crate) async fn between(world: &mut World, nodes: NodeId) -> Self {
        let mut relays = Self { is_open: Arc::new(watch::Sender::new(true)), relaying: Vec::new() };
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
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_open = self.is_open.subscribe();
        self.relaying.push(AbortOnDropHandle::new(tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(relay(stream, to, is_open.clone()));
            }
        })));
        address
    }
}

async fn relay(mut from: TcpStream, to: SocketAddr, mut is_open: watch::Receiver<bool>) {
    let relaying = async {
        if let Ok(mut to) = TcpStream::connect(to).await {
            let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
        }
    };
    tokio::select! {
        () = relaying => {}
        _ = is_open.wait_for(|is_open| !is_open) => {}
    }
}
