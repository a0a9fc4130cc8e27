//! Mutual TLS between nodes: both sides show a certificate signed by the cluster's authority.
//!
//! It owns the files' content and nothing else: who may be which node is said in the hello. TLS 1.3 only, on ring.
//! Sessions are never resumed: a connection lives long, and one made after a reload must have been checked by the
//! new certificates.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
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

/// Why there is no TLS: which file, and what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// The certificates in use. Clones share them.
#[derive(Clone, Debug)]
pub struct PeerTls {
    files: Arc<TlsFiles>,
    current: Arc<RwLock<Arc<Loaded>>>,
}

impl PeerTls {
    /// # Errors
    /// When a file cannot be read, or they do not fit together.
    pub fn from_files(files: TlsFiles) -> Result<Self, TlsError> {
        let loaded = Loaded::new(Pem::read(&files)?, &files)?;
        Ok(Self { files: Arc::new(files), current: Arc::new(RwLock::new(Arc::new(loaded))) })
    }

    /// Reads the files again, and says whether they had changed. Connections made from now on use the new content;
    /// those that stand go on.
    ///
    /// # Errors
    /// When they cannot be used, as when only some of them have been replaced yet. What was in use stays so.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let pem = Pem::read(&self.files)?;
        if pem == self.current().pem {
            return Ok(false);
        }
        let loaded = Arc::new(Loaded::new(pem, &self.files)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(true)
    }

    /// Where they are read from.
    #[must_use]
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.current().server.clone().into()
    }

    pub(crate) fn connector(&self) -> TlsConnector {
        self.current().client.clone().into()
    }

    fn current(&self) -> Arc<Loaded> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The name that a peer's certificate must bear: the host of its address, by name or by number.
pub(crate) fn server_name(address: &str) -> Result<ServerName<'static>, TlsError> {
    let host = address.rsplit_once(':').map_or(address, |(host, _port)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned()).map_err(|error| TlsError(format!("{address}: {error}")))
}

#[derive(Debug)]
struct Loaded {
    pem: Pem,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

#[derive(PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Vec<u8>,
}

/// A key must not end up in a log.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pem")
    }
}

impl Pem {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let read = |path: &Path| fs::read(path).map_err(|error| TlsError(format!("{}: {error}", path.display())));
        Ok(Self { certificate: read(&files.certificate)?, key: read(&files.key)?, authority: read(&files.authority)? })
    }
}

impl Loaded {
    fn new(pem: Pem, files: &TlsFiles) -> Result<Self, TlsError> {
        let of = |path: &Path, error: &dyn fmt::Display| TlsError(format!("{}: {error}", path.display()));
        let certificates = |bytes: &[u8], path: &Path| {
            let found = CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>();
            match found {
                Ok(found) if found.is_empty() => Err(of(path, &"no certificate in it")),
                Ok(found) => Ok(found),
                Err(error) => Err(of(path, &error)),
            }
        };
        let chain = certificates(&pem.certificate, &files.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|error| of(&files.key, &error))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&pem.authority, &files.authority)? {
            roots.add(root).map_err(|error| of(&files.authority, &error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());

        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| of(&files.authority, &error))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| of(&files.certificate, &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| of(&files.certificate, &error))?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;

        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| of(&files.certificate, &error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| of(&files.certificate, &error))?;
        client.resumption = Resumption::disabled();

        Ok(Self { pem, server: Arc::new(server), client: Arc::new(client) })
    }
}
