//! Adding items: one by its options, or many as lines of JSON from standard input.

use super::failure::{Failure, REFUSED, refused};
use super::global::Context;
use super::out::{Progress, bytes, clean, grouped, say, word};
use super::parse;
use super::span::Span;
use super::write::Parts;
use api::dates::Date;
use api::item::CreatedOf;
use api::item::{NewItem, NewItems};
use api::words::RunsIn;
use clap::Args;
use client::Error;
use client::names::{ItemId, Label, Phase, QueueName};
use std::io::{self, BufRead as _, IsTerminal as _};
use std::time::Instant;
use tokio::sync::mpsc;

/// Items in one request. A request is one replicated command, answered item by item.
const BATCH: usize = 500;
/// Bytes in one request, far below a node's limit.
const BATCH_BYTES: usize = 512 * 1024;

/// Add one item, or many as JSON lines from standard input
///
/// Adding an item does not start work on it; only a claim does. Adding an id again with the same content is not an
/// error. Each line is one item as the HTTP API takes it, for example {"id": "disk-42", "queue": "ops", "title":
/// "replace the disk"}; --queue applies to lines that name no queue.
#[derive(Args, Debug)]
pub(crate) struct Add {
    /// Item id [default: read JSON lines from standard input]
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    id: Option<ItemId>,
    /// Queue of the item
    #[arg(long, value_name = "QUEUE", value_parser = parse::queue)]
    queue: Option<QueueName>,
    /// Title
    #[arg(long, value_name = "TEXT", default_value = "", requires = "id")]
    title: String,
    /// Priority; the highest is granted first [default: 5]
    #[arg(long, value_name = "0-9", requires = "id", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Label; repeat for several
    #[arg(long, value_name = "LABEL", requires = "id", value_parser = parse::label)]
    label: Vec<Label>,
    /// Capability that a worker must have; repeat for several
    #[arg(long, value_name = "LABEL", requires = "id", value_parser = parse::label)]
    need: Vec<Label>,
    /// Parent item
    #[arg(long, value_name = "ITEM", requires = "id", value_parser = parse::item)]
    parent: Option<ItemId>,
    /// Target item: its phase follows the steps of this item
    #[arg(long, value_name = "ITEM", requires = "id", value_parser = parse::item)]
    target: Option<ItemId>,
    /// Item that must complete first; repeat for several
    #[arg(long, value_name = "ITEM", requires = "id", value_parser = parse::item)]
    depends_on: Vec<ItemId>,
    /// Do not grant the item before this date, for example 2026-12-24T18:00:00Z
    #[arg(long, value_name = "DATE", requires = "id")]
    not_before: Option<Date>,
    /// Do not grant the item until this much time has passed
    #[arg(long, value_name = "DURATION", requires = "id")]
    delay: Option<Span>,
    /// Where the work runs; local: only on your own workers [default: any]
    #[arg(long, value_name = "MODE", requires = "id", value_parser = parse::words(RunsIn::ALL))]
    mode: Option<RunsIn>,
    /// Phase of the item
    #[arg(long, value_name = "PHASE", requires = "id", value_parser = parse::phase)]
    phase: Option<Phase>,
    #[command(flatten)]
    parts: Parts,
}

impl Add {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let Some(id) = self.id else {
            if self.parts != Parts::default() {
                return Err(Failure::Usage("a body on the command line needs an ITEM".into()));
            }
            return many(context, self.queue).await;
        };
        let queue = self.queue.ok_or_else(|| Failure::Usage("--queue is required with ITEM".into()))?;
        let item = NewItem {
            title: self.title,
            priority: self.priority,
            labels: self.label,
            needs: self.need,
            parent: self.parent,
            target: self.target,
            depends_on: self.depends_on,
            not_before: self.not_before,
            delay_ms: self.delay.map(Span::ms),
            mode: self.mode,
            phase: self.phase,
            body: self.parts.read()?,
            ..NewItem::new(id, queue)
        };
        let created = context.ask(context.client.create(&item)).await?;
        context.out.answer(&created, |out, created| {
            let there = if created.created { "added" } else { "exists already" };
            out.line(format_args!("{} {there}: {}, revision {}", created.item, word(created.state), created.revision))
        })
    }
}

/// Items that were read together, their line numbers, and the bytes read so far.
struct Batch {
    lines: Vec<u64>,
    items: Vec<NewItem>,
    read: u64,
}

/// Sends one batch after the other, so that items may depend on earlier ones.
async fn many(context: &Context, queue: Option<QueueName>) -> Result<(), Failure> {
    if io::stdin().is_terminal() {
        let why = "no ITEM is given, and standard input is a terminal";
        return Err(Failure::Usage(format!("{why}: `tenure add ITEM --queue QUEUE`, or `tenure add < items.jsonl`")));
    }
    let size = rustix::fs::fstat(rustix::stdio::stdin()).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
    let size = size.filter(|size| *size > 0);
    let (sender, mut batches) = mpsc::channel(2);
    let reader = tokio::task::spawn_blocking(move || read(queue.as_ref(), &sender));
    let mut progress = Progress::new();
    let began = Instant::now();
    let (mut added, mut there, mut turned_away) = (0_u64, 0_u64, 0_u64);
    while let Some(Batch { lines, items, read }) = batches.recv().await {
        let created = context.client.create_many(&NewItems { items }).await.map_err(|error| {
            progress.end();
            say(format_args!(
                "{} items were added or existed already; the result is unknown from line {} on",
                grouped(added + there),
                lines.first().copied().unwrap_or(0)
            ));
            sure(error)
        })?;
        for (created, line) in created.items.iter().zip(&lines) {
            match created {
                CreatedOf::Created(created) if created.created => added += 1,
                CreatedOf::Created(_) => there += 1,
                CreatedOf::Refused { problem } => {
                    turned_away += 1;
                    if !context.out.is_json {
                        progress.end();
                        say(format_args!("line {line}: {}", clean(&refused(problem))));
                    }
                }
            }
            if context.out.is_json {
                context.out.json(created)?;
            }
        }
        let done = added + there + turned_away;
        let per_second = u128::from(done) * 1_000 / began.elapsed().as_millis().max(1);
        progress.at(read, size, format_args!("{} items, {per_second}/s, {}", grouped(done), bytes(read)));
    }
    progress.end();
    reader.await.map_err(|error| Failure::other(error.to_string()))??;
    if !context.out.is_json {
        let (added, there, refused) = (grouped(added), grouped(there), grouped(turned_away));
        context.out.line(format_args!("{added} added, {there} existed already, {refused} refused"))?;
    }
    if turned_away > 0 { Err(Failure::Said(REFUSED)) } else { Ok(()) }
}

/// A batch has no request id that a repeat of the whole command could use, but adding the same items again is safe.
fn sure(error: Error) -> Failure {
    let why = error.to_string();
    match error {
        Error::Unknown { .. } => {
            say("run the same command again: items that exist are not added twice");
            say(format_args!("tenure: {}", clean(&why)));
            Failure::Said(super::failure::UNKNOWN)
        }
        error => error.into(),
    }
}

fn read(queue: Option<&QueueName>, batches: &mpsc::Sender<Batch>) -> Result<(), Failure> {
    let mut batch = Batch { lines: Vec::new(), items: Vec::new(), read: 0 };
    let mut batch_bytes = 0;
    let mut number = 0;
    let mut line = String::new();
    let mut input = io::stdin().lock();
    loop {
        line.clear();
        let length = input.read_line(&mut line).map_err(|error| Failure::other(format!("standard input: {error}")))?;
        let is_over = length == 0;
        let is_full = batch.items.len() == BATCH || batch_bytes + length > BATCH_BYTES;
        if (is_over || is_full) && !batch.items.is_empty() {
            let next = Batch { lines: Vec::new(), items: Vec::new(), read: batch.read };
            batch_bytes = 0;
            if batches.blocking_send(std::mem::replace(&mut batch, next)).is_err() {
                return Ok(());
            }
        }
        if is_over {
            return Ok(());
        }
        number += 1;
        batch.read += length as u64;
        batch_bytes += length;
        if line.trim().is_empty() {
            continue;
        }
        batch.lines.push(number);
        batch.items.push(item(&line, queue).map_err(|why| {
            Failure::hinted(
                format!("line {number}: {why}"),
                "earlier lines may have been added; adding them again is safe",
            )
        })?);
    }
}

fn item(line: &str, queue: Option<&QueueName>) -> Result<NewItem, String> {
    let mut value: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if let (Some(fields), Some(queue)) = (value.as_object_mut(), queue) {
        fields.entry("queue").or_insert_with(|| queue.as_str().into());
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}
