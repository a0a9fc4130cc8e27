//! Every fault by its name, each in the file of its family. A fault reports what it did, to which nodes, and whether
//! its effect was
//! *seen*. [`Nemesis::end`] undoes it, and [`Cluster::heal`] undoes everything that is left.

mod backup;
mod builds;
mod callers;
mod clock;
mod damage;
mod disk;
mod members;
mod network;
mod packets;
mod process;
mod schedule;

pub use schedule::{Means, Plan, run};

use crate::cluster::{Cluster, Seat};
use crate::dice::Dice;
use crate::history::{Fault, Micros};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

pub type Doing<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// One fault, from its beginning to its end.
pub trait Nemesis: Send {
    /// Starts the fault. An effect that is not seen at once is checked at the end.
    fn begin<'a>(&'a mut self, cluster: &'a Cluster, dice: &'a mut Dice) -> Doing<'a, Done>;

    /// Undoes the fault, and returns whether it took effect.
    fn end<'a>(&'a mut self, cluster: &'a Cluster) -> Doing<'a, bool>;
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub what: String,
    pub seats: Vec<Seat>,
}

/// Faults of different families may run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Process,
    Disk,
    Network,
    Clock,
    /// These change the membership, or remove data that a disk had to keep. The latter start only when all nodes are
    /// well: together with another fault they could cost the majority.
    Members,
}

/// A kind of fault.
pub struct Kind {
    pub name: &'static str,
    pub family: Family,
    /// Not possible with TCP proxies.
    pub needs_packets: bool,
    /// Needs another build of the daemon.
    pub needs_newer: bool,
    /// Other faults may run at the same time: none would prevent the other's effect.
    pub mixes: bool,
    /// It affects one node, which it chooses itself.
    is_single: bool,
    /// Its duration, if the schedule does not choose it.
    takes: Option<(Duration, Duration)>,
    make: fn(&Plan) -> Box<dyn Nemesis>,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const fn kind(name: &'static str, family: Family, make: fn(&Plan) -> Box<dyn Nemesis>) -> Kind {
    Kind { name, family, needs_packets: false, needs_newer: false, mixes: true, is_single: false, takes: None, make }
}

/// A fault of a single node.
const fn single(name: &'static str, family: Family, make: fn(&Plan) -> Box<dyn Nemesis>) -> Kind {
    Kind { is_single: true, ..kind(name, family, make) }
}

const fn alone(name: &'static str, family: Family, make: fn(&Plan) -> Box<dyn Nemesis>) -> Kind {
    Kind { mixes: false, ..kind(name, family, make) }
}

/// A fault with this duration in seconds, if the run is long enough.
const fn lasting(
    name: &'static str,
    family: Family,
    (least, most): (u64, u64),
    make: fn(&Plan) -> Box<dyn Nemesis>,
) -> Kind {
    Kind { takes: Some((Duration::from_secs(least), Duration::from_secs(most))), ..kind(name, family, make) }
}

const fn of_packets(name: &'static str, make: fn(&Plan) -> Box<dyn Nemesis>) -> Kind {
    Kind { needs_packets: true, ..kind(name, Family::Network, make) }
}

const fn of_builds(name: &'static str, make: fn(&Plan) -> Box<dyn Nemesis>) -> Kind {
    Kind { needs_newer: true, ..alone(name, Family::Members, make) }
}

/// Every fault.
pub const ALL: &[Kind] = &[
    single("kill-leader", Family::Process, |_| process::kill(process::Whom::Leader)),
    single("kill-follower", Family::Process, |_| process::kill(process::Whom::Follower)),
    alone("kill-all", Family::Process, |_| process::kill(process::Whom::All)),
    single("power-loss-one", Family::Process, |_| process::power_loss(process::Whom::Any)),
    lasting("kill-followers", Family::Process, (20, 60), |_| process::kill(process::Whom::Followers)),
    alone("power-loss-all", Family::Process, |_| process::power_loss(process::Whom::All)),
    single("pause-short", Family::Process, |plan| process::pause(plan.lease / 3)),
    single("pause-long", Family::Process, |plan| process::pause(plan.lease * 2)),
    single("suspend", Family::Process, |plan| process::suspend(plan.lease * 2)),
    single("drain", Family::Process, |_| process::drain()),
    alone("transfers", Family::Process, |plan| process::transfers(plan.lease)),
    kind("slow-fsync", Family::Disk, |_| disk::slow()),
    single("stuck-fsync", Family::Disk, |_| disk::stuck()),
    alone("full-disk", Family::Disk, |_| disk::full()),
    kind("isolate-leader", Family::Network, |_| network::cut(network::Shape::IsolateLeader)),
    kind("isolate-follower", Family::Network, |_| network::cut(network::Shape::IsolateFollower)),
    lasting("isolate-all", Family::Network, (20, 60), |_| network::cut(network::Shape::All)),
    kind("halves", Family::Network, |_| network::cut(network::Shape::Halves)),
    kind("majority-ring", Family::Network, |_| network::cut(network::Shape::Ring)),
    kind("bridge", Family::Network, |_| network::cut(network::Shape::Bridge)),
    kind("one-way-out", Family::Network, |_| network::cut(network::Shape::LeaderMute)),
    kind("one-way-in", Family::Network, |_| network::cut(network::Shape::LeaderDeaf)),
    kind("clients-only", Family::Network, |_| network::cut(network::Shape::Callers)),
    kind("delay", Family::Network, |_| packets::all(packets::What::Delay)),
    kind("loss", Family::Network, |_| packets::all(packets::What::Loss)),
    of_packets("duplicate", |_| packets::all(packets::What::Duplicate)),
    of_packets("reorder", |_| packets::all(packets::What::Reorder)),
    kind("wall-bump", Family::Clock, |_| clock::wall(clock::Wall::Bump)),
    kind("wall-strobe", Family::Clock, |_| clock::wall(clock::Wall::Strobe)),
    kind("wall-freeze", Family::Clock, |_| clock::wall(clock::Wall::Freeze)),
    kind("wrong-date", Family::Clock, |_| clock::wrong_date()),
    kind("drift", Family::Clock, |_| clock::drift()),
    kind("callers-jump", Family::Clock, |_| callers::clocks(callers::What::Jump)),
    kind("callers-stall", Family::Clock, |_| callers::clocks(callers::What::Stall)),
    kind("callers-rate", Family::Clock, |_| callers::clocks(callers::What::Rate)),
    alone("grow-shrink", Family::Members, |_| members::grow_shrink()),
    kind("join-together", Family::Members, |_| members::join_together()),
    kind("join-and-remove", Family::Members, |_| members::join_and_remove()),
    kind("learner", Family::Members, |_| members::learner()),
    kind("absent-learner", Family::Members, |_| members::absent_learner()),
    kind("move-and-remove", Family::Members, |_| members::move_and_remove()),
    alone("replace-wiped", Family::Members, |_| members::replace_wiped()),
    alone("snapshot-crash", Family::Members, |_| members::snapshot_crash()),
    alone("snapshot-overlap", Family::Members, |_| members::snapshot_overlap()),
    alone("backup", Family::Members, |_| backup::taken()),
    of_builds("newer-build", |_| builds::newer()),
    alone("torn-write", Family::Members, |_| damage::of(damage::What::Torn)),
    alone("bit-flip", Family::Members, |_| damage::of(damage::What::Flip)),
    alone("truncation", Family::Members, |_| damage::of(damage::What::Truncate)),
    alone("table-flip", Family::Members, |_| damage::of(damage::What::FlipTable)),
];

/// The fault with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Kind> {
    ALL.iter().find(|kind| kind.name == name)
}

/// A running fault.
#[expect(missing_debug_implementations, reason = "a fault under way has nothing to show but what it says when it ends")]
pub struct Active {
    nemesis: Box<dyn Nemesis>,
    fault: Fault,
    harmed: Vec<Seat>,
    since: Micros,
}

impl Active {
    /// A fault that failed to start counts as one without effect.
    pub async fn begin(kind: &'static Kind, plan: &Plan, cluster: &Cluster, dice: &mut Dice) -> Self {
        let mut nemesis = (kind.make)(plan);
        let began = cluster.now();
        let done = nemesis.begin(cluster, dice).await;
        let done = done.unwrap_or_else(|error| Done { what: format!("failed to start: {error}"), seats: Vec::new() });
        // Another fault of the family chooses other nodes, if there are any.
        let harmed = if kind.is_of_nodes() { done.seats.clone() } else { Vec::new() };
        cluster.harm(&harmed);
        let fault = Fault {
            kind: kind.name.to_owned(),
            what: done.what,
            nodes: done.seats,
            began,
            ended: None,
            took_hold: false,
            in_force: None,
        };
        Self { nemesis, fault, harmed, since: cluster.now() }
    }

    pub async fn end(mut self, cluster: &Cluster) -> Fault {
        self.fault.in_force = Some((self.since, cluster.now()));
        match self.nemesis.end(cluster).await {
            Ok(took_hold) => self.fault.took_hold = took_hold,
            Err(error) => self.fault.what += &format!("; failed to undo: {error}"),
        }
        self.fault.ended = Some(cluster.now());
        cluster.unharm(&self.harmed);
        self.fault
    }
}

impl Kind {
    /// It affects nodes and not the connections between them: two faults of its family may run on different nodes.
    fn is_of_nodes(&self) -> bool {
        matches!(self.family, Family::Process | Family::Disk)
    }
}

/// The leader, if one is known within a moment.
async fn leader(cluster: &Cluster) -> Option<Seat> {
    for _ in 0..40 {
        if let Some(leader) = cluster.leader() {
            return Some(leader);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    None
}

/// A running follower.
async fn follower(cluster: &Cluster, dice: &mut Dice) -> io::Result<Seat> {
    let leader = leader(cluster).await;
    let others = |seats: Vec<Seat>| seats.into_iter().filter(|seat| Some(*seat) != leader).collect::<Vec<Seat>>();
    let unharmed = others(cluster.unharmed());
    let others = if unharmed.is_empty() { others(cluster.running()) } else { unharmed };
    if others.is_empty() {
        return Err(io::Error::other("no follower runs"));
    }
    Ok(*dice.pick(&others))
}

/// Usually the leader, otherwise another running node.
async fn somebody(cluster: &Cluster, dice: &mut Dice) -> io::Result<Seat> {
    let unharmed = cluster.unharmed();
    let running = if unharmed.is_empty() { cluster.running() } else { unharmed };
    match leader(cluster).await.filter(|leader| dice.chance(60) && running.contains(leader)) {
        Some(leader) => Ok(leader),
        None => {
            if running.is_empty() {
                return Err(io::Error::other("no node runs"));
            }
            Ok(*dice.pick(&running))
        }
    }
}
