//! An honest fleet, for runs with hostile callers: workers that create an item, claim it by name or get it from their
//! queue, renew it at a third of its lease, and complete it. Each keeps to a schedule that is made before the run: the
//! latency of a late call counts from when it was due, so that a stalled node counts for all calls that were due, not
//! only for the few that wait for it.

use super::Ground;
use crate::caller::{Caller, Held, No};
use crate::history::{Asked, Micros};
use crate::recorder::micros;
use api::claim::Next;
use api::queue::PolicyChange;
use std::ops::ControlFlow;
use std::time::Duration;

/// The time from one item of a worker to its next.
const PERIOD: Duration = Duration::from_secs(8);
/// How long an item is held.
const HELD: Duration = Duration::from_secs(6);
/// After this time a call is given up and sent to another node.
const ATTEMPT: Duration = Duration::from_millis(1_500);
/// The time for a step other than a renewal, with all its attempts.
const STEP: Duration = Duration::from_secs(10);
/// How long `next` waits for an item.
const WAIT_MS: u64 = 1_000;
const AGAIN_MS: (u64, u64) = (20, 120);

pub(super) async fn start(ground: &Ground) -> Result<(), String> {
    let queues = ["named", "next"].map(|way| format!("{}-{way}", ground.name));
    for queue in &queues {
        ground.set_queue(queue, PolicyChange::default(), true).await?;
    }
    let began = ground.world.clock.now();
    let callers = ground.size.callers;
    for nth in 0..callers {
        // Workers start one after another, spread evenly over a period.
        let first = began + micros(PERIOD) * u64::from(nth) / u64::from(callers);
        let by_next = nth % 2 == 1;
        let worker = Worker { queue: queues[usize::from(by_next)].clone(), by_next, nth };
        let caller = ground.caller()?;
        ground.spawn(worker.live(caller, first));
    }
    Ok(())
}

struct Worker {
    queue: String,
    by_next: bool,
    nth: u32,
}

impl Worker {
    async fn live(self, mut caller: Caller, first: Micros) {
        let mut due = first;
        for round in 0_u64.. {
            rest_until(&caller, due).await;
            if !caller.goes_on() {
                return;
            }
            let item = format!("{}-{}-{round}", self.queue, self.nth);
            if caller.world().clock.now() > due + micros(PERIOD) {
                let create =
                    Asked::Create { item, queue: self.queue.clone(), depends_on: Vec::new(), needs: Vec::new() };
                caller.missed(create, due);
            } else {
                self.round(&mut caller, &item, due).await;
            }
            due += micros(PERIOD);
        }
    }

    async fn round(&self, caller: &mut Caller, item: &str, due: Micros) {
        if self.create(caller, item, due).await.is_none() {
            return;
        }
        let due = caller.world().clock.now();
        let Some(mut held) = self.claim(caller, item, due).await else { return };
        let began = held.until.saturating_sub(held.lasts_ms * 1_000);
        let (third, ends) = (held.lasts_ms * 1_000 / 3, began + micros(HELD));
        let mut due = began + third;
        while due < ends {
            rest_until(caller, due).await;
            if !caller.goes_on() || renew(caller, &mut held, due).await.is_none() {
                return;
            }
            due += third;
        }
        rest_until(caller, ends).await;
        complete(caller, &held, ends).await;
    }

    async fn create(&self, caller: &mut Caller, item: &str, due: Micros) -> Option<bool> {
        let mut attempts = Attempts::new(due, due + micros(STEP));
        while attempts.is_there_another(caller) {
            let answer = caller.create(item, &self.queue).await;
            if let ControlFlow::Break(created) = attempts.heard(caller, answer).await {
                return created;
            }
        }
        None
    }

    async fn claim(&self, caller: &mut Caller, item: &str, due: Micros) -> Option<Held> {
        let mut attempts = Attempts::new(due, due + micros(STEP));
        while attempts.is_there_another(caller) {
            let answer = if self.by_next {
                let next = Next { count: Some(1), wait_ms: Some(WAIT_MS), ..Next::default() };
                caller.next_with(&self.queue, next, None).await.map(|granted| granted.into_iter().next())
            } else {
                caller.claim(item, None).await.map(Some)
            };
            if let ControlFlow::Break(held) = attempts.heard(caller, answer).await {
                return held.flatten();
            }
        }
        None
    }
}

async fn rest_until(caller: &Caller, at: Micros) {
    let span = caller.world().clock.until(at);
    if !span.is_zero() {
        caller.rest(span).await;
    }
}

/// Retries until it is answered, or the lease is over.
async fn renew(caller: &mut Caller, held: &mut Held, due: Micros) -> Option<()> {
    let mut attempts = Attempts::new(due, held.until);
    while attempts.is_there_another(caller) {
        let answer = caller.renew(held).await;
        if let ControlFlow::Break(renewed) = attempts.heard(caller, answer).await {
            return renewed;
        }
        // A renewal is identified by its token, and needs no request id for a retry.
        attempts.doubtful = None;
    }
    None
}

async fn complete(caller: &mut Caller, held: &Held, due: Micros) -> Option<()> {
    let mut attempts = Attempts::new(due, held.until);
    while attempts.is_there_another(caller) {
        let answer = caller.complete(&held.item, held.token).await;
        if let ControlFlow::Break(completed) = attempts.heard(caller, answer).await {
            return completed;
        }
    }
    None
}

/// Attempts at one step of a round, each at another node than one that did not answer.
struct Attempts {
    due: Micros,
    by: Micros,
    /// The request id of an attempt that may have taken effect.
    doubtful: Option<String>,
}

impl Attempts {
    fn new(due: Micros, by: Micros) -> Self {
        Self { due, by, doubtful: None }
    }

    fn is_there_another(&mut self, caller: &mut Caller) -> bool {
        if !caller.goes_on() || caller.world().clock.now() >= self.by {
            return false;
        }
        caller.hasty(ATTEMPT).due(self.due);
        if let Some(id) = &self.doubtful {
            caller.under(id, true);
        }
        true
    }

    /// `Break`: the step is over, with its answer or with a refusal.
    async fn heard<T>(&mut self, caller: &mut Caller, answer: Result<T, No>) -> ControlFlow<Option<T>> {
        match answer {
            Ok(answer) => return ControlFlow::Break(Some(answer)),
            Err(No::Refused(code)) if !code.may_retry() => return ControlFlow::Break(None),
            Err(No::Strange) => return ControlFlow::Break(None),
            Err(No::Unknown(id)) => self.doubtful = Some(id),
            Err(No::Refused(_) | No::Unavailable) => {}
        }
        caller.rest_ms(AGAIN_MS.0, AGAIN_MS.1).await;
        ControlFlow::Continue(())
    }
}
