//! Shared by all callers of a run: the addresses of the nodes, the API keys, the clock, the recorder, the guarded
//! resource, and the list of everything created, which is read at the end of the run.

use crate::callers::Machines;
use crate::history::{Burst, Micros, QueueSet};
use crate::recorder::{Bounds, Progress, Recorder, RunClock};
use crate::resource::Resource;
use client::names::SessionId;
use client::{CallerIdentity, Client, Config, Session};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// The actor with all rights.
pub const OPERATOR: &str = "operator";

/// The time for a call of the setup or of reading the final state.
const IN_PEACE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct World {
    pub clock: RunClock,
    pub recorder: Arc<Recorder>,
    pub resource: Resource,
    /// The machines of the callers.
    pub machines: Arc<Machines>,
    nodes: Vec<Node>,
    api_keys: BTreeMap<String, String>,
    /// The CA that callers trust, if they use TLS.
    authority: Option<PathBuf>,
    /// The clients of each actor, one for each node.
    clients: Mutex<BTreeMap<String, Vec<Client>>>,
    values: AtomicU64,
    sessions: AtomicU64,
    /// The interval between two operations of the whole run; 0: no limit.
    interval: AtomicU64,
    next_turn: AtomicU64,
    made: Mutex<Made>,
    bursts: Mutex<Vec<Burst>>,
}

#[derive(Debug)]
struct Node {
    endpoint: String,
    is_asked: AtomicBool,
}

/// Everything that a run has created in the cluster.
#[derive(Debug, Default)]
struct Made {
    queues: Vec<QueueSet>,
    /// Whether anybody wrote a value to it.
    items: BTreeMap<String, bool>,
    to_drain: Vec<String>,
}

impl World {
    /// `authority`: the CA that callers trust, if they use TLS. `api_keys`: the API key of each actor. Every actor
    /// except the operator needs the roles reader, worker and dispatcher; the operator needs all roles.
    ///
    /// # Errors
    /// When an address is invalid, or there is no operator.
    pub fn new(
        clock: RunClock,
        machines: Arc<Machines>,
        endpoints: Vec<String>,
        api_keys: BTreeMap<String, String>,
        authority: Option<PathBuf>,
        bounds: Bounds,
    ) -> Result<Arc<Self>, String> {
        if !api_keys.contains_key(OPERATOR) || api_keys.len() < 2 {
            return Err("the run needs an operator and at least one other actor".into());
        }
        let node = |endpoint| Node { endpoint, is_asked: AtomicBool::new(true) };
        let world = Self {
            clock,
            recorder: Recorder::new(bounds),
            resource: Resource::new(clock),
            machines,
            nodes: endpoints.into_iter().map(node).collect(),
            api_keys,
            authority,
            clients: Mutex::default(),
            values: AtomicU64::new(1),
            sessions: AtomicU64::new(0),
            interval: AtomicU64::new(0),
            next_turn: AtomicU64::new(0),
            made: Mutex::default(),
            bursts: Mutex::default(),
        };
        let world = Arc::new(world);
        world.clients_of(OPERATOR, None)?;
        Ok(world)
    }

    /// The nodes that callers use, from 0.
    #[must_use]
    pub fn nodes(&self) -> Vec<usize> {
        let asked = |(at, node): (usize, &Node)| node.is_asked.load(Ordering::Relaxed).then_some(at);
        let nodes: Vec<_> = self.nodes.iter().enumerate().filter_map(asked).collect();
        if nodes.is_empty() { (0..self.nodes.len()).collect() } else { nodes }
    }

    /// Whether a node, from 0, has this address.
    #[must_use]
    pub fn is_at(&self, node: usize, address: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.endpoint.ends_with(&format!("//{address}")))
    }

    pub fn had_burst(&self, burst: Burst) {
        self.bursts.lock().unwrap_or_else(PoisonError::into_inner).push(burst);
    }

    #[must_use]
    pub fn bursts(&self) -> Vec<Burst> {
        self.bursts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Callers use that node, from 1, or no longer do, because it was added or removed.
    pub fn ask(&self, node: u32, is_asked: bool) {
        let at = usize::try_from(node).unwrap_or(0).saturating_sub(1);
        if let Some(node) = self.nodes.get(at) {
            node.is_asked.store(is_asked, Ordering::Relaxed);
        }
    }

    /// Limits the operations per second of all callers, so that the history of a long run fits. 0: no limit.
    pub fn pace(&self, per_second: u32) {
        let interval = 1_000_000_u64.checked_div(u64::from(per_second)).unwrap_or(0);
        self.interval.store(interval, Ordering::Relaxed);
    }

    /// Waits for the caller's turn. Unused turns, while no node answered, are not made up for.
    pub async fn turn(&self) {
        let interval = self.interval.load(Ordering::Relaxed);
        if interval == 0 {
            return;
        }
        let now = self.clock.now();
        let mine = |next: Micros| Some(next.max(now) + interval);
        let turn = self.next_turn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, mine).unwrap_or(now).max(now);
        if turn > now {
            sleep(Duration::from_micros(turn - now)).await;
        }
    }

    /// All actors except the operator.
    #[must_use]
    pub fn actors(&self) -> Vec<String> {
        let mut actors: Vec<_> = self.api_keys.keys().filter(|actor| *actor != OPERATOR).cloned().collect();
        actors.sort_by_key(|actor| (actor.len(), actor.clone()));
        actors
    }

    /// One client for each node, which calls no other node.
    ///
    /// # Errors
    /// When the actor does not exist.
    pub fn clients_of(&self, actor: &str, session: Option<&str>) -> Result<Vec<Client>, String> {
        let mut known = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(actor) {
            let made: Result<_, _> = self.nodes.iter().map(|node| self.client([&node.endpoint], actor)).collect();
            known.insert(actor.to_owned(), made?);
        }
        let session = match session {
            Some(name) => Session::Named(SessionId::new(name).map_err(|bad| bad.to_string())?),
            None => Session::None,
        };
        let mine = |client: &Client| client.in_session(session.clone()).map_err(|error| error.to_string());
        known[actor].iter().map(mine).collect()
    }

    /// A client of the operator, for calls that are not part of the history: it calls any node that answers, with long
    /// time limits.
    ///
    /// # Errors
    /// When the client cannot be created.
    pub fn operator(&self) -> Result<Client, String> {
        let endpoints = self.nodes().into_iter().map(|at| &self.nodes[at].endpoint);
        self.client(endpoints, OPERATOR)
    }

    fn client<'a>(&self, endpoints: impl IntoIterator<Item = &'a String>, actor: &str) -> Result<Client, String> {
        let api_key = self.api_keys.get(actor).ok_or_else(|| format!("{actor} has no API key"))?;
        let mut config = Config::new(endpoints.into_iter().cloned(), CallerIdentity::ApiKey(api_key.clone()));
        config.session = Session::None;
        config.extra_ca.clone_from(&self.authority);
        config.within = IN_PEACE;
        config.clock = self.clock.of_client();
        Client::new(config).map_err(|error| error.to_string())
    }

    /// A number that no other update or write of the run uses.
    pub fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }

    /// A name that no other session of the run uses.
    pub fn session(&self) -> String {
        format!("s{}", self.sessions.fetch_add(1, Ordering::Relaxed))
    }

    #[must_use]
    pub fn progress(&self) -> Progress {
        self.recorder.progress()
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn made_queue(&self, queue: QueueSet, to_drain: bool) {
        let mut made = self.made();
        if to_drain {
            made.to_drain.push(queue.queue.clone());
        }
        made.queues.push(queue);
    }

    /// From now on the item may exist.
    pub fn made_item(&self, item: &str) {
        let mut made = self.made();
        if !made.items.contains_key(item) {
            made.items.insert(item.to_owned(), false);
        }
    }

    /// From now on the item may have a value.
    pub fn wrote(&self, item: &str) {
        let mut made = self.made();
        match made.items.get_mut(item) {
            Some(has_value) => *has_value = true,
            None => {
                made.items.insert(item.to_owned(), true);
            }
        }
    }

    #[must_use]
    pub fn queues(&self) -> Vec<QueueSet> {
        self.made().queues.clone()
    }

    #[must_use]
    pub fn to_drain(&self) -> Vec<String> {
        self.made().to_drain.clone()
    }

    /// Every item, and whether anybody wrote a value to it.
    #[must_use]
    pub fn items(&self) -> BTreeMap<String, bool> {
        self.made().items.clone()
    }
}
