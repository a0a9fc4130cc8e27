//! Connections from this node to its peers: how they are made and authenticated.
//!
//! A connection is returned only after both sides are authenticated.

use super::frame::{FrameReader, FrameWriter};
use super::tls::{self, PeerTls};
use super::wire::{GREETING_BYTES_MAX, Greeting, Purpose, Welcome};
use super::{NodeIdentity, PeerError};
use crate::net::socket::{self, Liveness};
use raft_store::types::{Member, NodeId};
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Limit for everything before the first frame: name lookup, TCP, TLS, hello.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The peer's machine must acknowledge sent bytes within this time. After a network cut a new connection works at once,
/// while the old one may wait long for its next retransmission.
pub(crate) const TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// The receiver's disk may be slow.
const SNAPSHOT_TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// An idle connection to a machine that is gone ends after 10 + 3 × 5 seconds.
pub(crate) const LIVENESS: Liveness =
    Liveness { probe_after: Duration::from_secs(10), probe_every: Duration::from_secs(5), taken_within: TAKEN_WITHIN };

/// The node that a connection must lead to.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub address: String,
    pub node: Option<NodeId>,
    /// None: any.
    pub instance: Option<u64>,
}

impl Expected {
    /// An instance of 0 means that it is not known yet.
    pub(crate) fn member(target: NodeId, member: &Member) -> Self {
        let instance = Some(member.instance).filter(|instance| *instance != 0);
        Self { address: member.peer_address.clone(), node: Some(target), instance }
    }

    pub(crate) fn address(address: &str) -> Self {
        Self { address: address.to_owned(), node: None, instance: None }
    }

    fn check(&self, ours: &NodeIdentity, welcome: &Welcome) -> Result<(), String> {
        let address = &self.address;
        match (ours.cluster, self.node, self.instance) {
            (Some(cluster), _, _) if welcome.cluster != cluster => {
                Err(format!("{address} belongs to cluster {:032x}, not to {cluster:032x}", welcome.cluster))
            }
            (_, Some(node), _) if welcome.node != node => {
                Err(format!("{address} is node {}, not node {node}", welcome.node))
            }
            (_, _, Some(instance)) if welcome.instance != instance => {
                let node = welcome.node;
                Err(format!(
                    "node {node} is instance {:016x}, not {instance:016x}: another directory",
                    welcome.instance
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Makes connections.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) identity: NodeIdentity,
    pub(crate) tls: Option<PeerTls>,
}

impl Dialer {
    pub(crate) fn node(&self) -> NodeId {
        self.identity.node
    }

    /// Makes a connection on which both sides are authenticated.
    pub(crate) async fn connect(&self, expected: &Expected, purpose: Purpose) -> Result<Connection, PeerError> {
        match timeout(CONNECT_LIMIT, self.dial(expected, purpose)).await {
            Ok(result) => result,
            Err(_) => Err(PeerError::unreachable(format_args!(
                "{}: no connection within {CONNECT_LIMIT:?}",
                expected.address
            ))),
        }
    }

    async fn dial(&self, expected: &Expected, purpose: Purpose) -> Result<Connection, PeerError> {
        let address = &expected.address;
        let unreachable = |error: &dyn fmt::Display| PeerError::unreachable(format_args!("{address}: {error}"));
        let stream = TcpStream::connect(address).await.map_err(|error| unreachable(&error))?;
        let taken_within = match purpose {
            Purpose::Raft | Purpose::Heartbeat | Purpose::Calls => TAKEN_WITHIN,
            Purpose::Snapshot => SNAPSHOT_TAKEN_WITHIN,
        };
        socket::tune(&stream, Liveness { taken_within, ..LIVENESS }).map_err(|error| unreachable(&error))?;
        let mut connection = match &self.tls {
            None => Connection::plain(stream),
            Some(tls) => {
                let name = tls::server_name(address).map_err(|error| unreachable(&error))?;
                let stream = tls.connector().connect(name, stream).await.map_err(|error| unreachable(&error))?;
                Connection::split(stream)
            }
        };
        let hello = self.identity.hello(expected.node, purpose);
        connection.writer.send(&hello).await.map_err(|error| unreachable(&error))?;
        let greeting = connection.reader.next().await.map_err(|error| unreachable(&error))?;
        match greeting {
            Some(Greeting::Welcome(welcome)) => {
                expected.check(&self.identity, &welcome).map_err(|why| PeerError::Refused { why })?;
                connection.open(purpose);
                Ok(connection)
            }
            Some(Greeting::Refused { why }) => Err(PeerError::Refused { why }),
            None => Err(unreachable(&"closed without a greeting")),
        }
    }
}

pub(crate) type Reading = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writing = Box<dyn AsyncWrite + Send + Unpin>;

/// Both directions of a connection, with or without TLS. Before it is opened it accepts only small frames.
pub(crate) struct Connection {
    pub reader: FrameReader<Reading>,
    pub writer: FrameWriter<Writing>,
}

impl Connection {
    pub(crate) fn plain(stream: TcpStream) -> Self {
        let (reading, writing) = stream.into_split();
        Self::of(Box::new(reading), Box::new(writing))
    }

    pub(crate) fn split(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (reading, writing) = tokio::io::split(stream);
        Self::of(Box::new(reading), Box::new(writing))
    }

    fn of(reading: Reading, writing: Writing) -> Self {
        Self {
            reader: FrameReader::new(reading, GREETING_BYTES_MAX),
            writer: FrameWriter::new(writing, GREETING_BYTES_MAX),
        }
    }

    pub(crate) fn open(&mut self, purpose: Purpose) {
        self.reader.set_max(purpose.frame_bytes_max());
        self.writer.set_max(purpose.frame_bytes_max());
    }
}
