//! What a purge leaves on disk, checked with RocksDB directly.

use super::world::{append, directory, entries, entry_of, id, open, read, refusal, vote};
use openraft::storage::RaftLogStorage;
use rocksdb::{BottommostLevelCompaction, CompactOptions, DB, DBCompressionType, Options};
use std::path::Path;

/// The same as in disk.rs.
fn entry_key(index: u64) -> Vec<u8> {
    [&[0, 0, 0, 0, b'L'][..], &index.to_be_bytes()].concat()
}

/// Many small files below level 0, where whole files can be freed.
fn split_into_files(path: &Path) {
    let mut options = Options::default();
    options.set_target_file_size_base(4 * 1024);
    options.set_compression_type(DBCompressionType::None);
    let db = DB::open(&options, path).unwrap();
    let mut rewrite = CompactOptions::default();
    rewrite.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &rewrite);
    assert!(db.live_files().unwrap().len() > 10);
}

fn files_below(path: &Path, index: u64) -> usize {
    let db = DB::open_for_read_only(&Options::default(), path, false).unwrap();
    let end = entry_key(index);
    db.live_files().unwrap().iter().filter(|file| file.end_key.as_ref().is_some_and(|key| *key < end)).count()
}

async fn log_of_many_files(path: &Path) {
    let mut store = open(path);
    append(&mut store, (0..200).map(|index| entry_of(1, index, &[u8::try_from(index).unwrap(); 1024])).collect()).await;
    store.close().unwrap();
    split_into_files(path);
}

async fn assert_purged_upto_149(path: &Path) {
    let mut store = open(path);
    let state = store.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(id(1, 149)), Some(id(1, 199))));
    let left: Vec<_> = read(&store, ..).await.iter().map(|entry| entry.log_id.index).collect();
    assert_eq!(left, (150..200).collect::<Vec<_>>());
    append(&mut store, entries(2, 200..210)).await;
    store.close().unwrap();
}

#[tokio::test]
async fn a_purged_log_opens_whether_its_files_are_gone_or_not() {
    let directory = directory();
    let path = directory.path();
    log_of_many_files(path).await;
    let before = files_below(path, 140);
    assert!(before > 10);

    // The mark is written but not synced: the files must stay, because a power loss may still lose the mark.
    let mut store = open(path);
    store.purge(id(1, 149)).await.unwrap();
    store.close().unwrap();
    assert_eq!(files_below(path, 140), before);
    assert_purged_upto_149(path).await;
}

#[tokio::test]
async fn files_are_freed_after_the_purged_mark_is_durable() {
    let directory = directory();
    let path = directory.path();
    log_of_many_files(path).await;
    assert!(files_below(path, 140) > 10);

    let mut store = open(path);
    store.purge(id(1, 149)).await.unwrap();
    store.save_vote(&vote(1)).await.unwrap();
    store.close().unwrap();
    assert_eq!(files_below(path, 140), 0);
    assert_purged_upto_149(path).await;
}

#[tokio::test]
async fn a_purge_beyond_the_last_entry_leaves_an_empty_log_that_continues_after_it() {
    let directory = directory();
    let mut store = open(directory.path());
    append(&mut store, entries(1, 0..5)).await;
    store.purge(id(4, 100)).await.unwrap();
    store.purge(id(4, 50)).await.unwrap();
    append(&mut store, entries(4, 101..103)).await;
    store.close().unwrap();
    let mut store = open(directory.path());
    assert_eq!(store.get_log_state().await.unwrap().last_purged_log_id, Some(id(4, 100)));
    assert_eq!(read(&store, ..).await, entries(4, 101..103));
}

/// The state after a power loss that lost the mark but not the deletion of files.
#[tokio::test]
async fn a_log_whose_beginning_is_missing_is_refused() {
    for (purged, gone, said_of) in
        [(None, 0..3, "entries 0 to 2 are missing"), (Some(4), 5..7, "entries 5 to 6 are missing")]
    {
        let directory = directory();
        let mut store = open(directory.path());
        append(&mut store, entries(1, 0..10)).await;
        if let Some(index) = purged {
            store.purge(id(1, index)).await.unwrap();
        }
        store.close().unwrap();
        let db = DB::open(&Options::default(), directory.path()).unwrap();
        gone.for_each(|index| db.delete(entry_key(index)).unwrap());
        drop(db);
        let said = refusal(directory.path());
        assert!(said.contains(said_of) && said.contains("new id"), "{said}");
    }
}
