//! What the histories reached. A history in which no lease lapses does not check lapsing.

use lease::changes::Change;
use lease::command::{Command, Entry};
use lease::encoding::decode;
use lease::event::What;
use lease::record::{QUEUE, STANDING, WAKE};
use lease::standing::Standing;
use lease::{Applied, Code, Outcome, Refusal};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    pub(crate) entries: u64,
    pub(crate) commands: u64,
    /// Commands that were not refused.
    pub(crate) accepted: BTreeMap<&'static str, u64>,
    pub(crate) refused: BTreeMap<Code, u64>,
    pub(crate) events: BTreeMap<&'static str, u64>,
    pub(crate) evictions: u64,
    pub(crate) wakes: u64,
    /// Unused queues that were removed.
    pub(crate) queues_gone: u64,
    pub(crate) settled: u64,
    pub(crate) all_granted: u64,
    pub(crate) late_ends: u64,
    pub(crate) repeats: u64,
    pub(crate) polls: u64,
    /// Callers that waited in `next` and were woken.
    pub(crate) woken: u64,
    /// Commands that were refused for lack of a right before they were applied.
    pub(crate) foreseen: u64,
    /// Items in a settle list.
    settling: BTreeSet<Vec<u8>>,
}

/// Whether it had an effect: not empty, and not refused as a whole or in all its parts.
fn was_accepted(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(_) | Outcome::Empty { .. } => false,
        Outcome::CreatedMany(outcomes) => outcomes.iter().any(was_accepted),
        Outcome::ClaimedMany { claims, releases } => claims.iter().chain(releases).any(was_accepted),
        _ => true,
    }
}

impl Reach {
    pub(crate) fn note(&mut self, entry: &Entry, applied: &Applied) {
        self.entries += 1;
        self.commands += entry.commands.len() as u64;
        for (request, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            if was_accepted(outcome) {
                *self.accepted.entry(request.command.name()).or_default() += 1;
            }
            let parts = match outcome {
                Outcome::ClaimedMany { claims, .. } => claims.as_slice(),
                Outcome::CreatedMany(outcomes) => outcomes.as_slice(),
                other => std::slice::from_ref(other),
            };
            for code in parts.iter().filter_map(Outcome::refusal).map(Refusal::code) {
                *self.refused.entry(code).or_default() += 1;
            }
            self.evictions += outcome.grants().iter().filter(|grant| grant.released.is_some()).count() as u64;
            if let (Command::ClaimMany(many), Outcome::ClaimedMany { claims, .. }) = (&request.command, outcome) {
                let all = many.all_or_none && claims.len() > 1 && claims.iter().all(|claim| claim.grant().is_some());
                self.all_granted += u64::from(all);
            }
        }
        for event in &applied.events {
            *self.events.entry(event.what.kind()).or_default() += 1;
            let is_late = matches!(event.what, What::Completed { late: true, .. } | What::Failed { late: true, .. });
            self.late_ends += u64::from(is_late);
        }
        for change in applied.changes.iter() {
            if let Change::Remove { key } = change {
                self.queues_gone += u64::from(key[0] == QUEUE);
            }
            let Change::Put { key, value } = change else { continue };
            match key[0] {
                WAKE => self.wakes += 1,
                STANDING => self.note_settling(key, value),
                _ => {}
            }
        }
    }

    fn note_settling(&mut self, key: &[u8], value: &[u8]) {
        let standing: Standing = decode(value).expect("a record the machine wrote");
        if standing.settle.is_some() {
            self.settling.insert(key.to_vec());
        } else if self.settling.remove(key) && standing.lease.is_some_and(|lease| lease.pickup.is_some()) {
            self.settled += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        fn sum<K: Ord + Copy>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            for (key, count) in from {
                *into.entry(*key).or_default() += count;
            }
        }
        sum(&mut self.accepted, &other.accepted);
        sum(&mut self.refused, &other.refused);
        sum(&mut self.events, &other.events);
        self.entries += other.entries;
        self.commands += other.commands;
        self.evictions += other.evictions;
        self.wakes += other.wakes;
        self.queues_gone += other.queues_gone;
        self.settled += other.settled;
        self.all_granted += other.all_granted;
        self.late_ends += other.late_ends;
        self.repeats += other.repeats;
        self.polls += other.polls;
        self.woken += other.woken;
        self.foreseen += other.foreseen;
    }

    /// What no history reached.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let commands = Command::NAMES.into_iter().filter(|name| !self.accepted.contains_key(name));
        missing.extend(commands.map(|name| format!("no {name} was accepted")));
        let events = What::KINDS.into_iter().filter(|kind| !self.events.contains_key(kind));
        missing.extend(events.map(|kind| format!("nothing was {kind}")));
        // 1,000 dependents are beyond a history of 50 items, and millions of requests beyond any.
        let beyond = [Code::TooManyDependents, Code::RateLimited];
        let codes = Code::ALL.into_iter().filter(|code| !beyond.contains(code) && !self.refused.contains_key(code));
        missing.extend(codes.map(|code| format!("nothing was refused with {code}")));
        let counts = [
            (self.evictions, "no lease made room for another"),
            (self.wakes, "no dependent was woken"),
            (self.queues_gone, "no unused queue went away"),
            (self.settled, "no settle list was drained"),
            (self.all_granted, "no batch of all or none was granted"),
            (self.late_ends, "nothing was ended late"),
            (self.repeats, "no request was repeated"),
            (self.polls, "no claim was polled"),
            (self.woken, "nobody who waited in next was woken"),
            (self.foreseen, "no lack of a right was foreseen"),
        ];
        missing.extend(counts.into_iter().filter(|(count, _)| *count == 0).map(|(_, what)| what.to_owned()));
        missing
    }
}
