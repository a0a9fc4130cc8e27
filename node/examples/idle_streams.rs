//! What an idle event stream costs the server in memory: ten thousand of them over loopback, plain, in TLS, and as
//! streams of HTTP/2. Server and callers are processes of their own, so that only the server's memory is measured.
//!
//!     ./x bench idle_streams
//!     ./x bench idle_streams --streams=500    # does it run? Its figures mean little
//!
//! Each process needs a few more open files than there are streams.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use axum::body::{Body, Bytes};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use futures_util::stream;
use node::edge::server::{EdgeServer, ServerLimits};
use node::edge::stopping::Stopping;
use node::edge::tls::{EdgeFiles, EdgeTls};
use node::observe::metrics::Metrics;
use rcgen::CertifiedKey;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// What a stream may cost.
const WANTED: u64 = 32 * 1024;
const WITHIN: Duration = Duration::from_secs(240);
/// Sent on each stream before it idles, so that its buffers have been used.
const EVENTS: usize = 20;
const EVENT_BYTES: usize = 512;
const HTTP2_STREAMS: usize = 100;
/// About what an identity takes in a request's head.
const API_KEY_BYTES: usize = 1_024;
const CONNECTING_MAX: usize = 64;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", mode, streams] => serve(mode, streams.parse().expect("a number")).await,
        ["call", mode, address, streams, folder] => {
            let address = address.parse().expect("an address");
            call(mode, address, streams.parse().expect("a number"), Path::new(folder)).await;
        }
        _ => {
            let given = args.iter().find_map(|arg| arg.strip_prefix("--streams="));
            let streams = given.unwrap_or("10000");
            for mode in ["plain", "tls", "http2"] {
                let program = std::env::current_exe().expect("this program");
                // It ends by itself: see WITHIN.
                assert!(Command::new(program).args(["serve", mode, streams]).status().expect("it starts").success());
            }
        }
    }
}

async fn serve(mode: &str, streams: usize) {
    more_files();
    let folder = TempDir::new().expect("a folder");
    let tls = (mode == "tls").then(|| certificate(folder.path()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let router = Router::new().route("/stream", get(events));
    let server = EdgeServer::start(listener, tls, router, ServerLimits::default(), Metrics::new()).expect("it serves");
    // What is there once, as the first handshake's tables are, is not counted with the streams.
    let mut warm = caller(mode, server.address(), 1, folder.path()).await;
    warm.end();
    let before = resident();
    let mut caller = caller(mode, server.address(), streams, folder.path()).await;
    let each = resident().saturating_sub(before) / u64::try_from(streams).expect("few");
    let met = if each <= WANTED { "met" } else { "NOT met" };
    println!(
        "{mode}: {streams} streams on {} connections: {each} bytes each, wanted ≤ {WANTED}: {met}",
        server.connections()
    );
    caller.end();
    server.shutdown(Duration::from_secs(5)).await;
}

async fn events(Extension(stopping): Extension<Stopping>) -> Response {
    let event = Bytes::from(vec![b'x'; EVENT_BYTES]);
    let events = stream::unfold((0, stopping, event), |(sent, stopping, event)| async move {
        if sent == EVENTS {
            stopping.begun().await;
            return None;
        }
        Some((Ok::<_, Infallible>(event.clone()), (sent + 1, stopping, event)))
    });
    Response::new(Body::from_stream(events))
}

fn certificate(folder: &Path) -> EdgeTls {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let files = EdgeFiles { certificate: folder.join("edge.pem"), key: folder.join("edge.key") };
    std::fs::write(&files.certificate, cert.pem()).expect("written");
    std::fs::write(&files.key, signing_key.serialize_pem()).expect("written");
    EdgeTls::from_files(files).expect("they fit")
}

/// A process that holds streams open until it is told.
struct Calling(Child);

async fn caller(mode: &str, address: SocketAddr, streams: usize, folder: &Path) -> Calling {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(["call", mode, &address.to_string(), &streams.to_string()])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let said = spawn_blocking(move || {
        let mut said = String::new();
        lines.read_line(&mut said).map(|_| said)
    });
    let said = said.await.expect("it runs").expect("text");
    assert_eq!(said.trim(), "open");
    Calling(child)
}

impl Calling {
    fn end(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("it ends");
    }
}

async fn call(mode: &str, address: SocketAddr, streams: usize, folder: &Path) {
    more_files();
    let connector = (mode == "tls").then(|| connector(folder));
    let turns = Arc::new(Semaphore::new(CONNECTING_MAX));
    let mut opening: JoinSet<Box<dyn Held>> = JoinSet::new();
    let per_connection = if mode == "http2" { HTTP2_STREAMS.min(streams) } else { 1 };
    for _ in 0..streams / per_connection {
        let (connector, turns, is_http2) = (connector.clone(), turns.clone(), mode == "http2");
        opening.spawn(async move {
            let _turn = turns.acquire().await.expect("never closed");
            let mut stream = TcpStream::connect(address).await.expect("it connects");
            if is_http2 {
                ask_http2(&mut stream, per_connection).await;
                return Box::new(stream) as Box<dyn Held>;
            }
            let Some(connector) = connector else {
                ask(&mut stream).await;
                return Box::new(stream);
            };
            let name = ServerName::try_from("localhost").expect("a name");
            let mut stream = connector.connect(name, stream).await.expect("a handshake");
            ask(&mut stream).await;
            Box::new(stream)
        });
    }
    let held = timeout(WITHIN, opening.join_all()).await.expect("all are served");
    println!("open");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("until the end");
    drop(held);
}

trait Held: Send {}
impl<T: Send> Held for T {}

async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let api_key = "t".repeat(API_KEY_BYTES);
    let request = format!("GET /stream HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {api_key}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("taken");
    read_events(stream, EVENTS).await;
}

/// All of them go to one path, by the shortest heads that HPACK has, with a literal API key.
async fn ask_http2(stream: &mut TcpStream, streams: usize) {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let mut frame = u32::try_from(payload.len()).expect("short").to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    };
    let mut head = vec![0x82, 0x86, 0x41, 9];
    head.extend(b"localhost");
    head.extend([0x04, 7]);
    head.extend(b"/stream");
    // 1,024 = 127 + 897, in groups of seven bits.
    head.extend([0x0f, 0x08, 0x7f, 0x81, 0x07]);
    head.extend([b't'; API_KEY_BYTES]);
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("taken");
    stream.write_all(&frame(4, 0, 0, &[])).await.expect("taken");
    // The window of a connection is smaller than what all its streams say.
    stream.write_all(&frame(8, 0, 0, &(16_u32 << 20).to_be_bytes())).await.expect("taken");
    for n in 0..u32::try_from(streams).expect("few") {
        stream.write_all(&frame(1, 5, 2 * n + 1, &head)).await.expect("taken");
    }
    read_events(stream, EVENTS * streams).await;
}

/// Counts letters of events, which stand nowhere else that often.
async fn read_events(stream: &mut (impl AsyncRead + Unpin), events: usize) {
    let mut bytes = [0; 4096];
    let mut seen = 0;
    while seen < events * EVENT_BYTES {
        let read = stream.read(&mut bytes).await.expect("an answer");
        assert!(read > 0, "the end came first");
        seen += bytes[..read].iter().filter(|byte| **byte == b'x').count();
    }
}

fn connector(folder: &Path) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("edge.pem")).expect("a certificate")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("it is there")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

fn more_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("up to the maximum");
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
