//! The state of each actor, for a bounded number of actors.
//!
//! An actor is identified by a hash with a random key, so that an entry has a fixed size for any name. Two actors with
//! the same hash would share their limits. Among 65,536 actors that is less likely than one in a billion, and nobody
//! can provoke it.

use super::GateLimits;
use super::bucket::{Bucket, Fill};
use super::pressure::Used;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

pub(super) struct Actors {
    max: usize,
    commands: Fill,
    bytes: Fill,
    reading: Fill,
    names: RandomState,
    known: HashMap<u64, Actor>,
    /// Idle actors, ordered by when they were last active.
    idle: BTreeMap<u64, u64>,
    /// Grows each time an actor is noted as idle.
    turn: u64,
    working: usize,
}

pub(super) struct Actor {
    pub(super) in_flight: usize,
    pub(super) bytes: usize,
    pub(super) waiters: usize,
    pub(super) streams: usize,
    /// For commands.
    pub(super) bucket: Bucket,
    /// For bytes added to the log.
    pub(super) written: Bucket,
    /// For CPU time spent on lists and event pages.
    pub(super) reading: Bucket,
    /// For everything that the actor uses, converted to commands. Full, unless light callers wait.
    pub(super) effort: Bucket,
    pub(super) used: Used,
    /// Its key in `idle`.
    idle_since: Option<u64>,
    is_working: bool,
}

impl Actors {
    pub(super) fn new(limits: &GateLimits) -> Self {
        Self {
            max: limits.actors_max.max(1),
            commands: limits.fill_of_actor(),
            bytes: limits.bytes_of_actor(),
            reading: limits.reading_of_actor(),
            names: RandomState::new(),
            known: HashMap::new(),
            idle: BTreeMap::new(),
            turn: 0,
            working: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Number of actors with commands in flight.
    pub(super) fn working(&self) -> usize {
        self.working
    }

    /// The actor and its key; adds an entry if it is new. None if all tracked actors are active. Call
    /// [`settle`](Self::settle) after a change.
    pub(super) fn get(&mut self, name: &str, now: Duration) -> Option<(u64, &mut Actor)> {
        let key = self.names.hash_one(name);
        if !self.known.contains_key(&key) && self.known.len() >= self.max {
            let (_, longest) = self.idle.pop_first()?;
            self.known.remove(&longest);
        }
        let (commands, written, reading) = (self.commands, self.bytes, self.reading);
        let actor = self.known.entry(key).or_insert_with(|| Actor {
            in_flight: 0,
            bytes: 0,
            waiters: 0,
            streams: 0,
            bucket: Bucket::full(commands, now),
            written: Bucket::full(written, now),
            reading: Bucket::full(reading, now),
            effort: Bucket::full(commands, now),
            used: Used::default(),
            idle_since: None,
            is_working: false,
        });
        Some((key, actor))
    }

    /// The recent use of an actor, if it is still tracked.
    pub(super) fn used(&self, key: u64) -> Option<Used> {
        self.known.get(&key).map(|actor| actor.used)
    }

    pub(super) fn change(&mut self, key: u64, change: impl FnOnce(&mut Actor)) {
        if let Some(actor) = self.known.get_mut(&key) {
            change(actor);
        }
        self.settle(key);
    }

    /// Updates whether the actor is working or idle.
    pub(super) fn settle(&mut self, key: u64) {
        let Some(actor) = self.known.get_mut(&key) else { return };
        let is_working = actor.in_flight > 0;
        if is_working != actor.is_working {
            actor.is_working = is_working;
            if is_working {
                self.working += 1;
            } else {
                self.working -= 1;
            }
        }
        if let Some(since) = actor.idle_since.take() {
            self.idle.remove(&since);
        }
        if !is_working && actor.waiters == 0 && actor.streams == 0 {
            self.turn += 1;
            actor.idle_since = Some(self.turn);
            self.idle.insert(self.turn, key);
        }
    }
}
