//! A cluster of real nodes, each a process in its own namespace. However a run ends, none of these processes outlives
//! it, and it stops no other process.
//!
//! A **seat** is a machine: an address, a disk, a shim. Each node is on a seat. A replacement, with another id, takes
//! the same seat. Histories name seats.

mod beside;
mod certificates;
mod harm;
mod healing;
mod intruder;
mod members;
mod process;
mod restored;
mod tokens;
mod watch;

use crate::callers::Machines;
use crate::history::{Death, Leader, Members, Micros};
use crate::shim::{Control, Shim};
use crate::wire::{EDGE_PORT, Network, PEER_PORT, SEATS, Wire};
use certificates::Certificates;
use client::{CallerIdentity, Client, Config, Session};
use process::Process;
pub use restored::{Beside, Taken};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokens::ApiKeys;
use tokio::task::JoinHandle;

/// Numbered from 1.
pub type Seat = u32;

const LOOK_EVERY: Duration = Duration::from_millis(25);
/// For everything that a healthy cluster does in seconds.
pub const LIMIT: Duration = Duration::from_secs(60);
/// A node stops within 25 s.
const STOP_WITHIN: Duration = Duration::from_secs(40);

/// The settings of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program `tenured`.
    pub daemon: PathBuf,
    /// Built with the feature `sabotage`: it can act as a build of later rules.
    pub newer_daemon: Option<PathBuf>,
    pub nodes: u32,
    pub seed: u64,
    /// The folder for all files of the run.
    pub folder: PathBuf,
    pub network: Network,
    /// The start time that moments count from.
    pub began: Instant,
    /// Arguments and environment of every node.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Arguments and environment of the node on one seat.
    pub seat_arguments: BTreeMap<Seat, Vec<String>>,
    pub seat_environment: BTreeMap<Seat, Vec<(String, String)>>,
    pub snapshot_every: Option<u64>,
    pub entries_kept: Option<u64>,
    /// The number of actors `actor-0`, `actor-1` …, in addition to `operator`.
    pub actors: u32,
    /// Actors with a role in a space and its queues.
    pub others: Vec<(&'static str, &'static str, &'static str, &'static str)>,
    /// Run nodes without the shim: no disk or clock faults, and no overhead.
    pub bare: bool,
    /// Callers use TLS.
    pub tls: bool,
}

impl Options {
    #[must_use]
    pub fn new(daemon: PathBuf, folder: PathBuf, network: Network) -> Self {
        Self {
            daemon,
            newer_daemon: None,
            nodes: 3,
            seed: 0,
            folder,
            network,
            began: Instant::now(),
            arguments: Vec::new(),
            environment: Vec::new(),
            seat_arguments: BTreeMap::new(),
            seat_environment: BTreeMap::new(),
            snapshot_every: None,
            entries_kept: None,
            actors: 64,
            others: Vec::new(),
            bare: false,
            tls: false,
        }
    }
}

#[derive(Debug)]
pub struct Cluster {
    options: Options,
    api_keys: ApiKeys,
    certificates: Certificates,
    machines: Arc<Machines>,
    shim: Shim,
    state: Mutex<State>,
    /// Dropped last: the processes run in its namespaces.
    wire: Wire,
    watching: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    seats: BTreeMap<Seat, Node>,
    next_id: u64,
    leaders: Vec<Leader>,
    deaths: Vec<Death>,
    /// The last backup.
    taken: Option<Taken>,
    members: Members,
    /// The secret with which nodes join, whatever their id and address.
    join_secret: Option<String>,
    /// Seats with faults of their own, and the number of these faults.
    harmed: BTreeMap<Seat, u32>,
}

/// A node on its seat.
#[derive(Debug)]
struct Node {
    id: u64,
    data: PathBuf,
    log: PathBuf,
    control: Arc<Control>,
    process: Option<Process>,
    /// Until it has joined, it must be started with the addresses of others.
    has_begun: bool,
    is_paused: bool,
    /// It may exit by itself: its disk is full or damaged.
    may_end: bool,
    /// How it exited by itself.
    ended: Option<String>,
    /// Its disk was damaged: if it does not start, it is replaced.
    is_damaged: bool,
    /// It is started as a build of later rules.
    is_newer: bool,
    /// It follows without a vote.
    learns: bool,
}

impl Cluster {
    /// Starts a cluster. Returns when every node has its vote and a leader is known.
    ///
    /// # Errors
    /// When the shim, the wire or a node does not start.
    pub async fn start(mut options: Options) -> io::Result<Arc<Self>> {
        fs::create_dir_all(&options.folder)?;
        // The shim identifies files by their real paths.
        options.folder = options.folder.canonicalize()?;
        let shim = Shim::build(&options.folder)?;
        let api_keys =
            ApiKeys::make(&options.daemon, &options.folder.join("api-keys.toml"), options.actors, &options.others)?;
        let wire = Wire::lay(options.network.clone(), options.seed).await?;
        let hosts = |seat| (seat, BTreeSet::from([wire.own_host(seat), wire.shown_host(seat)]));
        let hosts: Vec<_> = (1..=SEATS).map(hosts).collect();
        let certificates = Certificates::make(options.folder.join("certificates"), &hosts)?;
        let machines = Arc::new(Machines::new(options.began));
        let state = State {
            seats: BTreeMap::new(),
            next_id: 1,
            leaders: Vec::new(),
            deaths: Vec::new(),
            taken: None,
            members: Members::default(),
            join_secret: None,
            harmed: BTreeMap::new(),
        };
        let nodes = options.nodes;
        let cluster = Arc::new(Self {
            options,
            api_keys,
            certificates,
            machines,
            shim,
            state: Mutex::new(state),
            wire,
            watching: Mutex::new(None),
        });
        let watching = tokio::spawn(watch::run(Arc::downgrade(&cluster)));
        *cluster.watching.lock().unwrap_or_else(PoisonError::into_inner) = Some(watching);
        for seat in 1..=nodes {
            cluster.sit(seat, false)?;
            cluster.start_seat(seat).await?;
            cluster.joins(seat, LIMIT).await?;
            if seat == 1 {
                cluster.make_join_secret(seat).await?;
            }
        }
        cluster.ready(LIMIT).await?;
        Ok(cluster)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes or reads one seat.
    fn with<T>(&self, seat: Seat, what: impl FnOnce(&mut Node) -> io::Result<T>) -> io::Result<T> {
        match self.state().seats.get_mut(&seat) {
            Some(node) => what(node),
            None => Err(io::Error::other(format!("seat {seat} has no node"))),
        }
    }

    #[must_use]
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The namespace of the callers.
    #[must_use]
    pub fn machines(&self) -> &Arc<Machines> {
        &self.machines
    }

    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Microseconds since the run began.
    #[must_use]
    pub fn now(&self) -> Micros {
        u64::try_from(self.options.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Seats that have a node.
    #[must_use]
    pub fn seats(&self) -> Vec<Seat> {
        self.state().seats.keys().copied().collect()
    }

    /// Those with a running process, paused or not.
    #[must_use]
    pub fn running(&self) -> Vec<Seat> {
        self.state().seats.iter().filter(|(_, node)| node.process.is_some()).map(|(seat, _)| *seat).collect()
    }

    /// Those without a fault of their own.
    #[must_use]
    pub fn unharmed(&self) -> Vec<Seat> {
        let harmed: BTreeSet<Seat> = self.state().harmed.keys().copied().collect();
        self.running().into_iter().filter(|seat| !harmed.contains(seat)).collect()
    }

    /// Marks the beginning of a fault on these seats.
    pub fn harm(&self, seats: &[Seat]) {
        let mut state = self.state();
        for seat in seats {
            *state.harmed.entry(*seat).or_default() += 1;
        }
    }

    /// Marks the end of the fault.
    pub fn unharm(&self, seats: &[Seat]) {
        let mut state = self.state();
        for seat in seats {
            if let Some(left) = state.harmed.get_mut(seat) {
                *left -= 1;
            }
        }
        state.harmed.retain(|_, left| *left > 0);
    }

    /// Free seats; the last seat is reserved for a restored cluster.
    #[must_use]
    pub fn free_seats(&self) -> Vec<Seat> {
        let taken = self.seats();
        (1..SEATS).filter(|seat| !taken.contains(seat)).collect()
    }

    /// The id of the node on a seat.
    #[must_use]
    pub fn id(&self, seat: Seat) -> Option<u64> {
        self.state().seats.get(&seat).map(|node| node.id)
    }

    #[must_use]
    pub fn pid(&self, seat: Seat) -> Option<u32> {
        self.state().seats.get(&seat).and_then(|node| node.process.as_ref().map(Process::id))
    }

    #[must_use]
    pub fn data(&self, seat: Seat) -> Option<PathBuf> {
        self.state().seats.get(&seat).map(|node| node.data.clone())
    }

    /// # Errors
    /// When the seat has no node.
    pub fn control(&self, seat: Seat) -> io::Result<Arc<Control>> {
        self.with(seat, |node| Ok(node.control.clone()))
    }

    /// The seat of the leader, according to the nodes' own logs.
    #[must_use]
    pub fn leader(&self) -> Option<Seat> {
        self.state().leaders.last().and_then(|leader| leader.node)
    }

    /// The requested membership changes, and the memberships that were read.
    #[must_use]
    pub fn members(&self) -> Members {
        self.state().members.clone()
    }

    /// Every change of leader that was seen.
    #[must_use]
    pub fn leaders(&self) -> Vec<Leader> {
        self.state().leaders.clone()
    }

    /// Nodes that exited by themselves without a cause by the run, with their last log lines.
    #[must_use]
    pub fn deaths(&self) -> Vec<Death> {
        self.state().deaths.clone()
    }

    /// `http://host:port` of every seat, over the wire.
    #[must_use]
    pub fn endpoints(&self) -> Vec<(Seat, String)> {
        self.seats().into_iter().map(|seat| (seat, self.endpoint(seat))).collect()
    }

    #[must_use]
    pub fn endpoint(&self, seat: Seat) -> String {
        self.url(self.wire.shown_host(seat))
    }

    fn url(&self, host: std::net::Ipv4Addr) -> String {
        let scheme = if self.options.tls { "https" } else { "http" };
        format!("{scheme}://{host}:{EDGE_PORT}")
    }

    /// The CA that callers trust, if they use TLS.
    #[must_use]
    pub fn authority(&self) -> Option<PathBuf> {
        self.options.tls.then(|| self.certificates.authority())
    }

    /// The API key of `operator`, `actor-0` and so on; `None` for unknown actors.
    #[must_use]
    pub fn api_key(&self, actor: &str) -> Option<&str> {
        self.api_keys.of(actor)
    }

    /// A caller's client, over the wire, for all seats or for one.
    ///
    /// # Errors
    /// When the actor does not exist.
    pub fn client(&self, actor: &str, at: Option<Seat>) -> io::Result<Client> {
        let endpoints = match at {
            Some(seat) => vec![self.endpoint(seat)],
            None => self.endpoints().into_iter().map(|(_, endpoint)| endpoint).collect(),
        };
        self.client_at(actor, endpoints)
    }

    fn client_at(&self, actor: &str, endpoints: Vec<String>) -> io::Result<Client> {
        let api_key = self.api_key(actor).ok_or_else(|| io::Error::other(format!("{actor} has no API key")))?;
        let mut config = Config::new(endpoints, CallerIdentity::ApiKey(api_key.to_owned()));
        config.session = Session::Random;
        config.extra_ca = self.authority();
        config.clock = self.machines.of(actor).of_client();
        Client::new(config).map_err(io::Error::other)
    }

    /// Asks a node as the operator, from the node's own namespace: it is reachable whatever happens to the wire.
    ///
    /// # Errors
    /// When the namespace no longer exists.
    pub async fn ask<T, W>(&self, seat: Seat, what: impl FnOnce(Client) -> W + Send + 'static) -> io::Result<T>
    where
        T: Send + 'static,
        W: Future<Output = T> + 'static,
    {
        let client = self.client_at("operator", vec![self.url(self.wire.own_host(seat))])?;
        self.wire.place(seat).run(move || what(client)).await
    }

    fn is_newer(&self, seat: Seat) -> bool {
        self.state().seats.get(&seat).is_some_and(|node| node.is_newer)
    }

    /// Puts a new node on a free seat, without starting it.
    fn sit(&self, seat: Seat, learns: bool) -> io::Result<()> {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        let folder = self.options.folder.join(format!("seat-{seat}"));
        fs::create_dir_all(&folder)?;
        let node = Node {
            id,
            data: folder.join(format!("node-{id}")),
            log: self.options.folder.join(format!("seat-{seat}.log")),
            control: Arc::new(Control::create(folder.join(format!("control-{id}")))?),
            process: None,
            has_begun: false,
            is_paused: false,
            may_end: false,
            ended: None,
            is_damaged: false,
            is_newer: false,
            learns,
        };
        if state.seats.contains_key(&seat) {
            return Err(io::Error::other(format!("seat {seat} is taken")));
        }
        state.seats.insert(seat, node);
        Ok(())
    }

    /// Starts the node of a seat with its existing data. Does not wait.
    ///
    /// # Errors
    /// When it already runs, or cannot be started.
    pub async fn start_seat(&self, seat: Seat) -> io::Result<()> {
        let others: Vec<Seat> = self.seats().into_iter().filter(|other| *other != seat).collect();
        let (id, data, log, control) =
            self.with(seat, |node| Ok((node.id, node.data.clone(), node.log.clone(), node.control.clone())))?;
        let (has_begun, learns, runs) =
            self.with(seat, |node| Ok((node.has_begun, node.learns, node.process.is_some())))?;
        if runs {
            return Err(io::Error::other(format!("the node on seat {seat} is already running")));
        }
        control.renew(&data)?;
        control.forget_waiting()?;
        let mut arguments = self.arguments(seat, id, &data);
        if !has_begun && others.is_empty() {
            arguments.push("--bootstrap".into());
        } else if !has_begun {
            arguments.extend(["--join".into(), self.peer_addresses(&others).join(",")]);
        }
        if learns {
            arguments.push("--learner".into());
        }
        let started = self.spawn(seat, &arguments, &control, &data, &log).await?;
        self.with(seat, |node| {
            (node.process, node.is_paused, node.ended) = (Some(started), false, None);
            Ok(())
        })
    }

    fn peer_addresses(&self, seats: &[Seat]) -> Vec<String> {
        seats.iter().map(|seat| format!("{}:{PEER_PORT}", self.wire.shown_host(*seat))).collect()
    }

    fn arguments(&self, seat: Seat, id: u64, data: &Path) -> Vec<String> {
        let (own, shown) = (self.wire.own_host(seat), self.wire.shown_host(seat));
        let mut arguments: Vec<String> = vec!["--node-id".into(), id.to_string()];
        arguments.extend(["--data".into(), data.display().to_string()]);
        arguments.extend(["--peer-listen".into(), format!("{own}:{PEER_PORT}")]);
        arguments.extend(["--peer-address".into(), format!("{shown}:{PEER_PORT}")]);
        arguments.extend(["--listen".into(), format!("{own}:{EDGE_PORT}")]);
        arguments.extend(["--address".into(), format!("{shown}:{EDGE_PORT}")]);
        arguments.extend(["--api-keys".into(), self.api_keys.path().display().to_string()]);
        arguments.extend(self.certificates.arguments(seat));
        if self.options.tls {
            arguments.extend(self.certificates.arguments_for_callers(seat));
        } else {
            arguments.push("--insecure-callers".into());
        }
        for (flag, value) in
            [("--snapshot-every", self.options.snapshot_every), ("--entries-kept", self.options.entries_kept)]
        {
            arguments.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value.to_string()]));
        }
        arguments.extend(self.options.arguments.iter().cloned());
        arguments.extend(self.options.seat_arguments.get(&seat).into_iter().flatten().cloned());
        arguments
    }

    async fn spawn(
        &self,
        seat: Seat,
        arguments: &[String],
        control: &Control,
        data: &Path,
        log: &Path,
    ) -> io::Result<Process> {
        let mut environment = self.environment(seat, control, data);
        let newer = self.options.newer_daemon.as_ref().filter(|_| self.is_newer(seat));
        environment.extend(newer.map(|_| ("TENURED_NEWER".into(), "yes".into())));
        let command = process::command(newer.unwrap_or(&self.options.daemon), arguments, &environment);
        let log = log.to_owned();
        self.wire.place(seat).run(move || async move { Process::start(command, &log) }).await?
    }

    /// The environment of a node of this cluster: with the shim, unless it is disabled.
    fn environment(&self, seat: Seat, control: &Control, data: &Path) -> Vec<(String, String)> {
        let mut environment = self.options.environment.clone();
        environment.extend(self.options.seat_environment.get(&seat).into_iter().flatten().cloned());
        environment.extend(self.state().join_secret.clone().map(|secret| ("TENURED_JOIN_SECRET".into(), secret)));
        if !self.options.bare || !self.wire.has_packets() {
            environment.extend(self.under_shim(seat, control, data));
        }
        environment
    }

    fn under_shim(&self, seat: Seat, control: &Control, data: &Path) -> Vec<(String, String)> {
        let mut environment = vec![
            ("LD_PRELOAD".into(), self.shim.library().display().to_string()),
            ("JEPSEN_CONTROL".into(), control.path().display().to_string()),
            ("JEPSEN_DATA".into(), data.display().to_string()),
        ];
        if !self.wire.has_packets() {
            // With TCP proxies, other nodes see a node at the address that the shim gives it.
            environment.push(("JEPSEN_SOURCE".into(), self.wire.own_host(seat).to_string()));
        }
        environment
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(watching) = self.watching.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            watching.abort();
        }
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).seats.clear();
    }
}
