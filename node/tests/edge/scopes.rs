//! A grant reaches as far as it says: one space, some queues, or the cluster, and nothing beyond.

use crate::backup::awaiting;
use crate::client::until;
use crate::http::Sent;
use crate::people::{Edge, METRICS_OPEN, in_queues, person, usual, write_tokens};
use crate::world::World;
use bytes::Bytes;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// One node that takes these callers, and shows metrics to nobody without a token.
async fn alone(people: &[String]) -> Edge {
    Edge::begun(people, async |world| {
        world.options.retain(|option| option != METRICS_OPEN);
        world.start(1);
        world.leader().await;
    })
    .await
}

#[test]
fn an_admin_of_one_space_or_queue_is_refused_when_the_file_is_read() {
    let world = World::empty();
    let hash = "0".repeat(64);
    for scope in ["space = \"lab\"", "space = \"*\"\nqueues = [\"x\"]", "space = \"*\""] {
        let text = format!(
            "[[token]]\nsha256 = \"{hash}\"\nactor = \"eve\"\nkind = \"user\"\n[[token.grant]]\n{scope}\nroles = [\"admin\"]\n"
        );
        fs::write(world.folder().join("tokens.toml"), text).unwrap();
        let there = ["--node-id", "1", "--data", "d", "--peer-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
        let output = world.command().args(there).args(["--tokens", "tokens.toml", "check-config"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{scope}: {said}");
        assert!(said.contains("the token of eve") && said.contains("cluster = [\"admin\"]"), "{scope}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_some_queues_sees_no_metrics_and_touches_no_worker() {
    let mut people = usual();
    people.push(in_queues("fay", "default", &["operator", "worker"], &["ops*"]));
    let edge = alone(&people).await;
    let (fay, ada) = (edge.caller("fay"), edge.caller("ada"));
    ada.put("/v1/workers/self", json!({"alive_for_ms": 60_000})).ok().await;
    fay.put("/v1/workers/self", json!({"alive_for_ms": 60_000})).ok().await;

    fay.get("/metrics").refused("forbidden").await;
    fay.get("/v1/cluster").refused("forbidden").await;
    let seen = fay.get("/v1/workers").ok().await;
    let names: Vec<_> = seen["workers"].as_array().unwrap().iter().map(|worker| worker["actor"].clone()).collect();
    assert_eq!(names, ["fay"], "{seen}");
    fay.post("/v1/workers/drain", json!({"actor": "ada"})).refused("forbidden").await;
    fay.post("/v1/workers/remove", json!({"actor": "ada"})).refused("forbidden").await;
    fay.post("/v1/workers/drain", json!({"actor": "fay"})).ok().await;
    let events = fay.get("/v1/events").ok().await.to_string();
    assert!(events.contains("\"fay\"") && !events.contains("\"ada\""), "{events}");
    let all = edge.caller("root").get("/v1/workers").ok().await;
    assert_eq!(all["workers"].as_array().unwrap().len(), 2, "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_for_backups_or_metrics_does_that_and_nothing_else() {
    let mut people = usual();
    people.extend([person("timer", "default", &["backup"]), person("prometheus", "default", &["metrics"])]);
    people.push(person("op", "*", &["reader", "worker", "dispatcher", "operator"]));
    let edge = alone(&people).await;
    edge.caller("ada").post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let may = [("timer", "/v1/cluster/backup"), ("prometheus", "/metrics")];
    for (who, is_for) in may.into_iter().chain([("op", "")]) {
        let caller = edge.caller(who);
        for path in ["/v1/cluster/backup", "/metrics"] {
            let status = caller.get(path).answer().await.status;
            assert_eq!(status, if path == is_for { 200 } else { 403 }, "{who} {path}");
        }
        caller.get("/v1/cluster").refused("forbidden").await;
        caller.delete("/v1/cluster/members/1").refused("forbidden").await;
        let problem = caller.post("/v1/cluster/drain", json!({})).refused("forbidden").await;
        assert_eq!(problem["needs"], "admin", "{problem}");
        if !is_for.is_empty() {
            caller.get("/v1/items/a").refused("not_found").await;
        }
    }
    let problem = edge.caller("op").get("/v1/cluster/backup").refused("forbidden").await;
    assert_eq!(problem["needs"], "backup", "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_a_node_is_not_ready_is_told_in_detail_only_to_those_with_a_right_for_the_cluster() {
    let mut people = usual();
    people.push(person("prometheus", "default", &["metrics"]));
    let mut edge = Edge::start(&people).await;
    edge.world.kill(2);
    edge.world.kill(3);
    let (nobody, prometheus) = (edge.nobody(), edge.caller("prometheus"));
    until("it knows that it has no quorum", async || {
        prometheus.get("/readyz").answer().await.json()["detail"].is_string()
    })
    .await;
    for caller in [nobody, edge.caller("ada"), edge.caller("nobody-knows")] {
        let said = caller.get("/readyz").answer().await.json();
        assert_eq!(said, json!({"ok": false, "why": "no leader with a quorum answered in time"}));
    }
    assert!(edge.world.words(1).contains("not ready: no leader with a quorum answered in time: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_named_is_granted_and_no_other_of_that_beginning() {
    let mut people = usual();
    people.push(in_queues("fay", "default", &["worker"], &["ops", "build-*"]));
    let edge = alone(&people).await;
    let (fay, ada) = (edge.caller("fay"), edge.caller("ada"));
    for (id, queue) in [("a", "ops"), ("b", "ops-secret"), ("c", "build-7"), ("d", "build")] {
        ada.post("/v1/items", json!({"id": id, "queue": queue})).ok().await;
    }
    for hidden in ["b", "d"] {
        fay.get(format!("/v1/items/{hidden}")).refused("not_found").await;
        fay.post(format!("/v1/items/{hidden}/claim"), json!({})).refused("not_found").await;
    }
    for seen in ["a", "c"] {
        fay.get(format!("/v1/items/{seen}")).ok().await;
        fay.post(format!("/v1/items/{seen}/claim"), json!({})).ok().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_waits_for_a_backup_takes_no_token_that_was_taken_away() {
    let mut world = World::empty();
    world.serves = true;
    let tokens = world.folder().join("tokens.toml").display().to_string();
    world.options = vec!["--tokens".into(), tokens];
    write_tokens(&world, &[person("root", "*", &["admin"]), person("eve", "*", &["admin"])]);
    let nobody = awaiting(&mut world).await;
    let (root, eve) = (nobody.with_token("root"), nobody.with_token("eve"));
    let send = |caller: &crate::http::Caller| caller.upload("/v1/cluster/restore", Bytes::from_static(b"no backup"));
    send(&eve).refused("invalid").await;
    write_tokens(&world, &[person("root", "*", &["admin"])]);
    until(
        "the token is gone",
        async || matches!(send(&eve).send().await, Sent::Answered(answer) if answer.status == 401),
    )
    .await;
    send(&root).refused("invalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_is_for_nobody_else_on_the_machine() {
    let mut world = World::empty();
    world.start(1);
    world.leader().await;
    let mode = fs::metadata(world.data(1)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "{mode:o}");
}
