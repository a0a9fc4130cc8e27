//! The listening side of HTTP: connections are accepted, bounded, answered, and ended.
//!
//! Every connection is a task of the server, every HTTP/2 stream one of its tracked tasks, and
//! [`shutdown`](EdgeServer::shutdown) waits for all of them. What a request means is for [`Answers`] alone.

mod connection;
mod pulse;
mod socket;

use super::tls::EdgeTls;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::throttle::Throttle;
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use connection::Tasks;
use socket2::{SockRef, TcpKeepalive};
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

/// When the machine gives out no more sockets, until the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What was told to stop and cut off is given this long to be dropped.
const CUT_OFF_WITHIN: Duration = Duration::from_secs(1);
/// A caller whose machine is gone without a word: noticed within about 75 s.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(45);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
#[cfg(target_os = "linux")]
const KEEPALIVE_TRIES: u32 = 3;

/// For one connection too many. It is sent at most once and never waited for.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    content-length: 149\r\n\r\n\
    {\"type\":\"/docs#overloaded\",\"title\":\"Too many connections\",\"status\":503,\"code\":\"overloaded\",\
    \"may_retry\":true,\"took_effect\":\"no\",\"retry_after_ms\":1000}";

/// What one server takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at a time, handshakes included. For one more the oldest that has shown no credential is closed; if all
    /// have shown one, the new one is sent away at once. Default 20,000.
    pub connections_max: usize,
    /// Of one IPv4 address or one IPv6 network of 64 bits, likewise. Default half of all: callers may share a proxy.
    pub address_connections_max: usize,
    /// For the TLS handshake. Default 10 s.
    pub handshake_within: Duration,
    /// From the connection to its first request, and from the first byte of a request's head to its last. Default 10 s.
    pub head_within: Duration,
    /// A connection that asks nothing for so long is closed. Default 75 s.
    pub idle_within: Duration,
    /// A caller who reads nothing of its answer for so long is cut off. Default 30 s.
    pub taken_within: Duration,
    /// Bytes of a request's head. It is also the most that a connection of HTTP/1 buffers. Default 32 KiB, at least
    /// 8 KiB.
    pub head_bytes_max: u32,
    /// Requests at a time on one connection of HTTP/2. Default 128.
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
            taken_within: Duration::from_secs(30),
            head_bytes_max: 32 * 1024,
            streams_max: 128,
        }
    }
}

/// Who is at the other end: in the extensions of every request, beside axum's `ConnectInfo<SocketAddr>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub address: SocketAddr,
    pub is_tls: bool,
}

impl Peer {
    /// Whether it is a program on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }
}

/// Whether the server is about to stop: in the extensions of every request. Whoever answers with a stream, or waits on
/// behalf of a caller, ends when it begins.
#[derive(Clone, Debug)]
pub struct Stopping(CancellationToken);

impl Stopping {
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.is_cancelled()
    }

    pub async fn begun(&self) {
        self.0.cancelled().await;
    }

    /// As [`begun`](Self::begun), for a future that outlives this.
    pub async fn begun_owned(self) {
        self.0.cancelled_owned().await;
    }
}

/// What answers the requests of every connection.
pub trait Answers: Send + Sync + 'static {
    fn answer(&self, request: Request) -> Answering;
}

/// An answer on its way.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

impl Answers for Router {
    fn answer(&self, request: Request) -> Answering {
        // A router is always ready.
        let answering = self.clone().call(request);
        Box::pin(async move { answering.await.unwrap_or_else(|never| match never {}) })
    }
}

/// A server of HTTP/1.1 and HTTP/2. Dropped, it cuts everyone off; [`shutdown`](Self::shutdown) lets them finish.
#[derive(Debug)]
pub struct EdgeServer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    places: Places,
    stopping: Stopping,
    cut_off: DropGuard,
}

impl EdgeServer {
    /// # Errors
    /// When the listener has no address.
    pub fn start(
        listener: TcpListener,
        tls: Option<EdgeTls>,
        answers: impl Answers,
        limits: ServerLimits,
        metrics: Metrics,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let cut_off = CancellationToken::new();
        let stopping = Stopping(CancellationToken::new());
        let places = Places::new(limits.connections_max, limits.address_connections_max);
        let tasks = Tasks::new(cut_off.clone());
        let server = Arc::new(Server {
            http: connection::http(&limits, tasks.clone()),
            tls,
            answers: Arc::new(answers),
            limits,
            tasks,
            metrics,
            stopping: stopping.clone(),
            cut_off: cut_off.clone(),
        });
        let accepting = tokio::spawn(accept(listener, server, places.clone()));
        Ok(Self { address, accepting, places, stopping, cut_off: cut_off.drop_guard() })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it accepts no more connections. Before a shutdown only a panic ends it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.accepting.is_finished()
    }

    /// Open now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.places.taken()
    }

    #[must_use]
    pub fn stopping(&self) -> Stopping {
        self.stopping.clone()
    }

    /// Accepts no more, tells those who stream or wait, lets what was asked be answered, and closes. Whoever is not
    /// done after `within` is cut off. It returns when nothing of the server runs any more.
    pub async fn shutdown(mut self, within: Duration) {
        self.stopping.0.cancel();
        let mut ended = timeout(within, &mut self.accepting).await;
        if ended.is_err() {
            tracing::warn!("{} connections did not end within {within:?} and were cut off", self.connections());
            drop(self.cut_off);
            ended = timeout(CUT_OFF_WITHIN, &mut self.accepting).await;
        }
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("the listener for callers has ended badly: {error}"),
            Err(_) => {
                tracing::error!("a handler blocks its thread: it is left behind");
                self.accepting.abort();
            }
        }
    }
}

struct Server {
    http: connection::Http,
    tls: Option<EdgeTls>,
    answers: Arc<dyn Answers>,
    limits: ServerLimits,
    tasks: Tasks,
    metrics: Metrics,
    stopping: Stopping,
    cut_off: CancellationToken,
}

async fn accept(listener: TcpListener, server: Arc<Server>, places: Places) {
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
                failed.say(|times| tracing::warn!(times, "no connection can be accepted: {error}"));
                tokio::select! {
                    () = sleep(ACCEPT_PAUSE) => continue,
                    () = server.stopping.begun() => break,
                    () = server.cut_off.cancelled() => break,
                }
            }
        };
        let Some(place) = places.take(address.ip()).await else {
            refused.say(|times| tracing::warn!(times, "{address} was turned away: too many connections are open"));
            server.metrics.shed("connections");
            turn_away(&stream, server.tls.is_some());
            continue;
        };
        let server = server.clone();
        connections.spawn(async move {
            server.connection(stream, address, &place).await;
            drop(place);
        });
    }
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        tell(ended);
    }
    server.tasks.ended().await;
}

/// A connection that was lost before it was accepted says nothing about the next one.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn tell(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!("a connection has ended badly: {error}");
    }
}

/// On a port for TLS there is no way to say it that a caller would understand.
fn turn_away(stream: &TcpStream, is_tls: bool) {
    if !is_tls {
        // Best effort: who sent a request before this is read may only see the connection closed.
        let _ = SockRef::from(stream).send(FULL);
    }
}

/// What is sent goes at once, and a caller whose machine is gone is noticed.
fn tune(stream: &TcpStream, taken_within: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    #[cfg(target_os = "linux")]
    let keepalive = keepalive.with_retries(KEEPALIVE_TRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(taken_within))?;
    #[cfg(not(target_os = "linux"))]
    let _ = taken_within;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_for_one_connection_too_many_has_the_length_it_says() {
        let text = str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
