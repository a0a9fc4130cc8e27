//! openraft's own tests of a store, on the log and the state as a daemon has them.

use lease::Salt;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use raft_store::codec::records::IdentityRecord;
use raft_store::directory::{Directory, DirectoryError};
use raft_store::log::{LogOptions, LogStore};
use raft_store::state::rocks::RocksDisk;
use raft_store::state::{AppliedChunk, Machine, Observer, StateStore};
use raft_store::types::{Group, OnTokio};
use std::sync::Arc;
use tempfile::TempDir;

struct Nobody;

impl Observer for Nobody {
    fn applied(&self, _: &AppliedChunk<'_>) {}
}

struct Build;

type Log = LogStore<OnTokio>;
type State = Machine<OnTokio, RocksDisk>;

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
        Ok((folder, log, Machine::new(store, Arc::new(Nobody))))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openrafts_suite_holds_on_a_nodes_own_disks() {
    Suite::test_all(Build).await.unwrap();
}
