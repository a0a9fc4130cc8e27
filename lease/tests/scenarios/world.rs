//! Two replicas that must agree, and the checks that must pass after every step.

use super::check::Covered;
use super::render::{self, Tale};
use super::script::Step;
use lease::caller::Caller;
use lease::changes::{Change, Changes};
use lease::event::What;
use lease::invariants::Witness;
use lease::names::{ItemId, SpaceName};
use lease::numbers::{EventNumber, QueueNo, Time};
use lease::record::Key;
use lease::{Entry, Event, Opening, Outcome, Records, Request, Salt, State};
use std::collections::BTreeMap;

pub(crate) struct World {
    /// The replica that stays in memory.
    state: State,
    /// The records that the other replica is loaded from before every step.
    records: Records,
    events: Vec<Event>,
    /// The openings of the last entry.
    openings: Vec<Opening>,
    witness: Witness,
    last_event: BTreeMap<SpaceName, EventNumber>,
    /// The revision each item was created with.
    pub(crate) created: BTreeMap<(SpaceName, ItemId), EventNumber>,
    pub(crate) covered: Covered,
}

impl World {
    pub(crate) fn new() -> Self {
        let state = State::new(Salt([7, 11]));
        let mut records = Records::default();
        records.write(&state.dump());
        Self {
            state,
            records,
            events: Vec::new(),
            openings: Vec::new(),
            witness: Witness::default(),
            last_event: BTreeMap::new(),
            created: BTreeMap::new(),
            covered: Covered::default(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.state.now()
    }

    /// Applies one entry on both replicas and renders the result.
    pub(crate) fn apply(&mut self, step: &Step, requests: &[Request]) -> String {
        let line = &step.line;
        let entry = Entry { at: step.at, wall: step.wall, commands: requests.to_vec() };
        let deadlines = self.state.next_deadlines(&self.records);

        let mut reloaded = State::load(self.records.live(), self.state.hash()).expect("the records are a state");
        let again = reloaded.apply(&entry, &self.records);
        let applied = self.state.apply(&entry, &self.records);
        assert_eq!(again.outcomes, applied.outcomes, "two replicas differ in outcomes: {line}");
        assert_eq!(again.events, applied.events, "two replicas differ in events: {line}");
        assert_eq!(again.openings, applied.openings, "two replicas wake different callers: {line}");
        assert_eq!(reloaded.hash(), self.state.hash(), "two replicas differ in their hash: {line}");

        self.records.write(&applied.changes);
        let stored: BTreeMap<_, _> = self.records.live().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert!(records_of(&self.state.dump()) == stored, "the store is not what is in memory: {line}");
        assert!(records_of(&reloaded.dump()) == stored, "the store is not what was reloaded: {line}");
        for state in [&self.state, &reloaded] {
            assert_eq!(state.violations(), Vec::<String>::new(), "{line}");
        }

        self.witness.observe(&self.state, &entry, &applied).unwrap_or_else(|why| panic!("{why}: {line}"));
        self.take_events(step, &applied.events);
        self.openings.clone_from(&applied.openings);
        let happened_by_itself = requests.is_empty() && !applied.events.is_empty();
        let was_due = deadlines.time.is_some_and(|time| time <= self.now())
            || deadlines.wall.is_some_and(|wall| wall <= step.wall);
        assert!(!happened_by_itself || was_due, "no deadline named the time of what happened here: {line}");

        assert_eq!(applied.outcomes.len(), requests.len(), "one outcome per command: {line}");
        for (request, outcome) in requests.iter().zip(&applied.outcomes) {
            if let Err(refusal) = lease::validate(request) {
                assert_eq!(*outcome, Outcome::Refused(refusal), "the edge and the core disagree: {line}");
            }
            self.note_codes(outcome);
        }
        render::step(&Tale { world: self, requests, outcomes: &applied.outcomes, events: &applied.events })
    }

    /// Checks that events are numbered per space without gaps, carry this entry's time and never go back an epoch.
    fn take_events(&mut self, step: &Step, events: &[Event]) {
        for event in events {
            let last = self.last_event.entry(event.space.clone()).or_default();
            assert_eq!(event.number.seq, last.seq + 1, "a gap in the events: {}", step.line);
            assert!(event.number.epoch >= last.epoch && (event.at, event.wall) == (self.state.now(), step.wall));
            *last = event.number;
            if let (What::Created, Some(item)) = (&event.what, &event.item) {
                self.created.insert((event.space.clone(), item.clone()), event.number);
            }
            if let What::LeftLine { answer: Some(code), .. } = &event.what {
                self.covered.codes.insert(*code);
            }
            self.covered.kinds.insert(event.what.kind());
            self.events.push(event.clone());
        }
    }

    fn note_codes(&mut self, outcome: &Outcome) {
        let parts: Vec<&Outcome> = match outcome {
            Outcome::Refused(refusal) => {
                self.covered.codes.insert(refusal.code());
                return;
            }
            Outcome::CreatedMany(outcomes) => outcomes.iter().collect(),
            Outcome::ClaimedMany { claims, releases } => claims.iter().chain(releases).collect(),
            _ => return,
        };
        parts.into_iter().for_each(|part| self.note_codes(part));
    }

    /// How many callers the last entry wakes.
    pub(crate) fn wakes(&self) -> String {
        let of = |opening: &Opening| match opening.callers {
            u32::MAX => format!("all of {}", opening.queue),
            callers => format!("{callers} of {}", opening.queue),
        };
        let told: Vec<_> = self.openings.iter().map(of).collect();
        if told.is_empty() { "nobody".into() } else { told.join(", ") }
    }

    /// The queues of all spaces, in the order of their numbers.
    pub(crate) fn queues(&self) -> String {
        let mut names = Vec::new();
        let mut from = QueueNo(0);
        while let Some((no, _, stats)) = self.state.queue_from(from) {
            names.push(format!("{}: {}", no.0, stats.queue));
            from = QueueNo(no.0 + 1);
        }
        render::shortened(names, 9).join(", ")
    }

    /// All events so far, as this viewer may see them.
    pub(crate) fn watch(&self, viewer: &Caller) -> String {
        let seen: Vec<_> = self
            .events
            .iter()
            .filter_map(|event| {
                let view = self.state.view_event(&self.records, viewer, event)?;
                let by = view.by.map_or_else(|| "?".to_owned(), |who| who.actor.to_string());
                Some(match view.what {
                    // No lease has the token 0: it marks a token that is not shown.
                    Some(what) => {
                        let told = render::event(&Event { what, ..event.clone() }).replace(", token 0", "");
                        format!("{told} by {by}")
                    }
                    None => format!("{} of {}", view.kind, view.item.map_or_else(String::new, |item| item.to_string())),
                })
            })
            .collect();
        seen.join("; ")
    }

    /// The revision, if it is not the one that the item was created with.
    pub(crate) fn revision_note(&self, space: &SpaceName, item: &ItemId, revision: EventNumber) -> String {
        if self.created.get(&(space.clone(), item.clone())) == Some(&revision) {
            String::new()
        } else {
            format!(", at {}", render::revision(revision))
        }
    }
}

fn records_of(dump: &Changes) -> BTreeMap<Vec<u8>, Vec<u8>> {
    dump.iter()
        .map(|change| match change {
            Change::Put { key, value } => {
                Key::decode(key).expect("a key");
                (key.to_vec(), value.to_vec())
            }
            Change::Remove { .. } | Change::RemoveUnder { .. } => unreachable!("a dump only puts"),
        })
        .collect()
}
