//! A backup becomes the directory of a new cluster's first node, and its epoch begins before anything else.

use super::backup::{bytes, with_history};
use super::{Replica, SALT, reopen};
use lease::numbers::{Span, Time, Token, Wall};
use lease::{Command, Entry, Outcome};
use openraft::storage::RaftStateMachine;
use raft_store::directory::{Directory, Found};
use raft_store::restore::{Begun, RestoreError, Target, begin_epoch, restore};
use raft_store::state::StateStore;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::Group;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use tempfile::TempDir;
use test_support::fleet::{claim, create, request};

/// Later than any time in a history.
const LATER: Wall = Wall(1_850_000_000_000);

async fn backup() -> Vec<u8> {
    let (_folder, replica) = with_history(31, 300).await;
    bytes(replica.store.backup(Wall(7)).unwrap())
}

fn target(folder: &TempDir) -> Target {
    Target { directory: folder.path().join("node"), node: 4, token_floor: None, accept_clock: false }
}

fn found(root: &Path) -> Directory {
    match Directory::find(root).unwrap() {
        Found::Used(directory) => directory,
        Found::Empty => panic!("it was restored"),
    }
}

fn disk(folder: &TempDir) -> RocksDisk {
    RocksDisk::open(found(&folder.path().join("node")), Group(0)).unwrap()
}

fn begin(folder: &TempDir, wall: Wall) -> Result<Option<Begun>, RestoreError> {
    begin_epoch(&disk(folder), wall)
}

/// A path that does not exist, in an empty folder.
fn is_untouched(folder: &TempDir) -> bool {
    fs::read_dir(folder.path()).unwrap().next().is_none()
}

#[tokio::test]
async fn a_restored_state_is_the_backups_in_a_new_cluster_and_a_new_epoch() {
    let (_folder, mut replica) = with_history(31, 300).await;
    replica.change_members(&[1, 2, 3]).await;
    let (before, hash) = (replica.store.progress(), replica.hash());
    let items = replica.store.read(|state, _| (state.live_items(), state.last_token())).unwrap();
    let backup = bytes(replica.store.backup(Wall(7)).unwrap());
    let folder = TempDir::new().unwrap();
    let restored = restore(&backup[..], &target(&folder), LATER).unwrap();
    let directory = found(&folder.path().join("node"));
    let identity = *directory.identity();
    assert_eq!((identity.cluster, identity.node, identity.salt), (restored.cluster, 4, SALT));
    assert_ne!(identity.cluster, restored.backup.cluster);
    assert_eq!(restored.backup.hash, hash);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");

    let begun = begin(&folder, LATER).unwrap().unwrap();
    let mut again = reopen(&folder);
    let (applied, membership) = again.machine.applied_state().await.unwrap();
    let last = applied.unwrap();
    assert_eq!((last.index, last.leader_id.term), (before.applied.unwrap().index, 0));
    assert_eq!(membership.voter_ids().collect::<Vec<_>>(), [4]);
    assert_eq!(membership.membership().get_node(&4).unwrap().instance, identity.instance);
    assert!(again.store.hash_marks().is_empty());
    assert!([1, 2, 3].iter().all(|id| !again.store.was_removed(*id).unwrap()), "ids of another cluster are free here");
    assert_ne!(again.hash(), hash, "the epoch is part of the chain");
    assert_eq!(again.store.verify().unwrap(), [""; 0]);
    again
        .store
        .read(|state, _| {
            assert_eq!(state.live_items(), items.0);
            assert_eq!((state.epoch(), state.last_token()), (begun.epoch, begun.tokens_above));
            assert!(!state.is_activated() && !state.has_leases() && begun.tokens_above > items.1);
        })
        .unwrap();
    assert_eq!(again.store.progress().now, before.now, "no time passes by a restore");
}

#[tokio::test]
async fn nothing_is_granted_until_it_is_activated() {
    let folder = TempDir::new().unwrap();
    restore(&backup().await[..], &target(&folder), LATER).unwrap();
    let begun = begin(&folder, LATER).unwrap().unwrap();
    let replica = reopen(&folder);
    let now = replica.store.progress().now;
    let mut state = replica.store.read(|state, _| state.clone()).unwrap();
    let mut ask = |number: u64, command| {
        let commands = vec![request("ada", &format!("new-{number}"), command)];
        let entry = Entry { at: Time(now.0 + number), wall: LATER, commands };
        replica.store.read(|_, archive| state.apply(&entry, archive).outcomes.pop().unwrap()).unwrap()
    };
    assert!(matches!(ask(1, create("new")), Outcome::Refused(lease::Refusal::NotActivated)));
    assert!(matches!(ask(2, Command::Activate), Outcome::Activated));
    assert!(matches!(ask(3, create("new")), Outcome::Created { created: true, .. }));
    let grant = ask(4, claim("new", Span::secs(30)));
    assert!(grant.grant().is_some_and(|grant| grant.token > begun.tokens_above), "{grant:?}");
}

/// Between the restore and the first start, and in the middle of the first start.
#[tokio::test]
async fn a_restored_state_cannot_be_used_before_its_epoch_has_begun_and_begins_it_once() {
    let folder = TempDir::new().unwrap();
    restore(&backup().await[..], &target(&folder), LATER).unwrap();
    for _ in 0..2 {
        let refused = StateStore::open(disk(&folder), SALT).unwrap_err();
        assert!(refused.to_string().contains("its epoch has not begun"), "{refused}");
    }
    // A crash before the write leaves the state as it was.
    let begun = begin(&folder, Wall(LATER.0 + 60_000)).unwrap().unwrap();
    assert_eq!(begin(&folder, Wall(LATER.0 + 90_000)).unwrap(), None, "it has begun");
    let replica = reopen(&folder);
    assert_eq!(replica.store.read(|state, _| state.epoch()).unwrap(), begun.epoch);
}

#[tokio::test]
async fn the_same_backup_restored_twice_has_no_token_in_common() {
    let backup = backup().await;
    let begun: Vec<_> = (0..2)
        .map(|nth| {
            let folder = TempDir::new().unwrap();
            restore(&backup[..], &target(&folder), LATER).unwrap();
            begin(&folder, Wall(LATER.0 + nth * 1_000)).unwrap().unwrap()
        })
        .collect();
    assert!(begun[1].tokens_above.0 >= begun[0].tokens_above.0 + (1 << 20), "{begun:?}");
}

/// The second backup contains the first restore's request, which must not be mistaken for its own.
#[tokio::test]
async fn a_backup_of_a_restored_cluster_begins_its_own_epoch() {
    let first = TempDir::new().unwrap();
    restore(&backup().await[..], &target(&first), LATER).unwrap();
    let begun = begin(&first, LATER).unwrap().unwrap();
    let replica: Replica<RocksDisk> = reopen(&first);
    let second_backup = bytes(replica.store.backup(LATER).unwrap());
    let second = TempDir::new().unwrap();
    restore(&second_backup[..], &target(&second), Wall(LATER.0 + 5_000)).unwrap();
    let begun_again = begin(&second, Wall(LATER.0 + 5_000)).unwrap().unwrap();
    assert!(begun_again.epoch > begun.epoch && begun_again.tokens_above > begun.tokens_above);
}

#[tokio::test]
async fn an_epoch_that_must_not_begin_is_refused_with_instructions() {
    let backup = backup().await;
    let folder = TempDir::new().unwrap();
    let early = restore(&backup[..], &target(&folder), Wall(1_800_000_000_000)).unwrap_err().to_string();
    let says = ["the wall clock is not later", "set it and restore", "--accept-clock"];
    assert!(says.iter().all(|words| early.contains(words)), "{early}");
    let low = Target { token_floor: Some(Token(1 << 52)), ..target(&folder) };
    let high = restore(&backup[..], &low, LATER).unwrap_err().to_string();
    assert!(high.contains("leaves too few tokens") && high.contains("--token-floor"), "{high}");
    assert!(is_untouched(&folder));

    // The clock was set back between the restore and the start.
    let floor = Target { token_floor: Some(Token(1 << 48)), ..target(&folder) };
    restore(&backup[..], &floor, LATER).unwrap();
    let refused = begin(&folder, Wall(1_800_000_000_000)).unwrap_err();
    assert!(matches!(&refused, RestoreError::Refused(why) if why.contains("not later")), "{refused}");
    let begun = begin(&folder, LATER).unwrap().unwrap();
    assert_eq!(begun.tokens_above, Token(1 << 48), "the floor was remembered");
}

/// The clock of the backup was ahead, and is right now.
#[tokio::test]
async fn a_backup_from_the_future_is_restored_when_an_operator_accepts_the_clock() {
    let (_folder, replica) = with_history(31, 300).await;
    let (epoch, last_token) = replica.store.read(|state, _| (state.epoch(), state.last_token())).unwrap();
    let backup = bytes(replica.store.backup(Wall(7)).unwrap());
    let folder = TempDir::new().unwrap();
    let right = Wall(1_800_000_000_000);
    assert!(matches!(restore(&backup[..], &target(&folder), right), Err(RestoreError::Refused(_))));
    let accepting = Target { accept_clock: true, ..target(&folder) };
    restore(&backup[..], &accepting, right).unwrap();
    // The clock was accepted at the restore, so the start works even if the clock was set back since.
    let begun = begin(&folder, Wall(right.0 - 60_000)).unwrap().unwrap();
    assert!(begun.epoch > epoch && begun.tokens_above > last_token, "{begun:?}");
    assert_eq!(begin(&folder, right).unwrap(), None, "it has begun");

    // The next restore compares with the accepted clock.
    let again = reopen(&folder);
    let second_backup = bytes(again.store.backup(right).unwrap());
    let second = TempDir::new().unwrap();
    restore(&second_backup[..], &target(&second), right).unwrap();
    let begun_again = begin(&second, right).unwrap().unwrap();
    assert!(begun_again.epoch > begun.epoch && begun_again.tokens_above > begun.tokens_above);
}

#[tokio::test]
async fn a_restore_needs_a_fresh_directory() {
    let backup = backup().await;
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("node")).unwrap();
    restore(&backup[..], &target(&folder), LATER).unwrap();
    let before = fs::read(folder.path().join("node/IDENTITY")).unwrap();
    let refused = restore(&backup[..], &target(&folder), LATER).unwrap_err();
    assert!(matches!(refused, RestoreError::Used(_)) && refused.to_string().contains("fresh directory"), "{refused}");
    assert_eq!(fs::read(folder.path().join("node/IDENTITY")).unwrap(), before);

    let other = TempDir::new().unwrap();
    fs::create_dir(other.path().join("node")).unwrap();
    fs::write(other.path().join("node/letter"), "dear").unwrap();
    let refused = restore(&backup[..], &target(&other), LATER).unwrap_err();
    assert!(refused.to_string().contains("not a Tenure directory"), "{refused}");
    fs::write(other.path().join("node/MAKING"), "5").unwrap();
    assert!(matches!(restore(&backup[..], &target(&other), LATER).unwrap_err(), RestoreError::Used(_)));
}

/// Returns this many bytes and then fails.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self.0.read(target)? {
            0 => Err(io::Error::new(io::ErrorKind::ConnectionReset, "the line is dead")),
            read => Ok(read),
        }
    }
}

#[tokio::test]
async fn a_damaged_or_cut_off_backup_leaves_nothing() {
    let backup = backup().await;
    let folder = TempDir::new().unwrap();
    let mut damaged = backup.clone();
    damaged[backup.len() / 2] ^= 4;
    let refused = restore(&damaged[..], &target(&folder), LATER).unwrap_err().to_string();
    assert!(refused.contains("is damaged") && refused.contains("Nothing was restored"), "{refused}");
    let refused = restore(&backup[..backup.len() - 1], &target(&folder), LATER).unwrap_err().to_string();
    assert!(refused.contains("is cut off"), "{refused}");
    let refused = restore(Failing(&backup[..backup.len() / 2]), &target(&folder), LATER).unwrap_err().to_string();
    assert!(refused.contains("the line is dead"), "{refused}");
    let refused = restore(&b"PK\x03\x04 is no backup"[..], &target(&folder), LATER).unwrap_err().to_string();
    assert!(refused.contains("not written by Tenure"), "{refused}");
    assert!(is_untouched(&folder));
    restore(&backup[..], &target(&folder), LATER).unwrap();
}

#[tokio::test]
async fn a_killed_restore_blocks_nobody_and_concurrent_restores_are_refused() {
    let backup = backup().await;
    let folder = TempDir::new().unwrap();
    let left = folder.path().join("node.restoring/data/state-000001");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("CURRENT"), "half").unwrap();
    let lock = fs::File::create(folder.path().join("node.restoring/LOCK")).unwrap();
    lock.lock().unwrap();
    let busy = restore(&backup[..], &target(&folder), LATER).unwrap_err();
    assert!(matches!(busy, RestoreError::Busy(_)), "{busy}");
    drop(lock);
    restore(&backup[..], &target(&folder), LATER).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
