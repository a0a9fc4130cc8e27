//! Writes with and without a lease, and the ends of work.

use crate::world::World;
use api::hold::{Assigned, Unassigned};
use api::item::Item;
use api::words::ItemState;
use api::write::{Cancelled, Moved, Updated};
use client::api;
use expect_test::expect;

#[tokio::test]
async fn updates_apply_to_the_revision_that_was_read() {
    let world = World::start().await;
    world.adds("disk");
    world.says("update disk --title new --priority 9 --labels a,b").reads(&expect![[r#"
        disk is at revision 0.2
    "#]]);
    let updated: Updated = world.says_json("update disk --labels= --plan first");
    assert!(updated.grant.is_none());
    let stale = world.tenure(["update", "disk", "--read-at", "0.1", "--title", "late"]).said().ends_with(3);
    stale.complains(&expect![[r#"
        tenure: stale_write: Item has changed since it was read; current revision: 0.3; changed: title, priority, labels, plan
                read the item again (`tenure show`) and repeat with --read-at and its revision
    "#]]);
    let shown: Item = world.says_json("show disk");
    assert_eq!((shown.content.title.as_str(), shown.content.labels.len()), ("new", 0));
    world.tenure(["update", "disk"]).said().ends_with(2).complains(&expect![[r#"
        tenure: invalid: body: changes nothing; name a field to change
                see the command's --help for the values that it accepts
    "#]]);
    let started: Updated = world.says_json("update disk --start");
    assert_eq!(started.grant.unwrap().token.0, 1);
    world.says("update disk 1 --title mine");
    world.tenure_as("bob", ["update", "disk", "--title", "his"]).said().ends_with(3);
}

#[tokio::test]
async fn work_is_completed_with_its_token_and_its_result() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    std::fs::write(world.home.path().join("result"), "all good").unwrap();
    world.says("complete disk 1 --result @result").reads(&expect![[r#"
        disk is complete, revision 0.3
    "#]]);
    let shown: Item = world.says_json("show disk");
    assert_eq!(shown.content.body.unwrap().result.as_deref(), Some("all good"));
    world.tenure(["complete", "disk", "1"]).said().ends_with(3).complains(&expect![[r#"
        tenure: terminal_item: Item is complete, failed or cancelled
                `tenure reopen` queues it again
    "#]]);
    world.says("reopen disk").reads(&expect![[r#"
        disk is queued, revision 0.3
    "#]]);
    world.claims("disk");
    world.tenure(["complete", "disk", "1"]).said().ends_with(5).complains(&expect![[r#"
        tenure: stale_token: The token's lease has ended or belongs to another caller
                stop the work on it; `tenure show` shows its current state
    "#]]);
    assert_eq!(world.says_json::<Moved>("complete disk 2").state, ItemState::Complete);
    assert_eq!(world.says_json::<Moved>("reopen disk").state, ItemState::Queued);
    world.tenure(["complete", "disk"]).said().ends_with(3).complains(&expect![[r#"
        tenure: lease_required: Only a holder may do this; claim the item first
                `tenure claim` the item first, and pass the fencing token after the item
    "#]]);
}

#[tokio::test]
async fn failed_work_is_retried_and_finally_blocked() {
    let world = World::start().await;
    world.says("queue policy ops --attempts-max 1");
    world.adds("disk");
    world.claims("disk");
    world.says("fail disk 1 --error smoke").reads(&expect![[r#"
        disk is blocked, revision 0.4
    "#]]);
    world.tenure(["claim", "disk"]).said().ends_with(3).complains(&expect![[r#"
        tenure: blocked: Item is blocked until an operator retries it
                `tenure show` shows why; `tenure retry` queues it again
    "#]]);
    world.says("retry disk").reads(&expect![[r#"
        disk is queued, revision 0.4
    "#]]);
    world.claims("disk");
    assert_eq!(world.says_json::<Moved>("fail disk 2 --final").state, ItemState::Error);
    assert_eq!(world.says_json::<Moved>("retry disk").state, ItemState::Queued);
}

#[tokio::test]
async fn items_are_cancelled_at_once_or_after_their_holder_stops() {
    let world = World::start().await;
    ["disk", "cable"].iter().for_each(|item| world.adds(item));
    world.says("cancel disk --reason obsolete").reads(&expect![[r#"
        disk is cancelled
    "#]]);
    world.claims("cable");
    let told = world.says("cancel cable");
    assert!(told.out.starts_with("cable is active: its holder is asked to stop, by "), "{told:?}");
    let renewed = world.says("renew cable 1");
    assert!(renewed.err.contains("cancellation requested"), "{renewed:?}");
    let forced: Cancelled = world.says_json("cancel cable --force");
    assert_eq!(forced.state, ItemState::Cancelled);
}

#[tokio::test]
async fn an_item_is_assigned_and_unassigned() {
    let world = World::start().await;
    world.adds("disk");
    world.says("assign disk bob").reads(&expect![[r#"
        disk is assigned to bob
    "#]]);
    assert_eq!(world.says_json::<Assigned>("assign disk eve").actor.as_str(), "eve");
    world.says("unassign disk eve").reads(&expect![[r#"
        disk is no longer assigned to eve
    "#]]);
    world.says("unassign disk eve").reads(&expect![[r#"
        disk was not assigned to eve
    "#]]);
    assert!(!world.says_json::<Unassigned>("unassign disk eve").unassigned);
}

#[tokio::test]
async fn activities_are_reported_and_listed() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    world.says("activity disk 1 --note half").reads(&expect![[r#"
        disk is active, revision 0.1
    "#]]);
    let moved: Moved = world.says_json("activity disk 1 --kind plan_updated --note slowly");
    assert_eq!(moved.state, ItemState::Active);
    world.says("await-input disk 1 --question really?").reads(&expect![[r#"
        disk is awaiting_input, revision 0.4
    "#]]);
    world.says("resume disk 1").reads(&expect![[r#"
        disk is active, revision 0.4
    "#]]);
    assert_eq!(world.says_json::<Moved>("await-input disk 1 --question sure?").state, ItemState::AwaitingInput);
    assert_eq!(world.says_json::<Moved>("resume disk 1").state, ItemState::Active);
    world.says("show disk --activities").reads(&expect![[r#"
        AT  KIND  BY  NOTE
        DATE  progress        ada  half
        DATE  plan_updated    ada  slowly
        DATE  awaiting_input  ada  really?
        DATE  awaiting_input  ada  sure?
    "#]]);
    world.says("hand-on disk 1 --phase review").reads(&expect![[r#"
        disk is queued, revision 0.9
    "#]]);
    world.claims("disk");
    assert_eq!(world.says_json::<Moved>("hand-on disk 2 --phase work").state, ItemState::Queued);
}
