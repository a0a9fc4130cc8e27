//! `jepsen faults`: does every fault once on a cluster under writes, and shows whether it took effect and how soon the
//! cluster served again. This tests the faults that runs rely on.

use crate::cluster::{Cluster, LIMIT, Options, Seat};
use crate::dice::Dice;
use crate::history::Fault;
use crate::nemesis::{self, Active, Means, Plan};
use crate::wire::{CALLERS, Network, Wire};
use client::Client;
use client::api::item::NewItem;
use client::names::{ItemId, QueueName};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Writers at each node. Each uses only its node, so that every fault affects a writer.
const WRITERS: u32 = 2;
const RESTS: Duration = Duration::from_millis(5);
const LEASE: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub struct Asked {
    /// The daemon to test
    #[arg(long, env = "JEPSEN_DAEMON", value_name = "FILE")]
    pub daemon: PathBuf,
    /// A daemon built with the feature `sabotage`, needed for `newer-build`
    #[arg(long, env = "JEPSEN_NEWER", value_name = "FILE")]
    pub newer: Option<PathBuf>,
    /// Number of nodes
    #[arg(long, default_value_t = 3)]
    pub nodes: u32,
    /// Seed of the faults' choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Do only these faults [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub only: Vec<String>,
    /// Duration of each fault
    #[arg(long, default_value_t = 3, value_name = "SECONDS")]
    pub lasts: u64,
    /// Run a random mixture of faults for this long, as a run does, instead of one after another
    #[arg(long, value_name = "MINUTES")]
    pub mixed: Option<u64>,
    /// Without faults: measure the throughput with this many callers at each node that write without pauses
    #[arg(long, value_name = "CALLERS")]
    pub load: Option<u32>,
    /// Use loopback instead of network namespaces
    #[arg(long)]
    pub loopback: bool,
    /// Keep logs and data in this folder [default: a temporary folder that is removed]
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
}

/// Returns whether all faults took effect and the cluster served again after each. Call it before any other thread
/// starts.
///
/// # Errors
/// When the cluster cannot be started at all.
pub fn main(asked: Asked) -> io::Result<bool> {
    let network =
        if asked.loopback { Network::Loopback { why: "requested by --loopback".into() } } else { crate::wire::enter() };
    say(&format!("{network}\n"));
    let folder = tempfile::tempdir()?;
    let path = asked.keep.clone().unwrap_or_else(|| folder.path().to_owned());
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        tokio::select! {
            done = all(asked, network, path) => done,
            _ = tokio::signal::ctrl_c() => Err(io::Error::other("interrupted")),
        }
    })
}

async fn all(asked: Asked, network: Network, folder: PathBuf) -> io::Result<bool> {
    let mut options = Options::new(asked.daemon, folder, network);
    options.newer_daemon = asked.newer;
    (options.nodes, options.seed) = (asked.nodes, asked.seed);
    (options.snapshot_every, options.entries_kept) = (Some(200), Some(50));
    let cluster = Cluster::start(options).await?;
    let written = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    let (each, rests) = asked.load.map_or((WRITERS, RESTS), |callers| (callers, Duration::ZERO));
    for nth in 0..each * asked.nodes {
        let client = cluster.client(&format!("actor-{}", nth % 64), Some(1 + nth % asked.nodes))?;
        writers.spawn(write(client, nth, written.clone(), rests));
    }
    let mut plan = Plan::new(asked.seed, LEASE);
    plan.names = asked.only;
    let mut is_well = match asked.mixed {
        _ if asked.load.is_some() => bear(&cluster, &written, Duration::from_secs(asked.lasts)).await,
        Some(minutes) => mixed(&cluster, plan, Duration::from_secs(60 * minutes)).await?,
        None => one_by_one(&cluster, &plan, Duration::from_secs(asked.lasts)).await?,
    };
    writers.shutdown().await;
    let mut end = String::new();
    for death in cluster.deaths() {
        is_well = false;
        let _ = writeln!(end, "a node exited by itself: {}", death.what);
    }
    let changes = cluster.leaders().iter().filter(|leader| leader.node.is_some()).count();
    let _ = writeln!(
        end,
        "{} items written, {changes} leaderships, packets {:?}",
        written.load(Ordering::Relaxed),
        cluster.wire().total()
    );
    for wrong in cluster.shut_down().await {
        is_well = false;
        let _ = writeln!(end, "{wrong}");
    }
    say(&end);
    Ok(is_well)
}

async fn one_by_one(cluster: &Cluster, plan: &Plan, lasts: Duration) -> io::Result<bool> {
    let mut dice = Dice::of(plan.seed, "faults");
    let mut is_well = true;
    for kind in plan.kinds(Means::of(cluster))? {
        let active = Active::begin(kind, plan, cluster, &mut dice).await;
        sleep(lasts).await;
        let fault = active.end(cluster).await;
        let healing = Instant::now();
        let healed = cluster.heal(LIMIT).await;
        let served = healed.is_ok() && served(cluster, kind.name).await;
        let after = healing.elapsed();
        let verdict = if served { "yes" } else { "NO" };
        say(&format!("{}  served again {verdict:<3} after {:>4.1} s\n", row(&fault), after.as_secs_f64()));
        if let Err(error) = healed {
            say(&format!("    {error}\n"));
        }
        is_well &= fault.took_hold && served;
    }
    Ok(is_well)
}

async fn mixed(cluster: &Arc<Cluster>, mut plan: Plan, lasts: Duration) -> io::Result<bool> {
    (plan.mixed, plan.goes_on_for) = (true, lasts);
    let stop = CancellationToken::new();
    let ends = stop.clone();
    let ending = tokio::spawn(async move {
        sleep(lasts).await;
        ends.cancel();
    });
    let faults = nemesis::run(cluster.clone(), plan, stop, |fault| say(&format!("{}\n", row(fault)))).await?;
    ending.abort();
    let healing = Instant::now();
    let healed = cluster.heal(LIMIT).await;
    let served = healed.is_ok() && served(cluster, "all").await;
    let held = faults.iter().filter(|fault| fault.took_hold).count();
    let (all, after) = (faults.len(), healing.elapsed());
    say(&format!("{held} of {all} faults took effect; served again: {served}, after {:.1} s\n", after.as_secs_f64()));
    if let Err(error) = healed {
        say(&format!("    {error}\n"));
    }
    Ok(served)
}

/// Prints the items written and the packets per second. Returns whether any item was written.
async fn bear(cluster: &Cluster, written: &AtomicU64, lasts: Duration) -> bool {
    sleep(Duration::from_secs(2)).await;
    let (before, packets) = (written.load(Ordering::Relaxed), cluster.wire().total());
    let began = Instant::now();
    sleep(lasts).await;
    let took = began.elapsed().as_secs_f64();
    let (items, packets) = (written.load(Ordering::Relaxed) - before, cluster.wire().total().since(packets).forwarded);
    say(&format!("{:.0} items/s, {:.0} packets/s\n", items as f64 / took, packets as f64 / took));
    items > 0
}

fn row(fault: &Fault) -> String {
    let held = if fault.took_hold { "yes" } else { "NO" };
    let seconds = |at: u64| at as f64 / 1e6;
    let (from, to) = (seconds(fault.began), fault.ended.map_or(0.0, seconds));
    format!("{from:>6.1} to {to:>6.1} s  {:<16} took effect {held:<3} {}", fault.kind, fault.what)
}

async fn write(client: Client, writer: u32, written: Arc<AtomicU64>, rests: Duration) {
    for nth in 0u64.. {
        let item = new_item(&format!("load-{writer}-{nth}"));
        if client.create(&item).within(Duration::from_secs(3)).await.is_ok() {
            written.fetch_add(1, Ordering::Relaxed);
        }
        sleep(rests).await;
    }
}

fn new_item(id: &str) -> NewItem {
    let (item, queue) = (ItemId::new(id).expect("a name"), QueueName::new("faults").expect("a name"));
    NewItem { title: id.to_owned(), ..NewItem::new(item, queue) }
}

/// Whether a caller can create an item and read it at every node.
async fn served(cluster: &Cluster, name: &str) -> bool {
    let Ok(client) = cluster.client("operator", None) else { return false };
    let item = new_item(&format!("after-{name}-{}", cluster.now()));
    if client.create(&item).await.is_err() {
        return false;
    }
    for seat in cluster.seats() {
        let Ok(client) = cluster.client("operator", Some(seat)) else { return false };
        if client.item(&item.id).await.is_err() {
            return false;
        }
    }
    true
}

fn say(words: &str) {
    let _ = io::stdout().write_all(words.as_bytes());
    let _ = io::stdout().flush();
}

/// Measures the simulated network: packets per second, and the time of a request with its answer.
///
/// # Errors
/// When the network cannot be created.
pub fn measure() -> io::Result<()> {
    let network = crate::wire::enter();
    say(&format!("{network}\n"));
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let wire = Wire::lay(network, 1).await?;
        if wire.has_packets() {
            flood(&wire).await?;
        }
        ping(&wire).await
    })
}

async fn flood(wire: &Wire) -> io::Result<()> {
    const FOR: Duration = Duration::from_secs(3);
    let to = SocketAddr::from((wire.own_host(2), 9));
    let before = wire.counts(1, 2);
    let sent = wire.place(1).run(move || async move {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        let began = Instant::now();
        let mut sent = 0u64;
        while began.elapsed() < FOR {
            for _ in 0..64 {
                sent += u64::from(socket.send_to(&[0; 200], to).is_ok());
            }
        }
        io::Result::Ok(sent)
    });
    let sent = sent.await??;
    let passed = wire.counts(1, 2).since(before).forwarded;
    say(&format!(
        "{} packets/s sent, {} packets/s switched by one thread\n",
        sent / FOR.as_secs(),
        passed / FOR.as_secs()
    ));
    Ok(())
}

async fn ping(wire: &Wire) -> io::Result<()> {
    const ROUNDS: u32 = 20_000;
    let seat: Seat = 1;
    let at = SocketAddr::from((wire.own_host(seat), crate::wire::EDGE_PORT));
    let (tell, told) = tokio::sync::oneshot::channel();
    let echo = wire.place(seat).run(move || async move {
        let listener = TcpListener::bind(at).await?;
        let _ = tell.send(());
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut buffer = [0; 64];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            stream.write_all(&buffer[..length]).await?;
        }
        io::Result::Ok(())
    });
    let asking = async {
        told.await.map_err(io::Error::other)?;
        let mut stream = TcpStream::connect((wire.shown_host(seat), crate::wire::EDGE_PORT)).await?;
        stream.set_nodelay(true)?;
        let mut buffer = [0; 64];
        let before = wire.total();
        let began = Instant::now();
        for _ in 0..ROUNDS {
            stream.write_all(&[7; 64]).await?;
            stream.read_exact(&mut buffer).await?;
        }
        let each = began.elapsed() / ROUNDS;
        let packets = wire.total().since(before).forwarded;
        say(&format!(
            "a request and its answer over the wire take {each:?}; {ROUNDS} of them need {packets} packets\n"
        ));
        let link = wire.counts(CALLERS, seat);
        say(&format!("callers to seat {seat}: {link:?}\n"));
        io::Result::Ok(())
    };
    let (echoed, asked) = timeout(LIMIT, async { tokio::join!(echo, asking) }).await.map_err(io::Error::other)?;
    asked?;
    echoed?
}
