//! `tenured --dev`: a whole cluster in one process, without other options.

use raft_store::directory::{Directory, Found};
use raft_store::types::Member;
use std::fs;
use test_support::peer_client::Client;
use test_support::process::Process;
use test_support::world::World;
use test_support::{until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

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
async fn log_output_has_no_colours_without_a_terminal() {
    let world = World::empty();
    // Another test uses the default port.
    let (process, _) = start(&world, 0, &["--listen", &world.edge_address(1)]).await;
    assert!(!process.words().contains('\u{1b}'), "{:?}", process.words());
}

/// The complete answer to a request for the items.
async fn answered(address: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("GET {path} HTTP/1.1\r\nTenure-Actor: ada\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

/// A browser on this machine sends to it what a web site asks for: by a name that was bound to this machine's address,
/// or from another site.
#[tokio::test(flavor = "multi_thread")]
async fn a_development_node_rejects_requests_from_web_sites() {
    let world = World::empty();
    let address = world.edge_address(1);
    let (process, _) = start(&world, 0, &["--listen", &address]).await;
    until("it serves", async || TcpStream::connect(&address).await.is_ok()).await;
    let port = address.rsplit_once(':').unwrap().1;
    let local = [address.clone(), format!("localhost:{port}"), format!("[::1]:{port}")];
    for host in &local {
        let origin = format!("http://{host}");
        for headers in [&[("Host", host.as_str())][..], &[("Host", host), ("Origin", &origin)]] {
            let answer = answered(&address, "/v1/items", headers).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{headers:?}: {answer}");
        }
    }
    for path in ["/v1/items", "/v1/cluster/backup", "/metrics", "/openapi.json"] {
        let bound = format!("attacker.example:{port}");
        let answer = answered(&address, path, &[("Host", &bound)]).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("\"field\":\"Host\""), "{path}: {answer}");
        for origin in ["https://attacker.example", "null"] {
            let answer = answered(&address, path, &[("Host", &address), ("Origin", origin)]).await;
            assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("\"field\":\"Origin\""), "{path}: {answer}");
        }
    }
    drop(process);
}
