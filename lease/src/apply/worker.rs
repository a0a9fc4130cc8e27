//! The registry of workers.

use super::{Sender, Step};
use crate::bounds::WORKERS_PER_SPACE;
use crate::caller::Holder;
use crate::command::Registration;
use crate::event::What;
use crate::names::ActorId;
use crate::numbers::SpaceNo;
use crate::outcome::Outcome;
use crate::record::Key;
use crate::refusal::Refusal;
use crate::share::Bound;
use crate::worker::Worker;

impl Step<'_> {
    pub(super) fn register_worker(
        &mut self,
        sender: Sender<'_>,
        registration: &Registration,
    ) -> Result<Outcome, Refusal> {
        let who = sender.caller.holder();
        let earlier = sender.space.and_then(|space| self.state.workers.get(&(space, who.clone())));
        let draining = earlier.is_some_and(|worker| worker.draining);
        let is_new = earlier.is_none();
        if is_new && let Some(space) = sender.space {
            self.check_room_for_worker(space, &who.actor)?;
        }
        self.check_room(sender, None)?;
        let space = self.ensure_space(sender.space_name);
        let worker = Worker {
            who: who.clone(),
            capabilities: crate::item::sorted(&registration.capabilities).to_vec(),
            labels: registration.labels.clone(),
            mode: registration.mode,
            alive_for: registration.alive_for,
            last_heard: self.now(),
            draining,
            gone: false,
        };
        self.put_worker(space, worker);
        self.state.space_mut(space).counts.workers += u64::from(is_new);
        self.emit(space, None, What::WorkerRegistered { worker: who });
        Ok(Outcome::WorkerRegistered { alive_for: registration.alive_for, draining })
    }

    fn check_room_for_worker(&self, space: SpaceNo, actor: &ActorId) -> Result<(), Refusal> {
        let used = self.state.space(space).counts.workers;
        let bound = Bound { max: WORKERS_PER_SPACE, used, at_least: 1 };
        let enough = usize::try_from(bound.little()).expect("a part of a bound");
        let from = (space, Holder::new(actor.clone(), None));
        let of_actor = || {
            let workers = self.state.workers.range(from..).take(enough);
            workers.take_while(|((of, who), _)| *of == space && who.actor == *actor).count() as u64
        };
        if bound.admits(1, of_actor) {
            return Ok(());
        }
        let why = if used < WORKERS_PER_SPACE {
            format!("cannot be registered; the rest of the limit of {WORKERS_PER_SPACE} is kept for actors with few")
        } else {
            format!("cannot be registered; the limit of {WORKERS_PER_SPACE} is reached")
        };
        Err(Refusal::invalid("worker", why))
    }

    /// Drains a worker, at the request of itself or of an operator of the whole space.
    pub(super) fn drain_worker(&mut self, sender: Sender<'_>, who: &Holder) -> Result<Outcome, Refusal> {
        let Some((space, mut worker)) = self.find_worker(sender, who) else {
            return Ok(Outcome::WorkerDraining { known: false });
        };
        if !worker.draining {
            worker.draining = true;
            self.put_worker(space, worker);
            self.emit(space, None, What::WorkerDrained { worker: who.clone() });
        }
        Ok(Outcome::WorkerDraining { known: true })
    }

    pub(super) fn remove_worker(&mut self, sender: Sender<'_>, who: &Holder) -> Result<Outcome, Refusal> {
        let Some((space, _)) = self.find_worker(sender, who) else {
            return Ok(Outcome::WorkerRemoved { removed: false });
        };
        self.forget_worker(space, who);
        Ok(Outcome::WorkerRemoved { removed: true })
    }

    fn find_worker(&self, sender: Sender<'_>, who: &Holder) -> Option<(SpaceNo, Worker)> {
        let space = sender.space?;
        self.state.workers.get(&(space, who.clone())).map(|worker| (space, worker.clone()))
    }

    fn put_worker(&mut self, space: SpaceNo, worker: Worker) {
        self.take_worker(space, &worker.who);
        self.state.deadlines.workers.insert((worker.due_at(), space, worker.who.clone()));
        self.changes.put(&Key::Worker(space, worker.who.clone()), &worker);
        self.state.workers.insert((space, worker.who.clone()), worker);
    }

    fn take_worker(&mut self, space: SpaceNo, who: &Holder) {
        if let Some(worker) = self.state.workers.remove(&(space, who.clone())) {
            self.state.deadlines.workers.remove(&(worker.due_at(), space, who.clone()));
            self.changes.remove(&Key::Worker(space, who.clone()));
        }
    }

    fn forget_worker(&mut self, space: SpaceNo, who: &Holder) {
        self.take_worker(space, who);
        self.state.space_mut(space).counts.workers -= 1;
        self.emit(space, None, What::WorkerRemoved { worker: who.clone() });
    }

    /// Records a heartbeat. Returns whether the worker should drain.
    pub(super) fn hear_worker(&mut self, space: SpaceNo, who: &Holder) -> bool {
        let Some(worker) = self.state.workers.get(&(space, who.clone())) else { return false };
        let worker = Worker { last_heard: self.now(), gone: false, ..worker.clone() };
        let draining = worker.draining;
        self.put_worker(space, worker);
        draining
    }

    pub(super) fn is_draining_worker(&self, space: SpaceNo, who: impl FnOnce() -> Holder) -> bool {
        !self.state.workers.is_empty() && self.state.workers.get(&(space, who())).is_some_and(|worker| worker.draining)
    }

    /// Emits the event that the worker is gone, once. Much later, removes the worker.
    pub(super) fn worker_is_due(&mut self, space: SpaceNo, who: &Holder) {
        let Some(worker) = self.state.workers.get(&(space, who.clone())).cloned() else { return };
        if worker.gone {
            self.forget_worker(space, who);
        } else {
            self.put_worker(space, Worker { gone: true, ..worker });
            self.emit(space, None, What::WorkerGone { worker: who.clone() });
        }
    }
}
