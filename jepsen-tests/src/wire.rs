//! The network between the nodes of a run, and between them and their callers: directed links, each of which can be
//! cut, delayed, or made to lose, duplicate and reorder packets.
//!
//! If the machine allows it, every node has its own network namespace and the wire is a packet switch in this process
//! ([`switch`]); nothing of it outlives the process, and no packet leaves it. Otherwise nodes run on loopback, and the
//! wire is a TCP proxy ([`proxy`]).

pub mod link;
pub mod place;
pub mod proxy;
pub mod switch;

use link::{Counts, Links, Trouble};
use nix::sched::{CloneFlags, unshare};
use place::Place;
use proxy::Proxies;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use switch::{Switch, Threads};
use tun_rs::DeviceBuilder;

/// A sender or receiver: a seat from 1, or the callers.
pub type Port = u32;
pub const CALLERS: Port = 0;
/// The number of seats: seven nodes, four that join together, and one for a restored cluster.
pub const SEATS: u32 = 12;

/// The port of a node for callers.
pub const EDGE_PORT: u16 = 7400;
/// The port of a node for other nodes.
pub const PEER_PORT: u16 = 7401;

/// From the address range that is reserved for benchmarks.
const NETWORK: [u8; 3] = [198, 18, 0];
const CALLERS_HOST: u8 = 100;

/// What this machine allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    Namespaces,
    /// With the reason why namespaces are not available.
    Loopback {
        why: String,
    },
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespaces => f.write_str("each node runs in its own network namespace"),
            Self::Loopback { why } => write!(
                f,
                "NO NAMESPACES ({why}): nodes run on loopback behind TCP proxies; packets are neither \
                 doubled nor reordered, and a lost one is a late one"
            ),
        }
    }
}

/// Moves this thread, and all threads that it starts later, into a new network namespace. Call it before any other
/// thread starts.
#[must_use]
pub fn enter() -> Network {
    match try_enter() {
        Ok(()) => Network::Namespaces,
        Err(error) => Network::Loopback { why: error.to_string() },
    }
}

fn try_enter() -> io::Result<()> {
    let doing = |what: &'static str| move |error: io::Error| io::Error::other(format!("{what}: {error}"));
    let user = rustix::process::geteuid();
    if user.is_root() {
        unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from).map_err(doing("a network namespace"))?;
    } else {
        let group = rustix::process::getegid();
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
            .map_err(io::Error::from)
            .map_err(doing("a user and a network namespace"))?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
        std::fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))?;
    }
    raise_loopback().map_err(doing("ip link set lo up"))?;
    DeviceBuilder::new().name("probe").build_sync().map_err(doing("/dev/net/tun"))?;
    Ok(())
}

fn raise_loopback() -> io::Result<()> {
    let done = Command::new("ip").args(["link", "set", "lo", "up"]).output()?;
    if !done.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
    }
    Ok(())
}

/// The wire of a run, with the seats at its ends.
#[derive(Debug)]
pub struct Wire {
    network: Network,
    links: Arc<Links>,
    /// Dropped before the places: their last packets end its threads.
    kind: Kind,
    places: Vec<Place>,
    _threads: Threads,
}

#[derive(Debug)]
enum Kind {
    Switch { _switch: Switch },
    Proxies(Proxies),
}

impl Wire {
    /// Creates every seat with its place, and connects all of them. Must be called in a runtime.
    ///
    /// # Errors
    /// When devices, namespaces or ports are not available.
    pub async fn lay(network: Network, seed: u64) -> io::Result<Self> {
        let links = Arc::new(Links::new(SEATS + 1, seed));
        match network {
            Network::Namespaces => {
                let mut switch = Switch::new(links.clone());
                let mut places = Vec::new();
                for port in 0..=SEATS {
                    let place = Place::open(port, (port != CALLERS).then_some(Place::ISOLATED))?;
                    let device = place.run(move || async move { switch::device(port, in_namespace(port)) }).await??;
                    switch.plug(port, device)?;
                    places.push(place.poking(in_namespace(port)));
                }
                let threads = switch.take_threads();
                Ok(Self { network, links, kind: Kind::Switch { _switch: switch }, places, _threads: threads })
            }
            Network::Loopback { .. } => {
                let [a, b] = free_network()?;
                let places = (0..=SEATS).map(|port| Place::open(port, None)).collect::<io::Result<Vec<_>>>()?;
                let proxies = Proxies::open([127, a, b], links.clone()).await?;
                Ok(Self { network, links, kind: Kind::Proxies(proxies), places, _threads: Threads::default() })
            }
        }
    }

    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Whether it switches packets, or only proxies connections.
    #[must_use]
    pub fn has_packets(&self) -> bool {
        matches!(self.kind, Kind::Switch { .. })
    }

    /// The place where a seat's processes are started, and where it is called without the wire.
    #[must_use]
    pub fn place(&self, seat: Port) -> &Place {
        &self.places[seat as usize]
    }

    /// The address on which the node of a seat listens.
    #[must_use]
    pub fn own_host(&self, seat: Port) -> Ipv4Addr {
        match &self.kind {
            Kind::Switch { .. } => in_namespace(seat),
            Kind::Proxies(proxies) => proxies.own_host(seat),
        }
    }

    /// The address at which others reach it over the wire.
    #[must_use]
    pub fn shown_host(&self, seat: Port) -> Ipv4Addr {
        match &self.kind {
            Kind::Switch { .. } => in_namespace(seat),
            Kind::Proxies(proxies) => proxies.shown_host(seat),
        }
    }

    /// Cuts the link in this direction, until every fault that cut it has restored it.
    pub fn cut(&self, from: Port, to: Port) {
        self.links.cut(from, to);
    }

    pub fn mend(&self, from: Port, to: Port) {
        self.links.mend(from, to);
    }

    /// Sets the trouble of the link in this direction. A cut link stays cut.
    pub fn set(&self, from: Port, to: Port, trouble: Trouble) {
        self.links.set(from, to, trouble);
    }

    /// The current trouble of the link.
    #[must_use]
    pub fn trouble(&self, from: Port, to: Port) -> Trouble {
        self.links.trouble(from, to)
    }

    /// Restores every direction.
    pub fn heal(&self) {
        self.links.heal();
    }

    #[must_use]
    pub fn counts(&self, from: Port, to: Port) -> Counts {
        self.links.counts(from, to)
    }

    /// The sum over all links.
    #[must_use]
    pub fn total(&self) -> Counts {
        let ports = 0..=SEATS;
        ports
            .clone()
            .flat_map(|from| ports.clone().map(move |to| (from, to)))
            .fold(Counts::default(), |sum, (from, to)| sum.plus(self.counts(from, to)))
    }
}

fn in_namespace(port: Port) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    let host = if port == CALLERS { CALLERS_HOST } else { u8::try_from(port).unwrap_or(u8::MAX) };
    Ipv4Addr::new(a, b, c, host)
}

fn port_at(host: u8) -> Option<Port> {
    match host {
        CALLERS_HOST => Some(CALLERS),
        host if (1..=SEATS).contains(&u32::from(host)) => Some(u32::from(host)),
        _ => None,
    }
}

/// Two bytes of a loopback network on which no process listens.
fn free_network() -> io::Result<[u8; 2]> {
    let hosts = (1..=SEATS).flat_map(|seat| [seat, u32::from(proxy::SHOWN_FROM) + seat]);
    let hosts: Vec<u8> = hosts.filter_map(|host| u8::try_from(host).ok()).collect();
    let is_free = |[a, b]: [u8; 2]| {
        let listens = |host: &u8, port: u16| TcpListener::bind((Ipv4Addr::new(127, a, b, *host), port)).is_ok();
        hosts.iter().all(|host| listens(host, EDGE_PORT) && listens(host, PEER_PORT))
    };
    let start = std::process::id().wrapping_mul(16);
    (0..1_000u32)
        .map(|step| start.wrapping_add(step * 16).to_be_bytes())
        .map(|[_, _, a, b]| [a.max(1), b])
        .find(|network| is_free(*network))
        .ok_or_else(|| io::Error::other("no loopback network is free"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV4;
    use std::time::{Duration, Instant};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::{sleep, timeout};

    const LIMIT: Duration = Duration::from_secs(60);
    const SEAT: Port = 1;

    /// Runs in its own thread, which leaves the network of this process.
    fn in_namespaces(story: impl AsyncFnOnce(Wire) + Send + 'static) {
        let run = move || match enter() {
            Network::Namespaces => with(Network::Namespaces, story),
            other => eprintln!("SKIPPED: the packet switch was not tested: {other}"),
        };
        std::thread::spawn(run).join().unwrap();
    }

    fn with(network: Network, story: impl AsyncFnOnce(Wire)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let wire = Wire::lay(network, 1).await.unwrap();
            timeout(LIMIT, story(wire)).await.unwrap();
        });
    }

    /// A caller's connection to an echo server on a seat.
    async fn echo(wire: &Wire) -> TcpStream {
        let at = SocketAddrV4::new(wire.own_host(SEAT), EDGE_PORT);
        let listening = wire.place(SEAT).run(move || async move {
            let listener = tokio::net::TcpListener::bind(at).await.unwrap();
            tokio::task::spawn_local(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await.unwrap();
            });
        });
        listening.await.unwrap();
        TcpStream::connect((wire.shown_host(SEAT), EDGE_PORT)).await.unwrap()
    }

    async fn answer(stream: &mut TcpStream) -> u8 {
        stream.read_u8().await.unwrap()
    }

    async fn a_cut_carries_nothing(wire: Wire, cut: (Port, Port)) {
        let mut stream = echo(&wire).await;
        stream.write_u8(1).await.unwrap();
        assert_eq!(answer(&mut stream).await, 1);
        let before = wire.counts(cut.0, cut.1);
        wire.set(cut.0, cut.1, Trouble::CUT);
        stream.write_u8(2).await.unwrap();
        while wire.counts(cut.0, cut.1).since(before).dropped == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        let mut nothing = [0];
        assert!(stream.try_read(&mut nothing).is_err(), "{nothing:?} came through");
        wire.heal();
        assert_eq!(answer(&mut stream).await, 2);
        assert_eq!(wire.counts(2, 3), Counts::default());
    }

    async fn what_is_late_is_late_by_that_much(wire: Wire) {
        let mut stream = echo(&wire).await;
        let delay = Duration::from_millis(40);
        wire.set(CALLERS, SEAT, Trouble { delay, ..Trouble::NONE });
        let began = Instant::now();
        stream.write_u8(1).await.unwrap();
        assert_eq!(answer(&mut stream).await, 1);
        assert!(began.elapsed() >= delay);
        assert!(wire.counts(CALLERS, SEAT).delayed > 0);
    }

    #[test]
    fn a_switch_delivers_nothing_over_a_cut_link_in_either_direction() {
        in_namespaces(async |wire| a_cut_carries_nothing(wire, (CALLERS, SEAT)).await);
        in_namespaces(async |wire| a_cut_carries_nothing(wire, (SEAT, CALLERS)).await);
    }

    #[test]
    fn a_switch_delays_by_the_given_time() {
        in_namespaces(what_is_late_is_late_by_that_much);
    }

    #[test]
    fn a_stream_survives_loss_duplicates_and_disorder_of_its_packets() {
        in_namespaces(async |wire| {
            let mut stream = echo(&wire).await;
            let trouble = Trouble { loss: 5, duplicate: 30, reorder: 30, ..Trouble::NONE };
            wire.set(CALLERS, SEAT, trouble);
            wire.set(SEAT, CALLERS, trouble);
            for nth in 0..=255 {
                stream.write_u8(nth).await.unwrap();
                assert_eq!(answer(&mut stream).await, nth);
            }
            let counts = wire.total();
            assert!(counts.dropped > 0 && counts.duplicated > 0 && counts.reordered > 0, "{counts:?}");
        });
    }

    #[test]
    fn a_dropped_wire_leaves_nothing_behind() {
        in_namespaces(async |wire| {
            let mut wire = wire;
            for _ in 0..3 {
                // The same devices again in the same namespace, after the earlier ones were removed.
                drop(wire);
                wire = Wire::lay(Network::Namespaces, 1).await.unwrap();
            }
            let mut stream = echo(&wire).await;
            stream.write_u8(1).await.unwrap();
            assert_eq!(answer(&mut stream).await, 1);
        });
    }

    fn on_loopback(story: impl AsyncFnOnce(Wire)) {
        with(Network::Loopback { why: "a test".into() }, story);
    }

    #[test]
    fn a_proxy_delivers_nothing_over_a_cut_link_in_either_direction() {
        on_loopback(async |wire| a_cut_carries_nothing(wire, (CALLERS, SEAT)).await);
        on_loopback(async |wire| a_cut_carries_nothing(wire, (SEAT, CALLERS)).await);
    }

    #[test]
    fn a_proxy_delays_by_the_given_time() {
        on_loopback(what_is_late_is_late_by_that_much);
    }
}
