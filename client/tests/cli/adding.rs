//! Adding items: one by its options, or many as JSON lines.

use crate::world::World;
use api::item::Created;
use api::item::CreatedOf;
use client::api;
use expect_test::expect;
use std::fmt::Write as _;

#[tokio::test]
async fn adding_an_item_again_does_not_add_it_twice() {
    let world = World::start().await;
    world.says("add disk-42 --queue ops --priority 7 --label gpu").reads(&expect![[r#"
        disk-42 added: queued, revision 0.1
    "#]]);
    world.says("add disk-42 --queue ops --priority 7 --label gpu").reads(&expect![[r#"
        disk-42 exists already: queued, revision 0.1
    "#]]);
    let created: Created = world.says_json("add disk-43 --queue ops");
    assert!(created.created);
    let other = world.tenure(["add", "disk-42", "--queue", "other"]).said().ends_with(3);
    other.complains(&expect![[r#"
        tenure: already_exists: Item id already exists with different content
                `tenure show` shows the existing item; or choose another id
    "#]]);
}

#[tokio::test]
async fn an_item_has_the_given_fields() {
    let world = World::start().await;
    std::fs::write(world.home.path().join("how.txt"), "turn it\noff and on\n").unwrap();
    world
        .tenure(["add", "fix", "--queue", "ops", "--title", "it\u{1b}[31m broke", "--prompt", "mend it"])
        .said()
        .ends_with(0);
    let with_file = ["add", "fix-2", "--queue", "ops", "--data", "@how.txt", "--depends-on", "fix", "--phase", "work"];
    world.tenure(with_file).said().ends_with(0);
    world.says("show fix").reads(&expect![[r#"
        item      fix
        title     it�[31m broke
        queue     ops
        state     queued
        since     DATE, AWAY
        priority  5
        attempts  0
        revision  0.1
        created   DATE, AWAY by ada

        prompt
        mend it
    "#]]);
    world.says("show fix-2").reads(&expect![[r#"
        item        fix-2
        queue       ops
        state       pending
        since       DATE, AWAY
        priority    5
        phase       work
        depends on  fix
        waits for   one item that is not complete
        attempts    0
        revision    0.2
        created     DATE, AWAY by ada

        data
        turn it
        off and on
    "#]]);
    let shown: api::item::Item = world.says_json("show fix-2");
    assert_eq!(shown.content.body.unwrap().data.as_deref(), Some("turn it\noff and on\n"));
}

#[tokio::test]
async fn json_lines_are_added_in_order_and_each_gets_an_answer() {
    let world = World::start().await;
    let mut lines = String::new();
    for nth in 0..1_200 {
        // Each item except the first depends on the one before it, also across batches.
        let depends_on = if nth > 0 { format!(r#", "depends_on": ["item-{}"]"#, nth - 1) } else { String::new() };
        writeln!(lines, r#"{{"id": "item-{nth}"{depends_on}}}"#).unwrap();
    }
    let added = world.tenure(["add", "--queue", "many"]).input(&lines).said().ends_with(0);
    added.reads(&expect![[r#"
        1,200 added, 0 existed already, 0 refused
    "#]]);
    assert_eq!(added.err, "");
    let again = world.tenure(["add", "--queue", "many", "--json"]).input(&lines).said().ends_with(0);
    let answers: Vec<CreatedOf> = again.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 1_200);
    assert!(answers.iter().all(|answer| matches!(answer, CreatedOf::Created(created) if !created.created)));
}

#[tokio::test]
async fn refused_and_invalid_lines_are_reported_with_their_number() {
    let world = World::start().await;
    let lines = "{\"id\": \"a\"}\n\n{\"id\": \"a\", \"title\": \"another\"}\n{\"id\": \"b\"}\n";
    let said = world.tenure(["add", "--queue", "ops"]).input(lines).said().ends_with(3);
    said.reads(&expect![[r#"
        2 added, 0 existed already, 1 refused
    "#]]);
    said.complains(&expect![[r#"
        line 3: already_exists: Item id already exists with different content
    "#]]);
    let said = world.tenure(["add", "--queue", "ops"]).input("{\"id\": \"c\"}\n{\"it\": \"d\"}\n").said().ends_with(1);
    said.complains(&expect![[r#"
        tenure: line 2: unknown field `it`, expected one of `id`, `queue`, `title`, `priority`, `labels`, `needs`, `parent`, `target`, `depends_on`, `not_before`, `delay_ms`, `mode`, `local_owner`, `phase`, `body`
                earlier lines may have been added; adding them again is safe
    "#]]);
    let said = world.tenure(["add"]).input("{\"id\": \"c\"}\n").said().ends_with(1);
    said.complains(&expect![[r#"
        tenure: line 1: missing field `queue`
                earlier lines may have been added; adding them again is safe
    "#]]);
}
