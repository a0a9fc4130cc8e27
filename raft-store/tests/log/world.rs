//! Shared by the tests of the log: a directory, and entries.

use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use raft_store::log::{BeforeWrite, LogOptions, LogStore};
use raft_store::types::{Group, LeaderId, LogEntry, LogId, OnTokio, Payload, Proposal, Vote};
use std::path::Path;
use tempfile::TempDir;

pub(super) type Store = LogStore<OnTokio>;

pub(super) const CACHED: Cache = Cache { bytes: 64 * 1024 * 1024, entries: 100_000 };
/// Every written entry leaves the memory at once.
pub(super) const UNCACHED: Cache = Cache { bytes: 0, entries: 0 };

#[derive(Clone, Copy, Debug)]
pub(super) struct Cache {
    pub(super) bytes: usize,
    pub(super) entries: usize,
}

pub(super) fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

pub(super) fn open(path: &Path) -> Store {
    open_with(path, CACHED, None)
}

pub(super) fn open_with(path: &Path, cache: Cache, before_write: Option<BeforeWrite>) -> Store {
    let options = LogOptions { cache_bytes: cache.bytes, cache_entries: cache.entries, before_write };
    LogStore::open(path, Group(0), options).expect("opens")
}

/// The error when the log does not open.
pub(super) fn refusal(path: &Path) -> String {
    match Store::open(path, Group(0), LogOptions::default()) {
        Ok(_) => panic!("a damaged log was opened"),
        Err(error) => error.to_string(),
    }
}

pub(super) fn id(term: u64, index: u64) -> LogId {
    LogId { leader_id: LeaderId { term, node_id: 1 }, index }
}

pub(super) fn vote(term: u64) -> Vote {
    Vote::new(term, 1)
}

pub(super) fn entry(term: u64, index: u64) -> LogEntry {
    entry_of(term, index, format!("entry {index} of term {term}").as_bytes())
}

pub(super) fn entry_of(term: u64, index: u64, bytes: &[u8]) -> LogEntry {
    LogEntry { log_id: id(term, index), payload: Payload::Normal(Proposal::from_bytes(bytes.into())) }
}

pub(super) fn entries(term: u64, indexes: std::ops::Range<u64>) -> Vec<LogEntry> {
    indexes.map(|index| entry(term, index)).collect()
}

/// The result of an append: durable, or an error.
pub(super) type Flushed = tokio::sync::oneshot::Receiver<std::io::Result<()>>;

/// Returns when the entries are accepted, not when they are durable.
pub(super) async fn begin_append(store: &mut Store, entries: Vec<LogEntry>) -> Flushed {
    let (done, flushed) = OnTokio::oneshot();
    store.append(entries, IOFlushed::signal(done)).await.expect("taken");
    flushed
}

pub(super) async fn append(store: &mut Store, entries: Vec<LogEntry>) {
    begin_append(store, entries).await.await.expect("answered").expect("durable");
}

pub(super) async fn read(
    store: &Store,
    range: impl std::ops::RangeBounds<u64> + Clone + std::fmt::Debug + Send,
) -> Vec<LogEntry> {
    store.reader().try_get_log_entries(range).await.expect("readable")
}
