//! Who is let in while there is more to do than can be done: what cannot be answered soon is sent away at once.
//!
//! It counts what is in flight, in all and by actor, and learns from those who finish how much that may be. It has no
//! task of its own and never waits. It must not be asked for whoever only waits or listens: see [`Gate::park`].
//!
//! By Little's law what is in flight is throughput times latency. So while answers take longer than the target, no more
//! is let in than what is finished in that time; while they are quicker and the room is used, the room grows.

mod actors;
mod bucket;
mod pressure;

use actors::{Actor, Actors};
use bucket::{Bucket, Fill};
use pressure::Pressure;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The room is reckoned anew after this long, once so many calls have finished, and otherwise after the longer.
const WINDOW: Duration = Duration::from_millis(100);
const WINDOW_CALLS_MIN: u64 = 20;
const WINDOW_LONG: Duration = Duration::from_secs(1);
/// And never sooner than after twice the time a call took, or this: what finishes while the first calls are still on
/// their way says nothing about throughput.
const WINDOW_MAX: Duration = Duration::from_secs(4);
/// By how much the room grows in a window in which it was used and answers were quick: a quarter.
const GROWTH_DIVISOR: usize = 4;
/// In a node that knows nothing yet.
const FIRST_ROOM: usize = 2_048;
/// No one is told to come back sooner or later than this.
const RETRY_MIN: Duration = Duration::from_millis(25);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Waiters and listeners leave when they like: no drain can be reckoned.
const RETRY_PARKED: Duration = Duration::from_secs(1);
/// Of a hundred: what an actor who has its share or more may use less of the room.
const ABOVE_SHARE: usize = 5;
/// The number of byte buckets that spaces share. A hash with a random key chooses the bucket of a space. Most nodes have fewer
/// spaces than this.
const SPACE_BUCKETS: usize = 4_096;
/// A renewal or an ending of a lease of at most this size is let in regardless of the byte rates of its actor and space. The
/// rate of commands still bounds it: at 5,000 a second these are 5 MiB.
const SMALL_BYTES: usize = 1_024;
/// An actor that has read nothing may read at once what it may read in this many seconds.
const READING_BURST_SECS: f64 = 20.0;

/// What a call is to others, from the last to be sent away to the first. Each may fill only a part of every room, so
/// that there is some left for the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Keeps a lease alive: renew, `renew_all`, extend. Sent away, a holder would lose what it works on.
    Renewal,
    /// Ends what is held: release, complete, fail, withdraw. It makes room for others.
    Finish,
    /// Any other command: claim, next, edit, policies.
    Work,
    /// Reading, creating, and whatever else can be asked again in a minute.
    Bulk,
}

impl Class {
    /// Of a hundred: up to where it may fill a room.
    fn part(self) -> usize {
        match self {
            Self::Renewal => 100,
            Self::Finish => 95,
            Self::Work => 85,
            Self::Bulk => 70,
        }
    }
}

/// What may go on at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// How long an answer should take at most. Default 500 ms.
    pub target: Duration,
    /// Commands in flight that are let in however slow the answers are. Default 256: fewer would share an fsync badly.
    pub in_flight_min: usize,
    /// And however quick. Default 16,384.
    pub in_flight_max: usize,
    /// Bytes of commands in flight. Default 256 MiB.
    pub bytes_max: usize,
    /// Commands a second of one actor, over time; a batch is as many as it has entries. Default 5,000.
    pub actor_rate: u32,
    /// Commands at once of an actor that has been quiet. Default 10,000.
    pub actor_burst: u32,
    /// Bytes a second that the commands of one actor add to the log, over time. Default 8 MiB.
    pub actor_byte_rate: u64,
    /// And those of all actors in one space. Default 32 MiB.
    pub space_byte_rate: u64,
    /// Commands in flight of one actor. Default 1,024.
    pub actor_in_flight_max: usize,
    /// Bytes in flight of one actor. Default 32 MiB.
    pub actor_bytes_max: usize,
    /// Time in a second that one core spends on the lists and event pages of one actor. Default 100 ms.
    pub actor_reading: Duration,
    /// Calls that wait for something to happen, and those of one actor. Default 50,000 and 1,000.
    pub waiters_max: usize,
    pub actor_waiters_max: usize,
    /// Open event streams, and those of one actor. Default 20,000 and 1,000.
    pub streams_max: usize,
    pub actor_streams_max: usize,
    /// Actors that are remembered. Beyond it those are forgotten who have had nothing in flight for longest. Default
    /// 65,536.
    pub actors_max: usize,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(500),
            in_flight_min: 256,
            in_flight_max: 16_384,
            bytes_max: 256 * 1024 * 1024,
            actor_rate: 5_000,
            actor_burst: 10_000,
            actor_byte_rate: 8 * 1024 * 1024,
            space_byte_rate: 32 * 1024 * 1024,
            actor_in_flight_max: 1_024,
            actor_bytes_max: 32 * 1024 * 1024,
            actor_reading: Duration::from_millis(100),
            waiters_max: 50_000,
            actor_waiters_max: 1_000,
            streams_max: 20_000,
            actor_streams_max: 1_000,
            actors_max: 65_536,
        }
    }
}

/// What a call weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// One, or as many as are in a batch. In flight, a batch never weighs more than a quarter of the room or of its
    /// actor's; its actor's rate is charged for all of it.
    pub commands: u32,
    /// Of its body.
    pub bytes: usize,
}

/// What a call adds to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub space: &'a str,
    pub bytes: usize,
}

impl Cost {
    #[must_use]
    pub fn one(bytes: usize) -> Self {
        Self { commands: 1, bytes }
    }
}

/// Sent away. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    pub reason: &'static str,
    /// By the actor's own limits (`rate_limited`), not because the node has too much to do (`overloaded`).
    pub is_actors_own: bool,
    /// When one call like this would find room, as far as can be told. All who are sent away in the same moment are
    /// told the same: to come back not all at once, by adding a random part, is the client's matter.
    pub retry_after: Duration,
}

/// What waits without working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parking {
    /// A call that is answered when something happens.
    Waiter,
    /// An event stream.
    Stream,
}

/// What the gate is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateStatus {
    /// Commands that may be in flight now.
    pub room: usize,
    pub in_flight: usize,
    pub bytes: usize,
    pub waiters: usize,
    pub streams: usize,
    /// Remembered.
    pub actors: usize,
    /// What an actor may use of its rates, in thousandths. Less than 1,000 while light callers wait longer than usual.
    pub share: u64,
    /// Commands finished a second, as last measured.
    pub throughput: u64,
    /// Calls so far, let in and sent away.
    pub admitted: u64,
    pub shed: u64,
}

/// Clones share what they count.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    limits: GateLimits,
    /// Time that has passed since some beginning.
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    state: Mutex<State>,
    /// Whether any actor may be held back: read without the lock, because most of the time none is.
    is_pressed: AtomicBool,
}

struct State {
    room: usize,
    in_flight: usize,
    bytes: usize,
    waiters: usize,
    streams: usize,
    actors: Actors,
    /// Of bytes, by space.
    spaces: Box<[Bucket]>,
    space_names: RandomState,
    window: Window,
    pressure: Pressure,
    /// Commands a second.
    throughput: f64,
    admitted: u64,
    shed: u64,
}

/// What has finished since the room was last reckoned.
#[derive(Default)]
struct Window {
    began: Duration,
    calls: u64,
    commands: u64,
    /// Over all commands.
    took: Duration,
    in_flight_peak: usize,
}

impl Window {
    fn is_over(&self, passed: Duration) -> bool {
        let is_enough = self.calls >= WINDOW_CALLS_MIN || self.calls > 0 && passed >= WINDOW_LONG;
        is_enough && passed >= (self.latency() * 2).clamp(WINDOW, WINDOW_MAX)
    }

    /// Of a command, on average.
    fn latency(&self) -> Duration {
        self.took / u32::try_from(self.commands).unwrap_or(u32::MAX).max(1)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.status()).finish()
    }
}

impl Gate {
    #[must_use]
    pub fn new(limits: GateLimits) -> Self {
        let began = Instant::now();
        Self::with_clock(limits, move || began.elapsed())
    }

    /// `clock` says how much time has passed since some beginning, and never goes back.
    #[must_use]
    pub fn with_clock(limits: GateLimits, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let full = Bucket::full(limits.fill_of_space(), clock());
        let state = State {
            room: FIRST_ROOM.min(limits.in_flight_max).max(limits.in_flight_min),
            in_flight: 0,
            bytes: 0,
            waiters: 0,
            streams: 0,
            actors: Actors::new(&limits),
            spaces: vec![full; SPACE_BUCKETS].into(),
            space_names: RandomState::new(),
            window: Window { began: clock(), ..Window::default() },
            pressure: Pressure::new(limits.fill_of_actor(), clock()),
            throughput: 0.0,
            admitted: 0,
            shed: 0,
        };
        let (clock, state) = (Box::new(clock), Mutex::new(state));
        Self(Arc::new(Shared { limits, clock, state, is_pressed: AtomicBool::new(false) }))
    }

    /// Room for a call that is worked on from now on and adds nothing to the log.
    ///
    /// # Errors
    /// When there is none for this class or this actor.
    pub fn admit(&self, actor: &str, class: Class, cost: Cost) -> Result<Admitted, Shed> {
        self.admit_entry(actor, class, cost, None)
    }

    /// Room for a call that adds this to the log.
    ///
    /// # Errors
    /// When there is none for this class, this actor or this space.
    pub fn admit_entry(
        &self,
        actor: &str,
        class: Class,
        cost: Cost,
        entry: Option<Entry<'_>>,
    ) -> Result<Admitted, Shed> {
        let limits = &self.0.limits;
        let now = (self.0.clock)();
        let mut state = self.0.lock();
        match state.find_room(limits, actor, class, cost, entry, now) {
            Ok((actor, Held { commands, bytes, is_light })) => {
                drop(state);
                Ok(Admitted { gate: self.clone(), actor, commands, bytes, began: now, is_light, is_done: false })
            }
            Err(shed) => {
                state.shed += 1;
                Err(shed)
            }
        }
    }

    /// Whether a call of this actor has a chance, before its body is read.
    ///
    /// # Errors
    /// When the actor has used more than its share while light callers wait.
    pub fn check_share(&self, actor: &str, class: Class) -> Result<(), Shed> {
        if class <= Class::Finish || !self.0.is_pressed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.check(actor, |pressure, actor, now| pressure.holds_back(&mut actor.effort, now))
    }

    /// Whether lists and event pages may be made for this actor now.
    ///
    /// # Errors
    /// When they have taken more time than its rate allows, or it has used more than its share while light callers wait.
    pub fn check_reading(&self, actor: &str) -> Result<(), Shed> {
        let fill = self.0.limits.reading_of_actor();
        self.check(actor, |pressure, actor, now| {
            let overdrawn = actor.reading.overdrawn_for(fill, now);
            overdrawn
                .map(|wait| shed("actor_reading", true, wait))
                .or_else(|| pressure.holds_back(&mut actor.effort, now))
        })
    }

    fn check(
        &self,
        actor: &str,
        check: impl FnOnce(&Pressure, &mut Actor, Duration) -> Option<Shed>,
    ) -> Result<(), Shed> {
        let now = (self.0.clock)();
        let mut state = self.0.lock();
        let state = &mut *state;
        let Some((key, known)) = state.actors.get(actor, now) else { return Ok(()) };
        let refused = check(&state.pressure, known, now);
        state.actors.settle(key);
        if refused.is_some() {
            state.shed += 1;
        }
        refused.map_or(Ok(()), Err)
    }

    /// An actor has sent this body. It counts also when the call is refused.
    pub fn has_sent(&self, actor: &str, bytes: usize) {
        self.has_used(actor, self.0.limits.commands_of_bytes(bytes), Duration::ZERO);
    }

    /// A core has spent this time on a list or an event page of an actor.
    pub fn has_read(&self, actor: &str, time: Duration) {
        self.has_used(actor, self.0.limits.commands_of_reading(time), time);
    }

    fn has_used(&self, actor: &str, commands: f64, reading: Duration) {
        let fill = self.0.limits.reading_of_actor();
        let now = (self.0.clock)();
        let mut state = self.0.lock();
        let state = &mut *state;
        let Some((key, known)) = state.actors.get(actor, now) else { return };
        state.pressure.note_use(key, &mut known.used, &mut known.effort, commands, now);
        known.reading.owe(reading.as_secs_f64(), fill, fill.burst, now);
        state.actors.settle(key);
    }

    /// A place for a call that only waits, or a stream: it is not in flight. Whoever was admitted finishes first, and
    /// is admitted anew for what it does once it is woken.
    ///
    /// # Errors
    /// When too many do, in all or of this actor.
    pub fn park(&self, actor: &str, parking: Parking) -> Result<Parked, Shed> {
        let now = (self.0.clock)();
        let mut state = self.0.lock();
        match state.find_place(&self.0.limits, actor, parking, now) {
            Ok(actor) => {
                drop(state);
                Ok(Parked { gate: self.clone(), actor, parking })
            }
            Err(shed) => {
                state.shed += 1;
                Err(shed)
            }
        }
    }

    #[must_use]
    pub fn status(&self) -> GateStatus {
        let state = self.0.lock();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate that was measured")]
        let throughput = state.throughput as u64;
        GateStatus {
            room: state.room,
            in_flight: state.in_flight,
            bytes: state.bytes,
            waiters: state.waiters,
            streams: state.streams,
            actors: state.actors.len(),
            share: state.pressure.thousandths(),
            throughput,
            admitted: state.admitted,
            shed: state.shed,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GateLimits {
    fn fill_of_actor(&self) -> Fill {
        Fill { rate: f64::from(self.actor_rate), burst: f64::from(self.actor_burst) }
    }

    fn bytes_of_actor(&self) -> Fill {
        Fill::of_bytes(self.actor_byte_rate)
    }

    fn fill_of_space(&self) -> Fill {
        Fill::of_bytes(self.space_byte_rate)
    }

    fn reading_of_actor(&self) -> Fill {
        let rate = self.actor_reading.as_secs_f64().max(0.001);
        Fill { rate, burst: rate * READING_BURST_SECS }
    }

    /// What uses up as large a part of an actor's rate of bytes as this many commands do of its rate of commands.
    #[allow(clippy::cast_precision_loss, reason = "numbers of bytes are far below 2^52")]
    fn commands_of_bytes(&self, bytes: usize) -> f64 {
        bytes as f64 * self.fill_of_actor().rate / self.bytes_of_actor().rate
    }

    /// The same for its rate of reading.
    fn commands_of_reading(&self, time: Duration) -> f64 {
        time.as_secs_f64() * self.fill_of_actor().rate / self.reading_of_actor().rate
    }
}

/// What a call takes of the rooms while it is in flight.
struct Held {
    commands: usize,
    bytes: usize,
    is_light: bool,
}

impl State {
    #[allow(clippy::cast_precision_loss, reason = "numbers of commands and bytes are far below 2^52")]
    fn find_room(
        &mut self,
        limits: &GateLimits,
        name: &str,
        class: Class,
        cost: Cost,
        entry: Option<Entry<'_>>,
        now: Duration,
    ) -> Result<(u64, Held), Shed> {
        let heaviest = (self.room / 4).min(limits.actor_in_flight_max / 4);
        let all = usize::try_from(cost.commands).unwrap_or(usize::MAX).max(1);
        let commands = all.min(heaviest.max(1));
        let bytes = cost.bytes.min(limits.bytes_max / 4).min(limits.actor_bytes_max / 4);
        let drained = self.drained_in(limits, class, commands);
        // As if one more were about to come, for whom something must be left.
        let share = self.room / (self.actors.working() + 1);
        let Some((key, actor)) = self.actors.get(name, now) else {
            return Err(shed("too_many_actors", false, drained));
        };
        let is_light = entry.is_some_and(|entry| entry.bytes <= SMALL_BYTES) && self.pressure.is_light(actor.used);
        let held_back = if class > Class::Finish { self.pressure.holds_back(&mut actor.effort, now) } else { None };
        let part = class.part() - if actor.in_flight >= share.max(1) { ABOVE_SHARE } else { 0 };

        let refused = if held_back.is_some() {
            held_back
        } else if actor.in_flight + commands > part_of(limits.actor_in_flight_max, class.part()) {
            Some(shed("actor_in_flight", true, drained))
        } else if actor.bytes + bytes > part_of(limits.actor_bytes_max, class.part()) {
            Some(shed("actor_bytes", true, drained))
        } else if self.in_flight + commands > part_of(self.room, part) {
            Some(shed("in_flight", false, drained))
        } else if self.bytes + bytes > part_of(limits.bytes_max, part) {
            Some(shed("bytes", false, drained))
        } else {
            // Last, because it takes from the buckets: from all of them or from none.
            let wanted = all as f64;
            let of_actor = actor.bucket.wait(limits.fill_of_actor(), class, wanted, now);
            let is_small = class <= Class::Finish && entry.is_some_and(|entry| entry.bytes <= SMALL_BYTES);
            let written = entry.map(|entry| {
                #[allow(clippy::cast_possible_truncation, reason = "a part of a hash is a hash")]
                let nth = self.space_names.hash_one(entry.space) as usize % SPACE_BUCKETS;
                (entry.bytes as f64, &mut self.spaces[nth])
            });
            match (of_actor, written) {
                (Some(wait), _) => Some(shed("actor_rate", true, wait)),
                (None, None) => {
                    actor.bucket.take(limits.fill_of_actor(), class, wanted);
                    None
                }
                (None, Some((bytes, of_space))) => {
                    let (own, all) = (limits.bytes_of_actor(), limits.fill_of_space());
                    let waits = (actor.written.wait(own, class, bytes, now), of_space.wait(all, class, bytes, now));
                    match waits {
                        (Some(wait), _) if !is_small => Some(shed("actor_byte_rate", true, wait)),
                        (_, Some(wait)) if !is_small => Some(shed("space_byte_rate", false, wait)),
                        _ => {
                            actor.bucket.take(limits.fill_of_actor(), class, wanted);
                            actor.written.take(own, class, bytes);
                            of_space.take(all, class, bytes);
                            None
                        }
                    }
                }
            }
        };
        if let Some(refused) = refused {
            self.actors.settle(key);
            return Err(refused);
        }
        actor.in_flight += commands;
        actor.bytes += bytes;
        if class > Class::Finish {
            self.pressure.note_use(key, &mut actor.used, &mut actor.effort, all as f64, now);
        }
        self.actors.settle(key);
        if self.in_flight == 0 && self.window.calls == 0 {
            // Time in which there was nothing to do says nothing about throughput.
            self.window.began = now;
        }
        self.in_flight += commands;
        self.bytes += bytes;
        self.admitted += 1;
        self.window.in_flight_peak = self.window.in_flight_peak.max(self.in_flight);
        Ok((key, Held { commands, bytes, is_light }))
    }

    fn find_place(&mut self, limits: &GateLimits, name: &str, parking: Parking, now: Duration) -> Result<u64, Shed> {
        let Some((key, actor)) = self.actors.get(name, now) else {
            return Err(shed("too_many_actors", false, RETRY_PARKED));
        };
        let (own, own_max, all, all_max) = match parking {
            Parking::Waiter => (&mut actor.waiters, limits.actor_waiters_max, &mut self.waiters, limits.waiters_max),
            Parking::Stream => (&mut actor.streams, limits.actor_streams_max, &mut self.streams, limits.streams_max),
        };
        let refused = if *own >= own_max {
            Some(shed("actor_parked", true, RETRY_PARKED))
        } else if *all >= all_max {
            Some(shed("parked", false, RETRY_PARKED))
        } else {
            *own += 1;
            *all += 1;
            None
        };
        self.actors.settle(key);
        refused.map_or(Ok(key), Err)
    }

    fn finish(&mut self, limits: &GateLimits, admitted: &Admitted, now: Duration) {
        self.in_flight -= admitted.commands;
        self.bytes -= admitted.bytes;
        self.actors.change(admitted.actor, |actor| {
            actor.in_flight -= admitted.commands;
            actor.bytes -= admitted.bytes;
        });
        if admitted.is_done {
            let commands = u32::try_from(admitted.commands).unwrap_or(u32::MAX);
            self.window.calls += 1;
            self.window.commands += u64::from(commands);
            self.window.took += now.saturating_sub(admitted.began).saturating_mul(commands);
        }
        if admitted.is_light {
            self.pressure.note_answer(now.saturating_sub(admitted.began));
        }
        self.pressure.adapt(now, |key| self.actors.used(key));
        let passed = now.saturating_sub(self.window.began);
        if self.window.is_over(passed) {
            self.reckon(limits, now, passed);
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "numbers of commands are far below 2^52")]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped, and never negative")]
    fn reckon(&mut self, limits: &GateLimits, now: Duration, passed: Duration) {
        let window = std::mem::take(&mut self.window);
        self.window.began = now;
        self.window.in_flight_peak = self.in_flight;
        self.throughput = window.commands as f64 / passed.as_secs_f64();
        let grown = self.room + self.room / GROWTH_DIVISOR + 1;
        if window.latency() > limits.target {
            // After a stall much finishes at once: that is no reason to let in more than usual.
            self.room = grown.min((self.throughput * limits.target.as_secs_f64()) as usize);
        } else if window.in_flight_peak > self.room / 2 {
            self.room = grown;
        }
        self.room = self.room.min(limits.in_flight_max).max(limits.in_flight_min);
    }

    /// Until so much has finished that a call of this class would be let in.
    #[allow(clippy::cast_precision_loss, reason = "numbers of commands are far below 2^52")]
    fn drained_in(&self, limits: &GateLimits, class: Class, commands: usize) -> Duration {
        let excess = (self.in_flight + commands).saturating_sub(part_of(self.room, class.part())).max(1);
        if self.throughput < 1.0 {
            return limits.target;
        }
        Duration::try_from_secs_f64(excess as f64 / self.throughput).unwrap_or(RETRY_MAX)
    }
}

fn part_of(room: usize, part: usize) -> usize {
    room.saturating_mul(part) / 100
}

fn shed(reason: &'static str, is_actors_own: bool, retry_after: Duration) -> Shed {
    Shed { reason, is_actors_own, retry_after: retry_after.clamp(RETRY_MIN, RETRY_MAX) }
}

/// Room that is given back when this is dropped, whatever happens to the call.
#[derive(Debug)]
#[must_use = "the room is given back when this is dropped"]
pub struct Admitted {
    gate: Gate,
    actor: u64,
    commands: usize,
    bytes: usize,
    began: Duration,
    /// How long it takes tells how long light callers wait.
    is_light: bool,
    is_done: bool,
}

impl Admitted {
    /// The work is done, with whatever outcome. From this the gate learns how quick the node is; a call that is merely
    /// dropped, because its caller went away, tells nothing about that.
    pub fn done(mut self) {
        self.is_done = true;
    }

    /// It only waits from now on. How quick the node is cannot be told from it: whoever waits has an answer late, and
    /// whoever begins to wait would seem to have had one at once.
    ///
    /// # Errors
    /// As [`Gate::park`].
    pub fn parked(mut self, actor: &str, parking: Parking) -> Result<Parked, Shed> {
        let gate = self.gate.clone();
        self.is_light = false;
        drop(self);
        gate.park(actor, parking)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let shared = self.gate.0.clone();
        let now = (shared.clock)();
        let mut state = shared.lock();
        state.finish(&shared.limits, self, now);
        shared.is_pressed.store(state.pressure.is_on(), Ordering::Relaxed);
    }
}

/// A place that is given back when this is dropped.
#[derive(Debug)]
#[must_use = "the place is given back when this is dropped"]
pub struct Parked {
    gate: Gate,
    actor: u64,
    parking: Parking,
}

impl Drop for Parked {
    fn drop(&mut self) {
        let mut state = self.gate.0.lock();
        let leave = |actor: &mut Actor| match self.parking {
            Parking::Waiter => actor.waiters -= 1,
            Parking::Stream => actor.streams -= 1,
        };
        state.actors.change(self.actor, leave);
        match self.parking {
            Parking::Waiter => state.waiters -= 1,
            Parking::Stream => state.streams -= 1,
        }
    }
}

#[cfg(test)]
mod tests;
