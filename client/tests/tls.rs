//! TLS: a node is trusted by its certificate, and nothing is sent to an untrusted node.

use client::api::words::ActorKind;
use client::names::ActorId;
use client::{CallerIdentity, Client, Config, Error, Health};
use rcgen::CertifiedKey;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Serves healthy answers and counts the requests.
async fn serve(key: &CertifiedKey<rcgen::KeyPair>) -> (u16, Arc<AtomicUsize>) {
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![key.cert.der().clone()], private).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            count.fetch_add(1, Ordering::SeqCst);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{\"ok\":true}";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    (port, asked)
}

fn client(port: u16, extra_ca: Option<PathBuf>) -> Result<Client, Error> {
    let identity =
        CallerIdentity::SelfReported { actor: ActorId::new("ada").unwrap(), kind: ActorKind::User, parent: None };
    let mut config = Config::new([format!("https://localhost:{port}")], identity);
    config.extra_ca = extra_ca;
    config.within = Duration::from_millis(500);
    Client::new(config)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_untrusted_certificates_are_not_asked() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (port, asked) = serve(&key).await;
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("ca.pem");
    std::fs::write(&trusted, key.cert.pem()).unwrap();
    let known = client(port, Some(trusted)).unwrap();
    assert_eq!(known.node(known.endpoints()[0].clone()).health().await, Ok(Health::Fine));

    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let wrong = folder.path().join("other.pem");
    std::fs::write(&wrong, other.cert.pem()).unwrap();
    let stranger = client(port, Some(wrong)).unwrap();
    let refused = stranger.node(stranger.endpoints()[0].clone()).health().await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(matches!(client(port, Some(folder.path().join("nothing.pem"))), Err(Error::Invalid(_))));
}
