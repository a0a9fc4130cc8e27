//! The certificates of an authority as a node uses them towards other nodes.

use crate::authority::{Authority, Files};
use node::peers::tls::{PeerTls, TlsFiles};

impl Authority {
    /// TLS settings with a certificate for this host.
    pub fn tls(&self, host: &str) -> PeerTls {
        self.files(host).tls()
    }

    /// The same with another authority to check peers.
    pub fn tls_that_trusts(&self, other: &Self, host: &str) -> PeerTls {
        let files = self.files(host);
        files.trust(other);
        files.tls()
    }
}

impl Files {
    pub fn paths(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.certificate(),
            key: self.key(),
            authority: self.authority(),
            revoked: self.revoked(),
        }
    }

    pub fn tls(&self) -> PeerTls {
        PeerTls::from_files(self.paths()).unwrap()
    }
}
