//! Registered workers.

use crate::caller::{Caller, Holder};
use crate::names::{ActorId, SessionId, SpaceName};
use crate::numbers::SpaceNo;
use crate::state::State;
use crate::worker::{Liveness, Worker};
use std::ops::Bound;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    pub worker: Worker,
    pub liveness: Liveness,
    pub leases: u32,
}

impl State {
    /// The registered workers: all of them for an operator of the whole space, only itself for a worker.
    #[must_use]
    pub fn workers(&self, viewer: &Caller, space: &SpaceName) -> Vec<WorkerView> {
        self.workers_after(viewer, space, None, usize::MAX)
    }

    /// Like [`State::workers`], in the order of their names, after one of them.
    #[must_use]
    pub fn workers_after(
        &self,
        viewer: &Caller,
        space: &SpaceName,
        after: Option<&Holder>,
        limit: usize,
    ) -> Vec<WorkerView> {
        let Some(space) = self.space_numbers.get(space).copied() else { return Vec::new() };
        let sees_all = viewer.runs_space();
        let before_all = || Holder::new(ActorId::before_all(), None);
        let after = (space, after.cloned().unwrap_or_else(before_all));
        self.workers
            .range((Bound::Excluded(after), Bound::Unbounded))
            .take_while(|((of, _), _)| *of == space)
            .filter(|((_, who), _)| sees_all || who.actor == viewer.actor)
            .take(limit)
            .map(|((_, who), worker)| WorkerView {
                worker: worker.clone(),
                liveness: worker.liveness(self.now()),
                leases: self.leases_of(space, who),
            })
            .collect()
    }

    fn leases_of(&self, space: SpaceNo, who: &Holder) -> u32 {
        let session: &Option<SessionId> = &who.session;
        let holdings = self.holdings.get(space, &who.actor);
        holdings.map_or(0, |holdings| u32::try_from(holdings.of_session(session).count()).unwrap_or(u32::MAX))
    }
}
