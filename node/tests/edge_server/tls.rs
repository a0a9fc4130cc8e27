//! TLS towards callers, and replaced certificates.

use crate::http2::{begin, ping};
use crate::world::{Caller, World, connect, short, start_with};
use node::edge::body::BodyLimits;
use node::edge::server::ServerLimits;
use node::edge::tls::{EdgeFiles, EdgeTls};
use rcgen::KeyPair;
use std::fs;
use std::io;
use std::sync::Arc;
use tempfile::TempDir;
use test_support::authority::Authority;
use test_support::within;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};

/// Signs a certificate for the server of this folder.
fn sign(authority: &Authority, folder: &TempDir) {
    let (signed, files) = (authority.sign(&["localhost"]), files(folder));
    fs::write(files.certificate, signed.certificate).unwrap();
    fs::write(files.key, signed.key).unwrap();
}

/// Connects as a caller that trusts this authority.
async fn trusting(authority: &Authority, world: &World) -> io::Result<Caller<TlsStream<TcpStream>>> {
    trusting_with(authority, world, &TLS13, &[]).await
}

async fn trusting_with(
    authority: &Authority,
    world: &World,
    version: &'static SupportedProtocolVersion,
    protocols: &[&str],
) -> io::Result<Caller<TlsStream<TcpStream>>> {
    let mut config = authority.client_config(&[version]);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = connect(world.address()).await;
    let name = ServerName::try_from("localhost").unwrap();
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    within("a handshake", handshake).await.map(Caller::new)
}

fn files(folder: &TempDir) -> EdgeFiles {
    EdgeFiles { certificate: folder.path().join("edge.pem"), key: folder.path().join("edge.key") }
}

async fn start(limits: ServerLimits) -> (World, Authority, EdgeTls, TempDir) {
    let (authority, folder) = (Authority::new(), TempDir::new().unwrap());
    sign(&authority, &folder);
    let tls = EdgeTls::from_files(files(&folder)).unwrap();
    let world = start_with(limits, BodyLimits::default(), Some(tls.clone())).await;
    (world, authority, tls, folder)
}

#[tokio::test]
async fn both_versions_of_tls_and_both_of_http_are_served() {
    let (world, authority, ..) = start(ServerLimits::default()).await;
    for version in [&TLS12, &TLS13] {
        let mut caller = trusting_with(&authority, &world, version, &["http/1.1"]).await.unwrap();
        assert_eq!(caller.stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let (status, who) = caller.get("/who").await;
        assert!(status == 200 && who.ends_with("true true true"), "{who}");

        let mut caller = trusting_with(&authority, &world, version, &["h2", "http/1.1"]).await.unwrap();
        assert_eq!(caller.stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        begin(&mut caller).await;
        assert_eq!(ping(&mut caller, 1).await, b"pong");
    }
    world.end().await;
}

#[tokio::test]
async fn connections_without_tls_to_a_tls_port_are_closed() {
    let (world, authority, ..) = start(short()).await;
    let noise: Vec<u8> = (0..64 * 1024_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    // The last one is the beginning of a hello that never continues.
    let garbage: [&[u8]; 4] =
        [&noise, b"GET /ping HTTP/1.1\r\n\r\n", b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"];
    for bytes in garbage {
        let mut caller = world.connect().await;
        let _ = caller.say(bytes).await;
        let answer = caller.closed().await;
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
        assert_eq!(trusting(&authority, &world).await.unwrap().get("/ping").await.0, 200);
    }
    world.connections(0).await;
    world.end().await;
}

#[tokio::test]
async fn a_replaced_certificate_is_used_by_the_next_handshake_and_drops_nobody() {
    let (world, old, tls, folder) = start(ServerLimits::default()).await;
    let mut standing = trusting(&old, &world).await.unwrap();
    assert_eq!(standing.get("/ping").await.0, 200);
    assert_eq!(tls.reload(), Ok(false));

    let new = Authority::new();
    sign(&new, &folder);
    assert_eq!(tls.reload(), Ok(true));
    assert_eq!(trusting(&new, &world).await.unwrap().get("/ping").await.0, 200);
    assert!(trusting(&old, &world).await.is_err(), "it is signed by another");
    assert_eq!(standing.get("/ping").await.0, 200);
    world.end().await;
}

#[tokio::test]
async fn a_bad_replacement_leaves_the_old_certificate_in_use() {
    let (world, authority, tls, folder) = start(ServerLimits::default()).await;
    let files = files(&folder);
    let good = fs::read(&files.key).unwrap();
    let other = KeyPair::generate().unwrap().serialize_pem().into_bytes();
    for bad in [other, b"no key".to_vec(), Vec::new()] {
        fs::write(&files.key, bad).unwrap();
        assert!(tls.reload().is_err());
        assert_eq!(trusting(&authority, &world).await.unwrap().get("/ping").await.0, 200);
    }
    fs::remove_file(&files.key).unwrap();
    assert!(tls.reload().is_err());
    fs::write(&files.key, good).unwrap();
    assert_eq!(tls.reload(), Ok(false));
    world.end().await;
}
