//! The cost of `State::apply` on one core, by command and by the number of live items, and the memory of an item.
//!
//! It does not use divan, because states of a million items are built once and kept at that size by the measured
//! commands themselves, time moves with them, and the report compares the results with the targets.
//!
//!     ./x bench lease                     everything, about five minutes
//!     ./x bench lease renew               only benchmarks with this in their names
//!     ./x bench lease -- --size=10000     only this size, for example under a profiler
//!     ./x bench lease -- --quick          small sizes, a few seconds, to check that it runs
#![allow(clippy::disallowed_types, reason = "a benchmark reads the clock; the library it measures does not")]
#![allow(clippy::print_stdout, reason = "the table is the product")]

mod report;
mod world;

use lease::command::{Complete, Next, RenewAll, Write};
use lease::numbers::Span;
use lease::{Command, Outcome};
use report::{Report, Series};
use std::time::Duration;
use world::{ACTORS, Held, STANDING, World, claim, held, in_turn, item_id, queue, shuffled};

/// Commands in one entry: what accumulates while the previous entry is written to the disk.
const ENTRY: usize = 64;
/// Requests a second in most measurements. The request memory of two minutes holds 1.2 million of them.
const RATE: u64 = 10_000;
/// The default lease length of a queue.
const LEASE_FOR: Span = Span::secs(900);
/// A third of it, as the answer to a renewal advises.
const RENEW_AFTER_US: u64 = 300_000_000;

/// The allocator of the daemon.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Scale {
    sizes: [usize; 3],
    rounds: usize,
    /// Commands in a round.
    commands: usize,
    /// The number of remembered requests at [`RATE`], and at most [`lease::bounds::REQUESTS_MAX`].
    requests: usize,
    requests_max: usize,
    lapsing: usize,
    per_fleet: usize,
}

const FULL: Scale = Scale {
    sizes: [10_000, 100_000, 1_000_000],
    rounds: 11,
    commands: 64_000,
    requests: 1_200_000,
    requests_max: 4_000_000,
    lapsing: 10_000,
    per_fleet: 1_000,
};

const QUICK: Scale = Scale {
    sizes: [1_000, 2_000, 10_000],
    rounds: 3,
    commands: 1_280,
    requests: 10_000,
    requests_max: 12_000,
    lapsing: 1_000,
    per_fleet: 100,
};

type Benchmark = fn(&Scale, usize, &mut Report);

const BENCHMARKS: [(&str, Benchmark); 5] = [
    ("renew", renew),
    ("claim+release", claim_and_release),
    ("renew_all", renew_all_of_a_fleet),
    ("next", next_and_complete),
    ("expiry", expiry),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_quick = args.iter().any(|arg| arg == "--quick");
    let scale = if is_quick { QUICK } else { FULL };
    let filter = args.iter().find(|arg| !arg.starts_with("--")).cloned();
    let mut report = Report::new(scale.sizes, filter);
    // This runs first, while no freed memory can be counted as memory in use.
    if report.wants("memory") {
        memory(&scale, &mut report);
    }
    let only = args.iter().find_map(|arg| arg.strip_prefix("--size=")).map(|size| size.parse().expect("a number"));
    for size in scale.sizes.into_iter().filter(|size| only.is_none_or(|only: usize| only == *size)) {
        for (name, measure) in BENCHMARKS {
            if report.wants(name) {
                measure(&scale, size, &mut report);
            }
        }
    }
    if report.wants("next") {
        let large = scale.sizes[2];
        next_behind_claimed(&scale, 10, 0, "next, 8 an entry: ten queued", &mut report);
        next_behind_claimed(&scale, large, large / 10, "next, 8 an entry: all queued but the first tenth", &mut report);
    }
    report.print();
}

/// Half of the items are held, and each lease is renewed after a third of its length. So every lease also comes to the
/// head of the deadlines and is moved to its real deadline.
fn renew(scale: &Scale, size: usize, report: &mut Report) {
    let mut world = World::with_queued(size);
    world.us_per_command = RENEW_AFTER_US / (size as u64 / 2);
    let leases = world.claim_each(&in_turn(&shuffled(size)[..size / 2], 0..ACTORS), LEASE_FOR);
    let mut turn = leases.iter().cycle();
    // Run until the deadlines are as in the long run and the claims are forgotten.
    renew_in_turn(&mut world, &mut turn, 4 * leases.len(), ENTRY);
    for entry in [ENTRY, 1] {
        let series =
            measure(scale, &mut world, scale.commands, |world| renew_in_turn(world, &mut turn, scale.commands, entry));
        report.add(name("renew", entry), size, series);
    }
}

fn renew_in_turn<'a>(world: &mut World, turn: &mut impl Iterator<Item = &'a Held>, commands: usize, entry: usize) {
    for _ in 0..commands / entry {
        let renewals = turn.by_ref().take(entry).map(|lease| (lease.actor, lease.renew())).collect();
        world.apply_all(renewals);
    }
}

/// Half of the items are held by other actors. The rest are claimed and released in turn. An entry has as many releases
/// (of the claims of the previous entry) as claims.
fn claim_and_release(scale: &Scale, size: usize, report: &mut Report) {
    let mut world = World::with_queued(size);
    let mut standing = shuffled(size);
    let free = standing.split_off(size / 2);
    let standing = world.claim_each(&in_turn(&standing, 0..ACTORS), STANDING);
    let mut turn = free.into_iter().cycle().enumerate();
    let mut open: Vec<Held> = Vec::new();
    let mut round = |world: &mut World, commands: usize, entry: usize| {
        for n in 0..commands / entry {
            // With one command per entry, claims and releases alternate.
            let claims = if entry == 1 { (n + 1) % 2 } else { entry / 2 };
            let wanted: Vec<_> = turn.by_ref().take(claims).map(|(n, item)| (item, n % ACTORS)).collect();
            let mut commands: Vec<_> = wanted.iter().map(|(item, actor)| (*actor, claim(*item, LEASE_FOR))).collect();
            let ended = if entry == 1 { open.drain(..1 - claims) } else { open.drain(..) };
            commands.extend(ended.map(|lease| (lease.actor, lease.release())));
            let applied = world.apply_all(commands);
            open.extend(wanted.iter().zip(&applied.outcomes).map(|((item, actor), out)| held(*item, *actor, out)));
        }
    };
    world.us_per_command = 1_000_000 / RATE;
    while world.state.remembered_requests() < scale.requests * 99 / 100 {
        round(&mut world, scale.commands, ENTRY);
    }
    for entry in [ENTRY, 1] {
        let series = measure(scale, &mut world, scale.commands / 2, |world| round(world, scale.commands, entry));
        report.add(name("claim+release", entry), size, series);
    }
    // At the target of 200,000 pairs a second the memory is full after ten seconds.
    world.us_per_command = 2;
    while world.state.remembered_requests() < scale.requests_max.min(4 * scale.requests) {
        round(&mut world, scale.commands, ENTRY);
    }
    let series = measure(scale, &mut world, scale.commands / 2, |world| round(world, scale.commands, ENTRY));
    report.add("claim+release, request memory full".into(), size, series);
    let mut turn = standing.iter().cycle();
    let series =
        measure(scale, &mut world, scale.commands, |world| renew_in_turn(world, &mut turn, scale.commands, ENTRY));
    report.add("renew, request memory full".into(), size, series);
}

/// Half of the items are held, a thousand by each session, with one `renew_all` per entry.
fn renew_all_of_a_fleet(scale: &Scale, size: usize, report: &mut Report) {
    let fleets = size / 2 / scale.per_fleet;
    let mut world = World::with_queued(size);
    world.us_per_command = RENEW_AFTER_US / (size as u64 / 2);
    world.claim_each(&in_turn(&shuffled(size)[..size / 2], 0..fleets), LEASE_FOR);
    world.us_per_command = RENEW_AFTER_US / fleets as u64;
    let mut turn = (0..fleets).cycle();
    let mut round = |world: &mut World, commands: usize| {
        for fleet in turn.by_ref().take(commands) {
            let applied = world.apply_all(vec![(fleet, Command::RenewAll(RenewAll::default()))]);
            let Outcome::RenewedAll(all) = &applied.outcomes[0] else { panic!("{:?}", applied.outcomes[0]) };
            assert_eq!(all.renewed as usize, scale.per_fleet);
        }
    };
    round(&mut world, 4 * fleets);
    let commands = (scale.commands / scale.per_fleet).max(4);
    let series = measure(scale, &mut world, commands * scale.per_fleet, |world| round(world, commands));
    report.add(format!("renew_all of {}, per lease", scale.per_fleet), size, series);
}

/// All items are queued. Each granted item is completed and another is created in its place (not measured).
fn next_and_complete(scale: &Scale, size: usize, report: &mut Report) {
    let mut world = World::with_queued(size);
    world.us_per_command = 1_000_000 / RATE;
    let mut created = size;
    let mut turn = (0..ACTORS).cycle();
    let (mut handing_out, mut completing) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        let (mut next_spent, mut complete_spent) = (Vec::new(), Vec::new());
        let entries = (scale.commands / ENTRY / 4).max(1);
        for _ in 0..entries {
            let actors: Vec<_> = turn.by_ref().take(ENTRY).collect();
            let handed_out = next_for(&mut world, &actors);
            next_spent.extend(world.take_spent());
            let completions = handed_out.iter().map(|lease| {
                let write = Write { item: item_id(lease.item), token: Some(lease.token), read_at: None };
                (lease.actor, Command::Complete(Complete { write, result: None }))
            });
            let applied = world.apply_all(completions.collect());
            complete_spent.extend(world.take_spent());
            world.archive(&applied);
            world.create(created..created + ENTRY);
            created += ENTRY;
            world.take_spent();
        }
        handing_out.push(per(next_spent, entries * ENTRY));
        completing.push(per(complete_spent, entries * ENTRY));
    }
    report.add(name("next", ENTRY), size, Series(handing_out));
    report.add(name("complete", ENTRY), size, Series(completing));
}

/// The first items in order are held by other actors, so that `next` must look past them. The items that it grants are
/// released (not measured).
fn next_behind_claimed(scale: &Scale, size: usize, claimed: usize, name: &str, report: &mut Report) {
    let mut world = World::with_queued(size);
    let claimed: Vec<_> = (0..claimed).collect();
    world.claim_each(&in_turn(&claimed, ACTORS..2 * ACTORS), STANDING);
    world.forget_requests();
    world.us_per_command = 1_000_000 / RATE;
    let mut turn = (0..ACTORS).cycle();
    let mut rounds = Vec::new();
    for _ in 0..scale.rounds {
        let entries = scale.commands / 16;
        let mut spent = Vec::new();
        for _ in 0..entries {
            let actors: Vec<_> = turn.by_ref().take(8).collect();
            world.take_spent();
            let handed_out = next_for(&mut world, &actors);
            spent.extend(world.take_spent());
            world.apply_all(handed_out.iter().map(|lease| (lease.actor, lease.release())).collect());
        }
        rounds.push(per(spent, entries * 8));
    }
    report.add_single(name.into(), Series(rounds));
}

fn next_for(world: &mut World, actors: &[usize]) -> Vec<Held> {
    let asked = |actor: &usize| (*actor, Command::Next(Next { lease_for: Some(LEASE_FOR), ..Next::new(queue()) }));
    let applied = world.apply_all(actors.iter().map(asked).collect());
    let grants = applied.outcomes.iter().zip(actors).map(|(outcome, actor)| {
        let Outcome::Dispatched(grants) = outcome else { panic!("{outcome:?}") };
        let item = grants[0].item.as_str().trim_start_matches("task-").parse().expect("one of ours");
        Held { item, actor: *actor, token: grants[0].token }
    });
    grants.collect()
}

/// Many leases that were granted at the same time and are not renewed, over as many ticks as their expiry takes.
fn expiry(scale: &Scale, size: usize, report: &mut Report) {
    let mut world = World::with_queued(size);
    let lapsing = in_turn(&shuffled(size), 0..ACTORS);
    let mut batches = lapsing.chunks_exact(scale.lapsing).cycle();
    let (mut per_lease, mut worst_tick) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        let batch = batches.next().expect("as many items as lapse at once");
        world.claim_each(batch, Span::secs(130));
        // The requests are forgotten before, so that only expiry is measured.
        world.forget_requests();
        world.pass(Span::secs(130));
        world.take_spent();
        let mut lapsed = 0;
        while world.has_work_due() {
            lapsed += world.tick().events.len();
        }
        assert_eq!(lapsed, scale.lapsing);
        let ticks = world.take_spent();
        worst_tick.extend(ticks.iter().max().map(|tick| tick.as_nanos() as f64));
        per_lease.push(per(ticks, lapsed));
    }
    report.add(format!("expiry of {}, per lease", scale.lapsing), size, Series(per_lease));
    report.add(format!("expiry of {}, longest tick", scale.lapsing), size, Series(worst_tick));
}

/// The additional memory of the process, including the allocator's overhead. Bodies are not held in memory.
fn memory(scale: &Scale, report: &mut Report) {
    let size = scale.sizes[2];
    let before = resident_bytes();
    let mut world = World::with_queued(size);
    let queued = resident_bytes();
    report.add_memory("memory of a queued item", (queued - before) as f64 / size as f64);
    let taken = in_turn(&shuffled(size)[..size / 2], 0..ACTORS);
    for batch in taken.chunks(1_000) {
        world.claim_each(batch, Span::secs(365 * 24 * 3600));
        world.forget_requests();
    }
    let leased = resident_bytes();
    report.add_memory("memory of an item, half of them leased", (leased - before) as f64 / size as f64);
    report.add_memory("memory that a lease adds", (leased - queued) as f64 / taken.len() as f64);
    assert_eq!(world.state.live_items(), size);
}

/// Reads the resident size from the kernel. A counting allocator would be unsafe code, which the workspace forbids.
fn resident_bytes() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: i64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("resident pages");
    pages * 4096
}

fn measure(scale: &Scale, world: &mut World, operations: usize, mut round: impl FnMut(&mut World)) -> Series {
    world.take_spent();
    let rounds = (0..scale.rounds).map(|_| {
        round(world);
        per(world.take_spent(), operations)
    });
    Series(rounds.collect())
}

/// Nanoseconds per operation, without the slowest twentieth of the entries, in which the core did other work.
fn per(mut entries: Vec<Duration>, operations: usize) -> f64 {
    entries.sort_unstable();
    let kept = &entries[..entries.len() - entries.len() / 20];
    let spent: Duration = kept.iter().sum();
    spent.as_nanos() as f64 / operations as f64 * entries.len() as f64 / kept.len() as f64
}

fn name(what: &str, entry: usize) -> String {
    format!("{what}, {entry} an entry")
}
