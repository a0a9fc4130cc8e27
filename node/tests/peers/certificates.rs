//! A certificate authority, and the files of certificates that it signs.

use node::peers::tls::{PeerTls, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Serial numbers of certificates, and of authorities by name.
static SERIAL: AtomicU64 = AtomicU64::new(1);

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

pub(crate) struct Files {
    folder: TempDir,
    serial: u64,
    has_list: bool,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let name = format!("authority {}", SERIAL.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// A certificate of this authority for this host.
    pub(crate) fn files(&self, host: &str) -> Files {
        self.files_for(&[host])
    }

    pub(crate) fn files_for(&self, hosts: &[&str]) -> Files {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let files = Files { folder: TempDir::new().unwrap(), serial, has_list: false };
        files.write(self, hosts);
        files
    }

    pub(crate) fn tls(&self, host: &str) -> PeerTls {
        PeerTls::from_files(self.files(host).paths()).unwrap()
    }

    /// Its own certificate, but another authority to check peers.
    pub(crate) fn tls_that_trusts(&self, other: &Self, host: &str) -> PeerTls {
        let files = self.files(host);
        fs::write(files.paths().authority, other.certificate()).unwrap();
        PeerTls::from_files(files.paths()).unwrap()
    }

    /// Writes its list of revoked certificates, which is to be renewed before the end of that year.
    pub(crate) fn revoke(&self, revoked: &[&Files], until: i32, list: &Path) {
        let revoked = revoked.iter().map(|files| RevokedCertParams {
            serial_number: SerialNumber::from(files.serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(until, 12, 31),
            crl_number: SerialNumber::from(SERIAL.fetch_add(1, Ordering::Relaxed)),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        fs::write(list, params.signed_by(&self.0).unwrap().pem().unwrap()).unwrap();
    }
}

impl Files {
    pub(crate) fn paths(&self) -> TlsFiles {
        let path = |name| self.folder.path().join(name);
        TlsFiles {
            certificate: path("node.pem"),
            key: path("node.key"),
            authority: path("ca.pem"),
            revoked: self.has_list.then(|| path("revoked.pem")),
        }
    }

    /// Adds a revocation list.
    pub(crate) fn with_list(mut self, authority: &Authority, revoked: &[&Self], until: i32) -> Self {
        self.has_list = true;
        authority.revoke(revoked, until, &self.paths().revoked.unwrap());
        self
    }

    /// The options of a node that uses them.
    pub(crate) fn options(&self) -> Vec<String> {
        let TlsFiles { certificate, key, authority, revoked } = self.paths();
        let given = [("--peer-ca", authority), ("--peer-cert", certificate), ("--peer-key", key)];
        let given = given.into_iter().chain(revoked.map(|list| ("--peer-crl", list)));
        given.flat_map(|(option, path)| [option.to_owned(), path.display().to_string()]).collect()
    }

    pub(crate) fn replace_by(&self, authority: &Authority, host: &str) {
        self.write(authority, &[host]);
    }

    fn write(&self, authority: &Authority, hosts: &[&str]) {
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
        params.serial_number = Some(SerialNumber::from(self.serial));
        let certificate = params.signed_by(&key, &authority.0).unwrap();
        let paths = self.paths();
        fs::write(paths.certificate, certificate.pem()).unwrap();
        fs::write(paths.key, key.serialize_pem()).unwrap();
        fs::write(paths.authority, authority.certificate()).unwrap();
    }

    /// The files as they are in the middle of a replacement.
    pub(crate) fn replace_key(&self) {
        fs::write(self.paths().key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    }
}
