//! `tenured restore`, as an operator runs it after a disaster.

use lease::numbers::{Span, Wall};
use lease::{Command, Outcome, Refusal};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::SystemTime;
use test_support::until;
use test_support::world::World;

fn restore(world: &World, from: &Path, data: &str, more: &[&str]) -> Output {
    let mut command = world.command();
    command.args(["restore", "--data", data, "--node-id", "1"]).args(more);
    // Both ways in.
    if data.ends_with('2') {
        command.args(["--from", "-"]).stdin(Stdio::from(File::open(from).unwrap()));
    } else {
        command.arg("--from").arg(from);
    }
    command.output().unwrap()
}

/// A backup of a stopped node's state.
async fn backup(world: &mut World) -> Vec<u8> {
    let state = world.stop_and_compare().await.remove(&1).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let mut backup = state.backup(Wall(u64::try_from(now.as_millis()).unwrap())).unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = backup.next_chunk().unwrap() {
        bytes.extend(chunk);
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_restored_into_a_fresh_directory_and_becomes_a_cluster_of_three() {
    let mut old = World::empty();
    old.start(1);
    old.has_vote(1).await;
    let client = old.client();
    for nth in 0..40 {
        client.create(&format!("item-{nth}")).await;
    }
    let token = client.claim("ada", "item-3", Span::secs(600)).await;
    let bytes = backup(&mut old).await;

    let mut world = World::empty();
    let file = world.folder().join("backup");
    fs::write(&file, &bytes).unwrap();
    for data in ["node-1", "again-2"] {
        let output = restore(&world, &file, data, &[]);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("restored entry") && said.contains("start it with --bootstrap"), "{said}");
    }
    let output = restore(&world, &file, "node-1", &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("node-1: is in use"), "{said}");

    world.start(1);
    world.has_vote(1).await;
    assert!(world.words(1).contains("nothing is granted until the cluster is activated"), "{}", world.words(1));
    let client = world.client();
    let refused = client.carry_out("ada", test_support::fleet::create("new")).await;
    assert!(matches!(refused, Outcome::Refused(Refusal::NotActivated)), "{refused:?}");
    world.kill(1);
    for node in 1..=3 {
        world.start(node);
        world.has_vote(node).await;
    }
    let client = world.client();
    until("it is activated", async || matches!(client.carry_out("root", Command::Activate).await, Outcome::Activated))
        .await;
    for nth in 0..40 {
        assert!(client.has(&format!("item-{nth}")).await, "item-{nth}");
    }
    assert!(client.claim("bob", "item-3", Span::secs(600)).await > token);
    world.leader().await;
    world.in_step().await;
    world.stop_and_compare().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_backup_exits_with_1_and_creates_nothing() {
    let mut old = World::empty();
    old.start(1);
    old.has_vote(1).await;
    old.client().create("a").await;
    let bytes = backup(&mut old).await;

    let world = World::empty();
    let file = world.folder().join("backup");
    let middle = bytes.len() / 2;
    let mut damaged = bytes.clone();
    damaged[middle] ^= 1;
    let floor = ["--token-floor", "9000000000000000"];
    let cases: [(&[u8], &[&str], &str); 5] = [
        (&damaged, &[], "is damaged before byte"),
        (&bytes[..middle], &[], "is cut off"),
        (b"dear all", &[], "is cut off"),
        (b"dear all, this is a letter", &[], "not written by Tenure"),
        (&bytes, &floor, "--token-floor"),
    ];
    for (content, more, expected) in cases {
        fs::write(&file, content).unwrap();
        for data in ["d1", "d2"] {
            let output = restore(&world, &file, data, more);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains(expected), "{expected}: {said}");
            assert_eq!(output.stdout, b"");
        }
        assert_eq!(fs::read_dir(world.folder()).unwrap().count(), 1, "{expected}: only the backup is there");
    }
    let missing = restore(&world, &file, "d1", &["--token-floor", "x"]);
    assert!(!missing.status.success());
}
