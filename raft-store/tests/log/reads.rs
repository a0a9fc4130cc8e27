//! Reads during writes: queued entries, written entries and entries that left the memory are read as one log.

use super::world::{CACHED, Cache, Store, UNCACHED, append, begin_append, directory, entries, entry, entry_of};
use super::world::{id, open, open_with, read};
use futures_util::{StreamExt, TryStreamExt};
use openraft::storage::{RaftLogReader, RaftLogStorage};
use raft_store::types::LogEntry;
use rocksdb::{DB, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use test_support::gate::Gate;

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_readable_before_it_is_durable() {
    let directory = directory();
    let gate = Gate::default();
    let mut store = open_with(directory.path(), UNCACHED, gate.before_write());
    let _opened = gate.opened_at_the_end();
    gate.shut();
    let mut flushed = begin_append(&mut store, entries(1, 0..5)).await;
    assert_eq!(read(&store, ..).await, entries(1, 0..5));
    flushed.try_recv().expect_err("nothing is durable behind a shut gate");
    gate.open();
    flushed.await.unwrap().unwrap();
    assert_eq!(read(&store, ..).await, entries(1, 0..5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_truncate_hides_what_the_disk_still_holds() {
    let directory = directory();
    let gate = Gate::default();
    let mut store = open_with(directory.path(), UNCACHED, gate.before_write());
    let _opened = gate.opened_at_the_end();
    append(&mut store, entries(1, 0..10)).await;
    gate.shut();
    store.truncate_after(Some(id(1, 4))).await.unwrap();
    assert_eq!(read(&store, ..).await, entries(1, 0..5));
    let flushed = begin_append(&mut store, entries(2, 5..7)).await;
    let expected = [entries(1, 0..5), entries(2, 5..7)].concat();
    assert_eq!(read(&store, ..).await, expected);
    gate.open();
    flushed.await.unwrap().unwrap();
    assert_eq!(read(&store, ..).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_purge_hides_what_the_disk_still_holds() {
    let directory = directory();
    let gate = Gate::default();
    let mut store = open_with(directory.path(), UNCACHED, gate.before_write());
    let _opened = gate.opened_at_the_end();
    append(&mut store, entries(1, 0..10)).await;
    gate.shut();
    store.purge(id(1, 6)).await.unwrap();
    assert_eq!(read(&store, ..).await, entries(1, 7..10));
    assert_eq!(store.reader().limited_get_log_entries(6, 10).await.unwrap(), vec![]);
    assert_eq!(store.reader().limited_get_log_entries(7, 10).await.unwrap(), entries(1, 7..10));
    gate.open();
}

#[tokio::test]
async fn a_read_for_replication_is_bounded_by_bytes_and_never_empty() {
    let large = |index| entry_of(1, index, &vec![9; 400 * 1024]);
    let log = [vec![entry_of(1, 0, &vec![8; 3 * 1024 * 1024])], (1..6).map(large).collect()].concat();
    for cache in [CACHED, UNCACHED] {
        let directory = directory();
        let mut store = open_with(directory.path(), cache, None);
        append(&mut store, log.clone()).await;
        let mut reader = store.reader();
        assert_eq!(reader.limited_get_log_entries(0, 6).await.unwrap(), log[..1], "{cache:?}");
        assert_eq!(reader.limited_get_log_entries(1, 6).await.unwrap(), log[1..3], "{cache:?}");
        assert_eq!(reader.limited_get_log_entries(5, 6).await.unwrap(), log[5..], "{cache:?}");
        assert_eq!(reader.try_get_log_entries(0..6).await.unwrap(), log, "{cache:?}");
        let streamed: Vec<_> = reader.entries_stream(0..100).await.try_collect().await.unwrap();
        assert_eq!(streamed, log, "{cache:?}");
    }
}

#[tokio::test]
async fn a_gap_or_damage_inside_a_range_is_an_error_not_a_short_answer() {
    let directory = directory();
    let mut store = open(directory.path());
    append(&mut store, entries(1, 0..10)).await;
    store.close().unwrap();
    let key = |index: u64| [&[0, 0, 0, 0, b'L'][..], &index.to_be_bytes()].concat();
    let db = DB::open(&Options::default(), directory.path()).unwrap();
    db.delete(key(3)).unwrap();
    let mut damaged = db.get(key(7)).unwrap().unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    db.put(key(7), damaged).unwrap();
    db.put(key(8), db.get(key(9)).unwrap().unwrap()).unwrap();
    drop(db);

    let store = open(directory.path());
    let mut reader = store.reader();
    for (range, says) in [(0..10, "entry 3"), (3..4, "missing"), (4..8, "checksum"), (8..9, "holds entry 9")] {
        let said = reader.try_get_log_entries(range.clone()).await.unwrap_err().to_string();
        assert!(said.contains(says), "{range:?}: {said}");
        reader.limited_get_log_entries(range.start, range.end).await.unwrap_err();
        reader.entries_stream(range).await.try_collect::<Vec<_>>().await.unwrap_err();
    }
    assert_eq!(read(&store, 4..7).await, entries(1, 4..7));
}

/// The applied entries would have a gap.
#[tokio::test]
async fn a_stream_that_cannot_begin_at_the_requested_index_is_an_error() {
    for cache in [CACHED, UNCACHED] {
        let directory = directory();
        let mut store = open_with(directory.path(), cache, None);
        append(&mut store, entries(1, 0..20)).await;
        store.purge(entries(1, 9..10)[0].log_id).await.unwrap();
        let mut reader = store.reader();
        for range in [9..15, 0..20, 3..7, 20..22, 30..31] {
            let streamed: Vec<_> = reader.entries_stream(range.clone()).await.collect().await;
            let [Err(error)] = &streamed[..] else { panic!("{range:?}: {streamed:?}") };
            let says = format!("entry {} is missing", range.start);
            assert!(error.to_string().contains(&says), "{range:?}: {error}");
        }
        for range in [10..20, 12..15] {
            let streamed: Vec<_> = reader.entries_stream(range.clone()).await.try_collect().await.unwrap();
            assert_eq!(streamed, entries(1, range));
        }
        assert_eq!(reader.entries_stream(5..5).await.count().await, 0, "nothing was asked for");
    }
}

/// Most of it is only on disk, and the writer deletes and replaces it all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_changing_log_sees_only_consistent_states() {
    let directory = directory();
    let mut store = open_with(directory.path(), UNCACHED, None);
    append(&mut store, entries(0, 0..50)).await;
    let ended = Arc::new(AtomicBool::new(false));
    let readers = [0, 1].map(|_| {
        let (mut reader, ended) = (store.reader(), ended.clone());
        tokio::spawn(async move {
            let mut reads = 0;
            while !ended.load(Ordering::Relaxed) {
                let seen = reader.try_get_log_entries(..).await.expect("no hole");
                let ids: Vec<_> = seen.iter().map(|entry| entry.log_id).collect();
                assert!(ids.is_sorted_by(|a, b| a.leader_id <= b.leader_id && a.index + 1 == b.index), "{ids:?}");
                assert!(ids.len() >= 20, "{ids:?}");
                reads += 1;
                tokio::task::yield_now().await;
            }
            reads
        })
    });
    // Each round: 30 entries stay, 20 are replaced by 25, five are purged.
    for term in 1..400 {
        let (first, next) = ((term - 1) * 5, (term - 1) * 5 + 50);
        let kept = read(&store, next - 21..next - 20).await[0].log_id;
        store.truncate_after(Some(kept)).await.unwrap();
        let flushed = begin_append(&mut store, entries(term, next - 20..next + 5)).await;
        let purged = read(&store, first + 4..first + 5).await[0].log_id;
        store.purge(purged).await.unwrap();
        if term % 4 == 0 {
            flushed.await.unwrap().unwrap();
        }
    }
    ended.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
}

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The simplest possible log, as a model.
#[derive(Default)]
struct Model {
    first: u64,
    entries: Vec<LogEntry>,
}

impl Model {
    fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn read(&self, range: std::ops::Range<u64>) -> Vec<LogEntry> {
        self.entries.iter().filter(|entry| range.contains(&entry.log_id.index)).cloned().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_from_memory_and_from_disk_agree_with_a_plain_list() {
    for cache in [UNCACHED, Cache { bytes: usize::MAX, entries: 3 }, Cache { bytes: 1000, entries: 1000 }, CACHED] {
        for seed in 0..4 {
            let directory = directory();
            let mut store = open_with(directory.path(), cache, None);
            let (mut dice, mut model) = (Dice(seed), Model::default());
            for step in 0..400 {
                change(&mut dice, &mut store, &mut model, step).await;
                let start = model.first.saturating_sub(3) + dice.below(model.entries.len() as u64 + 6);
                let range = start..start + dice.below(12);
                let got = read(&store, range.clone()).await;
                assert_eq!(got, model.read(range.clone()), "{cache:?}, seed {seed}, step {step}, {range:?}");
                if step % 100 == 99 {
                    store.close().unwrap();
                    store = open_with(directory.path(), cache, None);
                }
            }
            assert_eq!(read(&store, ..).await, model.entries, "{cache:?}, seed {seed}");
        }
    }
}

/// Does not wait for the disk, so it is random which entries are already written.
async fn change(dice: &mut Dice, store: &mut Store, model: &mut Model, term: u64) {
    match dice.below(10) {
        0 if !model.entries.is_empty() => {
            let kept = dice.below(model.entries.len() as u64);
            let last = model.entries.get(usize::try_from(kept).unwrap()).map(|entry| entry.log_id);
            model.entries.truncate(usize::try_from(kept).unwrap() + 1);
            store.truncate_after(last).await.unwrap();
        }
        1 if !model.entries.is_empty() => {
            let gone = usize::try_from(dice.below(model.entries.len() as u64)).unwrap();
            let upto = model.entries[gone].log_id;
            model.entries.drain(..=gone);
            model.first = upto.index + 1;
            store.purge(upto).await.unwrap();
        }
        _ => {
            let new: Vec<_> = (0..1 + dice.below(5)).map(|nth| entry(term, model.next() + nth)).collect();
            model.entries.extend(new.iter().cloned());
            drop(begin_append(store, new).await);
        }
    }
}
