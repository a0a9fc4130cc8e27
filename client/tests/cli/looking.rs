//! Lists, events and the live view.

use crate::world::World;
use api::event::Event;
use api::item::{Activities, Carrying, Item, ItemPage};
use client::api;
use expect_test::expect;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use test_support::until;

#[tokio::test]
async fn items_are_listed_in_pages_and_by_filter() {
    let world = World::start().await;
    let lines: String = (0..5).map(|nth| format!("{{\"id\": \"item-{nth}\"}}\n")).collect();
    world.tenure(["add", "--queue", "ops"]).input(&lines).said().ends_with(0);
    world.claims("item-1");
    let page = world.says("list --limit 2");
    page.reads(&expect![[r#"
        ITEM  QUEUE  STATE  PRIO  HELD BY  LINE  SINCE  TITLE
        item-0  ops    queued  5                    DATE
        item-1  ops    active  5     ada            DATE
    "#]]);
    // The cursor is opaque and is passed back unchanged.
    let cursor = page.err.trim_end().strip_prefix("more results: pass --all, or --cursor ").unwrap();
    assert!(cursor.len() > 200 && cursor.bytes().all(|byte| byte.is_ascii_hexdigit()), "{page:?}");
    assert!(world.says(&format!("list --limit 2 --cursor {cursor}")).out.contains("item-2"));
    world.says("list --limit 2 --all --queue ops").reads(&expect![[r#"
        ITEM  QUEUE  STATE  PRIO  HELD BY  LINE  SINCE  TITLE
        item-0  ops    queued  5                    DATE
        item-1  ops    active  5     ada            DATE
        item-2  ops    queued  5                    DATE
        item-3  ops    queued  5                    DATE
        item-4  ops    queued  5                    DATE
    "#]]);
    world.says("list --claim claimed").reads(&expect![[r#"
        ITEM  QUEUE  STATE  PRIO  HELD BY  LINE  SINCE  TITLE
        item-1  ops    active  5     ada            DATE
    "#]]);
    world.says("list --state blocked").reads(&expect![[r#"
        ITEM  QUEUE  STATE  PRIO  HELD BY  LINE  SINCE  TITLE
    "#]]);
    let pages = world.says("list --limit 2 --all --json");
    let pages: Vec<ItemPage> = pages.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(pages.iter().map(|page| page.items.len()).sum::<usize>(), 5);
    world.tenure(["list", "--state", "asleep"]).said().ends_with(2);
}

#[tokio::test]
async fn an_item_is_shown_with_who_holds_it() {
    let world = World::start().await;
    world.adds("disk");
    world.tenure(["claim", "disk", "--action", "rotating the\u{7} log"]).said().ends_with(0);
    world.says("show disk").reads(&expect![[r#"
        item         disk
        queue        ops
        state        active
        since        DATE, AWAY
        priority     5
        attempts     0
        revision     0.1
        assigned to  ada
        held by      ada
        held until   DATE, AWAY
        doing        rotating the� log
        your token   1
        claimed      DATE, AWAY
        created      DATE, AWAY by ada
    "#]]);
    // A node's own state may be a moment behind.
    until("it is there", async || world.tenure_as("bob", ["show", "disk", "--local"]).said().code == 0).await;
    assert!(world.says_json::<Item>("show disk").claimed);
    world.says("release disk");
    world.says("show disk --free");
    world.says("show disk --activities").reads(&expect![[r#"
        AT  KIND  BY  NOTE
    "#]]);
    assert!(world.says_json::<Activities>("show disk --activities").activities.is_empty());
}

#[tokio::test]
async fn mine_shows_items_with_their_tokens() {
    let world = World::start().await;
    ["disk", "cable", "rack"].iter().for_each(|item| world.adds(item));
    world.claims("disk");
    world.says("assign cable ada");
    world.claims("rack");
    world.says("reserve rack 2 --for 1h");
    world.says("mine").reads(&expect![[r#"
        ITEM  QUEUE  AS  TOKEN  UNTIL  SESSION  TITLE
        disk   ops    leased    1      DATE, AWAY
        rack   ops    reserved         DATE, AWAY
        cable  ops    assigned
    "#]]);
    world.says("--actor bob mine --of ada").reads(&expect![[r#"
        ITEM  QUEUE  AS  TOKEN  UNTIL  SESSION  TITLE
        disk   ops    leased    1      DATE, AWAY
        rack   ops    reserved         DATE, AWAY
        cable  ops    assigned
    "#]]);
    world.says("list --holder ada").reads(&expect![[r#"
        ITEM  QUEUE  STATE  PRIO  HELD BY  LINE  SINCE  TITLE
        disk  ops    active  5     ada            DATE
    "#]]);
    let carrying: Carrying = world.says_json("mine");
    assert_eq!((carrying.leased.len(), carrying.reserved.len()), (1, 1));
}

#[tokio::test]
async fn events_are_shown_from_the_start_from_a_number_and_as_they_come() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    world.says("watch --from start --no-follow").reads(&expect![[r#"
        DATE  0.1  created  disk  in ops  by ada
        DATE  0.2  granted  disk  in ops  of ada  token 1  by ada
    "#]]);
    world.says("watch --from 0.1 --no-follow").reads(&expect![[r#"
        DATE  0.2  granted  disk  in ops  of ada  token 1  by ada
    "#]]);
    let all = world.says("watch --from start --no-follow --json");
    let all: Vec<Event> = all.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(all.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["created", "granted"]);

    let mut watch = world.tenure(["watch", "--from", "start", "--item", "disk", "--json"]).begins();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Event>(&lines.next().unwrap().unwrap()).unwrap().kind;
    assert_eq!([next(), next()], ["created", "granted"]);
    world.adds("other");
    world.says("release disk");
    assert_eq!(next(), "released");
    watch.kill().unwrap();
    watch.wait().unwrap();
    world.tenure(["watch", "--from", "soon"]).said().ends_with(2);
}

#[tokio::test]
async fn top_once_works_for_people_and_programs() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    // The view shows what the asked node has applied, which may be slightly behind.
    let mut seen = String::new();
    until("it is seen", async || {
        seen = world.says("top --once").out;
        seen.contains("disk")
    })
    .await;
    for word in ["NODE", "leader", "QUEUE", "ops", "HELD", "disk", "ada"] {
        assert!(seen.contains(word), "{word}: {seen}");
    }
    assert_eq!(seen.matches("follower").count(), 2, "{seen}");
    assert!(!seen.contains('\u{1b}'), "{seen:?}");
    let mut seen = serde_json::Value::Null;
    until("it is seen", async || {
        seen = world.says("top --once --json").value();
        seen["leases"]["items"][0]["id"] == "disk"
    })
    .await;
    assert_eq!(seen["queues"]["queues"][0]["queue"], "ops");
}

#[tokio::test]
async fn a_closed_pipe_is_not_a_failure() {
    let world = World::start().await;
    let lines: String = (0..2_000).map(|nth| format!("{{\"id\": \"item-{nth}\"}}\n")).collect();
    world.tenure(["add", "--queue", "ops"]).input(&lines).said().ends_with(0);
    let mut list = world.tenure(["list", "--all", "--json"]).begins();
    let head = Command::new("head").arg("-c1").stdin(list.stdout.take().unwrap()).stdout(Stdio::null()).status();
    assert!(head.unwrap().success());
    let list = crate::world::Said::new(list.wait_with_output().unwrap()).ends_with(0);
    assert_eq!(list.err, "");
}
