//! How a node serves its callers.

use crate::edge::gate::GateLimits;
use crate::edge::identity::Authenticator;
use crate::edge::local::host_of;
use crate::edge::server::ServerLimits;
use crate::edge::tls::EdgeTls;
use crate::edge::watch::PATIENCE;
use std::time::Duration;

/// The settings of the edge. The daemon reads them from its options.
#[derive(Clone, Debug)]
pub struct EdgeSettings {
    pub listen: String,
    /// Address at which callers reach this node; the listening address when empty.
    pub address: String,
    pub authenticator: Authenticator,
    pub tls: Option<EdgeTls>,
    /// Only tests change these limits.
    pub server: ServerLimits,
    pub gate: GateLimits,
    /// A stream whose reader takes nothing for this long ends with a message that says so.
    pub patience: Duration,
    /// Metrics need no API key for callers on this machine.
    pub metrics_open: bool,
}

impl EdgeSettings {
    /// Settings with production limits. Metrics are open where callers need no API key anyway.
    #[must_use]
    pub fn new(listen: String, authenticator: Authenticator, tls: Option<EdgeTls>) -> Self {
        let (server, gate) = (ServerLimits::default(), GateLimits::default());
        let metrics_open = matches!(authenticator, Authenticator::SelfReported);
        Self { listen, address: String::new(), authenticator, tls, server, gate, patience: PATIENCE, metrics_open }
    }

    /// The hosts in this node's configured addresses.
    pub(crate) fn own_hosts(&self) -> Vec<String> {
        let given = [&self.listen, &self.address].into_iter().filter(|address| !address.is_empty());
        given.map(|address| host_of(address).to_owned()).collect()
    }
}
