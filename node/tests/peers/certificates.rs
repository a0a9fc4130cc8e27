//! An authority, and the files of those it signs.

use node::peers::tls::{PeerTls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use std::fs;
use tempfile::TempDir;

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

pub(crate) struct Files(TempDir);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// A certificate of its, for this host.
    pub(crate) fn files(&self, host: &str) -> Files {
        let files = Files(TempDir::new().unwrap());
        files.replace_by(self, host);
        files
    }

    pub(crate) fn tls(&self, host: &str) -> PeerTls {
        PeerTls::from_files(self.files(host).paths()).unwrap()
    }

    /// Its certificate, but another authority's to check others by.
    pub(crate) fn tls_that_trusts(&self, other: &Self, host: &str) -> PeerTls {
        let files = self.files(host);
        fs::write(files.paths().authority, other.certificate()).unwrap();
        PeerTls::from_files(files.paths()).unwrap()
    }
}

impl Files {
    pub(crate) fn paths(&self) -> TlsFiles {
        let path = |name| self.0.path().join(name);
        TlsFiles { certificate: path("node.pem"), key: path("node.key"), authority: path("ca.pem") }
    }

    pub(crate) fn replace_by(&self, authority: &Authority, host: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority.0).unwrap();
        let paths = self.paths();
        fs::write(paths.certificate, certificate.pem()).unwrap();
        fs::write(paths.key, key.serialize_pem()).unwrap();
        fs::write(paths.authority, authority.certificate()).unwrap();
    }

    /// As half-way through a replacement.
    pub(crate) fn replace_key(&self) {
        fs::write(self.paths().key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    }
}
