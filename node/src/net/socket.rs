//! The options of a connection's socket.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// Unanswered probes after which a connection has ended.
#[cfg(target_os = "linux")]
const PROBES: u32 = 3;

/// How a connection notices that the machine at its other end is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    /// An idle connection is probed after this long, and then this often.
    pub(crate) probe_after: Duration,
    pub(crate) probe_every: Duration,
    /// The other machine must acknowledge sent bytes within this time.
    pub(crate) taken_within: Duration,
}

/// Sends small writes at once, and ends the connection when the other machine is gone.
pub(crate) fn tune(stream: &TcpStream, liveness: Liveness) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(liveness.probe_after).with_interval(liveness.probe_every);
    #[cfg(target_os = "linux")]
    let keepalive = keepalive.with_retries(PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(liveness.taken_within))?;
    #[cfg(not(target_os = "linux"))]
    let _ = liveness.taken_within;
    Ok(())
}
