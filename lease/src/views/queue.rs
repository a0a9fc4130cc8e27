//! Queues: what they hold, and what they would grant.

use super::ItemView;
use crate::archive::Archive;
use crate::bounds::NEXT_COUNT;
use crate::caller::Caller;
use crate::command::Next;
use crate::names::{ItemId, QueueName, SpaceName};
use crate::numbers::{ItemNo, QueueNo, Time};
use crate::policy::Policy;
use crate::queue::Flow;
use crate::refusal::Refusal;
use crate::rights::Need;
use crate::standing::StateKind;
use crate::state::State;
use crate::state::item_key::ItemKey;
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStats {
    pub queue: QueueName,
    pub flow: Flow,
    pub version: u64,
    pub policy: Policy,
    pub by_state: BTreeMap<StateKind, u64>,
    pub leases: u32,
    /// Items that `next` could grant.
    pub ready: u64,
    pub oldest_ready_since: Option<Time>,
    pub items_with_line: u64,
    /// Free items whose line waits until the queue may grant.
    pub unsettled: u64,
    pub claims: ClaimSummary,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimSummary {
    pub active: u64,
    pub expired: u64,
    pub unclaimed: u64,
}

impl State {
    /// The queues of a space that the viewer may see.
    #[must_use]
    pub fn queues(&self, viewer: &Caller, space: &SpaceName) -> Vec<QueueStats> {
        self.queues_after(viewer, space, None, usize::MAX)
    }

    /// The queues of a space that the viewer may see, in the order of their names, after one of them.
    #[must_use]
    pub fn queues_after(
        &self,
        viewer: &Caller,
        space: &SpaceName,
        after: Option<&QueueName>,
        limit: usize,
    ) -> Vec<QueueStats> {
        let Some(space) = self.space_numbers.get(space) else { return Vec::new() };
        let after = after.cloned().unwrap_or_else(QueueName::before_all);
        self.queue_numbers
            .range((Bound::Excluded((*space, after)), Bound::Unbounded))
            .take_while(|((of, _), _)| of == space)
            .filter(|((_, name), _)| viewer.can_see(name))
            .take(limit)
            .map(|(_, no)| self.queue_stats(*no))
            .collect()
    }

    /// One queue, if it exists and the viewer may see it.
    #[must_use]
    pub fn queue_named(&self, viewer: &Caller, space: &SpaceName, name: &QueueName) -> Option<QueueStats> {
        let space = *self.space_numbers.get(space)?;
        let no = self.queue_numbers.get(&(space, name.clone())).filter(|_| viewer.can_see(name))?;
        Some(self.queue_stats(*no))
    }

    /// The first queue of any space with this number or a higher one, for monitoring of the whole store.
    #[must_use]
    pub fn queue_from(&self, no: QueueNo) -> Option<(QueueNo, &SpaceName, QueueStats)> {
        let queue = &self.queues.from(no)?.queue;
        Some((queue.no, &self.space(queue.space).name, self.queue_stats(queue.no)))
    }

    /// How many claims wait for items of a queue, counted over the first `limit` items with a line after this one, and
    /// the last of these items if there may be more. Zero for a queue that does not exist.
    #[must_use]
    pub fn waiting_behind(&self, no: QueueNo, after: ItemNo, limit: usize) -> (u64, Option<ItemNo>) {
        let Some(queue) = self.queues.find(no) else { return (0, None) };
        let behind = (Bound::Excluded(ItemKey::position(after)), Bound::Unbounded);
        let (mut waiting, mut examined, mut last) = (0, 0, None);
        for key in queue.lined.range(behind).take(limit) {
            waiting += u64::from(self.item(*key).line_len());
            examined += 1;
            last = Some(key.no);
        }
        (waiting, last.filter(|_| examined == limit))
    }

    fn queue_stats(&self, no: QueueNo) -> QueueStats {
        let queue = self.queue(no);
        let count = |kind: StateKind| queue.counts[kind as usize];
        let oldest = queue.ready.oldest();
        let live: u64 = queue.counts.iter().sum();
        QueueStats {
            queue: queue.queue.name.clone(),
            flow: queue.queue.flow,
            version: queue.queue.version,
            policy: queue.queue.policy.clone(),
            by_state: StateKind::ALL.into_iter().map(|kind| (kind, count(kind))).collect(),
            leases: queue.leases,
            ready: queue.ready.len() as u64,
            oldest_ready_since: oldest.map(|key| self.item(key).standing.since),
            items_with_line: queue.lined.len() as u64,
            unsettled: queue.settle.len() as u64,
            claims: ClaimSummary {
                active: u64::from(queue.leases),
                expired: count(StateKind::Stale),
                unclaimed: live - u64::from(queue.leases) - count(StateKind::Stale),
            },
        }
    }

    /// The items that `next` would grant, without granting them.
    ///
    /// # Errors
    /// `not_found` or `forbidden`.
    pub fn peek(
        &self,
        archive: &dyn Archive,
        viewer: &Caller,
        space: &SpaceName,
        next: &Next,
    ) -> Result<Vec<ItemView>, Refusal> {
        Need::of_peek(&next.queue).check(viewer, |_| None)?;
        let Some(space) = self.space_numbers.get(space).copied() else { return Ok(Vec::new()) };
        let Some(queue) = self.queue_numbers.get(&(space, next.queue.clone())) else { return Ok(Vec::new()) };
        let parent_in_archive = |id: &ItemId| archive.item(space, id)?.content.parent().cloned();
        let count = next.count.min(NEXT_COUNT) as usize;
        let is_hidden = |id: &ItemId| match self.items.find(space, id) {
            Some(key) => !self.is_shown(viewer, key),
            None => archive.item(space, id).is_some_and(|_| !self.may_name(archive, viewer, space, id)),
        };
        if next.filter.tree_roots().any(is_hidden) {
            return Ok(Vec::new());
        }
        let search = self.search(viewer, *queue, next, count, &parent_in_archive);
        Ok(search.found.into_iter().filter_map(|key| self.show(archive, viewer, key)).collect())
    }
}
