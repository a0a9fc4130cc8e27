//! A backup that is taken over HTTP while callers write, and clusters that are restored from it.

use crate::contract::Contract;
use crate::http::{Caller, Sent};
use crate::people::{Edge, usual};
use bytes::Bytes;
use lease::numbers::Wall;
use raft_store::directory::{Directory, Found};
use raft_store::restore::{Target, begin_epoch, restore};
use raft_store::state::StateStore;
use raft_store::state::rocks::RocksDisk;
use raft_store::types::Group;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use test_support::until;
use test_support::world::World;

const WRITERS: usize = 64;

/// Creates and claims items until `is_over`; returns the acknowledged items and their fencing tokens.
async fn write(
    caller: Caller,
    writer: usize,
    done: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
) -> BTreeMap<String, u64> {
    let mut held = BTreeMap::new();
    for nth in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("w{writer}-{nth}");
        caller.post("/v1/items", json!({"id": id, "queue": "load", "body": {"prompt": id}})).ok().await;
        let grant = caller.post(format!("/v1/items/{id}/claim"), json!({})).ok().await;
        held.insert(id, grant["token"].as_u64().unwrap());
        done.fetch_add(1, Ordering::Relaxed);
    }
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_cluster_has_everything_acknowledged_before_the_backup() {
    let mut edge = Edge::start(&usual()).await;
    let (done, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let caller = edge.caller(["ada", "bob", "cy", "root"][writer % 4]).at(1 + writer as u64 % 3);
            tokio::spawn(write(caller.session(&format!("s{writer}")), writer, done.clone(), is_over.clone()))
        })
        .collect();
    until("the writers are under way", async || done.load(Ordering::Relaxed) >= 2 * WRITERS).await;
    let node = edge.world.follower().await;
    let root = edge.caller("root").at(node);
    root.post("/v1/items", json!({"id": "before", "queue": "q", "title": "kept"})).ok().await;
    let before = root.at(1 + node % 3).get("/v1/items?queue=load&limit=1000").ok().await;
    let before: BTreeSet<String> =
        before["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
    let backup = root.get("/v1/cluster/backup").answer().await;
    assert_eq!(backup.headers["content-type"], "application/octet-stream");
    root.post("/v1/items", json!({"id": "after", "queue": "q"})).ok().await;
    let goal = done.load(Ordering::Relaxed) + WRITERS;
    until("the writers continue", async || done.load(Ordering::Relaxed) >= goal).await;
    is_over.store(true, Ordering::Relaxed);
    let mut old: BTreeMap<String, u64> = BTreeMap::new();
    for writer in writers {
        old.extend(writer.await.unwrap());
    }
    let highest = old.values().copied().max().unwrap();
    drop(edge);

    // Restored twice: neither cluster grants a token that the old cluster or the other one granted before.
    let mut given: BTreeSet<u64> = old.values().copied().collect();
    for over_http in [false, true] {
        let mut new = Edge::restored(&usual(), &backup.bytes, over_http).await;
        let root = new.caller("root");
        let is_there = |id: &str| root.get(format!("/v1/items/{id}"));
        assert_eq!(is_there("before").ok().await["title"], "kept");
        is_there("after").refused("not_found").await;
        new.caller("ada").post("/v1/items/before/claim", json!({})).refused("not_activated").await;
        new.caller("ada").post("/v1/items", json!({"id": "x", "queue": "q"})).refused("not_activated").await;
        for node in 2..=3 {
            new.world.start(node);
            new.world.has_vote(node).await;
            new.is_ready(node).await;
        }
        for (nth, id) in before.iter().enumerate() {
            let seen = root.at(1 + nth as u64 % 3).get(format!("/v1/items/{id}")).ok().await;
            assert_eq!(seen["body"]["prompt"], id.as_str(), "{seen}");
            assert_eq!(seen.get("holder"), None, "leases of before are over: {seen}");
        }
        root.at(2).post("/v1/cluster/activate", json!({})).ok().await;
        for id in before.iter().take(10) {
            let caller = new.caller("ada").at(3);
            let grant = caller.post(format!("/v1/items/{id}/claim"), json!({"takeover": true})).ok().await;
            let token = grant["token"].as_u64().unwrap();
            assert!(token > highest && given.insert(token), "{token} after {highest}");
        }
        // An epoch is a second.
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    }
}

impl Edge {
    /// The first node of a cluster that is restored from a backup.
    async fn restored(people: &[String], backup: &Bytes, over_http: bool) -> Self {
        Self::begun(people, async |world| {
            if over_http {
                return send_backup(world, backup).await;
            }
            let file = world.folder().join("backup");
            fs::write(&file, backup).unwrap();
            let mut command = world.command();
            command.args(["restore", "--node-id", "1"]).arg("--data").arg(world.data(1)).arg("--from").arg(&file);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            world.start(1);
            world.has_vote(1).await;
        })
        .await
    }
}

/// A node that waits for a backup, and a caller without an API key.
pub(crate) async fn awaiting(world: &mut World) -> Caller {
    world.first = "--await-restore";
    world.start(1);
    let addresses = BTreeMap::from([(1, world.edge_address(1))]);
    let contract = Arc::new(Contract::unread());
    let nobody = Caller { contract, addresses: Arc::new(addresses), node: 1, headers: Vec::new() };
    until("it waits for a backup", async || {
        matches!(nobody.get("/readyz").send().await, Sent::Answered(answer) if answer.raw().contains("waits for a backup"))
    })
    .await;
    nobody
}

/// Sends a backup to a node that waits for it.
async fn send_backup(world: &mut World, backup: &Bytes) {
    let nobody = awaiting(world).await;
    let (root, ada) = (nobody.with_api_key("root"), nobody.with_api_key("ada"));
    let path = "/v1/cluster/restore";
    nobody.upload(path, backup.clone()).refused("unauthenticated").await;
    ada.upload(path, backup.clone()).refused("forbidden").await;
    root.get("/v1/items").refused("unavailable").await;
    let cut_off = root.upload(path, backup.slice(..backup.len() / 2)).refused("invalid").await;
    assert!(cut_off["detail"].as_str().is_some_and(|why| why.contains("is cut off")), "{cut_off}");
    root.upload(format!("{path}?token_flor=1"), backup.clone()).refused("invalid").await;
    // So high that few tokens would be left: refused before anything is written.
    let floor = lease::bounds::TOKEN_LIMIT / 2;
    let refused = root.upload(format!("{path}?token_floor={floor}"), backup.clone()).refused("restore_refused").await;
    assert!(refused["detail"].as_str().is_some_and(|why| why.contains("--token-floor")), "{refused}");
    let restored = root.upload(path, backup.clone()).ok().await;
    assert_eq!(restored["node"], 1, "{restored}");
    world.has_vote(1).await;
}

/// A backup of a cluster that was restored from this one on a machine whose clock was ten years ahead, and its last
/// token.
fn ten_years_ahead(backup: &[u8]) -> (Bytes, u64) {
    const TEN_YEARS_MS: u64 = 10 * 365 * 24 * 3_600_000;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let ahead = Wall(u64::try_from(now).unwrap() + TEN_YEARS_MS);
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("node");
    let target = Target { directory: directory.clone(), node: 1, token_floor: None, accept_clock: false };
    restore(backup, &target, ahead).unwrap();
    let Found::Used(directory) = Directory::find(&directory).unwrap() else { panic!("it was restored") };
    let salt = directory.identity().salt;
    let disk = RocksDisk::open(directory, Group::default()).unwrap();
    begin_epoch(&disk, ahead).unwrap();
    let store = StateStore::open(disk, salt).unwrap();
    let last_token = store.read(|state, _| state.last_token().0).unwrap();
    let mut backup = store.backup(ahead).unwrap();
    let chunks = std::iter::from_fn(|| backup.next_chunk().unwrap());
    (chunks.flatten().collect(), last_token)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_from_the_future_is_refused_until_its_operator_accepts_the_clock() {
    let edge = Edge::start(&usual()).await;
    edge.caller("root").post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let backup = edge.caller("root").get("/v1/cluster/backup").answer().await.bytes;
    drop(edge);
    let (backup, last_token) = ten_years_ahead(&backup);
    let floor = last_token + 1;
    let refused = [
        ("", vec![], "--accept-clock"),
        // Its tokens are also far ahead of a right clock.
        ("?accept_clock=true", vec!["--accept-clock"], "--token-floor"),
    ];
    for over_http in [false, true] {
        let new = Edge::begun(&usual(), async |world| {
            if over_http {
                let root = awaiting(world).await.with_api_key("root");
                for (query, _, words) in &refused {
                    let path = format!("/v1/cluster/restore{query}");
                    let why = root.upload(path, backup.clone()).refused("restore_refused").await;
                    assert!(why["detail"].as_str().is_some_and(|why| why.contains(words)), "{why}");
                }
                root.upload("/v1/cluster/restore?accept_clock=1", backup.clone()).refused("invalid").await;
                let path = format!("/v1/cluster/restore?accept_clock=true&token_floor={floor}");
                root.upload(path, backup.clone()).ok().await;
            } else {
                let file = world.folder().join("backup");
                fs::write(&file, &backup).unwrap();
                let restore = |more: &[&str]| {
                    let mut command = world.command();
                    command
                        .args(["restore", "--node-id", "1"])
                        .arg("--data")
                        .arg(world.data(1))
                        .arg("--from")
                        .arg(&file);
                    command.args(more).output().unwrap()
                };
                for (_, more, words) in &refused {
                    let output = restore(more);
                    let said = String::from_utf8(output.stderr).unwrap();
                    assert!(output.status.code() == Some(1) && said.contains(words), "{said}");
                }
                let output = restore(&["--accept-clock", "--token-floor", &floor.to_string()]);
                assert!(output.status.success(), "{output:?}");
                world.start(1);
            }
            world.has_vote(1).await;
        })
        .await;
        let root = new.caller("root");
        root.post("/v1/cluster/activate", json!({})).ok().await;
        let token = root.post("/v1/items/a/claim", json!({})).ok().await["token"].as_u64().unwrap();
        assert_eq!(token, floor + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_never_overwrites_data() {
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    root.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let backup = root.get("/v1/cluster/backup").answer().await.bytes;
    let refused = root.upload("/v1/cluster/restore", backup.clone()).refused("change_refused").await;
    assert!(refused["detail"].as_str().is_some_and(|why| why.contains("--await-restore")), "{refused}");
    edge.caller("ada").upload("/v1/cluster/restore", backup).refused("forbidden").await;
    root.get("/v1/items/a").ok().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_backup_is_rejected() {
    let edge = Edge::start(&usual()).await;
    let root = edge.caller("root");
    root.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let backup = root.get("/v1/cluster/backup").answer().await.bytes;
    let file = edge.world.folder().join("half");
    fs::write(&file, &backup[..backup.len() - 1]).unwrap();
    let mut command = edge.world.command();
    command.args(["restore", "--node-id", "1", "--data", "fresh", "--from"]).arg(&file);
    let output = command.output().unwrap();
    assert!(!output.status.success() && !edge.world.folder().join("fresh").exists(), "{output:?}");
    let none: Option<Value> = None;
    assert!(matches!(edge.caller("ada").ask("GET", "/v1/cluster/backup", none).send().await,
        Sent::Answered(answer) if answer.status == 403));
}
