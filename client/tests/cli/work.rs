//! A worker that runs a command for each item.

use crate::world::{Said, World};
use api::claim::Grant;
use api::item::Item;
use client::api;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use test_support::until;

#[tokio::test]
async fn each_item_is_worked_on_once_and_failures_are_retried() {
    let world = World::start().await;
    let lines: String =
        (0..6).map(|nth| format!("{{\"id\": \"item-{nth}\", \"body\": {{\"prompt\": \"{nth}\"}}}}\n")).collect();
    world.says("queue policy ops --backoff-first 10ms");
    world.tenure(["add", "--queue", "ops"]).input(&lines).said().ends_with(0);
    // The third item fails the first time.
    let script =
        r#"cat > "$TENURE_ITEM.$TENURE_TOKEN"; [ "$TENURE_ITEM" != item-2 ] || [ -e tried ] || { : > tried; exit 9; }"#;
    let worker = world.tenure(["work", "ops", "--concurrency", "3", "--", "sh", "-c", script]);
    let worker = worker.env("TENURE", env!("CARGO_BIN_EXE_tenure")).begins();
    until("all are complete", async || {
        world.says("list --state complete --queue ops --json").value()["items"].as_array().unwrap().len() == 6
    })
    .await;
    kill_process(Pid::from_raw(worker.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let worker = Said::new(worker.wait_with_output().unwrap()).ends_with(0);
    assert!(worker.err.contains("exit code 9"), "{worker:?}");
    let mut runs = 0;
    for entry in fs::read_dir(world.home.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let Some((item, token)) = name.split_once('.').filter(|(item, _)| item.starts_with("item-")) else { continue };
        let grant: Grant = serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap();
        assert_eq!((grant.item.as_str(), grant.token.to_string().as_str()), (item, token));
        assert!(grant.snapshot.unwrap().content.body.unwrap().prompt.is_some());
        runs += 1;
    }
    assert_eq!(runs, 7, "six items, one of them twice");
}

#[tokio::test]
async fn the_output_of_a_command_becomes_the_result() {
    let world = World::start().await;
    world.adds("disk");
    world.adds("silent");
    let script = r#"[ "$TENURE_ITEM" = silent ] || { echo replaced; echo by eve; }"#;
    let worker = world.tenure(["work", "ops", "--result", "stdout", "--", "sh", "-c", script]).begins();
    until("both are complete", async || ["disk", "silent"].iter().all(|item| world.state(item) == "complete")).await;
    kill_process(Pid::from_raw(worker.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    Said::new(worker.wait_with_output().unwrap()).ends_with(0);
    let result =
        |item: &str| world.says_json::<Item>(&format!("show {item}")).content.body.and_then(|body| body.result);
    assert_eq!(result("disk").as_deref(), Some("replaced\nby eve"));
    assert_eq!(result("silent"), None);
}

#[tokio::test]
async fn a_stopping_worker_lets_running_commands_finish() {
    let world = World::start().await;
    world.adds("slow");
    world.adds("never");
    let script = r#": > began; until [ -e go ]; do sleep 0.02; done"#;
    let worker = world.tenure(["work", "ops", "--", "sh", "-c", script]).begins();
    until("it began", async || world.home.path().join("began").exists()).await;
    kill_process(Pid::from_raw(worker.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    fs::write(world.home.path().join("go"), "").unwrap();
    Said::new(worker.wait_with_output().unwrap()).ends_with(0);
    assert_eq!((world.state("slow").as_str(), world.state("never").as_str()), ("complete", "queued"));
}
