//! A node that serves callers with TLS: its certificate is replaced while it runs, and failed handshakes are counted.

use crate::metrics::value;
use crate::people::{api_key, person, write_api_keys};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use test_support::authority::Authority;
use test_support::world::World;
use test_support::{until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::TLS13;

/// Signs a certificate for the node that reads these files.
fn sign(authority: &Authority, folder: &Path) {
    let signed = authority.sign(&["localhost"]);
    // One after the other: a node that reads between the two keeps using the old files.
    fs::write(folder.join("edge.key"), signed.key).unwrap();
    fs::write(folder.join("edge.pem"), signed.certificate).unwrap();
}

/// Connects as a caller that trusts this authority.
async fn trusting(authority: &Authority, address: &str) -> Option<TlsStream<TcpStream>> {
    let config = authority.client_config(&[&TLS13]);
    let stream = TcpStream::connect(address).await.ok()?;
    let name = ServerName::try_from("localhost").unwrap();
    within("a handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await.ok()
}

/// The response, if there is one; the connection stays open.
async fn get(stream: &mut TlsStream<TcpStream>, path: &str) -> String {
    let ask = format!("GET {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {}\r\n\r\n", api_key("ada"));
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = within("an answer", stream.read(&mut bytes)).await.unwrap();
        assert!(count > 0, "closed after {answer}");
        answer += &String::from_utf8_lossy(&bytes[..count]);
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            return answer;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_replaced_without_a_restart_and_failed_handshakes_are_counted() {
    let mut world = World::empty();
    write_api_keys(&world, &[person("ada", "default", &["worker", "operator", "metrics"])]);
    let old = Authority::new();
    sign(&old, world.folder());
    let file = |name: &str| world.folder().join(name).display().to_string();
    world.options =
        ["--api-keys", &file("api-keys.toml"), "--tls-cert", &file("edge.pem"), "--tls-key", &file("edge.key")]
            .map(String::from)
            .to_vec();
    world.serves = true;
    world.start(1);
    world.leader().await;
    let address = world.edge_address(1);
    let mut standing = None;
    until("it serves", async || {
        standing = trusting(&old, &address).await;
        standing.is_some()
    })
    .await;
    let mut standing = standing.unwrap();
    assert!(get(&mut standing, "/v1/items").await.starts_with("HTTP/1.1 200 "));

    let new = Authority::new();
    assert!(trusting(&new, &address).await.is_none(), "it is signed by another");
    sign(&new, world.folder());
    until("the new one is shown", async || trusting(&new, &address).await.is_some()).await;
    assert!(trusting(&old, &address).await.is_none());
    assert!(get(&mut standing, "/v1/items").await.starts_with("HTTP/1.1 200 "), "who was connected stays so");
    // Bytes that are not a handshake count as well.
    let mut plain = TcpStream::connect(&address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    until("they are counted", async || {
        let text = get(&mut standing, "/metrics").await;
        value(&text, "tenure_tls_handshake_failures_total") >= 3.0
    })
    .await;
}
