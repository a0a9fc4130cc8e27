//! `renew`, `extend`, `release`, `reserve`, `revoke`, and the arguments that name a lease.

use super::failure::Failure;
use super::global::Context;
use super::out::say;
use super::parse;
use super::span::{Span, when};
use clap::Args;
use client::Token;
use client::names::{ActorId, ItemId};

/// Variables that `tenure exec` sets for its command: the item and the fencing token.
pub(crate) const ITEM: &str = "TENURE_ITEM";
pub(crate) const TOKEN: &str = "TENURE_TOKEN";

/// The item, and the fencing token of the lease on it.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeaseArgs {
    /// Item id [default: in `tenure exec`, the item that it holds]
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: Option<ItemId>,
    /// Fencing token of the lease, as returned by the claim [default: in `tenure exec`, the token of its item]
    #[arg(value_name = "FENCING_TOKEN", value_parser = parse::token)]
    fence: Option<Token>,
}

impl LeaseArgs {
    pub(crate) fn item(&self) -> Result<ItemId, Failure> {
        match (&self.item, std::env::var(ITEM)) {
            (Some(item), _) => Ok(item.clone()),
            (None, Ok(item)) => parse::item(&item).map_err(|why| Failure::Usage(format!("{ITEM} {why}"))),
            (None, Err(_)) => Err(Failure::Usage("ITEM is required".into())),
        }
    }

    /// The token in the environment belongs to one item, so it is not used for another.
    pub(crate) fn token(&self) -> Result<Option<Token>, Failure> {
        let is_of_this = self.item.as_ref().is_none_or(|item| std::env::var(ITEM).as_deref() == Ok(item.as_str()));
        match (self.fence, std::env::var(TOKEN)) {
            (Some(token), _) => Ok(Some(token)),
            (None, Ok(token)) if is_of_this => {
                parse::token(&token).map(Some).map_err(|why| Failure::Usage(format!("{TOKEN}: {why}")))
            }
            (None, _) => Ok(None),
        }
    }

    fn certain_token(&self) -> Result<Token, Failure> {
        let why = "pass the fencing token after the item: the claim returned it, and `tenure mine` shows it";
        self.token()?.ok_or_else(|| Failure::Usage(why.into()))
    }
}

/// Renew a lease: it ends later and keeps its token
#[derive(Args, Debug)]
pub(crate) struct Renew {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Lease duration from now [default: the duration of the claim]
    #[arg(long = "for", value_name = "DURATION")]
    lease_for: Option<Span>,
    /// Renew every lease of the actor in its session: a worker's heartbeat
    #[arg(long, conflicts_with_all = ["item", "fence"])]
    all: bool,
}

impl Renew {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let lease_for_ms = self.lease_for.map(Span::ms);
        if self.all {
            let all = api::hold::RenewAll { lease_for_ms, expected: Vec::new() };
            let renewed = context.ask(context.client.renew_all(&all)).await?;
            return context.out.answer(&renewed, |out, renewed| {
                for item in &renewed.cancel_requested {
                    say(format_args!("cancellation of {item} requested: stop the work"));
                }
                let left = renewed.expires_in_ms.map(|ms| format!(", the first ends in {}", Span::of_ms(ms)));
                let count = match renewed.renewed {
                    0 => "there is no lease to renew".into(),
                    1 => "1 lease is renewed".into(),
                    more => format!("{more} leases are renewed"),
                };
                out.line(count + &left.unwrap_or_default())
            });
        }
        let renew = api::hold::Renew { token: self.lease.certain_token()?, lease_for_ms };
        let renewed = context.ask(context.client.renew(&self.lease.item()?, &renew)).await?;
        context.out.answer(&renewed, |out, renewed| {
            if renewed.cancel_requested {
                say("cancellation requested: stop the work within 30 s");
            }
            if renewed.drain {
                say("this worker is draining: take no new items");
            }
            let left = Span::of_ms(renewed.expires_in_ms);
            out.line(format_args!("{} is yours for {left}, token {}", renewed.item, renewed.token))
        })
    }
}

/// Extend a lease for a known idle gap; never shortens it
#[derive(Args, Debug)]
pub(crate) struct Extend {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Time to add
    #[arg(long, value_name = "DURATION")]
    by: Span,
}

impl Extend {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let extend = api::hold::Extend { token: self.lease.certain_token()?, by_ms: self.by.ms() };
        let extended = context.ask(context.client.extend(&self.lease.item()?, &extend)).await?;
        context.out.answer(&extended, |out, extended| {
            if let Some(max) = extended.lease_max_ms {
                say(format_args!("shortened to the longest lease that the queue allows, {}", Span::of_ms(max)));
            }
            let left = Span::of_ms(extended.expires_in_ms);
            out.line(format_args!("{} is yours for {left}, token {}", extended.item, extended.token))
        })
    }
}

/// Release a lease, and the assignment with it
#[derive(Args, Debug)]
pub(crate) struct Release {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Keep the item assigned to you
    #[arg(long)]
    keep_assignment: bool,
}

impl Release {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let release = api::hold::Release { token: self.lease.token()?, keep_assignment: self.keep_assignment };
        let released = context.ask(context.client.release(&self.lease.item()?, &release)).await?;
        context.out.answer(&released, |out, released| match (released.released, released.unassigned) {
            (true, _) => out.line(format_args!("{} is released", released.item)),
            (false, true) => out.line(format_args!("{} was not held; it is no longer assigned to you", released.item)),
            (false, false) => out.line(format_args!("{} was not held: nothing to release", released.item)),
        })
    }
}

/// Turn a lease into a reservation: it needs no heartbeat, and only its assignee can get the item
#[derive(Args, Debug)]
pub(crate) struct Reserve {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Duration of the reservation [default: the longest that the queue allows]
    #[arg(long = "for", value_name = "DURATION")]
    span: Option<Span>,
}

impl Reserve {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let reserve = api::hold::Reserve { token: self.lease.certain_token()?, for_ms: self.span.map(Span::ms) };
        let reserved = context.ask(context.client.reserve(&self.lease.item()?, &reserve)).await?;
        context.out.answer(&reserved, |out, reserved| {
            out.line(format_args!("{} is reserved until {}", reserved.item, when(reserved.until)))
        })
    }
}

/// End the lease of another holder. For operators
#[derive(Args, Debug)]
pub(crate) struct Revoke {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
    /// Reason, kept for later review
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Assign the item to this actor [default: the assignment is kept]
    #[arg(long, value_name = "ACTOR", value_parser = parse::actor)]
    assign_to: Option<ActorId>,
}

impl Revoke {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let revoke = api::hold::Revoke { reason: self.reason, assign_to: self.assign_to };
        let revoked = context.ask(context.client.revoke(&self.item, &revoke)).await?;
        context.out.answer(&revoked, |out, revoked| {
            let what = if revoked.revoked { "its lease is ended" } else { "nobody held it" };
            out.line(format_args!("{}: {what}, it is {}", revoked.item, super::out::word(revoked.state)))
        })
    }
}
