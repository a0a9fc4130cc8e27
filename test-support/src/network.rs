//! Addresses on the loopback network that belong to one test. Tests run side by side, in one process and in several.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The hosts that tests use.
const HOSTS: [u8; 4] = [1, 2, 3, 9];
/// Below the ports that the system gives to outgoing connections: a node that is down finds its own free.
const CALLER_PORT: u16 = 7400;
const PEER_PORT: u16 = 7401;

static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// The second and the third number of the addresses: all of 127.0.0.0/8 is this machine.
#[derive(Clone, Copy, Debug)]
pub struct Network([u8; 2]);

impl Network {
    /// A network on which nobody listens.
    pub fn free() -> Self {
        let own = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let start = std::process::id().wrapping_mul(16).wrapping_add(own);
        (0..1_000)
            .map(|step| start.wrapping_add(step * 16).to_be_bytes())
            .map(|[_, _, a, b]| Self([a.max(1), b]))
            .find(|network| network.check_free().is_ok())
            .expect("a loopback network is free")
    }

    fn check_free(self) -> io::Result<()> {
        for host in HOSTS {
            TcpListener::bind(self.callers(host))?;
            TcpListener::bind(self.peers(host))?;
        }
        Ok(())
    }

    pub fn host(self, host: u8) -> Ipv4Addr {
        let Self([a, b]) = self;
        Ipv4Addr::new(127, a, b, host)
    }

    /// Where a node serves callers.
    pub fn callers(self, host: u8) -> SocketAddr {
        (self.host(host), CALLER_PORT).into()
    }

    /// Where a node listens for other nodes.
    pub fn peers(self, host: u8) -> SocketAddr {
        (self.host(host), PEER_PORT).into()
    }
}

impl fmt::Display for Network {
    /// The first three numbers of its addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([a, b]) = self;
        write!(f, "127.{a}.{b}")
    }
}
