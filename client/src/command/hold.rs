//! `renew`, `extend`, `release`, `reserve`, `revoke`, and the arguments that name a lease.

use super::failure::Failure;
use super::global::Context;
use super::out::say;
use super::parse;
use super::span::{Span, when};
use api::claim::{Claims, ClaimsAnswered, ReleaseOf, ReleasedOf};
use api::limits::PAGE_MAX;
use api::{Code, Problem};
use clap::Args;
use client::names::{ActorId, ItemId};
use client::{Error, Token};

/// Variables that `tenure exec` sets for its command: the item and the fencing token.
pub(crate) const ITEM: &str = "TENURE_ITEM";
pub(crate) const TOKEN: &str = "TENURE_TOKEN";

/// The item, and the fencing token of the lease on it.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeaseArgs {
    /// Item id [default: in `tenure exec`, the item that it holds]
    #[arg(value_name = "ITEM", value_parser = parse::item)]
    item: Option<ItemId>,
    /// Fencing token of the lease, as returned by the claim [default: in `tenure exec`, the token of its item; otherwise
    /// the token of your lease, which is looked up and printed; with --json it is not looked up]
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

    /// The token, or that of the caller's lease on the item. A program passes the token that it got: if its lease has
    /// ended and it got another one, it must not continue with the token of that one.
    pub(crate) async fn token_or_look(&self, context: &Context) -> Result<Option<Token>, Failure> {
        let token = self.token()?;
        if token.is_some() || context.out.is_json {
            return Ok(token);
        }
        let found = context.client.item(&self.item()?).await?.token;
        if let Some(token) = found {
            say(format_args!("using token {token} of your lease"));
        }
        Ok(found)
    }

    async fn certain_token(&self, context: &Context) -> Result<Token, Failure> {
        if let Some(token) = self.token_or_look(context).await? {
            return Ok(token);
        }
        if context.out.is_json {
            let why = "pass the fencing token after the item: the claim returned it, and `tenure mine` shows it";
            return Err(Failure::Usage(why.into()));
        }
        let detail = "you have no lease on this item in this session";
        Err(Error::Refused(Box::new(Problem::new(Code::NotHolder).with_detail(detail))).into())
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
        let renew = api::hold::Renew { token: self.lease.certain_token(context).await?, lease_for_ms };
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
#[command(override_usage = "tenure extend [OPTIONS] [[ITEM] [FENCING_TOKEN]] <DURATION>")]
pub(crate) struct Extend {
    /// Item id and fencing token, as in `tenure renew`, then the time from now for which the lease lasts at least
    #[arg(value_name = "DURATION", num_args = 1..=3, required = true)]
    words: Vec<String>,
}

impl Extend {
    fn parts(&self) -> Result<(LeaseArgs, Span), Failure> {
        let (item, fence, span) = match self.words.as_slice() {
            [item, token, span] => (Some(item), Some(token), span),
            [item, span] => (Some(item), None, span),
            [span] => (None, None, span),
            _ => return Err(Failure::Usage("DURATION is required".into())),
        };
        let item = item.map(|item| parse::item(item)).transpose().map_err(Failure::Usage)?;
        let fence = fence.map(|token| parse::token(token)).transpose().map_err(Failure::Usage)?;
        Ok((LeaseArgs { item, fence }, span.parse().map_err(Failure::Usage)?))
    }
}

impl Extend {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let (lease, span) = self.parts()?;
        let extend = api::hold::Extend { token: lease.certain_token(context).await?, for_ms: span.ms() };
        let extended = context.ask(context.client.extend(&lease.item()?, &extend)).await?;
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
    /// Release every lease of the actor in its session
    #[arg(long, conflicts_with_all = ["item", "fence"])]
    all: bool,
}

impl Release {
    async fn run_all(self, context: &Context) -> Result<(), Failure> {
        let mut all = ClaimsAnswered { claims: Vec::new(), releases: Vec::new() };
        loop {
            let carrying = context.client.carrying(Some(PAGE_MAX)).await?;
            // Tokens are shown for the leases of this session only.
            let own = carrying.leased.into_iter().filter_map(|item| Some((item.id, item.token?)));
            let release = |(item, token)| ReleaseOf { item, token: Some(token), keep_assignment: self.keep_assignment };
            let releases: Vec<_> = own.map(release).collect();
            if releases.is_empty() {
                break;
            }
            let claims = Claims { claims: Vec::new(), releases, all_or_none: false };
            let answered = context.client.claim_many(&claims).await?;
            all.releases.extend(answered.releases);
            if let Some(ReleasedOf::Refused { problem }) = all.releases.iter().find(|one| !is_released(one)) {
                return Err(Error::Refused(problem.clone()).into());
            }
        }
        context.out.answer(&all, |out, all| match all.releases.len() {
            0 => out.line("there is no lease to release"),
            1 => out.line("1 lease is released"),
            more => out.line(format_args!("{more} leases are released")),
        })
    }

    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        if self.all {
            return self.run_all(context).await;
        }
        let release = api::hold::Release { token: self.lease.token()?, keep_assignment: self.keep_assignment };
        let released = context.ask(context.client.release(&self.lease.item()?, &release)).await?;
        context.out.answer(&released, |out, released| match (released.released, released.unassigned) {
            (true, _) => out.line(format_args!("{} is released", released.item)),
            (false, true) => out.line(format_args!("{} was not held; it is no longer assigned to you", released.item)),
            (false, false) => out.line(format_args!("{} was not held: nothing to release", released.item)),
        })
    }
}

fn is_released(one: &ReleasedOf) -> bool {
    matches!(one, ReleasedOf::Released(_))
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
        let reserve =
            api::hold::Reserve { token: self.lease.certain_token(context).await?, for_ms: self.span.map(Span::ms) };
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
