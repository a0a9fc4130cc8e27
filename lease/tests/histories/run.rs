//! Two replicas and everything that checks them.

use crate::oracle::Oracle;
use crate::parked::Parked;
use crate::random::Random;
use crate::reach::Reach;
use crate::rights::Rights;
use crate::store::Store;
use lease::changes::{Change, Changes};
use lease::encoding::{decode, encoded_len};
use lease::invariants::Witness;
use lease::record;
use lease::space::Space;
use lease::{Applied, Code, Entry, Outcome, Records, Refusal, Salt, State, StateHash};
use std::collections::BTreeMap;

/// A step that broke an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Two failures of one kind have, in all likelihood, one cause.
    pub(crate) kind: String,
    pub(crate) why: String,
}

impl Failure {
    pub(crate) fn new(kind: impl Into<String>, why: impl Into<String>) -> Self {
        Self { kind: kind.into(), why: why.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    A,
    B,
}

/// Falsifies the answers of a replica, to show that the checks can fail.
pub(crate) trait Liar {
    fn falsify(&mut self, _replica: Name, _entry: &Entry, _applied: &mut Applied) {}

    fn loses(&mut self, _replica: Name, _key: &[u8]) -> bool {
        false
    }

    fn hash(&mut self, hash: StateHash) -> StateHash {
        hash
    }
}

#[derive(Debug)]
pub(crate) struct Honest;

impl Liar for Honest {}

/// Which checks run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    /// `State::violations` runs once in this many entries.
    pub(crate) violations_every: usize,
    pub(crate) witness: bool,
    pub(crate) oracle: bool,
    /// Compares with the entry without the commands that were refused before their verb.
    pub(crate) trace: bool,
    /// Whether callers who wait in `next` are woken.
    pub(crate) parked: bool,
    /// Whether a lack of rights is foreseen.
    pub(crate) rights: bool,
    /// The most entries per chunk of replica B.
    pub(crate) chunk: u64,
}

impl Watch {
    pub(crate) fn of(seed: u64) -> Self {
        let chunk = if seed.is_multiple_of(5) { 1_000 } else { 17 };
        let violations_every = if seed.is_multiple_of(3) { 1 } else { 5 };
        let parked = seed.is_multiple_of(4);
        let rights = seed % 4 == 1;
        Self { violations_every, witness: true, oracle: true, trace: true, parked, rights, chunk }
    }
}

#[derive(Debug)]
struct Replica {
    state: State,
    store: Store,
}

impl Replica {
    fn new() -> Self {
        Self { state: State::new(Salt([7, 11])), store: Store::default() }
    }
}

pub(crate) struct Run<'l> {
    a: Replica,
    b: Replica,
    watch: Watch,
    witness: Witness,
    pub(crate) oracle: Oracle,
    parked: Parked,
    rights: Rights,
    pub(crate) reach: Reach,
    liar: &'l mut dyn Liar,
    random: Random,
    chunk_left: u64,
    entries: usize,
    commands: usize,
    checked_at: usize,
}

impl<'l> Run<'l> {
    pub(crate) fn new(seed: u64, watch: Watch, liar: &'l mut dyn Liar) -> Self {
        Self {
            a: Replica::new(),
            b: Replica::new(),
            watch,
            witness: Witness::default(),
            oracle: Oracle::default(),
            parked: Parked::default(),
            rights: Rights::default(),
            reach: Reach::default(),
            liar,
            random: Random::new(!seed),
            chunk_left: 0,
            entries: 0,
            commands: 0,
            checked_at: 0,
        }
    }

    /// Applies the entry on both replicas and runs all checks.
    pub(crate) fn step(&mut self, entry: &Entry) -> Result<Applied, Failure> {
        self.entries += 1;
        self.commands += entry.commands.len();
        let before = self.watch.parked.then(|| (self.a.state.clone(), self.a.store.clone()));
        if self.watch.rights {
            self.rights.foresee(&self.a.state, &self.a.store, entry);
        }
        let mut applied = self.a.state.apply(entry, &self.a.store);
        self.reach.note(entry, &applied);
        self.liar.falsify(Name::A, entry, &mut applied);
        if self.watch.trace {
            self.leave_no_trace(entry, &applied)?;
        }
        if self.watch.rights {
            self.rights.check(entry, &applied)?;
        }
        let mut other = self.b.state.apply(entry, &self.b.store);
        self.liar.falsify(Name::B, entry, &mut other);
        self.compare(&applied, &other)?;
        check_lengths(entry, &applied)?;
        let liar = &mut *self.liar;
        self.a.store.take(&applied.changes, |key| liar.loses(Name::A, key));
        self.a.store.flush();
        self.b.store.take(&other.changes, |key| liar.loses(Name::B, key));
        if self.chunk_left == 0 {
            self.b.store.flush();
            self.chunk_left = self.random.between(1, self.watch.chunk);
        }
        self.chunk_left -= 1;
        if self.watch.witness
            && let Err(why) = self.witness.observe(&self.a.state, entry, &applied)
        {
            let kind = why.split(':').next().unwrap_or_default();
            return Err(Failure::new(format!("witness {kind}"), why.clone()));
        }
        if self.watch.oracle {
            self.oracle
                .observe(entry, &applied)
                .map_err(|(which, why)| Failure::new(format!("oracle {which}"), why))?;
            let (told, live) = (self.oracle.live_items(), self.a.state.live_items() as u64);
            if told != live {
                return Err(Failure::new("oracle I19", format!("{live} live items, {told} by the events")));
            }
        }
        if let Some((state, store)) = before {
            self.parked.observe((&state, &store), (&self.a.state, &self.a.store), entry, &applied)?;
        }
        if self.entries.is_multiple_of(self.watch.violations_every) {
            self.check_violations()?;
        }
        if self.commands / 100 != self.checked_at / 100 {
            self.checked_at = self.commands;
            self.check_records()?;
        }
        Ok(applied)
    }

    /// The last checks.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.check_violations()?;
        self.check_records()?;
        self.reach.repeats += self.oracle.repeats;
        self.reach.polls += self.oracle.polls;
        self.reach.woken += self.parked.woken;
        self.reach.foreseen += self.rights.refused;
        Ok(())
    }

    /// I20.
    fn compare(&self, a: &Applied, b: &Applied) -> Result<(), Failure> {
        if a.outcomes != b.outcomes {
            return Err(Failure::new("replicas: outcomes", difference(&a.outcomes, &b.outcomes)));
        }
        if a.events != b.events {
            return Err(Failure::new("replicas: events", difference(&a.events, &b.events)));
        }
        if a.openings != b.openings {
            return Err(Failure::new("replicas: openings", difference(&a.openings, &b.openings)));
        }
        if a.changes != b.changes {
            let list = |changes: &Changes| changes.iter().map(|change| format!("{change:?}")).collect::<Vec<_>>();
            return Err(Failure::new("replicas: changes", difference(&list(&a.changes), &list(&b.changes))));
        }
        if self.a.state.hash() != self.b.state.hash() {
            let (a, b) = (self.a.state.hash(), self.b.state.hash());
            return Err(Failure::new("replicas: hash", format!("{a} and {b}")));
        }
        Ok(())
    }

    /// I13, and more: a command that was refused before its verb leaves no trace. Compares with the entry without it.
    fn leave_no_trace(&self, entry: &Entry, applied: &Applied) -> Result<(), Failure> {
        let at_the_door = |outcome: &Outcome| {
            let code = outcome.refusal().map(Refusal::code);
            matches!(code, Some(Code::RejectedByPolicy | Code::NotActivated | Code::Invalid))
        };
        // What is due on the items that a command names happens first, even if the command is refused.
        let now = self.b.state.now().max(entry.at);
        let is_due = self.b.state.next_deadlines(&self.b.store).time.is_some_and(|time| time <= now);
        if is_due || !applied.outcomes.iter().any(at_the_door) {
            return Ok(());
        }
        let pairs = entry.commands.iter().zip(&applied.outcomes);
        let commands = pairs.filter(|(_, outcome)| !at_the_door(outcome)).map(|(request, _)| request.clone()).collect();
        let mut state = self.b.state.clone();
        let without = state.apply(&Entry { commands, ..*entry }, &self.b.store);
        if without.events != applied.events {
            let why = difference(&applied.events, &without.events);
            return Err(Failure::new("I13: events of a refused command", why));
        }
        let (with, without) = (final_records(&applied.changes), final_records(&without.changes));
        if with != without {
            let why = difference(&with.into_iter().collect::<Vec<_>>(), &without.into_iter().collect::<Vec<_>>());
            return Err(Failure::new("I13: records of a refused command", why));
        }
        Ok(())
    }

    fn check_violations(&self) -> Result<(), Failure> {
        match self.a.state.violations().first() {
            None => Ok(()),
            Some(first) => {
                let what = first.split(": ").nth(usize::from(first.starts_with("item "))).unwrap_or(first);
                Err(Failure::new(format!("violations: {what}"), first))
            }
        }
    }

    /// The records are the state: as accumulated, as dumped, and as loaded again.
    fn check_records(&mut self) -> Result<(), Failure> {
        let dump = self.a.state.dump();
        let mut dumped = Records::default();
        dumped.write(&dump);
        for (name, live) in [("A", self.a.store.live()), ("B", self.b.store.live())] {
            if live != dumped {
                let list = |records: &Records| {
                    let show =
                        |(key, value): (&[u8], &[u8])| (String::from_utf8_lossy(key).into_owned(), value.to_vec());
                    records.live().map(show).collect::<Vec<_>>()
                };
                let why = difference(&list(&live), &list(&dumped));
                return Err(Failure::new("records", format!("of {name}, kept and dumped: {why}")));
            }
        }
        let load = |records: &Records, hash| {
            State::load(records.live(), hash).map_err(|error| Failure::new("load", error.to_string()))
        };
        let again = load(&dumped, self.a.state.hash())?;
        if again.dump() != dump {
            return Err(Failure::new("load", "what is dumped, loaded and dumped again is another"));
        }
        let hash = self.liar.hash(self.b.state.hash());
        self.b.state = load(&self.b.store.live(), hash)?;
        if !self.watch.oracle {
            return Ok(());
        }
        for (key, value) in dumped.live().filter(|(key, _)| key[0] == record::SPACE) {
            let space: Space = decode(value).map_err(|error| Failure::new("load", format!("{key:?}: {error}")))?;
            let told = self.oracle.counts(&space.name);
            let kept = (space.counts.created, space.counts.live, space.counts.terminal, space.counts.purged);
            if kept != (told.created, told.live, told.terminal, told.purged) {
                return Err(Failure::new("oracle I19", format!("{:?}, by the events {told:?}", space.counts)));
            }
        }
        Ok(())
    }
}

/// The final value of each record.
fn final_records(changes: &Changes) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    changes
        .iter()
        .map(|change| match change {
            Change::Put { key, value } => (key.to_vec(), Some(value.to_vec())),
            Change::Remove { key } => (key.to_vec(), None),
            Change::RemoveUnder { prefix } => (prefix.to_vec(), None),
        })
        .collect()
}

fn difference<T: std::fmt::Debug + PartialEq>(one: &[T], other: &[T]) -> String {
    match one.iter().zip(other).position(|(one, other)| one != other) {
        Some(index) => format!("the first difference is at {index}:\n  {:?}\n  {:?}", one[index], other[index]),
        None => format!(
            "{} and {} of them; the first of the rest: {:?}",
            one.len(),
            other.len(),
            one.get(other.len()).or(other.get(one.len()))
        ),
    }
}

/// No answer is longer than the bound of its command.
fn check_lengths(entry: &Entry, applied: &Applied) -> Result<(), Failure> {
    for (request, outcome) in entry.commands.iter().zip(&applied.outcomes) {
        let (bytes, max) = (encoded_len(outcome), request.command.answer_bytes_max());
        if bytes > max {
            return Err(Failure::new("answers", format!("{bytes} bytes, at most {max} were said: {outcome:?}")));
        }
    }
    Ok(())
}
