//! Work that is spread over several entries: waking dependents, settling the lines of a queue, ending the leases of a
//! restored backup, purging the archive.

use super::Step;
use crate::event::What;
use crate::numbers::{ItemNo, QueueNo};
use crate::policy::OnDependencyFailed;
use crate::queue::Flow;
use crate::record::Key;
use crate::refusal::Refusal;
use crate::standing::{BlockedBy, ItemState};
use crate::state::item_key::ItemKey;
use std::ops::Bound;

impl Step<'_> {
    pub(super) fn work_off_backlog(&mut self) {
        self.work_off_wakes();
        self.work_off_voiding();
        self.work_off_queues();
    }

    /// Wakes the dependents of ended items, one per step.
    fn work_off_wakes(&mut self) {
        while self.steps_left > 0 {
            let Some((seq, wake)) = self.state.wakes.first_key_value().map(|(seq, wake)| (*seq, wake.clone())) else {
                return;
            };
            let first = self.state.dependents.get(&wake.of).and_then(|keys| keys.first()).copied();
            let Some(key) = first.filter(|key| key.no <= wake.up_to) else {
                self.state.wakes.remove(&seq);
                self.changes.remove(&Key::Wake(seq));
                continue;
            };
            self.steps_left -= 1;
            if wake.completed || self.policy(key).on_dependency_failed == OnDependencyFailed::Ignore {
                self.change(key, |item| {
                    if let ItemState::Pending(waits) = &mut item.standing.state {
                        waits.dependencies.retain(|dependency| *dependency != wake.of);
                    }
                });
                self.settle_waits(key);
            } else {
                self.block(key, BlockedBy::Dependency);
            }
        }
    }

    /// Grants the waiting lines of queues that may grant again, oldest first, and rejects the lines of draining queues.
    fn work_off_queues(&mut self) {
        while self.steps_left > 0 {
            let Some(no) = self.state.busy_queues.first().copied() else { return };
            self.steps_left -= 1;
            let queue = self.state.queue(no);
            match queue.queue.flow {
                Flow::Open => {
                    let (_, key) = queue.settle.first_key_value().expect("a busy open queue has lines to settle");
                    self.settle(*key);
                }
                Flow::Draining | Flow::Drained if !queue.lined.is_empty() => {
                    let key = *queue.lined.first().expect("not empty");
                    let head = self.item(key).line.as_ref().and_then(|line| line.head()).map(|(number, _)| number);
                    self.leave_line(key, head.expect("a line has a head"), Err(Refusal::QueuePaused));
                    self.settle(key);
                }
                Flow::Draining => {
                    self.touched_queues.insert(no);
                    self.state.queue_mut(no).queue.flow = Flow::Drained;
                    self.state.note_work(no);
                    self.emit_of_queue(no, What::Drained);
                }
                Flow::Drained | Flow::Paused => self.state.note_work(no),
            }
        }
    }

    /// Ends every lease after a restore, before anything is granted.
    fn work_off_voiding(&mut self) {
        while let Some((queue, after)) = self.state.meta.voiding
            && self.steps_left > 0
        {
            self.steps_left -= 1;
            let Some(live_queue) = self.state.queues.from(queue) else {
                self.state.meta.voiding = None;
                return;
            };
            // The previous queue may have been removed meanwhile.
            let after = if live_queue.queue.no == queue { after } else { ItemNo(0) };
            let queue = live_queue.queue.no;
            let behind = Bound::Excluded(ItemKey::position(after));
            let Some(key) = live_queue.items.range(behind, Bound::Unbounded).next() else {
                self.state.meta.voiding = Some((QueueNo(queue.0 + 1), ItemNo(0)));
                continue;
            };
            self.state.meta.voiding = Some((queue, key.no));
            if self.item(key).standing.lease.is_some() {
                let lease = self.end_lease(key);
                self.emit_of(key, What::Voided { holder: lease.holder, token: lease.token });
                self.free(key, ItemState::Stale);
            }
        }
    }

    /// Purges terminal items whose retention is over from the archive.
    pub(super) fn work_off_retention(&mut self) {
        while self.steps_left > 0 {
            let Some(retained) = self.archive.retained_after(self.state.meta.purged_to) else { return };
            if retained.purge_at > self.now() {
                return;
            }
            self.steps_left -= 1;
            self.state.meta.purged_to = (retained.purge_at, retained.no);
            self.changes.remove(&Key::Retention(retained.purge_at, retained.no));
            let Some(archived) = self.archive.item(retained.space, &retained.id) else { continue };
            self.changes.remove(&Key::Archived(retained.space, retained.id.clone()));
            self.changes.remove_under(&Key::Body(retained.no, crate::item::Part::Prompt));
            self.changes.remove_under(&Key::Activity(retained.no, 0));
            self.moved.insert((retained.space, retained.id.clone()), None);
            let counts = &mut self.state.space_mut(retained.space).counts;
            counts.terminal -= 1;
            counts.purged += 1;
            self.use_queue(archived.queue, |usage| usage.terminal -= 1);
            let queue = self.state.queue(archived.queue).queue.name.clone();
            let state = archived.standing.state.kind();
            let local_to = archived.content.mode.owner().cloned();
            self.emit_event(retained.space, Some(queue), Some(retained.id), local_to, What::Purged { state });
        }
    }
}
