//! The callers: a few actors in a few sessions that compete for a few items. They remember their answers, so most of
//! their commands make sense, and many come too late.

mod claim;
mod content;
mod invalid;
mod learn;
mod pick;
mod policy;
mod request;
mod verb;

use crate::random::Random;
use lease::caller::{ActorKind, Caller, Holder, QueueScope, Right, Role, Verified};
use lease::command::{Attempt, Command, Entry, Request};
use lease::item::NewItem;
use lease::names::{ActorId, ItemId, Label, QueueName, RequestId, SessionId, SpaceName};
use lease::numbers::{Revision, Time, Token, Wall};
use std::collections::BTreeMap;
use verb::{Verb, WEIGHTS};

/// 2026-03-01.
const WALL_START: u64 = 1_772_323_200_000;

/// An item and its space.
type ItemPath = (SpaceName, ItemId);

#[derive(Clone, Debug)]
struct Known {
    space: SpaceName,
    item: ItemId,
    token: Token,
    holder: Holder,
}

#[derive(Debug)]
pub(crate) struct World {
    random: Random,
    actors: Vec<Caller>,
    sessions: Vec<Option<SessionId>>,
    spaces: Vec<SpaceName>,
    queues: Vec<QueueName>,
    items: Vec<ItemId>,
    /// Items of the second space: at most 50 in both spaces together.
    items_elsewhere: Vec<ItemId>,
    at: u64,
    wall: u64,
    requests: u64,
    entries: u64,
    /// About how much time passes between entries.
    pace: u64,
    held: BTreeMap<ItemPath, Known>,
    gone: Vec<Known>,
    revisions: BTreeMap<ItemPath, Revision>,
    waiting: Vec<Request>,
    recent: Vec<Request>,
    closed: Vec<(SpaceName, QueueName)>,
    is_activated: bool,
    /// Items that exist, and whether they are terminal.
    there: BTreeMap<ItemPath, bool>,
    /// The items that an entry's commands mostly name.
    focus: Option<ItemPath>,
    /// How many of the actors take part.
    crowd: usize,
    weights: Vec<(u64, Verb)>,
}

fn actor(name: &str, kind: ActorKind, parent: Option<&str>, roles: &[Role], queues: &str) -> Caller {
    let id = |name: &str| ActorId::new(name).expect("a name");
    let right = |role: &Role| Right { role: *role, queues: QueueScope::prefix(queues) };
    Caller {
        actor: id(name),
        kind,
        parent: parent.map(id),
        session: None,
        verified: Verified::Checked,
        rights: roles.iter().map(right).collect(),
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        use ActorKind::{Agent, System, User};
        use Role::{Admin, Dispatcher, Operator, Reader, Worker};
        let mut random = Random::new(seed);
        let item = |number: u64| ItemId::new(&format!("i{number}")).expect("a name");
        let count = *random.pick(&[4, 8, 15, 38]);
        let mut weights = WEIGHTS.to_vec();
        // Each history has its own mix of commands.
        for weight in &mut weights {
            weight.0 = weight.0 * *random.pick(&[1, 2, 2, 4]) + u64::from(weight.0 > 0);
        }
        Self {
            actors: vec![
                actor("ada", User, None, &[Worker, Dispatcher, Operator], ""),
                actor("bob", User, None, &[Worker, Dispatcher], ""),
                actor("cam", Agent, Some("ada"), &[Worker], ""),
                actor("dan", Agent, Some("ada"), &[Worker, Dispatcher], ""),
                actor("eve", Agent, Some("bob"), &[Worker, Dispatcher], ""),
                actor("fay", Agent, Some("bob"), &[Worker], "q"),
                actor("gus", Agent, None, &[Worker, Reader], "qa"),
                actor("ops", System, None, &[Operator, Admin, Dispatcher, Worker], ""),
            ],
            sessions: vec![None, Some("s1"), Some("s2")]
                .into_iter()
                .map(|name| name.map(|name| SessionId::new(name).expect("a name")))
                .collect(),
            spaces: ["default", "other"].map(|name| SpaceName::new(name).expect("a name")).to_vec(),
            queues: ["qa", "qb", "z"].map(|name| QueueName::new(name).expect("a name")).to_vec(),
            items: (0..count).map(item).collect(),
            items_elsewhere: (0..random.between(2, 12)).map(item).collect(),
            at: 1_000,
            wall: WALL_START,
            requests: 0,
            entries: 0,
            pace: *random.pick(&[200, 1_000, 1_000, 3_000, 10_000]),
            held: BTreeMap::new(),
            gone: Vec::new(),
            revisions: BTreeMap::new(),
            waiting: Vec::new(),
            recent: Vec::new(),
            closed: Vec::new(),
            is_activated: true,
            there: BTreeMap::new(),
            focus: None,
            crowd: *random.pick(&[2, 4, 8, 8]),
            weights,
            random,
        }
    }

    /// The next entry, with at most this many commands.
    pub(crate) fn entry(&mut self, most: usize) -> Entry {
        self.entries += 1;
        self.pass_time();
        self.focus = None;
        if self.random.percent(60) && !self.there.is_empty() {
            let index = self.random.index(self.there.len());
            self.focus = self.there.keys().nth(index).cloned();
        }
        let count = match self.random.below(100) {
            _ if self.entries <= 2 => 12,
            0..4 => 0,
            4..50 => 1,
            50..80 => self.random.between(2, 4),
            _ => self.random.between(5, 20),
        };
        let count = usize::try_from(count).expect("small").min(most);
        let mut commands: Vec<Request> = Vec::with_capacity(count);
        while commands.len() < count {
            let request = if self.entries <= 2 { self.first_request() } else { self.request(&commands) };
            if matches!(request.command, Command::BeginEpoch { .. }) && self.random.percent(80) {
                self.wall = self.wall.max(WALL_START) + 100_000;
            }
            let ended = match &request.command {
                Command::Complete(complete) => Some((request.space.clone(), complete.write.item.clone())),
                Command::Cancel(cancel) if cancel.force => Some((request.space.clone(), cancel.item.clone())),
                _ => None,
            };
            commands.push(request);
            // An item that ends may be reopened at once and waited for again.
            if let Some((space, item)) = ended
                && commands.len() + 2 <= count
                && self.random.percent(25)
            {
                let caller = self.operator();
                let mut dependent = NewItem::new(self.any_item(&space), self.queue());
                dependent.depends_on = Some(item.clone()).filter(|item| *item != dependent.id).into_iter().collect();
                commands.push(self.fresh(space.clone(), caller.clone(), Command::Reopen { item }));
                commands.push(self.fresh(space, caller, Command::Create(Box::new(dependent))));
            }
        }
        Entry { at: Time(self.at), wall: Wall(self.wall), commands }
    }

    /// Time is skewed, repeated, backward and sometimes far ahead; the wall clock is independent of it.
    fn pass_time(&mut self) {
        let pace = self.pace;
        self.at = match self.random.below(100) {
            0..15 => self.at,
            15..25 => self.at.saturating_sub(self.random.below(20_000)),
            25..85 => self.at + self.random.below(pace),
            85..95 => self.at + self.random.below(10 * pace),
            95..99 => self.at + self.random.below(90_000),
            _ if self.random.percent(5) => self.at + self.random.below(200_000_000),
            _ => self.at + self.random.below(900_000),
        };
        self.wall = match self.random.below(100) {
            0..20 => self.wall,
            20..35 => self.wall.saturating_sub(self.random.below(60_000)),
            35..95 => self.wall + self.random.below(2 * pace),
            _ => self.wall + self.random.below(300_000),
        };
    }

    /// The first commands of a new world: tight policies and some items.
    fn first_request(&mut self) -> Request {
        let space = self.spaces[usize::from(self.random.percent(30))].clone();
        let caller = self.operator();
        let command = if self.entries == 1 { self.set_policy() } else { self.create_many(&space) };
        self.fresh(space, caller, command)
    }

    fn fresh(&mut self, space: SpaceName, caller: Caller, command: Command) -> Request {
        self.requests += 1;
        let request_id = RequestId::new(&format!("r{}", self.requests)).expect("a name");
        Request { space, caller, request_id, attempt: self.attempt(3), command }
    }

    /// A repeat, in this many of a hundred cases.
    fn attempt(&mut self, percent: u64) -> Attempt {
        if !self.random.percent(percent) {
            return Attempt::First;
        }
        if self.random.percent(30) { Attempt::LateRepeat } else { Attempt::Repeat }
    }

    fn request(&mut self, earlier: &[Request]) -> Request {
        if !self.waiting.is_empty() && self.random.percent(14) {
            let mut poll = self.random.pick(&self.waiting).clone();
            poll.attempt = self.attempt(30);
            return poll;
        }
        if self.random.percent(6) {
            let of = if earlier.is_empty() || self.random.percent(80) { &self.recent[..] } else { earlier };
            if !of.is_empty() {
                let mut repeat = self.random.pick(of).clone();
                repeat.attempt = self.attempt(50);
                if self.random.percent(10) {
                    // The same request id in another session is another request.
                    repeat.caller.session = self.random.pick(&self.sessions).clone();
                }
                return repeat;
            }
        }
        let mut request = self.new_request();
        if self.random.percent(2) && !self.recent.is_empty() {
            let other = self.random.pick(&self.recent);
            request.request_id = other.request_id.clone();
            request.caller = other.caller.clone();
            request.space = other.space.clone();
        }
        request
    }

    fn new_request(&mut self) -> Request {
        if !self.is_activated && self.random.percent(25) {
            let caller = self.operator();
            return self.fresh(self.spaces[0].clone(), caller, Command::Activate);
        }
        if !self.closed.is_empty() && self.random.percent(4) {
            let (space, queue) = self.random.pick(&self.closed).clone();
            let caller = self.operator();
            return self.fresh(space, caller, Command::Unpause { queue });
        }
        let total = self.weights.iter().map(|(weight, _)| weight).sum();
        let mut ticket = self.random.below(total);
        let mut chosen = Verb::Claim;
        for (weight, verb) in &self.weights {
            if ticket < *weight {
                chosen = *verb;
                break;
            }
            ticket -= weight;
        }
        self.request_of(chosen)
    }
}

fn label(name: &str) -> Label {
    Label::new(name).expect("a name")
}

fn small(number: u64) -> u8 {
    u8::try_from(number).expect("small")
}
