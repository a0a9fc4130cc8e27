//! TLS towards callers, 1.2 and 1.3 with ring. The node shows a certificate. The caller shows none: it authenticates
//! with an API key.

use crate::net::certificates::{Kept, PemFiles, TlsError, certificates, private_key};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::version::{TLS12, TLS13};

/// The PEM files of certificate and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeFiles {
    /// This node's certificate, followed by the intermediate certificates up to an authority that callers trust.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The certificate in use. Clones share it.
#[derive(Clone, Debug)]
pub struct EdgeTls(Kept<EdgeFiles>);

impl EdgeTls {
    /// # Errors
    /// When a file cannot be read, or the key does not match the certificate.
    pub fn from_files(files: EdgeFiles) -> Result<Self, TlsError> {
        Kept::new(files).map(Self)
    }

    /// Reads the files again and returns whether they had changed. The next handshake uses the new content; open
    /// connections continue.
    ///
    /// # Errors
    /// When the files cannot be used, for example because only one of them has been replaced yet. The old content stays
    /// in use.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.0.reload()
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.0.current().into()
    }
}

impl PemFiles for EdgeFiles {
    type Built = ServerConfig;

    fn paths(&self) -> Vec<&Path> {
        vec![&self.certificate, &self.key]
    }

    fn build(&self, contents: &[Vec<u8>]) -> Result<ServerConfig, TlsError> {
        let [certificate, key] = contents else {
            return Err(TlsError::new("expected two files: a certificate and a key"));
        };
        let chain = certificates(certificate, &self.certificate)?;
        let key = private_key(key, &self.key)?;
        let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| TlsError::of(&self.certificate, &error))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| TlsError::of(&self.certificate, &error))?;
        // Sessions are never resumed: a session store would need a limit, and would help few of many callers.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(server)
    }
}
