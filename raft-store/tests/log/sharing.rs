//! Which operations need an fsync.

use super::world::{CACHED, append, begin_append, directory, entries, entry, id, open, open_with, vote};
use openraft::storage::RaftLogStorage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use test_support::gate::Gate;
use tokio::sync::{Barrier, Mutex};

#[tokio::test(flavor = "multi_thread")]
async fn many_appenders_share_an_fsync() {
    const APPENDERS: usize = 256;
    const ROUNDS: usize = 8;
    let directory = directory();
    // A disk as slow as the appenders need: each write waits until all appends of this round are queued.
    let gate = Gate::default();
    let store = Arc::new(Mutex::new((open_with(directory.path(), CACHED, gate.before_write()), 0)));
    let _opened = gate.opened_at_the_end();
    let queued = Arc::new(AtomicU64::new(0));
    let round = Arc::new(Barrier::new(APPENDERS));
    gate.shut();
    let appenders: Vec<_> = (0..APPENDERS)
        .map(|_| {
            let (store, gate, queued, round) = (store.clone(), gate.clone(), queued.clone(), round.clone());
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    if round.wait().await.is_leader() {
                        gate.shut();
                        queued.store(0, Ordering::SeqCst);
                    }
                    round.wait().await;
                    let flushed = {
                        let mut guard = store.lock().await;
                        let (store, next) = &mut *guard;
                        *next += 1;
                        begin_append(store, vec![entry(1, *next - 1)]).await
                    };
                    if queued.fetch_add(1, Ordering::SeqCst) + 1 == APPENDERS as u64 {
                        gate.open();
                    }
                    flushed.await.unwrap().unwrap();
                }
            })
        })
        .collect();
    for appender in appenders {
        appender.await.unwrap();
    }
    let stats = store.lock().await.0.monitor().stats();
    assert_eq!(stats.entries_written, (APPENDERS * ROUNDS) as u64);
    assert!(stats.entries_written >= 20 * stats.synced_writes, "{stats:?}");
    assert_eq!(stats.wal_syncs, stats.synced_writes);
    assert!(stats.largest_batch >= 20, "{stats:?}");
}

#[tokio::test]
async fn an_append_and_a_vote_are_synced_and_nothing_else_is() {
    let directory = directory();
    let mut store = open(directory.path());
    let monitor = store.monitor();
    append(&mut store, entries(1, 0..10)).await;
    assert_eq!(monitor.stats().synced_writes, 1);
    store.save_vote(&vote(1)).await.unwrap();
    assert_eq!(monitor.stats().synced_writes, 2);

    store.save_committed(Some(id(1, 8))).await.unwrap();
    store.truncate_after(Some(id(1, 8))).await.unwrap();
    store.purge(id(1, 3)).await.unwrap();
    store.close().unwrap();
    let stats = monitor.stats();
    assert_eq!((stats.synced_writes, stats.wal_syncs), (2, 2), "asked for, and done");
    assert!(stats.unsynced_writes >= 1, "{stats:?}");
    assert!(stats.bytes_written > 0 && !stats.last_sync.is_zero(), "{stats:?}");
}
