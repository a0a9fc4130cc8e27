//! `worker`: the registry of workers.

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
    /// List the workers and their last heartbeats
    List(Pages),
    /// Register this worker, or update its capabilities; its heartbeat is `tenure renew --all`
    Register(Word),
    /// Drain a worker: it gets no new items. For operators
    Drain(Named),
    /// Remove a worker from the registry; its leases are not affected
    Remove(Named),
}

#[derive(Args, Debug)]
pub(crate) struct Word {
    /// Capability of this worker; repeat for several
    #[arg(long, value_name = "LABEL", value_parser = parse::label)]
    capability: Vec<Label>,
    /// Label; repeat for several
    #[arg(long, value_name = "LABEL", value_parser = parse::label)]
    label: Vec<Label>,
    /// Where this worker runs
    #[arg(long, value_name = "MODE", default_value = "any", value_parser = parse::words(RunsIn::ALL))]
    mode: RunsIn,
    /// Report this worker as quiet after this long without a heartbeat
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    alive_for: Span,
}

#[derive(Args, Debug)]
pub(crate) struct Named {
    /// The actor
    #[arg(value_name = "ACTOR", value_parser = parse::actor)]
    who: ActorId,
    /// Session of the worker, if it has one
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
                        say("an operator is draining this worker: take no new items");
                    }
                    out.line(format_args!(
                        "registered; quiet after {} without a heartbeat",
                        Span::of_ms(registered.alive_for_ms)
                    ))
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
                    true => out.line(format_args!("{} gets no new items", name.actor)),
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
