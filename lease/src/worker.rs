//! The registry of workers. It is optional: no worker needs it to claim items by id.

use crate::bounds;
use crate::caller::Holder;
use crate::item::RunsIn;
use crate::names::Label;
use crate::numbers::{Span, Time};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    pub who: Holder,
    pub capabilities: Vec<Label>,
    pub labels: Vec<Label>,
    pub mode: RunsIn,
    pub alive_for: Span,
    pub last_heard: Time,
    pub draining: bool,
    /// The event that the worker is gone was emitted.
    pub gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    Alive,
    /// Past its deadline.
    Quiet,
    Gone,
}

impl Worker {
    #[must_use]
    pub fn liveness(&self, now: Time) -> Liveness {
        let deadline = self.last_heard.after(self.alive_for);
        if now < deadline {
            Liveness::Alive
        } else if now < deadline.after(bounds::WORKER_GONE_AFTER) {
            Liveness::Quiet
        } else {
            Liveness::Gone
        }
    }

    /// When something next happens to the worker by itself: it becomes gone, and is later removed.
    #[must_use]
    pub fn due_at(&self) -> Time {
        let gone = self.last_heard.after(self.alive_for).after(bounds::WORKER_GONE_AFTER);
        if self.gone { gone.after(bounds::WORKER_FORGOTTEN_AFTER) } else { gone }
    }
}
