//! openraft's own tests of a log store.

use super::machine::Machine;
use super::world::{CACHED, Cache, Store, UNCACHED, directory, open_with};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use raft_store::types::OnTokio;
use tempfile::TempDir;

struct Build(Cache);

impl StoreBuilder<OnTokio, Store, Machine, TempDir> for Build {
    async fn build(&self) -> Result<(TempDir, Store, Machine), StorageError<OnTokio>> {
        let directory = directory();
        let store = open_with(directory.path(), self.0, None);
        Ok((directory, store, Machine::default()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openrafts_suite_holds_in_memory() {
    Suite::test_all(Build(CACHED)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn openrafts_suite_holds_on_disk() {
    Suite::test_all(Build(UNCACHED)).await.unwrap();
}
