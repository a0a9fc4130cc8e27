//! Runs every workload at once on three real nodes, one of which is killed, and checks that every kind of outcome
//! occurs.

use super::finish::Finished;
use super::fleet::Fleet;
use super::*;
use crate::callers::Machines;
use crate::history::{Asked, Micros, Operation, Outcome, lines};
use crate::recorder::{Bounds, Progress, RunClock};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tokio::time::sleep;

const LIMIT: Duration = Duration::from_secs(120);

async fn until(what: &str, world: &World, mut is_so: impl FnMut(Progress) -> bool) {
    let by = Instant::now() + LIMIT;
    while !is_so(world.progress()) {
        assert!(Instant::now() < by, "not within {LIMIT:?}: {what}; {:?}", world.progress());
        sleep(Duration::from_millis(20)).await;
    }
}

/// The operations of a process do not overlap, and an operation without an answer is the last of its process.
fn of_a_process(operations: &[Operation]) {
    let mut ended: BTreeMap<u32, Option<Micros>> = BTreeMap::new();
    for operation in operations {
        if let Some(before) = ended.insert(operation.process, operation.completed) {
            let before = before.unwrap_or_else(|| {
                panic!("process {} continues after an operation without an answer", operation.process)
            });
            assert!(before <= operation.invoked, "two operations of process {} overlap", operation.process);
        }
        assert!(operation.completed.is_none_or(|completed| completed >= operation.invoked));
        assert_eq!(operation.completed.is_none(), operation.outcome == Outcome::Unknown);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_run_with_a_kill_covers_every_outcome_and_ends_consistent() {
    let mut fleet = Fleet::start(64).await;
    let began = Instant::now();
    let (clock, machines) = (RunClock::since(began), Arc::new(Machines::new(began)));
    let api_keys = fleet.api_keys.clone();
    let world = World::new(clock, machines, fleet.endpoints(), api_keys, None, Bounds::default()).unwrap();
    let size = Size { callers: 64, items: 48, lease_for: Duration::from_secs(1) };
    let running = start(&world, Workload::Mixed, size, 7).await.unwrap();
    until("everything occurs", &world, |seen| {
        seen.grants > 100
            && seen.lapses > 20
            && seen.fenced > 0
            && seen.waits > 20
            && seen.repeats > 20
            && seen.seen > 100
    })
    .await;
    let leader = fleet.leader().await;
    let before = world.progress();
    fleet.kill(leader);
    until("calls are lost", &world, |seen| seen.unknown > before.unknown && seen.unavailable > before.unavailable)
        .await;
    fleet.launch(leader);
    let healed = world.clock.now();
    let Finished { history, trouble, .. } = running.finish(healed, |_| {}).await;
    assert_eq!(trouble, None);

    of_a_process(&history.operations);
    let end = history.end.as_ref().unwrap();
    assert!(end.served.is_some_and(|served| served >= healed));
    assert_eq!(end.created, end.live + end.terminal + end.purged);
    assert_eq!(end.items.len() as u64, end.live + end.terminal);
    assert_eq!(end.hashes.len(), 3, "{:?}", end.hashes);
    assert_eq!(end.hashes.iter().map(|(_, at, hash)| (at, hash)).collect::<BTreeSet<_>>().len(), 1, "{:?}", end.hashes);
    let asked: BTreeSet<_> = history.operations.iter().map(|operation| name(&operation.asked)).collect();
    assert!(asked.len() >= 16, "{asked:?}");
    let values: Vec<_> = history.operations.iter().filter_map(value).collect();
    assert_eq!(values.len(), values.iter().collect::<BTreeSet<_>>().len(), "a value was written twice");
    let mut bytes = Vec::new();
    lines::write(&history, &mut bytes).unwrap();
    assert_eq!(lines::read(bytes.as_slice()).unwrap().operations.len(), history.operations.len());
}

fn name(asked: &Asked) -> String {
    let text = format!("{asked:?}");
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn value(operation: &Operation) -> Option<u64> {
    match operation.asked {
        Asked::Update { value, .. } | Asked::Write { value, .. } => Some(value),
        _ => None,
    }
}
