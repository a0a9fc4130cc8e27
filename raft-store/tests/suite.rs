//! openraft's own tests of a store, on the log and the state of a daemon.

use futures_util::{Stream, StreamExt as _, stream};
use lease::Salt;
use openraft::alias::SnapshotOf;
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{OptionalSend, StorageError};
use raft_store::codec::records::IdentityRecord;
use raft_store::directory::{Directory, DirectoryError};
use raft_store::log::{LogOptions, LogStore};
use raft_store::snapshot::SnapshotDir;
use raft_store::state::rocks::RocksDisk;
use raft_store::state::{AppliedChunk, Builder, Machine, Observer, StateStore};
use raft_store::types::{Group, LogEntry, LogId, OnTokio, Payload, SnapshotMeta, StoredMembership};
use std::io;
use std::sync::Arc;
use tempfile::TempDir;

struct Nobody;

impl Observer for Nobody {
    fn applied(&self, _: &AppliedChunk<'_>) {}
}

struct Build;

type Log = LogStore<OnTokio>;

/// The suite applies entries with gaps between them, which the state machine refuses: the gaps are filled.
struct State(Machine<OnTokio, RocksDisk>);

impl RaftStateMachine<OnTokio> for State {
    type SnapshotData = SnapshotDir;
    type SnapshotBuilder = Builder<OnTokio, RocksDisk>;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        self.0.applied_state().await
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<OnTokio>>> + Unpin + OptionalSend,
    {
        let mut next = self.applied_state().await?.0.map_or(0, |applied| applied.index + 1);
        let filled = entries.flat_map(move |entry| {
            let last = entry.as_ref().map(|(entry, _)| entry.log_id).expect("the suite's own");
            let blanks = (next..last.index).map(move |index| {
                let log_id = LogId { index, ..last };
                Ok((LogEntry { log_id, payload: Payload::Blank }, None))
            });
            next = last.index + 1;
            stream::iter(blanks.chain([entry]))
        });
        self.0.apply(filled).await
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        self.0.get_snapshot_builder().await
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotDir) -> io::Result<()> {
        self.0.install_snapshot(meta, snapshot).await
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<OnTokio, SnapshotDir>>> {
        self.0.get_current_snapshot().await
    }
}

impl StoreBuilder<OnTokio, Log, State, TempDir> for Build {
    async fn build(&self) -> Result<(TempDir, Log, State), StorageError<OnTokio>> {
        let folder = TempDir::new().unwrap();
        let identity = IdentityRecord { cluster: 1, salt: Salt([1, 2]), node: 1, instance: 1 };
        let directory = Directory::make(&folder.path().join("node"), identity, |log, state| {
            Log::open(log, Group(0), LogOptions::default()).unwrap().close().unwrap();
            RocksDisk::make(state).unwrap();
            Ok::<_, DirectoryError>(())
        });
        let directory = directory.unwrap();
        let log = Log::open(&directory.log_path(), Group(0), LogOptions::default()).unwrap();
        let disk = RocksDisk::open(directory, Group(0)).unwrap();
        let store = StateStore::open(disk, identity.salt).unwrap();
        Ok((folder, log, State(Machine::new(store, Arc::new(Nobody)))))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openrafts_suite_holds_on_a_nodes_own_disks() {
    Suite::test_all(Build).await.unwrap();
}
