//! A simulated cluster: actors that claim, wait, renew, write, read and stop; answers that are lost and retried; two
//! watchers. It keeps every promise, except the one that it is set to break. Its large histories prove that the
//! checkers report no false violations, and find real ones.

use crate::dice::Dice;
use crate::history::{
    Answered, Asked, End, Fault, Granted, History, Leader, Micros, Operation, Outcome, QueueSet, Seen, SeenItem,
};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The promise that the simulated cluster breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    Nothing,
    /// Old tokens are accepted.
    Fencing,
    /// Leases expire too early.
    EarlyLapse,
    /// Request ids are not remembered.
    Memory,
    /// The last in line is granted first.
    Order,
    /// Reads show an old state.
    StaleReads,
    /// In the middle of the run the last half second is lost.
    LastEntries,
}

const LEASE: Micros = 3_000_000;
const ACTORS: usize = 12;
const ITEMS: usize = 6;

#[derive(Clone, Default)]
struct Item {
    lease: Option<(usize, u64, Micros)>,
    /// The request that waited for this lease and has no answer yet.
    pickup: Option<String>,
    newest: u64,
    assignee: Option<usize>,
    line: Vec<(usize, Micros, String)>,
    value: Option<u64>,
    revision: u64,
    is_complete: bool,
}

#[derive(Clone, Default)]
struct Server {
    items: Vec<Item>,
    token: u64,
    number: u64,
    /// Answers by request.
    memory: BTreeMap<String, Outcome>,
}

/// What an actor knows.
#[derive(Clone, Default)]
struct Actor {
    held: Option<(usize, u64)>,
    /// What it held when it stopped, and may still write with.
    late: Option<(usize, u64)>,
    waits: Option<(usize, String)>,
    repeats: Option<(Asked, String)>,
    read: Option<(usize, String)>,
    requests: u64,
}

struct World {
    dice: Dice,
    breaks: Breaks,
    server: Server,
    past: Vec<(Micros, Server)>,
    actors: Vec<Actor>,
    history: History,
    wakes: BinaryHeap<Reverse<(Micros, u8, usize)>>,
    values: u64,
    watched: [Micros; 2],
    resource: Vec<u64>,
    /// The time of the server's last action.
    clock: Micros,
}

/// A run of about this many operations.
#[must_use]
pub fn simulate(seed: u64, operations: usize, breaks: Breaks) -> History {
    let mut world = World {
        dice: Dice::of(seed, "simulated"),
        breaks,
        server: Server::default(),
        past: Vec::new(),
        actors: vec![Actor::default(); ACTORS],
        history: History::default(),
        wakes: BinaryHeap::new(),
        values: 0,
        watched: [0; 2],
        resource: vec![0; ITEMS],
        clock: 0,
    };
    world.history.about.seed = seed;
    world.history.about.nodes = 3;
    world.history.about.workload = "mutex".into();
    world.history.about.nemesis = "mixed".into();
    world.history.about.queues.push(QueueSet {
        queue: "jobs".into(),
        lease_for_ms: LEASE / 1_000,
        ..QueueSet::default()
    });
    for item in 0..ITEMS {
        world.server.items.push(Item::default());
        let at = (item as u64 + 1) * 1_000;
        let revision = world.event(at, "created", item, None, json!({}));
        world.server.items[item].revision = revision;
        let answered = Answered {
            sent: at - 500,
            revision: Some(format!("0.{revision}")),
            did: Some(true),
            ..Answered::default()
        };
        let asked = Asked::Create { item: name(item), queue: "jobs".into(), depends_on: Vec::new(), needs: Vec::new() };
        world.record(0, None, at - 500, Some(at + 500), asked, Outcome::Ok(answered), false);
    }
    (0..ACTORS).for_each(|actor| world.wakes.push(Reverse((10_000 + actor as u64, 0, actor))));
    world.run(operations);
    world.finish()
}

fn name(item: usize) -> String {
    format!("item-{item}")
}

fn who(actor: usize) -> String {
    format!("actor-{actor}")
}

impl World {
    fn run(&mut self, operations: usize) {
        let mut is_cut = false;
        while self.history.operations.len() < operations {
            let Some(Reverse((now, kind, which))) = self.wakes.pop() else { break };
            if kind == 1 {
                self.lapse(which, now);
                continue;
            }
            self.lapse_due(now);
            if self.breaks == Breaks::StaleReads && self.past.last().is_none_or(|(at, _)| now > at + 20_000) {
                self.past.push((now, self.server.clone()));
                if self.past.len() > 20 {
                    self.past.remove(0);
                }
            }
            if self.breaks == Breaks::LastEntries && !is_cut {
                if self.past.is_empty() && self.history.operations.len() > operations / 2 {
                    self.past.push((now, self.server.clone()));
                } else if self.past.first().is_some_and(|(at, _)| now > at + 500_000) {
                    self.server = self.past.remove(0).1;
                    is_cut = true;
                }
            }
            self.act(which, now);
        }
    }

    fn finish(mut self) -> History {
        let now = self.history.operations.iter().filter_map(|op| op.completed).max().unwrap_or(0) + 10_000_000;
        self.lapse_due(now);
        let shown = (0..ITEMS).map(|item| (name(item), self.show(item, &self.server.items[item])));
        let terminal = self.server.items.iter().filter(|item| item.is_complete).count() as u64;
        self.history.end = Some(End {
            healed: now,
            served: Some(now + 700_000),
            items: shown.collect(),
            created: ITEMS as u64,
            live: ITEMS as u64 - terminal,
            terminal,
            purged: 0,
            hashes: (1..=3).map(|node| (node, 4_096, "9f2c".into())).collect(),
            deaths: Vec::new(),
        });
        self.history.operations.sort_by_key(|op| op.invoked);
        self.history.seen.sort_by_key(|seen| seen.at);
        self.faults(now);
        self.history
    }

    /// Only for show: the simulated cluster has none.
    fn faults(&mut self, now: Micros) {
        let mut at = 4_000_000;
        let mut node = 1;
        self.history.leaders.push(Leader { at: 0, node: Some(1), term: 1 });
        let mut term = 1;
        while at + 6_000_000 < now {
            let kind = *self.dice.pick(&["kill", "partition", "pause"]);
            let ended = at + 1_000_000 + self.dice.below(3_000_000);
            self.history.faults.push(Fault {
                kind: kind.into(),
                what: format!("{kind} of node {node}, which leads"),
                nodes: vec![node],
                began: at,
                ended: Some(ended),
                took_hold: true,
                in_force: None,
            });
            term += 1;
            node = node % 3 + 1;
            self.history.leaders.push(Leader { at: at + 100_000, node: None, term });
            self.history.leaders.push(Leader { at: at + 900_000, node: Some(node), term });
            at = ended + 5_000_000 + self.dice.below(9_000_000);
        }
    }

    fn event(&mut self, at: Micros, kind: &str, item: usize, actor: Option<usize>, mut what: serde_json::Value) -> u64 {
        self.server.number += 1;
        if let Some(actor) = actor {
            what["holder"] = json!({"actor": who(actor)});
        }
        let event = json!({
            "number": format!("0.{}", self.server.number),
            "at_ms": at / 1_000,
            "at": "2026-11-01T00:00:00.000Z",
            "kind": kind,
            "queue": "jobs",
            "item": name(item),
            "what": what,
        });
        let event: api::event::Event = serde_json::from_value(event).expect("an event");
        for watcher in 0..2 {
            let at = (at + self.dice.below(4_000)).max(self.watched[watcher] + 1);
            self.watched[watcher] = at;
            self.history.seen.push(Seen { watcher: u32::try_from(watcher).expect("two"), at, event: event.clone() });
        }
        self.server.number
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of an operation")]
    fn record(
        &mut self,
        actor: usize,
        request_id: Option<String>,
        invoked: Micros,
        completed: Option<Micros>,
        asked: Asked,
        outcome: Outcome,
        is_repeat: bool,
    ) {
        self.history.operations.push(Operation {
            process: u32::try_from(actor).expect("a few"),
            actor: who(actor),
            session: None,
            node: Some(1),
            request_id,
            is_repeat,
            invoked,
            completed,
            asked,
            outcome,
            batch: None,
            due: None,
        });
    }

    fn act(&mut self, actor: usize, now: Micros) {
        let mut state = std::mem::take(&mut self.actors[actor]);
        let (asked, id, is_repeat) = match state.repeats.take() {
            Some((asked, id)) => (asked, Some(id), true),
            None => self.choose(actor, &mut state),
        };
        if let Asked::Write { item, token, .. } = &asked {
            let at = item.trim_start_matches("item-").parse::<usize>().expect("an item");
            let is_taken = *token >= self.resource[at];
            self.resource[at] = self.resource[at].max(*token);
            let refused = Outcome::Refused { code: "stale_token".into() };
            let outcome = if is_taken { Outcome::Ok(Answered { sent: now, ..Answered::default() }) } else { refused };
            self.record(actor, None, now, Some(now), asked, outcome, false);
            self.actors[actor] = state;
            self.wakes.push(Reverse((now + 1 + self.dice.below(20_000), 0, actor)));
            return;
        }
        let effect = (now + 200 + self.dice.below(1_500)).max(self.clock);
        self.clock = effect;
        let is_lost = self.dice.chance(3);
        let happens = !is_lost || self.dice.chance(60);
        let remembered = id.as_ref().filter(|_| self.breaks != Breaks::Memory).map(|id| format!("{actor}/{id}"));
        let before = remembered.as_ref().and_then(|key| self.server.memory.get(key)).cloned();
        let mut outcome = match before {
            Some(mut outcome) => {
                if let Outcome::Ok(answered) = &mut outcome {
                    answered.sent = now;
                    for granted in &mut answered.grants {
                        let lease = self.server.items.iter().filter_map(|item| item.lease);
                        let left = lease.filter(|lease| lease.1 == granted.token).map(|lease| lease.2 - effect).next();
                        granted.expires_in_ms = left.unwrap_or(0) / 1_000;
                    }
                }
                outcome
            }
            None if happens => self.take(actor, now, effect, &asked, id.as_deref()),
            None => Outcome::Unknown,
        };
        let is_renewal = matches!(asked, Asked::Renew { .. } | Asked::Read { .. });
        let is_waiting = matches!(&outcome, Outcome::Ok(answered) if answered.place.is_some());
        if let Some(key) = remembered.filter(|_| happens && !is_renewal && !is_waiting) {
            self.server.memory.insert(key, outcome.clone());
        }
        let mut completed = Some(effect + 200 + self.dice.below(2_000));
        if is_lost {
            (outcome, completed) = (Outcome::Unknown, None);
            if let Some(id) = id.clone().filter(|_| self.dice.chance(70)) {
                state.repeats = Some((asked.clone(), id));
            }
        }
        if let Some(id) = id.clone().filter(|_| !is_lost && !is_waiting && self.dice.chance(5)) {
            state.repeats = Some((asked.clone(), id));
        }
        learn(&mut state, &asked, &outcome, id.as_deref());
        self.record(actor, id, now, completed, asked, outcome, is_repeat);
        let think = if self.dice.chance(2) { self.dice.below(6_000_000) } else { self.dice.below(30_000) };
        self.actors[actor] = state;
        self.wakes.push(Reverse((completed.unwrap_or(now + 300_000) + 1 + think, 0, actor)));
    }

    fn choose(&mut self, actor: usize, state: &mut Actor) -> (Asked, Option<String>, bool) {
        state.requests += 1;
        let fresh = Some(format!("{actor}-{}", state.requests));
        if let Some((item, id)) = &state.waits {
            return (
                Asked::Claim { item: name(*item), lease_for_ms: None, waits: true, takeover: false },
                Some(id.clone()),
                true,
            );
        }
        self.values += 1;
        let value = self.values;
        if let Some((item, token)) = state.held {
            let item_name = name(item);
            return match self.dice.below(20) {
                0..=4 => (Asked::Renew { item: item_name, token }, None, false),
                5..=8 => (Asked::Write { item: item_name, token, value, belief: None }, None, false),
                9..=11 => (Asked::Update { item: item_name, token: Some(token), read_at: None, value }, fresh, false),
                12..=14 => (Asked::Read { item: item_name }, None, false),
                15..=18 => {
                    state.held = None;
                    (Asked::Release { item: item_name, token }, fresh, false)
                }
                _ => {
                    state.late = state.held.take();
                    (Asked::Read { item: item_name }, None, false)
                }
            };
        }
        if let Some((item, token)) = state.late.filter(|_| self.dice.chance(5)) {
            let (item, is_outside) = (name(item), self.dice.chance(50));
            let update = Asked::Update { item: item.clone(), token: Some(token), read_at: None, value };
            return if is_outside {
                (Asked::Write { item, token, value, belief: None }, None, false)
            } else {
                (update, fresh, false)
            };
        }
        let item = usize::try_from(self.dice.below(ITEMS as u64)).expect("a few");
        if let Some((item, read_at)) = state.read.take().filter(|_| self.dice.chance(50)) {
            return (Asked::Update { item: name(item), token: None, read_at: Some(read_at), value }, fresh, false);
        }
        match self.dice.below(10) {
            0..=3 => (Asked::Read { item: name(item) }, None, false),
            4..=6 => {
                (Asked::Claim { item: name(item), lease_for_ms: None, waits: false, takeover: false }, fresh, false)
            }
            _ => (Asked::Claim { item: name(item), lease_for_ms: None, waits: true, takeover: false }, fresh, false),
        }
    }

    /// Executes the request on the server at that moment.
    fn take(&mut self, actor: usize, sent: Micros, at: Micros, asked: &Asked, id: Option<&str>) -> Outcome {
        self.lapse_due(at);
        let no: usize = asked.item().and_then(|item| item.trim_start_matches("item-").parse().ok()).expect("an item");
        let refused = |code: &str| Outcome::Refused { code: code.into() };
        let item = self.server.items[no].clone();
        let is_held_by = |token: u64| item.lease.is_some_and(|(holder, held, _)| (holder, held) == (actor, token));
        let is_old = |token: u64| token < item.newest && self.breaks != Breaks::Fencing;
        match asked {
            Asked::Claim { waits, .. } => self.claim(actor, sent, at, no, *waits, id),
            Asked::Renew { token, .. } if is_held_by(*token) => {
                self.server.items[no].lease = Some((actor, *token, at + LEASE));
                self.wakes.push(Reverse((at + LEASE, 1, no)));
                Outcome::Ok(Answered { sent, expires_in_ms: Some(LEASE / 1_000), ..Answered::default() })
            }
            Asked::Renew { .. } => refused("lease_lost"),
            Asked::Release { token, .. } if is_held_by(*token) => {
                self.server.items[no].lease = None;
                self.server.items[no].assignee = None;
                self.event(at, "released", no, Some(actor), json!({"token": token}));
                self.settle(no, at);
                Outcome::Ok(Answered { sent, did: Some(true), ..Answered::default() })
            }
            Asked::Release { .. } => Outcome::Ok(Answered { sent, did: Some(false), ..Answered::default() }),
            Asked::Update { token: Some(token), .. } if is_old(*token) => refused("stale_token"),
            Asked::Update { token: Some(token), .. } if !is_held_by(*token) && self.breaks != Breaks::Fencing => {
                refused(if item.lease.is_some() { "not_holder" } else { "lease_required" })
            }
            Asked::Update { token: None, .. } if item.lease.is_some() => refused("already_claimed"),
            Asked::Update { read_at: Some(read_at), .. } if *read_at != format!("0.{}", item.revision) => {
                refused("stale_write")
            }
            Asked::Update { value, .. } => {
                let revision = self.event(at, "updated", no, None, json!({"fields": ["data"]}));
                let item = &mut self.server.items[no];
                (item.value, item.revision) = (Some(*value), revision);
                Outcome::Ok(Answered { sent, revision: Some(format!("0.{revision}")), ..Answered::default() })
            }
            Asked::Read { .. } => {
                let old = self
                    .past
                    .first()
                    .filter(|_| self.breaks == Breaks::StaleReads)
                    .map(|(_, server)| &server.items[no]);
                let shown = self.show(no, old.unwrap_or(&item));
                Outcome::Ok(Answered { sent, item: Some(shown), ..Answered::default() })
            }
            _ => refused("invalid"),
        }
    }

    fn show(&self, _no: usize, item: &Item) -> SeenItem {
        SeenItem {
            state: if item.lease.is_some() { "active" } else { "queued" }.into(),
            revision: format!("0.{}", item.revision),
            value: item.value,
            holder: item.lease.map(|(holder, ..)| who(holder)),
            token: None,
            assignee: item.assignee.map(who),
        }
    }

    fn claim(&mut self, actor: usize, sent: Micros, at: Micros, no: usize, waits: bool, id: Option<&str>) -> Outcome {
        let held = self.server.items[no].lease;
        let granted = |token: u64, left: Micros, renewed: bool| {
            let grants = vec![Granted { item: name(no), token, expires_in_ms: left / 1_000, renewed }];
            Outcome::Ok(Answered { sent, grants, ..Answered::default() })
        };
        if let Some((holder, token, until)) = held.filter(|held| held.0 == actor) {
            let until = until.max(at + LEASE);
            self.server.items[no].lease = Some((holder, token, until));
            self.wakes.push(Reverse((until, 1, no)));
            // A grant from the line is the answer to the waiting request.
            let is_fresh = self.server.items[no].pickup.take().is_some();
            if is_fresh {
                self.server.items[no].assignee = Some(actor);
                self.event(at, "picked_up", no, Some(actor), json!({"token": token}));
            }
            return granted(token, until - at, !is_fresh);
        }
        self.server.items[no].line.iter_mut().filter(|(waiter, ..)| *waiter == actor).for_each(|place| place.1 = at);
        let line = &self.server.items[no].line;
        let place = line.iter().position(|(waiter, ..)| *waiter == actor);
        if held.is_none() && line.is_empty() {
            let token = self.grant(no, actor, at, false);
            return granted(token, LEASE, false);
        }
        if !waits {
            return Outcome::Refused { code: "already_claimed".into() };
        }
        let place = place.unwrap_or_else(|| {
            let place = self.server.items[no].line.len();
            self.server.items[no].line.push((actor, at, id.unwrap_or_default().to_owned()));
            self.event(at, "joined", no, Some(actor), json!({"place": place}));
            place
        });
        Outcome::Ok(Answered { sent, place: u32::try_from(place).ok(), ..Answered::default() })
    }

    fn grant(&mut self, no: usize, actor: usize, at: Micros, from_line: bool) -> u64 {
        self.server.token += 1;
        let token = self.server.token;
        let item = &mut self.server.items[no];
        (item.lease, item.newest) = (Some((actor, token, at + LEASE)), token);
        if !from_line {
            item.assignee = Some(actor);
        }
        let what = json!({"token": token, "from_line": from_line, "expires_at_ms": (at + LEASE) / 1_000});
        self.event(at, "granted", no, Some(actor), what);
        self.wakes.push(Reverse((at + LEASE, 1, no)));
        token
    }

    fn settle(&mut self, no: usize, at: Micros) {
        while !self.server.items[no].line.is_empty() && self.server.items[no].lease.is_none() {
            let line = &mut self.server.items[no].line;
            let first = if self.breaks == Breaks::Order { line.len() - 1 } else { 0 };
            let (actor, polled, id) = line.remove(first);
            if polled + 30_000_000 <= at {
                self.event(at, "left_line", no, Some(actor), json!({"answer": "wait_timeout"}));
            } else {
                self.server.items[no].pickup = Some(id);
                self.grant(no, actor, at, true);
            }
        }
    }

    fn lapse_due(&mut self, now: Micros) {
        (0..ITEMS).for_each(|no| self.lapse(no, now));
    }

    fn lapse(&mut self, no: usize, now: Micros) {
        let early = if self.breaks == Breaks::EarlyLapse { LEASE / 3 } else { 0 };
        let Some((holder, token, until)) = self.server.items[no].lease else { return };
        if now + early >= until {
            let now = now.max(self.clock);
            self.clock = now;
            self.server.items[no].lease = None;
            if let Some(id) = self.server.items[no].pickup.take() {
                let lost = Outcome::Refused { code: "lease_lost".into() };
                self.server.memory.insert(format!("{holder}/{id}"), lost);
                self.event(now, "not_picked_up", no, Some(holder), json!({"token": token}));
            } else {
                self.event(now, "expired", no, Some(holder), json!({"token": token, "attempt": true}));
            }
            self.settle(no, now);
        }
    }
}

/// What the actor learns from the answer.
fn learn(state: &mut Actor, asked: &Asked, outcome: &Outcome, id: Option<&str>) {
    let item = || asked.item().and_then(|item| item.trim_start_matches("item-").parse().ok()).unwrap_or(0);
    match (asked, outcome) {
        (Asked::Claim { .. }, Outcome::Ok(answered)) => {
            state.waits = answered.place.map(|_| (item(), id.unwrap_or_default().to_owned()));
            state.held = answered.grants.first().map(|granted| (item(), granted.token));
        }
        (Asked::Claim { .. }, Outcome::Refused { .. }) => state.waits = None,
        (Asked::Renew { .. }, Outcome::Refused { .. }) => state.held = None,
        (Asked::Read { .. }, Outcome::Ok(answered)) => {
            state.read = answered.item.as_ref().map(|seen| (item(), seen.revision.clone()));
        }
        _ => {}
    }
}

mod tests {
    use super::*;
    use crate::checkers::check;

    fn broken(seed: u64, breaks: Breaks) -> Vec<&'static str> {
        let history = simulate(seed, 4_000, breaks);
        check(&history).into_iter().filter(|verdict| !verdict.holds()).map(|verdict| verdict.id).collect()
    }

    #[test]
    fn a_correct_cluster_has_no_violations() {
        for seed in 0..40 {
            let history = simulate(seed, 4_000, Breaks::Nothing);
            for verdict in check(&history) {
                let first = verdict.violations.first();
                assert!(verdict.holds(), "seed {seed}: {} {first:#?}", verdict.id);
                assert_eq!(verdict.undecided, 0, "seed {seed}: {}", verdict.id);
            }
        }
    }

    #[test]
    fn each_broken_promise_is_found() {
        let cases = [
            (Breaks::Fencing, "I1"),
            (Breaks::EarlyLapse, "I3"),
            (Breaks::Memory, "I10"),
            (Breaks::Order, "I8"),
            (Breaks::StaleReads, "I11"),
            (Breaks::LastEntries, "I16"),
        ];
        for (breaks, id) in cases {
            for seed in 0..5 {
                let found = broken(seed, breaks);
                assert!(found.contains(&id), "{breaks:?}, seed {seed}: {id} is not among {found:?}");
            }
        }
    }
}
