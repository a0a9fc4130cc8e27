//! `bench`: puts load on a cluster and measures claim, renew, next and handoff.

mod workloads;

use super::failure::Failure;
use super::global::{Context, interrupted, random_name};
use super::out::{Paint, Progress, Table, grouped, say};
use super::parse;
use super::span::Span;
use clap::{Args, ValueEnum};
use client::Client;
use client::names::{ItemId, QueueName};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Workload {
    /// Claim a new item and release it; counts pairs, times the claim
    Claim,
    /// Each caller holds 100 leases and renews them in turn
    Renew,
    /// Take the first of 20,000 queued items and complete it; times the take
    Next,
    /// All callers claim one item; a holder pauses 10 ms after its release; counts grants after a release, times from
    /// the release request until the next holder has its grant
    Handoff,
}

/// Measure a cluster: claim, renew, next, handoff
///
/// Puts real load on the cluster, in a separate queue that is emptied afterwards. Callers and nodes on one machine
/// share its cores: compare ratios within one run, not figures from different machines.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Workloads to run [default: all]
    #[arg(value_name = "WORKLOAD")]
    workload: Vec<Workload>,
    /// Numbers of concurrent callers to measure, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 64, 256], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    callers: Vec<u32>,
    /// Duration of each measurement
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    seconds: Span,
    /// Items that `claim` and `next` use
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    items: u32,
    /// File with API keys of several actors, one per line; callers take them in turn
    #[arg(long, value_name = "FILE")]
    actors: Option<PathBuf>,
    /// Keep the items after the measurement
    #[arg(long)]
    keep: bool,
}

/// The result of one workload with one number of callers. Latencies in microseconds.
#[derive(Serialize)]
struct Cell {
    workload: Workload,
    callers: u32,
    seconds: f64,
    operations: u64,
    per_second: f64,
    errors: u64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
    /// Pairs of an upper bound and the number of operations between about half of it and the bound.
    histogram: Vec<(u64, u64)>,
}

/// The counts of one caller.
struct Tally {
    latencies: Histogram<u64>,
    errors: u64,
    /// The first error, for the report.
    why: Option<String>,
    last: Instant,
}

impl Tally {
    fn new() -> Result<Self, Failure> {
        // Three significant digits, from 1 µs to 60 s.
        let latencies = Histogram::new_with_bounds(1, 60_000_000, 3);
        let latencies = latencies.map_err(|error| Failure::other(format!("cannot create the histogram: {error}")))?;
        Ok(Self { latencies, errors: 0, why: None, last: Instant::now() })
    }

    /// Counts one operation; its timed part took `took`.
    fn done(&mut self, took: Duration) {
        self.last = Instant::now();
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.latencies.saturating_record(micros.max(1));
    }

    fn failed(&mut self, why: impl ToString) {
        self.errors += 1;
        self.why.get_or_insert_with(|| why.to_string());
    }

    fn add(&mut self, other: Self) {
        // It cannot fail: all histograms have the same bounds.
        let _ = self.latencies.add(&other.latencies);
        self.errors += other.errors;
        self.why = self.why.take().or(other.why);
        self.last = self.last.max(other.last);
    }
}

/// What a measurement works with.
struct Ground<'c> {
    context: &'c Context,
    /// The clients that callers take in turn. Empty: callers use the identity of the command.
    actors: &'c [Client],
    queue: QueueName,
    items: u32,
    lasts: Duration,
}

impl Bench {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let workloads = if self.workload.is_empty() { Workload::value_variants() } else { &self.workload };
        let name = random_name()?;
        let actors = self.actors(context)?;
        let mut table = Table::new(&[
            "WORKLOAD",
            "CALLERS",
            "PER SECOND",
            "P50 ms",
            "P90 ms",
            "P99 ms",
            "P99.9 ms",
            "MAX ms",
            "ERRORS",
        ]);
        let mut progress = Progress::new();
        let mut done = 0;
        let cells = workloads.len() as u64 * self.callers.len() as u64;
        for workload in workloads {
            for callers in &self.callers {
                let distinct =
                    if context.actor.is_some() { u32::MAX } else { u32::try_from(actors.len()).unwrap_or(u32::MAX) };
                if *workload == Workload::Handoff && (*callers < 2 || *callers > distinct) {
                    say(format_args!(
                        "skipping handoff with {callers} callers: it needs at least 2 callers, each a different actor. On a \
                         development node pass --actor, elsewhere pass --actors with a file of API keys"
                    ));
                    continue;
                }
                let queue = format!("bench-{}-{}-{callers}", &name[..8], super::out::word(workload));
                let queue = parse::queue(&queue).map_err(Failure::Usage)?;
                let ground =
                    Ground { context, actors: &actors, queue, items: self.items.max(1), lasts: self.seconds.0 };
                progress.at(done, Some(cells), format_args!("{}, {callers} callers", super::out::word(workload)));
                let measured = tokio::select! {
                    cell = ground.measure(*workload, *callers) => cell,
                    () = interrupted() => Err(Failure::Interrupted),
                };
                progress.end();
                done += 1;
                if !self.keep {
                    ground.clear().await;
                }
                let cell = measured?;
                if context.out.is_json {
                    context.out.json(&cell)?;
                } else {
                    row(&mut table, &cell);
                }
            }
        }
        if context.out.is_json { Ok(()) } else { context.out.table(&table) }
    }
}

impl Bench {
    fn actors(&self, context: &Context) -> Result<Vec<Client>, Failure> {
        let Some(path) = &self.actors else { return Ok(Vec::new()) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
        let api_keys: Vec<_> = text.split_whitespace().collect();
        if api_keys.is_empty() {
            return Err(Failure::Usage(format!("{} holds no API key", path.display())));
        }
        api_keys.into_iter().map(|api_key| context.with_api_key(api_key)).collect()
    }
}

fn histogram(latencies: &Histogram<u64>) -> Vec<(u64, u64)> {
    let steps = latencies.iter_log(1, 2.0);
    let steps = steps.map(|step| (step.value_iterated_to(), step.count_since_last_iteration()));
    steps.filter(|(_, count)| *count > 0).collect()
}

fn row(table: &mut Table, cell: &Cell) {
    let ms = |us: u64| format!("{}.{:02}", us / 1_000, us % 1_000 / 10);
    let plain = |text: String| (text, Paint::Plain);
    let took = u64::try_from(Duration::from_secs_f64(cell.seconds).as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = cell.operations.saturating_mul(1_000) / took;
    table.row([
        plain(super::out::word(cell.workload)),
        plain(cell.callers.to_string()),
        (grouped(rate), Paint::Bold),
        plain(ms(cell.p50_us)),
        plain(ms(cell.p90_us)),
        plain(ms(cell.p99_us)),
        plain(ms(cell.p999_us)),
        plain(ms(cell.max_us)),
        (grouped(cell.errors), if cell.errors > 0 { Paint::Bad } else { Paint::Dim }),
    ]);
}

impl Ground<'_> {
    fn item(&self, nth: u32) -> Result<ItemId, Failure> {
        parse::item(&format!("{}-{nth}", self.queue)).map_err(Failure::Usage)
    }

    fn cell(&self, workload: Workload, callers: u32, began: Instant, tally: &Tally) -> Cell {
        if let Some(why) = &tally.why {
            say(format_args!("{}: {} requests failed, the first: {why}", self.queue, tally.errors));
        }
        let seconds = tally.last.duration_since(began).as_secs_f64().max(0.001);
        let latencies = &tally.latencies;
        let operations = latencies.len();
        Cell {
            workload,
            callers,
            seconds,
            operations,
            per_second: Duration::from_secs(operations).as_secs_f64() / seconds,
            errors: tally.errors,
            p50_us: latencies.value_at_quantile(0.5),
            p90_us: latencies.value_at_quantile(0.9),
            p99_us: latencies.value_at_quantile(0.99),
            p999_us: latencies.value_at_quantile(0.999),
            max_us: latencies.max(),
            histogram: histogram(latencies),
        }
    }
}
