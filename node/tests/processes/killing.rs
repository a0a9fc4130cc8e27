//! kill -9 at random moments, repeatedly: no acknowledged write is lost.

use crate::callers::Callers;
use lease::refusal::{Code, Refusal};
use raft_store::state::HASH_MARK_EVERY;
use std::sync::atomic::Ordering;
use test_support::fleet::{self, Dice};
use test_support::world::{World, state_of};
use test_support::{until, within};

const CALLERS: u64 = 8;
/// About a minute.
const ROUNDS: u64 = 25;
const SEED: u64 = 20_261_116;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Waits for a number of answers that nobody can foresee to come at a certain place of anything.
async fn more_answers(world: &mut World, callers: &mut Callers, answers: u64) {
    let goal = callers.told() + answers;
    until("callers are answered", async || {
        world.check_alive();
        callers.check();
        callers.told() >= goal
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_kill_9() {
    let (rounds, seed) = (number("ROUNDS", ROUNDS), number("SEED", SEED));
    eprintln!("to replay: SEED={seed} ROUNDS={rounds} cargo test -p node --test processes killing");
    let mut dice = Dice(seed);
    let mut world = World::empty();
    // Small, so that kills also meet snapshots, purges and installs.
    world.options = ["--snapshot-every", "400", "--entries-kept", "100"].map(str::to_owned).to_vec();
    world.start_three().await;
    let client = world.client();
    let mut callers = Callers::start(client.clone(), CALLERS, seed).await;

    let mut kills = [0; 3];
    let mut in_start = 0;
    for _ in 0..rounds {
        more_answers(&mut world, &mut callers, dice.roll(120)).await;
        let count = match dice.roll(10) {
            0 => 3,
            1 | 2 => 2,
            _ => 1,
        };
        let first = dice.roll(3);
        let nodes: Vec<u64> = (0..count).map(|nth| 1 + (first + nth) % 3).collect();
        for node in &nodes {
            world.kill(*node);
        }
        kills[nodes.len() - 1] += 1;
        if nodes.len() == 1 && dice.roll(2) == 0 {
            // The other two continue without it.
            more_answers(&mut world, &mut callers, 1 + dice.roll(40)).await;
        }
        for node in &nodes {
            world.start(*node);
        }
        if dice.roll(4) == 0 {
            // Again, wherever it is in its start.
            let before = world.words(nodes[0]).len();
            if dice.roll(2) == 0 {
                until("it has started", async || world.words(nodes[0]).len() > before).await;
            }
            world.kill(nodes[0]);
            world.start(nodes[0]);
            in_start += 1;
        }
        more_answers(&mut world, &mut callers, CALLERS).await;
    }

    let (mut history, kept) = within("the callers end what they are at", callers.finish()).await;
    let mut padding = 0;
    while world.in_step().await < HASH_MARK_EVERY {
        padding += 1;
        client.create(&format!("padding-{padding}")).await;
    }
    world.leader().await;
    let indexes = world.in_step().await;
    let marks = world.compare_marks().await;
    assert!(marks > 0, "nodes had no hash to compare in {indexes} entries");
    for item in history.completed.iter().take(10) {
        let again = client.carry_out("ada", fleet::claim(item, lease::numbers::Span::secs(60))).await;
        assert_eq!(again.refusal().map(Refusal::code), Some(Code::TerminalItem), "{item}: {again:?}");
    }

    let states = world.stop_and_compare().await;
    for (node, state) in &states {
        let state_of = |id: &str| state_of(state, id);
        assert_eq!(history.faults(state_of), Vec::<String>::new(), "on node {node}");
        // A control: the check detects a write that never happened.
        history.created.insert("never".into());
        assert_eq!(history.faults(state_of), ["never was created and is gone"]);
        history.created.remove("never");
    }
    let counts = client.counts();
    let unknown = counts.unknown.load(Ordering::Relaxed);
    eprintln!(
        "{rounds} rounds: one node killed {} times, two {} times, all {} times, {in_start} of them again as they started; \
         acknowledged: {} creates, {} claims of which {kept} were kept to the end, {} completions; {} answers, {unknown} \
         unknown, {} not taken; {indexes} entries, {marks} hashes compared",
        kills[0],
        kills[1],
        kills[2],
        history.created.len(),
        history.grants.len(),
        history.completed.len(),
        counts.answered.load(Ordering::Relaxed),
        counts.not_taken.load(Ordering::Relaxed),
    );
    assert!(rounds < 10 || unknown > 0, "no kill met a command on its way: this has shown nothing");
}
