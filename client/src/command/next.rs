//! `next` and `peek`: takes the next items of a queue, or only shows them.

use super::claim::granted;
use super::failure::Failure;
use super::global::{Context, interrupted};
use super::item;
use super::out::{Table, word};
use super::parse;
use super::span::Span;
use api::claim::{Dispatched, Next as NextRequest};
use api::hold::Release;
use api::words::{Order, RunsIn};
use clap::Args;
use client::names::{ItemId, Label, Phase, QueueName};
use client::{Consistency, Moment, POLL_MAX, PeekQuery};
use std::cell::Cell;
use std::time::{Duration, Instant};

#[derive(Args, Clone, Debug)]
pub(crate) struct Filter {
    /// Order of the items [default: the highest priority, then the oldest]
    #[arg(long, value_name = "ORDER", value_parser = parse::words(Order::ALL))]
    order: Option<Order>,
    /// Only items with this label; repeat to require several
    #[arg(long, value_name = "LABEL", value_parser = parse::label)]
    label: Vec<Label>,
    /// Capability of the caller; repeat for several [default: those that its worker is registered with]
    #[arg(long, value_name = "LABEL", value_parser = parse::label)]
    capability: Vec<Label>,
    /// Only items in this phase
    #[arg(long, value_name = "PHASE", value_parser = parse::phase)]
    phase: Option<Phase>,
    /// Where the work runs
    #[arg(long, value_name = "MODE", value_parser = parse::words(RunsIn::ALL))]
    mode: Option<RunsIn>,
    /// Only children of this item
    #[arg(long, value_name = "ITEM", value_parser = parse::item)]
    parent: Option<ItemId>,
    /// Only descendants of this item
    #[arg(long, value_name = "ITEM", value_parser = parse::item)]
    ancestor: Option<ItemId>,
    /// Only items with this priority or a higher one
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority_min: Option<u8>,
    /// Only items with this priority or a lower one
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority_max: Option<u8>,
}

impl Filter {
    fn capabilities(&self) -> Option<Vec<Label>> {
        Some(self.capability.clone()).filter(|capabilities| !capabilities.is_empty())
    }

    pub(crate) fn request(&self) -> NextRequest {
        NextRequest {
            order: self.order,
            labels: self.label.clone(),
            capabilities: self.capabilities(),
            phase: self.phase.clone(),
            mode: self.mode,
            parent: self.parent.clone(),
            ancestor: self.ancestor.clone(),
            priority_min: self.priority_min,
            priority_max: self.priority_max,
            ..NextRequest::default()
        }
    }
}

/// Take the next item of a queue, in one atomic step
///
/// The lease remains when the command ends: complete the item with its token, or release it.
#[derive(Args, Debug)]
pub(crate) struct Next {
    /// The queue
    #[arg(value_name = "QUEUE", value_parser = parse::queue)]
    queue: QueueName,
    /// Lease duration [default: the queue's policy]
    #[arg(long = "for", value_name = "DURATION")]
    lease_for: Option<Span>,
    /// Maximum number of items [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    count: Option<u32>,
    /// Wait until an item is available, or at most this long
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true)]
    wait: Option<Option<Span>>,
    /// What you are doing; others can see it
    #[arg(long, value_name = "TEXT")]
    action: Option<String>,
    #[command(flatten)]
    filter: Filter,
}

impl Next {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut request = NextRequest {
            lease_for_ms: self.lease_for.map(Span::ms),
            count: self.count,
            action: self.action,
            ..self.filter.request()
        };
        let by = match self.wait {
            None => Some(Instant::now()),
            Some(None) => None,
            Some(Some(span)) => Some(Instant::now() + span.0),
        };
        let key = context.request_id()?;
        let sent_at = Cell::new(context.client.clock().now());
        let dispatched = tokio::select! {
            dispatched = until(context, &self.queue, &mut request, &key, by, &sent_at) => Some(dispatched?),
            () = interrupted() => None,
        };
        let Some(dispatched) = dispatched else {
            give_back(context, &self.queue, request, &key, sent_at.get()).await?;
            return Err(Failure::Interrupted);
        };
        match &dispatched {
            Dispatched::Granted { grants } => context.out.answer(&dispatched, |out, _| {
                for (nth, grant) in grants.iter().enumerate() {
                    if nth > 0 {
                        out.line("")?;
                    }
                    granted(out, grant)?;
                }
                Ok(())
            }),
            Dispatched::Empty { reason, .. } => {
                if context.out.is_json {
                    context.out.json(&dispatched)?;
                }
                Err(Failure::Nothing(format!("{} has no item to grant: {}", self.queue, word(reason))))
            }
        }
    }
}

/// Asks until an item is granted or the time is over.
async fn until(
    context: &Context,
    queue: &QueueName,
    request: &mut NextRequest,
    key: &str,
    by: Option<Instant>,
    sent_at: &Cell<Moment>,
) -> Result<Dispatched, Failure> {
    let mut repeat_after = context.repeat_after();
    loop {
        let left = by.map_or(POLL_MAX, |by| by.saturating_duration_since(Instant::now()).min(POLL_MAX));
        request.wait_ms = u64::try_from(left.as_millis()).ok().filter(|ms| *ms > 0);
        let asked_at = Instant::now();
        // An empty answer is not stored under the request id, so the next call can use the same id.
        let call = context.client.next(queue, request).key(key);
        sent_at.set(context.client.clock().now());
        let dispatched = match repeat_after.take() {
            Some(age) => call.repeated(age).await?,
            None => call.await?,
        };
        match &dispatched {
            Dispatched::Granted { .. } => return Ok(dispatched),
            Dispatched::Empty { cursor: Some(cursor), .. } => request.cursor = Some(*cursor),
            Dispatched::Empty { .. } if by.is_some_and(|by| by <= Instant::now()) => return Ok(dispatched),
            Dispatched::Empty { retry_after_ms, .. } => {
                request.cursor = None;
                // A paused queue or a stopping node answers at once, so wait before the next call.
                if asked_at.elapsed() < Duration::from_secs(1) {
                    let pause = Duration::from_millis((*retry_after_ms).clamp(50, 1_000));
                    let left = by.map_or(pause, |by| by.saturating_duration_since(Instant::now()));
                    tokio::time::sleep(pause.min(left)).await;
                }
            }
        }
    }
}

/// Releases what was granted to a call whose answer was not awaited.
async fn give_back(
    context: &Context,
    queue: &QueueName,
    mut request: NextRequest,
    key: &str,
    sent_at: Moment,
) -> Result<(), Failure> {
    request.wait_ms = None;
    let age = sent_at.until(context.client.clock().now());
    if let Dispatched::Granted { grants } = context.client.next(queue, &request).key(key).repeated(age).await? {
        for grant in grants {
            let release = Release { token: Some(grant.token), keep_assignment: false };
            context.client.release(&grant.item, &release).await?;
        }
    }
    Ok(())
}

/// Show the items that `next` would take, without taking them
#[derive(Args, Debug)]
pub(crate) struct Peek {
    /// The queue
    #[arg(value_name = "QUEUE", value_parser = parse::queue)]
    queue: QueueName,
    /// Maximum number of items [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    count: Option<u32>,
    #[command(flatten)]
    filter: Filter,
}

impl Peek {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let capabilities = self.filter.capabilities();
        let query = PeekQuery {
            count: self.count,
            order: self.filter.order,
            labels: self.filter.label,
            capabilities,
            phase: self.filter.phase,
            mode: self.filter.mode,
            parent: self.filter.parent,
            ancestor: self.filter.ancestor,
            priority_min: self.filter.priority_min,
            priority_max: self.filter.priority_max,
            consistency: Consistency::Linearizable,
        };
        let page = context.ask(context.client.peek(&self.queue, &query)).await?;
        context.out.answer(&page, |out, page| {
            let mut table: Table = item::table();
            page.items.iter().for_each(|item| item::row(&mut table, item));
            if page.items.is_empty() { Ok(()) } else { out.table(&table) }
        })?;
        match page.items.is_empty() {
            true => Err(Failure::Nothing(format!("{} has no item to grant", self.queue))),
            false => Ok(()),
        }
    }
}
