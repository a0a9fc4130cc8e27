//! Files with damage: an incomplete last record opens, everything else is refused with instructions.

use super::world::{append, directory, entries, entry, entry_of, id, open, read, refusal, vote};
use openraft::storage::{RaftLogReader, RaftLogStorage};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const HEADER_BYTES: usize = 7;

/// A closed log with its entries one by one in the write-ahead file: closing flushes nothing.
async fn written(count: u64) -> TempDir {
    let directory = directory();
    let mut store = open(directory.path());
    store.save_vote(&vote(1)).await.unwrap();
    for index in 0..count {
        append(&mut store, vec![entry(1, index)]).await;
    }
    store.close().unwrap();
    directory
}

/// The only file that is not empty.
fn wal(path: &Path) -> PathBuf {
    let files = fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "log"))
        .filter(|file| fs::metadata(file).unwrap().len() > 0)
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// The positions of the records in a file that is smaller than a block.
fn records(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut records = Vec::new();
    let mut at = 0;
    while at + HEADER_BYTES < bytes.len() {
        let end = at + HEADER_BYTES + usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        records.push(at..end);
        at = end;
    }
    assert_eq!(at, bytes.len());
    records
}

fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>, &[Range<usize>])) {
    let file = wal(path);
    let mut bytes = fs::read(&file).unwrap();
    let records = records(&bytes);
    change(&mut bytes, &records);
    fs::write(file, bytes).unwrap();
}

fn assert_says_what_to_do(said: &str) {
    assert!(said.contains("damaged") && said.contains("new id") && said.contains("empty directory"), "{said}");
}

#[tokio::test]
async fn an_incomplete_last_record_loses_only_itself() {
    for missing in ["its last byte", "its payload", "half its header", "all but a byte"] {
        let directory = written(10).await;
        damage(directory.path(), |bytes, records| {
            let last = records.last().unwrap();
            bytes.truncate(match missing {
                "its last byte" => last.end - 1,
                "its payload" => last.start + HEADER_BYTES,
                "half its header" => last.start + 3,
                _ => last.start + 1,
            });
        });
        let mut store = open(directory.path());
        assert_eq!(read(&store, ..).await, entries(1, 0..9), "without {missing}");
        assert_eq!(store.reader().read_vote().await.unwrap(), Some(vote(1)));
        // New entries in its place are durable as usual.
        append(&mut store, entries(2, 9..12)).await;
        store.close().unwrap();
        assert_eq!(read(&open(directory.path()), 9..).await, entries(2, 9..12));
    }
}

#[tokio::test]
async fn a_large_entry_cut_between_two_blocks_is_an_incomplete_last_record() {
    let directory = written(3).await;
    let large = [7; 100_000];
    let mut store = open(directory.path());
    append(&mut store, vec![entry_of(1, 3, &large)]).await;
    store.close().unwrap();
    let file = wal(directory.path());
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.len() > 3 * 32 * 1024);
    fs::write(file, &bytes[..2 * 32 * 1024]).unwrap();
    assert_eq!(read(&open(directory.path()), ..).await, entries(1, 0..3));
}

#[tokio::test]
async fn a_damaged_record_before_the_tail_is_refused() {
    let directory = written(10).await;
    damage(directory.path(), |bytes, records| bytes[records[5].end - 1] ^= 1);
    assert_says_what_to_do(&refusal(directory.path()));
}

/// RocksDB alone opens this file, and silently loses half of the log.
#[tokio::test]
async fn a_damaged_length_is_not_mistaken_for_an_incomplete_record() {
    let directory = written(10).await;
    damage(directory.path(), |bytes, records| bytes[records[5].start + 5] ^= 0x40);
    let said = refusal(directory.path());
    assert!(said.contains("is damaged at byte") && said.contains("a complete record follows at byte"), "{said}");
    assert_says_what_to_do(&said);
}

/// Like a page that never reached the disk although a later one did. RocksDB alone skips it.
#[tokio::test]
async fn zeros_before_the_tail_are_refused() {
    let directory = written(10).await;
    damage(directory.path(), |bytes, records| bytes[records[4].start..records[7].end].fill(0));
    assert_says_what_to_do(&refusal(directory.path()));
}

/// Only one bit is wrong, so a crash did not cut it off: it may have been acknowledged.
#[tokio::test]
async fn a_damaged_last_record_is_refused() {
    let directory = written(10).await;
    damage(directory.path(), |bytes, records| bytes[records.last().unwrap().end - 1] ^= 1);
    assert_says_what_to_do(&refusal(directory.path()));
}

#[tokio::test]
async fn a_truncated_file_followed_by_a_later_one_is_refused() {
    let directory = written(10).await;
    let file = wal(directory.path());
    fs::copy(&file, file.with_file_name("999999.log")).unwrap();
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    let said = refusal(directory.path());
    assert!(said.contains("999999.log continues after it"), "{said}");
    assert_says_what_to_do(&said);
}

#[tokio::test]
async fn acknowledged_entries_survive_a_kill() {
    let directory = directory();
    let mut store = open(directory.path());
    append(&mut store, entries(1, 0..100)).await;
    store.save_vote(&vote(5)).await.unwrap();
    // The files of a process that is killed at this moment.
    let killed = super::world::directory();
    for file in fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), killed.path().join(file.file_name())).unwrap();
    }
    let left = open(killed.path());
    assert_eq!(read(&left, ..).await, entries(1, 0..100));
    assert_eq!(left.reader().read_vote().await.unwrap(), Some(vote(5)));
}

/// Whatever the cause: the mark says that these entries were committed, so this node has acknowledged them.
#[tokio::test]
async fn a_log_behind_its_own_committed_mark_is_refused() {
    let directory = directory();
    let mut store = open(directory.path());
    append(&mut store, entries(1, 0..10)).await;
    store.save_committed(Some(id(1, 7))).await.unwrap();
    store.truncate_after(Some(id(1, 4))).await.unwrap();
    store.close().unwrap();
    let said = refusal(directory.path());
    assert!(said.contains("entry 7 is known to be committed, but the log holds entries 0 to 4"), "{said}");
    assert_says_what_to_do(&said);
}

#[tokio::test]
async fn a_different_entry_at_a_committed_index_is_refused() {
    let directory = directory();
    let mut store = open(directory.path());
    append(&mut store, entries(1, 0..10)).await;
    store.save_committed(Some(id(1, 7))).await.unwrap();
    store.truncate_after(Some(id(1, 4))).await.unwrap();
    append(&mut store, entries(2, 5..9)).await;
    store.close().unwrap();
    assert_says_what_to_do(&refusal(directory.path()));
}

/// The mark may be old: it is not written for every entry, nor when a snapshot replaces the log.
#[tokio::test]
async fn a_committed_mark_below_the_purged_one_is_not_damage() {
    let directory = directory();
    let mut store = open(directory.path());
    append(&mut store, entries(1, 0..10)).await;
    store.save_committed(Some(id(1, 7))).await.unwrap();
    store.purge(id(1, 9)).await.unwrap();
    append(&mut store, entries(1, 10..12)).await;
    store.close().unwrap();
    assert_eq!(read(&open(directory.path()), ..).await, entries(1, 10..12));
}
