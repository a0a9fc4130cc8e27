//! `next`: finds and grants items in one command, so that two callers can never get the same item. `peek` only finds.

use super::claim::Plan;
use super::find::Found;
use super::grant::Terms;
use super::{Sender, Step};
use crate::bounds::{ANCESTORS, EXAMINED_PER_NEXT, RETRY_HINT};
use crate::caller::Caller;
use crate::command::{Cursor, Filter, Next};
use crate::item::{Mode, RunsIn};
use crate::names::{ItemId, Label};
use crate::numbers::{QueueNo, Span};
use crate::outcome::{EmptyReason, Outcome};
use crate::policy::AtMaxLeases;
use crate::refusal::Refusal;
use crate::standing::Doing;
use crate::state::State;
use crate::state::item_key::ItemKey;
use crate::state::ready::Kind;

/// The result of a search.
pub(crate) struct Search {
    pub(crate) found: Vec<ItemKey>,
    /// Where to continue, if the search stopped before its end.
    pub(crate) cursor: Option<Cursor>,
}

impl Step<'_> {
    pub(super) fn next(&mut self, sender: Sender<'_>, next: &Next) -> Result<Outcome, Refusal> {
        let empty = |why, cursor| Ok(Outcome::Empty { why, retry_after: RETRY_HINT, cursor });
        let Some(queue_no) = self.find_queue(sender, &next.queue) else {
            return empty(EmptyReason::NothingQueued, None);
        };
        let queue = self.state.queue(queue_no);
        if !queue.queue.flow.is_open() {
            return empty(EmptyReason::QueuePaused, None);
        }
        if self.is_draining_worker(queue.queue.space, || sender.caller.holder()) {
            return empty(EmptyReason::WorkerDraining, None);
        }
        let room = queue.room_behind(queue.settle.len());
        if room <= 0 {
            return empty(EmptyReason::QueueFull, None);
        }
        let room_of_session = self.room_of_session(sender, queue.queue.space);
        let Some(count) = self.count_for(sender, queue_no, next.count, room).filter(|_| room_of_session > 0) else {
            return empty(EmptyReason::TooManyLeases, None);
        };
        let count = count.min(room_of_session);
        let search = self.search(sender.caller, queue_no, next, count);
        if search.found.is_empty() {
            let why = match (search.cursor, self.state.queue(queue_no).ready.len()) {
                (Some(_), _) => EmptyReason::ExaminedEnough,
                (None, 0) => EmptyReason::NothingQueued,
                (None, _) => EmptyReason::NothingEligible,
            };
            let retry_after = if search.cursor.is_some() { Span(1) } else { RETRY_HINT };
            return Ok(Outcome::Empty { why, retry_after, cursor: search.cursor });
        }
        let (lease_for, cut) = self.state.queue(queue_no).queue.policy.lease_length(next.lease_for);
        let mut grants = Vec::with_capacity(search.found.len());
        for key in search.found {
            let evict = self.room_of_caller(sender, queue_no, Plan::NONE)?;
            let terms = Terms {
                holder: sender.caller.holder(),
                kind: sender.caller.kind,
                lease_for,
                doing: Doing::new(next.action.as_deref(), None),
                mirrors: next.mirrors,
            };
            self.leave_own_place(sender.caller, key);
            self.grant(key, terms);
            let released = self.give(evict);
            grants.push(*self.grant_of(key, false, cut, released));
        }
        Ok(Outcome::Dispatched(grants))
    }

    /// How many items the caller may get. None: not even one.
    fn count_for(&self, sender: Sender<'_>, queue: QueueNo, asked: u32, room: i64) -> Option<usize> {
        let policy = &self.state.queue(queue).queue.policy;
        let mut count = i64::from(asked).min(room);
        if policy.max_leases > 0 {
            let evict = self.room_of_caller(sender, queue, Plan::NONE).ok()?;
            if evict.is_some() {
                count = 1;
            } else {
                let space = self.state.queue(queue).queue.space;
                let holdings = self.state.holdings.get(space, &sender.caller.actor);
                let held = holdings.map_or(0, |holdings| holdings.leases_in(queue).all());
                count = count.min(i64::from(policy.max_leases) - held);
            }
            debug_assert!(policy.at_max_leases == AtMaxLeases::ReleaseOldest || evict.is_none());
        }
        usize::try_from(count).ok()
    }
}

impl Step<'_> {
    fn search(&self, caller: &Caller, queue: QueueNo, next: &Next, count: usize) -> Search {
        let space = self.state.queue(queue).queue.space;
        let parent_in_archive = |id: &ItemId| match self.find(space, id) {
            Some(Found::Archived(archived)) => archived.content.parent().cloned(),
            _ => None,
        };
        // The descendants of a hidden item are hidden too.
        let is_hidden = |id: &ItemId| {
            self.find(space, id).is_some_and(|found| !self.whereabouts(caller, &found).is_visible_to(caller))
        };
        if next.filter.tree_roots().any(is_hidden) {
            return Search { found: Vec::new(), cursor: None };
        }
        self.state.search(caller, queue, next, count, &parent_in_archive)
    }
}

impl State {
    /// The items that this caller would get: its own first, then in the requested order.
    pub(crate) fn search(
        &self,
        caller: &Caller,
        queue_no: QueueNo,
        next: &Next,
        count: usize,
        parent_in_archive: &dyn Fn(&ItemId) -> Option<ItemId>,
    ) -> Search {
        let queue = self.queue(queue_no);
        let space = queue.queue.space;
        let worker = self.workers.get(&(space, caller.holder()));
        let capabilities = match (&next.filter.capabilities, worker) {
            (Some(given), _) => given.as_slice(),
            (None, Some(worker)) => &worker.capabilities,
            (None, None) => &[],
        };
        let runs_in = next.filter.mode.or(worker.map(|worker| worker.mode)).unwrap_or(RunsIn::Any);
        let eligibility = Eligibility { caller, filter: &next.filter, capabilities, runs_in, parent_in_archive };

        let mut search = Search { found: Vec::new(), cursor: None };
        let mut examined = 0;
        if next.cursor.is_none()
            && let Some(holdings) = self.holdings.get(space, &caller.actor)
        {
            let own = holdings.own.range((queue_no, std::cmp::Reverse(u8::MAX), ItemKey::FIRST)..);
            for (_, _, key) in own.take_while(|(of, _, _)| *of == queue_no) {
                if search.found.len() == count || examined >= EXAMINED_PER_NEXT {
                    break;
                }
                examined += 1;
                if eligibility.has_class_of(self, *key) && self.is_eligible(&eligibility, *key, &mut examined) {
                    search.found.push(*key);
                }
            }
        }
        let own = search.found.len();
        let modes = eligibility.modes();
        let mut candidates = queue.ready.candidates(next.order, next.cursor, &modes, |kind| eligibility.has_kind(kind));
        while search.found.len() < count {
            let Some((priority, key)) = candidates.next() else { return search };
            if !search.found[..own].contains(&key) && self.is_eligible(&eligibility, key, &mut examined) {
                search.found.push(key);
                continue;
            }
            examined += 1;
            if examined >= EXAMINED_PER_NEXT {
                search.cursor = Some(Cursor { priority, item: key.no });
                return search;
            }
        }
        search
    }

    /// The checks that need more than the indexes.
    fn is_eligible(&self, eligibility: &Eligibility<'_>, key: ItemKey, examined: &mut u32) -> bool {
        let item = self.item(key);
        let filter = eligibility.filter;
        let content = &item.content;
        if !filter.labels.iter().all(|label| content.label_sets.labels.contains(label))
            || filter.priority_min.is_some_and(|min| content.priority < min)
            || filter.priority_max.is_some_and(|max| content.priority > max)
            || filter.parent.is_some() && content.parent() != filter.parent.as_ref()
        {
            return false;
        }
        // Walks up the parents: no one else may hold any of them, and the requested ancestor must be among them.
        let mut has_ancestor = filter.ancestor.is_none();
        let mut parent = content.parent().cloned();
        for _ in 0..ANCESTORS {
            let Some(id) = parent else { break };
            *examined += 1;
            has_ancestor |= filter.ancestor.as_ref() == Some(&id);
            let Some(above) = self.items.find(item.space, &id) else {
                parent = (eligibility.parent_in_archive)(&id);
                continue;
            };
            let above = self.item(above);
            if above.standing.lease.as_ref().is_some_and(|lease| lease.holder.actor != eligibility.caller.actor) {
                return false;
            }
            parent = above.content.parent().cloned();
        }
        has_ancestor
    }
}

/// What decides which items of a queue a caller may get.
struct Eligibility<'a> {
    caller: &'a Caller,
    filter: &'a Filter,
    capabilities: &'a [Label],
    runs_in: RunsIn,
    /// Returns the parent of an item that is no longer live.
    parent_in_archive: &'a dyn Fn(&ItemId) -> Option<ItemId>,
}

impl Eligibility<'_> {
    /// The modes of the items that the caller may get, including local items of the caller and of the person for whom
    /// it works.
    fn modes(&self) -> Vec<Mode> {
        let parent = self.caller.parent.iter().filter(|parent| **parent != self.caller.actor);
        let owners = std::iter::once(&self.caller.actor).chain(parent);
        let local = owners.map(|owner| Mode::Local { owner: owner.clone() });
        [Mode::Any, Mode::Cloud].into_iter().chain(local).filter(|mode| self.runs_in.takes(mode)).collect()
    }

    fn has_kind(&self, kind: &Kind) -> bool {
        self.takes(kind.phase.as_ref(), &kind.needs)
    }

    fn has_class_of(&self, state: &State, key: ItemKey) -> bool {
        let content = &state.item(key).content;
        self.runs_in.takes(&content.mode)
            && content.mode.is_open_to(self.caller)
            && self.takes(content.phase.as_ref(), &content.label_sets.needs)
    }

    fn takes(&self, phase: Option<&crate::names::Phase>, needs: &[Label]) -> bool {
        (self.filter.phase.is_none() || self.filter.phase.as_ref() == phase)
            && needs.iter().all(|need| self.capabilities.contains(need))
    }
}
