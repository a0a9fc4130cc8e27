//! A server with a small router, and raw callers of it.

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures_util::stream;
use node::edge::answer::Failure;
use node::edge::body::{BodyLimits, WholeBody};
use node::edge::remote::Remote;
use node::edge::server::{EdgeServer, ServerLimits};
use node::edge::stopping::Stopping;
use node::edge::tls::EdgeTls;
use node::observe::metrics::Metrics;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use test_support::{until, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub(crate) const SHORT: Duration = Duration::from_millis(300);
/// More memory than these callers may cost.
const RESIDENT_MORE_MAX: u64 = 64 * 1024 * 1024;

static PANICS: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct World {
    pub(crate) server: EdgeServer,
    pub(crate) seen: Seen,
    resident: u64,
}

/// What the handlers have seen.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) requests: Arc<AtomicUsize>,
    /// One permit for each request that `/wait` answers.
    pub(crate) answers: Arc<Permits>,
}

pub(crate) struct Permits(pub(crate) Semaphore);

impl Default for Permits {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

/// Short time limits for callers, so that a test need not wait for the real ones.
pub(crate) fn short() -> ServerLimits {
    ServerLimits {
        handshake_within: SHORT,
        head_within: SHORT,
        idle_within: 2 * SHORT,
        taken_within: SHORT,
        ..ServerLimits::default()
    }
}

pub(crate) async fn start(limits: ServerLimits) -> World {
    start_with(limits, BodyLimits::default(), None).await
}

pub(crate) async fn start_with(limits: ServerLimits, bodies: BodyLimits, tls: Option<EdgeTls>) -> World {
    count_panics();
    let seen = Seen::default();
    let router = Router::new()
        .route("/ping", get(|| async { "pong" }))
        .route("/length", post(|body: Bytes| async move { body.len().to_string() }))
        .route("/who", get(who))
        .route("/wait", get(wait))
        .route("/hold", post(|seen: State<Seen>, _: Bytes| wait(seen)))
        .route("/stream", get(events))
        .route("/much", get(much))
        .layer(axum::middleware::from_fn_with_state(WholeBody::new(bodies), whole))
        .layer(axum::middleware::map_request_with_state(seen.clone(), note))
        .with_state(seen.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = EdgeServer::start(listener, tls, router, limits, Metrics::new()).unwrap();
    World { server, seen, resident: resident() }
}

async fn whole(State(bodies): State<WholeBody>, request: Request, next: Next) -> Response {
    let (head, mut body) = request.into_parts();
    match bodies.take_whole(None, &head, &mut body).await {
        Ok((bytes, _taken)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Err(refusal) => {
            let Failure(problem) = refusal.into();
            (StatusCode::from_u16(problem.status).unwrap(), Json(problem)).into_response()
        }
    }
}

async fn note<B>(State(seen): State<Seen>, request: axum::http::Request<B>) -> axum::http::Request<B> {
    seen.requests.fetch_add(1, Ordering::Relaxed);
    request
}

async fn who(Extension(peer): Extension<Remote>, ConnectInfo(address): ConnectInfo<SocketAddr>) -> String {
    format!("{} {} {} {}", peer.address, peer.address == address, peer.is_loopback(), peer.is_tls)
}

async fn wait(State(seen): State<Seen>) -> &'static str {
    seen.answers.0.acquire().await.unwrap().forget();
    "done"
}

/// Sends hello, and nothing more until the server stops.
async fn events(Extension(stopping): Extension<Stopping>) -> Response {
    let events = stream::unfold((0, stopping), |(step, stopping)| async move {
        match step {
            0 => Some((Ok::<_, Infallible>("hello"), (1, stopping))),
            1 => {
                stopping.begun().await;
                Some((Ok("bye"), (2, stopping)))
            }
            _ => None,
        }
    });
    Response::new(Body::from_stream(events))
}

/// A very long response.
async fn much() -> Response {
    let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
    Response::new(Body::from_stream(stream::repeat_with(move || Ok::<_, Infallible>(chunk.clone()))))
}

impl World {
    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) async fn connect(&self) -> Caller<TcpStream> {
        Caller::new(connect(self.address()).await)
    }

    /// Checks that a well-behaved caller is served.
    pub(crate) async fn answers(&self) {
        assert_eq!(self.connect().await.get("/ping").await, (200, "pong".to_owned()));
    }

    pub(crate) async fn connections(&self, wanted: usize) {
        until("the other connections are closed", async || self.server.connections() == wanted).await;
    }

    /// Checks that nothing panicked and memory is as before, and stops the server.
    pub(crate) async fn end(self) {
        let more = resident().saturating_sub(self.resident);
        assert!(more < RESIDENT_MORE_MAX, "{more} bytes more are resident");
        within("it stops", self.server.shutdown(Duration::from_secs(5))).await;
        assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    }
}

pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    within("it connects", TcpStream::connect(address)).await.unwrap()
}

/// A raw caller that sends given bytes.
pub(crate) struct Caller<S> {
    pub(crate) stream: S,
    read: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Caller<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    /// Sends bytes. Fails if the other side has closed the connection.
    pub(crate) async fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        let say = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        within("it is taken or the connection closed", say).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> (u16, String) {
        self.say(format!("GET {path} HTTP/1.1\r\nhost: tenure\r\n\r\n").as_bytes()).await.unwrap();
        self.answer().await.expect("an answer")
    }

    /// Status and body of an answer with a length, if one comes before the connection ends.
    pub(crate) async fn answer(&mut self) -> Option<(u16, String)> {
        loop {
            if let Some(answer) = self.take_answer() {
                return Some(answer);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    pub(crate) async fn hears(&mut self, text: &str) {
        while !self.read.windows(text.len()).any(|window| window == text.as_bytes()) {
            assert!(self.more().await, "the end before {text}: {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    /// Waits for the end of the connection and returns what came before it.
    pub(crate) async fn closed(mut self) -> Vec<u8> {
        while self.more().await {}
        self.read
    }

    pub(crate) async fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        while self.read.len() < bytes {
            if !self.more().await {
                return None;
            }
        }
        Some(self.read.drain(..bytes).collect())
    }

    async fn more(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let read = within("an answer or the end", self.stream.read(&mut bytes)).await;
        let read = read.unwrap_or(0);
        self.read.extend_from_slice(&bytes[..read]);
        read > 0
    }

    fn take_answer(&mut self) -> Option<(u16, String)> {
        let end = self.read.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&self.read[..end]).to_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        let body = self.read.get(end..end + length)?;
        let body = String::from_utf8_lossy(body).into_owned();
        self.read.drain(..end + length);
        Some((status, body))
    }
}

fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            usual(info);
        }));
    });
}

/// Resident memory of this process, including the callers.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
