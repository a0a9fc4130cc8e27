//! Processes that are killed in the middle of writing, or whose disk is full.
//!
//! The test starts itself again as the process to kill: with `TENURE_LOG` set, the same test appends to that directory
//! and prints each entry after it is durable.

use super::world::{Store, begin_append, entry_of, open, read};
use openraft::storage::{IOFlushed, RaftLogStorage};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const DIRECTORY: &str = "TENURE_LOG";

fn is_child() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

/// The shell sets `limit` before it executes the test.
fn start(test: &str, path: &Path, limit: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("{limit} exec \"$@\""), "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("process::{test}"), "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn bytes(index: u64) -> Vec<u8> {
    vec![u8::try_from(index % 251).unwrap(); 20_000]
}

/// Appends several entries at once, so that an interrupted write contains some that were not reported. Returns the
/// message of the first failure.
async fn append_and_tell(store: &mut Store, mut next: u64) -> String {
    loop {
        let mut waiting = Vec::new();
        for index in next..next + 4 {
            waiting.push((index, begin_append(store, vec![entry_of(1, index, &bytes(index))]).await));
        }
        next += 4;
        for (index, flushed) in waiting {
            if let Err(error) = flushed.await.expect("answered") {
                return error.to_string();
            }
            tell(&format!("durable {index}"));
        }
    }
}

/// Writes to the parent process directly, because the test harness captures normal output.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
}

fn durable(line: &str) -> Option<u64> {
    line.strip_prefix("durable ")?.parse().ok()
}

async fn assert_holds(path: &Path, durable: u64) {
    let mut store = open(path);
    let entries = read(&store, ..).await;
    assert!(entries.len() as u64 > durable, "{durable} was durable, {} are left", entries.len());
    for (entry, index) in entries.iter().zip(0..) {
        assert_eq!(*entry, entry_of(1, index, &bytes(index)));
    }
    super::world::append(&mut store, vec![entry_of(2, entries.len() as u64, b"goes on")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_reported_durable_survive_a_killed_process() {
    if let Some(path) = is_child() {
        panic!("{}", append_and_tell(&mut open(&path), 0).await);
    }
    for kill_after in [0, 1, 40, 333] {
        let directory = super::world::directory();
        let mut child = start("entries_reported_durable_survive_a_killed_process", directory.path(), "");
        let mut told = None;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            told = durable(&line.unwrap()).or(told);
            if told >= Some(kill_after) {
                child.kill().unwrap();
            }
        }
        assert_eq!(child.wait().unwrap().code(), None, "it was killed");
        assert_holds(directory.path(), told.unwrap()).await;
    }
}

/// A limit on the size of files simulates a full disk: RocksDB's own write fails, in the middle of a record.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_the_log_and_loses_nothing() {
    if let Some(path) = is_child() {
        let mut store = open(&path);
        let said = append_and_tell(&mut store, 0).await;
        let again = store.append([entry_of(1, 1_000_000, b"")], IOFlushed::noop()).await.unwrap_err().to_string();
        tell(&format!("failed {said}\nagain {again}"));
        return;
    }
    let directory = super::world::directory();
    let test = "a_full_disk_stops_the_log_and_loses_nothing";
    let child = start(test, directory.path(), "trap '' XFSZ; ulimit -f 2000;").wait_with_output().unwrap();
    let output = String::from_utf8(child.stdout).unwrap();
    assert!(child.status.success(), "{output}");
    let told = output.lines().filter_map(durable).next_back().expect("some fitted");
    let said = |what| output.lines().find_map(|line| line.strip_prefix(what)).expect("said");
    assert!(said("failed ").contains("the Raft log has failed"), "{output}");
    assert_eq!(said("failed "), said("again "));
    assert_holds(directory.path(), told).await;
}
