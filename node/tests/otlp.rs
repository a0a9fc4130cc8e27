//! Spans as a collector receives them.

use node::observe::otlp::{Endpoint, Exporter};
use node::observe::trace::{TraceContext, request_span};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc;
use test_support::LIMIT;
use tracing_subscriber::layer::SubscriberExt as _;

/// A request of the exporter.
struct Received {
    head: String,
    body: Vec<u8>,
}

impl Received {
    fn has(&self, wanted: &[u8]) -> bool {
        self.body.windows(wanted.len()).any(|found| found == wanted)
    }
}

/// A collector that answers every request with this status and passes the request on.
fn collector(status: &'static str) -> (Endpoint, mpsc::Receiver<Received>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let endpoint = Endpoint::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(request) = answer(connection.unwrap(), status) else { continue };
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (endpoint, received)
}

fn answer(mut connection: TcpStream, status: &str) -> std::io::Result<Received> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let end = loop {
        let read = connection.read(&mut piece)?;
        bytes.extend_from_slice(&piece[..read]);
        if let Some(end) = bytes.windows(4).position(|found| found == b"\r\n\r\n") {
            break end + 4;
        }
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = bytes[end..].to_vec();
    while body.len() < length {
        let read = connection.read(&mut piece)?;
        assert_ne!(read, 0);
        body.extend_from_slice(&piece[..read]);
    }
    write!(connection, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")?;
    Ok(Received { head, body })
}

#[test]
fn a_span_reaches_the_collector_in_the_callers_trace() {
    let (endpoint, received) = collector("200 OK");
    let exporter = Exporter::start(&endpoint, 7).unwrap();
    let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    tracing::subscriber::with_default(tracing_subscriber::registry().with(exporter.layer()), || {
        let context = TraceContext::of(Some(header));
        let span = request_span(&context, "request-7", Some("claim"));
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        span.in_scope(|| drop(tracing::info_span!("below", left = 3)));
    });
    exporter.stop();
    let request = received.recv_timeout(LIMIT).unwrap();
    assert!(request.head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{}", request.head);
    assert!(request.head.contains("content-type: application/x-protobuf\r\n"), "{}", request.head);
    for text in ["request", "request-7", "claim", "outcome", "ok", "below", "left", "tenured", "service.instance.id"] {
        assert!(request.has(text.as_bytes()), "{text}");
    }
    assert!(request.has(&0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes()), "the caller's trace");
    assert!(request.has(&0xb7ad_6b71_6920_3331_u64.to_be_bytes()), "below the caller's span");
}

#[test]
fn spans_without_a_trace_or_of_unsampled_traces_are_not_exported() {
    let (endpoint, received) = collector("200 OK");
    let exporter = Exporter::start(&endpoint, 7).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(exporter.layer()), || {
        drop(tracing::info_span!("of nobody"));
        let not_kept = TraceContext::of(Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"));
        drop(request_span(&not_kept, "not kept", None));
        drop(request_span(&TraceContext::begin(), "kept", None));
    });
    exporter.stop();
    let request = received.recv_timeout(LIMIT).unwrap();
    assert!(request.has(b"kept") && !request.has(b"not kept") && !request.has(b"of nobody"));
}

#[test]
fn a_new_trace_has_the_same_id_in_the_log_and_at_the_collector() {
    let (endpoint, received) = collector("200 OK");
    let exporter = Exporter::start(&endpoint, 7).unwrap();
    let mut trace = String::new();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(exporter.layer()), || {
        let context = TraceContext::begin();
        let _span = request_span(&context, "request-8", None);
        trace = context.trace_id().to_string();
    });
    exporter.stop();
    let request = received.recv_timeout(LIMIT).unwrap();
    assert!(request.has(&u128::from_str_radix(&trace, 16).unwrap().to_be_bytes()));
}

#[test]
fn an_unavailable_collector_blocks_nothing_for_ever() {
    let nobody = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Endpoint::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap()
    };
    let (refuses, received) = collector("503 Service Unavailable");
    for endpoint in [nobody, refuses] {
        let exporter = Exporter::start(&endpoint, 7).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(exporter.layer()), || {
            // Many more than may wait.
            for _ in 0..20_000 {
                drop(request_span(&TraceContext::begin(), "request", None));
            }
        });
        exporter.stop();
    }
    assert!(received.recv_timeout(LIMIT).is_ok(), "it was tried");
}
