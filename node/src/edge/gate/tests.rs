use super::*;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

const ALL: [Class; 4] = [Class::Bulk, Class::Work, Class::Finish, Class::Renewal];

/// A gate with a manual clock.
struct World {
    gate: Gate,
    micros: Arc<AtomicU64>,
}

fn world(limits: GateLimits) -> World {
    let micros = Arc::new(AtomicU64::new(0));
    let clock = micros.clone();
    let gate = Gate::with_clock(limits, move || Duration::from_micros(clock.load(Ordering::Relaxed)));
    World { gate, micros }
}

/// Limits with a room of a thousand commands, so that parts are easy to read.
fn of_a_thousand() -> GateLimits {
    GateLimits { in_flight_min: 1_000, in_flight_max: 1_000, ..GateLimits::default() }
}

impl World {
    fn pass(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap();
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn admit(&self, actor: &str, class: Class) -> Result<Admitted, Shed> {
        self.gate.admit(actor, class, Cost::one(100))
    }

    /// As many calls as are admitted, each from a different actor.
    fn fill(&self, class: Class) -> Vec<Admitted> {
        let one = |n| self.admit(&format!("{class:?} {n}"), class).ok();
        (0..).map_while(one).collect()
    }

    /// As many calls of one actor as are admitted.
    fn flood(&self, actor: &str, class: Class) -> (Vec<Admitted>, Shed) {
        let mut held = Vec::new();
        loop {
            match self.admit(actor, class) {
                Ok(admitted) => held.push(admitted),
                Err(shed) => return (held, shed),
            }
        }
    }
}

#[test]
fn renewals_are_admitted_when_all_other_classes_are_rejected() {
    let world = world(of_a_thousand());
    let mut held = Vec::new();
    let mut filled = Vec::new();
    for class in ALL {
        held.extend(world.fill(class));
        filled.push(held.len());
        for lower in ALL.into_iter().filter(|lower| *lower >= class) {
            let shed = world.admit("anyone", lower).unwrap_err();
            assert_eq!((shed.reason, shed.is_actors_own), ("in_flight", false), "{lower:?} after {class:?}");
        }
    }
    assert_eq!(filled, [700, 850, 950, 1_000]);
    held.pop();
    assert!(world.admit("anyone", Class::Finish).is_err());
    assert!(world.admit("anyone", Class::Renewal).is_ok());
}

#[test]
fn an_actor_over_its_limit_can_still_renew_and_finish() {
    let world = world(GateLimits { in_flight_min: 16_384, ..GateLimits::default() });
    let mut held = Vec::new();
    for class in ALL {
        let (more, shed) = world.flood("ada", class);
        assert!(!more.is_empty(), "{class:?}");
        assert_eq!((shed.reason, shed.is_actors_own), ("actor_in_flight", true));
        held.extend(more);
    }
    assert_eq!(held.len(), 1_024);
}

#[test]
fn a_noisy_actor_cannot_block_others() {
    for room in [256, 1_000, 16_384] {
        let world = world(GateLimits { in_flight_min: room, in_flight_max: room, ..GateLimits::default() });
        for class in ALL {
            let (held, _) = world.flood("noisy", class);
            assert!(world.admit("quiet", class).is_ok(), "{class:?} in a room of {room}");
            let others: Vec<_> = (0..8).map_while(|n| world.admit(&format!("other {n}"), class).ok()).collect();
            assert_eq!(others.len(), 8, "{class:?} in a room of {room}");
            drop(held);
        }
    }
}

#[test]
fn a_noisy_actor_does_not_take_all_the_bytes() {
    let world = world(GateLimits::default());
    let megabyte = Cost::one(1024 * 1024);
    let mut held = Vec::new();
    let shed = loop {
        match world.gate.admit("noisy", Class::Renewal, megabyte) {
            Ok(admitted) => held.push(admitted),
            Err(shed) => break shed,
        }
    };
    assert_eq!((shed.reason, held.len()), ("actor_bytes", 32));
    assert!(world.gate.admit("quiet", Class::Bulk, megabyte).is_ok());
    held.extend((0..).map_while(|n| world.gate.admit(&format!("other {n}"), Class::Bulk, megabyte).ok()));
    assert_eq!(world.gate.admit("quiet", Class::Bulk, megabyte).unwrap_err().reason, "bytes");
    assert_eq!(world.gate.status().bytes, held.len() * 1024 * 1024);
    assert!(world.gate.status().bytes <= 256 * 1024 * 1024 * 7 / 10);
    assert!(world.gate.admit("quiet", Class::Renewal, megabyte).is_ok());
}

#[test]
fn a_call_heavier_than_the_room_is_admitted_alone() {
    let world = world(GateLimits::default());
    for class in ALL {
        // Each from a different actor, because an actor's rate is charged for all of it.
        let cost = Cost { commands: u32::MAX, bytes: usize::MAX };
        assert!(world.gate.admit(&format!("{class:?}"), class, cost).is_ok(), "{class:?}");
    }
}

#[test]
fn room_is_given_back_on_drop_panic_and_cancel() {
    let world = world(GateLimits::default());
    let empty = world.gate.status();
    world.admit("ada", Class::Work).unwrap().done();
    drop(world.admit("ada", Class::Work));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _admitted = world.admit("ada", Class::Work).unwrap();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    let cancelled = {
        let admitted = world.admit("ada", Class::Work).unwrap();
        async move {
            std::future::pending::<()>().await;
            admitted.done();
        }
    };
    let parked = [Parking::Waiter, Parking::Stream].map(|parking| world.gate.park("ada", parking).unwrap());
    let full = world.gate.status();
    assert_eq!((full.in_flight, full.bytes, full.waiters, full.streams), (1, 100, 1, 1));
    drop((cancelled, parked));
    let after = world.gate.status();
    assert_eq!((after.in_flight, after.bytes, after.waiters, after.streams), (0, 0, 0, 0));
    assert_eq!(after.room, empty.room);
    assert_eq!(after.admitted, 4);
}

#[test]
fn waiters_and_streams_are_not_in_flight() {
    let world = world(GateLimits::default());
    let mut held = Vec::new();
    for parking in [Parking::Waiter, Parking::Stream] {
        let mut one = |actor: &str| match world.gate.park(actor, parking) {
            Ok(parked) => {
                held.push(parked);
                Ok(())
            }
            Err(shed) => Err(shed),
        };
        let own = (0..).map_while(|_| one("ada").ok()).count();
        assert_eq!(own, 1_000);
        assert!(one("ada").unwrap_err().is_actors_own);
        let others = (0..).map_while(|n| one(&format!("other {n}")).ok()).count();
        assert_eq!(others, if parking == Parking::Waiter { 49_000 } else { 19_000 });
        let shed = one("bob").unwrap_err();
        assert_eq!((shed.reason, shed.is_actors_own), ("parked", false));
    }
    assert_eq!(world.gate.status().in_flight, 0);
    assert!(world.admit("ada", Class::Bulk).is_ok());
}

#[test]
fn idle_actors_are_forgotten_and_busy_ones_are_kept() {
    let world = world(GateLimits::default());
    let busy = world.admit("busy", Class::Work).unwrap();
    let parked = world.gate.park("parked", Parking::Stream).unwrap();
    for n in 0..1_000_000 {
        world.admit(&format!("actor {n}"), Class::Work).unwrap().done();
    }
    let status = world.gate.status();
    assert_eq!((status.actors, status.in_flight, status.streams), (65_536, 1, 1));
    drop((busy, parked));
    assert_eq!(world.gate.status().in_flight, 0);
}

#[test]
fn a_new_actor_is_rejected_when_all_tracked_actors_are_busy() {
    let world = world(GateLimits { actors_max: 2, ..GateLimits::default() });
    let ada = world.admit("ada", Class::Work).unwrap();
    let bob = world.gate.park("bob", Parking::Waiter).unwrap();
    assert_eq!(world.admit("eve", Class::Renewal).unwrap_err().reason, "too_many_actors");
    assert!(world.admit("bob", Class::Work).is_ok());
    drop(bob);
    assert!(world.admit("eve", Class::Work).is_ok());
    drop(ada);
}

#[test]
fn the_longest_idle_actor_is_forgotten_first() {
    let world = world(GateLimits { actors_max: 2, actor_burst: 10, actor_rate: 1, ..GateLimits::default() });
    let drain = |actor: &str| while world.admit(actor, Class::Renewal).is_ok() {};
    drain("ada");
    drain("bob");
    drain("ada");
    drain("eve");
    assert!(world.admit("ada", Class::Renewal).is_err(), "bob was forgotten, not ada");
    assert!(world.admit("bob", Class::Renewal).is_ok());
}

#[test]
fn an_actor_gets_its_rate_and_a_retry_after() {
    let world = world(GateLimits { actor_rate: 10, actor_burst: 100, ..GateLimits::default() });
    let calls = |class| {
        let mut calls = 0;
        loop {
            match world.admit("ada", class) {
                Ok(admitted) => admitted.done(),
                Err(shed) => return (calls, shed),
            }
            calls += 1;
        }
    };
    let (burst, shed) = calls(Class::Work);
    assert_eq!((burst, shed.reason, shed.is_actors_own), (85, "actor_rate", true));
    assert_eq!(shed.retry_after, Duration::from_millis(100));
    assert!(world.admit("bob", Class::Work).is_ok(), "it is ada's limit");
    assert_eq!(calls(Class::Finish).0, 10);
    assert_eq!(calls(Class::Renewal).0, 5);

    let (_, shed) = calls(Class::Work);
    assert_eq!(shed.retry_after, Duration::from_millis(1_600), "the part for renewals fills first");
    world.pass(shed.retry_after);
    assert!(world.admit("ada", Class::Work).is_ok());
    assert!(world.admit("ada", Class::Work).is_err());
    world.pass(Duration::from_secs(1));
    assert_eq!(calls(Class::Work).0, 10);
}

/// A node that finishes a given number of commands per second, in order, with callers that send as many as are
/// admitted.
struct Busy<'a> {
    world: &'a World,
    in_flight: VecDeque<Admitted>,
    owed: u64,
}

impl Busy<'_> {
    /// Runs in steps of a millisecond. Returns the longest latency of a call.
    fn run(&mut self, time: Duration, per_second: u64, calls_per_ms: usize) -> Duration {
        let mut slowest = Duration::ZERO;
        for _ in 0..time.as_millis() {
            for n in 0..calls_per_ms {
                self.in_flight.extend(self.world.admit(&format!("actor {n}"), Class::Work));
            }
            self.world.pass(Duration::from_millis(1));
            self.owed += per_second;
            while self.owed >= 1_000 {
                self.owed -= 1_000;
                let Some(first) = self.in_flight.pop_front() else { continue };
                slowest = slowest.max((self.world.gate.0.clock)() - first.began);
                first.done();
            }
        }
        slowest
    }

    fn room(&self) -> usize {
        self.world.gate.status().room
    }
}

#[test]
fn the_room_shrinks_when_the_node_slows_down_and_grows_when_it_recovers() {
    let world = world(GateLimits { actor_rate: 1_000_000, actor_burst: 1_000_000, ..GateLimits::default() });
    let mut busy = Busy { world: &world, in_flight: VecDeque::new(), owed: 0 };
    let seconds = Duration::from_secs;

    busy.run(seconds(10), 20_000, 100);
    let fast = busy.room();
    assert!((8_000..=13_000).contains(&fast), "20,000 a second × 500 ms, and was {fast}");
    let slowest = busy.run(seconds(2), 20_000, 100);
    assert!(slowest < Duration::from_millis(700), "{slowest:?}");

    busy.run(seconds(20), 2_000, 100);
    let slow = busy.room();
    assert!((800..=1_300).contains(&slow), "2,000 a second × 500 ms, and was {slow}");
    let slowest = busy.run(seconds(2), 2_000, 100);
    assert!(slowest < Duration::from_millis(700), "{slowest:?}");
    let shed = world.admit("anyone", Class::Bulk).unwrap_err();
    assert!(shed.retry_after < Duration::from_millis(500), "{shed:?}");
    assert!(world.admit("anyone", Class::Renewal).is_ok());

    busy.run(seconds(10), 20_000, 100);
    let again = busy.room();
    assert!((8_000..=13_000).contains(&again), "and again: {again}");
}

#[test]
fn a_slow_node_with_few_calls_rejects_nobody() {
    let world = world(GateLimits::default());
    for _ in 0..100 {
        let held: Vec<_> = (0..150).map(|n| world.admit(&format!("actor {n}"), Class::Bulk)).collect();
        world.pass(Duration::from_secs(3));
        for admitted in held {
            admitted.expect("few are in flight").done();
        }
        world.pass(Duration::from_secs(10));
    }
    assert_eq!(world.gate.status().shed, 0);
}

#[test]
fn one_stall_does_not_close_the_gate() {
    let world = world(GateLimits { actor_rate: 1_000_000, actor_burst: 1_000_000, ..GateLimits::default() });
    let mut busy = Busy { world: &world, in_flight: VecDeque::new(), owed: 0 };
    busy.run(Duration::from_secs(10), 20_000, 100);
    busy.run(Duration::from_secs(1), 0, 100);
    busy.run(Duration::from_secs(2), 20_000, 100);
    let room = busy.room();
    assert!(room > 4_000, "{room}");
}

#[test]
fn abandoned_calls_do_not_count_as_throughput() {
    let world = world(GateLimits::default());
    let room = world.gate.status().room;
    for _ in 0..100 {
        drop(world.fill(Class::Renewal));
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(world.gate.status().throughput, 0);
    assert_eq!(world.gate.status().room, room);
}

#[test]
fn calls_that_start_to_wait_do_not_count_in_the_latency() {
    let world = world(GateLimits::default());
    let room = world.gate.status().room;
    // Answers take a second, twice the target. Meanwhile hundreds of callers join lines.
    for _ in 0..20 {
        let working: Vec<_> = (0..50).map(|n| world.admit(&format!("worker {n}"), Class::Work).unwrap()).collect();
        for n in 0..500 {
            let actor = format!("waiter {n}");
            let admitted = world.admit(&actor, Class::Work).unwrap();
            drop(admitted.parked(&actor, Parking::Waiter).unwrap());
        }
        world.pass(Duration::from_secs(1));
        working.into_iter().for_each(Admitted::done);
    }
    let status = world.gate.status();
    assert_eq!((status.room, status.throughput), (256, 50), "from {room}");
    assert_eq!((status.in_flight, status.waiters), (0, 0));
}

#[test]
fn an_actors_rate_is_charged_for_every_entry_of_a_batch() {
    let world = world(GateLimits::default());
    let batch = Cost { commands: 1_000, bytes: 0 };
    let mut batches = 0;
    let shed = loop {
        match world.gate.admit("ada", Class::Bulk, batch) {
            Ok(admitted) => admitted.done(),
            Err(shed) => break shed,
        }
        batches += 1;
    };
    // Seven tenths of 10,000: the rest is reserved for renewals and for commands that end leases.
    assert_eq!((batches, shed.reason), (7, "actor_rate"));
    assert_eq!(shed.retry_after, Duration::from_millis(200));
    assert!(world.admit("ada", Class::Renewal).is_ok());
    assert!(world.gate.admit("bob", Class::Bulk, batch).is_ok(), "it is ada's limit");
}

#[test]
fn a_batch_in_flight_weighs_its_entries_up_to_a_quarter_of_the_room() {
    let weight = |room: usize, commands: u32| {
        let world = world(GateLimits { in_flight_min: room, in_flight_max: room, ..GateLimits::default() });
        let _held = world.gate.admit("ada", Class::Bulk, Cost { commands, bytes: 0 }).unwrap();
        world.gate.status().in_flight
    };
    assert_eq!([weight(256, 50), weight(256, 1_000), weight(800, 1_000), weight(16_384, 1_000)], [50, 64, 200, 256]);
}

fn write(world: &World, actor: &str, space: &str, class: Class, bytes: usize) -> Result<(), Shed> {
    let admitted = world.gate.admit_entry(actor, class, Cost::one(0), Some(Entry { space, bytes }))?;
    admitted.done();
    Ok(())
}

/// How many writes are admitted before one is rejected.
fn write_on(world: &World, actor: &str, space: &str, class: Class, bytes: usize) -> (usize, Shed) {
    let mut writes = 0;
    loop {
        match write(world, actor, space, class, bytes) {
            Ok(()) => writes += 1,
            Err(shed) => return (writes, shed),
        }
    }
}

const KIB: usize = 1_024;

#[test]
fn bytes_that_an_actor_adds_to_the_log_are_rate_limited() {
    let limits = GateLimits { actor_byte_rate: 1_000 * KIB as u64, ..GateLimits::default() };
    let world = world(limits);
    // A bucket holds the bytes of a quarter of a second, of which the bulk class gets seven tenths.
    let (writes, shed) = write_on(&world, "ada", "default", Class::Bulk, 10 * KIB);
    assert_eq!((writes, shed.reason, shed.is_actors_own), (17, "actor_byte_rate", true));
    assert_eq!(shed.retry_after, Duration::from_millis(25));
    write(&world, "ada", "default", Class::Finish, 10 * KIB).unwrap();
    write(&world, "ada", "default", Class::Renewal, 10 * KIB).unwrap();
    write(&world, "bob", "default", Class::Bulk, 10 * KIB).unwrap();
    assert!(world.admit("ada", Class::Bulk).is_ok(), "a read adds nothing");
    world.pass(Duration::from_secs(2));
    assert_eq!(write_on(&world, "ada", "default", Class::Bulk, 10 * KIB).0, 17);
}

#[test]
fn an_entry_larger_than_a_byte_bucket_is_admitted_when_it_is_full() {
    let world = world(GateLimits { actor_byte_rate: 1_000, ..GateLimits::default() });
    write(&world, "ada", "default", Class::Bulk, 8 << 20).unwrap();
    let shed = write(&world, "ada", "default", Class::Bulk, 8 << 20).unwrap_err();
    assert_eq!((shed.reason, shed.retry_after), ("actor_byte_rate", Duration::from_millis(1_250)));
}

#[test]
fn a_space_over_its_byte_rate_still_admits_small_renewals_and_ends() {
    let limits =
        GateLimits { space_byte_rate: 1_000 * KIB as u64, actor_in_flight_max: 10_000, ..GateLimits::default() };
    let world = world(limits);
    let (writes, shed) = write_on(&world, "ada", "one", Class::Work, 20 * KIB);
    assert_eq!((writes, shed.reason, shed.is_actors_own), (10, "space_byte_rate", false));
    assert_eq!(write(&world, "bob", "one", Class::Work, 20 * KIB).unwrap_err().reason, "space_byte_rate");
    write(&world, "ada", "another", Class::Work, 20 * KIB).unwrap();
    // Also when large renewals have used the rest.
    write_on(&world, "ada", "one", Class::Renewal, 100 * KIB);
    for class in [Class::Renewal, Class::Finish] {
        assert!(write(&world, "bob", "one", class, 100 * KIB).is_err());
        for _ in 0..1_000 {
            write(&world, "bob", "one", class, KIB).unwrap();
        }
    }
    assert!(write(&world, "bob", "one", Class::Work, 1).is_err());
}

/// Thirty-two actors each send two commands per second, while one actor sends `per_ms` commands per millisecond. The
/// light actors are answered after the latency that `latency` gives for the heavy actor's commands in the last tenth of
/// a second.
fn beside(world: &World, seconds: u64, per_ms: usize, latency: impl Fn(usize) -> Duration) -> usize {
    let mut let_in = VecDeque::from(vec![0; 100]);
    let mut lately = 0;
    for _ in 0..seconds * 10 {
        let light: Vec<_> = (0..6).map(|n| command(world, &format!("light {n}"), Class::Work)).collect();
        world.pass(latency(let_in.iter().sum()));
        for admitted in light {
            admitted.expect("light callers are admitted").done();
        }
        lately = 0;
        for _ in 0..100 {
            world.pass(Duration::from_millis(1));
            let now = (0..per_ms).filter_map(|_| command(world, "heavy", Class::Work).ok()).map(Admitted::done).count();
            let_in.pop_front();
            let_in.push_back(now);
            lately += now;
        }
    }
    lately
}

fn command(world: &World, actor: &str, class: Class) -> Result<Admitted, Shed> {
    world.gate.admit_entry(actor, class, Cost::one(100), Some(Entry { space: "default", bytes: 100 }))
}

/// Latency of light callers: 3 ms, or 50 ms when one actor sends more than 20 commands in 100 ms.
fn overloaded(lately: usize) -> Duration {
    Duration::from_millis(if lately > 20 { 50 } else { 3 })
}

#[test]
fn an_actor_that_delays_light_callers_is_throttled_and_they_are_not() {
    let world = world(GateLimits::default());
    beside(&world, 10, 0, overloaded);
    assert_eq!(world.gate.status().share, 1_000);
    beside(&world, 30, 3, overloaded);
    let share = world.gate.status().share;
    assert!(share < 100, "{share}");
    let shed = world.gate.check_share("heavy", Class::Work).unwrap_err();
    assert_eq!((shed.reason, shed.is_actors_own), ("actor_share", true));
    world.gate.check_share("light 1", Class::Bulk).unwrap();
    world.gate.check_share("heavy", Class::Finish).unwrap();
    command(&world, "heavy", Class::Renewal).unwrap().done();
}

#[test]
fn one_stall_halves_the_share_and_a_change_of_leader_leaves_it() {
    let world = world(GateLimits::default());
    beside(&world, 10, 0, overloaded);
    let stalled = |is_ignored: bool| {
        let light: Vec<_> = (0..6).map(|n| command(&world, &format!("light {n}"), Class::Work).unwrap()).collect();
        world.pass(Duration::from_secs(2));
        for mut admitted in light {
            if is_ignored {
                admitted.ignore_latency();
            }
            admitted.done();
        }
        world.gate.status().share
    };
    assert_eq!(stalled(true), 1_000);
    // A call that was given up says nothing, either.
    let given_up: Vec<_> = (0..6).map(|n| command(&world, &format!("light {n}"), Class::Work).unwrap()).collect();
    world.pass(Duration::from_secs(2));
    drop(given_up);
    assert_eq!(world.gate.status().share, 1_000);
    assert_eq!(stalled(false), 500);
    beside(&world, 1, 0, overloaded);
    assert!(world.gate.status().share > 500, "the next window grows again");
}

#[test]
fn an_actor_that_delays_nobody_gets_its_full_rate() {
    let world = world(GateLimits::default());
    beside(&world, 10, 0, overloaded);
    let lately = beside(&world, 30, 3, |_| Duration::from_millis(3));
    assert_eq!((lately, world.gate.status().share), (300, 1_000));
}

#[test]
fn a_throttled_actor_gets_its_full_rate_again_when_nobody_waits() {
    let world = world(GateLimits::default());
    beside(&world, 10, 0, overloaded);
    beside(&world, 30, 3, overloaded);
    beside(&world, 500, 0, overloaded);
    assert_eq!(world.gate.status().share, 1_000);
    assert_eq!(beside(&world, 1, 3, |_| Duration::from_millis(3)), 300);
}

#[test]
fn actors_with_equal_use_are_not_throttled_on_a_busy_node() {
    let world = world(GateLimits::default());
    beside(&world, 10, 0, overloaded);
    for _ in 0..600 {
        let all: Vec<_> = (0..320).map(|n| command(&world, &format!("actor {}", n % 32), Class::Work)).collect();
        world.pass(Duration::from_millis(100));
        all.into_iter().for_each(|admitted| admitted.expect("100 a second are not much").done());
    }
    assert_eq!(world.gate.status().shed, 0);
}

#[test]
fn bodies_and_lists_are_charged_like_commands() {
    for use_up in [
        |gate: &Gate| gate.has_sent("heavy", 64 << 20),
        |gate: &Gate| {
            gate.has_read("heavy", Duration::from_secs(2));
        },
    ] {
        let world = world(GateLimits::default());
        beside(&world, 10, 0, overloaded);
        beside(&world, 10, 0, |_| Duration::from_millis(50));
        world.gate.check_share("heavy", Class::Work).unwrap();
        use_up(&world.gate);
        assert_eq!(world.gate.check_share("heavy", Class::Work).unwrap_err().reason, "actor_share");
    }
}

#[test]
fn reading_time_of_an_actor_is_rate_limited() {
    let world = world(GateLimits::default());
    world.gate.has_read("ada", Duration::from_millis(1_900));
    world.gate.check_reading("ada").unwrap();
    world.gate.has_read("ada", Duration::from_millis(150));
    let shed = world.gate.check_reading("ada").unwrap_err();
    assert_eq!((shed.reason, shed.is_actors_own), ("actor_reading", true));
    assert_eq!(shed.retry_after, Duration::from_millis(500));
    world.gate.check_reading("bob").unwrap();
    assert!(world.admit("ada", Class::Bulk).is_ok(), "the reading rate does not limit other calls");
    world.pass(Duration::from_millis(501));
    world.gate.check_reading("ada").unwrap();
}
