//! Hostile callers: each has its own API key, or a certificate of the cluster's CA, and uses as much as it can. They
//! run in a separate process next to each node, at a lower priority than everything that is measured, and report what
//! they did.
//!
//! They reach only their own node, and each is bounded in requests per second, connections and time.

mod http1;
mod http2;
mod peers;
mod readers;
mod registries;
mod silence;
mod tally;
mod writes;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tally::Counts;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

/// The hostile actors: name, role, space, queues.
pub const KEYS: [(&str, &str, &str, &str); 5] = [
    // It has no role in the space that it calls.
    ("hostile-nobody", "reader", "elsewhere", "*"),
    ("hostile-worker", "worker", "default", "hostile*"),
    ("hostile-holder", "worker", "default", "hostile*"),
    ("hostile-dispatcher", "dispatcher", "default", "hostile*"),
    ("hostile-reader", "reader", "default", "*"),
];
const NOBODY: &str = "hostile-nobody";
const WORKER: &str = "hostile-worker";
/// Holds the item that the worker waits for.
const HOLDER: &str = "hostile-holder";
const DISPATCHER: &str = "hostile-dispatcher";
const READER: &str = "hostile-reader";

/// How often the tallies are written.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// A failed or closed connection is opened again after this time.
const AGAIN: Duration = Duration::from_millis(250);

/// The kinds of hostile callers, in the order in which each runs alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Single commands without the right to execute them
    Flood,
    /// Refused batches of a thousand entries and almost 2 MiB
    RefusedBatches,
    /// Created batches of 31 items with the largest bodies
    CreatedBatches,
    /// Activities of 64 KiB from one holder
    Activities,
    /// Heartbeats that name a thousand leases which nobody holds
    RenewAll,
    /// New queues, workers, places in a line and request ids: everything that is stored by name
    Registries,
    /// Searches and list walks without end, as many at a time as one reader can open
    Views,
    /// Event streams from the beginning, again and again
    Streams,
    /// HTTP/2 requests whose answers are not read
    SlowReaders,
    /// Requests that are sent one byte at a time
    SlowWriters,
    /// Connections that send nothing
    Idle,
    /// Connections to the peer port: silent ones, and some with a certificate of the CA
    PeerPort,
}

impl Kind {
    pub const ALL: [Self; 12] = [
        Self::Flood,
        Self::RefusedBatches,
        Self::CreatedBatches,
        Self::Activities,
        Self::RenewAll,
        Self::Registries,
        Self::Views,
        Self::Streams,
        Self::SlowReaders,
        Self::SlowWriters,
        Self::Idle,
        Self::PeerPort,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flood => "flood",
            Self::RefusedBatches => "refused-batches",
            Self::CreatedBatches => "created-batches",
            Self::Activities => "activities",
            Self::RenewAll => "renew-all",
            Self::Registries => "registries",
            Self::Views => "views",
            Self::Streams => "streams",
            Self::SlowReaders => "slow-readers",
            Self::SlowWriters => "slow-writers",
            Self::Idle => "idle",
            Self::PeerPort => "peer-port",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The instructions for the hostile callers next to one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub kinds: Vec<Kind>,
    /// The node's addresses for callers and for nodes.
    pub edge: SocketAddr,
    pub peer: SocketAddr,
    /// The API key of each of [`KEYS`].
    pub keys: BTreeMap<String, String>,
    /// The CA of the nodes, and a certificate of it that no node has.
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Part of all names that they create, after `hostile`.
    pub name: String,
    pub lasts_ms: u64,
    /// The file for the tallies.
    pub report: PathBuf,
}

#[derive(Debug, clap::Args)]
pub struct Asked {
    /// A file with the instructions
    plan: PathBuf,
}

/// Runs in its own process.
///
/// # Errors
/// When the plan cannot be read, or the tallies cannot be written.
pub fn main(asked: &Asked) -> io::Result<bool> {
    let plan: Plan = serde_json::from_reader(File::open(&asked.plan)?)?;
    raise_open_files();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(plan))?;
    Ok(true)
}

fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If this is refused, fewer connections are opened.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

async fn run(plan: Plan) -> io::Result<()> {
    let lasts = Duration::from_millis(plan.lasts_ms);
    let report = plan.report.clone();
    let counts: BTreeMap<Kind, Counts> = plan.kinds.iter().map(|kind| (*kind, Counts::default())).collect();
    let plan = Arc::new(plan);
    let mut tasks = JoinSet::new();
    for (kind, counts) in &counts {
        let target = Target { plan: plan.clone(), counts: counts.clone() };
        match kind {
            Kind::Flood => writes::flood(&target, &mut tasks),
            Kind::RefusedBatches => writes::refused_batches(&target, &mut tasks),
            Kind::CreatedBatches => writes::created_batches(&target, &mut tasks),
            Kind::Activities => writes::activities(&target, &mut tasks),
            Kind::RenewAll => writes::renew_all(&target, &mut tasks),
            Kind::Registries => registries::start(&target, &mut tasks),
            Kind::Views => readers::views(&target, &mut tasks),
            Kind::Streams => readers::streams(&target, &mut tasks),
            Kind::SlowReaders => readers::slow(&target, &mut tasks),
            Kind::SlowWriters => silence::slow_writers(&target, &mut tasks),
            Kind::Idle => silence::idle(&target, &mut tasks),
            Kind::PeerPort => peers::start(&target, &mut tasks)?,
        }
    }
    let telling = async {
        loop {
            sleep(TOLD_EVERY).await;
            tally::write(&counts, &report)?;
        }
    };
    match timeout(lasts, telling).await {
        Ok(failed) => failed,
        Err(_) => tally::write(&counts, &report),
    }
}

/// The node to call, and the counters.
#[derive(Clone, Debug)]
struct Target {
    plan: Arc<Plan>,
    counts: Counts,
}

impl Target {
    fn key(&self, actor: &str) -> Option<&str> {
        self.plan.keys.get(actor).map(String::as_str)
    }

    /// A name that no other process of hostile callers uses.
    fn named(&self, what: &str) -> String {
        format!("hostile-{what}-{}", self.plan.name)
    }
}

/// This many ticks per second, evenly spaced; missed ticks are skipped.
fn pace(per_second: f64) -> Interval {
    let mut pace = interval(Duration::from_secs_f64(1.0 / per_second));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

type Tasks = JoinSet<()>;
