//! `claim` and `withdraw`: claims one item, at once or by waiting in line.

use super::failure::Failure;
use super::global::{Context, interrupted};
use super::out::{Out, Table, say};
use super::parse;
use super::span::{Span, when};
use api::claim::{Claimed, Grant, OnConflict};
use api::hold::Renew;
use clap::Args;
use client::names::ItemId;
use client::{ClaimProgress, ClaimRequest, Client, Error, PendingClaim};
use std::time::Duration;

/// The first poll is short, so that the user soon sees the place in line.
const FIRST_POLL: Duration = Duration::from_millis(200);

/// The arguments that `claim` and `exec` share.
#[derive(Args, Debug)]
pub(crate) struct ClaimArgs {
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
}

impl ClaimArgs {
    pub(crate) fn item(&self) -> &ItemId {
        &self.item
    }

    pub(crate) fn waits(&self) -> bool {
        self.wait.is_some()
    }

    pub(crate) fn request(&self, client: &Client) -> ClaimRequest {
        let mut request = client.claim(&self.item);
        if let Some(span) = self.lease_for {
            request = request.lease_for(span.0);
        }
        if let Some(span) = self.wait.flatten() {
            request = request.within(span.0);
        }
        if let Some(length) = self.line_max {
            request = request.line_max(length);
        }
        if self.takeover {
            request = request.takeover();
        }
        if let Some(action) = &self.action {
            request = request.action(action);
        }
        request
    }
}

/// Claim an item: returns a lease with a fencing token
///
/// The lease remains when the command ends: renew it or release it. `tenure exec` holds a lease while a command runs.
#[derive(Args, Debug)]
pub(crate) struct Claim {
    #[command(flatten)]
    claim: ClaimArgs,
    /// Which part of the item you work on; others can see it
    #[arg(long, value_name = "TEXT")]
    field: Option<String>,
}

impl Claim {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let waits = self.claim.waits();
        let mut request = self.claim.request(&context.client).key(context.request_id()?);
        if let Some(field) = self.field {
            request = request.field(field);
        }
        if let Some(age) = context.repeat_after() {
            request = request.repeated(age);
        }
        let grant = match waits {
            false => granted_by(&mut request.pending(OnConflict::Fail)?).await?,
            true => in_line(context, request.first_poll(FIRST_POLL).pending(OnConflict::Wait)?).await?,
        };
        let claimed = Claimed::Granted(Box::new(grant));
        context.out.answer(&claimed, |out, claimed| match claimed {
            Claimed::Granted(grant) => granted(out, grant),
            Claimed::Waiting(_) | Claimed::Refused { .. } => Err(Failure::other("unexpected answer to a claim")),
        })
    }
}

/// Waits until the item is granted. If the user interrupts, it leaves the line.
async fn in_line(context: &Context, mut pending: PendingClaim) -> Result<Grant, Failure> {
    let granting = async { picked_up(context, granted_by(&mut pending).await?).await };
    tokio::select! {
        grant = granting => return grant,
        () = interrupted() => {}
    }
    say("leaving the line");
    tokio::select! {
        withdrawn = pending.withdraw() => withdrawn?,
        // A second interrupt ends at once: a place that nobody polls expires.
        () = interrupted() => {}
    }
    Err(Failure::Interrupted)
}

/// Polls until the item is granted, and reports the place in line.
async fn granted_by(pending: &mut PendingClaim) -> Result<Grant, Error> {
    let mut place = None;
    loop {
        match pending.poll().await? {
            ClaimProgress::Granted { grant, .. } => return Ok(*grant),
            ClaimProgress::Waiting(waiting) if place == Some(waiting.place) => {}
            ClaimProgress::Waiting(waiting) => {
                place = Some(waiting.place);
                let ahead = match waiting.place {
                    0 => "next".to_owned(),
                    more => format!("{more} ahead"),
                };
                say(format_args!("in line for {}: {ahead}, {} waiting", waiting.item, waiting.line_length));
            }
            ClaimProgress::Unanswered(error) => {
                let why = match error {
                    Error::Unavailable { why, .. } => why,
                    other => other.to_string(),
                };
                say(format_args!("still in line, but no node answers: {why}"));
            }
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
