//! Rights apply only where they were given: in one space, in some queues, or for the cluster.

use crate::backup::awaiting;
use crate::http::Sent;
use crate::people::{Edge, METRICS_OPEN, in_queues, person, usual, write_api_keys};
use bytes::Bytes;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use test_support::until;
use test_support::world::World;

/// One node with these callers, which serves metrics only with an API key.
async fn alone(people: &[String]) -> Edge {
    Edge::begun(people, async |world| {
        world.options.retain(|option| option != METRICS_OPEN);
        world.start(1);
        world.leader().await;
    })
    .await
}

#[test]
fn an_admin_role_for_one_space_or_queue_is_rejected_at_load() {
    let world = World::empty();
    let hash = "0".repeat(64);
    for scope in ["space = \"lab\"", "space = \"*\"\nqueues = [\"x\"]", "space = \"*\""] {
        let text = format!(
            "[[api_key]]\nsha256 = \"{hash}\"\nactor = \"eve\"\nkind = \"user\"\n[[api_key.rights]]\n{scope}\nroles = [\"admin\"]\n"
        );
        fs::write(world.folder().join("api-keys.toml"), text).unwrap();
        let there = ["--node-id", "1", "--data", "d", "--peer-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
        let output =
            world.command().args(there).args(["--api-keys", "api-keys.toml", "check-config"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{scope}: {said}");
        assert!(said.contains("the API key of eve") && said.contains("cluster = [\"admin\"]"), "{scope}: {said}");
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
async fn an_api_key_for_backups_or_metrics_allows_nothing_else() {
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
async fn readiness_details_require_a_cluster_right() {
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
async fn rights_in_a_queue_do_not_extend_to_queues_with_its_prefix() {
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
async fn a_node_awaiting_a_backup_rejects_a_removed_api_key() {
    let mut world = World::empty();
    world.serves = true;
    let api_keys = world.folder().join("api-keys.toml").display().to_string();
    world.options = vec!["--api-keys".into(), api_keys];
    write_api_keys(&world, &[person("root", "*", &["admin"]), person("eve", "*", &["admin"])]);
    let nobody = awaiting(&mut world).await;
    let (root, eve) = (nobody.with_api_key("root"), nobody.with_api_key("eve"));
    let send = |caller: &crate::http::Caller| caller.upload("/v1/cluster/restore", Bytes::from_static(b"no backup"));
    send(&eve).refused("invalid").await;
    write_api_keys(&world, &[person("root", "*", &["admin"])]);
    until(
        "the API key is gone",
        async || matches!(send(&eve).send().await, Sent::Answered(answer) if answer.status == 401),
    )
    .await;
    send(&root).refused("invalid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_files_are_private_to_the_user_of_the_node() {
    let mut world = World::empty();
    world.start(1);
    world.leader().await;
    let mode = fs::metadata(world.data(1)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "{mode:o}");
}
