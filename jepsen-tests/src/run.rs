//! One run: starts a cluster, callers and faults, heals the cluster, and then runs every checker on the history.

use crate::checkers::facts::Facts;
use crate::checkers::verdict::{Verdict, seconds};
use crate::cluster::{Cluster, LIMIT, Options};
use crate::controls::{self, Control};
use crate::history::{self, Fault, History};
use crate::hostile::KEYS;
use crate::nemesis::{self, Plan};
use crate::recorder::{Bounds, Progress, RunClock};
use crate::report::{Amounts, Report};
use crate::restoring;
use crate::soak;
use crate::terminal::Terminal;
use crate::wire::{self, Network};
use crate::workloads::{self, Workload};
use crate::world::{OPERATOR, World};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Small, so that snapshots and log purges happen often.
const SNAPSHOT_EVERY: u64 = 2_000;
const ENTRIES_KEPT: u64 = 500;
const ACTORS: u32 = 64;
const HEALED_WITHIN: Duration = LIMIT.saturating_mul(2);
/// Calls per second: more than two cores can serve.
const PACE_MAX: u32 = 20_000;

#[derive(Debug, clap::Args)]
pub struct Asked {
    /// What callers do (the README lists the workloads); mixed runs all of them [default: mixed]
    #[arg(long, value_name = "NAME")]
    workload: Option<Workload>,
    /// Faults, separated by commas (`jepsen faults` shows each), or all, or none [default: all, with --workload hostile
    /// none]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    nemesis: Vec<String>,
    /// How long faults run, or callers are hostile; healing and checking come after [default: 5]
    #[arg(long)]
    minutes: Option<f64>,
    /// Seed of faults and requests; the same seed repeats them [default: from the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Number of nodes, 3 to 7
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=7))]
    nodes: u32,
    /// Break a promise on purpose (`jepsen controls` breaks each one); the run succeeds if it finds this
    #[arg(long = "break", value_name = "PROMISE")]
    broken: Option<String>,
    /// Callers use TLS; a mixed run also uses it with every third seed
    #[arg(long)]
    tls: bool,
    /// Run only one fault at a time
    #[arg(long)]
    alone: bool,
    /// Use loopback instead of network namespaces [default with --workload hostile and no faults]
    #[arg(long)]
    loopback: bool,
    /// The daemon to test
    #[arg(long, env = "JEPSEN_DAEMON", value_name = "FILE")]
    daemon: Option<PathBuf>,
    /// A daemon built with the feature `sabotage`, needed for `newer-build`
    #[arg(long, env = "JEPSEN_NEWER", value_name = "FILE")]
    newer: Option<PathBuf>,
    /// Folder for the report, the history and the logs [default: a folder in the temporary directory]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    soak: soak::Asked,
}

#[derive(Debug, clap::Args)]
pub struct Kept {
    /// The folder of an earlier run
    folder: PathBuf,
}

/// The settings of a run, with all defaults filled in.
struct Wanted {
    workload: Workload,
    faults: Vec<String>,
    lasts: Duration,
    seed: u64,
    nodes: u32,
    control: Option<&'static Control>,
    tls: bool,
    mixed: bool,
    daemon: PathBuf,
    newer: Option<PathBuf>,
    out: PathBuf,
    soak: soak::Asked,
}

impl Asked {
    fn wanted(&self) -> io::Result<Wanted> {
        let control = match &self.broken {
            None => None,
            Some(name) => {
                let all: Vec<_> = controls::ALL.iter().map(|control| control.name).collect();
                let wrong =
                    || io::Error::other(format!("--break: unknown promise {name}: use one of {}", all.join(", ")));
                Some(controls::find(name).ok_or_else(wrong)?)
            }
        };
        let asked = |text: &str| text.parse::<Workload>().map_err(io::Error::other);
        let workload = match (self.workload, control) {
            (Some(workload), _) => workload,
            (None, Some(control)) => asked(control.workload)?,
            (None, None) => Workload::Mixed,
        };
        let faults = match (self.nemesis.as_slice(), control) {
            ([], Some(control)) => control.nemesis.iter().map(|name| (*name).to_owned()).collect(),
            ([only], _) if only == "none" => Vec::new(),
            // The cost of hostile callers is measured without faults.
            ([], None) if workload == Workload::Hostile => Vec::new(),
            ([], None) => every_fault(self.newer.is_some()),
            ([only], _) if only == "all" => every_fault(self.newer.is_some()),
            (named, _) => named.to_vec(),
        };
        if self.tls && workload == Workload::Hostile {
            return Err(io::Error::other("--tls cannot be used with --workload hostile: its callers use plain HTTP"));
        }
        let minutes = self.minutes.or(control.map(|control| control.minutes)).unwrap_or(5.0);
        if !(0.05..=1_440.0).contains(&minutes) {
            return Err(io::Error::other(format!("--minutes is {minutes}: it must be between 0.05 and 1440")));
        }
        let seed = match self.seed {
            Some(seed) => seed,
            None => made_up()?,
        };
        let daemon = self.daemon.clone().ok_or_else(|| {
            io::Error::other("--daemon is missing: give the path of tenured, or use ./x jepsen, which builds it")
        })?;
        let name = control.map_or(workload.name(), |control| control.name);
        let out = self.out.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("tenure-jepsen-{name}-{seed}")));
        let lasts = Duration::from_secs_f64(minutes * 60.0);
        Ok(Wanted {
            workload,
            faults,
            lasts,
            seed,
            nodes: self.nodes,
            control,
            tls: self.tls || (workload == Workload::Mixed && seed % 3 == 0),
            mixed: !self.alone,
            daemon,
            newer: self.newer.clone(),
            out,
            soak: self.soak.clone(),
        })
    }
}

/// Every fault, without those that need a newer daemon if the run does not have one.
fn every_fault(has_newer: bool) -> Vec<String> {
    let kinds = nemesis::ALL.iter().filter(|kind| has_newer || !kind.needs_newer);
    kinds.map(|kind| kind.name.to_owned()).collect()
}

fn made_up() -> io::Result<u64> {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    Ok(since.map_err(io::Error::other)?.as_secs() % 1_000_000)
}

impl Wanted {
    fn nemesis(&self) -> String {
        let all = every_fault(self.newer.is_some());
        match self.faults.as_slice() {
            [] => "none".into(),
            faults if faults.len() == all.len() => "all".into(),
            faults => faults.join(","),
        }
    }

    fn is_soak(&self) -> bool {
        self.workload == Workload::Hostile
    }

    /// The command that repeats this run.
    fn command(&self) -> String {
        let broken = self.control.map_or(String::new(), |control| format!(" --break {}", control.name));
        let alone = if self.mixed { "" } else { " --alone" };
        let tls = if self.tls { " --tls" } else { "" };
        let soak = if self.is_soak() { self.soak.command() } else { String::new() };
        let build = if std::env::var("JEPSEN_BUILD").is_ok_and(|build| build == "debug") { " --dev-build" } else { "" };
        format!(
            "./x jepsen --workload {} --nemesis {} --minutes {} --seed {} --nodes {}{broken}{tls}{alone}{build}{soak}",
            self.workload,
            self.nemesis(),
            self.lasts.as_secs_f64() / 60.0,
            self.seed,
            self.nodes,
        )
    }
}

/// Returns whether every promise was kept or, if one was broken on purpose, whether the run found that. Call it before
/// any other thread starts: it enters a network namespace.
///
/// # Errors
/// When the run fails to start, or its results cannot be written.
pub fn main(asked: Asked) -> io::Result<bool> {
    let wanted = asked.wanted()?;
    let network = if asked.loopback {
        Network::Loopback { why: "requested by --loopback".into() }
    } else if wanted.workload == Workload::Hostile && wanted.faults.is_empty() {
        // The switch between namespaces would be the bottleneck, not the nodes.
        Network::Loopback { why: "hostile callers without faults".into() }
    } else {
        wire::enter()
    };
    fs::create_dir_all(&wanted.out)?;
    let mut terminal = Terminal::default();
    terminal.say(&wanted.command());
    terminal.say(&network.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let Seen { history, ended } = runtime.block_on(async {
        tokio::select! {
            seen = see(&wanted, network, &mut terminal) => seen,
            _ = tokio::signal::ctrl_c() => Err(io::Error::other("interrupted")),
        }
    })?;
    drop(runtime);
    keep(&history, &wanted.out)?;
    judge(&history, &ended, &wanted.command(), &wanted.out, wanted.control, &mut terminal)
}

/// # Errors
/// When the history cannot be read.
pub fn check_kept(kept: &Kept) -> io::Result<bool> {
    let history = history::lines::read(BufReader::new(File::open(kept.folder.join("history.jsonl"))?))?;
    let control = history.about.broken.as_deref().and_then(controls::find);
    let ended = history.end.as_ref().map_or_else(Vec::new, |end| end.deaths.clone());
    judge(&history, &ended, "the command that made this history", &kept.folder, control, &mut Terminal::default())
}

/// The results of a run.
struct Seen {
    history: History,
    /// Unexpected exits and other failures, as text.
    ended: Vec<String>,
}

async fn see(wanted: &Wanted, network: Network, terminal: &mut Terminal) -> io::Result<Seen> {
    let began = Instant::now();
    let clock = RunClock::since(began);
    let nodes = wanted.out.join("nodes");
    let _ = fs::remove_dir_all(&nodes);
    let mut options = Options::new(wanted.daemon.clone(), nodes, network);
    options.newer_daemon.clone_from(&wanted.newer);
    options.tls = wanted.tls;
    (options.nodes, options.seed, options.began, options.actors) = (wanted.nodes, wanted.seed, began, ACTORS);
    if wanted.is_soak() {
        // Nodes run as in production, because their resource use is measured.
        (options.others, options.bare) = (KEYS.to_vec(), wanted.faults.is_empty());
    } else {
        (options.snapshot_every, options.entries_kept) = (Some(SNAPSHOT_EVERY), Some(ENTRIES_KEPT));
    }
    if let Some(control) = wanted.control {
        options.environment.push(("TENURED_BREAK".into(), control.name.into()));
    }
    let cluster = Cluster::start(options).await?;
    let (machines, authority) = (cluster.machines().clone(), cluster.authority());
    let world = World::new(clock, machines, endpoints(&cluster), api_keys(&cluster), authority, Bounds::default())
        .map_err(io::Error::other)?;
    let size = wanted.workload.size();
    let running = workloads::start(&world, wanted.workload, size, wanted.seed).await.map_err(io::Error::other)?;
    // The number of operations is bounded by what a checker can hold, so a longer run is slower.
    let bounds = Bounds::default().operations / 2;
    world.pace(u32::try_from(bounds / wanted.lasts.as_secs().max(1)).unwrap_or(u32::MAX).min(PACE_MAX));
    terminal.say(&format!("{} nodes, {} callers", wanted.nodes, size.callers));

    let (faults, soak) = match wanted.is_soak() {
        false => (tear(wanted, wanted.lasts, &cluster, &world, size.lease_for, terminal).await?, None),
        true => {
            let lasts = wanted.soak.lasts(wanted.lasts);
            let tearing = tear(wanted, lasts, &cluster, &world, size.lease_for, terminal);
            let (faults, soak) = tokio::join!(tearing, soak::run(&cluster, &wanted.soak, wanted.lasts));
            (faults?, Some(soak?))
        }
    };
    terminal.say("healing");
    let mut ended = Vec::new();
    let mut history = match cluster.heal(HEALED_WITHIN).await {
        Ok(()) => {
            if let Err(error) = cluster.sight(LIMIT).await {
                ended.push(format!("could not read the members: {error}"));
            }
            let finished = running.finish(clock.now(), |words| terminal.say(words)).await;
            ended.extend(finished.trouble.map(|trouble| format!("could not read the final state: {trouble}")));
            finished.history
        }
        Err(error) => {
            // The history until now is checked all the same.
            ended.push(format!("the cluster did not recover: {error}"));
            running.stop().await;
            let mut history = world.recorder.take();
            (history.about.seed, history.about.workload) = (wanted.seed, wanted.workload.name().to_owned());
            history.about.queues = world.queues();
            history
        }
    };
    match restoring::look(&cluster, &world).await {
        Ok(restored) => {
            restored
                .iter()
                .filter(|restored| restored.refused.is_none())
                .for_each(|_| terminal.say("restored a backup"));
            history.restored = restored;
        }
        Err(why) => ended.push(format!("could not restore a backup of the run: {why}")),
    }
    (history.faults, history.soak) = (faults, soak);
    history.leaders = cluster.leaders();
    history.members = cluster.members();
    history.bursts = world.bursts();
    history.deaths = cluster.deaths();
    ended.extend(history.deaths.iter().map(|death| death.what.clone()));
    ended.extend(cluster.shut_down().await);
    history.about.nemesis = wanted.nemesis();
    history.about.nodes = wanted.nodes;
    history.about.broken = wanted.control.map(|control| control.name.to_owned());
    if let Some(end) = &mut history.end {
        end.deaths.clone_from(&ended);
    }
    Ok(Seen { history, ended })
}

fn endpoints(cluster: &Cluster) -> Vec<String> {
    cluster.endpoints().into_iter().map(|(_, endpoint)| endpoint).collect()
}

fn api_keys(cluster: &Cluster) -> BTreeMap<String, String> {
    let actors = (0..ACTORS).map(|nth| format!("actor-{nth}")).chain([OPERATOR.to_owned()]);
    actors.filter_map(|actor| cluster.api_key(&actor).map(|api_key| (actor.clone(), api_key.to_owned()))).collect()
}

/// Runs faults until the time is over, and shows progress every second.
async fn tear(
    wanted: &Wanted,
    lasts: Duration,
    cluster: &Arc<Cluster>,
    world: &Arc<World>,
    lease: Duration,
    terminal: &mut Terminal,
) -> io::Result<Vec<Fault>> {
    let stop = CancellationToken::new();
    let ended: Arc<Mutex<Vec<Fault>>> = Arc::default();
    let nemesis = (!wanted.faults.is_empty()).then(|| {
        let mut plan = Plan::new(wanted.seed, lease);
        plan.names.clone_from(&wanted.faults);
        (plan.mixed, plan.goes_on_for) = (wanted.mixed, lasts);
        let ended = ended.clone();
        let told = move |fault: &Fault| ended.lock().unwrap_or_else(PoisonError::into_inner).push(fault.clone());
        tokio::spawn(nemesis::run(cluster.clone(), plan, stop.clone(), told))
    });
    let began = Instant::now();
    let (mut said, mut before) = (0, world.progress());
    while began.elapsed() < lasts {
        sleep(Duration::from_secs(1).min(lasts.saturating_sub(began.elapsed()))).await;
        let now = world.progress();
        let faults = ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for fault in faults.iter().skip(said) {
            terminal.say(&told(fault));
        }
        said = faults.len();
        let left = lasts.saturating_sub(began.elapsed()).as_secs();
        terminal.progress(&progress(now, before, said, left, cluster.leader()));
        before = now;
        if nemesis.as_ref().is_some_and(tokio::task::JoinHandle::is_finished) {
            break;
        }
    }
    stop.cancel();
    match nemesis {
        None => Ok(Vec::new()),
        Some(nemesis) => nemesis.await.map_err(io::Error::other)?,
    }
}

fn told(fault: &Fault) -> String {
    let held = if fault.took_hold { "" } else { " (took no effect)" };
    let until = fault.ended.map_or_else(|| "the end".to_owned(), seconds);
    format!("{} to {until}  {}: {}{held}", seconds(fault.began), fault.kind, fault.what)
}

fn progress(now: Progress, before: Progress, faults: usize, left: u64, leader: Option<u32>) -> String {
    let leader = leader.map_or_else(|| "no leader".to_owned(), |node| format!("node {node} leads"));
    format!(
        "{left:>4} s left  {} operations ({}/s), {} refused, {} unavailable, {} unknown, {} grants, {} expired, {} fenced, \
         {faults} faults, {leader}",
        now.operations,
        now.operations.saturating_sub(before.operations),
        now.refused,
        now.unavailable,
        now.unknown,
        now.grants,
        now.lapses,
        now.fenced,
    )
}

fn keep(history: &History, out: &Path) -> io::Result<()> {
    history::lines::write(history, BufWriter::new(File::create(out.join("history.jsonl"))?))?;
    history::edn::write(history, BufWriter::new(File::create(out.join("history.edn"))?))
}

fn judge(
    history: &History,
    ended: &[String],
    replay: &str,
    out: &Path,
    control: Option<&'static Control>,
    terminal: &mut Terminal,
) -> io::Result<bool> {
    let began = Instant::now();
    let facts = Facts::new(history);
    let report =
        Report::new(&facts, replay.to_owned(), |invariant| terminal.progress(&format!("checking {}", invariant.id)));
    let page = out.join("report.html");
    fs::write(&page, report.html())?;
    for line in report.lines() {
        terminal.tell(&line)?;
    }
    for what in ended {
        terminal.tell(&format!("BROKEN   {what}"))?;
    }
    terminal.say(&format!("checked in {:.1} s; {}", began.elapsed().as_secs_f64(), page.display()));
    match control {
        Some(control) => caught(control, history, &report.verdicts, terminal),
        None => Ok(report.amounts() == Amounts::Kept && ended.is_empty() && history.end.is_some()),
    }
}

/// Whether the expected invariant found the promise that was broken on purpose.
fn caught(control: &Control, history: &History, verdicts: &[Verdict], terminal: &Terminal) -> io::Result<bool> {
    let by = verdicts.iter().filter(|verdict| !verdict.holds());
    let found: Vec<_> = by.filter(|verdict| control.caught_by.contains(&verdict.id)).collect();
    let first = found.iter().flat_map(|verdict| &verdict.violations).map(|violation| violation.at).min();
    let began = history.operations.first().map_or(0, |operation| operation.invoked);
    match first {
        Some(first) => {
            let by: Vec<_> =
                found.iter().map(|verdict| format!("{} ({} times)", verdict.id, verdict.violated)).collect();
            terminal.tell(&format!(
                "caught: by {}, after {}",
                by.join(" and "),
                seconds(first.saturating_sub(began))
            ))?;
            Ok(true)
        }
        None => {
            terminal.tell(&format!(
                "NOT caught: {} was broken, but {} found no violation",
                control.name,
                control.caught_by.join(", ")
            ))?;
            Ok(false)
        }
    }
}
