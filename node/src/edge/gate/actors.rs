//! What is remembered of each actor, for a bounded number of them.
//!
//! They are known by a hash with a random key, so that an entry has a fixed size whatever the name. Two actors of one
//! hash would share their limits; among 65,536 that is less likely than one in a billion, and nobody can provoke it.

use super::{Class, GateLimits};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

pub(super) struct Actors {
    max: usize,
    burst: f64,
    names: RandomState,
    known: HashMap<u64, Actor>,
    /// Those with nothing going on, by when they were last seen.
    idle: BTreeMap<u64, u64>,
    /// Counts on with every look at an actor.
    turn: u64,
    working: usize,
}

pub(super) struct Actor {
    pub(super) in_flight: usize,
    pub(super) bytes: usize,
    pub(super) waiters: usize,
    pub(super) streams: usize,
    pub(super) bucket: Bucket,
    /// Its key among the idle.
    idle_since: Option<u64>,
    is_working: bool,
}

/// How much an actor may still ask at once. It fills up as time passes.
pub(super) struct Bucket {
    level: f64,
    filled_at: Duration,
}

impl Actors {
    pub(super) fn new(limits: &GateLimits) -> Self {
        Self {
            max: limits.actors_max.max(1),
            burst: f64::from(limits.actor_burst),
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

    /// Those with something in flight.
    pub(super) fn working(&self) -> usize {
        self.working
    }

    /// The actor and its key, made if it is new. None if all that are remembered have something going on. Whoever
    /// changes it calls [`settle`](Self::settle).
    pub(super) fn get(&mut self, name: &str, now: Duration) -> Option<(u64, &mut Actor)> {
        let key = self.names.hash_one(name);
        if !self.known.contains_key(&key) && self.known.len() >= self.max {
            let (_, longest) = self.idle.pop_first()?;
            self.known.remove(&longest);
        }
        let burst = self.burst;
        let actor = self.known.entry(key).or_insert_with(|| Actor {
            in_flight: 0,
            bytes: 0,
            waiters: 0,
            streams: 0,
            bucket: Bucket { level: burst, filled_at: now },
            idle_since: None,
            is_working: false,
        });
        Some((key, actor))
    }

    pub(super) fn change(&mut self, key: u64, change: impl FnOnce(&mut Actor)) {
        if let Some(actor) = self.known.get_mut(&key) {
            change(actor);
        }
        self.settle(key);
    }

    /// Notes whether the actor has something going on.
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

impl Bucket {
    /// A class takes no more than leaves the ones before it their part.
    ///
    /// # Errors
    /// How long until there would be enough.
    #[allow(clippy::cast_precision_loss, reason = "numbers of commands are far below 2^52")]
    pub(super) fn take(
        &mut self,
        limits: &GateLimits,
        class: Class,
        commands: usize,
        now: Duration,
    ) -> Result<(), Duration> {
        let (burst, rate) = (f64::from(limits.actor_burst), f64::from(limits.actor_rate));
        self.level = burst.min(self.level + rate * now.saturating_sub(self.filled_at).as_secs_f64());
        self.filled_at = now;
        let kept = burst * (100 - class.part()) as f64 / 100.0;
        // Else a batch larger than the whole bucket would never be let in.
        let wanted = (commands as f64).min(burst - kept);
        let missing = kept + wanted - self.level;
        if missing > 0.0 {
            return Err(Duration::try_from_secs_f64(missing / rate).unwrap_or(Duration::MAX));
        }
        self.level -= wanted;
        Ok(())
    }
}
