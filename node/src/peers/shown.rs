//! The certificate that a peer presented, if there is TLS.
//!
//! The TLS handshake checks the certificate chain. This module checks only the host that the certificate is for.

use super::tls::server_name;
use raft_store::codec::records::Blob;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::ParsedCertificate;

/// What a peer presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// There is no TLS between the nodes: peers cannot be told apart.
    Nothing,
    /// A certificate signed by the authority, for both sides of a connection.
    Certificate(CertificateDer<'static>),
}

impl Shown {
    /// Whether it is valid for the host of this address. Without TLS always true.
    #[must_use]
    pub fn is_for(&self, address: &str) -> bool {
        let Self::Certificate(certificate) = self else { return true };
        let Ok(name) = server_name(address) else { return false };
        ParsedCertificate::try_from(certificate).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    }

    /// Encodes it for another node, which trusts this one.
    pub(crate) fn to_blob(&self) -> Option<Blob> {
        match self {
            Self::Nothing => None,
            Self::Certificate(certificate) => Some(Blob(certificate.as_ref().into())),
        }
    }

    pub(crate) fn from_blob(blob: Option<&Blob>) -> Self {
        blob.map_or(Self::Nothing, |blob| Self::Certificate(CertificateDer::from(blob.0.to_vec())))
    }
}
