//! A backup is complete, or its damage is detected.

use super::{Replica, reopen, rocks};
use lease::numbers::Wall;
use raft_store::backup::{AT_ONCE, Backup, CHUNK_BYTES, Reader};
use raft_store::state::rocks::RocksDisk;
use std::io;
use std::path::PathBuf;
use tempfile::TempDir;
use test_support::fleet::{Dice, history};

pub(super) fn bytes(mut backup: Backup) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(chunk) = backup.next_chunk().unwrap() {
        assert!(chunk.len() < CHUNK_BYTES + 100, "bounded");
        bytes.extend(chunk);
    }
    bytes
}

pub(super) async fn with_history(seed: u64, entries: usize) -> (TempDir, Replica<RocksDisk>) {
    let (folder, mut replica) = rocks();
    replica.apply(&history(seed, entries), 64).await.unwrap();
    (folder, replica)
}

/// Reads all of it, without writing.
fn drain(bytes: &[u8]) -> io::Result<usize> {
    let mut reader = Reader::new(bytes)?;
    let mut pieces = 0;
    while reader.next_piece()?.is_some() {
        pieces += 1;
    }
    Ok(pieces)
}

fn left(folder: &TempDir) -> Vec<PathBuf> {
    let root = folder.path().join("node/backups");
    std::fs::read_dir(root).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test]
async fn a_backup_states_its_content_and_writes_continue() {
    let entries = history(21, 400);
    let (_folder, mut replica) = rocks();
    replica.apply(&entries[..300], 16).await.unwrap();
    let at_backup = replica.hash();
    let backup = replica.store.backup(Wall(7)).unwrap();
    replica.apply(&entries[300..], 16).await.unwrap();
    let header = backup.header().clone();
    assert_eq!((header.snapshot.last.unwrap().index, header.hash, header.wall), (300, at_backup, Wall(7)));
    assert_eq!(header.salt, super::SALT);
    let bytes = bytes(backup);
    let reader = Reader::new(&bytes[..]).unwrap();
    assert_eq!(*reader.header(), header);
    assert_eq!(drain(&bytes).unwrap(), header.files.iter().filter(|(_, length)| *length > 0).count());
}

#[tokio::test]
async fn a_damaged_or_truncated_backup_is_always_detected() {
    let (_folder, replica) = with_history(22, 40).await;
    let whole = bytes(replica.store.backup(Wall(7)).unwrap());
    drain(&whole).unwrap();
    let mut dice = Dice(22);
    let refused = |bytes: &[u8], what: String| {
        let why = drain(bytes).expect_err(&what).to_string();
        assert!(why.contains("damaged") || why.contains("cut off"), "{what}: {why}");
    };
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << dice.roll(8);
        refused(&flipped, format!("byte {at} flipped"));
    }
    for length in 0..whole.len() {
        refused(&whole[..length], format!("cut to {length}"));
    }
    refused(&[&whole[..], b"x"].concat(), "one more byte".into());
    refused(&[&whole[..], &whole[..]].concat(), "twice".into());
}

#[tokio::test]
async fn parts_of_two_backups_are_not_accepted_as_one() {
    let (_folder, mut replica) = with_history(23, 60).await;
    let first = replica.store.backup(Wall(7)).unwrap();
    let (header, one) = (first.header().clone(), bytes(first));
    let mut chunks = replica.store.backup(Wall(8)).unwrap();
    let other_header = chunks.next_chunk().unwrap().unwrap();
    let own_header = raft_store::codec::encode(&header).unwrap();
    let mixed = [&other_header[..], &one[own_header.len()..]].concat();
    let why = drain(&mixed).unwrap_err().to_string();
    assert!(why.contains("do not belong together") || why.contains("does not follow"), "{why}");
    drop(chunks);
    replica.apply(&history(24, 5), 1).await.unwrap();
}

#[tokio::test]
async fn two_backups_run_at_once_and_their_files_are_removed_after_them() {
    let (folder, replica) = with_history(25, 60).await;
    assert_eq!(AT_ONCE, 2);
    let mut first = replica.store.backup(Wall(7)).unwrap();
    first.next_chunk().unwrap();
    let second = replica.store.backup(Wall(7)).unwrap();
    let refused = replica.store.backup(Wall(7)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
    assert!(refused.to_string().contains("are running"), "{refused}");
    assert_eq!(left(&folder).len(), 2);
    // The receiver disconnects in the middle.
    drop(first);
    assert_eq!(left(&folder).len(), 1);
    let third = replica.store.backup(Wall(7)).unwrap();
    drain(&bytes(second)).unwrap();
    drain(&bytes(third)).unwrap();
    assert_eq!(left(&folder), [""; 0].map(PathBuf::from));
}

#[tokio::test]
async fn files_of_an_interrupted_backup_are_removed_at_the_next_start() {
    let (folder, replica) = with_history(26, 60).await;
    let backup = replica.store.backup(Wall(7)).unwrap();
    std::mem::forget(backup);
    assert_eq!(left(&folder).len(), 1);
    drop(replica);
    let again = reopen(&folder);
    assert_eq!(left(&folder).len(), 0);
    drop(again);
}
