//! Runs every call that needs no cluster once, to check that client and node agree on its format.

use client::api::Code;
use client::api::claim::{Claim, ClaimOf, Claimed, Claims, Dispatched, Next, OnConflict};
use client::api::hold::{Extend, RenewAll, Reserve, Revoke};
use client::api::item::NewItems;
use client::api::queue::PolicyChange;
use client::api::words::{ActivityKind, Flow, ItemState};
use client::api::worker::WorkerName;
use client::api::write::{Cancel, Update};
use client::names::ActorId;
use client::{Consistency, EventsQuery, IfClaimed, ItemsQuery, PageQuery, PeekQuery, StreamQuery};
use std::time::Duration;
use test_support::daemon::{Daemon, create, item, queue};
use test_support::until;

#[tokio::test(flavor = "multi_thread")]
async fn every_reply_is_decoded() {
    let daemon = Daemon::start().await;
    let client = daemon.client("ada");
    let mut watch = client.watch(&StreamQuery::default()).await.unwrap();
    let disk = create(&client, "disk/1 ä").await;
    assert_eq!(watch.next().await.unwrap().unwrap().item, Some(disk.clone()));
    assert!(client.create_many(&NewItems { items: Vec::new() }).await.is_err());
    let listed = client.items(&ItemsQuery { queue: Some(queue()), ..ItemsQuery::default() }).await.unwrap();
    assert_eq!(listed.items[0].id, disk);
    let shown = client.item(&disk).reply().await.unwrap();
    assert_eq!(shown.revision, Some(shown.value.revision));
    assert!(client.item_locally(&disk).reply().await.unwrap().age.is_some());
    assert_eq!(client.item_if(&disk, IfClaimed::Fail).await.unwrap().state, ItemState::Queued);
    let peeked = PeekQuery { consistency: Consistency::Local, ..PeekQuery::default() };
    assert_eq!(client.peek(&queue(), &peeked).await.unwrap().items.len(), 1);
    let update = Update { priority: Some(7), read_at: Some(shown.value.revision), ..Update::default() };
    assert_ne!(client.update(&disk, &update).await.unwrap().revision, shown.value.revision);
    let stale = client.update(&disk, &update).await.unwrap_err();
    assert_eq!(stale.code(), Some(Code::StaleWrite));

    let Dispatched::Granted { grants } = client.next(&queue(), &Next::default()).await.unwrap() else {
        panic!("nothing was given")
    };
    let token = grants[0].token;
    let extended = client.extend(&disk, &Extend { token, for_ms: 1_000_000 }).await.unwrap();
    assert!(!extended.capped);
    assert_eq!(client.renew_all(&RenewAll::default()).await.unwrap().renewed, 1);
    let bob = daemon.client("bob");
    let wish = Claim { on_conflict: OnConflict::Wait, poll_ms: Some(1), ..Default::default() };
    assert!(matches!(bob.request_claim(&disk, &wish).await.unwrap(), Claimed::Waiting(_)));
    assert_eq!(client.line(&disk).await.unwrap().places.len(), 1);
    assert_eq!(client.reorder(&disk, &[ActorId::new("bob").unwrap()]).await.unwrap().line_length, 1);
    assert!(bob.withdraw(&disk).await.unwrap().withdrawn);
    assert_eq!(client.claim_summary(&disk).await.unwrap().active, 1);
    assert_eq!(client.carrying(None).await.unwrap().leased.len(), 1);
    let reserved = client.reserve(&disk, &Reserve { token, for_ms: Some(60_000) }).await.unwrap();
    assert_eq!(reserved.state, ItemState::Reserved);
    let now = client.events(&EventsQuery::default()).await.unwrap().events.last().unwrap().at_ms;
    assert!(!client.held_at(&disk, now).await.unwrap().held);

    let lease = client.claim(&disk).lease_for(Duration::from_secs(30)).try_claim().await.unwrap();
    assert_eq!(lease.snapshot().await.unwrap().content.priority, 7);
    let plan = Update { title: Some("new".into()), ..Update::default() };
    lease.update(plan).await.unwrap();
    lease.activity(ActivityKind::Progress, "half").await.unwrap();
    assert_eq!(client.activities(&disk).await.unwrap().activities.len(), 1);
    lease.await_input("which?").await.unwrap();
    lease.resume().await.unwrap();
    lease.extend(Duration::from_secs(60)).await.unwrap();
    assert!(lease.remaining() > Duration::from_secs(50));
    lease.complete(Some("done".into())).await.unwrap();
    assert_eq!(client.item(&disk).await.unwrap().state, ItemState::Complete);
    client.reopen(&disk).await.unwrap();
    let ada = ActorId::new("ada").unwrap();
    assert_eq!(client.assign(&disk, &ada).await.unwrap().actor, ada);
    assert!(client.unassign(&disk, &ada).await.unwrap().unassigned);
    let many =
        Claims { claims: vec![claim_of("disk/1 ä"), claim_of("nothing")], releases: Vec::new(), all_or_none: false };
    let many = client.claim_many(&many).await.unwrap();
    assert!(matches!(many.claims[..], [Claimed::Granted(_), Claimed::Refused { .. }]));
    let revoke = Revoke { reason: "test".into(), assign_to: None };
    assert!(client.revoke(&disk, &revoke).await.unwrap().revoked);
    let cancel = Cancel { reason: "test".into(), force: false };
    assert_eq!(client.cancel(&disk, &cancel).await.unwrap().state, ItemState::Cancelled);
    assert_eq!(client.retry(&disk).await.unwrap_err().code(), Some(Code::WrongState));

    let change = PolicyChange { lease_for_ms: Some(20_000), ..PolicyChange::default() };
    client.set_policy(&queue(), &change).await.unwrap();
    assert_eq!(client.queue(&queue()).await.unwrap().policy.lease_for_ms, 20_000);
    assert_eq!(client.queues(&PageQuery::default()).await.unwrap().queues.len(), 1);
    assert_eq!(client.pause(&queue()).await.unwrap().flow, Flow::Paused);
    assert_eq!(client.unpause(&queue()).await.unwrap().flow, Flow::Open);
    client.drain_queue(&queue()).await.unwrap();
    let space = client.space().await.unwrap();
    assert_eq!(space.created, 1);
    client.set_space_policy(&space.policy).await.unwrap();
    assert!(client.workers(&PageQuery::default()).await.unwrap().workers.is_empty());
    let worker = WorkerName { actor: ada, session: client.session().cloned() };
    assert!(!client.drain_worker(&worker).await.unwrap().known);
    assert!(!client.remove_worker(&worker).await.unwrap().removed);

    let status = client.cluster().await.unwrap();
    assert_eq!((status.members.len(), status.activated), (1, true));
    assert_eq!(client.raise_rules(status.rules_version).await.unwrap().version, status.rules_version);
    assert!(client.activate().await.is_ok());
    let node = client.node(client.endpoints()[0].clone());
    assert!(node.metrics().await.unwrap().contains("tenure"));
    assert_eq!(node.snapshot().await.unwrap().node, status.node);
    let mut backup = client.backup().await.unwrap();
    let mut bytes = 0;
    while let Some(chunk) = backup.chunk().await.unwrap() {
        bytes += chunk.len();
    }
    assert!(bytes > 0 && backup.name().unwrap().ends_with(".backup"));
    assert_eq!(client.remove_member(77).await.unwrap().node, 77);
    assert!(node.drain().await.unwrap().draining && !node.undrain().await.unwrap().draining);
}

fn claim_of(name: &str) -> ClaimOf {
    ClaimOf {
        item: item(name),
        lease_for_ms: None,
        action: None,
        field: None,
        on_conflict: OnConflict::Fail,
        wait_for_ms: None,
        line_max: None,
        takeover: false,
        mirrors: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_stream_survives_a_killed_node() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client("ada");
    create(&client, "item-0").await;
    let from_the_first = StreamQuery { after: "0.0".parse().ok(), ..StreamQuery::default() };
    let mut watch = client.watch(&from_the_first).await.unwrap();
    let reading = tokio::spawn(async move {
        let mut created = Vec::new();
        while created.len() < 6 {
            let event = watch.next().await.unwrap().unwrap();
            created.extend((event.kind == "created").then(|| event.item.unwrap().to_string()));
        }
        created
    });
    for number in 1..6 {
        daemon.kill();
        daemon.again().await;
        create(&client, &format!("item-{number}")).await;
    }
    until("every event was seen", async || reading.is_finished()).await;
    let names: Vec<String> = (0..6).map(|number| format!("item-{number}")).collect();
    assert_eq!(reading.await.unwrap(), names);
}
