//! Old events are dropped from a disk, and no reader misses the gap.

use super::{Replica, rocks};
use lease::command::{Activity, Cancel};
use lease::item::ActivityKind;
use lease::names::SpaceName;
use lease::numbers::{Epoch, EventNumber, ItemNo, SpaceNo, Span, Time, Wall};
use lease::record::EVENT;
use lease::{Command, Entry, Event};
use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine};
use raft_store::state::StateStore;
use raft_store::state::disk::StateDisk;
use raft_store::state::history::EventsAfter;
use raft_store::state::memory::MemoryDisk;
use test_support::fleet::{claim, create, history, item, request};

const SPACE: SpaceNo = SpaceNo(0);
const BEGINNING: EventNumber = EventNumber { epoch: Epoch(0), seq: 0 };
const END: EventNumber = EventNumber { epoch: Epoch(u32::MAX), seq: u64::MAX };
const EPOCH_BEGINS: u64 = 1_900_000_000_000;

fn page<D: StateDisk>(store: &StateStore<D>, after: EventNumber, limit: usize) -> Vec<Event> {
    match store.events_after(SPACE, after, limit).unwrap() {
        EventsAfter::Page(events) => events,
        EventsAfter::TooOld { gone } => panic!("{after} is too old: up to {gone} they are gone"),
    }
}

fn all<D: StateDisk>(store: &StateStore<D>) -> Vec<Event> {
    page(store, store.first_event(SPACE).unwrap().map_or(BEGINNING, before), usize::MAX)
}

fn before(number: EventNumber) -> EventNumber {
    EventNumber { seq: number.seq - 1, ..number }
}

/// Drops in the smallest possible steps.
fn drop_all_before<D: StateDisk>(store: &StateStore<D>, wall: Wall) {
    while store.drop_events_before(SPACE, wall, 7).unwrap() {}
}

/// Some events, a new epoch, and some more events.
async fn across_an_epoch<D: StateDisk>(replica: &mut Replica<D>) {
    replica.apply(&history(41, 60), 16).await.unwrap();
    let at = replica.store.progress().now.0;
    let cluster = |number: u64, command| Entry {
        at: Time(at + number),
        wall: Wall(EPOCH_BEGINS + number),
        commands: vec![request("root", &format!("epoch-{number}"), command)],
    };
    let mut entries = vec![
        cluster(1, Command::BeginEpoch { token_floor: None }),
        cluster(2, Command::Activate),
        cluster(3, create("later")),
        cluster(4, claim("later", Span::secs(20))),
    ];
    entries[3].wall = Wall(EPOCH_BEGINS + 4_000);
    replica.apply(&entries, 1).await.unwrap();
}

async fn tells_what_is_gone<D: StateDisk>(mut replica: Replica<D>) {
    assert_eq!(replica.store.first_event(SPACE).unwrap(), None);
    assert_eq!(page(&replica.store, BEGINNING, 10), []);
    assert_eq!(page(&replica.store, END, 10), [], "no event is no reason to call a position too old");
    across_an_epoch(&mut replica).await;
    let store = &replica.store;
    let whole = all(store);
    assert!(whole.len() > 40, "{}", whole.len());
    assert!(whole.windows(2).all(|pair| pair[0].number < pair[1].number));
    assert!(!store.drop_events_before(SPACE, whole[0].wall, 7).unwrap(), "none is older than the first");
    assert_eq!(all(store), whole);
    let hash = replica.hash();

    let split = whole.len() / 2;
    let cutoff = whole[split].wall;
    let kept = whole.iter().position(|event| event.wall >= cutoff).unwrap();
    drop_all_before(store, cutoff);
    let gone = whole[kept - 1].number;
    assert_eq!(store.first_event(SPACE).unwrap(), Some(whole[kept].number));
    assert_eq!(page(store, gone, usize::MAX), whole[kept..], "a reader that has seen all that is gone reads on");
    assert_eq!(page(store, whole[kept].number, 3), whole[kept + 1..kept + 4]);
    for too_old in [BEGINNING, whole[0].number, whole[kept - 2].number] {
        assert_eq!(store.events_after(SPACE, too_old, 5).unwrap(), EventsAfter::TooOld { gone });
    }
    assert!(!store.drop_events_before(SPACE, cutoff, 7).unwrap(), "nothing more to drop");
    let back: Vec<_> = whole[kept..].iter().rev().cloned().collect();
    assert_eq!(store.events_before(SPACE, END, usize::MAX).unwrap(), back, "newest first, as far as they are kept");
    assert_eq!(store.events_before(SPACE, back[2].number, 4).unwrap(), back[3..7]);
    assert_eq!(store.events_before(SPACE, gone, 4).unwrap(), []);

    // First up to the middle of the new epoch, then everything.
    let last = whole.last().unwrap();
    drop_all_before(store, Wall(EPOCH_BEGINS + 1_000));
    assert_eq!(all(store).iter().map(|event| event.number).collect::<Vec<_>>(), [last.number]);
    let old_life = EventNumber { epoch: Epoch(0), seq: last.number.seq + 100 };
    assert!(matches!(store.events_after(SPACE, old_life, 5).unwrap(), EventsAfter::TooOld { .. }));
    drop_all_before(store, Wall(u64::MAX));
    assert_eq!(store.first_event(SPACE).unwrap(), None);
    assert_eq!(page(store, last.number, 5), []);
    assert_eq!(store.events_after(SPACE, before(last.number), 5).unwrap(), EventsAfter::TooOld { gone: last.number });
    assert_eq!(page(store, END, 5), []);
    assert_eq!(store.events_before(SPACE, END, 5).unwrap(), []);
    assert_eq!(replica.hash(), hash, "what a node drops is its own affair");
    assert_eq!(store.verify().unwrap(), [""; 0]);

    let more = Entry { commands: vec![request("ada", "more", create("more"))], ..Entry::default() };
    replica.apply(&[more], 1).await.unwrap();
    let next = EventNumber { seq: last.number.seq + 1, ..last.number };
    assert_eq!(page(&replica.store, last.number, 5)[0].number, next, "numbers go on");
    assert_eq!(replica.store.first_event(SPACE).unwrap(), Some(next));
}

#[tokio::test]
async fn a_position_is_too_old_only_if_an_event_after_it_was_dropped() {
    tells_what_is_gone(Replica::open(MemoryDisk::default())).await;
    let (_folder, rocks) = rocks();
    tells_what_is_gone(rocks).await;
}

#[tokio::test]
async fn a_recent_event_stops_the_drop_of_all_events_after_it() {
    let mut replica = Replica::open(MemoryDisk::default());
    let entry = |number: u64, wall| Entry {
        at: Time(number),
        wall: Wall(wall),
        commands: vec![request("ada", &format!("r{number}"), create(&format!("item-{number}")))],
    };
    // The third leader's clock was behind.
    replica.apply(&[entry(1, 10), entry(2, 50), entry(3, 20), entry(4, 60)], 1).await.unwrap();
    drop_all_before(&replica.store, Wall(40));
    assert_eq!(all(&replica.store).iter().map(|event| event.wall.0).collect::<Vec<_>>(), [50, 20, 60]);
}

#[tokio::test]
async fn dropped_events_stay_dropped_across_restarts_and_snapshots() {
    let (folder, mut replica) = rocks();
    across_an_epoch(&mut replica).await;
    drop_all_before(&replica.store, Wall(EPOCH_BEGINS));
    let left = all(&replica.store);
    let snapshot = replica.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let hash = replica.hash();
    drop(replica);
    let again = super::reopen(&folder);
    assert_eq!(all(&again.store), left);
    let (_folder, mut other) = rocks();
    other.machine.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
    assert_eq!((all(&other.store), other.hash()), (left.clone(), hash));
    assert!(matches!(other.store.events_after(SPACE, BEGINNING, 5).unwrap(), EventsAfter::TooOld { .. }));
    assert_eq!(other.count(EVENT), left.len());
}

#[tokio::test]
async fn readers_never_see_a_gap_while_events_are_dropped() {
    let (_folder, mut replica) = rocks();
    replica.apply(&history(42, 1_500), 64).await.unwrap();
    let store = replica.store.clone();
    let newest = all(&store).last().unwrap().clone();
    let dropping = std::thread::spawn(move || while store.drop_events_before(SPACE, newest.wall, 3).unwrap() {});
    while let EventsAfter::Page(events) = replica.store.events_after(SPACE, BEGINNING, 50).unwrap() {
        let numbers: Vec<_> = events.iter().map(|event| event.number.seq).collect();
        assert_eq!(numbers, (1..=50).collect::<Vec<_>>());
    }
    loop {
        let first = replica.store.first_event(SPACE).unwrap().unwrap();
        if let EventsAfter::Page(events) = replica.store.events_after(SPACE, before(first), 20).unwrap() {
            assert!(events.windows(2).all(|pair| pair[0].number.seq + 1 == pair[1].number.seq));
            assert_eq!(events.first().map(|event| event.number), Some(first));
        }
        if dropping.is_finished() {
            break;
        }
    }
    dropping.join().unwrap();
}

#[tokio::test]
async fn ended_items_are_listed_by_id_and_activities_in_their_order() {
    let mut replica = Replica::open(MemoryDisk::default());
    let mut at = 0;
    let mut entry = |command| {
        at += 1;
        Entry { at: Time(at), wall: Wall(at), commands: vec![request("ada", &format!("r{at}"), command)] }
    };
    let mut entries = Vec::new();
    for id in ["d", "a", "c", "b", "live"] {
        entries.push(entry(create(id)));
        if id != "live" {
            entries.push(entry(Command::Cancel(Cancel { item: item(id), reason: "enough".into(), force: true })));
        }
    }
    entries.push(entry(claim("live", Span::secs(600))));
    replica.apply(&entries, 4).await.unwrap();
    let token = replica.store.read(|state, _| state.last_token()).unwrap();
    let note = |number: u32| {
        let write = test_support::fleet::write("live", Some(token));
        entry(Command::Activity(Activity { write, kind: ActivityKind::Progress, note: format!("step {number}") }))
    };
    let notes: Vec<_> = (0..1_010).map(note).collect();
    replica.apply(&notes, 100).await.unwrap();

    let space = replica.store.read(|state, _| state.space_no(&SpaceName::fallback())).unwrap().unwrap();
    assert_eq!(replica.store.read(|state, _| state.space_no(&SpaceName::new("other").unwrap())).unwrap(), None);
    let ids = |found: Vec<(lease::names::ItemId, lease::record::Archived)>| {
        found.into_iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(replica.store.archived(space, None, 3).unwrap()), ["a", "b", "c"]);
    assert_eq!(ids(replica.store.archived(space, Some(&item("c")), 3).unwrap()), ["d"]);
    assert_eq!(ids(replica.store.archived(SpaceNo(9), None, 3).unwrap()), [""; 0]);
    let live = replica.store.activities(ItemNo(5)).unwrap();
    let told: Vec<_> = live.iter().map(|activity| activity.note.clone()).collect();
    assert_eq!(told, (10..1_010).map(|number| format!("step {number}")).collect::<Vec<_>>(), "the last thousand");
    assert_eq!(replica.store.activities(ItemNo(1)).unwrap(), []);
}
