//! States of older builds that kept all records in one family.

use super::{Replica, SALT, copy, fleet, reopen, rocks, used};
use lease::record::{LIVE, META};
use raft_store::state::StateStore;
use rocksdb::{ColumnFamilyDescriptor, DB, IteratorMode, Options, WriteBatch};
use std::path::Path;
use tempfile::TempDir;

/// Every record that is held in memory, and a way to move it to another family.
fn with_live(state: &Path, change: impl FnOnce(&DB, Vec<(Box<[u8]>, Box<[u8]>)>)) {
    let mut options = Options::default();
    options.set_allow_concurrent_memtable_write(false);
    let families = ["default", "live"].map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
    let mut db = DB::open_cf_descriptors(&options, state, families).unwrap();
    let records: Vec<_> =
        db.iterator_cf(db.cf_handle("live").unwrap(), IteratorMode::Start).map(Result::unwrap).collect();
    assert!(records.len() > 1 && records.iter().all(|(key, _)| LIVE.contains(&key[4])));
    change(&db, records);
    if db.iterator_cf(db.cf_handle("live").unwrap(), IteratorMode::Start).next().is_none() {
        db.drop_cf("live").unwrap();
    }
}

/// Moves them to the family of older builds, except those that stay.
fn in_one_family(state: &Path, stays: impl Fn(u8) -> bool) {
    with_live(state, |db, records| {
        let mut batch = WriteBatch::default();
        for (key, value) in records.into_iter().filter(|(key, _)| !stays(key[4])) {
            batch.put(&key, value);
            batch.delete_cf(db.cf_handle("live").unwrap(), &key);
        }
        db.write(batch).unwrap();
    });
}

fn state_of(folder: &TempDir) -> std::path::PathBuf {
    let node = folder.path().join("node");
    let states = std::fs::read_dir(&node).unwrap().map(|entry| entry.unwrap().path());
    let is_state = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("state-");
    states
        .filter(is_state)
        .max()
        .unwrap_or_else(|| panic!("{:?}", std::fs::read_dir(&node).unwrap().collect::<Vec<_>>()))
}

#[tokio::test]
async fn a_state_in_one_family_is_converted_even_after_an_interruption() {
    let entries = fleet::history(5, 400);
    let (folder, mut first) = rocks();
    first.apply(&entries[..300], 16).await.unwrap();
    let before = first.hash();
    drop(first);
    let cut_short = TempDir::new().unwrap();
    copy(&folder.path().join("node"), &cut_short.path().join("node"));
    in_one_family(&state_of(&folder), |_| false);
    // All except the record that is moved last.
    in_one_family(&state_of(&cut_short), |kind| kind != META);
    let mut expected = Replica::open(raft_store::state::memory::MemoryDisk::default());
    expected.apply(&entries, 64).await.unwrap();
    for folder in [folder, cut_short] {
        for _ in 0..2 {
            let again = reopen(&folder);
            assert_eq!((again.hash(), again.next), (before, 301));
            assert_eq!(again.store.verify().unwrap(), [""; 0]);
        }
        let mut again = reopen(&folder);
        again.apply(&entries[300..], 7).await.unwrap();
        assert_eq!(again.hash(), expected.hash());
        drop(again);
        assert_eq!(reopen(&folder).hash(), expected.hash());
    }
}

#[tokio::test]
async fn a_state_without_its_live_records_is_not_mistaken_for_an_empty_one() {
    let (folder, mut first) = rocks();
    first.apply(&fleet::history(6, 100), 16).await.unwrap();
    drop(first);
    with_live(&state_of(&folder), |db, records| {
        for (key, _) in records {
            db.delete_cf(db.cf_handle("live").unwrap(), key).unwrap();
        }
    });
    let refused = StateStore::open(used(&folder), SALT).unwrap_err();
    assert_eq!(refused.to_string(), "the state's RocksDB: its live records are missing");
}
