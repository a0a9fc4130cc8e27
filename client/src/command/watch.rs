//! `watch`: shows events.

use super::failure::Failure;
use super::global::{Context, interrupted};
use super::out::{Out, Paint, clean, say, word};
use super::parse;
use super::span::day;
use api::event::Event;
use api::limits::PAGE_MAX;
use api::names::Number;
use clap::Args;
use client::names::{ActorId, ItemId, QueueName};
use client::{Ended, EventsQuery, StreamQuery};
use std::str::FromStr;

#[derive(Clone, Copy, Debug)]
enum From {
    Start,
    Now,
    After(Number),
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "start" => Ok(Self::Start),
            "now" => Ok(Self::Now),
            number => number.parse().map(Self::After).map_err(|why| format!("{why}; or use `start` or `now`")),
        }
    }
}

/// Show events as they happen, without a gap even when nodes fail
#[derive(Args, Debug)]
pub(crate) struct Watch {
    /// Where to start: `start` (all events that are kept), `now`, or after the event with this number
    #[arg(long, value_name = "POSITION", default_value = "now")]
    from: From,
    /// Exit after the last event instead of waiting for more
    #[arg(long)]
    no_follow: bool,
    /// Only events of this queue
    #[arg(long, value_name = "QUEUE", value_parser = parse::queue)]
    queue: Option<QueueName>,
    /// Only events of this item
    #[arg(long, value_name = "ITEM", value_parser = parse::item)]
    item: Option<ItemId>,
    /// Only events that this actor caused or that name it
    #[arg(long, value_name = "ACTOR", value_parser = parse::actor)]
    of: Option<ActorId>,
}

impl Watch {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let after = match self.from {
            From::After(number) => Some(number),
            From::Start | From::Now => None,
        };
        let mut query = StreamQuery { after, queue: self.queue, item: self.item, actor: self.of };
        let past = self.no_follow || matches!(self.from, From::Start);
        tokio::select! {
            shown = async {
                if past && !matches!(self.from, From::Now) {
                    pages(context, &mut query).await?;
                }
                if self.no_follow { Ok(()) } else { follow(context, &query).await }
            } => shown,
            () = interrupted() => Ok(()),
        }
    }
}

/// Shows the events so far, page by page.
async fn pages(context: &Context, query: &mut StreamQuery) -> Result<(), Failure> {
    let StreamQuery { queue, item, actor, .. } = query.clone();
    let mut page_query = EventsQuery { after: query.after, queue, item, actor, limit: Some(PAGE_MAX) };
    loop {
        let page = context.client.events(&page_query).await?;
        for event in &page.events {
            show(&context.out, event)?;
        }
        match page.next_after {
            Some(next) if Some(next) != page_query.after => page_query.after = Some(next),
            _ => {
                query.after = page_query.after;
                return Ok(());
            }
        }
    }
}

async fn follow(context: &Context, query: &StreamQuery) -> Result<(), Failure> {
    let mut watch = context.client.watch(query).await?;
    while let Some(next) = watch.next().await {
        match next {
            Ok(event) => show(&context.out, &event)?,
            Err(ended) => {
                if let Some(position) = watch.position() {
                    say(format_args!("all events up to {position} were shown"));
                }
                return Err(match ended {
                    Ended::Refused(problem) => client::Error::Refused(problem).into(),
                    Ended::PositionTooOld { .. } => Failure::Nothing(ended.to_string()),
                    Ended::Unauthenticated | Ended::NoPosition | Ended::Invalid(_) => Failure::other(ended.to_string()),
                });
            }
        }
    }
    Ok(())
}

fn show(out: &Out, event: &Event) -> Result<(), Failure> {
    if out.is_json {
        return out.json(event);
    }
    let mut text =
        format!("{}  {}  ", out.paint(Paint::Dim, &day(event.at)), out.paint(Paint::Dim, &event.number.to_string()));
    text += &out.paint(paint(&event.kind), &event.kind);
    let mut add = |more: String| {
        text.push_str("  ");
        text += &clean(&more);
    };
    if let Some(item) = &event.item {
        add(item.to_string());
    }
    if let Some(queue) = &event.queue {
        add(format!("in {queue}"));
    }
    if let Some(what) = &event.what {
        if let Some(holder) = &what.holder {
            add(format!("of {}", holder.actor));
        }
        if let Some(token) = what.token {
            add(format!("token {token}"));
        }
        let words = [
            what.actor.as_ref().map(|actor| format!("of {actor}")),
            what.phase.as_ref().map(|phase| format!("phase {phase}")),
            what.reason.as_ref().filter(|reason| !reason.is_empty()).map(|reason| format!("because: {reason}")),
            what.activity.map(word),
            what.note.clone().filter(|note| !note.is_empty()),
            what.fields.as_ref().map(|fields| fields.join(" ")),
            what.blocked_by.map(|by| format!("by {}", word(by))),
            what.worker.as_ref().map(|worker| worker.actor.to_string()),
            what.place.map(|place| format!("place {place}")),
            what.answer.map(|code| code.name().to_owned()),
        ];
        words.into_iter().flatten().for_each(&mut add);
    }
    if let Some(by) = &event.by {
        add(format!("by {}", by.actor));
    }
    out.line(text)
}

fn paint(kind: &str) -> Paint {
    match kind {
        "granted" | "completed" | "picked_up" => Paint::Good,
        "expired" | "failed" | "blocked" | "revoked" | "cancelled" => Paint::Bad,
        _ => Paint::Bold,
    }
}
