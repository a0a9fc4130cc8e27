//! The server for peers: connections are authenticated, limited in number, and served until the node stops.
//!
//! Every connection is a task of the server, which waits for all of them when it is shut down. An invalid frame only
//! closes its connection. The node's [`Service`] and its Raft answer the questions; this module only decides who may
//! ask.

mod append;
mod questions;

use super::connection::{Connection, LIVENESS};
use super::frame::FrameError;
use super::service::{Peer, Service};
use super::shown::Shown;
use super::snapshot::receive::{self, Turn};
use super::tls::PeerTls;
use super::wire::{Greeting, Hello, Purpose, Welcome};
use super::{NodeIdentity, Refusal};
use crate::net::slots::{ConnectionSlot, ConnectionSlots};
use crate::net::socket;
use crate::net::throttle::Throttle;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Maximum number of connections, including those that have not sent a hello. For one more, the oldest of the latter is
/// closed.
pub const CONNECTIONS_MAX: usize = 640;
/// Maximum number of connections for one purpose: a few for each member, including lost ones that are not detected yet.
const PURPOSE_CONNECTIONS_MAX: usize = 128;
/// Limit from the connection to the welcome.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// Limit for answering questions that a node asked before it left the cluster.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// Pause when the system provides no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The listener of a node. It stops when it is dropped; [`shutdown`](Self::shutdown) waits for it.
#[derive(Debug)]
pub struct PeerServer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    stop: DropGuard,
}

impl PeerServer {
    /// # Errors
    /// When the listener has no address.
    pub fn start<S: Service>(
        listener: TcpListener,
        tls: Option<PeerTls>,
        identity: NodeIdentity,
        service: Arc<S>,
        connections_max: usize,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let server = Arc::new(Server {
            tls,
            identity,
            service,
            turn: Turn::default(),
            purposes: Purpose::ALL.map(|_| Arc::new(Semaphore::new(PURPOSE_CONNECTIONS_MAX))),
            not_let_in: Mutex::default(),
            stop: stop.clone(),
        });
        let accepting = tokio::spawn(accept(listener, server, ConnectionSlots::new(connections_max, connections_max)));
        Ok(Self { address, accepting, stop: stop.drop_guard() })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the server has ended. Before a shutdown only a panic ends it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.accepting.is_finished()
    }

    /// Closes every connection and returns when their tasks have ended.
    pub async fn shutdown(self) {
        drop(self.stop);
        if let Err(error) = self.accepting.await {
            tracing::error!("the listener for peers failed: {error}");
        }
    }
}

pub(crate) struct Server<S> {
    tls: Option<PeerTls>,
    identity: NodeIdentity,
    service: Arc<S>,
    turn: Turn,
    /// Room for connections, in the order of [`Purpose::ALL`].
    purposes: [Arc<Semaphore>; 4],
    not_let_in: Mutex<Throttle>,
    stop: CancellationToken,
}

async fn accept<S: Service>(listener: TcpListener, server: Arc<Server<S>>, slots: ConnectionSlots) {
    let mut connections = JoinSet::new();
    let (mut failed, mut refused) = (Throttle::default(), Throttle::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = server.stop.cancelled() => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                failed.say(|times| tracing::warn!(times, "cannot accept connections from nodes: {error}"));
                tokio::select! {
                    () = sleep(ACCEPT_PAUSE) => continue,
                    () = server.stop.cancelled() => break,
                }
            }
        };
        let Some(slot) = slots.take(from.ip()).await else {
            refused.say(|times| tracing::warn!(times, "rejected {from}: too many nodes are connected"));
            continue;
        };
        let server = server.clone();
        connections.spawn(async move {
            server.connection(stream, from, &slot).await;
            drop(slot);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

impl<S: Service> Server<S> {
    async fn connection(&self, stream: TcpStream, from: SocketAddr, slot: &ConnectionSlot) {
        let greeted = tokio::select! {
            greeted = timeout(HANDSHAKE_LIMIT, self.greet(stream)) => greeted,
            () = slot.evicted() => return self.not_let_in(from, "its slot was needed before it sent a hello"),
            () = self.stop.cancelled() => return,
        };
        let (peer, mut connection, _slot) = match greeted {
            Ok(Ok(Some(greeted))) => greeted,
            Ok(Ok(None)) => return,
            Ok(Err(why)) => return self.not_let_in(from, &why),
            Err(_) => return self.not_let_in(from, &format!("no hello within {HANDSHAKE_LIMIT:?}")),
        };
        slot.is_known();
        let hello = &peer.hello;
        let (stop, closing) = (self.stop.child_token(), CancellationToken::new());
        let serving = async {
            match hello.purpose {
                Purpose::Raft | Purpose::Heartbeat => until(&stop, append::serve(&*self.service, connection)).await,
                Purpose::Calls => until(&stop, questions::serve(&self.service, &peer, connection, &closing)).await,
                // It ends by itself, so that no write continues after it.
                Purpose::Snapshot => receive::serve(&*self.service, &self.turn, &mut connection, &stop).await,
            }
        };
        let leaving = async {
            if peer.is_member() {
                self.service.left(&peer).await;
                tracing::info!(
                    "the {} connection of node {} is closed: it is no longer a member",
                    hello.purpose,
                    hello.node
                );
                // A node that asked for its own removal still gets the answer.
                closing.cancel();
                if hello.purpose == Purpose::Calls {
                    sleep(ANSWERED_WITHIN).await;
                }
                stop.cancel();
            }
            std::future::pending().await
        };
        let served = tokio::select! {
            served = serving => served,
            never = leaving => never,
        };
        match served {
            Ok(()) => {}
            Err(error) if error.is_rubbish() => {
                tracing::warn!("the {} connection of node {} at {from} was closed: {error}", hello.purpose, hello.node);
            }
            // A peer restarts, or the network was cut: the side that needs the connection logs it.
            Err(error) => tracing::debug!("the {} connection of node {} ended: {error}", hello.purpose, hello.node),
        }
    }

    fn not_let_in(&self, from: SocketAddr, why: &str) {
        let mut told = self.not_let_in.lock().unwrap_or_else(PoisonError::into_inner);
        told.say(|times| tracing::warn!(times, "{from} was not admitted: {why}"));
    }

    /// None: the peer closed the connection without sending anything, as a port probe does.
    async fn greet(&self, stream: TcpStream) -> Result<Option<(Arc<Peer>, Connection, OwnedSemaphorePermit)>, String> {
        socket::tune(&stream, LIVENESS).map_err(|error| error.to_string())?;
        let (shown, mut connection) = match &self.tls {
            None => (Shown::Nothing, Connection::plain(stream)),
            Some(tls) => match tls.acceptor().accept(stream).await {
                Ok(stream) => {
                    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).cloned();
                    let certificate = certificate.ok_or("it presented no certificate")?;
                    (Shown::Certificate(certificate.into_owned()), Connection::split(stream))
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(error.to_string()),
            },
        };
        let hello = match connection.reader.next::<Hello>().await {
            Ok(Some(hello)) => hello,
            Ok(None) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let peer = Arc::new(Peer { hello, shown });
        let (welcome, slot) = match self.check(&peer) {
            Ok(checked) => checked,
            Err(why) => {
                let refused = Greeting::Refused { why: why.told.clone() };
                connection.writer.send(&refused).await.map_err(|error| format!("{why} ({error})"))?;
                return Err(format!("node {}: {why}", peer.node()));
            }
        };
        connection.writer.send(&Greeting::Welcome(welcome)).await.map_err(|error| error.to_string())?;
        connection.open(peer.hello.purpose);
        Ok(Some((peer, connection, slot)))
    }

    fn check(&self, peer: &Peer) -> Result<(Welcome, OwnedSemaphorePermit), Refusal> {
        self.identity.check(&peer.hello)?;
        let welcome = self.service.check(peer)?;
        self.identity.check_target(&peer.hello)?;
        let slot = self.slot(peer.hello.purpose);
        Ok((welcome, slot.ok_or_else(|| "too many connections for this purpose".to_owned())?))
    }

    fn slot(&self, purpose: Purpose) -> Option<OwnedSemaphorePermit> {
        let number = Purpose::ALL.iter().position(|other| *other == purpose)?;
        self.purposes[number].clone().try_acquire_owned().ok()
    }
}

async fn until(
    stop: &CancellationToken,
    serving: impl Future<Output = Result<(), FrameError>>,
) -> Result<(), FrameError> {
    tokio::select! {
        served = serving => served,
        () = stop.cancelled() => Ok(()),
    }
}
