//! Random histories: many callers on few items, two replicas, every invariant after every step.
//!
//! `HISTORIES`, `HISTORY_COMMANDS` and `SEED` set the number of histories, their length and the first seed.
//! `SHOW_REACH=1` prints what the histories reached, and `SHRINK=0` turns shrinking off. After every entry the replicas
//! are compared and the witness and the oracle check it. `State::violations` costs as much as loading a state, so it
//! runs after every entry of every third history and after every fifth entry of the others. Every 100 commands the
//! states are rebuilt from their records.

mod controls;
mod oracle;
mod parked;
mod random;
mod reach;
mod rebind;
mod rights;
mod run;
mod shrink;
mod store;
mod world;

use lease::Entry;
use reach::Reach;
use run::{Failure, Honest, Liar, Run, Watch};
use world::World;

/// The histories are split into parts that run in parallel.
const PARTS: u64 = 8;

#[expect(clippy::disallowed_methods, reason = "settings choose what a test runs")]
fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => default,
    }
}

/// Plays the callers of this seed and appends their entries to `history`.
fn play(
    seed: u64,
    commands: usize,
    watch: Watch,
    liar: &mut dyn Liar,
    history: &mut Vec<Entry>,
) -> Result<Reach, Failure> {
    shrink::catch(|| {
        let mut world = World::new(seed);
        let mut run = Run::new(seed, watch, liar);
        let mut left = commands;
        while left > 0 {
            let entry = world.entry(left);
            left -= entry.commands.len();
            history.push(entry);
            let entry = history.last().expect("just written");
            let applied = run.step(entry)?;
            world.learn(entry, &applied);
        }
        run.finish()?;
        Ok(std::mem::take(&mut run.reach))
    })
}

fn play_part(part: u64) {
    let (histories, commands) = (setting("HISTORIES", 1_000), setting("HISTORY_COMMANDS", 1_000));
    let first = setting("SEED", 1);
    let mut reach = Reach::default();
    let (from, to) = (part * histories / PARTS, (part + 1) * histories / PARTS);
    // A single history belongs to the first part.
    let (from, to) = if histories < PARTS { (0, if part == 0 { histories } else { 0 }) } else { (from, to) };
    for seed in first + from..first + to {
        let mut history = Vec::new();
        let length = usize::try_from(commands).expect("a length");
        match play(seed, length, Watch::of(seed), &mut Honest, &mut history) {
            Ok(reached) => reach.add(&reached),
            Err(failure) => report(seed, commands, history, &failure),
        }
    }
    if (to - from) * commands >= 100_000 {
        let missing = reach.missing();
        assert!(missing.is_empty(), "the histories of part {part} never reached this: {missing:#?}\n{reach:#?}");
    }
    if setting("SHOW_REACH", 0) > 0 {
        eprintln!("{reach:#?}");
    }
}

fn report(seed: u64, commands: u64, history: Vec<Entry>, failure: &Failure) -> ! {
    assert!(setting("SHRINK", 1) > 0, "seed {seed}: {}\n{}", failure.kind, failure.why);
    let shrunk = shrink::shrink(seed, history, &failure.kind);
    let watch = Watch { violations_every: 1, ..Watch::of(seed) };
    let again = shrink::replay(seed, watch, &shrunk, &mut Honest).err().unwrap_or_else(|| failure.clone());
    panic!(
        "seed {seed}: {}\n{}\n\nshrunk to {} entries:\n{}\nreplay the whole history with\n    \
         SEED={seed} HISTORIES=1 HISTORY_COMMANDS={commands} cargo test -p lease --test histories -- \
         every_history_keeps_the_invariants::part_1\n",
        again.kind,
        again.why,
        shrunk.len(),
        shrink::show(&shrunk),
    );
}

mod every_history_keeps_the_invariants {
    use super::play_part;

    #[test]
    fn part_1() {
        play_part(0);
    }

    #[test]
    fn part_2() {
        play_part(1);
    }

    #[test]
    fn part_3() {
        play_part(2);
    }

    #[test]
    fn part_4() {
        play_part(3);
    }

    #[test]
    fn part_5() {
        play_part(4);
    }

    #[test]
    fn part_6() {
        play_part(5);
    }

    #[test]
    fn part_7() {
        play_part(6);
    }

    #[test]
    fn part_8() {
        play_part(7);
    }
}
