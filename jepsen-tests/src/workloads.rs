//! What callers do: one file for each workload. A workload sets the policies of its queues, creates its items and
//! spawns its callers, which run until they are stopped. Each has its own queues and items, so that several can run
//! together.

mod assignment;
mod batch;
mod bulk;
mod depends;
mod dispatch;
mod events;
mod expiry;
pub mod finish;
mod flow;
mod honest;
mod idempotency;
mod line;
mod local;
mod long;
mod membership;
mod mutex;
mod parked;
mod register;

#[cfg(test)]
mod fleet;
#[cfg(test)]
mod tests;

use crate::caller::{Caller, No};
use crate::dice::Dice;
use crate::history::QueueSet;
use crate::world::{OPERATOR, World};
use api::queue::PolicyChange;
use api::words::Disclosure;
use client::names::QueueName;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The number of items that are created at a time before a workload begins.
const MAKERS: usize = 16;
/// The number of attempts to create one item.
const TRIES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    Mutex,
    Line,
    Dispatch,
    Assignment,
    Register,
    Idempotency,
    Expiry,
    Events,
    Membership,
    Long,
    Parked,
    Bulk,
    Batch,
    Flow,
    Depends,
    Local,
    /// Honest callers, for runs with hostile ones. Never part of a mixed run.
    Hostile,
    /// All of them at once, each smaller.
    Mixed,
}

impl Workload {
    pub const ALL: [Self; 18] = [
        Self::Mutex,
        Self::Line,
        Self::Dispatch,
        Self::Assignment,
        Self::Register,
        Self::Idempotency,
        Self::Expiry,
        Self::Events,
        Self::Membership,
        Self::Long,
        Self::Parked,
        Self::Bulk,
        Self::Batch,
        Self::Flow,
        Self::Depends,
        Self::Local,
        Self::Mixed,
        Self::Hostile,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Line => "line",
            Self::Dispatch => "dispatch",
            Self::Assignment => "assignment",
            Self::Register => "register",
            Self::Idempotency => "idempotency",
            Self::Expiry => "expiry",
            Self::Events => "events",
            Self::Membership => "membership",
            Self::Long => "long",
            Self::Parked => "parked",
            Self::Bulk => "bulk",
            Self::Batch => "batch",
            Self::Flow => "flow",
            Self::Depends => "depends",
            Self::Local => "local",
            Self::Hostile => "hostile",
            Self::Mixed => "mixed",
        }
    }

    /// The default size of a run with it.
    #[must_use]
    pub fn size(self) -> Size {
        let size = |callers, items, lease_ms| Size { callers, items, lease_for: Duration::from_millis(lease_ms) };
        match self {
            Self::Mutex => size(64, 32, 2_000),
            Self::Line => size(48, 12, 2_000),
            Self::Dispatch => size(48, 200, 2_000),
            Self::Assignment => size(48, 48, 1_500),
            Self::Register => size(48, 24, 2_000),
            Self::Idempotency => size(48, 48, 2_000),
            Self::Expiry => size(48, 16, 2_000),
            Self::Events => size(32, 32, 2_000),
            Self::Membership => size(48, 24, 2_000),
            Self::Long => size(32, 24, 2_000),
            Self::Parked => size(24, 12, 2_000),
            Self::Bulk => size(32, 3_200, 2_000),
            Self::Batch => size(32, 16, 2_000),
            Self::Flow => size(32, 24, 2_000),
            Self::Depends => size(32, 24, 2_000),
            Self::Local => size(32, 16, 2_000),
            Self::Hostile => size(128, 0, 3_000),
            Self::Mixed => size(128, 128, 2_000),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|workload| workload.name() == text);
        found.ok_or_else(|| format!("there is no workload {text}: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub callers: u32,
    pub items: u32,
    /// At least a second, which is the minimum of queues.
    pub lease_for: Duration,
}

impl Size {
    fn share(self, of: u32) -> Self {
        Self { callers: (self.callers / of).max(2), items: (self.items / of).max(2), lease_for: self.lease_for }
    }

    fn lease_ms(self) -> u64 {
        u64::try_from(self.lease_for.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A running workload.
#[derive(Debug)]
pub struct Running {
    world: Arc<World>,
    workload: Workload,
    seed: u64,
    stop: CancellationToken,
    callers: TaskTracker,
    /// Ends after the callers, so that watchers see all they did.
    watching: CancellationToken,
    watchers: TaskTracker,
}

/// Starts a workload. Returns once everything is created and the callers run.
///
/// # Errors
/// When the initial items or policies could not be created.
pub async fn start(world: &Arc<World>, workload: Workload, size: Size, seed: u64) -> Result<Running, String> {
    let running = Running {
        world: world.clone(),
        workload,
        seed,
        stop: CancellationToken::new(),
        callers: TaskTracker::new(),
        watching: CancellationToken::new(),
        watchers: TaskTracker::new(),
    };
    let begun = match workload {
        Workload::Mixed => mixed(&running, size).await,
        one => running.ground(one, one.name(), size).start(one).await,
    };
    match begun {
        Ok(()) => Ok(running),
        Err(why) => {
            running.stop().await;
            running.watched().await;
            Err(why)
        }
    }
}

/// All workloads, in shares that keep each of them busy.
async fn mixed(running: &Running, size: Size) -> Result<(), String> {
    let shares = [
        (Workload::Mutex, 6),
        (Workload::Line, 8),
        (Workload::Dispatch, 6),
        (Workload::Assignment, 12),
        (Workload::Register, 6),
        (Workload::Idempotency, 8),
        (Workload::Expiry, 8),
        (Workload::Events, 12),
        (Workload::Membership, 12),
        (Workload::Long, 12),
        (Workload::Parked, 16),
        (Workload::Bulk, 32),
        (Workload::Batch, 16),
        (Workload::Flow, 16),
        (Workload::Depends, 16),
        (Workload::Local, 16),
    ];
    for (workload, share) in shares {
        let ground = running.ground(workload, workload.name(), size.share(share));
        ground.start(workload).await.map_err(|why| format!("{workload}: {why}"))?;
    }
    Ok(())
}

impl Running {
    fn ground(&self, workload: Workload, name: &str, size: Size) -> Ground {
        let first = Workload::ALL.into_iter().position(|other| other == workload).unwrap_or(0) * 7;
        Ground {
            world: self.world.clone(),
            seed: self.seed,
            name: name.to_owned(),
            size,
            is_alone: self.workload != Workload::Mixed,
            stop: self.stop.clone(),
            callers: self.callers.clone(),
            watching: self.watching.clone(),
            watchers: self.watchers.clone(),
            next_actor: Arc::new(AtomicUsize::new(first)),
        }
    }

    /// Stops every caller, and waits until all have ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.callers.close();
        self.callers.wait().await;
    }

    /// Lets watchers read everything that has happened so far, and ends them.
    async fn watched(&self) {
        self.watching.cancel();
        self.watchers.close();
        self.watchers.wait().await;
    }
}

/// The environment of one workload.
#[derive(Clone, Debug)]
struct Ground {
    world: Arc<World>,
    seed: u64,
    /// The name of its queue, and the prefix of its items.
    name: String,
    size: Size,
    /// No other workload runs.
    is_alone: bool,
    stop: CancellationToken,
    callers: TaskTracker,
    watching: CancellationToken,
    watchers: TaskTracker,
    next_actor: Arc<AtomicUsize>,
}

impl Ground {
    async fn start(&self, workload: Workload) -> Result<(), String> {
        match workload {
            Workload::Mutex => mutex::start(self).await,
            Workload::Line => line::start(self).await,
            Workload::Dispatch => dispatch::start(self).await,
            Workload::Assignment => assignment::start(self).await,
            Workload::Register => register::start(self).await,
            Workload::Idempotency => idempotency::start(self).await,
            Workload::Expiry => expiry::start(self).await,
            Workload::Events => events::start(self).await,
            Workload::Membership => membership::start(self).await,
            Workload::Long => long::start(self).await,
            Workload::Parked => parked::start(self).await,
            Workload::Bulk => bulk::start(self).await,
            Workload::Batch => batch::start(self).await,
            Workload::Flow => flow::start(self).await,
            Workload::Depends => depends::start(self).await,
            Workload::Local => local::start(self).await,
            Workload::Hostile => honest::start(self).await,
            Workload::Mixed => Err("is made of the others".into()),
        }
    }

    /// A part of it with its own name.
    fn part(&self, name: &str, size: Size) -> Self {
        Self { name: format!("{}-{name}", self.name), size, ..self.clone() }
    }

    fn dice(&self, part: &str) -> Dice {
        Dice::of(self.seed, &format!("{}/{part}", self.name))
    }

    /// The next caller, with another actor than the one before.
    fn caller(&self) -> Result<Caller, String> {
        let nth = self.next_actor.fetch_add(1, Ordering::Relaxed);
        let actors = self.world.actors();
        self.caller_as(&actors[nth % actors.len()], nth)
    }

    fn operator(&self) -> Result<Caller, String> {
        self.caller_as(OPERATOR, self.next_actor.fetch_add(1, Ordering::Relaxed))
    }

    fn caller_as(&self, actor: &str, nth: usize) -> Result<Caller, String> {
        Caller::new(&self.world, actor, self.dice(&format!("{actor}/{nth}")), &self.stop)
    }

    fn spawn(&self, caller: impl Future<Output = ()> + Send + 'static) {
        self.callers.spawn(caller);
    }

    /// Sets the policy of a queue. By default every reader may see the holders.
    async fn set_queue(&self, queue: &str, change: PolicyChange, to_drain: bool) -> Result<(), String> {
        let change = PolicyChange {
            disclosure: change.disclosure.or(Some(Disclosure::Open)),
            lease_for_ms: change.lease_for_ms.or(Some(self.size.lease_ms())),
            // Items return to the queue however often their leases expire.
            attempts_max: change.attempts_max.or(Some(0)),
            ..change
        };
        let name = QueueName::new(queue).map_err(|bad| bad.to_string())?;
        let operator = self.world.operator()?;
        operator.set_policy(&name, &change).await.map_err(|error| format!("the policy of {queue}: {error}"))?;
        let set = QueueSet {
            queue: queue.to_owned(),
            lease_for_ms: change.lease_for_ms.unwrap_or(0),
            lock_delay_ms: change.lock_delay_ms.unwrap_or(0),
            concurrency: change.concurrency,
            max_leases: change.max_leases,
            line_max: change.line_max,
        };
        self.world.made_queue(set, to_drain);
        Ok(())
    }

    /// Creates `count` items; their creation is part of the history.
    async fn make_items(&self, queue: &str, count: u32) -> Result<Vec<String>, String> {
        let items: Vec<_> = (0..count).map(|nth| format!("{queue}-{nth}")).collect();
        let mut making = JoinSet::new();
        let actors = self.world.actors();
        let makers = MAKERS.min(items.len()).max(1);
        for (nth, actor) in (0..makers).zip(actors.iter().cycle()) {
            let mut caller = self.caller_as(actor, usize::MAX - nth)?;
            let mine: Vec<_> = items.iter().skip(nth).step_by(makers).cloned().collect();
            let queue = queue.to_owned();
            making.spawn(async move {
                for item in mine {
                    make(&mut caller, &item, &queue).await?;
                }
                Ok::<_, String>(())
            });
        }
        while let Some(made) = making.join_next().await {
            made.map_err(|error| error.to_string())??;
        }
        Ok(items)
    }
}

async fn make(caller: &mut Caller, item: &str, queue: &str) -> Result<(), String> {
    let mut last = None;
    for _ in 0..TRIES {
        match caller.create(item, queue).await {
            Ok(_) => return Ok(()),
            Err(No::Refused(code)) => return Err(format!("{item} is not made: {}", code.name())),
            Err(no) => last = Some(no),
        }
    }
    Err(format!("{item} is not made: {last:?}"))
}
