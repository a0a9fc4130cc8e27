//! The peer port: more silent connections than it accepts, and a caller with a certificate of the CA that sends nothing
//! a node would send.

use super::http1::connect;
use super::silence::end;
use super::{AGAIN, Target, Tasks, pace};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// As many as a node accepts at a time.
const SILENT: usize = 640;
/// Connections per second with a certificate.
const CERTIFIED: f64 = 10.0;
const GARBAGE: usize = 4_096;
/// A node closes a connection without a hello within 5 s.
const CLOSED_WITHIN: Duration = Duration::from_secs(20);

pub(super) fn start(target: &Target, tasks: &mut Tasks) -> io::Result<()> {
    for nth in 0..SILENT {
        let target = target.clone();
        tasks.spawn(async move {
            sleep(Duration::from_millis(2) * u32::try_from(nth).unwrap_or(0)).await;
            loop {
                match connect(target.plan.peer).await {
                    Ok(stream) => {
                        target.counts.asked(0);
                        end(stream, &target).await;
                    }
                    Err(_) => target.counts.heard("not connected"),
                }
                sleep(AGAIN).await;
            }
        });
    }
    let (tls, target) = (connector(target)?, target.clone());
    tasks.spawn(async move {
        let mut pace = pace(CERTIFIED);
        let mut talking = Tasks::new();
        for nth in 0_usize.. {
            pace.tick().await;
            while talking.try_join_next().is_some() {}
            let (tls, target) = (tls.clone(), target.clone());
            talking.spawn(async move {
                let heard = match timeout(CLOSED_WITHIN, talk(&tls, &target, nth % 2 == 0)).await {
                    Ok(Ok(0)) => "with a certificate: closed",
                    Ok(Ok(_)) => "with a certificate: answered",
                    Ok(Err(_)) => "with a certificate: rejected",
                    Err(_) => "with a certificate: not closed",
                };
                target.counts.heard(heard);
            });
        }
    });
    Ok(())
}

/// The number of bytes that came back.
async fn talk(tls: &TlsConnector, target: &Target, says_something: bool) -> io::Result<usize> {
    let stream = connect(target.plan.peer).await?;
    let name = ServerName::from(target.plan.peer.ip());
    let mut stream: TlsStream<TcpStream> = tls.connect(name, stream).await?;
    target.counts.asked(if says_something { GARBAGE } else { 0 });
    if says_something {
        stream.write_all(&[b'T'; GARBAGE]).await?;
        stream.flush().await?;
    }
    stream.read(&mut [0; 512]).await
}

fn connector(target: &Target) -> io::Result<TlsConnector> {
    let plan = &target.plan;
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(&plan.authority).map_err(io::Error::other)? {
        roots.add(root.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&plan.certificate).map_err(io::Error::other)?.collect();
    let key = PrivateKeyDer::from_pem_file(&plan.key).map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain.map_err(io::Error::other)?, key)
        .map_err(io::Error::other)?;
    Ok(Arc::new(config).into())
}
