//! A node, and three of them, with a million live items: how long a restart and a promotion take, what a snapshot
//! costs those who work meanwhile, and how many commands share an fsync.
//!
//!     ./x bench million
//!     ./x bench million --items=20000 --leased=10000    # a minute: does it run? Its figures mean nothing
//!
//! An example, not a bench target: those are built with the release profile's RocksDB, which takes twenty minutes.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use lease::command::{Claim, ClaimMany, Renew};
use lease::item::{NewItem, Part};
use lease::numbers::{Span, Token};
use lease::{Command, Outcome};
use node::daemon::{Daemon, Settings, Start};
use node::peers::tokio_node::TokioNode;
use node::replica::node::RaftSettings;
use openraft::async_runtime::watch::WatchReceiver;
use raft_store::log::LogOptions;
use raft_store::types::NodeId;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use test_support::fleet::{claim, item, queue, release, request};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What one `create_many` or `claim_many` may hold.
const BATCH: usize = lease::bounds::BATCH;
const LEASE: Span = Span::secs(24 * 3600);
const WITHIN: Duration = Duration::from_secs(60);
const WRITERS: usize = 256;
const PAIRS_PER_WRITER: usize = 100;
const STEADY_CALLERS: usize = 8;
const STEADY_PAUSE: Duration = Duration::from_millis(10);
const SNAPSHOTS: u32 = 12;
const PROMOTIONS: u32 = 3;

static REQUESTS: AtomicU64 = AtomicU64::new(0);

#[tokio::main]
async fn main() {
    let began = Instant::now();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, folder, listen] = &args[..]
        && mode == "restart"
    {
        return restart(began, Path::new(folder), listen).await;
    }
    let number = |name: &str, usual: usize| {
        let given = args.iter().find_map(|arg| arg.strip_prefix(name));
        given.map_or(usual, |given| given.parse().expect("a number"))
    };
    let items = number("--items=", 1_000_000);
    let leased = number("--leased=", items / 2);
    let folder = TempDir::new().expect("a folder for the nodes");
    let mut table = Table::default();
    measure(folder.path(), items, leased, &mut table).await;
    println!("\n{table}");
}

async fn measure(folder: &Path, items: usize, leased: usize, table: &mut Table) {
    let mut daemon = start(folder, 1, Start::Bootstrap, "127.0.0.1:0").await;
    let listen = daemon.member().peer_address.clone();
    let took = fill(daemon.node(), items, leased).await;
    table.tell("filling", format!("{items} items, {leased} leased, in {:.1} s", took.as_secs_f64()));
    table.tell("memory of a node", format!("{} MB resident", resident_mb()));
    daemon.abandon().await;

    for (what, wanted) in [("restart after a kill", "≤ 10 s"), ("restart after a clean stop", "≤ 10 s")] {
        let (started, served) = restarted(folder, &listen).await;
        let told = format!("{:.2} s, of which {:.2} s until the state was loaded", secs(served), secs(started));
        table.judge(what, wanted, told, served <= Duration::from_secs(10));
    }

    daemon = start(folder, 1, Start::Again, &listen).await;
    serves(daemon.node()).await;
    writers(&daemon, items, table).await;
    snapshots(daemon.node(), leased, table).await;

    let mut daemons = vec![daemon];
    for id in [2, 3] {
        let began = Instant::now();
        let joined = start(folder, id, Start::Join(vec![listen.clone()]), "127.0.0.1:0").await;
        let node = joined.node().clone();
        // And the change is over: in its middle the loss of one more node is one too many.
        until(|| {
            let membership = node.membership();
            membership.get_joint_config().len() == 1 && membership.voter_ids().any(|voter| voter == id)
        })
        .await;
        table.tell(&format!("node {id} joins, to its vote"), format!("{:.1} s", secs(began.elapsed())));
        daemons.push(joined);
    }
    promotions(folder, daemons, table).await;
}

/// A new process, from its start to its first answer, and how long until its state was loaded.
async fn restarted(folder: &Path, listen: &str) -> (Duration, Duration) {
    let (folder, listen) = (folder.to_owned(), listen.to_owned());
    let run = move || {
        let began = Instant::now();
        let program = std::env::current_exe().expect("this program");
        let mut child = std::process::Command::new(program)
            .arg("restart")
            .arg(folder)
            .arg(listen)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let started: f64 = lines.next().expect("it starts").expect("text").parse().expect("seconds");
        lines.next().expect("it serves").expect("text");
        let served = began.elapsed();
        assert!(child.wait().expect("it ends").success());
        (Duration::from_secs_f64(started), served)
    };
    tokio::task::spawn_blocking(run).await.expect("it runs")
}

/// In a process of its own: says when the state is loaded and when it has answered, and stops cleanly.
async fn restart(began: Instant, folder: &Path, listen: &str) {
    let daemon = start(folder, 1, Start::Again, listen).await;
    println!("{}", secs(began.elapsed()));
    serves(daemon.node()).await;
    println!("{}", secs(began.elapsed()));
    daemon.stop().await;
}

async fn writers(daemon: &Daemon, items: usize, table: &mut Table) {
    let node = daemon.node();
    let synced = daemon.log().stats();
    let batches = node.proposer().counts().batches.load(Ordering::Relaxed);
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for writer in 0..WRITERS {
        let node = node.clone();
        callers.spawn(async move {
            let mut took = Vec::with_capacity(2 * PAIRS_PER_WRITER);
            let actor = format!("writer-{writer}");
            for pair in 0..PAIRS_PER_WRITER {
                // From the end, as the leased ones stand in front, and each writer its own.
                let id = name(items - 1 - (writer + WRITERS * pair) % (items / 4 / WRITERS * WRITERS));
                let (granted, first) = timed(&node, &actor, claim(&id, LEASE)).await;
                let token = granted.grant().unwrap_or_else(|| panic!("{granted:?}")).token;
                let (_, second) = timed(&node, &actor, release(&id, token)).await;
                took.extend([first, second]);
            }
            took
        });
    }
    let mut took: Vec<Duration> = callers.join_all().await.into_iter().flatten().collect();
    let seconds = secs(began.elapsed());
    let commands = took.len() as u64;
    let after = daemon.log().stats();
    let per_sync = commands as f64 / (after.synced_writes - synced.synced_writes) as f64;
    let batches = node.proposer().counts().batches.load(Ordering::Relaxed) - batches;
    let told = format!(
        "{per_sync:.0} ({} WAL syncs, {batches} batches; last sync {:.1} ms)",
        after.wal_syncs - synced.wal_syncs,
        millis(after.last_sync)
    );
    table.judge("256 writers: commands per fsync", "≥ 20", told, per_sync >= 20.0);
    let (middle, high) = (percentile(&mut took, 50.0), percentile(&mut took, 99.0));
    let told =
        format!("{:.0} a second; p50 {:.1} ms, p99 {:.1} ms", commands as f64 / seconds, millis(middle), millis(high));
    table.tell("256 writers: commands", told);
}

async fn snapshots(node: &TokioNode, leased: usize, table: &mut Table) {
    let tokens = tokens_of(node, STEADY_CALLERS.min(leased)).await;
    let taking = Arc::new(AtomicBool::new(false));
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for (number, token) in tokens {
        let (node, taking, stop) = (node.clone(), taking.clone(), stop.clone());
        callers.spawn(async move {
            let (mut quiet, mut during) = (Vec::new(), Vec::new());
            while !stop.load(Ordering::Relaxed) {
                let before = taking.load(Ordering::Relaxed);
                let renew = Command::Renew(Renew { item: item(&name(number)), token, lease_for: None });
                let (outcome, took) = timed(&node, &holder_of(number), renew).await;
                assert!(matches!(outcome, Outcome::Renewed(_)), "{outcome:?}");
                let seen = if before || taking.load(Ordering::Relaxed) { &mut during } else { &mut quiet };
                seen.push(took);
                sleep(STEADY_PAUSE).await;
            }
            (quiet, during)
        });
    }
    let mut took = Vec::new();
    for _ in 0..SNAPSHOTS {
        sleep(Duration::from_secs(1)).await;
        let index = || node.raft().metrics().borrow_watched().snapshot.map(|id| id.index);
        let before = index();
        taking.store(true, Ordering::Relaxed);
        let began = Instant::now();
        node.raft().trigger().snapshot().await.expect("Raft runs");
        until(|| index() > before).await;
        took.push(began.elapsed());
        taking.store(false, Ordering::Relaxed);
    }
    stop.store(true, Ordering::Relaxed);
    let (mut quiet, mut during) = (Vec::new(), Vec::new());
    for (own_quiet, own_during) in callers.join_all().await {
        quiet.extend(own_quiet);
        during.extend(own_during);
    }
    let (without, with) = (percentile(&mut quiet, 99.0), percentile(&mut during, 99.0));
    let told = format!(
        "{:.2} × (p99 {:.1} ms of {} with, {:.1} ms of {} without; p50 {:.1} and {:.1} ms)",
        secs(with) / secs(without),
        millis(with),
        during.len(),
        millis(without),
        quiet.len(),
        millis(percentile(&mut during, 50.0)),
        millis(percentile(&mut quiet, 50.0)),
    );
    table.judge("p99 of renewals while a snapshot is taken", "≤ 2 ×", told, with <= without * 2);
    let first = took[0];
    let told =
        format!("{:.0} ms the first, {:.0} ms in the middle", millis(first), millis(percentile(&mut took, 50.0)));
    table.tell("a snapshot takes", told);
}

async fn promotions(folder: &Path, mut daemons: Vec<Daemon>, table: &mut Table) {
    let election = RaftSettings::default().election_max;
    for round in 1..=PROMOTIONS {
        let mut leader = None;
        until(|| {
            let known: Vec<_> = daemons.iter().map(|daemon| daemon.node().leader()).collect();
            leader = known[0].filter(|_| known.iter().all(|other| *other == known[0]));
            leader.is_some()
        })
        .await;
        let leader = leader.expect("found");
        let place = daemons.iter().position(|daemon| daemon.node().id() == leader).expect("it is here");
        let old = daemons.remove(place);
        let (id, listen) = (old.node().id(), old.member().peer_address.clone());
        let survivor = daemons[0].node().clone();
        // Held, so that giving a gigabyte back is not counted against the new leader.
        let held = old.node().store().clone();
        let began = Instant::now();
        let leaving = tokio::spawn(old.abandon());
        until_quickly(|| survivor.leader().is_some_and(|new| new != leader)).await;
        let elected = began.elapsed();
        serves(&survivor).await;
        let served = began.elapsed();
        drop(held);
        let _ = leaving.await;
        let beyond = served.saturating_sub(election);
        let told = format!(
            "{:.2} s (a new leader known after {:.2} s, a command answered after {:.2} s)",
            secs(beyond),
            secs(elected),
            secs(served)
        );
        table.judge(&format!("promotion {round}, beyond the election time"), "≤ 2 s", told, secs(beyond) <= 2.0);
        let began = Instant::now();
        daemons.push(start(folder, id, Start::Again, &listen).await);
        let back = daemons.last().expect("just pushed").node().clone();
        until(|| back.hub().current().applied >= survivor.hub().current().applied).await;
        table.tell(&format!("node {id} comes back and catches up"), format!("{:.1} s", secs(began.elapsed())));
    }
}

async fn start(folder: &Path, node: NodeId, start: Start, listen: &str) -> Daemon {
    let directory: PathBuf = folder.join(format!("node-{node}"));
    let settings = Settings {
        node,
        directory,
        peer_listen: listen.into(),
        peer_address: String::new(),
        api_address: String::new(),
        edge: None,
        start,
        learner: false,
        join_secret: None,
        admitted: node::peers::admission::AdmittedNodes::new(),
        events_kept_for: Duration::from_secs(7 * 24 * 60 * 60),
        disk_free_min: None,
        tls: None,
        // A node that joins gets a snapshot.
        raft: RaftSettings { entries_kept: 100, ..RaftSettings::default() },
        log: LogOptions::default(),
        known_rules: lease::bounds::RULES_VERSION,
        peer_connections_max: node::peers::server::CONNECTIONS_MAX,
    };
    Daemon::start(settings).await.unwrap_or_else(|error| panic!("node {node}: {error}"))
}

async fn fill(node: &TokioNode, items: usize, leased: usize) -> Duration {
    serves(node).await;
    let began = Instant::now();
    let creates = (0..items).step_by(BATCH).map(|first| {
        let numbers = first..(first + BATCH).min(items);
        // No one alone may fill a space.
        (format!("filler-{}", first / 10_000), Command::CreateMany(numbers.map(new_item).collect()))
    });
    in_parallel(node, creates).await;
    let claims = (0..leased).step_by(BATCH).map(|first| {
        let numbers = first..(first + BATCH).min(leased);
        let claims = numbers.map(|number| Claim { lease_for: Some(LEASE), ..Claim::new(item(&name(number))) });
        let many = ClaimMany { claims: claims.collect(), releases: Vec::new(), all_or_none: true };
        (holder_of(first), Command::ClaimMany(many))
    });
    in_parallel(node, claims).await;
    began.elapsed()
}

/// A few at a time, so that the next batch is built while one is written.
async fn in_parallel(node: &TokioNode, commands: impl Iterator<Item = (String, Command)>) {
    let mut running = JoinSet::new();
    for (actor, command) in commands {
        if running.len() >= 4 {
            running.join_next().await.expect("four run").expect("none panics");
        }
        let node = node.clone();
        running.spawn(async move {
            let (outcome, _) = timed(&node, &actor, command).await;
            let parts = match outcome {
                Outcome::CreatedMany(parts) => parts,
                Outcome::ClaimedMany { claims, .. } => claims,
                other => panic!("{other:?}"),
            };
            for part in parts {
                assert!(matches!(part, Outcome::Created { created: true, .. } | Outcome::Granted(_)), "{part:?}");
            }
        });
    }
    running.join_all().await;
}

/// Holders renew what they have: asking again for one's own lease answers its token.
async fn tokens_of(node: &TokioNode, count: usize) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    for number in 0..count {
        let (outcome, _) = timed(node, &holder_of(number), claim(&name(number), LEASE)).await;
        tokens.push((number, outcome.grant().unwrap_or_else(|| panic!("{outcome:?}")).token));
    }
    tokens
}

/// A node serves when it has answered a command.
async fn serves(node: &TokioNode) {
    loop {
        let renew_all = request("probe", &next_id(), Command::RenewAll(lease::command::RenewAll::default()));
        if node.submit(vec![renew_all], Duration::from_millis(500)).await.is_ok() {
            return;
        }
    }
}

async fn timed(node: &TokioNode, actor: &str, command: Command) -> (Outcome, Duration) {
    let request = request(actor, &next_id(), command);
    let began = Instant::now();
    let outcomes = node.submit(vec![request], WITHIN).await;
    let mut outcomes = outcomes.unwrap_or_else(|no_outcome| panic!("{no_outcome}"));
    (outcomes.pop().expect("one"), began.elapsed())
}

fn next_id() -> String {
    format!("{}-{}", std::process::id(), REQUESTS.fetch_add(1, Ordering::Relaxed))
}

fn name(number: usize) -> String {
    format!("task-{number:07}")
}

/// A thousand leases each.
fn holder_of(number: usize) -> String {
    format!("agent-{}", number / BATCH)
}

fn new_item(number: usize) -> NewItem {
    let mut new = NewItem::new(item(&name(number)), queue());
    new.title = format!("the title of the task number {number:07}");
    new.body = vec![(Part::Plan, format!("what is to be done about {number}"))];
    new
}

async fn until(holds: impl FnMut() -> bool) {
    poll(holds, Duration::from_millis(10)).await;
}

async fn until_quickly(holds: impl FnMut() -> bool) {
    poll(holds, Duration::from_millis(2)).await;
}

async fn poll(mut holds: impl FnMut() -> bool, every: Duration) {
    let limit = Instant::now() + Duration::from_secs(600);
    while !holds() {
        assert!(Instant::now() < limit, "never");
        sleep(every).await;
    }
}

fn percentile(took: &mut [Duration], percent: f64) -> Duration {
    took.sort_unstable();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
    let place = ((took.len() as f64 * percent / 100.0) as usize).min(took.len().saturating_sub(1));
    took.get(place).copied().unwrap_or_default()
}

fn secs(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Told as it is measured, and once more as a whole.
#[derive(Default)]
struct Table(Vec<[String; 4]>);

impl Table {
    fn tell(&mut self, what: &str, measured: String) {
        self.row([what.into(), String::new(), measured, String::new()]);
    }

    fn judge(&mut self, what: &str, wanted: &str, measured: String, met: bool) {
        self.row([what.into(), wanted.into(), measured, if met { "yes" } else { "**no**" }.into()]);
    }

    fn row(&mut self, row: [String; 4]) {
        println!("{}: {}", row[0], row[2]);
        self.0.push(row);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "| what | wanted | measured | met |\n|---|---:|---|---|")?;
        self.0.iter().try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}
