//! The workloads: what is prepared before the measurement, and what each caller does.

use super::{Cell, Ground, Tally, Workload};
use crate::command::failure::Failure;
use crate::command::global::random_name;
use crate::command::out::say;
use crate::command::parse;
use api::claim::{Claim, ClaimOf, Claimed, Claims, Dispatched, Next, OnConflict};
use api::hold::{Release, Renew};
use api::item::{NewItem, NewItems};
use api::queue::PolicyChange;
use api::write::{Cancel, Complete};
use client::names::ItemId;
use client::{Client, Error, ItemsQuery, Session, Token};
use futures_util::StreamExt as _;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Leases that each caller of `renew` holds.
const HELD: u32 = 100;
/// Pause of a `handoff` caller after its release.
const STEP_BACK: Duration = Duration::from_millis(10);
/// Items created in one request.
const BATCH: u32 = 500;
/// Lease duration, longer than any measurement.
const LEASE: Duration = Duration::from_secs(600);

impl Ground<'_> {
    pub(super) async fn measure(&self, workload: Workload, callers: u32) -> Result<Cell, Failure> {
        // Purges ended items soon instead of after a week. Ignored if the caller may not change the policy.
        let policy = PolicyChange { retention_ms: Some(60_000), ..PolicyChange::default() };
        let _ = self.context.client.set_policy(&self.queue, &policy).await;
        let count = match workload {
            Workload::Claim | Workload::Next => self.items,
            Workload::Renew => callers * HELD,
            Workload::Handoff => 1,
        };
        self.create(count).await?;
        let (began, tally) = match workload {
            Workload::Claim => self.claim(callers, count).await?,
            Workload::Renew => self.renew(callers).await?,
            Workload::Next => self.next(callers).await?,
            Workload::Handoff => self.handoff(callers).await?,
        };
        Ok(self.cell(workload, callers, began, &tally))
    }

    async fn create(&self, count: u32) -> Result<(), Failure> {
        let mut first = 0;
        while first < count {
            let last = count.min(first + BATCH);
            let new = |nth| Ok::<_, Failure>(NewItem::new(self.item(nth)?, self.queue.clone()));
            let items = (first..last).map(new).collect::<Result<_, _>>()?;
            self.context.client.create_many(&NewItems { items }).await?;
            first = last;
        }
        Ok(())
    }

    /// Cancels the remaining items.
    pub(super) async fn clear(&self) {
        let client = &self.context.client;
        let query = ItemsQuery { queue: Some(self.queue.clone()), limit: Some(1_000), ..ItemsQuery::default() };
        loop {
            let page = match client.items(&query).await {
                Ok(page) => page,
                Err(error) => return say(format_args!("could not empty {}: {error}", self.queue)),
            };
            let cancel = Cancel { reason: "the measurement is over".into(), force: true };
            let cancelling = page.items.iter().map(|item| client.cancel(&item.id, &cancel).into_future());
            let cancelled: Vec<_> = futures_util::stream::iter(cancelling).buffer_unordered(64).collect().await;
            if let Some(Err(error)) = cancelled.iter().find(|cancelled| cancelled.is_err()) {
                return say(format_args!("could not empty {}: {error}", self.queue));
            }
            if page.next_cursor.is_none() {
                return;
            }
        }
    }

    /// Runs callers that start together, each in its own session, until the time is over.
    async fn callers<R, W>(&self, callers: u32, make: impl Fn(u32, Client) -> R) -> Result<(Instant, Tally), Failure>
    where
        R: Future<Output = Result<W, Error>> + Send + 'static,
        W: Work,
    {
        let start = Arc::new(Barrier::new(usize::try_from(callers).unwrap_or(1) + 1));
        let lasts = self.lasts;
        let mut running = JoinSet::new();
        for nth in 0..callers {
            let ready = make(nth, self.caller(nth)?);
            let start = start.clone();
            let mut tally = Tally::new()?;
            running.spawn(async move {
                let work = ready.await;
                start.wait().await;
                let until = Instant::now() + lasts;
                match work {
                    Ok(mut work) => work.run(until, &mut tally).await,
                    Err(error) => tally.failed(error),
                }
                tally
            });
        }
        start.wait().await;
        let began = Instant::now();
        let mut all = Tally::new()?;
        while let Some(tally) = running.join_next().await {
            all.add(tally.map_err(|error| Failure::other(format!("a caller failed: {error}")))?);
        }
        Ok((began, all))
    }

    /// The client of one caller, with its own actor where possible: sessions of one actor do not wait for each other.
    fn caller(&self, nth: u32) -> Result<Client, Failure> {
        if !self.actors.is_empty() {
            let at = usize::try_from(nth).unwrap_or(0) % self.actors.len();
            return Ok(self.actors[at].in_session(Session::Random)?);
        }
        let actor = parse::actor(&format!("bench-{nth}")).map_err(Failure::Usage)?;
        match self.context.as_actor(actor)? {
            Some(client) => Ok(client),
            None => Ok(self.context.client.in_session(Session::Random)?),
        }
    }

    async fn claim(&self, callers: u32, count: u32) -> Result<(Instant, Tally), Failure> {
        let items: Arc<Vec<ItemId>> = Arc::new((0..count).map(|nth| self.item(nth)).collect::<Result<_, _>>()?);
        let at = Arc::new(AtomicU32::new(0));
        let (began, tally) = self
            .callers(callers, |_, client| {
                let (items, at) = (items.clone(), at.clone());
                async move { Ok(Claiming { client, items, at }) }
            })
            .await?;
        let taken = at.load(Ordering::Relaxed);
        if taken > count {
            say(format_args!("claim: {count} items served {taken} pairs, so items were used more than once"));
        }
        Ok((began, tally))
    }

    async fn renew(&self, callers: u32) -> Result<(Instant, Tally), Failure> {
        let mut held = Vec::new();
        for caller in 0..callers {
            let items: Result<Vec<_>, _> = (caller * HELD..(caller + 1) * HELD).map(|nth| self.item(nth)).collect();
            held.push(items?);
        }
        self.callers(callers, |nth, client| {
            let items = held.get(usize::try_from(nth).unwrap_or(0)).cloned().unwrap_or_default();
            async move {
                let claims = items.into_iter().map(claim_of).collect();
                let answered = client.claim_many(&Claims { claims, releases: Vec::new(), all_or_none: true }).await?;
                let leases = answered.claims.into_iter().filter_map(|claimed| match claimed {
                    Claimed::Granted(grant) => Some((grant.item, grant.token)),
                    Claimed::Waiting(_) | Claimed::Refused { .. } => None,
                });
                Ok(Renewing { client, leases: leases.collect() })
            }
        })
        .await
    }

    async fn next(&self, callers: u32) -> Result<(Instant, Tally), Failure> {
        self.callers(callers, |_, client| {
            let queue = self.queue.clone();
            async move { Ok(Taking { client, queue }) }
        })
        .await
    }

    async fn handoff(&self, callers: u32) -> Result<(Instant, Tally), Failure> {
        let item = self.item(0)?;
        let released = Arc::new(Mutex::new(None));
        self.callers(callers, |_, client| {
            let (item, released) = (item.clone(), released.clone());
            async move { Ok(Wanting { client, item, released }) }
        })
        .await
    }
}

fn lease_ms() -> Option<u64> {
    u64::try_from(LEASE.as_millis()).ok()
}

fn claim_of(item: ItemId) -> ClaimOf {
    ClaimOf {
        item,
        lease_for_ms: lease_ms(),
        action: None,
        field: None,
        on_conflict: OnConflict::Fail,
        wait_for_ms: None,
        line_max: None,
        takeover: false,
        mirrors: None,
    }
}

/// One caller at work.
trait Work: Send + 'static {
    fn run(&mut self, until: Instant, tally: &mut Tally) -> impl Future<Output = ()> + Send;
}

struct Claiming {
    client: Client,
    items: Arc<Vec<ItemId>>,
    at: Arc<AtomicU32>,
}

impl Work for Claiming {
    async fn run(&mut self, until: Instant, tally: &mut Tally) {
        while Instant::now() < until {
            let nth = usize::try_from(self.at.fetch_add(1, Ordering::Relaxed)).unwrap_or(0);
            let item = &self.items[nth % self.items.len()];
            let since = Instant::now();
            let paired = async {
                let claimed = self.client.request_claim(item, &Claim::default()).await?;
                let took = since.elapsed();
                let token = match claimed {
                    Claimed::Granted(grant) => Some(grant.token),
                    Claimed::Waiting(_) | Claimed::Refused { .. } => None,
                };
                self.client.release(item, &Release { token, keep_assignment: false }).await?;
                Ok::<_, Error>(took)
            };
            match paired.await {
                Ok(took) => tally.done(took),
                Err(error) => tally.failed(error),
            }
        }
    }
}

struct Renewing {
    client: Client,
    leases: Vec<(ItemId, Token)>,
}

impl Work for Renewing {
    async fn run(&mut self, until: Instant, tally: &mut Tally) {
        for (item, token) in self.leases.iter().cycle() {
            if Instant::now() >= until {
                return;
            }
            let since = Instant::now();
            match self.client.renew(item, &Renew { token: *token, lease_for_ms: None }).await {
                Ok(_) => tally.done(since.elapsed()),
                Err(error) => tally.failed(error),
            }
        }
    }
}

struct Taking {
    client: Client,
    queue: client::names::QueueName,
}

impl Work for Taking {
    async fn run(&mut self, until: Instant, tally: &mut Tally) {
        while Instant::now() < until {
            let since = Instant::now();
            let grants = match self.client.next(&self.queue, &Next::default()).await {
                Ok(Dispatched::Granted { grants }) => grants,
                // The queue is empty.
                Ok(Dispatched::Empty { .. }) => return,
                Err(error) => {
                    tally.failed(error);
                    continue;
                }
            };
            let took = since.elapsed();
            for grant in grants {
                let complete = Complete { token: Some(grant.token), read_at: None, result: None };
                match self.client.complete(&grant.item, &complete).await {
                    Ok(_) => tally.done(took),
                    Err(error) => tally.failed(error),
                }
            }
        }
    }
}

struct Wanting {
    client: Client,
    item: ItemId,
    /// When the last holder asked to release.
    released: Arc<Mutex<Option<Instant>>>,
}

impl Work for Wanting {
    async fn run(&mut self, until: Instant, tally: &mut Tally) {
        while Instant::now() < until {
            let granted = tokio::select! {
                granted = self.granted() => granted,
                () = tokio::time::sleep_until(until.into()) => break,
            };
            let token = match granted {
                Ok(token) => token,
                Err(why) => {
                    tally.failed(why);
                    continue;
                }
            };
            let released = self.released.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(since) = released {
                tally.done(since.elapsed());
            }
            *self.released.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            let release = Release { token: Some(token), keep_assignment: false };
            if let Err(error) = self.client.release(&self.item, &release).await {
                tally.failed(error);
            }
            tokio::time::sleep(STEP_BACK).await;
        }
        let _ = self.client.withdraw(&self.item).await;
        let _ = self.client.release(&self.item, &Release::default()).await;
    }
}

impl Wanting {
    async fn granted(&self) -> Result<Token, String> {
        let claim = Claim { on_conflict: OnConflict::Wait, ..Claim::default() };
        let key = random_name().map_err(|_| "no random numbers".to_owned())?;
        loop {
            match self.client.request_claim(&self.item, &claim).key(&key).await {
                Ok(Claimed::Granted(grant)) => return Ok(grant.token),
                Ok(Claimed::Waiting(_)) => {}
                Ok(Claimed::Refused { problem }) => return Err(problem.code.name().to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}
