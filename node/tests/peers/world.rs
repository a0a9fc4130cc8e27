//! Nodes of one cluster in one process, as their peers see them, and a network that can be cut.

use super::store::{Log, State};
use node::peers::NodeIdentity;
use node::peers::Peers;
use node::peers::Refusal;
use node::peers::network::Factory;
use node::peers::server::{CONNECTIONS_MAX, PeerServer};
use node::peers::service::{Peer, Service};
use node::peers::tls::PeerTls;
use node::peers::wire::{Hello, NodeQuestion, NodeReply, Welcome};
use openraft::{Config, Raft};
use raft_store::codec::records::{Blob, MembershipRecord, StoredMembershipRecord};
use raft_store::types::{Group, Member, NodeId, OnTokio};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use test_support::LIMIT;
use test_support::relay::Relay;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, Notify, watch};

pub(crate) const CLUSTER: u128 = 0xC1;

/// The instance of a node's directory.
pub(crate) fn instance(node: NodeId) -> u64 {
    1000 + node
}

pub(crate) fn identity(node: NodeId) -> NodeIdentity {
    NodeIdentity { group: Group(0), cluster: Some(CLUSTER), node, instance: instance(node), rules_version: 1 }
}

pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) raft: Raft<OnTokio, State>,
    pub(crate) log: Log,
    pub(crate) state: State,
    pub(crate) service: Arc<Answering>,
    pub(crate) server: PeerServer,
}

/// What the node of a test answers.
pub(crate) struct Answering {
    raft: Raft<OnTokio, State>,
    identity: NodeIdentity,
    root: TempDir,
    /// All peers that sent a hello.
    pub(crate) hellos: Mutex<Vec<Hello>>,
    /// Says that it is of this cluster.
    pub(crate) claims: Mutex<u128>,
    /// Forwarded requests are answered when this many have arrived.
    pub(crate) together: Mutex<Arc<Barrier>>,
    /// A question that is never answered has come.
    pub(crate) stuck: Notify,
    /// Nodes that are no longer members.
    pub(crate) gone: watch::Sender<BTreeSet<NodeId>>,
}

impl Service for Answering {
    type Types = OnTokio;
    type State = State;

    fn check(&self, peer: &Peer) -> Result<Welcome, Refusal> {
        let hello = &peer.hello;
        self.hellos.lock().unwrap().push(hello.clone());
        if peer.is_member() && hello.instance != instance(hello.node) {
            return Err(format!("node {} has another instance", hello.node).into());
        }
        Ok(Welcome { cluster: *self.claims.lock().unwrap(), ..self.identity.welcome()? })
    }

    async fn left(&self, peer: &Peer) {
        let mut gone = self.gone.subscribe();
        let _ = gone.wait_for(|gone| gone.contains(&peer.node())).await;
    }

    async fn ask(&self, from: &Peer, question: NodeQuestion) -> NodeReply {
        match question {
            NodeQuestion::Forward { requests } => {
                let together = self.together.lock().unwrap().clone();
                together.wait().await;
                let bytes: Vec<u8> = requests.0.iter().rev().copied().collect();
                NodeReply::Forwarded { outcomes: Blob(bytes.into()) }
            }
            NodeQuestion::ReadIndex => {
                self.stuck.notify_one();
                std::future::pending().await
            }
            NodeQuestion::HashMarks => NodeReply::HashMarks(Vec::new()),
            NodeQuestion::Join { .. } | NodeQuestion::JoinBy(_) => {
                NodeReply::Joined { cluster: CLUSTER, salt: lease::Salt([1, 2]), members: MembershipRecord::default() }
            }
            NodeQuestion::Status => NodeReply::Unknown { why: format!("hello, node {}", from.node()) },
            NodeQuestion::Members => NodeReply::Members(StoredMembershipRecord::default()),
            NodeQuestion::Change(_) => NodeReply::Changed { leader: self.identity.node },
            NodeQuestion::Report | NodeQuestion::Disk => NodeReply::NotLeader { leader: None },
        }
    }

    fn raft(&self) -> Raft<OnTokio, State> {
        self.raft.clone()
    }

    fn snapshot_root(&self) -> PathBuf {
        self.root.path().to_owned()
    }
}

impl Node {
    /// A node that takes part in no election.
    pub(crate) async fn quiet(id: NodeId, tls: Option<PeerTls>) -> Self {
        let config = Config { enable_tick: false, ..Config::default() };
        Self::start(id, tls, config).await
    }

    pub(crate) async fn start(id: NodeId, tls: Option<PeerTls>, config: Config) -> Self {
        let peers = Peers::new(identity(id), tls.clone());
        let (log, state) = (Log::default(), State::default());
        let config = Arc::new(config.validate().unwrap());
        let raft = Raft::new(id, config, Factory::new(peers), log.clone(), state.clone()).await.unwrap();
        let service = Arc::new(Answering {
            raft: raft.clone(),
            identity: identity(id),
            root: TempDir::new().unwrap(),
            hellos: Mutex::default(),
            claims: Mutex::new(CLUSTER),
            together: Mutex::new(Arc::new(Barrier::new(1))),
            stuck: Notify::new(),
            gone: watch::Sender::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = PeerServer::start(listener, tls, identity(id), service.clone(), CONNECTIONS_MAX).unwrap();
        Self { id, raft, log, state, service, server }
    }

    pub(crate) fn member(&self) -> Member {
        member(self.id, self.server.address())
    }

    pub(crate) fn members(nodes: &[&Self]) -> BTreeMap<NodeId, Member> {
        nodes.iter().map(|node| (node.id, node.member())).collect()
    }

    /// How often it was connected to.
    pub(crate) fn connections(&self) -> usize {
        self.service.hellos.lock().unwrap().len()
    }

    /// It answers another node.
    pub(crate) async fn serves(&self, tls: Option<PeerTls>) {
        let reply = Peers::new(identity(77), tls).ask(self.id, &self.member(), NodeQuestion::Status, LIMIT).await;
        assert_eq!(reply, Ok(NodeReply::Unknown { why: "hello, node 77".to_owned() }));
    }

    pub(crate) fn received(&self) -> PathBuf {
        self.service.snapshot_root()
    }
}

pub(crate) fn member(id: NodeId, address: SocketAddr) -> Member {
    Member { peer_address: address.to_string(), api_address: String::new(), instance: instance(id) }
}

/// What the network does to the bytes that go to the listening side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    None,
    /// The connection is lost after this many bytes.
    CutBehind(usize),
    /// No bytes arrive after this many, without an error.
    SilentBehind(usize),
}

/// A way to an address that can be cut.
pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    pub(crate) fault: Arc<Mutex<Fault>>,
    /// Bytes that have passed to the listening side.
    pub(crate) bytes: Arc<AtomicUsize>,
    _relay: Relay,
}

impl Way {
    pub(crate) async fn to(target: SocketAddr) -> Self {
        let fault = Arc::new(Mutex::new(Fault::None));
        let bytes = Arc::new(AtomicUsize::new(0));
        let (faults, counter) = (fault.clone(), bytes.clone());
        let relay =
            Relay::to(target, move |near, far| carry(near, far, *faults.lock().unwrap(), counter.clone())).await;
        Self { address: relay.address, fault, bytes, _relay: relay }
    }

    pub(crate) fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
        self.bytes.store(0, Ordering::SeqCst);
    }

    pub(crate) fn passed(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }
}

async fn carry(near: TcpStream, far: TcpStream, fault: Fault, counter: Arc<AtomicUsize>) {
    let (mut near_read, mut near_write) = near.into_split();
    let (mut far_read, mut far_write) = far.into_split();
    let there = async {
        let mut passed = 0;
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let Ok(read @ 1..) = near_read.read(&mut buffer).await else { return };
            let room = match fault {
                Fault::None => usize::MAX,
                Fault::CutBehind(bytes) | Fault::SilentBehind(bytes) => bytes - passed,
            };
            let taken = read.min(room);
            if far_write.write_all(&buffer[..taken]).await.is_err() {
                return;
            }
            passed += taken;
            counter.fetch_add(taken, Ordering::SeqCst);
            match fault {
                Fault::CutBehind(_) if taken < read => return,
                Fault::SilentBehind(_) if taken < read => std::future::pending().await,
                Fault::None | Fault::CutBehind(_) | Fault::SilentBehind(_) => {}
            }
        }
    };
    let back = async {
        let _ = tokio::io::copy(&mut far_read, &mut near_write).await;
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}
