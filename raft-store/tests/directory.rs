//! A node's directory: how it is found, and when it is refused with instructions.

use lease::Salt;
use raft_store::codec::records::IdentityRecord;
use raft_store::directory::{Directory, DirectoryError, Found};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const IDENTITY: IdentityRecord = IdentityRecord { cluster: 7, salt: Salt([3, 4]), node: 1, instance: 9 };

/// Like the databases: RocksDB creates a file with this name in its folder.
fn fill(log: &Path, state: &Path) -> Result<(), DirectoryError> {
    fs::write(log.join("CURRENT"), "x").unwrap();
    fs::write(state.join("CURRENT"), "x").unwrap();
    Ok(())
}

fn make(root: &Path, identity: IdentityRecord) -> Directory {
    Directory::make(root, identity, fill).unwrap()
}

fn used() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("node");
    make(&root, IDENTITY);
    (folder, root)
}

fn refusal(root: &Path) -> String {
    Directory::find(root).unwrap_err().to_string()
}

#[test]
fn unused_paths_are_empty_and_created_directories_are_found() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("node");
    assert!(matches!(Directory::find(&root), Ok(Found::Empty)));
    fs::create_dir(&root).unwrap();
    assert!(matches!(Directory::find(&root), Ok(Found::Empty)));
    make(&root, IDENTITY);
    let Ok(Found::Used(found)) = Directory::find(&root) else { panic!("it is there") };
    assert_eq!(*found.identity(), IDENTITY);
    found.expect_node(1).unwrap();
}

#[test]
fn an_interrupted_start_starts_over() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("node");
    let cut = Directory::make(&root, IDENTITY, |log, _| {
        fs::write(log.join("half"), "x").unwrap();
        Err(DirectoryError::Foreign(log.into()))
    });
    assert!(cut.is_err());
    assert!(matches!(Directory::find(&root), Ok(Found::Empty)));
    make(&root, IDENTITY);
    assert!(!root.join("log/half").exists());
    assert!(matches!(Directory::find(&root), Ok(Found::Used(_))));
}

#[test]
fn a_planned_instance_is_kept_until_the_directory_is_made() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("node");
    let instance = Directory::plan(&root).unwrap();
    assert_eq!(Directory::plan(&root).unwrap(), instance);
    assert!(matches!(Directory::find(&root), Ok(Found::Empty)));
    make(&root, IdentityRecord { instance, ..IDENTITY });
    let other = folder.path().join("other");
    assert_ne!(Directory::plan(&other).unwrap(), instance);
}

#[test]
fn a_directory_with_other_files_is_refused_and_unchanged() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("thesis.txt"), "x").unwrap();
    assert!(refusal(folder.path()).contains("not a Tenure directory"));
    assert!(Directory::make(folder.path(), IDENTITY, fill).is_err());
    assert!(folder.path().join("thesis.txt").exists());
}

#[test]
fn another_nodes_directory_is_refused() {
    let (_folder, root) = used();
    let Ok(Found::Used(found)) = Directory::find(&root) else { panic!("it is there") };
    assert!(found.expect_node(2).unwrap_err().to_string().contains("directory of node 1, not of node 2"));
    assert!(Directory::make(&root, IDENTITY, fill).is_err(), "nothing is made over it");
}

#[test]
fn a_node_that_lost_its_log_or_state_must_not_come_back_under_its_id() {
    for part in ["log", "state-000001", "CURRENT", "log/CURRENT", "state-000001/CURRENT", "log/TENURE"] {
        let (_folder, root) = used();
        let path = root.join(part);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        let why = refusal(&root);
        assert!(why.contains("is gone") && why.contains("new id"), "{part}: {why}");
    }
}

#[test]
fn a_folder_from_another_nodes_directory_is_refused() {
    for part in ["log", "state-000001"] {
        let (_folder, root) = used();
        let other = TempDir::new().unwrap();
        let other = other.path().join("node");
        make(&other, IdentityRecord { node: 2, instance: 10, ..IDENTITY });
        fs::remove_dir_all(root.join(part)).unwrap();
        fs::rename(other.join(part), root.join(part)).unwrap();
        assert!(refusal(&root).contains("came from another node's directory"));
    }
}

#[test]
fn an_identity_of_a_later_format_or_a_damaged_one_is_refused() {
    let (_folder, root) = used();
    let path = root.join("IDENTITY");
    let bytes = fs::read(&path).unwrap();
    let mut later = bytes.clone();
    later[2] += 1;
    fs::write(&path, later).unwrap();
    assert!(refusal(&root).contains("upgrade this node"));
    let mut damaged = bytes;
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&path, damaged).unwrap();
    assert!(refusal(&root).contains("the checksum does not match"));
}

#[test]
fn a_switch_of_state_is_atomic_and_removes_leftovers() {
    let (_folder, root) = used();
    let Ok(Found::Used(found)) = Directory::find(&root) else { panic!("it is there") };
    let next = found.next_state_path().unwrap();
    assert_eq!(next, root.join("state-000002"));
    fs::create_dir(&next).unwrap();
    fs::write(next.join("CURRENT"), "x").unwrap();
    assert_eq!(found.state_path().unwrap(), Some(root.join("state-000001")), "not yet");
    found.switch_state(&next).unwrap();
    assert_eq!(found.state_path().unwrap(), Some(next.clone()));
    found.drop_old_states().unwrap();
    assert!(next.exists() && !root.join("state-000001").exists());
    assert!(matches!(Directory::find(&root), Ok(Found::Used(_))));
}
