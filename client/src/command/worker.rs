//! The registry of workers.

use super::failure::Failure;
use super::global::Context;
use super::out::{Paint, Table, say, word};
use super::parse;
use super::queue::Pages;
use super::span::{Span, when};
use api::words::{Liveness, RunsIn};
use api::worker::{Register, WorkerName};
use clap::{Args, Subcommand};
use client::names::{ActorId, Label, SessionId};

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// List the workers and when they were last heard of
    List(Pages),
    /// Register yourself, or say anew what you can do; a worker's heartbeat is `tenure renew --all`
    Register(Word),
    /// Let a worker end: it gets no new item. For operators
    Drain(Named),
    /// Forget a worker; its leases are not touched
    Remove(Named),
}

#[derive(Args, Debug)]
pub(crate) struct Word {
    /// What you can do
    #[arg(long, value_name = "LABEL", value_parser = parse::label)]
    capability: Vec<Label>,
    /// A label of it; several times: several of them
    #[arg(long, value_name = "LABEL", value_parser = parse::label)]
    label: Vec<Label>,
    /// Where you run
    #[arg(long, value_name = "MODE", default_value = "any", value_parser = parse::words::<RunsIn>(parse::MODES))]
    mode: RunsIn,
    /// Not heard of for so long, you are quiet
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    alive_for: Span,
}

#[derive(Args, Debug)]
pub(crate) struct Named {
    /// The actor
    #[arg(value_name = "ACTOR", value_parser = parse::actor)]
    who: ActorId,
    /// The session that it works in, if it has one
    #[arg(value_name = "SESSION", value_parser = parse::session)]
    in_session: Option<SessionId>,
}

impl Named {
    fn name(self) -> WorkerName {
        WorkerName { actor: self.who, session: self.in_session }
    }
}

impl Verb {
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (&context.client, &context.out);
        match self {
            Self::List(pages) => list(context, &pages).await,
            Self::Register(word) => {
                let register = Register {
                    capabilities: word.capability,
                    labels: word.label,
                    mode: word.mode,
                    alive_for_ms: word.alive_for.ms(),
                };
                let registered = context.ask(client.register_worker(&register)).await?;
                out.answer(&registered, |out, registered| {
                    if registered.draining {
                        say("an operator wants this worker to take nothing new");
                    }
                    out.line(format_args!("registered, alive for {}", Span::of_ms(registered.alive_for_ms)))
                })
            }
            Self::Drain(named) => {
                let name = named.name();
                let draining = context.ask(client.drain_worker(&name)).await?;
                if out.is_json {
                    out.json(&draining)?;
                }
                match draining.known {
                    true if out.is_json => Ok(()),
                    true => out.line(format_args!("{} gets nothing new", name.actor)),
                    false => Err(Failure::Nothing(format!("there is no worker {} in that session", name.actor))),
                }
            }
            Self::Remove(named) => {
                let name = named.name();
                let removed = context.ask(client.remove_worker(&name)).await?;
                out.answer(&removed, |out, removed| match removed.removed {
                    true => out.line(format_args!("{} is removed", name.actor)),
                    false => out.line(format_args!("there was no worker {} in that session", name.actor)),
                })
            }
        }
    }
}

async fn list(context: &Context, pages: &Pages) -> Result<(), Failure> {
    let mut query = pages.query();
    let mut table =
        Table::new(&["ACTOR", "SESSION", "LIVENESS", "LEASES", "CAN DO", "LABELS", "MODE", "LAST HEARD OF"]);
    loop {
        let page = context.ask(context.client.workers(&query)).await?;
        if context.out.is_json {
            context.out.json(&page)?;
        }
        for worker in &page.workers {
            let paint = match worker.liveness {
                Liveness::Alive => Paint::Good,
                Liveness::Quiet => Paint::Warn,
                Liveness::Gone => Paint::Bad,
            };
            let names = |labels: &[Label]| labels.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            let liveness = word(worker.liveness) + if worker.draining { ", draining" } else { "" };
            let plain = |text: String| (text, Paint::Plain);
            table.row([
                plain(worker.actor.to_string()),
                plain(worker.session.as_ref().map(ToString::to_string).unwrap_or_default()),
                (liveness, paint),
                plain(worker.leases.to_string()),
                plain(names(&worker.capabilities)),
                plain(names(&worker.labels)),
                plain(word(worker.mode)),
                (when(worker.last_heard), Paint::Dim),
            ]);
        }
        if !pages.goes_on(&mut query, page.next_cursor, &context.out) {
            break;
        }
    }
    if context.out.is_json { Ok(()) } else { context.out.table(&table) }
}
