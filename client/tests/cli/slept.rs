//! A machine that slept: its clock jumps an hour ahead. Its leases may belong to others by then, so the work stops at
//! once and nothing is renewed.

use crate::world::{Tenure, World, ended};
use client::Lost;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use test_support::daemon::{Daemon, client_at, create, item};
use test_support::proxy::{Fate, Proxy};
use test_support::until;

/// Longer than any test waits, and shorter than the sleep.
const LEASE: Duration = Duration::from_mins(30);
const SLEEP_SECONDS: i64 = 3_600;
/// The variable with the node's address, for the program that the test starts.
const NODE: &str = "TENURE_TEST_SLEEPS_BESIDE";

/// A machine whose processes can be put to sleep.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(machine.shift(), 0_i64.to_ne_bytes()).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shims/boottime.c");
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(machine.shim()).arg(source).output();
        let compiled = compiled.unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        machine
    }

    fn shim(&self) -> PathBuf {
        self.folder.path().join("boottime.so")
    }

    fn shift(&self) -> PathBuf {
        self.folder.path().join("shift")
    }

    fn runs(&self, tenure: Tenure) -> Tenure {
        tenure.env("LD_PRELOAD", self.shim()).env("BOOTTIME_SHIFT", self.shift())
    }

    /// Writes in place, because the processes map this file.
    fn sleeps(&self) {
        let mut file = fs::OpenOptions::new().write(true).open(self.shift()).unwrap();
        file.write_all(&SLEEP_SECONDS.to_ne_bytes()).unwrap();
    }
}

/// A node, and a proxy that records every request to it.
async fn way() -> (World, Proxy) {
    let world = World::development().await;
    let proxy = Proxy::start(world.daemon().address, |_| Fate::Passes).await;
    (world, proxy)
}

fn lines(folder: &Path, name: &str) -> Vec<String> {
    fs::read_to_string(folder.join(name)).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[track_caller]
fn nothing_was_renewed(proxy: &Proxy) {
    let requests = proxy.requests();
    assert!(!requests.is_empty(), "no request was seen");
    let renewals: Vec<_> = requests.iter().filter(|(first, _)| first.contains("/renew")).collect();
    assert!(renewals.is_empty(), "{renewals:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_stopped_when_its_machine_wakes_and_its_lease_is_not_renewed() {
    let (world, proxy) = way().await;
    world.adds("disk");
    let machine = Machine::new();
    let endpoint = format!("http://{}", proxy.address);
    // Ignores SIGTERM, for a limited time.
    let script =
        "exec > /dev/null 2>&1; trap '' TERM; : > began; for i in $(seq 12000); do sleep 0.01; done; : > ended";
    let lease = format!("{}s", LEASE.as_secs());
    let exec = world.tenure(["exec", "disk", "--for", &lease, "--", "bash", "-c", script]);
    let exec = machine.runs(exec.env("TENURE_ENDPOINT", endpoint)).begins();
    until("it began", async || world.home.path().join("began").exists()).await;

    machine.sleeps();
    let said = ended(exec).await.ends_with(5);
    assert!(!world.home.path().join("ended").exists(), "it ran to its end: {said:?}");
    nothing_was_renewed(&proxy);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_stopped_when_its_machine_wakes_and_its_lease_is_not_renewed() {
    if let Some(address) = std::env::var_os(NODE) {
        return hold(address.to_str().unwrap()).await;
    }
    let daemon = Daemon::start().await;
    create(&daemon.client("operator"), "disk").await;
    let proxy = Proxy::start(daemon.address, |_| Fate::Passes).await;
    let machine = Machine::new();
    // This test itself, as a separate process on a separate machine.
    let name = "slept::a_program_is_stopped_when_its_machine_wakes_and_its_lease_is_not_renewed";
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", name, "--nocapture"]).env(NODE, proxy.address.to_string());
    program.env("LD_PRELOAD", machine.shim()).env("BOOTTIME_SHIFT", machine.shift());
    let mut program = Program(program.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let output = BufReader::new(program.0.stdout.take().unwrap());
    let said = Arc::new(Mutex::new(Vec::new()));
    let lines = said.clone();
    std::thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line)));
    let has_said = |wanted: &str| said.lock().unwrap().iter().any(|line| line == wanted);
    until("it was granted", async || has_said("holds")).await;

    machine.sleeps();
    until("it stopped", async || has_said("stopped: the lease was not renewed in time")).await;
    assert!(program.0.wait().unwrap().success(), "{said:?}");
    nothing_was_renewed(&proxy);
}

/// A process that is killed on drop.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A minimal program that holds a lease.
async fn hold(address: &str) {
    let client = client_at(address.parse().unwrap(), "ada");
    let lease = client.claim(&item("disk")).lease_for(LEASE).try_claim().await.unwrap();
    let say = |line: String| std::io::stdout().write_all(line.as_bytes()).unwrap();
    say("\nholds\n".into());
    lease.cancelled().cancelled().await;
    assert_eq!(lease.remaining(), Duration::ZERO);
    let why = lease.why_lost().await;
    assert_eq!(why, Lost::Lapsed);
    say(format!("stopped: {why}\n"));
}

/// Nodes may have forgotten the request when the machine wakes: sending it again could take a second item.
#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_command_is_not_sent_again_after_the_machine_slept() {
    let world = World::development().await;
    world.adds("disk");
    world.adds("tape");
    let machine = Arc::new(Machine::new());
    let sleeps = machine.clone();
    let proxy = Proxy::start(world.daemon().address, move |first| {
        if !first.contains("/next") {
            return Fate::Passes;
        }
        sleeps.sleeps();
        Fate::LosesItsAnswer
    })
    .await;
    let next = world.tenure(["next", "ops"]).env("TENURE_ENDPOINT", format!("http://{}", proxy.address));
    let said = ended(machine.runs(next).begins()).await.ends_with(7);
    let sent = proxy.requests().into_iter().filter(|(first, _)| first.contains("/next")).count();
    assert_eq!(sent, 1, "{said:?}");
    let mut states = [world.state("disk"), world.state("tape")];
    states.sort();
    assert_eq!(states, ["active", "queued"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_slept_releases_its_expired_items() {
    let (world, proxy) = way().await;
    world.says("queue policy ops --backoff-first 10ms");
    world.adds("disk");
    let machine = Machine::new();
    let endpoint = format!("http://{}", proxy.address);
    let lease = format!("{}s", LEASE.as_secs());
    // The first run does not end by itself.
    let script = "exec > /dev/null 2>&1; echo $TENURE_TOKEN >> runs; [ $TENURE_TOKEN = 1 ] || exit 0
        for i in $(seq 12000); do sleep 0.01; done; : > ended";
    let work = world.tenure(["work", "ops", "--for", &lease, "--", "bash", "-c", script]);
    let work = Program(machine.runs(work.env("TENURE_ENDPOINT", endpoint)).begins());
    until("it began", async || lines(world.home.path(), "runs") == ["1"]).await;

    machine.sleeps();
    // By the node's clock the lease has half an hour left: the item is free again only if it is released.
    until("it is complete", async || world.state("disk") == "complete").await;
    drop(work);
    assert_eq!(lines(world.home.path(), "runs"), ["1", "2"]);
    assert!(!world.home.path().join("ended").exists(), "the first run went on to its end");
    let requests = proxy.requests();
    let given_up = requests.iter().position(|(first, _)| first.contains("/release") || first.contains("/fail"));
    let renewed = requests.iter().position(|(first, _)| first.contains("/renew"));
    assert!(given_up.is_some_and(|at| renewed.is_none_or(|renewed| at < renewed)), "{requests:?}");
}
