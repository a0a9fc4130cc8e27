//! Load on a cluster, in the same words in which others were measured: claim, renew, next, handoff.

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
    /// Claim a fresh item, release it; counted in pairs, timed is the claim
    Claim,
    /// Each caller holds 100 leases and renews them in turn
    Renew,
    /// Take the first of 20,000 queued items, complete it; timed is the taking
    Next,
    /// All callers want one item; the releaser steps back 10 ms; counted in grants after a release, from asking to release
    /// until the next holder knows
    Handoff,
}

/// Measure a cluster: claim, renew, next, handoff
///
/// Real load on a real cluster, in a queue of its own that is emptied afterwards. Callers and nodes on one machine share its
/// cores: ratios within one run mean something, figures of another machine do not compare.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Which workloads; all unless said
    #[arg(value_name = "WORKLOAD")]
    workload: Vec<Workload>,
    /// How many callers at a time, with commas between
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 64, 256], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    callers: Vec<u32>,
    /// For each cell
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    seconds: Span,
    /// How many items `claim` and `next` go through
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    items: u32,
    /// Tokens of several actors, one a line: callers are each of them in turn
    #[arg(long, value_name = "FILE")]
    actors: Option<PathBuf>,
    /// Leave the items where they are
    #[arg(long)]
    keep: bool,
}

/// What callers of one cell saw. Latencies in microseconds.
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
    /// Pairs: a bound, and how many took no longer than that and longer than about half of it.
    histogram: Vec<(u64, u64)>,
}

/// Counted by one caller.
struct Tally {
    latencies: Histogram<u64>,
    errors: u64,
    /// The first of them, so that somebody can see what it was.
    why: Option<String>,
    last: Instant,
}

impl Tally {
    fn new() -> Result<Self, Failure> {
        // To three digits, from a microsecond to a minute.
        let latencies = Histogram::new_with_bounds(1, 60_000_000, 3);
        let latencies = latencies.map_err(|error| Failure::other(format!("no histogram: {error}")))?;
        Ok(Self { latencies, errors: 0, why: None, last: Instant::now() })
    }

    /// One operation is over; what is timed of it took this long.
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
        // Their bounds are the same.
        let _ = self.latencies.add(&other.latencies);
        self.errors += other.errors;
        self.why = self.why.take().or(other.why);
        self.last = self.last.max(other.last);
    }
}

/// Where a cell works.
struct Ground<'c> {
    context: &'c Context,
    /// Who the callers are in turn; none: whoever calls.
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
                        "handoff with {callers} callers is left out: it wants several, each an actor of its own. On a development node \
                         --actor makes them, elsewhere --actors names a file with a token for each"
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
            .map_err(|error| Failure::Usage(format!("{}: cannot be read: {error}", path.display())))?;
        let tokens: Vec<_> = text.split_whitespace().collect();
        if tokens.is_empty() {
            return Err(Failure::Usage(format!("{}: has no token", path.display())));
        }
        tokens.into_iter().map(|token| context.with_token(token)).collect()
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
