//! A certificate authority, and the files of certificates that it signs.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// Serial numbers of certificates, and of authorities by name.
static SERIAL: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its private key, in PEM.
#[derive(Debug)]
pub struct Signed {
    pub certificate: String,
    pub key: String,
}

/// The files of a node: its certificate, its key, the authority that it trusts, and maybe a revocation list.
#[derive(Debug)]
pub struct Files {
    folder: TempDir,
    serial: u64,
    has_list: bool,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // Without this name it would have the name of the certificates that it signs, and curl would take those for
        // self-signed.
        let name = format!("authority {}", SERIAL.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate, in PEM.
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// The TLS settings of a caller that trusts this authority and has no certificate.
    pub fn client_config(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// Signs a certificate for these hosts.
    pub fn sign(&self, hosts: &[impl AsRef<str>]) -> Signed {
        self.sign_as(SERIAL.fetch_add(1, Ordering::Relaxed), hosts)
    }

    fn sign_as(&self, serial: u64, hosts: &[impl AsRef<str>]) -> Signed {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(|host| host.as_ref().to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A certificate of this authority for this host.
    pub fn files(&self, host: &str) -> Files {
        self.files_for(&[host])
    }

    pub fn files_for(&self, hosts: &[impl AsRef<str>]) -> Files {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let files = Files { folder: TempDir::new().unwrap(), serial, has_list: false };
        files.write(self, hosts);
        files
    }

    /// Writes its list of revoked certificates, which is to be renewed before the end of that year.
    pub fn revoke(&self, revoked: &[&Files], until: i32, list: &Path) {
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
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("node.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.folder.path().join("node.key")
    }

    /// The certificates of the authorities that the node trusts.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The revocation list, if there is one.
    pub fn revoked(&self) -> Option<PathBuf> {
        self.has_list.then(|| self.folder.path().join("revoked.pem"))
    }

    /// Adds a revocation list.
    pub fn with_list(mut self, authority: &Authority, revoked: &[&Self], until: i32) -> Self {
        self.has_list = true;
        authority.revoke(revoked, until, &self.revoked().unwrap());
        self
    }

    /// The options of a node that uses them.
    pub fn options(&self) -> Vec<String> {
        let given = [("--peer-ca", self.authority()), ("--peer-cert", self.certificate()), ("--peer-key", self.key())];
        let given = given.into_iter().chain(self.revoked().map(|list| ("--peer-crl", list)));
        given.flat_map(|(option, path)| [option.to_owned(), path.display().to_string()]).collect()
    }

    /// Replaces all files by those of another authority.
    pub fn replace_by(&self, authority: &Authority, host: &str) {
        self.write(authority, &[host]);
    }

    /// Trusts another authority than the one that signed the certificate.
    pub fn trust(&self, authority: &Authority) {
        fs::write(self.authority(), authority.certificate()).unwrap();
    }

    /// Leaves the files as they are in the middle of a replacement.
    pub fn replace_key(&self) {
        fs::write(self.key(), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    }

    fn write(&self, authority: &Authority, hosts: &[impl AsRef<str>]) {
        let signed = authority.sign_as(self.serial, hosts);
        fs::write(self.certificate(), signed.certificate).unwrap();
        fs::write(self.key(), signed.key).unwrap();
        self.trust(authority);
    }
}
