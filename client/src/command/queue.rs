//! `queue`: counts, policy, pause and drain.

use super::failure::Failure;
use super::global::Context;
use super::out::{Out, Paint, Table, clean, grouped, say, word};
use super::parse;
use super::span::{Span, when};
use api::queue::{Backoff, FlowSet, Policy, PolicyChange, Queue};
use api::words::{AtMaxLeases, Disclosure, Flow, OnDependencyFailed, RequireLease};
use clap::{Args, Subcommand};
use client::PageQuery;
use client::names::{Phase, QueueName};

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// List the queues with their counts
    List(Pages),
    /// Show the counts and the policy of a queue
    Show(Named),
    /// Change a queue's policy, or show it if no change is given. For operators
    Policy(Box<SetPolicy>),
    /// Stop granting; holders continue and waiters keep their places. For operators
    Pause(Named),
    /// Start granting again. For operators
    Unpause(Named),
    /// Stop granting and reject waiters, until no lease is left. For operators
    Drain(Named),
}

#[derive(Args, Debug)]
pub(crate) struct Named {
    /// The queue
    #[arg(value_name = "QUEUE", value_parser = parse::queue)]
    queue: QueueName,
}

/// Paging of a long list.
#[derive(Args, Debug)]
pub(crate) struct Pages {
    /// Entries per page, at most 1,000 [default: 100]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Continue from the cursor of an earlier page
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Read all pages
    #[arg(long)]
    all: bool,
}

impl Pages {
    pub(crate) fn query(&self) -> PageQuery {
        PageQuery { cursor: self.cursor.clone(), limit: self.limit, ..PageQuery::default() }
    }

    /// Whether to read another page. If so, sets the query's cursor to it.
    pub(crate) fn goes_on(&self, query: &mut PageQuery, next_cursor: Option<String>, out: &Out) -> bool {
        match next_cursor {
            Some(cursor) if self.all => {
                query.cursor = Some(cursor);
                true
            }
            Some(cursor) => {
                if !out.is_json {
                    say(format_args!("more results: pass --all, or --cursor {}", clean(&cursor)));
                }
                false
            }
            None => false,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct SetPolicy {
    /// The queue
    #[arg(value_name = "QUEUE", value_parser = parse::queue)]
    queue: QueueName,
    /// Policy version that you have read: fails if the policy has changed since
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// Lease duration if a claim gives none
    #[arg(long, value_name = "DURATION")]
    lease_for: Option<Span>,
    /// Longest lease duration
    #[arg(long, value_name = "DURATION")]
    lease_max: Option<Span>,
    /// Shortest lease duration
    #[arg(long, value_name = "DURATION")]
    lease_min: Option<Span>,
    /// Time for a waiter to pick up its grant from the line
    #[arg(long, value_name = "DURATION")]
    pickup: Option<Span>,
    /// Time after a lease has expired in which nobody else gets the item
    #[arg(long, value_name = "DURATION")]
    lock_delay: Option<Span>,
    /// Longest wait line of an item
    #[arg(long, value_name = "N")]
    line_max: Option<u32>,
    /// Attempts until an item is blocked; 0: unlimited
    #[arg(long, value_name = "N")]
    attempts_max: Option<u32>,
    /// Backoff before the second attempt
    #[arg(long, value_name = "DURATION")]
    backoff_first: Option<Span>,
    /// Each further backoff, in percent of the one before
    #[arg(long, value_name = "PERCENT")]
    backoff_factor: Option<u32>,
    /// Longest backoff
    #[arg(long, value_name = "DURATION")]
    backoff_max: Option<Span>,
    /// How long ended items are kept
    #[arg(long, value_name = "DURATION")]
    retention: Option<Span>,
    /// Maximum leases of one actor; 0: unlimited
    #[arg(long, value_name = "N")]
    max_leases: Option<u32>,
    /// What happens to a claim above --max-leases
    #[arg(long, value_name = "WHAT", value_parser = parse::words(AtMaxLeases::ALL))]
    at_max_leases: Option<AtMaxLeases>,
    /// When an update requires a lease
    #[arg(long, value_name = "WHEN", value_parser = parse::words(RequireLease::ALL))]
    require_lease: Option<RequireLease>,
    /// Who may see the holder of an item
    #[arg(long, value_name = "TO", value_parser = parse::words(Disclosure::ALL))]
    disclosure: Option<Disclosure>,
    /// What happens to an item whose dependency can no longer complete
    #[arg(long, value_name = "WHAT", value_parser = parse::words(OnDependencyFailed::ALL))]
    on_dependency_failed: Option<OnDependencyFailed>,
    /// Maximum leases in this queue; 0: unlimited
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
    /// Longest reservation
    #[arg(long, value_name = "DURATION")]
    reservation_max: Option<Span>,
    /// Phases of the queue's items, separated by commas
    #[arg(long, value_name = "PHASES", value_delimiter = ',', value_parser = parse::phase)]
    phases: Option<Vec<Phase>>,
}

impl Verb {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (&context.client, &context.out);
        match self {
            Self::List(pages) => list(context, &pages).await,
            Self::Show(Named { queue }) => {
                let queue = context.ask(client.queue(&queue)).await?;
                out.answer(&queue, shown)
            }
            Self::Policy(set) => set.run(context).await,
            Self::Pause(Named { queue }) => out.answer(&context.ask(client.pause(&queue)).await?, flow_set),
            Self::Unpause(Named { queue }) => out.answer(&context.ask(client.unpause(&queue)).await?, flow_set),
            Self::Drain(Named { queue }) => out.answer(&context.ask(client.drain_queue(&queue)).await?, flow_set),
        }
    }
}

fn flow_set(out: &Out, set: &FlowSet) -> Result<(), Failure> {
    out.line(format_args!("{} is {}", set.queue, word(set.flow)))
}

pub(crate) fn table() -> Table {
    Table::new(&["QUEUE", "FLOW", "READY", "LEASES", "LINES", "PENDING", "BLOCKED", "STALE", "OLDEST READY"])
}

pub(crate) fn row(table: &mut Table, queue: &Queue) {
    let count = |state: &str| grouped(queue.by_state.get(state).copied().unwrap_or(0));
    let plain = |text: String| (text, Paint::Plain);
    table.row([
        plain(queue.queue.to_string()),
        (word(queue.flow), paint(queue.flow)),
        plain(grouped(queue.ready)),
        plain(grouped(u64::from(queue.leases))),
        plain(grouped(queue.items_with_line)),
        plain(count("pending")),
        plain(count("blocked")),
        plain(count("stale")),
        (queue.oldest_ready_since.map(when).unwrap_or_default(), Paint::Dim),
    ]);
}

fn paint(flow: Flow) -> Paint {
    match flow {
        Flow::Open => Paint::Good,
        Flow::Paused | Flow::Draining | Flow::Drained => Paint::Warn,
    }
}

async fn list(context: &Context, pages: &Pages) -> Result<(), Failure> {
    let mut query = pages.query();
    let mut table = table();
    loop {
        let page = context.ask(context.client.queues(&query)).await?;
        if context.out.is_json {
            context.out.json(&page)?;
        } else {
            page.queues.iter().for_each(|queue| row(&mut table, queue));
        }
        if !pages.goes_on(&mut query, page.next_cursor, &context.out) {
            break;
        }
    }
    if context.out.is_json { Ok(()) } else { context.out.table(&table) }
}

fn shown(out: &Out, queue: &Queue) -> Result<(), Failure> {
    let mut table = Table::default();
    table.pair("queue", &queue.queue);
    table.row([("flow".into(), Paint::Dim), (word(queue.flow), paint(queue.flow))]);
    table.pair("ready", grouped(queue.ready));
    table.pair_if("oldest ready", queue.oldest_ready_since.map(when));
    table.pair("leases", grouped(u64::from(queue.leases)));
    table.pair("items with a line", grouped(queue.items_with_line));
    if queue.unsettled > 0 {
        table.pair("lines that wait for the queue", grouped(queue.unsettled));
    }
    let states = queue.by_state.iter().filter(|(_, count)| **count > 0);
    let states = states.map(|(state, count)| format!("{state} {}", grouped(*count))).collect::<Vec<_>>();
    table.pair("live items", states.join(", "));
    out.table(&table)?;
    out.line("")?;
    policy(out, &queue.policy, queue.version)
}

fn policy(out: &Out, policy: &Policy, version: u64) -> Result<(), Failure> {
    let limit = |number: u32| if number == 0 { "unlimited".into() } else { grouped(u64::from(number)) };
    let span = |ms: u64| Span::of_ms(ms).to_string();
    let mut table = Table::default();
    table.pair("policy version", version);
    table.pair("lease for", span(policy.lease_for_ms));
    table.pair("lease max", span(policy.lease_max_ms));
    table.pair("lease min", span(policy.lease_min_ms));
    table.pair("pickup", span(policy.pickup_ms));
    table.pair("lock delay", span(policy.lock_delay_ms));
    table.pair("line max", grouped(u64::from(policy.line_max)));
    table.pair("attempts max", limit(policy.attempts_max));
    let Backoff { first_ms, factor_percent, max_ms } = policy.backoff;
    table.pair("backoff", format!("{}, then {factor_percent} % of it, at most {}", span(first_ms), span(max_ms)));
    table.pair("retention", span(policy.retention_ms));
    table.pair("max leases", format!("{}, then {}", limit(policy.max_leases), word(policy.at_max_leases)));
    table.pair("require lease", word(policy.require_lease));
    table.pair("disclosure", word(policy.disclosure));
    table.pair("on dependency failed", word(policy.on_dependency_failed));
    table.pair("concurrency", limit(policy.concurrency));
    table.pair("reservation max", span(policy.reservation_max_ms));
    let phases = policy.phases.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    table.pair("phases", if phases.is_empty() { "any".into() } else { phases });
    for mirror in &policy.mirrors {
        table.pair("mirror", format!("{} moves the target to {}", word(mirror.transition), mirror.phase));
    }
    out.table(&table)
}

impl SetPolicy {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut change = PolicyChange {
            version: self.version,
            lease_for_ms: self.lease_for.map(Span::ms),
            lease_max_ms: self.lease_max.map(Span::ms),
            lease_min_ms: self.lease_min.map(Span::ms),
            pickup_ms: self.pickup.map(Span::ms),
            lock_delay_ms: self.lock_delay.map(Span::ms),
            line_max: self.line_max,
            attempts_max: self.attempts_max,
            backoff: None,
            retention_ms: self.retention.map(Span::ms),
            max_leases: self.max_leases,
            at_max_leases: self.at_max_leases,
            require_lease: self.require_lease,
            disclosure: self.disclosure,
            on_dependency_failed: self.on_dependency_failed,
            concurrency: self.concurrency,
            reservation_max_ms: self.reservation_max.map(Span::ms),
            phases: self.phases,
            mirrors: None,
        };
        let is_backoff = self.backoff_first.is_some() || self.backoff_factor.is_some() || self.backoff_max.is_some();
        if change == (PolicyChange { version: self.version, ..PolicyChange::default() }) && !is_backoff {
            let queue = context.ask(context.client.queue(&self.queue)).await?;
            return context.out.answer(&queue.policy, |out, set| policy(out, set, queue.version));
        }
        if is_backoff {
            // The backoff is set as a whole: keep the other parts, and fail if the policy changed meanwhile.
            let was = match context.client.queue(&self.queue).await {
                Ok(queue) => {
                    change.version = change.version.or(Some(queue.version));
                    queue.policy.backoff
                }
                // A queue is created on first use, with the default policy.
                Err(error) if error.code() == Some(api::Code::NotFound) => {
                    Policy::from(lease::policy::Policy::default()).backoff
                }
                Err(error) => return Err(error.into()),
            };
            change.backoff = Some(Backoff {
                first_ms: self.backoff_first.map_or(was.first_ms, Span::ms),
                factor_percent: self.backoff_factor.unwrap_or(was.factor_percent),
                max_ms: self.backoff_max.map_or(was.max_ms, Span::ms),
            });
        }
        let set = context.ask(context.client.set_policy(&self.queue, &change)).await?;
        context.out.answer(&set, |out, set| out.line(format_args!("policy of {}: version {}", set.queue, set.version)))
    }
}
