//! The other end of a caller's connection.

use std::net::SocketAddr;

/// The other end of the connection, in the extensions of every request next to axum's `ConnectInfo<SocketAddr>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    pub address: SocketAddr,
    pub is_tls: bool,
}

impl Remote {
    /// Whether the caller is on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }
}
