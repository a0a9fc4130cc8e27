//! Admission control under overload: a call that cannot be answered soon is rejected at once.
//!
//! The gate counts the commands in flight, in total and per actor, and computes from finished calls how many may be in
//! flight. It has no task and never waits. Callers that only wait or listen use [`Gate::park`] instead.
//!
//! By Little's law, the number in flight is throughput times latency. So while answers take longer than the target, the
//! gate admits no more than finishes within that time; while they are faster and the room is used, the room grows.

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

/// The room is computed again after `WINDOW` if at least `WINDOW_CALLS_MIN` calls have finished, otherwise after
/// `WINDOW_LONG`.
const WINDOW: Duration = Duration::from_millis(100);
const WINDOW_CALLS_MIN: u64 = 20;
const WINDOW_LONG: Duration = Duration::from_secs(1);
/// A window is also never shorter than twice the latency of a call, up to this limit: calls that finish while the first
/// ones are still running say nothing about throughput.
const WINDOW_MAX: Duration = Duration::from_secs(4);
/// In a window in which the room was used and answers were fast, the room grows by a quarter.
const GROWTH_DIVISOR: usize = 4;
/// The room of a node that has measured nothing yet.
const FIRST_ROOM: usize = 2_048;
/// Bounds of `retry_after`.
const RETRY_MIN: Duration = Duration::from_millis(25);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// `retry_after` for waiters and listeners. They leave at any time, so it cannot be computed.
const RETRY_PARKED: Duration = Duration::from_secs(1);
/// Percent of the room that an actor with its share or more may use less.
const ABOVE_SHARE: usize = 5;
/// The number of byte buckets that spaces share. A hash with a random key chooses the bucket of a space. Most nodes
/// have fewer spaces than this.
const SPACE_BUCKETS: usize = 4_096;
/// A command that renews or ends a lease and has at most this size is admitted regardless of the byte rates of its
/// actor and space. The command rate still limits it: 5,000 per second are 5 MiB.
const SMALL_BYTES: usize = 1_024;
/// An idle actor may use the reading time of this many seconds at once.
const READING_BURST_SECS: f64 = 20.0;

/// Class of a call, from the last to be rejected to the first. Each class may fill only a part of every room, so that
/// some is left for the classes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Keeps a lease: renew, `renew_all`, extend. If it were rejected, a holder would lose the item it works on.
    Renewal,
    /// Ends a lease or a wait: release, complete, fail, withdraw. It makes room for others.
    Finish,
    /// Any other command: claim, next, edit, policies.
    Work,
    /// Reads, creations, and everything else that can be retried in a minute.
    Bulk,
}

impl Class {
    /// Percent of a room that the class may fill.
    fn part(self) -> usize {
        match self {
            Self::Renewal => 100,
            Self::Finish => 95,
            Self::Work => 85,
            Self::Bulk => 70,
        }
    }
}

/// Limits of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// Target for the maximum latency of an answer. Default 500 ms.
    pub target: Duration,
    /// Commands in flight that are always admitted, however slow the answers are. Default 256: fewer would share an
    /// fsync badly.
    pub in_flight_min: usize,
    /// Maximum of commands in flight, however fast the answers are. Default 16,384.
    pub in_flight_max: usize,
    /// Bytes of commands in flight. Default 256 MiB.
    pub bytes_max: usize,
    /// Commands per second of one actor; a batch counts as one command per entry. Default 5,000.
    pub actor_rate: u32,
    /// Commands that an idle actor may send at once. Default 10,000.
    pub actor_burst: u32,
    /// Bytes per second that the commands of one actor add to the log. Default 8 MiB.
    pub actor_byte_rate: u64,
    /// Bytes per second that the commands of all actors add to the log in one space. Default 32 MiB.
    pub space_byte_rate: u64,
    /// Commands in flight of one actor. Default 1,024.
    pub actor_in_flight_max: usize,
    /// Bytes in flight of one actor. Default 32 MiB.
    pub actor_bytes_max: usize,
    /// CPU time per second for the lists and event pages of one actor. Default 100 ms.
    pub actor_reading: Duration,
    /// Calls in a long poll, in total and of one actor. Default 50,000 and 1,000.
    pub waiters_max: usize,
    pub actor_waiters_max: usize,
    /// Open event streams, in total and of one actor. Default 20,000 and 1,000.
    pub streams_max: usize,
    pub actor_streams_max: usize,
    /// Actors that the gate tracks. Above it, the actors that have been idle longest are forgotten. Default 65,536.
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

/// The weight of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// One, or the number of entries of a batch. In flight, a batch weighs at most a quarter of the room and of its
    /// actor's limit; its actor's rate is charged for all entries.
    pub commands: u32,
    /// Bytes of its body.
    pub bytes: usize,
}

/// The log entry of a call.
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

/// A rejected call. It had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    pub reason: &'static str,
    /// Rejected by the actor's own limits (`rate_limited`), not because the node is overloaded (`overloaded`).
    pub is_actors_own: bool,
    /// An estimate of when one call like this finds room. All calls that are rejected at the same time get the same
    /// value; clients add a random part so that they do not all retry at once.
    pub retry_after: Duration,
}

/// A call or stream that waits without working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parking {
    /// A call in a long poll.
    Waiter,
    /// An event stream.
    Stream,
}

/// The state of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateStatus {
    /// Maximum of commands in flight now.
    pub room: usize,
    pub in_flight: usize,
    pub bytes: usize,
    pub waiters: usize,
    pub streams: usize,
    /// Tracked actors.
    pub actors: usize,
    /// The part of its rates that an actor may use, in thousandths. Less than 1,000 while light callers wait longer
    /// than usual.
    pub share: u64,
    /// Finished commands per second, as last measured.
    pub throughput: u64,
    /// Admitted and rejected calls so far.
    pub admitted: u64,
    pub shed: u64,
}

/// The gate. Clones share its counts.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    limits: GateLimits,
    /// Time since an arbitrary start.
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    state: Mutex<State>,
    /// Whether any actor may be throttled. Read without the lock, because most of the time none is.
    is_pressed: AtomicBool,
}

struct State {
    room: usize,
    in_flight: usize,
    bytes: usize,
    waiters: usize,
    streams: usize,
    actors: Actors,
    /// Byte buckets by space.
    spaces: Box<[Bucket]>,
    space_names: RandomState,
    window: Window,
    pressure: Pressure,
    /// Commands a second.
    throughput: f64,
    admitted: u64,
    shed: u64,
}

/// The calls that have finished since the room was last computed.
#[derive(Default)]
struct Window {
    began: Duration,
    calls: u64,
    commands: u64,
    /// Sum over all commands.
    took: Duration,
    in_flight_peak: usize,
}

impl Window {
    fn is_over(&self, passed: Duration) -> bool {
        let is_enough = self.calls >= WINDOW_CALLS_MIN || self.calls > 0 && passed >= WINDOW_LONG;
        is_enough && passed >= (self.latency() * 2).clamp(WINDOW, WINDOW_MAX)
    }

    /// Average latency of a command.
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

    /// `clock` returns the time since an arbitrary start and never goes back.
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

    /// Admits a call that starts now and adds nothing to the log.
    ///
    /// # Errors
    /// When there is no room for this class or this actor.
    pub fn admit(&self, actor: &str, class: Class, cost: Cost) -> Result<Admitted, Shed> {
        self.admit_entry(actor, class, cost, None)
    }

    /// Admits a call that adds `entry` to the log.
    ///
    /// # Errors
    /// When there is no room for this class, this actor or this space.
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

    /// Whether heavy callers are throttled because light callers wait.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.0.is_pressed.load(Ordering::Relaxed)
    }

    /// Checks before the body is read whether a call of this actor may be admitted.
    ///
    /// # Errors
    /// When the actor has used more than its share while light callers wait.
    pub fn check_share(&self, actor: &str, class: Class) -> Result<(), Shed> {
        if class <= Class::Finish || !self.is_pressed() {
            return Ok(());
        }
        self.check(actor, |pressure, actor, now| pressure.holds_back(&mut actor.effort, now))
    }

    /// Checks whether lists and event pages may be made for this actor now.
    ///
    /// # Errors
    /// When they have taken more time than the actor's rate allows, or the actor has used more than its share while
    /// light callers wait.
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

    /// Charges an actor for a body that it has sent, also when the call is refused later.
    pub fn has_sent(&self, actor: &str, bytes: usize) {
        self.has_used(actor, self.0.limits.commands_of_bytes(bytes), Duration::ZERO);
    }

    /// Charges an actor for CPU time spent on a list or event page.
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

    /// Takes a place for a waiting call or a stream, which is not in flight. An admitted call gives up its room first,
    /// and is admitted again when it is woken.
    ///
    /// # Errors
    /// When too many calls wait, in total or of this actor.
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

    /// The number of commands that use the same part of the command rate as `bytes` use of the byte rate.
    #[allow(clippy::cast_precision_loss, reason = "numbers of bytes are far below 2^52")]
    fn commands_of_bytes(&self, bytes: usize) -> f64 {
        bytes as f64 * self.fill_of_actor().rate / self.bytes_of_actor().rate
    }

    /// The number of commands that use the same part of the command rate as `time` uses of the reading rate.
    fn commands_of_reading(&self, time: Duration) -> f64 {
        time.as_secs_f64() * self.fill_of_actor().rate / self.reading_of_actor().rate
    }
}

/// The room that a call takes while it is in flight.
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
        // The share is computed as if one more actor were coming, so that some room is left for it.
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
            // Last, because it takes from the buckets: from all or from none.
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
                    actor.bucket.take(limits.fill_of_actor(), wanted);
                    None
                }
                (None, Some((bytes, of_space))) => {
                    let (own, all) = (limits.bytes_of_actor(), limits.fill_of_space());
                    let waits = (actor.written.wait(own, class, bytes, now), of_space.wait(all, class, bytes, now));
                    match waits {
                        (Some(wait), _) if !is_small => Some(shed("actor_byte_rate", true, wait)),
                        (_, Some(wait)) if !is_small => Some(shed("space_byte_rate", false, wait)),
                        _ => {
                            actor.bucket.take(limits.fill_of_actor(), wanted);
                            actor.written.take(own, bytes);
                            of_space.take(all, bytes);
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
            // Idle time says nothing about throughput.
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
        if admitted.is_light && admitted.is_done {
            self.pressure.note_answer(admitted.began, now);
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
            // After a stall many calls finish at once: that is no reason to admit more than usual.
            self.room = grown.min((self.throughput * limits.target.as_secs_f64()) as usize);
        } else if window.in_flight_peak > self.room / 2 {
            self.room = grown;
        }
        self.room = self.room.min(limits.in_flight_max).max(limits.in_flight_min);
    }

    /// Time until enough commands have finished to admit a call of this class.
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

/// The room of an admitted call, given back on drop.
#[derive(Debug)]
#[must_use = "the room is given back when this is dropped"]
pub struct Admitted {
    gate: Gate,
    actor: u64,
    commands: usize,
    bytes: usize,
    began: Duration,
    /// Its latency counts as that of a light caller.
    is_light: bool,
    is_done: bool,
}

impl Admitted {
    /// Its latency says nothing about how busy this node is.
    pub fn ignore_latency(&mut self) {
        self.is_light = false;
    }

    /// Marks the work as done, with any outcome. The gate measures the node's speed by such calls, and not by calls
    /// that are dropped because their caller disconnected.
    pub fn done(mut self) {
        self.is_done = true;
    }

    /// Turns the call into one that only waits. Its latency does not count: the wait would make the node look slow, and
    /// the short time before it would make the node look fast.
    ///
    /// # Errors
    /// The same as for [`Gate::park`].
    pub fn parked(mut self, actor: &str, parking: Parking) -> Result<Parked, Shed> {
        let gate = self.gate.clone();
        self.ignore_latency();
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

/// The place of a waiting call or stream, given back on drop.
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
