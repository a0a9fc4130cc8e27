//! `tenured --dev`: a whole cluster in one process, with nothing said.

use crate::client::{Client, until};
use crate::world::{Process, World};
use raft_store::directory::{Directory, Found};
use raft_store::types::Member;
use std::fs;

/// Its process, and one who may ask it. It chooses its port, and says which.
async fn start(world: &World, life: u32, options: &[&str]) -> (Process, Client) {
    let mut command = world.command();
    command.arg("--dev").args(options);
    let mut process = Process::start(command, world.folder().join(format!("life-{life}.stderr")));
    let mut address = None;
    until("it says where it listens", async || {
        assert!(process.ended().is_none(), "{}", process.words());
        let words = process.words();
        let found = words.split_once("peers=\"").and_then(|(_, rest)| rest.split_once('"'));
        address = found.map(|(address, _)| address.to_owned());
        address.is_some()
    })
    .await;
    let Found::Used(directory) = Directory::find(&world.folder().join("tenure-data")).unwrap() else {
        panic!("{}", process.words());
    };
    let member = Member { peer_address: address.unwrap(), ..Member::default() };
    (process, Client::new(directory.identity(), None, vec![(1, member)]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_development_node_starts_with_nothing_and_survives_kill_9() {
    let world = World::empty();
    assert_eq!(fs::read_dir(world.folder()).unwrap().count(), 0);
    for life in 0..3 {
        let (process, client) = start(&world, life, &[]).await;
        for earlier in 0..life {
            assert!(client.has(&format!("item-{earlier}")).await, "item-{earlier} in life {life}");
        }
        client.create(&format!("item-{life}")).await;
        // SIGKILL.
        drop(process);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_says_has_no_colours_when_nobody_looks() {
    let world = World::empty();
    // The port that is its own unless said is the other test's.
    let (process, _) = start(&world, 0, &["--listen", &world.edge_address(1)]).await;
    assert!(!process.words().contains('\u{1b}'), "{:?}", process.words());
}
