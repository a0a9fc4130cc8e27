//! The content of a log after it was closed and opened again.

use super::world::{append, directory, entries, entry, id, open, read, refusal, vote};
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};

#[tokio::test]
async fn all_entries_are_there_after_a_restart() {
    let directory = directory();
    let mut store = open(directory.path());
    store.save_vote(&vote(3)).await.unwrap();
    append(&mut store, entries(3, 0..10)).await;
    store.save_committed(Some(id(3, 7))).await.unwrap();
    store.purge(id(3, 4)).await.unwrap();
    store.close().unwrap();

    let mut store = open(directory.path());
    let state = store.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id, Some(id(3, 4)));
    assert_eq!(state.last_log_id, Some(id(3, 9)));
    assert_eq!(store.read_committed().await.unwrap(), Some(id(3, 7)));
    assert_eq!(store.reader().read_vote().await.unwrap(), Some(vote(3)));
    assert_eq!(read(&store, ..).await, entries(3, 5..10));
}

#[tokio::test]
async fn truncated_entries_do_not_come_back() {
    let directory = directory();
    let mut store = open(directory.path());
    append(&mut store, entries(1, 0..10)).await;
    store.truncate_after(Some(id(1, 5))).await.unwrap();
    append(&mut store, entries(2, 6..8)).await;
    store.close().unwrap();

    let mut store = open(directory.path());
    assert_eq!(store.get_log_state().await.unwrap().last_log_id, Some(id(2, 7)));
    assert_eq!(read(&store, ..).await, [entries(1, 0..6), entries(2, 6..8)].concat());

    store.truncate_after(None).await.unwrap();
    store.close().unwrap();
    let mut store = open(directory.path());
    assert_eq!(store.get_log_state().await.unwrap().last_log_id, None);
    assert_eq!(read(&store, ..).await, vec![]);
}

#[tokio::test]
async fn closing_writes_all_queued_operations() {
    let directory = directory();
    let mut store = open(directory.path());
    for index in 0..200 {
        store.append([entry(1, index)], IOFlushed::noop()).await.unwrap();
    }
    store.save_committed(Some(id(1, 150))).await.unwrap();
    drop(store);

    let mut store = open(directory.path());
    assert_eq!(read(&store, ..).await, entries(1, 0..200));
    assert_eq!(store.read_committed().await.unwrap(), Some(id(1, 150)));
}

#[tokio::test]
async fn a_log_that_is_open_is_not_opened_again() {
    let directory = directory();
    let store = open(directory.path());
    let said = refusal(directory.path());
    assert!(said.contains("no other process uses it"), "{said}");
    store.close().unwrap();
    open(directory.path());
}

#[tokio::test]
async fn an_append_that_would_leave_a_gap_or_rewrite_is_refused() {
    let directory = directory();
    let mut store = open(directory.path());
    append(&mut store, entries(1, 0..3)).await;
    for wrong in [vec![entry(1, 4)], vec![entry(1, 2)], vec![entry(1, 3), entry(1, 5)]] {
        store.append(wrong, IOFlushed::noop()).await.unwrap_err();
    }
    store.purge(id(1, 9)).await.unwrap();
    store.append([entry(1, 3)], IOFlushed::noop()).await.unwrap_err();
    append(&mut store, entries(1, 10..12)).await;
    assert_eq!(read(&store, ..).await, entries(1, 10..12));
}
