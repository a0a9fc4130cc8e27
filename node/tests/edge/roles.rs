//! Rights: every documented call, by callers with a single role each. Everything that is not listed is denied.

use crate::http::{Ask, Caller};
use crate::people::{Edge, person};
use serde_json::json;
use std::collections::BTreeSet;

const ROLES: [&str; 4] = ["reader", "worker", "dispatcher", "operator"];
/// Rights for the cluster, not in a space.
const RIGHTS: [&str; 3] = ["admin", "backup", "metrics"];

/// One request per call, and the roles that may make it.
fn calls(caller: &Caller, id: &str) -> Vec<(&'static str, &'static [&'static str], Ask)> {
    const WORKER: &[&str] = &["worker"];
    const DISPATCHER: &[&str] = &["dispatcher"];
    const OPERATOR: &[&str] = &["operator"];
    const ADMIN: &[&str] = &["admin"];
    const BACKUP: &[&str] = &["admin", "backup"];
    const CARES: &[&str] = &["dispatcher", "operator"];
    const WRITER: &[&str] = &["worker", "dispatcher"];
    let at = |verb: &str| format!("/v1/items/{id}/{verb}");
    let item = || format!("/v1/items/{id}");
    let post = |verb: &str, body| caller.post(at(verb), body);
    let token = json!({"token": 1});
    let reason = json!({"reason": "x"});
    vec![
        ("create", DISPATCHER, caller.post("/v1/items", json!({"id": "new", "queue": "q"}))),
        ("update", WRITER, caller.patch(item(), json!({"body": {"plan": "x"}}))),
        ("update", DISPATCHER, caller.patch(item(), json!({"title": "x"}))),
        ("claim", WORKER, post("claim", json!({}))),
        ("next", WORKER, caller.post("/v1/queues/q/next", json!({}))),
        ("renew", WORKER, post("renew", token.clone())),
        ("extend", WORKER, post("extend", json!({"token": 1, "for_ms": 1}))),
        ("release", WORKER, post("release", json!({}))),
        ("reserve", WORKER, post("reserve", token.clone())),
        ("withdraw", WORKER, post("withdraw", json!({}))),
        ("activity", WORKER, post("activity", json!({"kind": "progress", "note": "x"}))),
        ("await_input", WORKER, post("await_input", json!({"question": "x"}))),
        ("resume", WORKER, post("resume", json!({}))),
        ("hand_on", WORKER, post("hand_on", json!({"phase": "x"}))),
        ("complete", WORKER, post("complete", json!({}))),
        ("fail", WORKER, post("fail", json!({}))),
        ("assign", CARES, post("assign", json!({"actor": "x"}))),
        ("unassign", CARES, post("unassign", json!({"actor": "x"}))),
        ("cancel", CARES, post("cancel", reason.clone())),
        ("reopen", CARES, post("reopen", json!({}))),
        ("retry", OPERATOR, post("retry", json!({}))),
        ("revoke", OPERATOR, post("revoke", reason)),
        ("reorder", OPERATOR, post("reorder", json!({"actors": []}))),
        ("set_policy", OPERATOR, caller.patch("/v1/queues/q/policy", json!({"line_max": 5}))),
        ("pause", OPERATOR, caller.post("/v1/queues/q/pause", json!({}))),
        ("unpause", OPERATOR, caller.post("/v1/queues/q/unpause", json!({}))),
        ("drain_queue", OPERATOR, caller.post("/v1/queues/other/drain", json!({}))),
        ("drain_worker", OPERATOR, caller.post("/v1/workers/drain", json!({"actor": "x"}))),
        ("remove_worker", OPERATOR, caller.post("/v1/workers/remove", json!({"actor": "x"}))),
        (
            "set_space_policy",
            OPERATOR,
            caller.put(
                "/v1/space/policy",
                json!({"items_max": 0, "body_bytes_max": 0, "identity": "accept_self_reported"}),
            ),
        ),
        ("register_worker", WORKER, caller.put("/v1/workers/self", json!({"alive_for_ms": 1000}))),
        ("cluster_status", ADMIN, caller.get("/v1/cluster")),
        (
            "add_member",
            ADMIN,
            caller.post("/v1/cluster/members", json!({"node": 0, "peer_address": "x", "instance": 0})),
        ),
        ("join_secret", ADMIN, caller.post("/v1/cluster/join-secret", json!({}))),
        ("promote_member", ADMIN, caller.post("/v1/cluster/members/99/promote", json!({}))),
        ("remove_member", ADMIN, caller.delete("/v1/cluster/members/99")),
        ("transfer_leader", ADMIN, caller.post("/v1/cluster/transfer", json!({"to": 99}))),
        ("take_snapshot", ADMIN, caller.post("/v1/cluster/snapshot", json!({}))),
        ("backup", BACKUP, caller.get("/v1/cluster/backup")),
        ("restore", ADMIN, caller.post("/v1/cluster/restore", json!({}))),
        ("activate", ADMIN, caller.post("/v1/cluster/activate", json!({}))),
        ("raise_rules", ADMIN, caller.post("/v1/cluster/rules", json!({"version": 99}))),
        ("undrain_node", ADMIN, caller.post("/v1/cluster/undrain", json!({}))),
        ("drain_node", ADMIN, caller.post("/v1/cluster/drain", json!({}))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_allows_only_its_own_calls() {
    let all = [&ROLES[..], &RIGHTS].concat();
    let mut people: Vec<String> = all.iter().map(|role| person(role, "default", &[role])).collect();
    people.push(person("root", "*", &all));
    let mut edge = Edge::start(&people).await;
    let node = edge.world.follower().await;
    let root = edge.caller("root").at(node);
    root.post("/v1/items", json!({"id": "seen", "queue": "q"})).ok().await;
    root.post("/v1/items", json!({"id": "other", "queue": "other"})).ok().await;
    let mut checked = BTreeSet::new();
    for role in all {
        let caller = edge.caller(role).at(node);
        for (operation, roles, ask) in calls(&caller, "seen") {
            let answer = ask.answer().await;
            let code = if answer.status < 300 { "ok".to_owned() } else { answer.json()["code"].to_string() };
            // A caller with a cluster right and no role sees no items.
            let is_hidden = RIGHTS.contains(&role) && code.contains("not_found") && !roles.contains(&role);
            let is_denied = code.contains("forbidden") || is_hidden;
            assert_eq!(is_denied, !roles.contains(&role), "{operation} by a {role}: {code}");
            checked.insert(operation.to_owned());
        }
        root.post("/v1/cluster/undrain", json!({})).ok().await;
        edge.is_ready(node).await;
        // Each role sees the items of its queues.
        let item = caller.get("/v1/items/seen").answer().await;
        assert_eq!(item.status, if RIGHTS.contains(&role) { 404 } else { 200 }, "{role}: {item:?}");
    }
    // Reads are checked by what they leave out, batches by their entries.
    let views = [
        "list_items",
        "show_item",
        "line",
        "claim_summary",
        "carrying",
        "carrying_of",
        "activities",
        "held_at",
        "peek",
        "list_queues",
        "show_queue",
        "list_workers",
        "list_events",
        "follow_events",
        "show_space",
        "claim_many",
        "create_many",
        "renew_all",
    ];
    checked.extend(views.map(str::to_owned));
    let missing: Vec<_> = edge.contract().operations().difference(&checked).cloned().collect();
    assert_eq!(missing, Vec::<String>::new(), "calls that this test does not know");
}
