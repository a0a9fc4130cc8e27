//! Certificates between the nodes of a run: a CA for this run, and a certificate and a key for each seat. A peer must
//! have one of these.

use super::Seat;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// For clients only.
pub(super) const STRANGER: &str = "worker-7.example.org";

#[derive(Debug)]
pub(super) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// `hosts`: the addresses of each seat, for itself and for others.
    pub(super) fn make(folder: PathBuf, hosts: &[(Seat, BTreeSet<Ipv4Addr>)]) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // Without its own name it would have the same name as the certificates that it signs.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let authority = CertifiedIssuer::self_signed(params, key).map_err(io::Error::other)?;
        fs::write(folder.join("ca.pem"), authority.pem())?;
        for (seat, hosts) in hosts {
            let names: Vec<String> = hosts.iter().map(Ipv4Addr::to_string).collect();
            let key = KeyPair::generate().map_err(io::Error::other)?;
            let params = CertificateParams::new(names).map_err(io::Error::other)?;
            let certificate = params.signed_by(&key, &authority).map_err(io::Error::other)?;
            fs::write(folder.join(format!("seat-{seat}.pem")), certificate.pem())?;
            fs::write(folder.join(format!("seat-{seat}.key")), key.serialize_pem())?;
        }
        // From the same CA, for a machine that is not a node.
        let mut params = CertificateParams::new(vec![STRANGER.to_owned()]).map_err(io::Error::other)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, "worker");
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &authority).map_err(io::Error::other)?;
        fs::write(folder.join("stranger.pem"), certificate.pem())?;
        fs::write(folder.join("stranger.key"), key.serialize_pem())?;
        Ok(Self { folder })
    }

    /// A certificate of the CA that no node has, and its key.
    pub(super) fn stranger(&self) -> [PathBuf; 2] {
        ["stranger.pem", "stranger.key"].map(|name| self.folder.join(name))
    }

    pub(super) fn authority(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The TLS options of a node for its callers.
    pub(super) fn arguments_for_callers(&self, seat: Seat) -> Vec<String> {
        let files = [("--tls-cert", format!("seat-{seat}.pem")), ("--tls-key", format!("seat-{seat}.key"))];
        let path = |name: String| self.folder.join(name).display().to_string();
        files.into_iter().flat_map(|(flag, name)| [flag.to_owned(), path(name)]).collect()
    }

    /// The TLS options of a node for other nodes.
    pub(super) fn arguments(&self, seat: Seat) -> Vec<String> {
        let files = [
            ("--peer-ca", "ca.pem".to_owned()),
            ("--peer-cert", format!("seat-{seat}.pem")),
            ("--peer-key", format!("seat-{seat}.key")),
        ];
        let path = |name: &Path| self.folder.join(name).display().to_string();
        files.into_iter().flat_map(|(flag, name)| [flag.to_owned(), path(Path::new(&name))]).collect()
    }
}
