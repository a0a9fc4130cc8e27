//! What the callers learn from answers and events.

use super::{Known, World};
use lease::command::Command;
use lease::event::What;
use lease::names::ItemId;
use lease::numbers::Revision;
use lease::{Applied, Entry, Outcome, Refusal, Request};

impl World {
    /// Learns from the answers and the events.
    pub(crate) fn learn(&mut self, entry: &Entry, applied: &Applied) {
        for event in &applied.events {
            match &event.what {
                What::Paused | What::DrainStarted => {
                    let queue = event.queue.clone().expect("a queue's event");
                    self.closed.push((event.space.clone(), queue));
                }
                What::Unpaused => {
                    self.closed.retain(|(space, queue)| *space != event.space || Some(queue) != event.queue.as_ref())
                }
                What::EpochBegun { .. } => self.is_activated = false,
                What::Activated => self.is_activated = true,
                _ => {}
            }
            let Some(item) = &event.item else { continue };
            let path = (event.space.clone(), item.clone());
            if event.what.ended_lease().is_some()
                && let Some(known) = self.held.remove(&path)
            {
                self.gone.push(known);
                if self.gone.len() > 40 {
                    self.gone.remove(0);
                }
            }
            match &event.what {
                What::Created | What::Reopened | What::Retried => {
                    self.there.insert(path.clone(), false);
                }
                What::Completed { .. } | What::Cancelled { .. } | What::Failed { is_final: true, .. } => {
                    self.there.insert(path.clone(), true);
                }
                What::Purged { .. } => {
                    self.there.remove(&path);
                }
                _ => {}
            }
            match &event.what {
                What::Granted { holder, token, .. } => {
                    let known =
                        Known { space: path.0.clone(), item: path.1.clone(), token: *token, holder: holder.clone() };
                    self.held.insert(path, known);
                }
                What::Mirrored { .. } => {
                    self.revisions.insert(path, event.number);
                }
                _ => {}
            }
        }
        for (request, outcome) in entry.commands.iter().zip(&applied.outcomes) {
            let same = |waiting: &Request| waiting.request_id == request.request_id && waiting.caller == request.caller;
            let is_poll = self.waiting.iter().any(same);
            match outcome {
                Outcome::Waiting { .. } if !is_poll => {
                    self.waiting.push(request.clone());
                    if self.waiting.len() > 12 {
                        // Its caller has died.
                        self.waiting.remove(0);
                    }
                }
                Outcome::Waiting { .. } => {}
                _ if is_poll => self.waiting.retain(|waiting| !same(waiting)),
                _ => {}
            }
            if !is_poll {
                self.recent.push(request.clone());
                if self.recent.len() > 30 {
                    self.recent.remove(0);
                }
            }
            let mut read = |item: &ItemId, revision: Revision| {
                self.revisions.insert((request.space.clone(), item.clone()), revision);
            };
            match outcome {
                Outcome::Created { item, revision, .. }
                | Outcome::Updated { item, revision, .. }
                | Outcome::Moved { item, revision, .. } => read(item, *revision),
                Outcome::Refused(Refusal::StaleWrite { revision, .. }) => {
                    if let Command::Update(update) = &request.command {
                        read(&update.write.item, *revision);
                    }
                }
                _ => {}
            }
            for grant in outcome.grants() {
                if let Some(snapshot) = &grant.snapshot {
                    read(&grant.item, snapshot.revision);
                }
            }
        }
    }
}
