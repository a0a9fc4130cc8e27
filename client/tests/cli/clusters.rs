//! Three nodes: members, leadership, draining, failover, backup.

use crate::world::Tenure;
use api::cluster::{ClusterStatus, Done, NodeDraining, Restored, Snapshotted};
use client::api;
use expect_test::expect;
use std::fs;
use test_support::cluster::Cluster;
use test_support::until;

fn status(cluster: &Cluster) -> ClusterStatus {
    Tenure::of(cluster, ["cluster", "status", "--json"]).said().ends_with(0).json()
}

#[tokio::test]
async fn an_admin_sees_the_members_and_moves_leadership() {
    let cluster = Cluster::start().await;
    let shown = Tenure::of(&cluster, ["cluster", "status"]).said().ends_with(0);
    assert_eq!(shown.out.matches("follower").count(), 2, "{shown:?}");
    let leader = status(&cluster).leader.unwrap();
    let other = (leader % 3 + 1).to_string();
    let moved = Tenure::of(&cluster, ["cluster", "transfer", "--to", &other]).said().ends_with(0);
    assert_eq!(moved.out, format!("node {other} is the leader\n"));
    let back: Done =
        Tenure::of(&cluster, ["cluster", "transfer", "--to", &leader.to_string(), "--json"]).said().ends_with(0).json();
    assert_eq!(back.node, leader);

    Tenure::of(&cluster, ["cluster", "snapshot"]).said().ends_with(2).complains(&expect![[r#"
        tenure: several endpoints are configured: choose a node with --at
                `tenure help` lists the commands
    "#]]);
    let at = cluster.endpoint(1);
    let taken: Snapshotted =
        Tenure::of(&cluster, ["cluster", "snapshot", "--at", &at, "--json"]).said().ends_with(0).json();
    assert_eq!(taken.node, 2);
    let taken = Tenure::at(&cluster, 2, ["cluster", "snapshot"]).said().ends_with(0);
    assert!(taken.out.starts_with("node 3 took a snapshot up to entry "), "{taken:?}");

    Tenure::at(&cluster, 1, ["cluster", "drain"]).said().ends_with(0).reads(&expect![[r#"
        node 2 rejects commands
    "#]]);
    let undrained: NodeDraining = Tenure::at(&cluster, 1, ["cluster", "undrain", "--json"]).said().ends_with(0).json();
    assert!(!undrained.draining);
    Tenure::of(&cluster, ["cluster", "rules", "1"]).said().ends_with(0).reads(&expect![[r#"
        rules 1 are in force
    "#]]);
    Tenure::of(&cluster, ["cluster", "rules", "999"]).said().ends_with(3);
    Tenure::of(&cluster, ["cluster", "activate"]).said().ends_with(0).reads(&expect![[r#"
        the cluster grants again
    "#]]);
    Tenure::of(&cluster, ["cluster", "promote", "2"]).said().ends_with(0).reads(&expect![[r#"
        node 2 is a voter
    "#]]);
    Tenure::of(&cluster, ["cluster", "remove", "3"]).said().ends_with(0).reads(&expect![[r#"
        node 3 is removed from the cluster
    "#]]);
    assert_eq!(status(&cluster).members.len(), 2);
    let words = ["cluster", "add", "--node", "4", "--peer-address", "127.0.0.1:1", "--instance", "7"];
    Tenure::of(&cluster, words).said().ends_with(0).reads(&expect![[r#"
        node 4 may join
    "#]]);
    Tenure::of(&cluster, ["cluster", "add", "--node", "5", "--peer-address", "nowhere", "--instance", "7"])
        .said()
        .ends_with(2);
}

#[tokio::test]
async fn a_dead_node_is_skipped_and_callers_without_an_api_key_are_rejected() {
    let mut cluster = Cluster::start().await;
    Tenure::of(&cluster, ["add", "disk", "--queue", "ops"]).said().ends_with(0);
    cluster.kill(0);
    Tenure::of(&cluster, ["claim", "disk"]).said().ends_with(0);
    let shown: api::item::Item = Tenure::of(&cluster, ["show", "disk", "--json"]).said().ends_with(0).json();
    assert_eq!(shown.token.map(|token| token.0), Some(1));
    let nobody = Tenure::new(cluster.folder(), ["list"]).env("TENURE_ENDPOINT", cluster.endpoint(1));
    let nobody = nobody.env("TENURE_ACTOR", "ada").said().ends_with(1);
    nobody.complains(&expect![[r#"
        tenure: unauthenticated: send `Authorization: Bearer <API key>`
                pass an API key: --api-key-file, TENURE_API_KEY or a profile (`tenure profile set`)
    "#]]);
    until("the member is missed", async || {
        let shown = Tenure::of(&cluster, ["cluster", "status"]).said();
        shown.code == 0 && shown.out.contains("unreachable")
    })
    .await;
    cluster.kill(1);
    // Without a quorum the command fails and says so.
    let late = Tenure::of(&cluster, ["--timeout", "3s", "release", "disk"]).said();
    assert!(late.code == 6 || late.code == 7, "{late:?}");
}

#[tokio::test]
async fn a_backup_is_complete_and_does_not_replace_a_file() {
    let cluster = Cluster::start().await;
    Tenure::of(&cluster, ["add", "disk", "--queue", "ops"]).said().ends_with(0);
    let said = Tenure::of(&cluster, ["cluster", "backup", "kept", "--json"]).said().ends_with(0).value();
    let kept = fs::read(cluster.folder().join("kept")).unwrap();
    assert_eq!(said["bytes"].as_u64(), Some(kept.len() as u64));
    Tenure::of(&cluster, ["cluster", "backup", "kept"]).said().ends_with(1).complains(&expect![[r#"
        tenure: kept exists already: a backup does not replace files
                choose another name, or move that file away
    "#]]);
    assert_eq!(fs::read(cluster.folder().join("kept")).unwrap(), kept);
    Tenure::of(&cluster, ["cluster", "backup"]).said().ends_with(0);
    Tenure::of(&cluster, ["cluster", "backup", "no/such/folder/file"]).said().ends_with(1);
    let names: Vec<_> = fs::read_dir(cluster.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains(".part")), "{names:?}");
    assert!(names.iter().any(|name| name.to_string_lossy().ends_with(".backup")), "{names:?}");

    // A node that has data rejects a restore.
    let refused = Tenure::at(&cluster, 0, ["cluster", "restore", "kept"]).said();
    assert_ne!(refused.code, 0, "{refused:?}");
    Tenure::at(&cluster, 0, ["cluster", "restore", "none"]).said().ends_with(1);
}

#[tokio::test]
async fn a_backup_becomes_a_new_cluster_that_grants_once_it_is_activated() {
    let mut cluster = Cluster::start().await;
    Tenure::of(&cluster, ["add", "disk", "--queue", "ops"]).said().ends_with(0);
    Tenure::of(&cluster, ["claim", "disk"]).said().ends_with(0);
    Tenure::of(&cluster, ["cluster", "backup", "kept"]).said().ends_with(0);
    cluster.kill_all();
    cluster.await_restore(0);
    let mut restored = None;
    until("it is restored", async || {
        let said = Tenure::at(&cluster, 0, ["cluster", "restore", "kept", "--json"]).said();
        // It takes a moment to listen.
        assert!(said.code == 0 || said.code == 6, "{said:?}");
        restored = (said.code == 0).then(|| said.json::<Restored>());
        restored.is_some()
    })
    .await;
    assert_eq!(restored.unwrap().node, 1);
    until("it serves", async || Tenure::at(&cluster, 0, ["show", "disk"]).said().code == 0).await;
    Tenure::at(&cluster, 0, ["claim", "disk", "--timeout", "2s"]).said().ends_with(6);
    Tenure::at(&cluster, 0, ["cluster", "activate"]).said().ends_with(0);
    let claimed = Tenure::at(&cluster, 0, ["claim", "disk", "--json"]).said().ends_with(0).value();
    assert!(claimed["token"].as_u64() > Some(1), "{claimed}");
}
