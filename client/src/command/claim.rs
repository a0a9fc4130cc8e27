//! `claim` and `withdraw`: claims one item, at once or by waiting in line.

use super::failure::Failure;
use super::global::{Context, interrupted};
use super::out::{Out, Table, say};
use super::parse;
use super::span::{Span, when};
use api::claim::{Claim as Wish, Claimed, Grant, OnConflict};
use api::hold::{Release, Renew};
use clap::Args;
use client::names::ItemId;
use client::{Error, Moment};
use std::cell::Cell;
use std::time::Duration;

const FIRST_POLL_MS: u64 = 200;

/// Claim an item: returns a lease with a fencing token
///
/// The lease remains when the command ends: renew it or release it. `tenure exec` holds a lease while a command runs.
#[derive(Args, Debug)]
pub(crate) struct Claim {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
    /// Lease duration [default: the queue's policy]
    #[arg(long = "for", value_name = "DURATION")]
    lease_for: Option<Span>,
    /// Wait in line until the item is granted, or at most this long; Ctrl-C leaves the line
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true)]
    wait: Option<Option<Span>>,
    /// Do not join the line if it already has this many waiters
    #[arg(long, value_name = "N", requires = "wait")]
    line_max: Option<u32>,
    /// End the lease that another session of yours has on the item
    #[arg(long)]
    takeover: bool,
    /// What you are doing; others can see it
    #[arg(long, value_name = "TEXT")]
    action: Option<String>,
    /// Which part of the item you work on; others can see it
    #[arg(long, value_name = "TEXT")]
    field: Option<String>,
}

impl Claim {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let wish = Wish {
            lease_for_ms: self.lease_for.map(Span::ms),
            action: self.action,
            field: self.field,
            on_conflict: if self.wait.is_some() { OnConflict::Wait } else { OnConflict::Fail },
            wait_for_ms: self.wait.flatten().map(Span::ms),
            line_max: self.line_max,
            poll_ms: None,
            takeover: self.takeover,
            mirrors: None,
        };
        let claimed = match self.wait {
            None => context.ask(context.client.request_claim(&self.item, &wish)).await?,
            Some(_) => Claimed::Granted(Box::new(in_line(context, &self.item, wish).await?)),
        };
        context.out.answer(&claimed, |out, claimed| match claimed {
            Claimed::Granted(grant) => granted(out, grant),
            Claimed::Waiting(_) | Claimed::Refused { .. } => Err(Failure::other("unexpected answer to a claim")),
        })
    }
}

/// Waits until the item is granted. If the user interrupts, it leaves the line.
async fn in_line(context: &Context, item: &ItemId, wish: Wish) -> Result<Grant, Failure> {
    let key = context.request_id()?;
    let asked_at = Cell::new(context.client.clock().now());
    let polling = poll(context, item, &wish, &key, &asked_at);
    tokio::select! {
        grant = polling => return grant,
        () = interrupted() => {}
    }
    say("leaving the line");
    tokio::select! {
        given_up = give_up(context, item, wish, &key, asked_at.get()) => given_up?,
        // A second interrupt ends at once: a place that nobody polls expires.
        () = interrupted() => {}
    }
    Err(Failure::Interrupted)
}

async fn poll(
    context: &Context,
    item: &ItemId,
    wish: &Wish,
    key: &str,
    asked_at: &Cell<Moment>,
) -> Result<Grant, Failure> {
    let mut place = None;
    let mut repeat_after = context.repeat_after();
    // The first poll is short, so that the user soon sees the place in line.
    let mut wish = Wish { poll_ms: Some(FIRST_POLL_MS), ..wish.clone() };
    loop {
        let call = context.client.request_claim(item, &wish).key(key);
        asked_at.set(context.client.clock().now());
        let claimed = match repeat_after.take() {
            Some(age) => call.repeated(age).await,
            None => call.await,
        };
        match claimed {
            Ok(Claimed::Granted(grant)) => return picked_up(context, *grant).await,
            Ok(Claimed::Waiting(waiting)) => {
                wish.poll_ms = None;
                if place != Some(waiting.place) {
                    place = Some(waiting.place);
                    let ahead = match waiting.place {
                        0 => "next".to_owned(),
                        more => format!("{more} ahead"),
                    };
                    say(format_args!("in line for {item}: {ahead}, {} waiting", waiting.line_length));
                }
            }
            Ok(Claimed::Refused { problem }) => return Err(Error::Refused(problem).into()),
            // The place is kept for a while; a later poll joins the line again.
            Err(Error::Unavailable { why, .. }) if place.is_some() => {
                say(format_args!("still in line, but no node answers: {why}"));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Renews a grant from the wait line, which is short until its holder renews it once.
async fn picked_up(context: &Context, mut grant: Grant) -> Result<Grant, Failure> {
    if grant.expires_in_ms < grant.lease_for_ms && !grant.cancel_requested {
        let renew = Renew { token: grant.token, lease_for_ms: None };
        let renewed = context.client.renew(&grant.item, &renew).await?;
        grant.expires_in_ms = renewed.expires_in_ms;
        grant.expires_at_ms = renewed.expires_at_ms;
        grant.expires_at = renewed.expires_at;
        grant.line_length = renewed.line_length;
    }
    Ok(grant)
}

/// Leaves the line, and releases the lease if it was granted meanwhile.
async fn give_up(context: &Context, item: &ItemId, mut wish: Wish, key: &str, asked_at: Moment) -> Result<(), Failure> {
    wish.poll_ms = Some(1);
    let age = asked_at.until(context.client.clock().now());
    match context.client.request_claim(item, &wish).key(key).repeated(age).await {
        Ok(Claimed::Granted(grant)) => {
            let release = Release { token: Some(grant.token), keep_assignment: false };
            context.client.release(item, &release).await?;
        }
        Ok(Claimed::Waiting(_)) => drop(context.client.withdraw(item).await?),
        Ok(Claimed::Refused { .. }) | Err(Error::Refused(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Prints a lease for its holder.
pub(crate) fn granted(out: &Out, grant: &Grant) -> Result<(), Failure> {
    let mut table = Table::default();
    table.pair("item", &grant.item);
    if let Some(snapshot) = &grant.snapshot {
        table.pair_if("title", Some(&snapshot.content.title).filter(|title| !title.is_empty()));
        table.pair("queue", &snapshot.queue);
    }
    table.pair("token", grant.token);
    table.pair("left", Span::of_ms(grant.expires_in_ms));
    table.pair("until", when(grant.expires_at));
    if grant.line_length > 0 {
        table.pair("in line", grant.line_length);
    }
    if grant.renewed {
        table.pair("note", "you held it already: the lease is renewed");
    }
    if grant.cut {
        table.pair("note", "shortened to the longest lease that the queue allows");
    }
    if grant.cancel_requested {
        table.pair("note", "cancellation requested: stop the work");
    }
    table.pair_if("released", grant.released.as_ref());
    out.table(&table)
}

/// Leave the wait line of an item
#[derive(Args, Debug)]
pub(crate) struct Withdraw {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
}

impl Withdraw {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let withdrawn = context.ask(context.client.withdraw(&self.item)).await?;
        context.out.answer(&withdrawn, |out, withdrawn| match withdrawn.withdrawn {
            true => out.line(format_args!("left the line of {}", withdrawn.item)),
            false => out.line(format_args!("you were not in the line of {}", withdrawn.item)),
        })
    }
}
