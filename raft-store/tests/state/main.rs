//! The state on its disks: chunks, snapshots, restarts.

mod backup;
mod events;
mod families;
mod restore;
mod snapshots;

use futures_util::stream;
use lease::numbers::Time;
use lease::record::{ARCHIVED, BODY};
use lease::{Entry, Salt, StateHash};
use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine};
use raft_store::codec::records::IdentityRecord;
use raft_store::directory::{Directory, DirectoryError};
use raft_store::snapshot::{Incoming, checksum};
use raft_store::state::disk::StateDisk;
use raft_store::state::memory::MemoryDisk;
use raft_store::state::rocks::RocksDisk;
use raft_store::state::{AppliedChunk, Machine, Observer, StateStore};
use raft_store::types::{Group, LeaderId, LogEntry, LogId, Member, Membership, OnTokio, Payload, Proposal};
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use test_support::fleet::{self, history};

const SALT: Salt = Salt([3, 4]);

/// Counts the entries and events that it was notified of.
#[derive(Default)]
struct Seen(Mutex<(usize, usize)>);

impl Observer for Seen {
    fn applied(&self, chunk: &AppliedChunk<'_>) {
        let mut seen = self.0.lock().unwrap();
        seen.0 += 1;
        seen.1 += chunk.events.len();
    }
}

struct Replica<D: StateDisk> {
    store: Arc<StateStore<D>>,
    machine: Machine<OnTokio, D>,
    next: u64,
}

impl<D: StateDisk> Replica<D> {
    fn open(disk: D) -> Self {
        let store = StateStore::open(disk, SALT).unwrap();
        let machine = Machine::new(store.clone(), Arc::new(Seen::default()));
        let next = store.progress().applied.map_or(1, |applied| applied.index + 1);
        Self { store, machine, next }
    }

    /// Like every log, it begins with an entry that is not the lease machine's.
    async fn begin(&mut self) -> io::Result<()> {
        match self.store.progress().applied {
            None => self.apply_at(0, Payload::Blank).await,
            Some(_) => Ok(()),
        }
    }

    async fn apply_at(&mut self, index: u64, payload: Payload) -> io::Result<()> {
        let log_id = LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index };
        self.machine.apply(stream::iter([Ok((LogEntry { log_id, payload }, None))])).await
    }

    /// Applies the entries in chunks of this many.
    async fn apply(&mut self, entries: &[Entry], chunk: usize) -> io::Result<()> {
        self.begin().await?;
        for entries in entries.chunks(chunk) {
            let steps: Vec<_> = entries
                .iter()
                .map(|entry| {
                    let log_id = LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index: self.next };
                    self.next += 1;
                    Ok((LogEntry { log_id, payload: Payload::Normal(Proposal::seal(entry)) }, None))
                })
                .collect();
            self.machine.apply(stream::iter(steps)).await?;
        }
        Ok(())
    }

    /// Applies a membership change to these nodes, all of them voters.
    async fn change_members(&mut self, ids: &[u64]) {
        self.begin().await.unwrap();
        let index = self.next;
        self.next += 1;
        let members: BTreeMap<u64, Member> = ids.iter().map(|id| (*id, Member::default())).collect();
        let membership = Membership::new(vec![ids.iter().copied().collect()], members).unwrap();
        self.apply_at(index, Payload::Membership(membership)).await.unwrap();
    }

    fn hash(&self) -> StateHash {
        self.store.progress().hash
    }

    fn count(&self, kind: u8) -> usize {
        let mut count = 0;
        let mut visit = |_: &[u8], _: &[u8]| {
            count += 1;
            true
        };
        self.store.disk().scan(&[kind], &[kind], &mut visit).unwrap();
        count
    }
}

fn make(root: &Path) -> Directory {
    let identity = IdentityRecord { cluster: 7, salt: SALT, node: 1, instance: 9 };
    Directory::make(root, identity, |log, state| {
        std::fs::write(log.join("CURRENT"), "a log").unwrap();
        RocksDisk::make(state).map_err(|error| DirectoryError::Io { path: state.into(), doing: "make it", error })
    })
    .unwrap()
}

fn rocks() -> (TempDir, Replica<RocksDisk>) {
    let folder = TempDir::new().unwrap();
    let directory = make(&folder.path().join("node"));
    let replica = Replica::open(RocksDisk::open(directory, Group(0)).unwrap());
    (folder, replica)
}

fn used(folder: &TempDir) -> RocksDisk {
    let raft_store::directory::Found::Used(directory) = Directory::find(&folder.path().join("node")).unwrap() else {
        panic!("the directory was used")
    };
    RocksDisk::open(directory, Group(0)).unwrap()
}

fn reopen(folder: &TempDir) -> Replica<RocksDisk> {
    Replica::open(used(folder))
}

#[tokio::test]
async fn one_log_in_chunks_of_any_size_gives_the_same_state() {
    let entries = history(1, 1_500);
    let mut hashes = Vec::new();
    let mut dumps = Vec::new();
    for chunk in [1, 7, 1_000] {
        let mut memory = Replica::open(MemoryDisk::default());
        memory.apply(&entries, chunk).await.unwrap();
        hashes.push(memory.hash());
        let (_folder, mut rocks) = rocks();
        rocks.apply(&entries, chunk).await.unwrap();
        hashes.push(rocks.hash());
        assert_eq!(rocks.store.verify().unwrap(), [""; 0]);
        assert!(rocks.count(ARCHIVED) > 0, "some are in the archive");
        dumps.push((rocks.count(ARCHIVED), rocks.count(BODY), rocks.store.read(|state, _| state.dump()).unwrap()));
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    assert!(dumps.iter().all(|dump| *dump == dumps[0]));
}

#[tokio::test]
async fn bodies_of_purged_items_leave_the_disk() {
    let (_folder, mut rocks) = rocks();
    rocks.apply(&history(1, 1_500), 256).await.unwrap();
    let live = rocks.store.read(|state, _| state.live_items()).unwrap();
    assert_eq!(rocks.count(BODY), live + rocks.count(ARCHIVED), "one part each");
}

#[tokio::test]
async fn a_restart_finds_the_flushed_state_or_an_earlier_complete_one() {
    let entries = history(2, 600);
    let (folder, mut first) = rocks();
    first.apply(&entries[..200], 10).await.unwrap();
    first.store.flush().unwrap();
    let flushed = first.hash();
    first.apply(&entries[200..], 10).await.unwrap();
    let all = first.hash();
    // RocksDB writes everything out when it is closed, so a copy made before that is the state after a crash.
    let crashed = TempDir::new().unwrap();
    copy(&folder.path().join("node"), &crashed.path().join("node"));
    drop(first);

    let mut second = reopen(&crashed);
    assert_eq!((second.hash(), second.next), (flushed, 201));
    assert_eq!(second.store.verify().unwrap(), [""; 0]);
    second.apply(&entries[200..], 33).await.unwrap();
    assert_eq!(second.hash(), all, "the log brings back the rest");
    second.store.flush().unwrap();
    drop(second);
    assert_eq!(reopen(&crashed).hash(), all);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else if entry.file_name() != "LOCK" {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[tokio::test]
async fn a_snapshot_states_its_content_and_installs_exactly_that() {
    let entries = history(3, 500);
    let (_leader_folder, mut leader) = rocks();
    leader.apply(&entries[..300], 16).await.unwrap();
    let at_snapshot = leader.hash();
    let snapshot = leader.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    assert_eq!(snapshot.meta.last_log_id.map(|id| id.index), Some(300));
    leader.apply(&entries[300..], 16).await.unwrap();

    let (folder, mut follower) = rocks();
    follower.apply(&entries[..50], 16).await.unwrap();
    follower.machine.install_snapshot(&snapshot.meta, snapshot.snapshot.clone()).await.unwrap();
    assert_eq!(follower.hash(), at_snapshot);
    assert_eq!(follower.store.verify().unwrap(), [""; 0]);
    let current = follower.machine.get_current_snapshot().await.unwrap().unwrap();
    assert_eq!(current.meta, snapshot.meta, "it can be sent on");
    follower.next = 301;
    follower.apply(&entries[300..], 5).await.unwrap();
    assert_eq!(follower.hash(), leader.hash());
    assert_eq!(follower.store.verify().unwrap(), [""; 0]);
    follower.store.flush().unwrap();
    drop(follower);
    assert_eq!(reopen(&folder).hash(), leader.hash(), "the switch outlives a restart");
}

#[tokio::test]
async fn a_snapshot_that_differs_from_its_metadata_is_not_installed() {
    let entries = history(3, 60);
    let (_folder, mut leader) = rocks();
    leader.apply(&entries, 16).await.unwrap();
    let snapshot = leader.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let (_folder, mut follower) = rocks();
    let before = follower.hash();
    let mut meta = snapshot.meta.clone();
    meta.last_log_id.as_mut().unwrap().index += 1;
    let refused = follower.machine.install_snapshot(&meta, snapshot.snapshot.clone()).await;
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert_eq!(follower.hash(), before);
    follower.machine.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
    assert_eq!(follower.hash(), leader.hash());
}

#[tokio::test]
async fn a_snapshot_is_taken_while_entries_are_applied() {
    let entries = history(4, 900);
    let (_folder, mut replica) = rocks();
    replica.apply(&entries[..300], 16).await.unwrap();
    let mut builder = replica.machine.get_snapshot_builder().await;
    let taking = tokio::spawn(async move { builder.build_snapshot().await.unwrap() });
    replica.apply(&entries[300..], 4).await.unwrap();
    let snapshot = taking.await.unwrap();
    let holds = snapshot.meta.last_log_id.unwrap().index;
    let mut expected = Replica::open(MemoryDisk::default());
    expected.apply(&entries[..usize::try_from(holds).unwrap()], 64).await.unwrap();
    let (_folder, mut other) = rocks();
    other.machine.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
    assert_eq!(other.hash(), expected.hash(), "neither more nor less than index {holds}");
}

/// The nodes of the first nine that were members and no longer are.
fn removed<D: StateDisk>(replica: &Replica<D>) -> Vec<u64> {
    (1..=9).filter(|id| replica.store.was_removed(*id).unwrap()).collect()
}

#[tokio::test]
async fn removed_node_ids_survive_restarts_and_snapshots() {
    async fn holds<D: StateDisk>(mut leader: Replica<D>, mut follower: Replica<D>) {
        assert_eq!(removed(&leader), [0; 0]);
        leader.change_members(&[1]).await;
        leader.change_members(&[1, 2, 3]).await;
        leader.change_members(&[1, 2]).await;
        leader.change_members(&[1, 2, 5]).await;
        assert_eq!(removed(&leader), [3]);
        let snapshot = leader.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
        follower.machine.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
        follower.next = leader.next;
        follower.change_members(&[1, 2, 6]).await;
        assert_eq!(removed(&follower), [3, 5]);
    }
    holds(Replica::open(MemoryDisk::default()), Replica::open(MemoryDisk::default())).await;
    let ((leaders, leader), (followers, follower)) = (rocks(), rocks());
    holds(leader, follower).await;
    assert_eq!(removed(&reopen(&leaders)), [3]);
    assert_eq!(removed(&reopen(&followers)), [3, 5]);
}

#[tokio::test]
async fn an_arriving_snapshot_resumes_and_finds_damage() {
    let (_folder, mut leader) = rocks();
    leader.apply(&history(5, 400), 16).await.unwrap();
    let snapshot = leader.machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let files = snapshot.snapshot.files().unwrap();
    let meta = snapshot.snapshot.meta().unwrap();
    let content = |name: &str| {
        let mut bytes = Vec::new();
        snapshot.snapshot.open_file(name).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    let root = TempDir::new().unwrap();

    let mut incoming = Incoming::begin(root.path(), &meta, &files).unwrap();
    let largest = (0..files.len()).max_by_key(|file| files[*file].1).unwrap();
    let bytes = content(&files[largest].0);
    let half = bytes.len() / 2;
    incoming.write(largest, 0, &bytes[..half]).unwrap();
    assert!(incoming.write(largest, 0, &bytes[..half]).is_err(), "not twice");
    assert!(incoming.finish().is_err(), "not yet");

    // The connection was lost, and a crash has damaged the received part.
    let path = root.path().join(raft_store::snapshot::name(Group(0), &meta)).join(&files[largest].0);
    let mut spoilt = std::fs::read(&path).unwrap();
    spoilt[half / 2] ^= 1;
    std::fs::write(&path, spoilt).unwrap();
    let mut incoming = Incoming::begin(root.path(), &meta, &files).unwrap();
    assert_eq!(incoming.offset(largest), half as u64);
    for (file, (name, _)) in files.iter().enumerate() {
        let bytes = content(name);
        let from = usize::try_from(incoming.offset(file)).unwrap();
        incoming.write(file, from as u64, &bytes[from..]).unwrap();
        let crc = checksum(&snapshot.snapshot.open_file(name).unwrap()).unwrap();
        let is_whole = incoming.seal(file, crc).unwrap();
        assert_eq!(is_whole, file != largest);
        if !is_whole {
            assert_eq!(incoming.offset(file), 0);
            incoming.write(file, 0, &bytes).unwrap();
            assert!(incoming.seal(file, crc).unwrap());
        }
    }
    let arrived = incoming.finish().unwrap();
    let (_folder, mut follower) = rocks();
    follower.machine.install_snapshot(&snapshot.meta, arrived).await.unwrap();
    assert_eq!(follower.hash(), leader.hash());
}

#[test]
fn names_in_an_arriving_snapshot_cannot_lead_out_of_its_folder() {
    let root = TempDir::new().unwrap();
    let meta = raft_store::codec::records::SnapshotMetaRecord::default();
    for name in ["../x", "a/b", "", ".", "..", "SNAPSHOT", "a\0b"] {
        assert!(Incoming::begin(root.path(), &meta, &[(name.into(), 1)]).is_err(), "{name:?}");
    }
    assert!(Incoming::begin(root.path(), &meta, &[("a".into(), 1), ("a".into(), 1)]).is_err());
}

#[tokio::test]
async fn a_build_that_does_not_know_the_rules_stops_before_it_applies_them() {
    let (_folder, mut replica) = rocks();
    let raise = |version| lease::Command::RaiseRules { version };
    let entry = |number: &str, version| Entry {
        commands: vec![fleet::request("root", number, raise(version))],
        ..Entry::default()
    };
    replica.apply(&[entry("a", lease::bounds::RULES_VERSION)], 1).await.unwrap();
    let before = replica.store.progress();
    let stopped = replica.apply(&[entry("b", lease::bounds::RULES_VERSION + 1)], 1).await.unwrap_err();
    assert!(stopped.to_string().contains("upgrade this node"), "{stopped}");
    assert_eq!(replica.store.progress(), before);
}

/// Also in a release build, in which Raft itself does not check this.
#[tokio::test]
async fn an_entry_that_does_not_follow_the_last_one_stops_the_node_and_changes_nothing() {
    let entry = |n: &str| {
        Payload::Normal(Proposal::seal(&Entry {
            commands: vec![fleet::request("ada", n, fleet::create(n))],
            ..Entry::default()
        }))
    };
    let (_folder, mut replica) = rocks();
    let stopped = replica.apply_at(1, entry("too-soon")).await.unwrap_err().to_string();
    assert!(stopped.contains("entry 1 of the log") && stopped.contains("entry 0 next"), "{stopped}");
    replica.apply(&history(1, 20), 7).await.unwrap();
    let before = (replica.store.progress(), replica.store.read(|state, _| state.dump()).unwrap());
    for (index, id) in [(20, "again"), (0, "first"), (22, "skips")] {
        let stopped = replica.apply_at(index, entry(id)).await.unwrap_err().to_string();
        let says = format!("entry {index} of the log");
        assert!(stopped.contains(&says) && stopped.contains("entry 21 next"), "{stopped}");
    }
    let log_id = |index| LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index };
    let hole = [21, 22, 24].map(|index| Ok((LogEntry { log_id: log_id(index), payload: entry("hole") }, None)));
    let stopped = replica.machine.apply(stream::iter(hole)).await.unwrap_err().to_string();
    assert!(stopped.contains("entry 24 of the log") && stopped.contains("entry 23 next"), "{stopped}");
    let after = (replica.store.progress(), replica.store.read(|state, _| state.dump()).unwrap());
    assert_eq!(after, before);
    replica.apply_at(21, entry("follows")).await.unwrap();
}

/// All builds that apply one log have the same bytes, whatever rules they know at the beginning.
#[tokio::test]
async fn builds_that_know_different_rules_have_the_same_state_until_these_are_raised() {
    let (_folder, mut old) = rocks();
    let folder = TempDir::new().unwrap();
    make(&folder.path().join("node"));
    let mut new = Replica::open(used(&folder).knowing(2));
    let entries = history(8, 50);
    for replica in [&mut old, &mut new] {
        replica.apply(&entries, 7).await.unwrap();
    }
    assert_eq!(old.hash(), new.hash());
    let raise = fleet::request("root", "raise", lease::Command::RaiseRules { version: 2 });
    let raise = Entry { at: entries[49].at, commands: vec![raise], ..Entry::default() };
    assert!(old.apply(std::slice::from_ref(&raise), 1).await.is_err());
    new.apply(&[raise], 1).await.unwrap();
    assert_eq!(new.store.read(|state, _| state.rules_version()).unwrap(), 2);
    new.store.flush().unwrap();
    drop(new);
    let refused = StateStore::open(used(&folder), SALT).unwrap_err().to_string();
    assert!(refused.contains("written under rules 2; this build knows 1: upgrade this node"), "{refused}");
    StateStore::open(used(&folder).knowing(2), SALT).unwrap();
}

#[tokio::test]
async fn hashes_are_kept_at_the_compared_indexes() {
    let mut replica = Replica::open(MemoryDisk::default());
    let entries = history(6, 1_100);
    replica.apply(&entries[..1_024], 100).await.unwrap();
    let at_mark = replica.hash();
    replica.apply(&entries[1_024..], 100).await.unwrap();
    let marks = replica.store.hash_marks();
    let marks: Vec<_> = marks.iter().map(|mark| (mark.index, mark.hash)).collect();
    assert_eq!(marks, [(0, StateHash::default()), (1_024, at_mark)]);
}

#[tokio::test]
async fn a_node_far_behind_has_hashes_to_compare_with_the_others() {
    let (mut ahead, mut behind) = (Replica::open(MemoryDisk::default()), Replica::open(MemoryDisk::default()));
    let ticks: Vec<Entry> = (0..100 * 1_024).map(|n| Entry { at: Time(n), ..Entry::default() }).collect();
    ahead.apply(&ticks, 1_000).await.unwrap();
    behind.apply(&ticks[..70 * 1_024], 1_000).await.unwrap();
    let marks = ahead.store.hash_marks();
    let common: Vec<u64> = behind
        .store
        .hash_marks()
        .iter()
        .filter_map(|own| marks.iter().find(|mark| mark.index == own.index).map(|mark| (own, mark)))
        .map(|(own, mark)| {
            assert_eq!(own.hash, mark.hash);
            own.index
        })
        .collect();
    assert!(common.iter().any(|index| *index > 40 * 1_024), "compared at {common:?}");
    assert!(marks.len() < 32, "{} are kept", marks.len());
}

#[tokio::test]
async fn a_claim_writes_a_few_records_and_never_the_whole_state() {
    let mut replica = Replica::open(MemoryDisk::default());
    replica.apply(&history(7, 10), 1).await.unwrap();
    let claim = Entry {
        at: Time(1_000_000),
        commands: vec![
            fleet::request("ada", "x1", fleet::create("new")),
            fleet::request("ada", "x2", fleet::claim("new", lease::numbers::Span::secs(30))),
        ],
        ..Entry::default()
    };
    let written = replica.store.read(|state, archive| state.clone().apply(&claim, archive).changes.as_bytes().len());
    assert!(written.unwrap() < 4_096);
}
