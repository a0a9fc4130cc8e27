//! The log knows the bytes of its entries, and purged entries leave the disk.

use super::world::{append, directory, entry_of, id, open};
use openraft::storage::RaftLogStorage;
use std::path::Path;

const KIB: u64 = 1024;
/// Besides its payload an entry counts with its envelope.
const ENVELOPE: u64 = 96;

/// Entries of this many KiB each that do not compress.
async fn fill(store: &mut super::world::Store, indexes: std::ops::Range<u64>, kib: usize) {
    for start in indexes.clone().step_by(64) {
        let entries = (start..indexes.end.min(start + 64))
            .map(|index| entry_of(1, index, &vec![u8::try_from(index % 251).unwrap(); kib * 1024]));
        append(store, entries.collect()).await;
    }
}

fn bytes_in(folder: &Path) -> u64 {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn is_about(found: u64, wanted: u64) -> bool {
    found.abs_diff(wanted) <= wanted / 10
}

#[tokio::test]
async fn log_bytes_are_counted_and_estimated_after_a_restart() {
    let directory = directory();
    let mut store = open(directory.path());
    fill(&mut store, 0..1_000, 1).await;
    fill(&mut store, 1_000..1_100, 10).await;
    let monitor = store.monitor();
    assert_eq!(monitor.bytes_of(0..u64::MAX), 2_000 * KIB + 1_100 * ENVELOPE);
    assert_eq!(monitor.bytes_of(500..501), KIB + ENVELOPE);
    store.truncate_after(Some(id(1, 1_079))).await.unwrap();
    // Bytes are assumed to be spread evenly between two marks, about 16 KiB apart.
    assert!(is_about(monitor.bytes_of(1_000..u64::MAX), 80 * (10 * KIB + ENVELOPE)));
    store.purge(id(1, 499)).await.unwrap();
    let held = 1_300 * KIB + 580 * ENVELOPE;
    assert!(is_about(monitor.bytes_of(0..u64::MAX), held), "{}", monitor.bytes_of(0..u64::MAX));
    let first = monitor.first_kept(600 * KIB);
    assert!(first > 1_000 && monitor.bytes_of(first..u64::MAX) <= 600 * KIB, "from {first}");
    store.close().unwrap();

    let store = open(directory.path());
    let monitor = store.monitor();
    assert!(is_about(monitor.bytes_of(0..u64::MAX), held), "{}", monitor.bytes_of(0..u64::MAX));
    assert!(is_about(monitor.bytes_of(1_000..1_080), 800 * KIB), "{}", monitor.bytes_of(1_000..1_080));
    assert!(monitor.first_kept(600 * KIB).abs_diff(first) <= 5);
}

#[tokio::test]
async fn purged_bytes_leave_the_disk_when_they_are_reclaimed() {
    let directory = directory();
    let mut store = open(directory.path());
    let monitor = store.monitor();
    // More than one file, and a write-ahead file that is half full.
    fill(&mut store, 0..800, 64).await;
    assert!(bytes_in(directory.path()) > 50 * KIB * KIB);
    store.purge(id(1, 789)).await.unwrap();
    append(&mut store, vec![entry_of(1, 800, b"the purge is on its way")]).await;
    tokio::task::spawn_blocking(move || monitor.reclaim()).await.unwrap().unwrap();
    let left = bytes_in(directory.path());
    assert!(left < 2 * KIB * KIB, "{left} bytes are left of ten entries of 64 KiB");
    let monitor = store.monitor();
    store.close().unwrap();
    monitor.reclaim().unwrap();
    let mut store = open(directory.path());
    assert_eq!(store.get_log_state().await.unwrap().last_purged_log_id, Some(id(1, 789)));
    assert_eq!(super::world::read(&store, ..).await.len(), 11);
}
