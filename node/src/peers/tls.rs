//! Mutual TLS between nodes: both sides present a certificate signed by the cluster's authority.
//!
//! This module configures TLS; which peer may be which node is stated in the hello and checked by the membership
//! ([`crate::peers::roster`]). TLS 1.3 only, on ring. Sessions are never resumed: connections live long, and one made
//! after a reload must be checked with the new certificates.

use crate::net::certificates::{Kept, PemFiles, TlsError, certificates, private_key};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The paths of the certificates, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// This node's certificate, and the intermediate ones up to the authority's.
    pub certificate: PathBuf,
    /// The private key of this node's certificate.
    pub key: PathBuf,
    /// The authorities: a certificate must be signed by one of them, and the membership must list its node.
    pub authority: PathBuf,
    /// Revocation lists, one for each authority that signed a node's certificate.
    pub revoked: Option<PathBuf>,
}

/// The certificates in use. Clones share them.
#[derive(Clone, Debug)]
pub struct PeerTls(Kept<TlsFiles>);

impl PeerTls {
    /// # Errors
    /// When a file cannot be read, or the files do not match each other.
    pub fn from_files(files: TlsFiles) -> Result<Self, TlsError> {
        Kept::new(files).map(Self)
    }

    /// Reads the files again, and returns whether they had changed. New connections use the new content; open ones
    /// remain.
    ///
    /// # Errors
    /// When they cannot be used, for example when only some of them have been replaced yet. The previous ones stay in
    /// use.
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

/// The name that a peer's certificate must contain: the host of its address, a name or an IP address.
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
        [&self.certificate, &self.key, &self.authority].into_iter().chain(&self.revoked).map(PathBuf::as_path).collect()
    }

    fn build(&self, contents: &[Vec<u8>]) -> Result<BothSides, TlsError> {
        let [certificate, key, authority, revoked @ ..] = contents else {
            return Err(TlsError::new("three files or four are expected"));
        };
        let chain = certificates(certificate, &self.certificate)?;
        let key = private_key(key, &self.key)?;
        let mut roots = RootCertStore::empty();
        for root in certificates(authority, &self.authority)? {
            roots.add(root).map_err(|error| TlsError::of(&self.authority, &error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());

        let revoked = self.revoked.as_deref().zip(revoked.first());
        let verifier = match revoked {
            None => WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()),
            Some((path, contents)) => {
                let lists = revocation_lists(contents, path)?;
                check_lists(&lists, path, &roots, &provider, &chain)?;
                WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).with_crls(lists)
            }
        };
        let verifier = verifier.build().map_err(|error| TlsError::of(&self.authority, &error))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| TlsError::of(&self.certificate, &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| TlsError::of(&self.certificate, &error))?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;

        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
        let servers = match revoked {
            None => servers,
            Some((path, contents)) => servers.with_crls(revocation_lists(contents, path)?),
        };
        let servers = servers.build().map_err(|error| TlsError::of(&self.authority, &error))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| TlsError::of(&self.certificate, &error))?
            .with_webpki_verifier(servers)
            .with_client_auth_cert(chain, key)
            .map_err(|error| TlsError::of(&self.certificate, &error))?;
        client.resumption = Resumption::disabled();

        Ok(BothSides { server: Arc::new(server), client: Arc::new(client) })
    }
}

/// Parses the revocation lists of a PEM file; there must be at least one.
fn revocation_lists(bytes: &[u8], path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    match CertificateRevocationListDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>() {
        Ok(found) if found.is_empty() => Err(TlsError::of(path, &"contains no revocation list")),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::of(path, &error)),
    }
}

/// Checks this node's own certificate against the lists, to reject lists that have expired or are from other
/// authorities when they are read. A list that expires later remains in use: a late update must not stop the cluster.
fn check_lists(
    lists: &[CertificateRevocationListDer<'static>],
    path: &Path,
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
    chain: &[CertificateDer<'static>],
) -> Result<(), TlsError> {
    let Some((own, between)) = chain.split_first() else { return Ok(()) };
    let builder = || WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let of_file = |error: &dyn fmt::Display| TlsError::of(path, error);
    let without = builder().build().map_err(|error| of_file(&error))?;
    let with = builder().with_crls(lists.to_vec()).enforce_revocation_expiration().build();
    let with = with.map_err(|error| of_file(&error))?;
    if without.verify_client_cert(own, between, UnixTime::now()).is_err() {
        // Other problems of this certificate are reported by the peers.
        return Ok(());
    }
    let Err(error) = with.verify_client_cert(own, between, UnixTime::now()) else { return Ok(()) };
    Err(of_file(&match &error {
        Error::InvalidCertificate(CertificateError::Revoked) => "it revokes this node's own certificate".to_owned(),
        Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => {
            "contains no list of the authority that signed this node's certificate: add one of each authority".into()
        }
        Error::InvalidCertificate(
            CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. },
        ) => "contains an expired list: get a new one from its authority".into(),
        error => error.to_string(),
    }))
}
