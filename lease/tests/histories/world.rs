//! The callers: a few actors in a few sessions that compete for a few items. They remember their answers, so most of
//! their commands make sense, and many come too late.

use crate::random::Random;
use lease::caller::{ActorKind, Caller, Holder, QueueScope, Right, Role, Verified};
use lease::command::{
    Activity, Attempt, AwaitInput, Cancel, Claim, ClaimMany, Command, Complete, Entry, Extend, Fail, Filter, HandOn,
    Next, OnConflict, Order, Registration, Release, Renew, RenewAll, Request, Reserve, Revoke, SetPolicy, Update,
    Write,
};
use lease::event::What;
use lease::item::{ActivityKind, Edit, Mirrors, Mode, NewItem, Part, RunsIn, Transition};
use lease::names::{ActorId, ItemId, Label, Phase, QueueName, RequestId, SessionId, SpaceName};
use lease::numbers::{EventNumber, Revision, Span, Time, Token, Wall};
use lease::policy::{
    AtMaxLeases, Backoff, Disclosure, IdentityPolicy, OnDependencyFailed, RequireLease, Setting, SpacePolicy,
};
use lease::{Applied, Outcome, Refusal};
use std::collections::BTreeMap;

/// 2026-03-01.
const WALL_START: u64 = 1_772_323_200_000;

type Place = (SpaceName, ItemId);

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
    held: BTreeMap<Place, Known>,
    gone: Vec<Known>,
    revisions: BTreeMap<Place, Revision>,
    waiting: Vec<Request>,
    recent: Vec<Request>,
    closed: Vec<(SpaceName, QueueName)>,
    is_activated: bool,
    /// Items that exist, and whether they are terminal.
    there: BTreeMap<Place, bool>,
    /// The items that an entry's commands mostly name.
    focus: Option<Place>,
    /// How many of the actors take part.
    crowd: usize,
    weights: Vec<(u64, Verb)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Create,
    CreateMany,
    Claim,
    Wait,
    ClaimMany,
    Next,
    Renew,
    RenewAll,
    Extend,
    Release,
    Reserve,
    Withdraw,
    Reorder,
    Revoke,
    Assign,
    Unassign,
    Update,
    Activity,
    AwaitInput,
    Resume,
    HandOn,
    Complete,
    Fail,
    Cancel,
    Reopen,
    Retry,
    SetPolicy,
    Pause,
    Unpause,
    Drain,
    SetSpacePolicy,
    RegisterWorker,
    DrainWorker,
    RemoveWorker,
    BeginEpoch,
    Activate,
    RaiseRules,
    Invalid,
}

const WEIGHTS: [(u64, Verb); 38] = [
    (70, Verb::Create),
    (14, Verb::CreateMany),
    (120, Verb::Claim),
    (110, Verb::Wait),
    (45, Verb::ClaimMany),
    (110, Verb::Next),
    (80, Verb::Renew),
    (30, Verb::RenewAll),
    (25, Verb::Extend),
    (60, Verb::Release),
    (25, Verb::Reserve),
    (10, Verb::Withdraw),
    (10, Verb::Reorder),
    (12, Verb::Revoke),
    (12, Verb::Assign),
    (10, Verb::Unassign),
    (40, Verb::Update),
    (25, Verb::Activity),
    (18, Verb::AwaitInput),
    (18, Verb::Resume),
    (18, Verb::HandOn),
    (45, Verb::Complete),
    (40, Verb::Fail),
    (16, Verb::Cancel),
    (22, Verb::Reopen),
    (20, Verb::Retry),
    (14, Verb::SetPolicy),
    (5, Verb::Pause),
    (8, Verb::Unpause),
    (4, Verb::Drain),
    (3, Verb::SetSpacePolicy),
    (14, Verb::RegisterWorker),
    (3, Verb::DrainWorker),
    (6, Verb::RemoveWorker),
    (2, Verb::BeginEpoch),
    (2, Verb::Activate),
    (2, Verb::RaiseRules),
    (15, Verb::Invalid),
];

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

    fn request_of(&mut self, verb: Verb) -> Request {
        let space = match &self.focus {
            Some((space, _)) if self.random.percent(80) => space.clone(),
            _ => self.spaces[usize::from(self.random.percent(25))].clone(),
        };
        let mut caller = self.caller();
        if is_operators(verb) && self.random.percent(85) {
            caller = self.operator();
        }
        let command = match verb {
            Verb::Create => Command::Create(Box::new(self.new_item(&space, &caller))),
            Verb::CreateMany => self.create_many(&space),
            Verb::Claim => Command::Claim(self.claim(&space)),
            Verb::Wait => {
                let mut claim = self.claim(&space);
                if self.random.percent(70)
                    && let Some(known) = self.held_in(&space)
                {
                    claim.item = known.item;
                }
                claim.on_conflict = self.patience();
                Command::Claim(claim)
            }
            Verb::ClaimMany => {
                // The caller of the claims also sends the releases.
                let known = self.held_in(&space).filter(|_| self.random.percent(70));
                if let Some(known) = &known {
                    caller = self.caller_of(&known.holder);
                }
                self.claim_many(&space, &caller)
            }
            Verb::Next => Command::Next(self.next()),
            Verb::RenewAll => {
                let expected = self.random.below(3);
                let expected = (0..expected).map(|_| (self.item(&space), self.stray_token())).collect();
                Command::RenewAll(RenewAll { lease_for: self.lease_for(), expected })
            }
            Verb::Withdraw => {
                if let Some(waiting) = self.some_waiting() {
                    let Command::Claim(claim) = &waiting.command else { unreachable!("only claims wait") };
                    let command = Command::Withdraw { item: claim.item.clone() };
                    return self.fresh(waiting.space, waiting.caller, command);
                }
                Command::Withdraw { item: self.item(&space) }
            }
            Verb::Reorder => {
                let mut actors: Vec<_> = self.actors.iter().map(|caller| caller.actor.clone()).collect();
                let first = self.random.index(actors.len());
                actors.swap(0, first);
                actors.truncate(self.random.index(3));
                let waiting = self.some_waiting();
                let item = match waiting.map(|waiting| waiting.command) {
                    Some(Command::Claim(claim)) => claim.item,
                    _ => self.item(&space),
                };
                Command::Reorder { item, actors }
            }
            Verb::Revoke => Command::Revoke(Revoke {
                item: self.item_likely_held(&space),
                reason: "because".into(),
                assign_to: self.random.maybe(30, |random| random.pick(&self.actors).actor.clone()),
            }),
            Verb::Assign => {
                Command::Assign { item: self.item(&space), actor: self.random.pick(&self.actors).actor.clone() }
            }
            Verb::Unassign => {
                Command::Unassign { item: self.item(&space), actor: self.random.pick(&self.actors).actor.clone() }
            }
            Verb::Cancel => Command::Cancel(Cancel {
                item: if self.random.percent(60) { self.item_likely_held(&space) } else { self.item(&space) },
                reason: "enough".into(),
                force: self.random.percent(25),
            }),
            Verb::Reopen => {
                let ended = self.item_there(&space, true).filter(|_| self.random.percent(70));
                Command::Reopen { item: ended.unwrap_or_else(|| self.item(&space)) }
            }
            Verb::Retry => {
                let ended = self.item_there(&space, true).filter(|_| self.random.percent(30));
                Command::Retry { item: ended.unwrap_or_else(|| self.item(&space)) }
            }
            Verb::SetPolicy => self.set_policy(),
            Verb::Pause => Command::Pause { queue: self.queue() },
            Verb::Unpause if self.random.percent(30) => Command::Unpause { queue: self.unused_queue() },
            Verb::Unpause => Command::Unpause { queue: self.queue() },
            Verb::Drain => Command::Drain { queue: self.queue() },
            Verb::SetSpacePolicy => Command::SetSpacePolicy(self.space_policy()),
            Verb::RegisterWorker => Command::RegisterWorker(Registration {
                capabilities: self.labels(3),
                labels: self.labels(2),
                mode: *self.random.pick(&[RunsIn::Any, RunsIn::Any, RunsIn::Cloud, RunsIn::Local]),
                alive_for: Span(self.random.between(1, 30_000)),
            }),
            Verb::DrainWorker | Verb::RemoveWorker => {
                let worker = if self.random.percent(60) { caller.holder() } else { self.caller().holder() };
                if verb == Verb::DrainWorker {
                    Command::DrainWorker { worker }
                } else {
                    Command::RemoveWorker { worker }
                }
            }
            Verb::BeginEpoch => {
                let token_floor = self.random.maybe(10, |random| Token(random.between(1, 1 << 50)));
                match self.random.percent(30) {
                    true => Command::BeginEpochAcceptingClock { token_floor },
                    false => Command::BeginEpoch { token_floor },
                }
            }
            Verb::Activate => Command::Activate,
            Verb::RaiseRules => Command::RaiseRules { version: u32::from(self.random.percent(80)) },
            Verb::Invalid => self.invalid(&space, &caller),
            Verb::Renew
            | Verb::Extend
            | Verb::Release
            | Verb::Reserve
            | Verb::Update
            | Verb::Activity
            | Verb::AwaitInput
            | Verb::Resume
            | Verb::HandOn
            | Verb::Complete
            | Verb::Fail => return self.holders_request(verb, space, caller),
        };
        self.fresh(space, caller, command)
    }

    /// A command about the holder's lease, one that it lost, or another actor's.
    fn holders_request(&mut self, verb: Verb, space: SpaceName, stranger: Caller) -> Request {
        let known = match self.random.below(100) {
            0..78 => self.some_held(),
            78..92 => self.random.maybe(100, |random| random.index(self.gone.len())).and_then(|index| {
                // The lease that was lost last is named most often.
                let index = if index % 2 == 0 { self.gone.len().checked_sub(1)? } else { index };
                self.gone.get(index).cloned()
            }),
            _ => None,
        };
        let known = known.unwrap_or_else(|| Known {
            item: self.item(&space),
            token: self.stray_token(),
            holder: stranger.holder(),
            space,
        });
        let mut caller = self.caller_of(&known.holder);
        let mut token = Some(known.token);
        match self.random.below(100) {
            0..4 => caller = stranger,
            4..7 => caller.session = self.random.pick(&self.sessions).clone(),
            7..10 => token = Some(self.stray_token()),
            10..14 => token = None,
            _ => {}
        }
        let place = (known.space.clone(), known.item.clone());
        let read_at = match self.random.below(100) {
            0..60 => self.revisions.get(&place).copied(),
            60..70 => Some(EventNumber { seq: self.random.below(50), ..EventNumber::default() }),
            _ => None,
        };
        let item = known.item;
        let bare = token.unwrap_or(known.token);
        let write = Write { item: item.clone(), token, read_at };
        let command = match verb {
            Verb::Renew => Command::Renew(Renew { item, token: bare, lease_for: self.lease_for() }),
            Verb::Extend => Command::Extend(Extend { item, token: bare, by: Span(self.random.between(1, 70_000)) }),
            Verb::Release => Command::Release(Release { item, token, keep_assignment: self.random.percent(25) }),
            Verb::Reserve => Command::Reserve(Reserve {
                item,
                token: bare,
                span: self.random.maybe(70, |random| Span(random.between(1, 90_000))),
            }),
            Verb::Update => {
                if self.random.percent(15) {
                    let write = Write { token: None, ..write };
                    Command::Update(Update { write, edits: self.edits(&place.0, &caller), start: true })
                } else {
                    Command::Update(Update { write, edits: self.edits(&place.0, &caller), start: false })
                }
            }
            Verb::Activity => {
                use ActivityKind::{ExternalUrlUpdated, PlanUpdated, PolicyDecision, Progress};
                let kind = *self.random.pick(&[Progress, PlanUpdated, ExternalUrlUpdated, PolicyDecision]);
                Command::Activity(Activity { write, kind, note: self.words() })
            }
            Verb::AwaitInput => Command::AwaitInput(AwaitInput { write, question: "which?".into() }),
            Verb::Resume => Command::Resume(write),
            Verb::HandOn => Command::HandOn(HandOn { write, phase: self.phase() }),
            Verb::Complete => {
                let result = self.random.maybe(50, |_| "done".to_owned());
                Command::Complete(Complete { write, result })
            }
            _ => Command::Fail(Fail {
                write,
                error: self.random.maybe(50, |_| "broke".to_owned()),
                is_final: self.random.percent(20),
            }),
        };
        self.fresh(place.0, caller, command)
    }

    fn caller(&mut self) -> Caller {
        let among = if self.random.percent(90) { self.crowd } else { self.actors.len() };
        let mut caller = self.random.pick(&self.actors[..among]).clone();
        caller.session = self.random.pick(&self.sessions).clone();
        self.verify(caller)
    }

    fn verify(&mut self, mut caller: Caller) -> Caller {
        caller.verified = match self.random.below(100) {
            0..80 => Verified::Checked,
            80..90 => Verified::FromCache,
            _ => Verified::SelfReported,
        };
        caller
    }

    fn operator(&mut self) -> Caller {
        let mut caller = self.actors.last().expect("ops").clone();
        caller.session = self.random.pick(&self.sessions).clone();
        caller
    }

    fn caller_of(&mut self, holder: &Holder) -> Caller {
        let of = self.actors.iter().find(|caller| caller.actor == holder.actor).expect("one of ours");
        let caller = Caller { session: holder.session.clone(), ..of.clone() };
        self.verify(caller)
    }

    fn queue(&mut self) -> QueueName {
        self.random.pick(&self.queues).clone()
    }

    /// A queue in which nothing is ever created.
    fn unused_queue(&mut self) -> QueueName {
        QueueName::new(&format!("unused{}", self.random.below(3))).expect("a name")
    }

    fn item(&mut self, space: &SpaceName) -> ItemId {
        if let Some((of, item)) = &self.focus
            && of == space
            && self.random.percent(35)
        {
            return item.clone();
        }
        if self.random.percent(60)
            && let Some(item) = self.item_there(space, false)
        {
            return item;
        }
        self.any_item(space)
    }

    /// An existing item, terminal or not.
    fn item_there(&mut self, space: &SpaceName, terminal: bool) -> Option<ItemId> {
        let there = self.there.iter().filter(|((of, _), is_terminal)| of == space && **is_terminal == terminal);
        let there: Vec<_> = there.map(|((_, item), _)| item).collect();
        if there.is_empty() { None } else { Some((*self.random.pick(&there)).clone()) }
    }

    fn any_item(&mut self, space: &SpaceName) -> ItemId {
        let of = if *space == self.spaces[0] { &self.items } else { &self.items_elsewhere };
        self.random.pick(of).clone()
    }

    fn held_in(&mut self, space: &SpaceName) -> Option<Known> {
        let here: Vec<_> = self.held.values().filter(|known| known.space == *space).collect();
        if here.is_empty() { None } else { Some((*self.random.pick(&here)).clone()) }
    }

    fn some_held(&mut self) -> Option<Known> {
        let index = self.random.index(self.held.len());
        self.held.values().nth(index).cloned()
    }

    fn some_waiting(&mut self) -> Option<Request> {
        if self.waiting.is_empty() { None } else { Some(self.random.pick(&self.waiting).clone()) }
    }

    fn item_likely_held(&mut self, space: &SpaceName) -> ItemId {
        match self.held_in(space) {
            Some(known) if self.random.percent(85) => known.item,
            _ => self.item(space),
        }
    }

    /// A token of another item, or one that was never minted.
    fn stray_token(&mut self) -> Token {
        match self.some_held() {
            Some(known) if self.random.percent(70) => known.token,
            _ => Token(self.random.between(1, 2_000)),
        }
    }

    fn lease_for(&mut self) -> Option<Span> {
        match self.random.below(10) {
            0..5 => None,
            5..9 => Some(Span(self.random.between(1, 20_000))),
            _ => Some(Span(self.random.between(1, 200_000))),
        }
    }

    fn patience(&mut self) -> OnConflict {
        OnConflict::Wait {
            wait_for: self.random.maybe(25, |random| Span(random.between(1, 20_000))),
            line_max: self.random.maybe(15, |random| u32::try_from(random.below(4)).expect("small")),
        }
    }

    fn mirrors(&mut self) -> Mirrors {
        match self.random.below(10) {
            0..8 => Mirrors::ALL,
            8 => Mirrors::NONE,
            _ => Mirrors::NONE.with(Transition::Completed),
        }
    }

    fn claim(&mut self, space: &SpaceName) -> Claim {
        Claim {
            lease_for: self.lease_for(),
            action: self.random.maybe(10, |_| "edit".to_owned()),
            field: self.random.maybe(5, |_| "title".to_owned()),
            takeover: self.random.percent(20),
            mirrors: self.mirrors(),
            ..Claim::new(self.item(space))
        }
    }

    fn claim_many(&mut self, space: &SpaceName, caller: &Caller) -> Command {
        let all_or_none = self.random.percent(50);
        let own: Vec<_> =
            self.held.values().filter(|known| known.space == *space && known.holder.is(caller)).cloned().collect();
        let mut claims = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let mut claim = self.claim(space);
            if self.random.percent(30) && !own.is_empty() {
                claim.item = self.random.pick(&own).item.clone();
            }
            if !all_or_none && self.random.percent(25) {
                claim.on_conflict = self.patience();
            }
            claims.push(claim);
        }
        let mut releases = Vec::new();
        for known in own {
            if self.random.percent(40) && claims.iter().all(|claim| claim.item != known.item) {
                let token = self.random.maybe(60, |_| known.token);
                releases.push(Release { item: known.item, token, keep_assignment: self.random.percent(20) });
            }
        }
        Command::ClaimMany(ClaimMany { claims, releases, all_or_none })
    }

    fn next(&mut self) -> Next {
        let filter = Filter {
            labels: self.random.maybe(8, |_| label("l0")).into_iter().collect(),
            capabilities: match self.random.below(10) {
                0..5 => Some(vec![label("l0"), label("l1"), label("l2")]),
                5..7 => Some(self.labels(2)),
                _ => None,
            },
            phase: if self.random.percent(8) { Some(self.phase()) } else { None },
            mode: self.random.maybe(8, |random| *random.pick(&[RunsIn::Any, RunsIn::Cloud, RunsIn::Local])),
            parent: self.random.maybe(4, |random| random.pick(&self.items).clone()),
            ancestor: self.random.maybe(4, |random| random.pick(&self.items).clone()),
            priority_min: self.random.maybe(5, |random| small(random.below(8))),
            priority_max: self.random.maybe(5, |random| small(random.below(10))),
        };
        Next {
            filter,
            lease_for: self.lease_for(),
            count: u32::from(small(*self.random.pick(&[1, 1, 1, 2, 3, 10]))),
            order: *self.random.pick(&[Order::Priority, Order::Priority, Order::Oldest, Order::Newest]),
            mirrors: self.mirrors(),
            ..Next::new(self.queue())
        }
    }

    fn labels(&mut self, most: usize) -> Vec<Label> {
        (0..most).filter(|_| self.random.percent(25)).map(|number| label(&format!("l{number}"))).collect()
    }

    fn phase(&mut self) -> Phase {
        let name = *self.random.pick(&["work", "review", "in_progress", "triage"]);
        Phase::new(name).expect("a name")
    }

    fn words(&mut self) -> String {
        "w".repeat(self.random.index(12))
    }

    fn new_item(&mut self, space: &SpaceName, caller: &Caller) -> NewItem {
        let id = self.any_item(space);
        let mut item = NewItem::new(id.clone(), self.queue());
        // Most creations of one id have the same content, so some find that their item exists.
        if self.random.percent(25) {
            item.queue = self.queues[0].clone();
            return item;
        }
        let other = |world: &mut Self| Some(world.item(space)).filter(|other| *other != id);
        item.priority = small(self.random.below(10));
        item.labels = self.labels(2);
        item.needs = if self.random.percent(25) { self.labels(3) } else { Vec::new() };
        if self.random.percent(15) {
            item.parent = other(self);
        }
        if self.random.percent(25) {
            item.target = other(self);
        }
        if self.random.percent(25) {
            let depends_on = (0..self.random.between(1, 3)).filter_map(|_| other(self));
            item.depends_on = depends_on.collect();
            item.depends_on.sort();
            item.depends_on.dedup();
        }
        item.delay = self.random.maybe(12, |random| Span(random.between(1, 20_000)));
        if self.random.percent(12) {
            item.not_before = Some(Wall(self.wall + self.random.below(60_000)));
        }
        item.mode = match self.random.below(20) {
            0..2 => Mode::Cloud,
            2 => Mode::Local { owner: caller.actor.clone() },
            _ => Mode::Any,
        };
        if self.random.percent(10) {
            item.phase = Some(self.phase());
        }
        if self.random.percent(20) {
            item.body = vec![(Part::Prompt, "p".repeat(1 + self.random.index(20)))];
        }
        item
    }

    fn create_many(&mut self, space: &SpaceName) -> Command {
        let creator = self.actors.last().expect("ops").clone();
        let count = self.random.between(1, 6);
        Command::CreateMany((0..count).map(|_| self.new_item(space, &creator)).collect())
    }

    fn edits(&mut self, space: &SpaceName, caller: &Caller) -> Vec<Edit> {
        let edit = |world: &mut Self| match world.random.below(14) {
            0..2 => Edit::Title(world.words()),
            2 => Edit::Priority(small(world.random.below(10))),
            3 => Edit::Labels(world.labels(2)),
            4 => Edit::Needs(world.labels(3)),
            5 => Edit::Parent(Some(world.item(space)).filter(|_| world.random.percent(60))),
            6 => Edit::Target(Some(world.item(space)).filter(|_| world.random.percent(70))),
            7 => Edit::NotBefore(Some(Wall(world.wall)).filter(|_| world.random.percent(50))),
            8 => Edit::Mode(match world.random.below(4) {
                0 => Mode::Local { owner: caller.actor.clone() },
                1 => Mode::Cloud,
                _ => Mode::Any,
            }),
            9 => Edit::Phase(world.phase()),
            10..12 => Edit::Body(Part::Plan, world.words()),
            _ => Edit::Body(Part::Context, world.words()),
        };
        (0..self.random.between(1, 2)).map(|_| edit(self)).collect()
    }

    fn set_policy(&mut self) -> Command {
        let queue = self.queue();
        let mut settings = Vec::new();
        if self.random.percent(60) {
            let lease_for = self.random.between(2, 20_000);
            settings.push(Setting::LeaseFor(Span(lease_for)));
            settings.push(Setting::LeaseMin(Span(self.random.between(1, lease_for))));
            let lease_max = lease_for + self.random.below(40_000);
            settings.push(Setting::LeaseMax(Span(lease_max)));
            settings.push(Setting::Pickup(Span(self.random.between(1, lease_max.min(6_000)))));
        }
        if self.random.percent(25) {
            settings.push(Setting::MaxLeases(u32::from(small(self.random.between(1, 3)))));
            settings.push(Setting::AtMaxLeases(AtMaxLeases::ReleaseOldest));
        }
        let few = |random: &mut Random, most| u32::try_from(random.below(most)).expect("small");
        for _ in 0..self.random.between(1, 6) {
            let random = &mut self.random;
            settings.push(match random.below(16) {
                0..2 => Setting::LockDelay(Span(*random.pick(&[0, 0, 1_000, 5_000, 15_000]))),
                2 => Setting::LineMax(few(random, 5)),
                3 => Setting::AttemptsMax(few(random, 4)),
                4 => Setting::Backoff(Backoff {
                    first: Span(random.below(3_000)),
                    factor_percent: 100 + few(random, 200),
                    max: Span(3_000 + random.below(10_000)),
                }),
                5..7 => Setting::Retention(Span(random.between(1, 120_000))),
                7..9 => Setting::MaxLeases(few(random, 4)),
                9 => Setting::AtMaxLeases(*random.pick(&[AtMaxLeases::Reject, AtMaxLeases::ReleaseOldest])),
                10 => Setting::RequireLease(*random.pick(&[
                    RequireLease::IfHeld,
                    RequireLease::IfHeld,
                    RequireLease::Always,
                ])),
                11 => {
                    Setting::OnDependencyFailed(*random.pick(&[OnDependencyFailed::Block, OnDependencyFailed::Ignore]))
                }
                12..14 => Setting::Concurrency(few(random, 5)),
                14 => {
                    let names: &[&str] =
                        if random.percent(60) { &[] } else { &["work", "review", "in_progress", "blocked"] };
                    Setting::Phases(names.iter().map(|name| Phase::new(name).expect("a name")).collect())
                }
                _ => match random.below(3) {
                    0 => {
                        Setting::Disclosure(*random.pick(&[Disclosure::Open, Disclosure::Fleet, Disclosure::CrossOrg]))
                    }
                    1 => Setting::ReservationMax(Span(random.between(1_000, 60_000))),
                    _ => Setting::Mirrors(Vec::new()),
                },
            });
        }
        let version = self.random.maybe(10, |random| random.below(5));
        Command::SetPolicy(SetPolicy { queue, settings, version })
    }

    fn space_policy(&mut self) -> SpacePolicy {
        let identity = match self.random.below(100) {
            0..70 => IdentityPolicy::AcceptSelfReported,
            70..90 => IdentityPolicy::AcceptCached,
            _ => IdentityPolicy::RequireChecked,
        };
        SpacePolicy {
            items_max: *self.random.pick(&[0, 0, 30, 8]),
            body_bytes_max: *self.random.pick(&[0, 0, 40]),
            identity,
        }
    }

    /// A request that is invalid whatever the state.
    fn invalid(&mut self, space: &SpaceName, caller: &Caller) -> Command {
        let item = self.item(space);
        match self.random.below(12) {
            0 => Command::Claim(Claim { lease_for: Some(Span(0)), ..Claim::new(item) }),
            1 => Command::Next(Next { count: 0, ..Next::new(self.queue()) }),
            2 => Command::Next(Next { count: 101, ..Next::new(self.queue()) }),
            3 => Command::CreateMany(Vec::new()),
            4 => {
                let mut new = self.new_item(space, caller);
                new.depends_on = vec![new.id.clone()];
                Command::Create(Box::new(new))
            }
            5 => {
                let (mut one, mut two) = (self.new_item(space, caller), self.new_item(space, caller));
                one.depends_on = vec![two.id.clone()];
                two.depends_on = vec![one.id.clone()];
                Command::CreateMany(vec![one, two])
            }
            6 => Command::Renew(Renew { item, token: Token(0), lease_for: None }),
            7 => Command::Extend(Extend { item, token: Token(1), by: Span(u64::MAX) }),
            8 => {
                let mut claim = self.claim(space);
                claim.on_conflict = self.patience();
                Command::ClaimMany(ClaimMany { claims: vec![claim], releases: Vec::new(), all_or_none: true })
            }
            9 => Command::SetPolicy(SetPolicy {
                queue: self.queue(),
                settings: vec![Setting::Retention(Span(0))],
                version: None,
            }),
            10 => {
                let mut new = self.new_item(space, caller);
                new.title = "t".repeat(513);
                Command::Create(Box::new(new))
            }
            _ => {
                let write = Write { item, token: None, read_at: None };
                Command::Update(Update { write, edits: Vec::new(), start: false })
            }
        }
    }

    /// Learns from the answers and the events.
    pub(crate) fn learn(&mut self, entry: &Entry, applied: &Applied) {
        for event in &applied.events {
            match &event.what {
                What::Paused | What::DrainStarted => {
                    let queue = event.queue.clone().expect("a queue's event");
                    self.closed.push((event.space.clone(), queue));
                }
                What::Unpaused => {
                    self.closed.retain(|(space, queue)| *space != event.space || Some(queue) != event.queue.as_ref())
                }
                What::EpochBegun { .. } => self.is_activated = false,
                What::Activated => self.is_activated = true,
                _ => {}
            }
            let Some(item) = &event.item else { continue };
            let place = (event.space.clone(), item.clone());
            if event.what.ended_lease().is_some()
                && let Some(known) = self.held.remove(&place)
            {
                self.gone.push(known);
                if self.gone.len() > 40 {
                    self.gone.remove(0);
                }
            }
            match &event.what {
                What::Created | What::Reopened | What::Retried => {
                    self.there.insert(place.clone(), false);
                }
                What::Completed { .. } | What::Cancelled { .. } | What::Failed { is_final: true, .. } => {
                    self.there.insert(place.clone(), true);
                }
                What::Purged { .. } => {
                    self.there.remove(&place);
                }
                _ => {}
            }
            match &event.what {
                What::Granted { holder, token, .. } => {
                    let known =
                        Known { space: place.0.clone(), item: place.1.clone(), token: *token, holder: holder.clone() };
                    self.held.insert(place, known);
                }
                What::Mirrored { .. } => {
                    self.revisions.insert(place, event.number);
                }
                _ => {}
            }
        }
        for (request, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            let same = |waiting: &Request| waiting.request_id == request.request_id && waiting.caller == request.caller;
            let is_poll = self.waiting.iter().any(same);
            match outcome {
                Outcome::Waiting { .. } if !is_poll => {
                    self.waiting.push(request.clone());
                    if self.waiting.len() > 12 {
                        // Its caller has died.
                        self.waiting.remove(0);
                    }
                }
                Outcome::Waiting { .. } => {}
                _ if is_poll => self.waiting.retain(|waiting| !same(waiting)),
                _ => {}
            }
            if !is_poll {
                self.recent.push(request.clone());
                if self.recent.len() > 30 {
                    self.recent.remove(0);
                }
            }
            let mut read = |item: &ItemId, revision: Revision| {
                self.revisions.insert((request.space.clone(), item.clone()), revision);
            };
            match outcome {
                Outcome::Created { item, revision, .. }
                | Outcome::Updated { item, revision, .. }
                | Outcome::Moved { item, revision, .. } => read(item, *revision),
                Outcome::Refused(Refusal::StaleWrite { revision, .. }) => {
                    if let Command::Update(update) = &request.command {
                        read(&update.write.item, *revision);
                    }
                }
                _ => {}
            }
            for grant in outcome.grants() {
                if let Some(snapshot) = &grant.snapshot {
                    read(&grant.item, snapshot.revision);
                }
            }
        }
    }
}

fn is_operators(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::CreateMany
            | Verb::Reorder
            | Verb::Revoke
            | Verb::Assign
            | Verb::Unassign
            | Verb::Cancel
            | Verb::Reopen
            | Verb::Retry
            | Verb::SetPolicy
            | Verb::Pause
            | Verb::Unpause
            | Verb::Drain
            | Verb::SetSpacePolicy
            | Verb::DrainWorker
            | Verb::BeginEpoch
            | Verb::Activate
            | Verb::RaiseRules
    )
}

fn label(name: &str) -> Label {
    Label::new(name).expect("a name")
}

fn small(number: u64) -> u8 {
    u8::try_from(number).expect("small")
}
