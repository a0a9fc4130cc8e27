//! A command under a lease: its environment, how it ends, and that none of its processes outlives the lease.

use crate::world::{Said, Tenure, World};
use client::api::dates::Date;
use expect_test::expect;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use test_support::cluster::Cluster;
use test_support::until;

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default()
}

#[tokio::test]
async fn a_command_knows_its_item_its_token_and_its_holder() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    world.says("release disk");
    let script = r#"echo "$TENURE_ITEM $TENURE_TOKEN $TENURE_QUEUE $TENURE_LEASE_MS"; date -d "$TENURE_VALID_UNTIL" > /dev/null && "$TENURE" renew --for 1m"#;
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let words = ["exec", "disk", "--for", "30s", "--pass-credential", "--", "sh", "-c", script];
    let said = world.tenure(words).env("TENURE", tenure).said().ends_with(0);
    said.reads(&expect![[r#"
        disk 2 ops 30000
        disk is yours for 1m, token 2
    "#]]);
    assert_eq!(world.state("disk"), "queued");
}

#[tokio::test]
async fn a_command_gets_the_api_key_only_with_pass_credential() {
    let world = World::start().await;
    ["disk", "first", "second"].iter().for_each(|item| world.adds(item));
    let script = "env | grep -E '^TENURE_(API_KEY|API_KEY_FILE)=' || true";
    let exec = |asked: &[&str]| world.tenure([&["exec", "disk"], asked, &["--", "sh", "-c", script]].concat());
    let given = exec(&["--pass-credential"]).said().ends_with(0).out;
    let api_key = given.strip_prefix("TENURE_API_KEY=").unwrap().trim_end();
    assert!(api_key.len() > 10 && !api_key.contains('\n'), "{given}");
    let by_variable = |tenure: Tenure| tenure.without("TENURE_API_KEY_FILE").env("TENURE_API_KEY", api_key);
    assert_eq!(by_variable(exec(&["--pass-credential"])).said().ends_with(0).out, given);
    assert_eq!(exec(&[]).said().ends_with(0).out, "");
    assert_eq!(by_variable(exec(&[])).said().ends_with(0).out, "");
    // The command stops its worker after it has read the environment.
    let work = |label: &str, asked: &[&str]| {
        let script = format!("env | grep -E '^TENURE_(API_KEY|API_KEY_FILE)=' > {label}.found; kill $PPID");
        by_variable(world.tenure([&["work", "ops"], asked, &["--", "sh", "-c", &script]].concat())).said().ends_with(0);
        read(world.home.path(), &format!("{label}.found"))
    };
    assert_eq!(work("without", &[]), "");
    assert_eq!(work("with", &["--pass-credential"]), given);
}

#[tokio::test]
async fn a_lease_claimed_by_hand_is_taken_over_and_one_of_a_session_is_not() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    world.tenure(["exec", "disk", "--", "true"]).said().ends_with(0).complains(&expect![[r#"
        taking over the lease that you claimed by hand
    "#]]);
    world.says("--session other claim disk");
    world.tenure(["exec", "disk", "--", "true"]).said().ends_with(3).complains(&expect![[r#"
        tenure: held_by_your_other_session: Item is held by another session of the same actor
                pass --takeover to end that lease, or --session to use its session
    "#]]);
}

#[tokio::test]
async fn the_exit_code_of_a_command_is_passed_on() {
    let world = World::start().await;
    world.adds("disk");
    world.tenure(["exec", "disk", "--", "sh", "-c", "exit 42"]).said().ends_with(42);
    world.tenure(["exec", "disk", "--", "sh", "-c", "kill -9 $$"]).said().ends_with(137);
    world.tenure(["exec", "disk", "--", "/no/such/command"]).said().ends_with(127);
    world.tenure(["exec", "disk", "--", "/"]).said().ends_with(126);
    assert_eq!(world.state("disk"), "queued");
    world.tenure(["exec", "none", "--", "true"]).said().ends_with(4);
    world.claims("disk");
    let bob = world.tenure_as("bob", ["exec", "disk", "--", "touch", "ran"]).said().ends_with(3);
    assert!(bob.err.contains("held by ada"), "{bob:?}");
    assert!(!world.home.path().join("ran").exists());
}

#[tokio::test]
async fn the_caller_chooses_what_happens_to_the_item() {
    let world = World::start().await;
    ["disk", "cable"].iter().for_each(|item| world.adds(item));
    let script = r#""$TENURE" activity --note half"#;
    let words = ["exec", "disk", "--complete", "--fail-on-error", "--pass-credential", "--", "sh", "-c", script];
    world.tenure(words).env("TENURE", env!("CARGO_BIN_EXE_tenure")).said().ends_with(0);
    assert_eq!(world.state("disk"), "complete");
    world.tenure(["exec", "cable", "--complete", "--fail-on-error", "--", "false"]).said().ends_with(1);
    assert_eq!(world.state("cable"), "pending");
}

#[tokio::test]
async fn a_command_waits_in_line_for_its_item() {
    let world = World::start().await;
    world.adds("disk");
    world.claims("disk");
    let bob = world.tenure_as("bob", ["exec", "disk", "--wait", "--", "echo", "granted"]).begins();
    until("bob waits", async || world.says("line disk --json").out.contains("bob")).await;
    world.says("release disk");
    assert_eq!(Said::new(bob.wait_with_output().unwrap()).ends_with(0).out, "granted\n");
}

#[tokio::test]
async fn a_signal_is_passed_on_to_the_command() {
    let world = World::start().await;
    world.adds("disk");
    let script = "trap 'exit 7' TERM; : > began; while :; do sleep 0.02; done";
    let child = world.tenure(["exec", "disk", "--", "sh", "-c", script]).begins();
    until("it began", async || world.home.path().join("began").exists()).await;
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    Said::new(child.wait_with_output().unwrap()).ends_with(7);
    assert_eq!(world.state("disk"), "queued");
}

#[tokio::test]
async fn a_command_whose_lease_is_taken_away_is_stopped() {
    let world = World::start().await;
    world.adds("disk");
    let script = ": > began; while :; do sleep 0.02; done";
    let child = world.tenure(["exec", "disk", "--for", "3s", "--", "sh", "-c", script]).begins();
    until("it began", async || world.home.path().join("began").exists()).await;
    world.tenure_as("boss", ["revoke", "disk", "--reason", "maintenance"]).said().ends_with(0);
    let said = Said::new(child.wait_with_output().unwrap()).ends_with(5);
    assert!(said.err.contains("lost"), "{said:?}");
}

#[tokio::test]
async fn background_processes_of_a_command_do_not_outlive_the_lease() {
    let world = World::start().await;
    world.adds("disk");
    let script = "(trap '' TERM HUP; for i in $(seq 3000); do sleep 0.02; done) > /dev/null 2>&1 & echo $! > left";
    world.tenure(["exec", "disk", "--", "sh", "-c", script]).said().ends_with(0);
    let left = read(world.home.path(), "left");
    until("it is gone", async || !runs(left.trim())).await;
}

/// Whether a process runs. A zombie does not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// The time at which a process last wrote a beat, in milliseconds since 1970.
fn last_beat(folder: &Path, name: &str) -> u64 {
    let beats = read(folder, name);
    // The last line may be incomplete.
    beats.lines().rev().find(|line| line.len() == 13).map(|line| line.parse().unwrap()).unwrap()
}

#[tokio::test]
async fn a_command_is_gone_before_an_unrenewed_lease_ends() {
    let mut cluster = Cluster::start().await;
    Tenure::of(&cluster, ["add", "disk", "--queue", "ops"]).said().ends_with(0);
    // The command and a child of it both ignore SIGTERM and write beats all the time. They end by themselves and hold
    // no pipe open, so that this test cannot hang.
    let beats = r#"beats() { for i in $(seq 3000); do date +%s%3N >> "$1"; sleep 0.01; done; }; trap '' TERM HUP; "#;
    let script =
        format!("exec > /dev/null 2>&1; {beats} (trap '' TERM HUP; beats grandchild) & echo $! > pid; beats child");
    let exec = Tenure::of(&cluster, ["exec", "disk", "--for", "4s", "--", "bash", "-c", &script]).begins();
    let folder = cluster.folder().to_owned();
    until("both live", async || !read(&folder, "child").is_empty() && !read(&folder, "grandchild").is_empty()).await;
    cluster.kill_all();
    let said = Said::new(exec.wait_with_output().unwrap()).ends_with(5);
    assert!(!runs(read(&folder, "pid").trim()), "the grandchild is there: {said:?}");
    let told = said.err.lines().find(|line| line.contains("could not be renewed")).unwrap();
    let valid_until: Date = told.rsplit(' ').next().unwrap().parse().unwrap();
    for name in ["child", "grandchild"] {
        let last = last_beat(&folder, name);
        assert!(last < valid_until.0.0, "{name} at {last}, the lease until {}: {said:?}", valid_until.0.0);
    }
}
