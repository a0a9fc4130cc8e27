//! The HTTP server: accepts, limits, serves and closes connections.
//!
//! Every connection is a task of the server, and every HTTP/2 stream is a tracked task.
//! [`shutdown`](EdgeServer::shutdown) waits for all of them. Only [`Handler`] interprets requests.

mod connection;
mod pulse;
mod socket;

use super::stopping::Stopping;
use super::tls::EdgeTls;
use crate::net::slots::ConnectionSlots;
use crate::net::socket::Liveness;
use crate::net::throttle::Throttle;
use crate::observe::metrics::Metrics;
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use connection::Tasks;
use socket2::SockRef;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::Service as _;

/// Pause before the next accept when the machine has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for tasks that were cut off to be dropped.
const CUT_OFF_WITHIN: Duration = Duration::from_secs(1);
/// A caller whose machine disappears without closing the connection is noticed within about 75 s.
const LIVENESS: Liveness = Liveness {
    probe_after: Duration::from_secs(45),
    probe_every: Duration::from_secs(10),
    taken_within: Duration::from_secs(30),
};

/// The response for a connection above the limit. It is sent at most once, without waiting.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    content-length: 149\r\n\r\n\
    {\"type\":\"/docs#overloaded\",\"title\":\"Too many connections\",\"status\":503,\"code\":\"overloaded\",\
    \"may_retry\":true,\"took_effect\":\"no\",\"retry_after_ms\":1000}";

/// Limits of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Open connections, including handshakes. A new connection above the limit closes the oldest one that has shown no
    /// credential; if all have shown one, the new connection is rejected at once. Default 20,000.
    pub connections_max: usize,
    /// The same limit for one IPv4 address or one IPv6 /64 network. Default half of `connections_max`, because callers
    /// may share a proxy.
    pub address_connections_max: usize,
    /// Time for the TLS handshake. Default 10 s.
    pub handshake_within: Duration,
    /// Time from the connection to its first request, and from the first to the last byte of a request head. Default 10
    /// s.
    pub head_within: Duration,
    /// A connection without requests for this long is closed. Default 75 s.
    pub idle_within: Duration,
    /// A caller that reads nothing of its response for this long is disconnected. Default 30 s.
    pub taken_within: Duration,
    /// Bytes of a request head, and the most that an HTTP/1 connection buffers. Default 32 KiB, at least 8 KiB.
    pub head_bytes_max: u32,
    /// Concurrent requests on one HTTP/2 connection. Default 128.
    pub streams_max: u32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            address_connections_max: 10_000,
            handshake_within: Duration::from_secs(10),
            head_within: Duration::from_secs(10),
            idle_within: Duration::from_secs(75),
            taken_within: LIVENESS.taken_within,
            head_bytes_max: 32 * 1024,
            streams_max: 128,
        }
    }
}

/// Answers the requests of all connections.
pub trait Handler: Send + Sync + 'static {
    fn handle(&self, request: Request) -> Handling;
}

/// A response that is being made.
pub type Handling = Pin<Box<dyn Future<Output = Response> + Send>>;

impl Handler for Router {
    fn handle(&self, request: Request) -> Handling {
        // A router is always ready.
        let answering = self.clone().call(request);
        Box::pin(async move { answering.await.unwrap_or_else(|never| match never {}) })
    }
}

/// A server for HTTP/1.1 and HTTP/2. Dropping it cuts all connections; [`shutdown`](Self::shutdown) lets them finish.
#[derive(Debug)]
pub struct EdgeServer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    slots: ConnectionSlots,
    stopping: Stopping,
    cut_off: DropGuard,
}

impl EdgeServer {
    /// # Errors
    /// When the listener has no address.
    pub fn start(
        listener: TcpListener,
        tls: Option<EdgeTls>,
        handler: impl Handler,
        limits: ServerLimits,
        metrics: Metrics,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let cut_off = CancellationToken::new();
        let stopping = Stopping::default();
        let slots = ConnectionSlots::new(limits.connections_max, limits.address_connections_max);
        let tasks = Tasks::new(cut_off.clone());
        let server = Arc::new(Server {
            http: connection::http(&limits, tasks.clone()),
            tls,
            handler: Arc::new(handler),
            limits,
            tasks,
            metrics,
            stopping: stopping.clone(),
            cut_off: cut_off.clone(),
        });
        let accepting = tokio::spawn(accept(listener, server, slots.clone()));
        Ok(Self { address, accepting, slots, stopping, cut_off: cut_off.drop_guard() })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it has stopped accepting connections. Before a shutdown only a panic causes that.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.accepting.is_finished()
    }

    /// Number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.slots.taken()
    }

    #[must_use]
    pub fn stopping(&self) -> Stopping {
        self.stopping.clone()
    }

    /// Stops accepting, signals streams and waiting calls, lets running requests finish, and closes the connections.
    /// Connections that are still open after `within` are cut. Returns when no task of the server runs any more.
    pub async fn shutdown(mut self, within: Duration) {
        self.stopping.begin();
        let mut ended = timeout(within, &mut self.accepting).await;
        if ended.is_err() {
            tracing::warn!("cut {} connections that did not end within {within:?}", self.connections());
            drop(self.cut_off);
            ended = timeout(CUT_OFF_WITHIN, &mut self.accepting).await;
        }
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("the listener for callers failed: {error}"),
            Err(_) => {
                tracing::error!("a handler blocks its thread: stopping without it");
                self.accepting.abort();
            }
        }
    }
}

struct Server {
    http: connection::Http,
    tls: Option<EdgeTls>,
    handler: Arc<dyn Handler>,
    limits: ServerLimits,
    tasks: Tasks,
    metrics: Metrics,
    stopping: Stopping,
    cut_off: CancellationToken,
}

async fn accept(listener: TcpListener, server: Arc<Server>, slots: ConnectionSlots) {
    let mut connections = JoinSet::new();
    let mut refused = Throttle::default();
    let mut failed = Throttle::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = connections.join_next() => {
                tell(ended);
                continue;
            }
            () = server.stopping.begun() => break,
            () = server.cut_off.cancelled() => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                failed.say(|times| tracing::warn!(times, "cannot accept connections: {error}"));
                tokio::select! {
                    () = sleep(ACCEPT_PAUSE) => continue,
                    () = server.stopping.begun() => break,
                    () = server.cut_off.cancelled() => break,
                }
            }
        };
        let Some(slot) = slots.take(address.ip()).await else {
            refused.say(|times| {
                tracing::warn!(times, "rejected a connection from {address}: too many connections are open")
            });
            server.metrics.shed("connections");
            turn_away(&stream, server.tls.is_some());
            continue;
        };
        let server = server.clone();
        connections.spawn(async move {
            server.connection(stream, address, &slot).await;
            drop(slot);
        });
    }
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        tell(ended);
    }
    server.tasks.ended().await;
}

/// Whether only this connection failed, because it was lost before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn tell(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!("a connection task failed: {error}");
    }
}

/// Sends [`FULL`]. On a TLS port a caller could not read it.
fn turn_away(stream: &TcpStream, is_tls: bool) {
    if !is_tls {
        // Best effort: a caller that is still sending may only see the connection closed.
        let _ = SockRef::from(stream).send(FULL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_for_excess_connections_has_the_right_content_length() {
        let text = str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
