//! The metrics of a running node, and what they must not contain.

use crate::world::{World, quick, request};
use lease::command::{Activity, OnConflict};
use lease::item::{ActivityKind, NewItem, Part};
use lease::names::{ActorId, ItemId, Label, Phase, QueueName, SessionId, SpaceName};
use lease::numbers::Span;
use lease::{Command, Outcome};
use node::observe::{metrics, scrape};
use node::replica::node::RaftSettings;
use std::collections::BTreeSet;
use test_support::fleet::{self, claim, create};
use test_support::{LIMIT, until, within};

fn render(world: &World, node: u64) -> String {
    let daemon = &world.daemons[&node];
    scrape::render(daemon.metrics(), daemon.node(), daemon.log())
}

/// The value of the series with this name and these labels.
fn value(text: &str, series: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

/// Every family's name.
fn names(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| Some(line.strip_prefix("# HELP ")?.split_once(' ')?.0.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_contain_no_caller_text_except_queue_names() {
    const CANARY: &str = "canary";
    let world = World::of(1).await;
    let mut new = NewItem::new(ItemId::new("canary-item").unwrap(), fleet::queue());
    new.title = "canary-title".into();
    new.labels = vec![Label::new("canary-label").unwrap()];
    new.phase = Some(Phase::new("canary-phase").unwrap());
    new.body = vec![(Part::Plan, "canary-body".into())];
    let mut created = request("canary-actor", Command::Create(Box::new(new)));
    created.caller.session = Some(SessionId::new("canary-session").unwrap());
    created.caller.parent = Some(ActorId::new("canary-parent").unwrap());
    let mut claimed = created.clone();
    claimed.request_id = lease::names::RequestId::new("canary-request").unwrap();
    claimed.command = claim("canary-item", Span::secs(60));
    let mut noted = created.clone();
    noted.request_id = lease::names::RequestId::new("canary-request-2").unwrap();
    noted.command = Command::Activity(Activity {
        write: fleet::write("canary-item", None),
        kind: ActivityKind::Progress,
        note: "canary-note".into(),
    });
    let mut waited = request("canary-waiter", claim("canary-item", Span::secs(60)));
    if let Command::Claim(claim) = &mut waited.command {
        claim.on_conflict = OnConflict::Wait { wait_for: None, line_max: None };
    }
    for request in [created, claimed, noted, waited] {
        let name = request.command.name();
        let outcome = crate::world::ask(world.node(1), request).await;
        let code = if let Outcome::Refused(refusal) = &outcome { refusal.code().name() } else { metrics::OK };
        world.daemons[&1].metrics().call(name, code, LIMIT);
    }
    let text = render(&world, 1);
    assert_eq!(value(&text, "tenure_leases"), 1.0);
    assert_eq!(value(&text, "tenure_waiting_claims"), 1.0);
    assert_eq!(value(&text, "tenure_items{state=\"active\"}"), 1.0);
    assert_eq!(value(&text, "tenure_events_total{kind=\"granted\"}"), 1.0);
    assert_eq!(value(&text, "tenure_queue_waiting_claims{space=\"default\",queue=\"work\"}"), 1.0);
    assert!(!text.contains(CANARY), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_hundred_of_three_hundred_queues_are_named_and_the_rest_is_summed() {
    let world = World::of(1).await;
    let create_in = |number: u32| {
        let queue = QueueName::new(&format!("queue-{number:03}")).unwrap();
        let mut wanted = request("ada", create(&format!("item-{number}")));
        if let Command::Create(new) = &mut wanted.command {
            new.queue = queue;
        }
        if number.is_multiple_of(2) {
            wanted.space = SpaceName::new("another").unwrap();
        }
        wanted
    };
    let requests: Vec<_> = (0..300).map(create_in).collect();
    let outcomes = within("all are created", world.node(1).submit(requests, LIMIT)).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Created { .. })), "{outcomes:?}");
    let text = render(&world, 1);
    assert_eq!(value(&text, "tenure_queues"), 300.0);
    assert_eq!(value(&text, "tenure_items{state=\"queued\"}"), 300.0);
    let named: BTreeSet<&str> = text.lines().filter(|line| line.starts_with("tenure_queue_leases{")).collect();
    assert_eq!(named.len(), 101);
    assert_eq!(value(&text, "tenure_queue_items{space=\"\",queue=\"other\",state=\"queued\"}"), 200.0);
    // The first by space and name, whichever came first.
    assert_eq!(value(&text, "tenure_queue_ready_items{space=\"another\",queue=\"queue-198\"}"), 1.0);
    assert!(!text.contains("queue-200") && !text.contains("queue-001"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_show_lag_snapshots_and_forwarded_commands() {
    let raft = RaftSettings { snapshot_every: 30, entries_kept: 5, ..quick() };
    let mut world = World::with(3, raft).await;
    let follower = world.follower().await;
    world.kill(follower).await;
    let leader = world.leader().await;
    for number in 0..150 {
        world.ask(leader, "ada", create(&format!("item-{number}"))).await;
    }
    until("the leader has purged what the follower lacks", async || {
        value(&render(&world, leader), "tenure_raft_purged_index") > 60.0
    })
    .await;
    let behind = render(&world, leader);
    assert!(value(&behind, &format!("tenure_raft_member_lag_entries{{node=\"{follower}\"}}")) > 100.0);
    world.restart(follower).await;
    world.agree().await;
    // The follower has installed it before its answer has arrived.
    until("the leader knows that it was installed", async || {
        value(&render(&world, leader), "tenure_snapshots_sent_total") >= 1.0
    })
    .await;
    let (leads, follows) = (render(&world, leader), render(&world, follower));
    let role = |text: &str, role: &str| value(text, &format!("tenure_raft_role{{role=\"{role}\"}}"));
    assert_eq!((role(&leads, "leader"), role(&leads, "follower")), (1.0, 0.0));
    assert_eq!((role(&follows, "leader"), role(&follows, "follower")), (0.0, 1.0));
    assert!(value(&leads, "tenure_snapshots_taken_total") >= 1.0);
    assert!(value(&follows, "tenure_snapshots_installed_total") >= 1.0);
    assert!(value(&leads, "tenure_proposed_commands_total") >= 150.0);
    assert!(value(&leads, "tenure_commit_seconds_count") >= 150.0);
    assert!(value(&leads, "tenure_log_sync_seconds_count") >= 150.0);
    assert!(value(&leads, "tenure_log_written_bytes_total") > 1_000.0);
    assert_eq!(value(&leads, "tenure_raft_members{kind=\"voter\"}"), 3.0);
    for text in [&leads, &follows] {
        assert_eq!(value(text, "tenure_items{state=\"queued\"}"), 150.0);
        assert_eq!(value(text, "tenure_raft_leader_known"), 1.0);
        assert_eq!(value(text, "tenure_failed"), 0.0);
        for part in ["log", "state", "snapshots"] {
            assert!(value(text, &format!("tenure_disk_used_bytes{{part=\"{part}\"}}")) > 0.0, "{part}");
        }
    }
    world.ask(follower, "ada", create("sent-on")).await;
    assert!(value(&render(&world, follower), "tenure_forwarded_commands_total") >= 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_leader_has_every_metric_that_the_document_lists() {
    let world = World::of(2).await;
    let leader = world.leader().await;
    let metrics = world.daemons[&leader].metrics().clone();
    // What the edge counts.
    metrics.call("list", "not_found", LIMIT);
    metrics.shed("memory");
    metrics.auth_failed("unknown");
    until("a majority has answered", async || {
        names(&render(&world, leader)).contains("tenure_raft_quorum_acked_age_seconds")
    })
    .await;
    let rendered = names(&render(&world, leader));
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/METRICS.md")).unwrap();
    let listed: BTreeSet<String> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `tenure_")?.split_once('`'))
        .map(|(name, _)| format!("tenure_{}", name.strip_suffix("_total").unwrap_or(name)))
        .collect();
    assert_eq!(rendered, listed);
}
