//! A failing disk.

use super::world::{CACHED, append, begin_append, directory, entries, entry, id, open, open_with, read, vote};
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use test_support::gate::Gate;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_is_reported_once_to_every_caller_and_never_retried() {
    let directory = directory();
    let gate = Gate::default();
    let writes = Arc::new(AtomicU64::new(0));
    let (at_gate, count) = (gate.clone(), writes.clone());
    let before_write = move || {
        at_gate.pass();
        if count.fetch_add(1, Ordering::SeqCst) == 0 { Ok(()) } else { Err(io::Error::other("the disk is gone")) }
    };
    let mut store = open_with(directory.path(), CACHED, Some(Arc::new(before_write)));
    let _opened = gate.opened_at_the_end();
    let mut monitor = store.monitor();
    append(&mut store, entries(1, 0..5)).await;
    assert_eq!((store.failure(), monitor.failure()), (None, None));

    gate.shut();
    let mut waiting = Vec::new();
    for index in 5..15 {
        waiting.push(begin_append(&mut store, vec![entry(1, index)]).await);
    }
    gate.open();
    for flushed in waiting {
        let said = flushed.await.expect("answered, not forgotten").unwrap_err().to_string();
        assert!(said.contains("the disk is gone"), "{said}");
    }

    assert_eq!(monitor.failed().await.as_deref(), Some("the disk is gone"));
    assert_eq!(store.failure().as_deref(), Some("the disk is gone"));
    let refusals = [
        store.append([entry(1, 15)], IOFlushed::noop()).await,
        store.save_vote(&vote(2)).await,
        store.save_committed(Some(id(1, 4))).await,
        store.truncate_after(Some(id(1, 4))).await,
        store.purge(id(1, 2)).await,
    ];
    for refusal in refusals {
        let said = refusal.unwrap_err().to_string();
        assert!(said.contains("the Raft log has failed") && said.contains("the disk is gone"), "{said}");
    }
    assert_eq!(writes.load(Ordering::SeqCst), 2, "one that worked, one that failed, none after it");
    store.close().unwrap_err();

    let store = open(directory.path());
    assert_eq!(read(&store, ..).await, entries(1, 0..5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_that_could_not_be_written_is_not_cast() {
    let directory = directory();
    let mut store = open_with(directory.path(), CACHED, Some(Arc::new(|| Err(io::Error::other("no space")))));
    let said = store.save_vote(&vote(7)).await.unwrap_err().to_string();
    assert!(said.contains("no space"), "{said}");
    assert_eq!(store.reader().read_vote().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_writer_is_reported_as_a_failure() {
    let directory = directory();
    let mut store = open_with(directory.path(), CACHED, Some(Arc::new(|| panic!("on purpose"))));
    let mut monitor = store.monitor();
    let said = begin_append(&mut store, vec![entry(1, 0)]).await.await.expect("answered").unwrap_err().to_string();
    assert!(said.contains("panicked"), "{said}");
    assert!(monitor.failed().await.unwrap().contains("panicked"));
    store.append([entry(1, 1)], IOFlushed::noop()).await.unwrap_err();
}

#[tokio::test]
async fn closing_without_a_failure_ends_the_watch() {
    let directory = directory();
    let store = open(directory.path());
    let mut monitor = store.monitor();
    store.close().unwrap();
    assert_eq!(monitor.failed().await, None);
}
