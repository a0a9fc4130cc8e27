//! Every refusal that healthy nodes can return, from the leader and from a follower. The test fails for a code that is
//! neither provoked here nor listed with the test that provokes it.

use crate::http::{Caller, Sent};
use crate::people::{Edge, in_queues, person, usual};
use api::Code;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use test_support::process::Process;
use test_support::world::World;
use test_support::{until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Codes that three healthy nodes do not return, or not within the time of a test.
const ELSEWHERE: &[(Code, &str)] = &[
    (Code::RejectedByPolicy, "refusals::a_space_requiring_checked_identities_rejects_self_reported_ones"),
    (Code::RequestForgotten, "failing::a_request_evicted_from_the_memory_is_not_run_again"),
    (Code::NotActivated, "backup::a_restored_cluster_has_everything_acknowledged_before_the_backup"),
    (Code::RestoreRefused, "backup::a_restored_cluster_has_everything_acknowledged_before_the_backup"),
    (Code::Overloaded, "failover::without_a_quorum_nothing_is_lost_or_made_up"),
    (Code::Unavailable, "failover::without_a_quorum_nothing_is_lost_or_made_up"),
    (Code::Unknown, "failover::without_a_quorum_nothing_is_lost_or_made_up"),
    (Code::PositionTooOld, "backups::old_events_are_deleted_and_a_reader_at_a_deleted_position_is_refused"),
    (Code::Internal, "failing::a_node_with_an_unreadable_disk_reports_it_and_others_serve"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_code_is_answered_by_the_leader_and_by_a_follower() {
    let mut people = usual();
    people.push(person("rita", "default", &["reader"]));
    people.push(in_queues("fay", "default", &["worker", "dispatcher"], &["far-*"]));
    let mut edge = Edge::start(&people).await;
    let slow = tokio::spawn(too_slow(edge.caller("ada")));
    for role in ["leader", "follower"] {
        let node = if role == "leader" { edge.world.leader().await } else { edge.world.follower().await };
        let at = Provoker {
            role: role.to_owned(),
            root: edge.caller("root").at(node),
            ada: edge.caller("ada").at(node),
            bob: edge.caller("bob").at(node),
            cy: edge.caller("cy").at(node),
        };
        at.form(&edge.nobody().at(node)).await;
        at.rights(&edge.caller("rita").at(node), &edge.caller("fay").at(node)).await;
        at.claims().await;
        at.lines().await;
        at.limits().await;
        at.leases().await;
        at.writes().await;
        at.spaces().await;
        at.cluster().await;
        at.too_often().await;
        let seen = edge.contract().seen();
        let seen: BTreeSet<&str> =
            seen.iter().filter(|seen| seen.node == node).map(|seen| seen.answer.as_str()).collect();
        for code in Code::ALL {
            let is_elsewhere = ELSEWHERE.iter().any(|(elsewhere, _)| elsewhere == code) || *code == Code::TooSlow;
            assert_eq!(seen.contains(code.name()), !is_elsewhere, "{} by the {role}", code.name());
        }
    }
    slow.await.unwrap();
}

struct Provoker {
    role: String,
    root: Caller,
    ada: Caller,
    bob: Caller,
    cy: Caller,
}

impl Provoker {
    fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.role)
    }

    /// A new item in a new queue.
    async fn item(&self, name: &str, policy: Value) -> String {
        let id = self.name(name);
        self.root.post("/v1/items", json!({"id": id, "queue": id})).ok().await;
        if policy != json!({}) {
            self.root.patch(format!("/v1/queues/{id}/policy"), policy).ok().await;
        }
        id
    }

    /// Malformed requests.
    async fn form(&self, nobody: &Caller) {
        let id = self.item("form", json!({})).await;
        let before = self.applied_commands(&id).await;
        let unknown = self.ada.post(format!("/v1/items/{id}/claim"), json!({"leese_for_ms": 1}));
        let problem = unknown.refused("invalid").await;
        assert!(problem["detail"].as_str().unwrap().contains("leese_for_ms"), "{problem}");
        let zero = self.ada.post(format!("/v1/items/{id}/claim"), json!({"lease_for_ms": 0})).refused("invalid").await;
        assert_eq!(zero["field"], "lease_for_ms", "{zero}");
        self.ada.get("/v1/nothing").refused("not_found").await;
        self.ada.delete("/v1/items").refused("method_not_allowed").await;
        self.ada
            .post(format!("/v1/items/{id}/claim"), json!({}))
            .typed("text/plain")
            .refused("unsupported_media_type")
            .await;
        let large = json!({"id": "large", "queue": "q", "body": {"prompt": "x".repeat(8 << 20)}});
        self.ada.post("/v1/items", large).refused("too_large").await;
        let without = nobody.post(format!("/v1/items/{id}/claim"), json!({})).answer().await;
        assert_eq!(without.json()["code"], "unauthenticated");
        assert!(without.headers.contains_key("www-authenticate"), "{without:?}");
        let wrong = nobody.with("authorization", "Bearer tenure_nonsense");
        wrong.get(format!("/v1/items/{id}")).refused("unauthenticated").await;
        assert_eq!(self.applied_commands(&id).await, before, "nothing that is wrong changes anything");
    }

    /// The last event of the space: every command with an effect has left an event.
    async fn applied_commands(&self, id: &str) -> Value {
        self.root.get(format!("/v1/events?item={id}&limit=1000")).ok().await["events"].clone()
    }

    async fn rights(&self, rita: &Caller, fay: &Caller) {
        let id = self.item("rights", json!({})).await;
        self.ada.get("/v1/items/not-there").refused("not_found").await;
        let may_not = rita.post(format!("/v1/items/{id}/claim"), json!({})).refused("forbidden").await;
        assert_eq!(may_not["needs"], "worker", "{may_not}");
        self.ada.get("/v1/cluster").refused("forbidden").await;
        self.ada.post(format!("/v1/items/{id}/revoke"), json!({"reason": "x"})).refused("forbidden").await;
        // Items outside the caller's queues look as if they did not exist.
        fay.post(format!("/v1/items/{id}/claim"), json!({})).refused("not_found").await;
    }

    async fn claims(&self) {
        let id = self.item("claims", json!({})).await;
        let claim = format!("/v1/items/{id}/claim");
        self.ada.session("one").post(&claim, json!({})).ok().await;
        let first = self.bob.post(&claim, json!({})).refused("already_claimed").await;
        assert!(first["retry_after_ms"].as_u64() > Some(0), "{first}");
        self.ada.session("two").post(&claim, json!({})).refused("held_by_your_other_session").await;
        let other = self.item("other", json!({})).await;
        let both = json!({"claims": [{"item": id}, {"item": other}], "all_or_none": true});
        let answer = self.cy.post("/v1/claims", both).ok().await;
        assert_eq!(answer["claims"][1]["problem"]["code"], "all_or_none", "{answer}");

        let paused = self.item("paused", json!({})).await;
        self.root.post(format!("/v1/queues/{paused}/pause"), json!({})).ok().await;
        self.ada.post(format!("/v1/items/{paused}/claim"), json!({})).refused("queue_paused").await;

        let later = self.name("later");
        let waits = json!({"id": later, "queue": "later", "depends_on": [other]});
        self.root.post("/v1/items", waits).ok().await;
        self.ada.post(format!("/v1/items/{later}/claim"), json!({})).refused("not_ready").await;

        let kept = self.item("kept", json!({})).await;
        let token = self.ada.post(format!("/v1/items/{kept}/claim"), json!({})).ok().await["token"].clone();
        self.ada.post(format!("/v1/items/{kept}/reserve"), json!({"token": token})).ok().await;
        self.bob.post(format!("/v1/items/{kept}/claim"), json!({})).refused("reserved").await;

        let worker = self.cy.session(&self.name("worker"));
        worker.put("/v1/workers/self", json!({"alive_for_ms": 60_000})).ok().await;
        let named = json!({"actor": "cy", "session": self.name("worker")});
        self.root.post("/v1/workers/drain", named).ok().await;
        worker.post(format!("/v1/items/{other}/claim"), json!({})).refused("worker_draining").await;

        let key = self.cy.key(&self.name("key"));
        key.post(format!("/v1/items/{other}/claim"), json!({})).ok().await;
        key.post(format!("/v1/items/{other}/claim"), json!({"action": "x"})).refused("request_id_reused").await;
    }

    async fn lines(&self) {
        let id = self.item("line", json!({})).await;
        let claim = format!("/v1/items/{id}/claim");
        self.ada.post(&claim, json!({})).ok().await;
        self.bob.post(&claim, json!({"on_conflict": "wait", "poll_ms": 1})).ok().await;
        let short = json!({"on_conflict": "wait", "line_max": 1, "poll_ms": 1});
        self.cy.post(&claim, short).refused("line_too_long").await;
        // The response comes when the time in line is over, not at the end of the poll.
        let timed = json!({"on_conflict": "wait", "wait_for_ms": 50});
        self.cy.post(&claim, timed).refused("wait_timeout").await;
    }

    async fn limits(&self) {
        let full = self.item("full", json!({"concurrency": 1})).await;
        let second = self.name("full-2");
        self.root.post("/v1/items", json!({"id": second, "queue": full})).ok().await;
        self.ada.post(format!("/v1/items/{full}/claim"), json!({})).ok().await;
        self.bob.post(format!("/v1/items/{second}/claim"), json!({})).refused("queue_full").await;

        let many = self.item("many", json!({"max_leases": 1})).await;
        let second = self.name("many-2");
        self.root.post("/v1/items", json!({"id": second, "queue": many})).ok().await;
        self.ada.post(format!("/v1/items/{many}/claim"), json!({})).ok().await;
        self.ada.post(format!("/v1/items/{second}/claim"), json!({})).refused("too_many_leases").await;

        let leader = self.item("leader", json!({})).await;
        let followers: Vec<Value> = (0..1_000)
            .map(|nth| json!({"id": self.name(&format!("d{nth}")), "queue": "crowd", "depends_on": [leader]}))
            .collect();
        let answer = self.root.post("/v1/items/batch", json!({"items": followers})).ok().await;
        assert_eq!(answer["items"][999]["outcome"], "created", "{}", answer["items"][999]);
        let more = json!({"id": self.name("one-more"), "queue": "crowd", "depends_on": [leader]});
        self.root.post("/v1/items", more).refused("too_many_dependents").await;
    }

    async fn leases(&self) {
        let id = self.item("leases", json!({"lease_min_ms": 1})).await;
        let claim = format!("/v1/items/{id}/claim");
        let lost = self.ada.post(&claim, json!({"lease_for_ms": 1})).ok().await["token"].clone();
        until("the lease is over", async || self.root.get(format!("/v1/items/{id}")).ok().await["state"] != "active")
            .await;
        self.ada.post(format!("/v1/items/{id}/renew"), json!({"token": lost})).refused("lease_lost").await;
        let won = self.bob.post(&claim, json!({})).ok().await["token"].clone();
        self.cy.post(format!("/v1/items/{id}/renew"), json!({"token": won})).refused("lease_lost").await;
        let renewal = self.bob.session("another").post(format!("/v1/items/{id}/renew"), json!({"token": won}));
        renewal.refused("not_holder").await;
        let write = json!({"token": lost, "title": "late"});
        self.ada.patch(format!("/v1/items/{id}"), write).refused("stale_token").await;
    }

    async fn writes(&self) {
        let id = self.item("writes", json!({"require_lease": "always", "attempts_max": 1})).await;
        self.ada.patch(format!("/v1/items/{id}"), json!({"title": "x"})).refused("lease_required").await;
        let seen = self.ada.get(format!("/v1/items/{id}")).answer().await;
        let tag = seen.headers["etag"].to_str().unwrap().to_owned();
        let token = self.ada.post(format!("/v1/items/{id}/claim"), json!({})).ok().await["token"].clone();
        self.ada.patch(format!("/v1/items/{id}"), json!({"token": token, "title": "new"})).ok().await;
        let stale = self.ada.with("if-match", &tag);
        stale.patch(format!("/v1/items/{id}"), json!({"token": token, "title": "x"})).refused("stale_write").await;
        self.root.post(format!("/v1/items/{id}/reopen"), json!({})).refused("wrong_state").await;
        self.ada.post(format!("/v1/items/{id}/fail"), json!({"token": token})).ok().await;
        self.ada.post(format!("/v1/items/{id}/claim"), json!({})).refused("blocked").await;

        let other = json!({"id": id, "queue": id, "title": "another"});
        self.root.post("/v1/items", other).refused("already_exists").await;
        self.root.post(format!("/v1/items/{id}/cancel"), json!({"reason": "x"})).ok().await;
        self.ada.post(format!("/v1/items/{id}/claim"), json!({})).refused("terminal_item").await;
    }

    async fn spaces(&self) {
        let space = self.root.space(&self.name("small"));
        let policy = json!({"items_max": 1, "body_bytes_max": 1_000, "identity": "require_checked"});
        space.put("/v1/space/policy", policy).ok().await;
        space.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
        space.post("/v1/items", json!({"id": "b", "queue": "q"})).refused("space_full").await;
    }

    async fn cluster(&self) {
        let refused = self.root.post("/v1/cluster/members/77/promote", json!({})).refused("change_refused").await;
        assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("77")), "{refused}");
    }

    /// More calls at once than one actor may have in flight: batches of a thousand weigh the most.
    async fn too_often(&self) {
        let claims: Vec<Value> = (0..1_000).map(|nth| json!({"item": format!("none-{nth}")})).collect();
        let batch = json!({"claims": claims});
        let ask = || {
            let ask = self.cy.post("/v1/claims", batch.clone());
            tokio::spawn(async move {
                let Sent::Answered(answer) = ask.send().await else { panic!("no answer") };
                let body = answer.json();
                (body["code"] == "rate_limited").then_some((answer, body))
            })
        };
        let mut limited = None;
        until("one actor is rate limited", async || {
            let asked: Vec<_> = (0..40).map(|_| ask()).collect();
            for asked in asked {
                limited = asked.await.unwrap().or(limited.take());
            }
            limited.is_some()
        })
        .await;
        let (answer, body) = limited.unwrap();
        assert!(body["retry_after_ms"].as_u64() > Some(0), "{body}");
        assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
        // Other actors need not wait.
        self.bob.get("/v1/carrying").ok().await;
    }
}

/// Sends half of a body and then nothing.
async fn too_slow(caller: Caller) {
    let address = &caller.addresses[&caller.node];
    let (_, authorization) = caller.headers.iter().find(|(name, _)| *name == "authorization").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/items HTTP/1.1\r\nhost: {address}\r\nauthorization: {authorization}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{\"id\": "
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within("the slow one is cut off", stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"too_slow\"") && answer.contains("\"took_effect\":\"no\""), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_requiring_checked_identities_rejects_self_reported_ones() {
    let world = World::empty();
    let address = world.edge_address(1);
    let mut command = world.command();
    command.args(["--dev", "--listen", &address]);
    let _process = Process::start(command, world.folder().join("words"));
    let contract = crate::contract::Contract::unread();
    let nobody = Caller {
        contract: Arc::new(contract),
        addresses: Arc::new(BTreeMap::from([(1, address)])),
        node: 1,
        headers: Vec::new(),
    };
    until(
        "it serves",
        async || matches!(nobody.get("/readyz").send().await, Sent::Answered(answer) if answer.status == 200),
    )
    .await;
    nobody.get("/v1/items").refused("unauthenticated").await;
    let ada = nobody.with("tenure-actor", "ada");
    ada.post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
    let policy = json!({"items_max": 10, "body_bytes_max": 1_000, "identity": "require_checked"});
    ada.put("/v1/space/policy", policy).ok().await;
    ada.post("/v1/items/a/claim", json!({})).refused("rejected_by_policy").await;
    ada.space("other").post("/v1/items", json!({"id": "a", "queue": "q"})).ok().await;
}
