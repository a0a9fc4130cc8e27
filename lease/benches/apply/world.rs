//! A state as in production, with callers that keep it busy. Only `State::apply` is timed: an entry is built, encoded
//! and decoded before the clock starts, so that every name in it has a separate allocation, as when it comes from the
//! log.

use lease::caller::{ActorKind, Caller, QueueScope, Right, Role, Verified};
use lease::command::{Claim, Release, Renew};
use lease::item::{NewItem, Part};
use lease::names::{ActorId, ItemId, Label, QueueName, RequestId, SessionId, SpaceName};
use lease::numbers::{Span, Time, Token, Wall};
use lease::policy::{Setting, SpacePolicy};
use lease::record::Key;
use lease::{Applied, Attempt, Command, Entry, Outcome, Records, Request, Salt, State, encoding};
use std::ops::Range;
use std::time::{Duration, Instant};

pub(crate) const ACTORS: usize = 10_000;
/// Longer than any run, so a lease of this length never expires.
pub(crate) const STANDING: Span = Span::secs(24 * 3600);
pub(crate) const QUEUE: &str = "triage";

pub(crate) struct World {
    pub(crate) state: State,
    archive: Records,
    /// Cluster time in microseconds, because at high rates a command takes less than a millisecond, the unit of
    /// entries.
    now_us: u64,
    /// How much cluster time passes per command.
    pub(crate) us_per_command: u64,
    /// The time that apply took for each entry since this was last read.
    spent: Vec<Duration>,
    requests: u64,
}

/// A lease, as known to its holder.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) item: usize,
    pub(crate) actor: usize,
    pub(crate) token: Token,
}

impl World {
    pub(crate) fn empty() -> Self {
        let state = State::new(Salt([0x7465_6e75, 0x7265]));
        let mut world = Self {
            state,
            archive: Records::default(),
            now_us: 1_000_000,
            us_per_command: 0,
            spent: Vec::new(),
            requests: 0,
        };
        // Leases may expire any number of times and may be as long as a measurement needs.
        let settings =
            vec![Setting::AttemptsMax(0), Setting::LeaseMax(Span::secs(366 * 24 * 3600)), Setting::MaxLeases(0)];
        let set = lease::command::SetPolicy { queue: queue(), settings, version: None };
        let unlimited = SpacePolicy { items_max: 0, body_bytes_max: 0, ..SpacePolicy::default() };
        world.apply_all(vec![(0, Command::SetPolicy(set)), (0, Command::SetSpacePolicy(unlimited))]);
        world
    }

    /// Items 0 to `items`, all queued, in this order.
    pub(crate) fn with_queued(items: usize) -> Self {
        let mut world = Self::empty();
        world.create(0..items);
        world.forget_requests();
        world
    }

    pub(crate) fn create(&mut self, items: Range<usize>) {
        let all: Vec<_> = items.collect();
        for batch in all.chunks(1_000) {
            let new = batch.iter().map(|item| new_item(*item)).collect();
            let outcomes = self.apply_all(vec![(0, Command::CreateMany(new))]).outcomes;
            let Outcome::CreatedMany(created) = &outcomes[0] else { panic!("{outcomes:?}") };
            assert!(created.iter().all(|one| matches!(one, Outcome::Created { created: true, .. })));
            // A batch is remembered with all of its answers, which must not count as memory of items.
            self.pass(Span::secs(if self.us_per_command == 0 { 121 } else { 0 }));
        }
    }

    /// Makes claims that are not measured.
    pub(crate) fn claim_each(&mut self, wanted: &[(usize, usize)], lease_for: Span) -> Vec<Held> {
        let batches = wanted.chunks(64).map(|batch| {
            let commands = batch.iter().map(|(item, actor)| (*actor, claim(*item, lease_for))).collect();
            let applied = self.apply_all(commands);
            batch.iter().zip(&applied.outcomes).map(|((item, actor), outcome)| held(*item, *actor, outcome)).collect()
        });
        batches.collect::<Vec<Vec<_>>>().concat()
    }

    /// Applies one entry with these commands, each with its own request id. Time has moved by the time that they took
    /// to arrive.
    pub(crate) fn apply_all(&mut self, commands: Vec<(usize, Command)>) -> Applied {
        self.now_us += self.us_per_command * commands.len() as u64;
        let requests = commands.into_iter().map(|(actor, command)| self.request(actor, command)).collect();
        self.apply_now(requests)
    }

    /// Applies an entry without commands.
    pub(crate) fn tick(&mut self) -> Applied {
        self.apply_now(Vec::new())
    }

    fn apply_now(&mut self, commands: Vec<Request>) -> Applied {
        let at = self.now();
        let entry = Entry { at, wall: Wall(1_780_000_000_000 + at.0), commands };
        let entry: Entry = encoding::decode(&encoding::encode(&entry)).expect("its own encoding");
        let begin = Instant::now();
        let applied = self.state.apply(&entry, &self.archive);
        self.spent.push(begin.elapsed());
        assert!(applied.outcomes.iter().all(|outcome| outcome.refusal().is_none()), "{:?}", applied.outcomes);
        applied
    }

    /// Stores the records of items that ended, as a store does.
    pub(crate) fn archive(&mut self, applied: &Applied) {
        for change in applied.changes.iter() {
            if let lease::changes::Change::Put { key, value } = change
                && let Ok(Key::Archived(..) | Key::Retention(..)) = Key::decode(key)
            {
                self.archive.0.insert(key.to_vec(), value.to_vec());
            }
        }
    }

    pub(crate) fn take_spent(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.spent)
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.now_us / 1_000)
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now_us += span.0 * 1_000;
    }

    pub(crate) fn has_work_due(&self) -> bool {
        self.state.next_deadlines(&self.archive).time.is_some_and(|time| time <= self.now())
    }

    /// Lets two minutes pass, so that no request is remembered.
    pub(crate) fn forget_requests(&mut self) {
        self.pass(Span::secs(121));
        while self.state.remembered_requests() > 0 {
            self.tick();
        }
    }

    fn request(&mut self, actor: usize, command: Command) -> Request {
        self.requests += 1;
        let rights = vec![Right { role: Role::Worker, queues: QueueScope::prefix(QUEUE) }];
        let dispatcher = [Role::Dispatcher, Role::Operator].map(|role| Right { role, queues: QueueScope::every() });
        let is_of_dispatcher =
            matches!(command, Command::CreateMany(_) | Command::SetPolicy(_) | Command::SetSpacePolicy(_));
        let caller = Caller {
            actor: ActorId::new(&format!("agent-{actor:05}")).expect("a name"),
            kind: ActorKind::Agent,
            parent: None,
            session: Some(SessionId::new(&uuid(actor as u64)).expect("a name")),
            verified: Verified::Checked,
            rights: if is_of_dispatcher { dispatcher.to_vec() } else { rights },
        };
        let request_id = RequestId::new(&uuid(1 << 40 | self.requests)).expect("a name");
        Request { space: SpaceName::fallback(), caller, request_id, attempt: Attempt::First, command }
    }
}

pub(crate) fn held(item: usize, actor: usize, outcome: &Outcome) -> Held {
    let grant = outcome.grant().unwrap_or_else(|| panic!("{outcome:?}"));
    Held { item, actor, token: grant.token }
}

pub(crate) fn claim(item: usize, lease_for: Span) -> Command {
    Command::Claim(Claim { lease_for: Some(lease_for), ..Claim::new(item_id(item)) })
}

impl Held {
    pub(crate) fn release(self) -> Command {
        Command::Release(Release { item: item_id(self.item), token: Some(self.token), keep_assignment: false })
    }

    pub(crate) fn renew(self) -> Command {
        Command::Renew(Renew { item: item_id(self.item), token: self.token, lease_for: None })
    }
}

pub(crate) fn queue() -> QueueName {
    QueueName::new(QUEUE).expect("a name")
}

pub(crate) fn item_id(item: usize) -> ItemId {
    ItemId::new(&format!("task-{item:07}")).expect("a name")
}

fn new_item(item: usize) -> NewItem {
    let label = |name| Label::new(name).expect("a name");
    NewItem {
        title: format!("Sort the ticket {item:07} of this week"),
        labels: vec![label("support"), label("region-eu")],
        body: vec![(Part::Instructions, "Read the ticket, then say which team it is for.".into())],
        ..NewItem::new(item_id(item), queue())
    }
}

/// Each item with the actor that is to hold it.
pub(crate) fn in_turn(items: &[usize], actors: Range<usize>) -> Vec<(usize, usize)> {
    items.iter().copied().zip(actors.cycle()).collect()
}

/// 0 to `count` in a random order that is the same in every run.
pub(crate) fn shuffled(count: usize) -> Vec<usize> {
    let mut all: Vec<_> = (0..count).collect();
    for n in (1..count).rev() {
        let other = usize::try_from(scramble(n as u64) % (n as u64 + 1)).expect("an index");
        all.swap(n, other);
    }
    all
}

/// `SplitMix64`: pseudo-random numbers, all different.
fn scramble(n: u64) -> u64 {
    let n = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn uuid(n: u64) -> String {
    let (high, low) = (scramble(n), scramble(!n));
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
