//! Snapshots that are built while another one is installed.

use crate::{Replica, fleet, reopen, rocks};
use lease::Entry;
use lease::item::{NewItem, Part};
use lease::numbers::{Time, Wall};
use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine};
use raft_store::state::disk::StateDisk;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::{OnTokio, SnapshotMeta};
use std::pin::pin;
use std::time::Duration;
use test_support::gate::Gate;
use test_support::until;

type Snapshot = openraft::alias::SnapshotOf<OnTokio, raft_store::snapshot::SnapshotDir>;

const OLDER: usize = 1_000;
const NEWER: usize = 2_000;

/// Creates items with bodies that do not compress.
fn creations(count: usize, body_bytes: usize) -> Vec<Entry> {
    let mut dice = fleet::Dice(7);
    (0..count)
        .map(|n| {
            let mut new = NewItem::new(fleet::item(&format!("item-{n}")), fleet::queue());
            let byte = |_| char::from(b'!' + u8::try_from(dice.roll(90)).unwrap());
            new.body = vec![(Part::Plan, (0..body_bytes).map(byte).collect())];
            let command = fleet::request("ada", &format!("r{n}"), lease::Command::Create(Box::new(new)));
            Entry { at: Time(n as u64), wall: Wall(1_800_000_000_000), commands: vec![command] }
        })
        .collect()
}

async fn newer_snapshot() -> (tempfile::TempDir, Snapshot) {
    let (folder, mut leader) = rocks();
    leader.apply(&creations(NEWER, 100), 256).await.unwrap();
    let snapshot = leader.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    (folder, snapshot)
}

/// The state is that of the installed snapshot, which is also the newest one.
fn assert_installed(replica: &Replica<RocksDisk>, installed: &SnapshotMeta, when: &str) {
    let (newest, snapshot) = replica.store.disk().newest_snapshot().unwrap().expect("there is a snapshot");
    assert_eq!(SnapshotMeta::try_from(newest.clone()).unwrap(), *installed, "{when}");
    assert_eq!(snapshot.meta().unwrap(), newest, "{when}: its folder is there");
    assert_eq!(replica.store.progress().applied, installed.last_log_id, "{when}");
    assert_eq!(replica.store.verify().unwrap(), [""; 0], "{when}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_finishes_late_does_not_replace_a_newer_one() {
    let (_leader_folder, newer) = newer_snapshot().await;
    let (folder, mut own) = rocks();
    own.apply(&creations(OLDER, 100), 256).await.unwrap();
    let gate = Gate::default();
    gate.shut();
    let _opened = gate.opened_at_the_end();
    own.store.disk().set_before_keeping(gate.before_write().unwrap());

    let mut builder = own.machine.get_snapshot_builder().await;
    let building = tokio::spawn(async move { builder.build_snapshot().await });
    let making = folder.path().join("node/snapshots/making");
    until::blocking("the build has its files", || making.exists());
    {
        let mut installing = pin!(own.machine.install_snapshot(&newer.meta, newer.snapshot));
        // It may or may not wait for the build.
        let early = tokio::time::timeout(Duration::from_secs(2), &mut installing).await;
        gate.open();
        match early {
            Ok(installed) => installed.unwrap(),
            Err(_) => installing.await.unwrap(),
        }
    }
    let built = building.await.unwrap().unwrap();

    assert!(built.meta.last_log_id <= newer.meta.last_log_id);
    assert_installed(&own, &newer.meta, "at once");
    drop((own, built));
    assert_installed(&reopen(&folder), &newer.meta, "after a restart");
}

/// The install may begin at any point of the build, which may read the state that the install deletes.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_built_while_another_one_is_installed() {
    for round in 0..10 {
        let (_leader_folder, newer) = newer_snapshot().await;
        let (folder, mut own) = rocks();
        own.apply(&creations(OLDER, 50_000), 256).await.unwrap();
        let mut builder = own.machine.get_snapshot_builder().await;
        let building = tokio::spawn(async move { builder.build_snapshot().await });
        std::thread::sleep(Duration::from_micros(3_000 + round * 600));
        own.machine.install_snapshot(&newer.meta, newer.snapshot).await.unwrap();
        let built = building.await.unwrap();

        let built = built.unwrap_or_else(|error| panic!("round {round}: Raft ends with the build: {error}"));
        assert!(built.meta.last_log_id <= newer.meta.last_log_id);
        assert_installed(&own, &newer.meta, "at once");
        drop((own, built));
        assert_installed(&reopen(&folder), &newer.meta, "after a restart");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_taken_while_a_snapshot_is_installed() {
    for round in 0..10 {
        let (_leader_folder, newer) = newer_snapshot().await;
        let (_folder, mut own) = rocks();
        own.apply(&creations(OLDER, 50_000), 256).await.unwrap();
        let store = own.store.clone();
        let backing_up = tokio::task::spawn_blocking(move || store.backup(Wall(1_800_000_000_000)));
        std::thread::sleep(Duration::from_micros(3_000 + round * 600));
        own.machine.install_snapshot(&newer.meta, newer.snapshot).await.unwrap();

        let backup = backing_up.await.unwrap();
        let backup = backup.unwrap_or_else(|error| panic!("round {round}: {error}"));
        let held = backup.header().snapshot.last.map(|last| last.index);
        assert!([Some(OLDER as u64), Some(NEWER as u64)].contains(&held), "round {round}: {held:?}");
    }
}
