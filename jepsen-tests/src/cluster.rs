//! A cluster of real nodes, each a process in a place of its own. Whatever a run does, and however it ends, none of them
//! outlives it, and it ends none but these.
//!
//! A **seat** is a machine: an address, a disk, a shim. A node sits on a seat, and when it is replaced another one, with another
//! id, takes the seat. Histories name seats.

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
use client::{Client, Config, Identity, Session};
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

/// From 1.
pub type Seat = u32;

const LOOK_EVERY: Duration = Duration::from_millis(25);
/// For anything that a healthy cluster does in seconds.
pub const LIMIT: Duration = Duration::from_secs(60);
/// A node that is told to stop takes 25 s at most.
const STOP_WITHIN: Duration = Duration::from_secs(40);

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program `tenured`.
    pub daemon: PathBuf,
    /// Built with the feature `sabotage`: it can be a build of later rules.
    pub newer_daemon: Option<PathBuf>,
    pub nodes: u32,
    pub seed: u64,
    /// Where everything of the run lies.
    pub folder: PathBuf,
    pub network: Network,
    /// What moments count from.
    pub began: Instant,
    /// Said to every node.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Said to the node of one seat.
    pub seat_arguments: BTreeMap<Seat, Vec<String>>,
    pub seat_environment: BTreeMap<Seat, Vec<(String, String)>>,
    pub snapshot_every: Option<u64>,
    pub entries_kept: Option<u64>,
    /// `actor-0` and so on, beside `operator`.
    pub actors: u32,
    /// Actors with a role in a space and its queues.
    pub others: Vec<(&'static str, &'static str, &'static str, &'static str)>,
    /// Nodes without the shim: nothing is done to their disks and clocks, and nothing is paid for it.
    pub bare: bool,
    /// Callers speak TLS to nodes.
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
    /// Goes last: the processes are in its places.
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
    /// With which nodes join, whatever their number and address.
    join_secret: Option<String>,
    /// Seats with faults of their own, and how many.
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
    /// Without this it still has to be told whom to join.
    has_begun: bool,
    is_paused: bool,
    /// It may end by itself: its disk is full or damaged.
    may_end: bool,
    /// How it ended by itself.
    ended: Option<String>,
    /// Its disk does not hold what it held: if it does not start, it is replaced.
    is_damaged: bool,
    /// It is started as a build of later rules.
    is_newer: bool,
    /// It follows without a vote.
    learns: bool,
}

impl Cluster {
    /// Every node has its vote, and a leader is known.
    ///
    /// # Errors
    /// When the shim, the wire or a node does not come up.
    pub async fn start(mut options: Options) -> io::Result<Arc<Self>> {
        fs::create_dir_all(&options.folder)?;
        // The shim knows files by where they really are.
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

    /// Where the callers are.
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

    /// Seats that somebody sits on.
    #[must_use]
    pub fn seats(&self) -> Vec<Seat> {
        self.state().seats.keys().copied().collect()
    }

    /// Of these, where a process is, paused or not.
    #[must_use]
    pub fn running(&self) -> Vec<Seat> {
        self.state().seats.iter().filter(|(_, node)| node.process.is_some()).map(|(seat, _)| *seat).collect()
    }

    /// Of these, where no fault is under way that was done to the seat alone.
    #[must_use]
    pub fn unharmed(&self) -> Vec<Seat> {
        let harmed: BTreeSet<Seat> = self.state().harmed.keys().copied().collect();
        self.running().into_iter().filter(|seat| !harmed.contains(seat)).collect()
    }

    /// A fault is done to these seats.
    pub fn harm(&self, seats: &[Seat]) {
        let mut state = self.state();
        for seat in seats {
            *state.harmed.entry(*seat).or_default() += 1;
        }
    }

    /// It is over.
    pub fn unharm(&self, seats: &[Seat]) {
        let mut state = self.state();
        for seat in seats {
            if let Some(left) = state.harmed.get_mut(seat) {
                *left -= 1;
            }
        }
        state.harmed.retain(|_, left| *left > 0);
    }

    /// Seats that nobody sits on; the last is kept for a cluster that is restored.
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
    /// When nobody sits there.
    pub fn control(&self, seat: Seat) -> io::Result<Arc<Control>> {
        self.with(seat, |node| Ok(node.control.clone()))
    }

    /// The seat that leads, as far as the nodes' own words tell.
    #[must_use]
    pub fn leader(&self) -> Option<Seat> {
        self.state().leaders.last().and_then(|leader| leader.node)
    }

    /// Changes of the members that were asked for, and the members that were seen.
    #[must_use]
    pub fn members(&self) -> Members {
        self.state().members.clone()
    }

    /// Who was seen to lead, whenever that changed.
    #[must_use]
    pub fn leaders(&self) -> Vec<Leader> {
        self.state().leaders.clone()
    }

    /// Nodes that ended by themselves though nothing was done to them, with their last words.
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

    /// Whom callers trust, if they speak TLS.
    #[must_use]
    pub fn authority(&self) -> Option<PathBuf> {
        self.options.tls.then(|| self.certificates.authority())
    }

    /// The API key of `operator`, `actor-0` and so on; `None` for unknown actors.
    #[must_use]
    pub fn api_key(&self, actor: &str) -> Option<&str> {
        self.api_keys.of(actor)
    }

    /// A caller's client, over the wire, to all seats or to one.
    ///
    /// # Errors
    /// When there is no such actor.
    pub fn client(&self, actor: &str, at: Option<Seat>) -> io::Result<Client> {
        let endpoints = match at {
            Some(seat) => vec![self.endpoint(seat)],
            None => self.endpoints().into_iter().map(|(_, endpoint)| endpoint).collect(),
        };
        self.client_at(actor, endpoints)
    }

    fn client_at(&self, actor: &str, endpoints: Vec<String>) -> io::Result<Client> {
        let api_key = self.api_key(actor).ok_or_else(|| io::Error::other(format!("{actor} has no API key")))?;
        let mut config = Config::new(endpoints, Identity::ApiKey(api_key.to_owned()));
        config.session = Session::Random;
        config.extra_ca = self.authority();
        config.clock = self.machines.of(actor).of_client();
        Client::new(config).map_err(io::Error::other)
    }

    /// Asks a node as the operator, from its own place: whatever happens to the wire, it is reached.
    ///
    /// # Errors
    /// When the place is gone.
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

    /// A new node on a free seat. Nothing runs yet.
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

    /// Starts the node of a seat, with what it had before. Does not wait for anything.
    ///
    /// # Errors
    /// When it runs already, or cannot be started at all.
    pub async fn start_seat(&self, seat: Seat) -> io::Result<()> {
        let others: Vec<Seat> = self.seats().into_iter().filter(|other| *other != seat).collect();
        let (id, data, log, control) =
            self.with(seat, |node| Ok((node.id, node.data.clone(), node.log.clone(), node.control.clone())))?;
        let (has_begun, learns, runs) =
            self.with(seat, |node| Ok((node.has_begun, node.learns, node.process.is_some())))?;
        if runs {
            return Err(io::Error::other(format!("seat {seat} runs already")));
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

    /// Of a node of this cluster: with the shim under it, unless there is to be none.
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
            // Behind the proxies a node is known by the address that the shim gives it.
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
