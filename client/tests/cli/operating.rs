//! Queues, workers and the space; repeated requests; absent nodes; load.

use crate::world::{ACTORS, Tenure, World};
use api::queue::{FlowSet, Policy, PolicySet, Queue, QueuePage};
use api::space::{Space, SpacePolicySet};
use api::words::Flow;
use api::worker::{Draining, Registered, Removed, WorkerPage};
use client::api;
use expect_test::expect;
use lease::numbers::Wall;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

#[tokio::test]
async fn queues_are_listed_shown_paused_and_drained() {
    let world = World::start().await;
    world.adds("disk");
    let listed = world.says("queue list");
    assert!(listed.out.starts_with("QUEUE  FLOW  READY"), "{listed:?}");
    assert_eq!(world.says_json::<QueuePage>("queue list").queues.len(), 1);
    world.says("queue show ops").reads(&expect![[r#"
        queue              ops
        flow               open
        ready              1
        oldest ready       DATE, AWAY
        leases             0
        items with a line  0
        live items         queued 1

        policy version        0
        lease for             15m
        lease max             1d
        lease min             1s
        pickup                10s
        lock delay            0s
        line max              1,000
        attempts max          5
        backoff               1s, then 200 % of it, at most 1h
        retention             7d
        max leases            10,000, then reject
        require lease         if_held
        disclosure            fleet
        on dependency failed  block
        concurrency           unlimited
        reservation max       2d
        phases                any
        mirror                claimed moves the target to in_progress
        mirror                completed moves the target to review
        mirror                awaiting_input moves the target to blocked
        mirror                attempts_exhausted moves the target to blocked
    "#]]);
    assert_eq!(world.says_json::<Queue>("queue show ops").ready, 1);
    world.says("queue pause ops").reads(&expect![[r#"
        ops is paused
    "#]]);
    world.tenure(["claim", "disk"]).said().ends_with(3).complains(&expect![[r#"
        tenure: queue_paused: Queue is paused, draining or drained
                `tenure queue unpause` lets it grant again
    "#]]);
    assert_eq!(world.says_json::<FlowSet>("queue unpause ops").flow, Flow::Open);
    world.says("queue drain ops").reads(&expect![[r#"
        ops is draining
    "#]]);
    world.says("queue unpause ops");
    world.tenure(["queue", "show", "none"]).said().ends_with(4);
}

#[tokio::test]
async fn a_policy_change_keeps_the_other_values() {
    let world = World::start().await;
    world.adds("disk");
    world.says("queue policy ops --lease-for 5m --backoff-first 2s --phases work,review").reads(&expect![[r#"
        policy of ops: version 1
    "#]]);
    let policy: Policy = world.says_json("queue policy ops");
    assert_eq!((policy.lease_for_ms, policy.backoff.first_ms, policy.phases.len()), (300_000, 2_000, 2));
    let set: PolicySet = world.says_json("queue policy ops --backoff-max 1h --disclosure open");
    let after: Policy = world.says_json("queue policy ops");
    assert_eq!((after.backoff.first_ms, after.backoff.max_ms), (2_000, 3_600_000));
    let stale = (set.version - 1).to_string();
    world.tenure(["queue", "policy", "ops", "--version", &stale, "--line-max", "3"]).said().ends_with(2);
    world.says("queue policy ops").reads(&expect![[r#"
        policy version        2
        lease for             5m
        lease max             1d
        lease min             1s
        pickup                10s
        lock delay            0s
        line max              1,000
        attempts max          5
        backoff               2s, then 200 % of it, at most 1h
        retention             7d
        max leases            10,000, then reject
        require lease         if_held
        disclosure            open
        on dependency failed  block
        concurrency           unlimited
        reservation max       2d
        phases                work review
        mirror                claimed moves the target to in_progress
        mirror                completed moves the target to review
        mirror                awaiting_input moves the target to blocked
        mirror                attempts_exhausted moves the target to blocked
    "#]]);
    world.tenure(["queue", "policy", "ops", "--lease-for", "5"]).said().ends_with(2).complains(&expect![[r#"
        error: invalid value '5' for '--lease-for <DURATION>': "5" is not a duration: write it like 500ms, 90s, 15m, 1h30m or 2d

        For more information, try '--help'.
    "#]]);
}

#[tokio::test]
async fn workers_register_drain_and_are_removed() {
    let world = World::start().await;
    world.says("--session run-7 worker register --capability gpu --alive-for 5m").reads(&expect![[r#"
        registered; quiet after 5m without a heartbeat
    "#]]);
    assert!(!world.says_json::<Registered>("worker register").draining);
    world.says("worker list").reads(&expect![[r#"
        ACTOR  SESSION  LIVENESS  LEASES  CAN DO  LABELS  MODE  LAST HEARD OF
        ada             alive     0                       any   DATE, AWAY
        ada    run-7    alive     0       gpu             any   DATE, AWAY
    "#]]);
    assert_eq!(world.says_json::<WorkerPage>("worker list").workers.len(), 2);
    world.says("worker drain ada run-7").reads(&expect![[r#"
        ada gets no new items
    "#]]);
    assert!(world.says_json::<Draining>("worker drain ada").known);
    world.tenure(["worker", "drain", "bob"]).said().ends_with(4).complains(&expect![[r#"
        tenure: there is no worker bob in that session
    "#]]);
    world.says("worker remove ada").reads(&expect![[r#"
        ada is removed
    "#]]);
    assert!(!world.says_json::<Removed>("worker remove ada").removed);
}

#[tokio::test]
async fn a_space_has_counts_and_a_policy() {
    let world = World::start().await;
    world.adds("disk");
    world.says("space show").reads(&expect![[r#"
        space           default
        live items      1
        ended items     0
        created         1
        purged          0
        bodies          0 B
        queues          1
        workers         0
        policy version  0
        items max       1,000,000
        bodies max      8.0 GiB
        identity        accept_self_reported
    "#]]);
    world.says("space policy --items-max 1").reads(&expect![[r#"
        policy of the space: version 1
    "#]]);
    assert_eq!(world.says_json::<SpacePolicySet>("space policy --body-bytes-max 1000000").version, 2);
    let space: Space = world.says_json("space show");
    assert_eq!((space.policy.items_max, space.policy.body_bytes_max), (1, 1_000_000));
    world.tenure(["add", "cable", "--queue", "ops"]).said().ends_with(3).complains(&expect![[r#"
        tenure: space_full: Space has reached a limit of its policy
                `tenure space show` shows its limits
    "#]]);
    world.tenure(["--space", "other", "show", "disk"]).said().ends_with(4);
}

#[tokio::test]
async fn a_repeated_request_has_one_effect() {
    let world = World::start().await;
    world.adds("disk");
    let first = world.says("claim disk --request-id once --json").value();
    let again = world.says("claim disk --request-id once --repeat --json").value();
    assert_eq!((&first["token"], &first["renewed"]), (&again["token"], &again["renewed"]));
    world.tenure(["release", "disk", "--request-id", "once"]).said().ends_with(1).complains(&expect![[r#"
        tenure: request_id_reused: Request id was already used for a different request
                pass another --request-id, or none
    "#]]);
    world.tenure(["claim", "disk", "--repeat"]).said().ends_with(2);
    world.tenure(["claim", "disk", "--request-id", "once", "--repeat=soon"]).said().ends_with(2);
}

#[tokio::test]
async fn requests_that_may_be_forgotten_are_not_run() {
    let world = World::start().await;
    world.adds("disk");
    for repeat in ["--repeat", "--repeat=2026-01-01T00:00:00Z", "--repeat=9999-01-01T00:00:00Z"] {
        let said = world.tenure(["claim", "disk", "--request-id", "never-sent", repeat]).said().ends_with(7);
        assert!(said.err.contains("request_forgotten"), "{said:?}");
    }
    assert_eq!(world.state("disk"), "queued");
    // A request that was sent just now and never arrived is run.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let now = api::dates::Date(Wall(u64::try_from(now).unwrap()));
    world.says(&format!("claim disk --request-id just-sent --repeat={now}"));
    assert_eq!(world.state("disk"), "active");
}

#[tokio::test]
async fn an_absent_node_is_distinguished_from_a_silent_one() {
    let home = tempfile::tempdir().unwrap();
    let away = Tenure::new(home.path(), ["--endpoint", "http://127.0.0.1:1", "--timeout", "2s", "claim", "disk"]);
    let said = away.said().ends_with(6);
    assert!(said.err.contains("the request had no effect"), "{said:?}");
    let words = ["--endpoint", "http://127.0.0.1:1", "--timeout", "2s", "--json", "claim", "disk"];
    let said = Tenure::new(home.path(), words).said().ends_with(6);
    assert_eq!(said.problem().code, api::Code::Unavailable);

    // A server that accepts requests and never answers: the request may have had an effect.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", mute.local_addr().unwrap());
    let words = ["--endpoint", &endpoint, "--timeout", "300ms", "--api-key", "secret", "claim", "it's"];
    let said = Tenure::new(home.path(), words).said().ends_with(7);
    let id = said.err.split("--request-id ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert_eq!(id.len(), 32);
    let first_sent = said.err.split("--repeat=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(first_sent.parse::<api::dates::Date>().is_ok(), "{first_sent}");
    let again = format!(
        "tenure --request-id {id} --repeat={first_sent} --endpoint {endpoint} --timeout 300ms --api-key … claim 'it'\\''s'"
    );
    assert!(said.err.contains(&again), "{said:?}");
    // The repeat keeps the time of the first attempt.
    let words = ["--request-id", id, &format!("--repeat={first_sent}"), "--endpoint", &endpoint, "--timeout", "300ms"];
    let words = words.into_iter().chain(["--api-key", "secret", "claim", "it's"]);
    let said = Tenure::new(home.path(), words).said().ends_with(7);
    assert!(said.err.contains(&again), "{said:?}");
    assert!(!said.err.contains("secret"), "{said:?}");
}

#[tokio::test]
async fn bench_measures_load_and_leaves_nothing_behind() {
    let mut world = World::start().await;
    // `handoff` needs different actors.
    let api_keys = ACTORS.map(|actor| fs::read_to_string(world.cluster().api_key_file_of(actor)).unwrap());
    fs::write(world.home.path().join("actors"), api_keys.join("\n")).unwrap();
    let words = "bench --callers 1,4 --seconds 200ms --items 300 --actors actors --json";
    let said = world.says(words);
    let cells: Vec<serde_json::Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let name =
        |cell: &serde_json::Value| (cell["workload"].as_str().unwrap().to_owned(), cell["callers"].as_u64().unwrap());
    let names: Vec<_> = cells.iter().map(name).collect();
    let expected = [("claim", 1), ("claim", 4), ("renew", 1), ("renew", 4), ("next", 1), ("next", 4), ("handoff", 4)];
    assert_eq!(names, expected.map(|(name, callers)| (name.to_owned(), callers)));
    for cell in &cells {
        assert_eq!(cell["errors"], 0, "{cell}: {said:?}");
        assert!(
            cell["operations"].as_u64().unwrap() > 0 && cell["p50_us"].as_u64() <= cell["p99_us"].as_u64(),
            "{cell}"
        );
    }
    let left = world.says("list --all").out;
    assert_eq!(left.lines().count(), 1, "{left}");
    let table = world.says("bench next --callers 2 --seconds 100ms --items 50");
    assert!(table.out.starts_with("WORKLOAD  CALLERS  PER SECOND"), "{table:?}");
}
