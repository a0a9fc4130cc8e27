//! Every command that a document shows is run here as shown, and prints what the document says; or it is listed in
//! `ELSEWHERE` with the reason why not. A new command fails the test until it is one or the other.

mod scene;
mod shown;

use scene::{ELSEWHERE, Scene, reason};
use shown::{documents, read};
use std::fs;
use std::process::Command;
use test_support::documents::root;
use test_support::until;

/// Documents whose commands are run by a separate test each.
const RUN: [&str; 5] = [
    "README.md",
    "docs/MIGRATING.md",
    "docs/OPERATIONS.md",
    "cluster-scripts/README.md",
    "cluster-scripts/kubernetes/README.md",
];

/// The first words of blocks that show no command.
pub(crate) const NO_COMMANDS: [&str; 8] = [
    "state + entry { at, wall, commands }",
    "a program with `client`",
    "stateDiagram-v2",
    "holder    sends the claim",
    "caller ─▶ any node",
    "[[api_key]]",
    "0s   ada claims disk",
    "log        2 × held",
];

/// Asks the first node for the status of the cluster.
const STATUS: &str = "tenured --peer-ca ca.pem --peer-cert node.pem --peer-key node.key status --at 10.0.0.1:7401";

/// Three nodes as the README starts them, with an API key that has all rights.
async fn cluster(scene: &mut Scene) {
    scene.admit();
    let node = |number: u8, begins: &str| {
        format!(
            "tenured --node-id {number} --data /var/lib/tenure --peer-listen 10.0.0.{number}:7401 \
             --listen 10.0.0.{number}:7400 {begins} ‹files›"
        )
    };
    scene.start(&node(1, "--bootstrap --admit 2=10.0.0.2:7401,3=10.0.0.3:7401")).await;
    scene.start(&node(2, "--join 10.0.0.1:7401")).await;
    scene.start(&node(3, "--join 10.0.0.1:7401")).await;
    // A node that is ready may not be a voter yet, and without its vote two nodes are no majority of three.
    until("all three vote", async || scene.must(STATUS).matches(", votes").count() == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readme_commands_work_as_shown() {
    let mut scene = Scene::of("README.md");
    scene.run_blocks().await;
    // The three nodes that it starts form one cluster.
    let said = scene.must(STATUS);
    assert!(said.contains('3'), "{said}");
    scene.ends();
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_commands_work_as_shown() {
    let mut scene = Scene::of("docs/MIGRATING.md");
    scene.start("tenured --dev").await;
    let says = scene.run("tenure queue policy shard-1").await;
    assert!(says.contains("shard-1"), "{says}");
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if has("sqlite3") && has("jq") {
        let table = "create table tasks (id text, title text, status text); \
            insert into tasks values ('a', 'first', 'queued'), ('b', 'second', 'done'), ('c', 'third', 'queued')";
        scene.must(&format!("sqlite3 old.db \"{table}\""));
        scene.run("sqlite3").await;
    } else {
        // The output that they would have written.
        let line = |id: &str, title: &str| format!("{{\"id\":\"{id}\",\"queue\":\"shard-1\",\"title\":\"{title}\"}}\n");
        fs::write(scene.path("queued.jsonl"), line("a", "first") + &line("c", "third")).unwrap();
        scene.skip("sqlite3");
    }
    scene.run("tenure add < queued.jsonl").await;
    let listed = scene.run("tenure queue list").await;
    assert!(listed.contains("shard-1"), "{listed}");
    let items = scene.must("tenure list --queue shard-1");
    assert!(items.contains("first") && items.contains("third") && !items.contains("second"), "{items}");
    scene.ends();
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_commands_work_as_shown() {
    let mut scene = Scene::of("docs/OPERATIONS.md");
    cluster(&mut scene).await;
    scene.must("TENURE_API_KEY=$TOKEN tenure --endpoint https://10.0.0.1:7400 --ca ca.pem add kept --queue ops");
    scene.run("curl --fail -H @token.header https://10.0.0.2:7400/v1/cluster/backup").await;
    scene.run("curl --fail -H @token.header -X POST https://10.0.0.3:7400/v1/cluster/drain").await;
    scene.kill_all();

    // Restore into a directory, then activate.
    scene.run("tenured restore --from backup.tenure").await;
    let restored = "tenured --node-id 1 --peer-listen 10.0.0.1:7401 --listen 10.0.0.1:7400 --bootstrap ‹files›";
    let at = scene.path("machine-0/node-1");
    scene.start(&format!("{restored} --data {}", at.display())).await;
    let claim = "TENURE_API_KEY=$TOKEN tenure --endpoint https://10.0.0.1:7400 --ca ca.pem";
    scene.must(&format!("! {claim} claim kept"));
    scene.run("curl --fail -H @token.header -X POST https://10.0.0.1:7400/v1/cluster/activate").await;
    scene.must(&format!("{claim} claim kept"));
    scene.kill_all();

    // Restore over HTTP, into a node that waits for it.
    scene.start(&format!("{restored} --data fresh").replace("--bootstrap", "--await-restore")).await;
    scene.run("curl --fail -T backup.tenure").await;

    scene.run("tenured api-key --actor ada").await;
    scene.must("cp node.pem ‹file›");
    scene.run("openssl x509 -checkend").await;
    scene.ends();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_keys_that_the_guide_shows_are_valid() {
    let mut scene = Scene::of("docs/OPERATIONS.md");
    let guide = fs::read_to_string(root().join("docs/OPERATIONS.md")).unwrap();
    let block: Vec<&str> =
        guide.lines().skip_while(|line| *line != "    [[api_key]]").take_while(|line| !line.is_empty()).collect();
    assert!(block.len() > 5, "{block:?}");
    fs::write(scene.path("api-keys.toml"), block.join("\n").replace('…', &"0".repeat(64))).unwrap();
    scene.start("tenured --node-id 1 --data /var/lib/tenure --peer-listen 10.0.0.1:7401 --listen 10.0.0.1:7400 --bootstrap ‹files›").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn systemd_commands_are_as_shown() {
    let mut scene = Scene::of("cluster-scripts/README.md");
    scene.ends();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_commands_work_as_shown() {
    let mut scene = Scene::of("cluster-scripts/kubernetes/README.md");
    scene.run("tenured api-key --actor ada").await;
    cluster(&mut scene).await;
    scene.kill(1);
    // The forwarded local port belongs to a pod.
    scene.forward(2).await;
    scene.must("cp ca.pem callers-ca.crt");
    scene.run("curl --fail-with-body --cacert callers-ca.crt").await;
    scene.run("curl --fail-with-body --cacert callers-ca.crt").await;
    let members = scene.must("curl --silent --fail -H @token.header https://10.0.0.2:7400/v1/cluster");
    assert!(!members.contains("\"id\":1,") && members.contains("\"id\":4,"), "{members}");
    scene.ends();
}

#[test]
fn every_command_of_every_other_document_is_listed_and_its_options_are_known() {
    for document in documents().iter().filter(|document| !RUN.contains(&document.as_str())) {
        Scene::of(document).ends();
    }
}

#[test]
fn every_listed_command_appears_in_a_document() {
    let all: Vec<_> = documents().iter().map(|document| read(document)).collect();
    let commands = || all.iter().flat_map(|document| &document.commands);
    assert!(commands().count() > 60, "too few commands were found: {}", commands().count());
    for (begins, why) in ELSEWHERE {
        assert!(
            commands().any(|shown| shown.command.starts_with(begins)),
            "{begins:?} ({why}) is not shown in any document"
        );
        assert!(reason(begins).is_some());
    }
    for begins in NO_COMMANDS {
        let is_there = all.iter().flat_map(|document| &document.others).any(|other| other.first.starts_with(begins));
        assert!(is_there, "no block begins with {begins:?} any more");
    }
    for document in RUN {
        assert!(documents().iter().any(|one| one == document), "{document}");
    }
}
