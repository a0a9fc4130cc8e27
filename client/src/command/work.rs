//! `work`: runs a command for each item of a queue.

use super::child::{self, Ended, Stopping};
use super::failure::Failure;
use super::global::Context;
use super::out::say;
use super::output::Output;
use super::parse;
use super::span::Span;
use api::words::{Order, RunsIn};
use clap::Args;
use client::names::{Label, Phase, QueueName};
use client::{Job, Session, Stopped, Worker};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// Work on a queue: run a command for each of its items
///
/// The command gets the item as JSON on standard input, and TENURE_ITEM, TENURE_TOKEN and more in its environment, as
/// with `tenure exec`. Exit code 0 completes the item. Any other code fails it, and it is retried as the queue's policy
/// says. SIGTERM or SIGINT drains: the worker takes no new items, and running commands may finish.
#[derive(Args, Debug)]
pub(crate) struct Work {
    /// The queue
    #[arg(value_name = "QUEUE", value_parser = parse::queue)]
    queue: QueueName,
    /// Items to work on at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
    /// Lease duration; renewed while the command runs. A crash is noticed sooner if it is short [default: the queue's
    /// policy]
    #[arg(long = "for", value_name = "DURATION")]
    lease_for: Option<Span>,
    /// Capability of this worker; repeat for several
    #[arg(long, value_name = "LABEL", value_parser = parse::label)]
    capability: Vec<Label>,
    /// Only items with this label; repeat to require several
    #[arg(long, value_name = "LABEL", value_parser = parse::label)]
    label: Vec<Label>,
    /// Only items in this phase
    #[arg(long, value_name = "PHASE", value_parser = parse::phase)]
    phase: Option<Phase>,
    /// Where the work runs
    #[arg(long, value_name = "MODE", value_parser = parse::words(RunsIn::ALL))]
    mode: Option<RunsIn>,
    /// Order of the items [default: the highest priority, then the oldest]
    #[arg(long, value_name = "ORDER", value_parser = parse::words(Order::ALL))]
    order: Option<Order>,
    /// Time for running commands to finish when the worker stops; then they are killed and their items released
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    drain_within: Span,
    /// Stop a command this long before the end of a lease that cannot be renewed; at most a third of the lease
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    stop_before: Span,
    /// Store this of the command as the result of a completed item: the end of its output, at most 16 KiB [default:
    /// nothing]
    #[arg(long, value_name = "WHAT", value_parser = ["stdout"])]
    result: Option<String>,
    /// Pass the API key to the command in TENURE_API_KEY, which is removed from its environment otherwise
    #[arg(long)]
    pass_credential: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

impl Work {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut worker = Worker::new(&context.client, &self.queue)
            .concurrency(usize::try_from(self.concurrency).unwrap_or(1))
            .capabilities(self.capability)
            .with_labels(self.label)
            .drain_within(self.drain_within.0)
            .in_session(context.client.session().cloned().map_or(Session::Random, Session::Named));
        if let Some(span) = self.lease_for {
            worker = worker.lease_for(span.0);
        }
        if let Some(phase) = self.phase {
            worker = worker.phase(phase);
        }
        if let Some(mode) = self.mode {
            worker = worker.mode(mode);
        }
        if let Some(order) = self.order {
            worker = worker.order(order);
        }
        let (command, stop_before, passes) = (Arc::new(self.command), self.stop_before.0, self.pass_credential);
        let is_result = self.result.is_some();
        let shared = Arc::new(context.clone());
        let stopped = worker
            .run(move |job| {
                let (context, command) = (shared.clone(), command.clone());
                async move { carry_out(&context, &job, &command, stop_before, passes, is_result).await }
            })
            .await?;
        context.client.settled().await;
        say(match stopped {
            Stopped::Shutdown => "stopped",
            Stopped::Drained => "drained by an operator",
        });
        Ok(())
    }
}

async fn carry_out(
    context: &Context,
    job: &Job,
    words: &[OsString],
    stop_before: Duration,
    pass_credential: bool,
    output_is_result: bool,
) -> Result<Option<String>, client::JobFailure> {
    let mut grant = job.grant().clone();
    if grant.snapshot.is_none() {
        grant.snapshot = Some(job.snapshot().await?);
    }
    let mut input = serde_json::to_vec(&grant)?;
    input.push(b'\n');
    let mut command = child::command(context, job, words, pass_credential);
    let output = output_is_result.then(|| Output::of(&mut command)).transpose()?;
    let stopping = Stopping::new(stop_before, Duration::from_millis(grant.lease_for_ms));
    let ended = child::run(command, Some(input), job, context.client.clock(), stopping, None).await;
    match ended.map_err(|error| client::JobFailure::retry(format!("{}: {error}", words[0].to_string_lossy())))? {
        Ended::ByItself(status) if status.success() => match output {
            Some(output) => Ok(output.text().await),
            None => Ok(None),
        },
        Ended::ByItself(status) => Err(client::JobFailure::retry(format!("exit code {}", child::code(status)))),
        Ended::Stopped(why) => Err(client::JobFailure::retry(why)),
    }
}
