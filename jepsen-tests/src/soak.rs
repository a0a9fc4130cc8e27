//! A run with hostile callers: first undisturbed, then with each kind of them alone if there is time, then with all at
//! once, then undisturbed again. Meanwhile an honest fleet works, and the resources that each node uses are sampled
//! every second.

mod samples;

use crate::cluster::{Cluster, Seat};
use crate::history::soak::{Bounds, Intruder, Phase, Soak, Tally};
use crate::hostile::Kind;
use crate::recorder::micros;
use crate::terminal::Terminal;
use api::space::SpacePolicy;
use samples::Sampler;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Before the measurement, so that nodes and callers have their memory and their connections.
const WARMING: Duration = Duration::from_secs(8);
/// An undisturbed phase is a tenth of the hostile time, within these limits.
const CALM: (Duration, Duration) = (Duration::from_secs(12), Duration::from_secs(120));
/// The minimum time of a kind alone; if there is less time, kinds do not run alone.
const ALONE_MIN: Duration = Duration::from_secs(10);
/// The percentage of the hostile time in which kinds run alone.
const ALONE_PARTS: u32 = 40;
/// Each intruder is stopped after this time, and the next one starts.
const INTRUDER: Duration = Duration::from_secs(10);
/// The time from one intruder to the next: a rejected node exits at once, and starting it writes to the disk that all
/// nodes share.
const INTRUDER_EVERY: Duration = Duration::from_secs(2);
/// If less than this is left of a phase, no further intruder starts.
const INTRUDER_MIN: Duration = Duration::from_secs(6);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const METRICS_WITHIN: Duration = Duration::from_secs(4);
/// Hostile callers end by themselves when their time is over.
const ENDED_WITHIN: Duration = Duration::from_secs(5);
/// The machine keeps at least this much free disk space.
const FREE_MIN_MIB: u64 = 10 * 1024;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "With --workload hostile")]
#[group(id = "soak")]
pub struct Asked {
    /// Kinds of hostile callers, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND", hide_possible_values = true)]
    hostile: Vec<Kind>,
    /// Maximum p99 latency of honest callers as a multiple of the undisturbed one; 0 measures it without a check
    #[arg(long, default_value_t = 3.0, value_name = "TIMES")]
    latency_times: f64,
    /// Maximum memory of a node
    #[arg(long, default_value_t = 2_048, value_name = "MIB")]
    memory_max: u64,
    /// Maximum disk space of a node's data directory
    #[arg(long, default_value_t = 12_288, value_name = "MIB")]
    disk_max: u64,
    /// Maximum disk space of a node's log
    #[arg(long, default_value_t = 4_096, value_name = "MIB")]
    log_max: u64,
    /// Limit for the bodies in the space, as an operator would set it to bound the state
    #[arg(long, default_value_t = 1_024, value_name = "MIB")]
    bodies_max: u64,
}

/// A phase of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Planned {
    name: String,
    kinds: Vec<Kind>,
    lasts: Duration,
}

impl Asked {
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            latency_times: self.latency_times,
            memory_mib: self.memory_max,
            disk_mib: self.disk_max,
            log_mib: self.log_max,
        }
    }

    /// The options that repeat this run.
    #[must_use]
    pub fn command(&self) -> String {
        let kinds: Vec<_> = self.hostile.iter().map(|kind| kind.name()).collect();
        let kinds = if kinds.is_empty() { String::new() } else { format!(" --hostile {}", kinds.join(",")) };
        format!(
            "{kinds} --latency-times {} --memory-max {} --disk-max {} --log-max {} --bodies-max {}",
            self.latency_times, self.memory_max, self.disk_max, self.log_max, self.bodies_max
        )
    }

    fn kinds(&self) -> Vec<Kind> {
        if self.hostile.is_empty() { Kind::ALL.to_vec() } else { self.hostile.clone() }
    }

    fn plan(&self, hostile: Duration) -> Vec<Planned> {
        let kinds = self.kinds();
        let calm = (hostile / 10).clamp(CALM.0, CALM.1);
        let alone = hostile * ALONE_PARTS / 100 / u32::try_from(kinds.len()).unwrap_or(1);
        let mut plan = vec![Planned { name: "undisturbed".into(), kinds: Vec::new(), lasts: calm }];
        let mut together = hostile;
        if kinds.len() > 1 && alone >= ALONE_MIN {
            for kind in &kinds {
                plan.push(Planned { name: kind.name().into(), kinds: vec![*kind], lasts: alone });
                together -= alone;
            }
        }
        let name = if kinds.len() > 1 { "all at once" } else { kinds[0].name() };
        plan.push(Planned { name: name.into(), kinds, lasts: together });
        plan.push(Planned { name: "undisturbed again".into(), kinds: Vec::new(), lasts: calm });
        plan
    }

    /// The total time of a run with this hostile time.
    #[must_use]
    pub fn lasts(&self, hostile: Duration) -> Duration {
        WARMING + self.plan(hostile).iter().map(|phase| phase.lasts + ENDED_WITHIN / 2).sum::<Duration>()
    }
}

/// Runs all phases, with honest callers at work.
///
/// # Errors
/// When hostile callers cannot be started.
pub async fn run(cluster: &Arc<Cluster>, asked: &Asked, hostile: Duration) -> io::Result<Soak> {
    let terminal = Terminal::default();
    let operator = cluster.client("operator", None)?;
    let space = operator.space().await.map_err(io::Error::other)?;
    let policy = SpacePolicy { body_bytes_max: asked.bodies_max * 1024 * 1024, ..space.policy };
    operator.set_space_policy(&policy).await.map_err(io::Error::other)?;
    sleep(WARMING).await;
    let sampler = Sampler::start(cluster.clone());
    let mut soak = Soak { bounds: asked.bounds(), ..Soak::default() };
    let mut intruders = 0;
    for (nth, planned) in asked.plan(hostile).into_iter().enumerate() {
        let is_hostile = !planned.kinds.is_empty();
        if is_hostile && soak.stopped.is_some() {
            continue;
        }
        let seconds = planned.lasts.as_secs_f64();
        terminal.say(&format!("{:>6.1} s  {} for {seconds:.0} s", cluster.now() as f64 / 1e6, planned.name));
        let began = cluster.now();
        let (tallies, turned_away) = match is_hostile {
            true => act(cluster, &sampler, &planned, nth, &mut intruders, &mut soak).await?,
            false => {
                sleep(planned.lasts).await;
                (Vec::new(), Vec::new())
            }
        };
        soak.tallies.extend(tallies);
        soak.intruders.extend(turned_away);
        let kinds = planned.kinds.iter().map(|kind| kind.name().to_owned()).collect();
        // Without the time that was spent waiting for hostile callers to end.
        let ended = cluster.now().min(began + micros(planned.lasts));
        keep_metrics(cluster, nth, &planned.name).await?;
        soak.phases.push(Phase { name: planned.name, kinds, began, ended });
    }
    soak.samples = sampler.stop().await;
    Ok(soak)
}

/// Saves the metrics of each node at the end of a phase, for finding the cause of a violation.
async fn keep_metrics(cluster: &Arc<Cluster>, nth: usize, phase: &str) -> io::Result<()> {
    let folder = cluster.options().folder.join("metrics");
    fs::create_dir_all(&folder)?;
    for seat in cluster.running() {
        let asked = cluster.ask(seat, |client| async move {
            let node = client.node(client.endpoints()[0].clone());
            timeout(METRICS_WITHIN, node.metrics()).await.ok()?.ok()
        });
        let metrics = asked.await?.unwrap_or_else(|| "the node did not answer\n".to_owned());
        fs::write(folder.join(format!("{nth:02} {phase}, node {seat}.txt")), metrics)?;
    }
    Ok(())
}

/// Runs one phase with hostile callers.
async fn act(
    cluster: &Arc<Cluster>,
    sampler: &Sampler,
    planned: &Planned,
    nth: usize,
    intruders: &mut u64,
    soak: &mut Soak,
) -> io::Result<(Vec<Tally>, Vec<Intruder>)> {
    let ends = Instant::now() + planned.lasts;
    let mut all = Vec::new();
    for seat in cluster.seats() {
        let name = format!("p{nth}s{seat}");
        all.push(cluster.be_hostile(seat, &name, &planned.kinds, planned.lasts).await?);
    }
    sampler.hostile(all.iter().map(|one| one.pid()).collect());
    let intruding = planned.kinds.contains(&Kind::PeerPort).then(|| intrude(cluster.clone(), *intruders, ends));
    while Instant::now() < ends && soak.stopped.is_none() {
        sleep_until((Instant::now() + LOOK_EVERY).min(ends)).await;
        soak.stopped = sampler.is_too_much(soak.bounds);
    }
    let by = Instant::now() + ENDED_WITHIN;
    while soak.stopped.is_none() && Instant::now() < by && all.iter_mut().any(|one| !one.has_ended()) {
        sleep(LOOK_EVERY).await;
    }
    let mut tallies = Vec::new();
    for one in &all {
        let told: Vec<Tally> = serde_json::from_slice(&fs::read(one.report()).unwrap_or_default()).unwrap_or_default();
        tallies.extend(told.into_iter().map(|tally| Tally { phase: planned.name.clone(), seat: one.seat, ..tally }));
    }
    // Dropping stops those that have not ended.
    drop(all);
    sampler.hostile(Vec::new());
    let mut turned_away = Vec::new();
    if let Some(intruding) = intruding {
        turned_away = intruding.await.map_err(io::Error::other)??;
        *intruders += turned_away.len() as u64;
    }
    Ok((tallies, turned_away))
}

/// Runs one intruder after another, until the phase ends.
fn intrude(cluster: Arc<Cluster>, before: u64, ends: Instant) -> JoinHandle<io::Result<Vec<Intruder>>> {
    tokio::spawn(async move {
        let mut all = Vec::new();
        loop {
            let left = ends.saturating_duration_since(Instant::now());
            if left < INTRUDER_MIN && !all.is_empty() {
                return Ok(all);
            }
            let next = Instant::now() + INTRUDER_EVERY;
            all.push(cluster.intrude(before + all.len() as u64, INTRUDER.min(left.max(INTRUDER_MIN))).await?);
            sleep_until(next.min(ends)).await;
        }
    })
}

/// The seats of running nodes with their pids.
fn seats(cluster: &Cluster) -> Vec<(Seat, u32)> {
    cluster.running().into_iter().filter_map(|seat| cluster.pid(seat).map(|pid| (seat, pid))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        asked: Asked,
    }

    fn plan(line: &str, seconds: u64) -> Vec<(String, usize, u64)> {
        let asked = Line::parse_from(line.split(' ')).asked;
        let plan = asked.plan(Duration::from_secs(seconds));
        plan.into_iter().map(|phase| (phase.name, phase.kinds.len(), phase.lasts.as_secs())).collect()
    }

    #[test]
    fn a_short_run_mixes_all_kinds_and_a_long_run_starts_with_each_alone() {
        let short = plan("jepsen", 45);
        let names: Vec<_> = short.iter().map(|(name, kinds, lasts)| (name.as_str(), *kinds, *lasts)).collect();
        assert_eq!(names, [("undisturbed", 0, 12), ("all at once", 12, 45), ("undisturbed again", 0, 12)]);
        let long = plan("jepsen", 1_200);
        assert_eq!(long.len(), 12 + 3);
        assert_eq!((long[1].2, long[13].2), (40, 720));
        let hostile: u64 = long.iter().filter(|(_, kinds, _)| *kinds > 0).map(|(_, _, lasts)| lasts).sum();
        assert_eq!(hostile, 1_200);
    }

    #[test]
    fn one_kind_is_one_phase() {
        let one = plan("jepsen --hostile views", 60);
        assert_eq!(one[1], ("views".to_owned(), 1, 60));
        assert_eq!(one.len(), 3);
    }
}
