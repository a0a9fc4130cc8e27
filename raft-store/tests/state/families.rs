//! States of builds that kept all records in one family.

use super::{Replica, copy, fleet, reopen, rocks};
use lease::record::{LIVE, META};
use rocksdb::{ColumnFamilyDescriptor, DB, IteratorMode, Options, WriteBatch};
use std::path::Path;
use tempfile::TempDir;

/// The records that are held in memory are put back where such a build had them, but for those that `stay`.
fn in_one_family(state: &Path, stays: impl Fn(u8) -> bool) {
    let mut options = Options::default();
    options.set_allow_concurrent_memtable_write(false);
    let families = ["default", "live"].map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
    let mut db = DB::open_cf_descriptors(&options, state, families).unwrap();
    let mut batch = WriteBatch::default();
    let live = db.cf_handle("live").unwrap();
    let mut is_empty = true;
    for found in db.iterator_cf(live, IteratorMode::Start) {
        let (key, value) = found.unwrap();
        assert!(LIVE.contains(&key[4]), "{key:?}");
        if stays(key[4]) {
            is_empty = false;
        } else {
            batch.put(&key, value);
            batch.delete_cf(live, &key);
        }
    }
    assert!(!batch.is_empty());
    db.write(batch).unwrap();
    if is_empty {
        db.drop_cf("live").unwrap();
    }
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
async fn a_state_in_one_family_is_taken_up_also_when_that_was_cut_short() {
    let entries = fleet::history(5, 400);
    let (folder, mut first) = rocks();
    first.apply(&entries[..300], 16).await.unwrap();
    let before = first.hash();
    drop(first);
    let cut_short = TempDir::new().unwrap();
    copy(&folder.path().join("node"), &cut_short.path().join("node"));
    in_one_family(&state_of(&folder), |_| false);
    // All but the one that goes last.
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
