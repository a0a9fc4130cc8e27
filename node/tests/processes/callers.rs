//! Callers at work, all at the same time: they create items, hold them, finish them, and fight for a few.

use crate::history::History;
use lease::numbers::Span;
use lease::refusal::Code;
use lease::standing::StateKind;
use lease::{Command, Outcome};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use test_support::fleet::{self, Dice};
use test_support::peer_client::Client;
use tokio::task::JoinSet;

/// Long enough that no lease expires here.
const LONG: Span = Span::secs(3_600);
const SHARED: u64 = 4;

/// What all callers share: the client, and the history of requests and answers.
#[derive(Clone)]
pub(crate) struct Office {
    client: Client,
    history: Arc<Mutex<History>>,
    told: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

pub(crate) struct Callers {
    office: Office,
    tasks: JoinSet<Vec<Held>>,
}

/// An item that its holder has kept.
pub(crate) struct Held {
    actor: String,
    item: String,
    grant: usize,
}

impl Callers {
    pub(crate) async fn start(client: Client, callers: u64, seed: u64) -> Self {
        let (history, told, is_over) = <(Arc<Mutex<History>>, Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        let office = Office { client, history, told, is_over };
        for nth in 0..SHARED {
            office.create("ada", &format!("shared-{nth}")).await;
        }
        let mut tasks = JoinSet::new();
        for nth in 0..callers {
            tasks.spawn(office.clone().work(nth, seed));
        }
        Self { office, tasks }
    }

    /// The number of answers so far.
    pub(crate) fn told(&self) -> u64 {
        self.office.told.load(Ordering::Relaxed)
    }

    /// Panics if a caller has stopped because of a violation.
    pub(crate) fn check(&mut self) {
        if let Some(ended) = self.tasks.try_join_next() {
            panic!("a caller has ended: {:?}", ended.map(|_| ()));
        }
    }

    /// Each caller finishes its current work. Then callers with an item complete it: their claims were not lost.
    pub(crate) async fn finish(mut self) -> (History, usize) {
        self.office.is_over.store(true, Ordering::Relaxed);
        let mut kept = 0;
        while let Some(held) = self.tasks.join_next().await {
            for held in held.unwrap() {
                kept += 1;
                self.office.complete(&held.actor, &held.item, held.grant).await;
            }
        }
        let history = self.office.history().clone();
        (history, kept)
    }
}

impl Office {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    async fn work(self, nth: u64, seed: u64) -> Vec<Held> {
        let mut dice = Dice(seed.wrapping_mul(1_000).wrapping_add(nth));
        let actor = format!("actor-{nth}");
        let mut kept = Vec::new();
        let mut number = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            number += 1;
            if dice.roll(3) == 0 {
                self.fight(&actor, &format!("shared-{}", dice.roll(SHARED))).await;
                continue;
            }
            let item = format!("item-{nth}-{number}");
            self.create(&actor, &item).await;
            let grant = self.claim(&actor, &item).await;
            let grant = grant.unwrap_or_else(|outcome| panic!("{item} is nobody else's, but: {outcome:?}"));
            if dice.roll(4) == 0 {
                kept.push(Held { actor: actor.clone(), item, grant });
            } else {
                self.complete(&actor, &item, grant).await;
            }
        }
        kept
    }

    async fn carry_out(&self, actor: &str, command: Command) -> Outcome {
        let outcome = self.client.carry_out(actor, command).await;
        self.told.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    async fn create(&self, actor: &str, item: &str) {
        let outcome = self.carry_out(actor, fleet::create(item)).await;
        assert!(matches!(outcome, Outcome::Created { created: true, .. }), "{item}: {outcome:?}");
        self.history().created.insert(item.into());
    }

    async fn claim(&self, actor: &str, item: &str) -> Result<usize, Outcome> {
        let asked = self.history().moment();
        let outcome = self.carry_out(actor, fleet::claim(item, LONG)).await;
        let Some(grant) = outcome.grant() else { return Err(outcome) };
        assert!(!grant.renewed, "{actor} did not hold {item}: {grant:?}");
        Ok(self.history().granted(item, grant.token, asked))
    }

    async fn complete(&self, actor: &str, item: &str, grant: usize) {
        let token = self.end(grant);
        let outcome = self.carry_out(actor, fleet::complete(item, token)).await;
        assert!(matches!(outcome, Outcome::Moved { state: StateKind::Complete, .. }), "{item}: {outcome:?}");
        self.history().completed.insert(item.into());
    }

    /// Claims an item that others want, too, and releases it.
    async fn fight(&self, actor: &str, item: &str) {
        match self.claim(actor, item).await {
            Ok(grant) => {
                let token = self.end(grant);
                let outcome = self.carry_out(actor, fleet::release(item, token)).await;
                assert!(matches!(outcome, Outcome::Released { released: true, .. }), "{item}: {outcome:?}");
            }
            Err(outcome) => {
                let code = outcome.refusal().map(lease::refusal::Refusal::code);
                assert_eq!(code, Some(Code::AlreadyClaimed), "{item}: {outcome:?}");
            }
        }
    }

    fn end(&self, grant: usize) -> lease::numbers::Token {
        let mut history = self.history();
        history.ending(grant);
        history.grants[grant].token
    }
}
