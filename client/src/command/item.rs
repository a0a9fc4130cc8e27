//! Commands that read items, and those that change items which the caller does not hold.

use super::failure::Failure;
use super::global::Context;
use super::out::{Out, Paint, Table, clean, clean_lines, say, word};
use super::parse;
use super::span::{day, when};
use api::item::Item;
use api::words::{ClaimStatus, ItemState};
use api::write::Moved;
use clap::Args;
use client::names::{ActorId, ItemId, Label, QueueName, SessionId};
use client::{Consistency, IfClaimed, ItemsQuery};

/// Show an item with its body
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
    /// Wait until nobody holds the item, at most 20s
    #[arg(long, conflicts_with_all = ["local", "activities"])]
    free: bool,
    /// Read from the called node without asking the leader: faster, but possibly stale
    #[arg(long, conflicts_with = "activities")]
    local: bool,
    /// Show the item's latest activities instead
    #[arg(long)]
    activities: bool,
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        if self.activities {
            let activities = context.ask(context.client.activities(&self.item)).await?;
            return context.out.answer(&activities, |out, activities| {
                let mut table = Table::new(&["AT", "KIND", "BY", "NOTE"]);
                for activity in &activities.activities {
                    let by = activity.by.as_ref().map(ToString::to_string).unwrap_or_default();
                    let note = activity.note.clone().unwrap_or_default();
                    table.plain([day(activity.at), word(activity.kind), by, note]);
                }
                out.table(&table)
            });
        }
        let call = match (self.free, self.local) {
            (true, _) => context.client.item_if(&self.item, IfClaimed::Wait),
            (false, true) => context.client.item_locally(&self.item),
            (false, false) => context.client.item(&self.item),
        };
        let item = context.ask(call).await?;
        context.out.answer(&item, shown)
    }
}

fn shown(out: &Out, item: &Item) -> Result<(), Failure> {
    let content = &item.content;
    let names = |labels: &[Label]| labels.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let mut table = Table::default();
    table.pair("item", &item.id);
    table.pair_if("title", some(content.title.clone()));
    table.pair("queue", &item.queue);
    table.row([("state".into(), Paint::Dim), (word(item.state), paint(item.state))]);
    if let Some(since) = item.since {
        table.pair("since", when(since));
    }
    table.pair("priority", content.priority);
    table.pair_if("labels", some(names(&content.labels)));
    table.pair_if("needs", some(names(&content.needs)));
    table.pair_if("phase", content.phase.as_ref());
    table.pair_if("parent", content.parent.as_ref());
    table.pair_if("target", content.target.as_ref());
    table.pair_if("depends on", some(content.depends_on.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")));
    table.pair_if("not before", content.not_before.map(when));
    if let Some(waits) = &item.waits_for {
        table.pair_if("waits for", some(dependencies(waits.dependencies)));
        table.pair_if("waits until", waits.until.map(when));
    }
    table.pair_if("blocked by", item.blocked_by.map(word));
    table.pair("attempts", item.attempts);
    table.pair("revision", item.revision);
    table.pair_if("assigned to", item.assignee.as_ref());
    if let Some(holder) = &item.holder {
        let who = holder.actor.as_ref().map_or_else(|| word(holder.kind), ToString::to_string);
        let session = holder.session.as_ref().map(|session| format!(" in session {session}"));
        table.pair("held by", who + &session.unwrap_or_default());
        table.pair_if("held until", holder.expires_at.map(when));
        table.pair_if("doing", holder.action.as_ref());
        table.pair_if("field", holder.field.as_ref());
    } else if item.claimed {
        table.pair("held by", "somebody");
    }
    table.pair_if("your token", item.token);
    table.pair_if("claimed", item.claimed_at.map(when));
    table.pair_if("reserved until", item.reserved_until.map(when));
    if item.line_length > 0 {
        table.pair("in line", item.line_length);
    }
    if item.cancel_requested {
        table.pair("note", "cancellation requested");
    }
    let by = content.created_by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    table.pair("created", format!("{}{by}", when(content.created_at)));
    out.table(&table)?;
    let Some(body) = &content.body else { return Ok(()) };
    for (name, text) in [
        ("prompt", &body.prompt),
        ("instructions", &body.instructions),
        ("context (untrusted)", &body.context),
        ("data", &body.data),
        ("plan", &body.plan),
        ("external_url", &body.external_url),
        ("error", &body.error),
        ("result", &body.result),
    ] {
        if let Some(text) = text {
            out.line(format_args!("\n{}\n{}", out.paint(Paint::Bold, name), clean_lines(text.trim_end())))?;
        }
    }
    Ok(())
}

fn dependencies(count: u32) -> String {
    match count {
        0 => String::new(),
        1 => "one item that is not complete".into(),
        more => format!("{more} items that are not complete"),
    }
}

pub(crate) fn paint(state: ItemState) -> Paint {
    match state {
        ItemState::Active => Paint::Good,
        ItemState::AwaitingInput | ItemState::Stale | ItemState::Reserved => Paint::Warn,
        ItemState::Blocked | ItemState::Error => Paint::Bad,
        ItemState::Pending | ItemState::Cancelled | ItemState::Complete => Paint::Dim,
        ItemState::Queued => Paint::Plain,
    }
}

/// A table with one row per item.
pub(crate) fn table() -> Table {
    Table::new(&["ITEM", "QUEUE", "STATE", "PRIO", "HELD BY", "LINE", "SINCE", "TITLE"])
}

pub(crate) fn row(table: &mut Table, item: &Item) {
    let holder = match &item.holder {
        Some(holder) => holder.actor.as_ref().map_or_else(|| word(holder.kind), ToString::to_string),
        None if item.claimed => "somebody".into(),
        None => String::new(),
    };
    let line = if item.line_length > 0 { item.line_length.to_string() } else { String::new() };
    let plain = |text: String| (text, Paint::Plain);
    table.row([
        plain(item.id.to_string()),
        plain(item.queue.to_string()),
        (word(item.state), paint(item.state)),
        plain(item.content.priority.to_string()),
        plain(holder),
        plain(line),
        (item.since.map_or_else(String::new, day), Paint::Dim),
        plain(item.content.title.clone()),
    ]);
}

/// List and search items
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only items of this queue
    #[arg(long, value_name = "QUEUE", value_parser = parse::queue)]
    queue: Option<QueueName>,
    /// Only items in this state [default: all states except complete, error and cancelled]
    #[arg(long, value_name = "STATE", value_parser = parse::words(ItemState::ALL))]
    state: Option<ItemState>,
    /// Only items with this label; repeat to require several
    #[arg(long, value_name = "LABEL", value_parser = parse::label)]
    label: Vec<Label>,
    /// Only children of this item
    #[arg(long, value_name = "ITEM", value_parser = parse::item)]
    parent: Option<ItemId>,
    /// Only items with this claim status
    #[arg(long, value_name = "STATUS", value_parser = parse::words(ClaimStatus::ALL))]
    claim: Option<ClaimStatus>,
    /// Only items that are assigned to this actor, as far as you may see that
    #[arg(long, value_name = "ACTOR", value_parser = parse::actor)]
    assignee: Option<ActorId>,
    /// Only items that this actor holds, as far as you may see that
    #[arg(long, value_name = "ACTOR", value_parser = parse::actor)]
    holder: Option<ActorId>,
    /// Only items that are held in this session, as far as you may see that
    #[arg(long, value_name = "SESSION", value_parser = parse::session)]
    holder_session: Option<SessionId>,
    /// Only items with this text in their id or title
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Entries per page, at most 1,000 [default: 100]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Continue from the cursor of an earlier page
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Read all pages
    #[arg(long)]
    all: bool,
    /// Read from the called node without asking the leader: faster, but possibly stale
    #[arg(long)]
    local: bool,
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut query = ItemsQuery {
            queue: self.queue,
            state: self.state,
            labels: self.label,
            parent: self.parent,
            claim: self.claim,
            assignee: self.assignee,
            holder: self.holder,
            session: self.holder_session,
            text: self.text,
            cursor: self.cursor,
            limit: self.limit.or(self.all.then_some(1_000)),
            consistency: if self.local { Consistency::Local } else { Consistency::Linearizable },
        };
        let mut table = table();
        loop {
            let page = context.ask(context.client.items(&query)).await?;
            if context.out.is_json {
                context.out.json(&page)?;
            } else {
                page.items.iter().for_each(|item| row(&mut table, item));
            }
            query.cursor = page.next_cursor;
            // A page may be empty and still have a next cursor.
            if query.cursor.is_none() || !(self.all || page.items.is_empty()) {
                break;
            }
        }
        if !context.out.is_json {
            context.out.table(&table)?;
            if let Some(cursor) = query.cursor {
                say(format_args!("more results: pass --all, or --cursor {}", clean(&cursor)));
            }
        }
        Ok(())
    }
}

/// Show your items: leased by you, assigned to you, reserved for you
#[derive(Args, Debug)]
pub(crate) struct Mine {
    /// Show the items of this actor instead, as far as you may see them
    #[arg(long, value_name = "ACTOR", value_parser = parse::actor)]
    of: Option<ActorId>,
    /// Items of each kind, at most 1,000 [default: 100]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl Mine {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let carrying = match &self.of {
            Some(actor) => context.client.carrying_of(actor, self.limit),
            None => context.client.carrying(self.limit),
        };
        let carrying = context.ask(carrying).await?;
        context.out.answer(&carrying, |out, carrying| {
            let mut table = Table::new(&["ITEM", "QUEUE", "AS", "TOKEN", "UNTIL", "SESSION", "TITLE"]);
            let mut add = |items: &[Item], how: &str, paint: Paint| {
                for item in items {
                    let holder = item.holder.as_ref();
                    let until = item.reserved_until.or(holder.and_then(|holder| holder.expires_at));
                    let session = holder.and_then(|holder| holder.session.as_ref()).map(ToString::to_string);
                    let plain = |text: String| (text, Paint::Plain);
                    table.row([
                        plain(item.id.to_string()),
                        plain(item.queue.to_string()),
                        (how.to_owned(), paint),
                        plain(item.token.map(|token| token.to_string()).unwrap_or_default()),
                        plain(until.map(when).unwrap_or_default()),
                        plain(session.unwrap_or_default()),
                        plain(item.content.title.clone()),
                    ]);
                }
            };
            add(&carrying.leased, "leased", Paint::Good);
            add(&carrying.reserved, "reserved", Paint::Warn);
            let is_elsewhere =
                |item: &&Item| !carrying.leased.iter().chain(&carrying.reserved).any(|other| other.id == item.id);
            let assigned: Vec<_> = carrying.assigned.iter().filter(is_elsewhere).cloned().collect();
            add(&assigned, "assigned", Paint::Plain);
            out.table(&table)
        })
    }
}

/// Show the wait line of an item, in order
#[derive(Args, Debug)]
pub(crate) struct Line {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
}

impl Line {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let line = context.ask(context.client.line(&self.item)).await?;
        context.out.answer(&line, |out, line| {
            let mut table = Table::new(&["PLACE", "WHO", "SESSION", "SINCE"]);
            for place in &line.places {
                let who = match (&place.actor, place.kind, place.is_yours) {
                    (_, _, true) => "you".into(),
                    (Some(actor), _, _) => actor.to_string(),
                    (None, kind, _) => kind.map_or_else(|| "somebody".into(), word),
                };
                let session = place.session.as_ref().map(ToString::to_string).unwrap_or_default();
                table.plain([place.place.to_string(), who, session, when(place.joined_at)]);
            }
            out.table(&table)
        })
    }
}

/// Cancel an item: at once, or after its holder has stopped
#[derive(Args, Debug)]
pub(crate) struct Cancel {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
    /// Reason, kept for later review
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// End a live lease at once
    #[arg(long)]
    force: bool,
}

impl Cancel {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let cancel = api::write::Cancel { reason: self.reason, force: self.force };
        let cancelled = context.ask(context.client.cancel(&self.item, &cancel)).await?;
        context.out.answer(&cancelled, |out, cancelled| match cancelled.ends_by {
            None => out.line(format_args!("{} is {}", cancelled.item, word(cancelled.state))),
            Some(date) => out.line(format_args!(
                "{} is {}: its holder is asked to stop, by {} at the latest",
                cancelled.item,
                word(cancelled.state),
                when(date)
            )),
        })
    }
}

/// Assign an item to an actor, without a lease
#[derive(Args, Debug)]
pub(crate) struct Assign {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
    /// The actor
    #[arg(value_name = "ACTOR", value_parser = parse::actor)]
    to: ActorId,
}

impl Assign {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let assigned = context.ask(context.client.assign(&self.item, &self.to)).await?;
        context.out.answer(&assigned, |out, assigned| {
            out.line(format_args!("{} is assigned to {}", assigned.item, assigned.actor))
        })
    }
}

/// End an actor's assignment of an item
#[derive(Args, Debug)]
pub(crate) struct Unassign {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
    /// The actor
    #[arg(value_name = "ACTOR", value_parser = parse::actor)]
    from: ActorId,
}

impl Unassign {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let unassigned = context.ask(context.client.unassign(&self.item, &self.from)).await?;
        context.out.answer(&unassigned, |out, unassigned| {
            let so = if unassigned.unassigned { "is no longer" } else { "was not" };
            out.line(format_args!("{} {so} assigned to {}", unassigned.item, self.from))
        })
    }
}

/// Retry a blocked or failed item. For operators
#[derive(Args, Debug)]
pub(crate) struct Retry {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
}

impl Retry {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let now = context.ask(context.client.retry(&self.item)).await?;
        context.out.answer(&now, moved)
    }
}

/// Queue an ended item again
#[derive(Args, Debug)]
pub(crate) struct Reopen {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
}

impl Reopen {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let now = context.ask(context.client.reopen(&self.item)).await?;
        context.out.answer(&now, moved)
    }
}

/// Prints the item's new state.
pub(crate) fn moved(out: &Out, moved: &Moved) -> Result<(), Failure> {
    out.line(format_args!("{} is {}, revision {}", moved.item, word(moved.state), moved.revision))
}
