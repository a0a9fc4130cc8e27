//! One caller: it calls one node at a time through the crate `client`, and every call is recorded. After a call that no
//! node accepted, or whose outcome is unknown, it switches to another node; in the latter case it continues as another
//! process.

pub mod calls;

use crate::callers::{Machine, counted_on};
use crate::dice::Dice;
use crate::history::{Answered, Asked, Batch, Belief, Granted, Micros, Operation, Outcome, Process};
use crate::recorder::Log;
use crate::world::World;
use client::api::Code;
use client::names::{ItemId, QueueName};
use client::{Call, Client, Error, Reply};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How long callers wait for an answer: some shorter than an election takes, some longer.
const PATIENCE_MS: [u64; 5] = [800, 1_000, 1_500, 2_500, 5_000];
/// One in this many calls switches to another node although the last one is fine.
const WANDERS: u64 = 16;

/// Why a call was not successful.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum No {
    Refused(Code),
    /// The answer was invalid, or the request cannot have been sent. It had no effect.
    Strange,
    Unavailable,
    /// With the request id for a retry.
    Unknown(String),
}

/// A lease, as its holder knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub item: String,
    pub token: u64,
    /// According to the answer, on the clock of the run.
    pub until: Micros,
    /// According to the answer.
    pub lasts_ms: u64,
    /// The item's revision when it was granted.
    pub revision: Option<api::names::Number>,
}

/// How the next call is made.
#[derive(Debug, Default)]
struct Manner {
    /// The request id of the next call, and whether it was used before.
    key: Option<(String, bool)>,
    patience: Option<Duration>,
    due: Option<Micros>,
}

#[derive(Debug)]
pub struct Caller {
    world: Arc<World>,
    stop: CancellationToken,
    pub dice: Dice,
    actor: String,
    /// The machine whose clock it uses for leases.
    machine: Arc<Machine>,
    session: Option<String>,
    /// One client for each node.
    clients: Vec<Client>,
    node: usize,
    process: Process,
    asked: u64,
    patience: Duration,
    manner: Manner,
    log: Log,
    /// When its last operation ended.
    last: Micros,
}

impl Caller {
    /// # Errors
    /// When the actor does not exist.
    pub fn new(world: &Arc<World>, actor: &str, mut dice: Dice, stop: &CancellationToken) -> Result<Self, String> {
        let session = world.session();
        let clients = world.clients_of(actor, Some(&session))?;
        let node = *dice.pick(&world.nodes());
        let patience = Duration::from_millis(*dice.pick(&PATIENCE_MS));
        Ok(Self {
            world: world.clone(),
            stop: stop.clone(),
            dice,
            actor: actor.to_owned(),
            machine: world.machines.of(actor),
            session: Some(session),
            clients,
            node,
            process: world.recorder.process(),
            asked: 0,
            patience,
            manner: Manner::default(),
            log: world.recorder.log(),
            last: 0,
        })
    }

    /// Another process of the same holder: their calls may overlap.
    ///
    /// # Errors
    /// When the actor does not exist.
    pub fn twin(&mut self) -> Result<Self, String> {
        let dice = Dice::new(self.dice.roll());
        let mut twin = Self::new(&self.world, &self.actor, dice, &self.stop)?;
        twin.session.clone_from(&self.session);
        twin.clients.clone_from(&self.clients);
        Ok(twin)
    }

    /// The caller dies, and the same actor starts again without its leases and waiting claims.
    pub fn reborn(&mut self) {
        let session = self.world.session();
        if let Ok(clients) = self.world.clients_of(&self.actor, Some(&session)) {
            self.clients = clients;
            self.session = Some(session);
        }
        self.process = self.world.recorder.process();
    }

    #[must_use]
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    #[must_use]
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Whether to start another operation.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        !self.stop.is_cancelled() && !self.world.recorder.is_full()
    }

    /// Pauses for this time, or until the run ends.
    pub async fn rest(&self, span: Duration) {
        tokio::select! {
            () = sleep(span) => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Pauses for a random time between these two.
    pub async fn rest_ms(&mut self, from: u64, to: u64) {
        let span = from + self.dice.below(to - from + 1);
        self.rest(Duration::from_millis(span)).await;
    }

    /// Makes no calls until the lease is over, and a while longer.
    pub async fn sleep_past(&mut self, held: &Held, more_ms: u64) {
        let span = self.world.clock.until(held.until) + Duration::from_millis(self.dice.below(more_ms.max(1)));
        self.world.recorder.lapsed(1);
        self.rest(span).await;
    }

    /// The next call uses this request id. `is_repeat`: the request was sent before.
    pub fn under(&mut self, id: &str, is_repeat: bool) -> &mut Self {
        self.manner.key = Some((id.to_owned(), is_repeat));
        self
    }

    /// The next call is given up after this time.
    pub fn hasty(&mut self, patience: Duration) -> &mut Self {
        self.manner.patience = Some(patience);
        self
    }

    /// The next call was due at this time.
    pub fn due(&mut self, at: Micros) -> &mut Self {
        self.manner.due = Some(at);
        self
    }

    /// Records a call that was due but is not sent, because there was no time for it.
    pub fn missed(&mut self, asked: Asked, due: Micros) {
        self.last = self.world.clock.now().max(self.last);
        let begun = self.log.begin(Operation {
            process: self.process,
            actor: self.actor.clone(),
            session: self.session.clone(),
            node: None,
            request_id: None,
            is_repeat: false,
            invoked: self.last,
            completed: None,
            asked,
            outcome: Outcome::Unavailable,
            batch: None,
            due: Some(due),
        });
        self.log.end(begun, self.last, Outcome::Unavailable);
    }

    /// The next call goes to another node than the last one.
    pub fn elsewhere(&mut self) -> &mut Self {
        let others: Vec<_> = self.world.nodes().into_iter().filter(|node| *node != self.node).collect();
        if !others.is_empty() {
            self.node = *self.dice.pick(&others);
        }
        self
    }

    /// A request id of this caller. It contains the time of its creation, from which a retry computes its age.
    pub fn id(&mut self) -> String {
        self.asked += 1;
        format!("{}-{}-{}", self.process, self.asked, self.world.clock.now())
    }

    /// Makes a call and records it.
    async fn ask<T: DeserializeOwned, R>(
        &mut self,
        asked: Asked,
        make: impl FnOnce(&Client) -> Call<T>,
        read: impl FnOnce(Reply<T>, &mut Answered) -> R,
    ) -> Result<R, No> {
        self.world.turn().await;
        let manner = std::mem::take(&mut self.manner);
        let has_effect = !matches!(asked, Asked::Read { .. } | Asked::ReadLocally { .. } | Asked::Line { .. });
        if self.dice.below(WANDERS) == 0 {
            self.elsewhere();
        }
        let (key, is_repeat) = match manner.key {
            Some(named) => named,
            None => (self.id(), false),
        };
        let patience = manner.patience.unwrap_or(self.patience);
        let call = make(&self.clients[self.node]).key(&key).within(patience).attempt_within(patience);
        let call = if is_repeat { call.repeated(self.age(&key)) } else { call };
        let begun = self.log.begin(Operation {
            process: self.process,
            actor: self.actor.clone(),
            session: self.session.clone(),
            node: u32::try_from(self.node + 1).ok(),
            request_id: has_effect.then(|| key.clone()),
            is_repeat,
            invoked: self.world.clock.now().max(self.last),
            completed: None,
            asked,
            outcome: Outcome::Unknown,
            batch: None,
            due: manner.due,
        });
        let answer = call.reply().await;
        self.last = self.world.clock.now().max(self.last);
        let (outcome, heard) = match answer {
            Ok(answer) => {
                let mut answered = Answered { sent: crate::recorder::micros(answer.sent_at.0), ..Answered::default() };
                let heard = read(answer, &mut answered);
                (Outcome::Ok(answered), Ok(heard))
            }
            // Nodes no longer know whether it was executed: it is refused, but may have taken effect.
            Err(Error::Refused(problem)) if problem.code == Code::RequestForgotten => {
                (Outcome::Unknown, Err(No::Refused(problem.code)))
            }
            Err(Error::Refused(problem)) => {
                (Outcome::Refused { code: problem.code.name().to_owned() }, Err(No::Refused(problem.code)))
            }
            Err(Error::Invalid(_)) => (Outcome::Refused { code: "not_understood".into() }, Err(No::Strange)),
            Err(Error::Unavailable { .. }) => (Outcome::Unavailable, Err(No::Unavailable)),
            Err(Error::Unknown { .. }) => (Outcome::Unknown, Err(No::Unknown(key))),
        };
        let is_over = matches!(heard, Ok(_) | Err(No::Refused(_) | No::Strange));
        let is_unknown = outcome == Outcome::Unknown;
        self.log.end(begun, self.last, outcome);
        if !is_over {
            self.elsewhere();
        }
        if is_unknown {
            self.process = self.world.recorder.process();
        }
        heard
    }

    /// Makes a call with many entries and records each of them as an operation. The result of each entry is read from
    /// the answer, in the order of the entries.
    async fn ask_many<T: DeserializeOwned, R>(
        &mut self,
        asked: Vec<Asked>,
        all_or_none: bool,
        make: impl FnOnce(&Client) -> Call<T>,
        read: impl FnOnce(&T, Micros) -> Vec<(Outcome, R)>,
    ) -> Result<Vec<R>, No> {
        self.world.turn().await;
        let key = self.id();
        let batch = Some(Batch { no: self.world.value(), all_or_none });
        let call = make(&self.clients[self.node]).key(&key).within(self.patience).attempt_within(self.patience);
        let invoked = self.world.clock.now().max(self.last);
        let begun: Vec<_> = asked
            .into_iter()
            .map(|asked| {
                let operation = Operation {
                    // The entries of a batch take effect at the same time.
                    process: self.world.recorder.process(),
                    actor: self.actor.clone(),
                    session: self.session.clone(),
                    node: u32::try_from(self.node + 1).ok(),
                    request_id: None,
                    is_repeat: false,
                    invoked,
                    completed: None,
                    asked,
                    outcome: Outcome::Unknown,
                    batch,
                    due: None,
                };
                self.log.begin(operation)
            })
            .collect();
        let answer = call.reply().await;
        self.last = self.world.clock.now().max(self.last);
        let (outcomes, heard): (Vec<Outcome>, Result<Vec<R>, No>) = match answer {
            Ok(answer) => {
                let (outcomes, all) =
                    read(&answer.value, crate::recorder::micros(answer.sent_at.0)).into_iter().unzip();
                (outcomes, Ok(all))
            }
            Err(Error::Refused(problem)) => {
                let refused = Outcome::Refused { code: problem.code.name().to_owned() };
                (vec![refused; begun.len()], Err(No::Refused(problem.code)))
            }
            Err(Error::Invalid(_)) => {
                let refused = Outcome::Refused { code: "not_understood".into() };
                (vec![refused; begun.len()], Err(No::Strange))
            }
            Err(Error::Unavailable { .. }) => (vec![Outcome::Unavailable; begun.len()], Err(No::Unavailable)),
            Err(Error::Unknown { .. }) => (vec![Outcome::Unknown; begun.len()], Err(No::Unknown(key))),
        };
        if matches!(heard, Err(No::Unavailable | No::Unknown(_))) {
            self.elsewhere();
        }
        for (begun, outcome) in begun.into_iter().zip(outcomes) {
            self.log.end(begun, self.last, outcome);
        }
        heard
    }

    /// The node of its next call, from 1.
    #[must_use]
    pub fn node(&self) -> usize {
        self.node + 1
    }

    /// Sends its next call to that node, from 0.
    pub fn turn_to(&mut self, node: usize) {
        self.node = node.min(self.clients.len() - 1);
    }

    /// A client for calls that are not part of the history, for the node of its next call.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.clients[self.node]
    }

    /// The age of a request id.
    fn age(&self, id: &str) -> Duration {
        let made = id.rsplit('-').next().and_then(|made| made.parse::<Micros>().ok());
        Duration::from_micros(made.map_or(0, |made| self.world.clock.now().saturating_sub(made)))
    }

    /// Whether it relies on the lease, by the clock of its machine.
    #[must_use]
    pub fn belief(&self, held: &Held) -> Option<Belief> {
        // Taken before the clock is read: if it relies on the lease then, it did at this moment.
        let at = self.world.clock.now();
        let sent = held.until.saturating_sub(held.lasts_ms * 1_000);
        let until = self.machine.shown_at(sent) + counted_on(held.lasts_ms);
        (self.machine.shown_now() < until).then(|| Belief { at, is_steady: self.machine.was_steady(sent, at) })
    }

    /// Writes to the guarded resource, whatever it believes. Returns false if the write was refused.
    pub fn write(&mut self, held: &Held) -> bool {
        let belief = self.belief(held);
        let (item, token, value) = (held.item.as_str(), held.token, self.world.value());
        let decided = self.world.resource.write(item, token, value);
        let begun = self.log.begin(Operation {
            process: self.process,
            actor: self.actor.clone(),
            session: self.session.clone(),
            node: None,
            request_id: None,
            is_repeat: false,
            invoked: decided.at,
            completed: None,
            asked: Asked::Write { item: item.to_owned(), token, value, belief },
            outcome: Outcome::Unknown,
            batch: None,
            due: None,
        });
        self.last = decided.at;
        let outcome = match decided.is_taken {
            true => Outcome::Ok(Answered { sent: decided.at, ..Answered::default() }),
            false => Outcome::Refused { code: Code::StaleToken.name().to_owned() },
        };
        self.log.end(begun, decided.at, outcome);
        decided.is_taken
    }
}

impl Held {
    /// The lease lasts for this long from the request.
    fn renewed(&mut self, sent: Micros, lasts_ms: u64) {
        (self.until, self.lasts_ms) = (sent + lasts_ms * 1_000, lasts_ms);
    }
}

fn item_id(item: &str) -> ItemId {
    ItemId::new(item).expect("what a workload calls an item is a name")
}

fn queue_name(queue: &str) -> QueueName {
    QueueName::new(queue).expect("what a workload calls a queue is a name")
}

/// The data of a grant, for the history and for its holder.
fn granted(grant: &api::claim::Grant, answered: &mut Answered) -> Held {
    answered.grants.push(Granted {
        item: grant.item.to_string(),
        token: grant.token.0,
        expires_in_ms: grant.expires_in_ms,
        renewed: grant.renewed,
    });
    Held {
        item: grant.item.to_string(),
        token: grant.token.0,
        until: answered.sent + grant.expires_in_ms * 1_000,
        lasts_ms: grant.expires_in_ms,
        revision: grant.snapshot.as_ref().map(|snapshot| snapshot.revision),
    }
}
