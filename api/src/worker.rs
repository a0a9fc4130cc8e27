//! The registry of workers.

use crate::answer::answer;
use crate::dates::{Calendar, Date};
use crate::names;
use crate::words::{Liveness, RunsIn};
use lease::Command;
use lease::caller::Holder;
use lease::command::Registration;
use lease::names::{ActorId, Label, SessionId};
use lease::numbers::Span;
use lease::outcome::Outcome;
use lease::views::WorkerView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a worker registers about itself. A later registration replaces the earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Register {
    #[serde(default)]
    #[schema(value_type = Vec<names::Label>, max_items = 32)]
    pub capabilities: Vec<Label>,
    #[serde(default)]
    #[schema(value_type = Vec<names::Label>, max_items = 32)]
    pub labels: Vec<Label>,
    #[serde(default = "any")]
    pub mode: RunsIn,
    /// The worker is quiet after this long without a heartbeat. At most one day.
    #[schema(minimum = 1, maximum = 86400000)]
    pub alive_for_ms: u64,
}

fn any() -> RunsIn {
    RunsIn::Any
}

impl Register {
    #[must_use]
    pub fn into_command(self) -> Command {
        Command::RegisterWorker(Registration {
            capabilities: self.capabilities,
            labels: self.labels,
            mode: self.mode.into(),
            alive_for: Span(self.alive_for_ms),
        })
    }
}

/// One worker: an actor in one of its sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerName {
    #[schema(value_type = names::ActorId)]
    pub actor: ActorId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::SessionId>)]
    pub session: Option<SessionId>,
}

impl From<WorkerName> for Holder {
    fn from(name: WorkerName) -> Self {
        Self::new(name.actor, name.session)
    }
}

impl From<Holder> for WorkerName {
    fn from(holder: Holder) -> Self {
        Self { actor: holder.actor.clone(), session: holder.session.clone() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registered {
    pub alive_for_ms: u64,
    /// An operator has asked the worker to take no new items.
    pub draining: bool,
}

answer! { Registered: Outcome::WorkerRegistered { alive_for, draining } =>
    Self { alive_for_ms: alive_for.0, draining }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Draining {
    /// false: there is no such worker.
    pub known: bool,
}

answer! { Draining: Outcome::WorkerDraining { known } => Self { known } }

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// false: there was no such worker.
    pub removed: bool,
}

answer! { Removed: Outcome::WorkerRemoved { removed } => Self { removed } }

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    #[schema(value_type = names::ActorId)]
    pub actor: ActorId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::SessionId>)]
    pub session: Option<SessionId>,
    #[schema(value_type = Vec<names::Label>)]
    pub capabilities: Vec<Label>,
    #[schema(value_type = Vec<names::Label>)]
    pub labels: Vec<Label>,
    pub mode: RunsIn,
    pub alive_for_ms: u64,
    pub last_heard_ms: u64,
    pub last_heard: Date,
    pub liveness: Liveness,
    pub draining: bool,
    pub leases: u32,
}

impl Worker {
    #[must_use]
    pub fn new(view: WorkerView, calendar: Calendar) -> Self {
        Self {
            actor: view.worker.who.actor.clone(),
            session: view.worker.who.session.clone(),
            capabilities: view.worker.capabilities,
            labels: view.worker.labels,
            mode: view.worker.mode.into(),
            alive_for_ms: view.worker.alive_for.0,
            last_heard_ms: view.worker.last_heard.0,
            last_heard: calendar.date(view.worker.last_heard),
            liveness: view.liveness.into(),
            draining: view.worker.draining,
            leases: view.leases,
        }
    }
}

/// Workers in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerPage {
    pub workers: Vec<Worker>,
    /// Where the next page starts. Omitted on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
