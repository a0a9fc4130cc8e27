//! Holding: renew, extend, release, reserve, revoke; and which lease a command is about.

use super::failure::Failure;
use super::global::Context;
use super::out::say;
use super::parse;
use super::span::{Span, when};
use clap::Args;
use client::Token;
use client::names::{ActorId, ItemId};

/// Of the lease that `tenure exec` holds for its command.
pub(crate) const ITEM: &str = "TENURE_ITEM";
pub(crate) const TOKEN: &str = "TENURE_TOKEN";

/// The item, and the token of the lease on it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Lease {
    /// The item; within `tenure exec` the one that it holds, unless said
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: Option<ItemId>,
    /// The fencing token of the lease, as the claim told it; within `tenure exec` the one of its item, unless said
    #[arg(value_name = "FENCING_TOKEN", value_parser = parse::token)]
    fence: Option<Token>,
}

impl Lease {
    pub(crate) fn item(&self) -> Result<ItemId, Failure> {
        match (&self.item, std::env::var(ITEM)) {
            (Some(item), _) => Ok(item.clone()),
            (None, Ok(item)) => parse::item(&item).map_err(|why| Failure::Usage(format!("{ITEM} {why}"))),
            (None, Err(_)) => Err(Failure::Usage("say which item".into())),
        }
    }

    /// The token in the environment is that of one item: it does not serve another.
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
        let why = "say the fencing token behind the item: the claim told it, and `tenure mine` shows it";
        self.token()?.ok_or_else(|| Failure::Usage(why.into()))
    }
}

/// Renew a lease: it ends later, its token stays
#[derive(Args, Debug)]
pub(crate) struct Renew {
    #[command(flatten)]
    lease: Lease,
    /// For how long from now; as it was claimed for unless said
    #[arg(long = "for", value_name = "DURATION")]
    lease_for: Option<Span>,
    /// Every lease of the actor in its session: a worker's heartbeat
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
                    say(format_args!("{item} is to be cancelled: wind down"));
                }
                let left = renewed.expires_in_ms.map(|ms| format!(", the shortest for {}", Span::of_ms(ms)));
                let go_on = match renewed.renewed {
                    0 => "there is no lease to renew".into(),
                    1 => "1 lease goes on".into(),
                    more => format!("{more} leases go on"),
                };
                out.line(go_on + &left.unwrap_or_default())
            });
        }
        let renew = api::hold::Renew { token: self.lease.certain_token()?, lease_for_ms };
        let renewed = context.ask(context.client.renew(&self.lease.item()?, &renew)).await?;
        context.out.answer(&renewed, |out, renewed| {
            if renewed.cancel_requested {
                say("it is to be cancelled: wind down within half a minute");
            }
            if renewed.drain {
                say("this worker is to take nothing new");
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
    lease: Lease,
    /// By how much
    #[arg(long, value_name = "DURATION")]
    by: Span,
}

impl Extend {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let extend = api::hold::Extend { token: self.lease.certain_token()?, by_ms: self.by.ms() };
        let extended = context.ask(context.client.extend(&self.lease.item()?, &extend)).await?;
        context.out.answer(&extended, |out, extended| {
            if let Some(max) = extended.lease_max_ms {
                say(format_args!("cut to the longest that the queue allows, {}", Span::of_ms(max)));
            }
            let left = Span::of_ms(extended.expires_in_ms);
            out.line(format_args!("{} is yours for {left}, token {}", extended.item, extended.token))
        })
    }
}

/// Give a lease back, and the assignment with it
#[derive(Args, Debug)]
pub(crate) struct Release {
    #[command(flatten)]
    lease: Lease,
    /// It stays assigned to you
    #[arg(long)]
    keep_assignment: bool,
}

impl Release {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let release = api::hold::Release { token: self.lease.token()?, keep_assignment: self.keep_assignment };
        let released = context.ask(context.client.release(&self.lease.item()?, &release)).await?;
        context.out.answer(&released, |out, released| match (released.released, released.unassigned) {
            (true, _) => out.line(format_args!("{} is given back", released.item)),
            (false, true) => out.line(format_args!("{} was not held; it is no longer assigned to you", released.item)),
            (false, false) => out.line(format_args!("{} was not held: there is nothing to give back", released.item)),
        })
    }
}

/// Turn a lease into a reservation for its assignee: no heartbeat, offered to nobody else
#[derive(Args, Debug)]
pub(crate) struct Reserve {
    #[command(flatten)]
    lease: Lease,
    /// For how long; as long as the queue allows unless said
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

/// End somebody's lease. For operators
#[derive(Args, Debug)]
pub(crate) struct Revoke {
    /// The item
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: ItemId,
    /// Why, for those who look at it later
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Assign it to this actor; else the assignment stays
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
