//! Commands that change an item or end its work.

use super::failure::Failure;
use super::global::Context;
use super::hold::LeaseArgs;
use super::item::moved;
use super::parse;
use api::dates::Date;
use api::names::Number;
use api::words::{ActivityKind, RunsIn};
use api::write::BodyChange;
use clap::Args;
use client::names::{ItemId, Label, Phase};

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ReadAt {
    /// Revision that you have read: fails if the item has changed since
    #[arg(long, value_name = "REVISION")]
    read_at: Option<Number>,
}

/// The parts of a body.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Body: TEXT, @file or @- for standard input")]
pub(crate) struct Parts {
    /// The task
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// How to do the task; trusted, only a dispatcher may set it
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,
    /// Background information; untrusted
    #[arg(long, value_name = "TEXT")]
    context: Option<String>,
    /// Data for a program
    #[arg(long, value_name = "TEXT")]
    data: Option<String>,
}

impl Parts {
    pub(crate) fn read(self) -> Result<Option<api::body::Body>, Failure> {
        let body = api::body::Body {
            prompt: parse::text_if(self.prompt)?,
            instructions: parse::text_if(self.instructions)?,
            context: parse::text_if(self.context)?,
            data: parse::text_if(self.data)?,
            ..api::body::Body::default()
        };
        Ok(Some(body).filter(|body| *body != api::body::Body::default()))
    }
}

/// Change an item: under a lease with its token, or without a lease
///
/// Values not given are kept; an empty text removes a value. Without a token and --read-at, the item is read first, and
/// changed only if nobody changes it in between.
#[derive(Args, Debug)]
pub(crate) struct Update {
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    read_at: ReadAt,
    /// Start the work, which claims the item
    #[arg(long)]
    start: bool,
    /// New title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Priority; the highest is granted first
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Labels, separated by commas; replaces all labels
    #[arg(long, value_name = "LABELS")]
    labels: Option<String>,
    /// Capabilities that a worker must have, separated by commas; replaces all of them
    #[arg(long, value_name = "LABELS")]
    needs: Option<String>,
    /// Parent item
    #[arg(long, value_name = "ITEM")]
    parent: Option<String>,
    /// Target item: its phase follows the steps of this item
    #[arg(long, value_name = "ITEM")]
    target: Option<String>,
    /// Do not grant the item before this date, for example 2026-12-24T18:00:00Z
    #[arg(long, value_name = "DATE")]
    not_before: Option<String>,
    /// Where the work runs
    #[arg(long, value_name = "MODE", value_parser = parse::words(RunsIn::ALL))]
    mode: Option<RunsIn>,
    /// Phase of the item
    #[arg(long, value_name = "PHASE", value_parser = parse::phase)]
    phase: Option<Phase>,
    #[command(flatten)]
    parts: Parts,
    /// The holder's plan
    #[arg(long, value_name = "TEXT", help_heading = "Body: TEXT, @file or @- for standard input")]
    plan: Option<String>,
    /// URL where the work can be followed
    #[arg(long, value_name = "TEXT", help_heading = "Body: TEXT, @file or @- for standard input")]
    external_url: Option<String>,
}

impl Update {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let item = self.lease.item()?;
        let token = self.lease.token()?;
        let body = BodyChange {
            prompt: part(self.parts.prompt)?,
            instructions: part(self.parts.instructions)?,
            context: part(self.parts.context)?,
            data: part(self.parts.data)?,
            plan: part(self.plan)?,
            external_url: part(self.external_url)?,
            error: None,
            result: None,
        };
        let mut update = api::write::Update {
            token,
            read_at: self.read_at.read_at,
            start: self.start,
            title: self.title,
            priority: self.priority,
            labels: self.labels.as_deref().map(labels).transpose()?,
            needs: self.needs.as_deref().map(labels).transpose()?,
            parent: self.parent.as_deref().map(item_or_none).transpose()?,
            target: self.target.as_deref().map(item_or_none).transpose()?,
            not_before: self.not_before.as_deref().map(date_or_none).transpose()?,
            mode: self.mode,
            local_owner: None,
            phase: self.phase,
            body: Some(body).filter(|body| *body != BodyChange::default()),
        };
        if update.token.is_none() && update.read_at.is_none() {
            update.read_at = Some(context.client.item(&item).await?.revision);
        }
        let updated = context.ask(context.client.update(&item, &update)).await?;
        context.out.answer(&updated, |out, updated| {
            out.line(format_args!("{} is at revision {}", updated.item, updated.revision))?;
            match &updated.grant {
                None => Ok(()),
                Some(grant) => super::claim::granted(out, grant),
            }
        })
    }
}

/// Reads a part of a body; an empty text removes it.
fn part(said: Option<String>) -> Result<Option<Option<String>>, Failure> {
    let text = parse::text_if(said)?;
    Ok(text.map(|text| Some(text).filter(|text| !text.is_empty())))
}

fn labels(said: &str) -> Result<Vec<Label>, Failure> {
    let parts = said.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(parse::label).collect::<Result<_, _>>().map_err(Failure::Usage)
}

fn item_or_none(said: &str) -> Result<Option<ItemId>, Failure> {
    if said.is_empty() { Ok(None) } else { parse::item(said).map(Some).map_err(Failure::Usage) }
}

fn date_or_none(said: &str) -> Result<Option<Date>, Failure> {
    if said.is_empty() {
        Ok(None)
    } else {
        said.parse().map(Some).map_err(|why| Failure::Usage(format!("{said} {why}")))
    }
}

/// Complete an item: the work is done
#[derive(Args, Debug)]
pub(crate) struct Complete {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Result: TEXT, @file or @-
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
    #[command(flatten)]
    read_at: ReadAt,
}

impl Complete {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let result = parse::text_if(self.result)?;
        let complete = api::write::Complete {
            token: self.lease.token_or_look(context).await?,
            read_at: self.read_at.read_at,
            result,
        };
        let now = context.ask(context.client.complete(&self.lease.item()?, &complete)).await?;
        context.out.answer(&now, moved)
    }
}

/// Fail an item: it is retried after its backoff, unless this was the last attempt
#[derive(Args, Debug)]
pub(crate) struct Fail {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Error: TEXT, @file or @-
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Do not retry the item
    #[arg(long = "final")]
    is_final: bool,
    #[command(flatten)]
    read_at: ReadAt,
}

impl Fail {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let error = parse::text_if(self.error)?;
        let (token, read_at) = (self.lease.token_or_look(context).await?, self.read_at.read_at);
        let fail = api::write::Fail { token, read_at, error, is_final: self.is_final };
        let now = context.ask(context.client.fail(&self.lease.item()?, &fail)).await?;
        context.out.answer(&now, moved)
    }
}

/// Report progress on an item
#[derive(Args, Debug)]
pub(crate) struct Activity {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Kind of activity
    #[arg(long, value_name = "KIND", default_value = "progress", value_parser = parse::words(ActivityKind::ALL))]
    kind: ActivityKind,
    /// Note: TEXT, @file or @-; for plan_updated and external_url_updated the new plan or URL
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    read_at: ReadAt,
}

impl Activity {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let (token, read_at) = (self.lease.token_or_look(context).await?, self.read_at.read_at);
        let activity = api::write::Activity { token, read_at, kind: self.kind, note: parse::text(self.note)? };
        let now = context.ask(context.client.activity(&self.lease.item()?, &activity)).await?;
        context.out.answer(&now, moved)
    }
}

/// Report that the work waits for input from a person; the lease continues
#[derive(Args, Debug)]
pub(crate) struct AwaitInput {
    #[command(flatten)]
    lease: LeaseArgs,
    /// Question to answer
    #[arg(long, value_name = "TEXT")]
    question: String,
    #[command(flatten)]
    read_at: ReadAt,
}

impl AwaitInput {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let (token, read_at) = (self.lease.token_or_look(context).await?, self.read_at.read_at);
        let await_input = api::write::AwaitInput { token, read_at, question: parse::text(self.question)? };
        let now = context.ask(context.client.await_input(&self.lease.item()?, &await_input)).await?;
        context.out.answer(&now, moved)
    }
}

/// Resume the work after waiting for input
#[derive(Args, Debug)]
pub(crate) struct Resume {
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    read_at: ReadAt,
}

impl Resume {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let resume =
            api::write::Resume { token: self.lease.token_or_look(context).await?, read_at: self.read_at.read_at };
        let now = context.ask(context.client.resume(&self.lease.item()?, &resume)).await?;
        context.out.answer(&now, moved)
    }
}

/// Hand an item on to another phase: the lease ends, and the item is queued in that phase
#[derive(Args, Debug)]
pub(crate) struct HandOn {
    #[command(flatten)]
    lease: LeaseArgs,
    /// The next phase
    #[arg(long, value_name = "PHASE", value_parser = parse::phase)]
    phase: Phase,
    #[command(flatten)]
    read_at: ReadAt,
}

impl HandOn {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let (token, read_at) = (self.lease.token_or_look(context).await?, self.read_at.read_at);
        let hand_on = api::write::HandOn { token, read_at, phase: self.phase };
        let now = context.ask(context.client.hand_on(&self.lease.item()?, &hand_on)).await?;
        context.out.answer(&now, moved)
    }
}
