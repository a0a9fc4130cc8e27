//! Mutual TLS between nodes: both sides show a certificate signed by the cluster's authority.
//!
//! It says how the certificates are used, and nothing of who may be which node: that is said in the hello. TLS 1.3
//! only, on ring. Sessions are never resumed: a connection lives long, and one made after a reload must have been
//! checked by the new certificates.

use crate::certificates::{Kept, PemFiles, TlsError, certificates, private_key};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Where the certificates are, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// This node's, and what stands between it and the authority's.
    pub certificate: PathBuf,
    /// Of this node's certificate.
    pub key: PathBuf,
    /// Whoever is signed by one of these is a peer.
    pub authority: PathBuf,
}

/// The certificates in use. Clones share them.
#[derive(Clone, Debug)]
pub struct PeerTls(Kept<TlsFiles>);

impl PeerTls {
    /// # Errors
    /// When a file cannot be read, or they do not fit together.
    pub fn from_files(files: TlsFiles) -> Result<Self, TlsError> {
        Kept::new(files).map(Self)
    }

    /// Reads the files again, and says whether they had changed. Connections made from now on use the new content;
    /// those that stand go on.
    ///
    /// # Errors
    /// When they cannot be used, as when only some of them have been replaced yet. What was in use stays so.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.0.reload()
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.0.current().server.clone().into()
    }

    pub(crate) fn connector(&self) -> TlsConnector {
        self.0.current().client.clone().into()
    }
}

/// The name that a peer's certificate must bear: the host of its address, by name or by number.
pub(crate) fn server_name(address: &str) -> Result<ServerName<'static>, TlsError> {
    let host = address.rsplit_once(':').map_or(address, |(host, _port)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned()).map_err(|error| TlsError::new(format!("{address}: {error}")))
}

#[derive(Debug)]
pub(crate) struct BothSides {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl PemFiles for TlsFiles {
    type Built = BothSides;

    fn paths(&self) -> Vec<&Path> {
        vec![&self.certificate, &self.key, &self.authority]
    }

    fn build(&self, contents: &[Vec<u8>]) -> Result<BothSides, TlsError> {
        let [certificate, key, authority] = contents else {
            return Err(TlsError::new("three files are expected"));
        };
        let chain = certificates(certificate, &self.certificate)?;
        let key = private_key(key, &self.key)?;
        let mut roots = RootCertStore::empty();
        for root in certificates(authority, &self.authority)? {
            roots.add(root).map_err(|error| TlsError::of(&self.authority, &error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());

        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| TlsError::of(&self.authority, &error))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| TlsError::of(&self.certificate, &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| TlsError::of(&self.certificate, &error))?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;

        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| TlsError::of(&self.certificate, &error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| TlsError::of(&self.certificate, &error))?;
        client.resumption = Resumption::disabled();

        Ok(BothSides { server: Arc::new(server), client: Arc::new(client) })
    }
}
