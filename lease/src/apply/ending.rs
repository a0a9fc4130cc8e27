//! Ending an item and bringing it back: complete, fail, reopen, retry.

use super::find::Found;
use super::write::{Needs, Standpoint};
use super::{Sender, Step};
use crate::caller::Holder;
use crate::command::{Complete, Fail};
use crate::event::What;
use crate::item::{ActivityKind, Edit, Mirrors, Part, Transition};
use crate::names::{ActorId, ItemId};
use crate::numbers::{Span, Token};
use crate::outcome::Outcome;
use crate::record::{Archived, Key, Retained};
use crate::refusal::Refusal;
use crate::standing::{BlockedBy, ItemState, Past, Waits};
use crate::state::Wake;
use crate::state::item_key::ItemKey;
use crate::state::items::Item;

impl Step<'_> {
    pub(super) fn complete(&mut self, sender: Sender<'_>, complete: &Complete) -> Result<Outcome, Refusal> {
        let (key, standpoint) = self.check_write(sender, &complete.write, Needs::LeaseOrLate)?;
        let edits = words(Part::Result, complete.result.as_ref());
        // The added bytes leave the space together with the item, so a full space does not prevent the end of an item.
        self.check_values(sender, key, &edits)?;
        let (holder, token, mirrors) = self.close_lease(sender, key, standpoint);
        let fields = self.write_edits(key, &edits);
        self.note_activity(sender, key, ActivityKind::Completed, "");
        let late = standpoint == Standpoint::LateHolder;
        self.emit_content(key, What::Completed { holder, token, late }, &fields);
        let revision = self.item(key).standing.revision;
        self.mirror(key, Transition::Completed, mirrors);
        self.end_item(key, ItemState::Complete);
        self.moved_by_id(sender, &complete.write.item, revision)
    }

    pub(super) fn fail(&mut self, sender: Sender<'_>, fail: &Fail) -> Result<Outcome, Refusal> {
        let (key, standpoint) = self.check_write(sender, &fail.write, Needs::LeaseOrLate)?;
        let edits = words(Part::Error, fail.error.as_ref());
        let more = self.check_values(sender, key, &edits)?;
        if !fail.is_final {
            self.check_growth(key, more)?;
        }
        let (holder, token, mirrors) = self.close_lease(sender, key, standpoint);
        let fields = self.write_edits(key, &edits);
        self.note_activity(sender, key, ActivityKind::Failed, fail.error.as_deref().unwrap_or(""));
        let late = standpoint == Standpoint::LateHolder;
        self.emit_content(key, What::Failed { holder, token, is_final: fail.is_final, late }, &fields);
        let revision = self.item(key).standing.revision;
        if fail.is_final {
            self.end_item(key, ItemState::Error);
        } else if !late {
            self.change(key, |item| item.standing.attempts += 1);
            self.try_again_or_block(key, mirrors);
        } else {
            // The expiry of its lease was already counted as an attempt.
            self.change(key, |item| item.standing.forget_late_right());
            if matches!(self.item(key).standing.state, ItemState::Stale) {
                self.back_off(key);
            }
        }
        self.moved_by_id(sender, &fail.write.item, revision)
    }

    fn moved_by_id(
        &self,
        sender: Sender<'_>,
        id: &ItemId,
        revision: crate::numbers::Revision,
    ) -> Result<Outcome, Refusal> {
        let state = self.state_now(sender, id).expect("it existed just now");
        Ok(Outcome::Moved { item: id.clone(), state, revision })
    }

    /// Ends the lease of a holder that finishes. A late holder has no lease.
    fn close_lease(&mut self, sender: Sender<'_>, key: ItemKey, standpoint: Standpoint) -> (Holder, Token, Mirrors) {
        if standpoint == Standpoint::LateHolder {
            let standing = &self.item(key).standing;
            let mirrors = standing.late_right().map_or(Mirrors::NONE, |late| late.mirrors);
            return (sender.caller.holder(), standing.newest_token, mirrors);
        }
        self.confirm(sender, key);
        let mirrors = self.mirrors_of(key);
        let lease = self.end_lease(key);
        (lease.holder, lease.token, mirrors)
    }

    fn try_again_or_block(&mut self, key: ItemKey, mirrors: Mirrors) {
        if self.item(key).standing.cancel.is_some() {
            self.free(key, ItemState::Queued);
        } else if self.is_exhausted(key) {
            self.block(key, BlockedBy::Attempts);
            self.mirror(key, Transition::AttemptsExhausted, mirrors);
        } else {
            self.back_off(key);
        }
    }

    pub(super) fn is_exhausted(&self, key: ItemKey) -> bool {
        let max = self.policy(key).attempts_max;
        max > 0 && self.item(key).standing.attempts >= max
    }

    fn back_off(&mut self, key: ItemKey) {
        let wait = self.policy(key).backoff.after(self.item(key).standing.attempts);
        let state = if wait > Span(0) {
            let until = Some(self.now().after(wait));
            ItemState::Pending(Box::new(Waits { until, ..Waits::default() }))
        } else {
            ItemState::Queued
        };
        self.set_state(key, state);
        self.settle(key);
    }

    /// Blocks an item until an operator retries it.
    pub(super) fn block(&mut self, key: ItemKey, by: BlockedBy) {
        self.set_state(key, ItemState::Blocked(by));
        self.emit_of(key, What::Blocked { by });
        self.dismiss_line(key, &Refusal::Blocked);
    }

    /// A terminal transition: removes the assignment, answers the line, schedules the waking of dependents and moves
    /// the item to the archive. Its lease must have ended before.
    pub(super) fn end_item(&mut self, key: ItemKey, state: ItemState) {
        debug_assert!(state.is_terminal() && self.item(key).standing.lease.is_none());
        self.dismiss_line(key, &Refusal::TerminalItem);
        if self.state.dependents.contains_key(&key.no) {
            self.state.meta.last_wake += 1;
            let seq = self.state.meta.last_wake;
            let wake = Wake { of: key.no, completed: state == ItemState::Complete, up_to: self.state.meta.last_item };
            self.changes.put(&Key::Wake(seq), &wake);
            self.state.wakes.insert(seq, wake);
        }
        let purge_at = self.now().after(self.policy(key).retention);
        self.state.unindex(key);
        let Item { no, id, space, queue, content, mut standing, .. } = self.state.items.remove(key);
        standing.state = state;
        standing.since = self.now();
        standing.assignment = None;
        standing.cancel = None;
        standing.past = standing
            .past
            .and_then(|past| past.origin.map(|origin| Box::new(Past { origin: Some(origin), ..Past::default() })));
        let counts = &mut self.state.space_mut(space).counts;
        counts.live -= 1;
        counts.terminal += 1;
        counts.body_bytes -= content.body_bytes();
        self.touched_spaces.insert(space);
        self.use_queue(queue, |usage| usage.terminal += 1);
        let archived = Archived { no, queue, content, standing, purge_at };
        self.changes.remove(&Key::Content(no));
        self.changes.remove(&Key::Standing(no));
        self.changes.remove(&Key::Expiry(no));
        self.changes.put(&Key::Archived(space, id.clone()), &archived);
        let retained = Retained { purge_at, no, space, id: id.clone() };
        self.changes.put(&Key::Retention(purge_at, no), &retained);
        self.moved.insert((space, id), Some(archived));
    }

    pub(super) fn reopen(&mut self, sender: Sender<'_>, id: &ItemId) -> Result<Outcome, Refusal> {
        match self.find_item(sender, id)? {
            Found::Live(key) => Err(Refusal::WrongState { state: self.item(key).standing.state.name().into() }),
            Found::Archived(archived) => self.bring_back(sender, id, *archived, What::Reopened),
        }
    }

    pub(super) fn retry(&mut self, sender: Sender<'_>, id: &ItemId) -> Result<Outcome, Refusal> {
        match self.find_item(sender, id)? {
            Found::Live(key) => {
                let ItemState::Blocked(_) = self.item(key).standing.state else {
                    return Err(Refusal::WrongState { state: self.item(key).standing.state.name().into() });
                };
                self.change(key, |item| {
                    item.standing.attempts = 0;
                    item.standing.forget_late_right();
                });
                self.set_state(key, ItemState::Queued);
                self.emit_of(key, What::Retried);
                self.settle(key);
                Ok(self.moved(key))
            }
            Found::Archived(archived) => {
                if archived.standing.state != ItemState::Error {
                    return Err(Refusal::WrongState { state: archived.standing.state.name().into() });
                }
                self.bring_back(sender, id, *archived, What::Retried)
            }
        }
    }

    /// Moves an item from the archive back to the queue.
    fn bring_back(
        &mut self,
        sender: Sender<'_>,
        id: &ItemId,
        archived: Archived,
        what: What,
    ) -> Result<Outcome, Refusal> {
        let space = sender.space.ok_or(Refusal::NotFound)?;
        self.check_space(space, &archived.content.created_by, 1, archived.content.body_bytes())?;
        self.check_class(archived.queue, &archived.content)?;
        let Archived { no, queue, content, mut standing, purge_at } = archived;
        standing.state = ItemState::Queued;
        standing.since = self.now();
        standing.attempts = 0;
        let counts = &mut self.state.space_mut(space).counts;
        counts.live += 1;
        counts.terminal -= 1;
        counts.body_bytes += content.body_bytes();
        self.touched_spaces.insert(space);
        self.use_queue(queue, |usage| usage.terminal -= 1);
        self.changes.remove(&Key::Archived(space, id.clone()));
        self.changes.remove(&Key::Retention(purge_at, no));
        self.moved.insert((space, id.clone()), None);
        let key = self.state.items.insert(Item::new(no, id.clone(), space, queue, content, standing));
        self.state.index(key);
        self.touch_content(key);
        self.emit_of(key, what);
        Ok(self.moved(key))
    }

    /// Expires a lease that was not renewed.
    pub(super) fn lapse(&mut self, key: ItemKey) {
        let is_attempt = matches!(self.item(key).standing.state, ItemState::Active);
        let lease = self.end_lease(key);
        let actor: &ActorId = &lease.holder.actor;
        self.begin_delay(key, actor);
        let late = crate::standing::LateRight {
            actor: actor.clone(),
            session: lease.holder.session.clone(),
            token: lease.token,
            mirrors: lease.mirrors,
        };
        self.change(key, |item| {
            item.standing.past_mut().late = Some(Box::new(late));
            item.standing.attempts += u32::from(is_attempt);
        });
        let holder = lease.holder.clone();
        self.emit_of(key, What::Expired { holder, token: lease.token, attempt: is_attempt });
        if is_attempt && self.is_exhausted(key) && self.item(key).standing.cancel.is_none() {
            self.block(key, BlockedBy::Attempts);
            self.mirror(key, Transition::AttemptsExhausted, lease.mirrors);
        } else {
            self.free(key, ItemState::Stale);
        }
    }
}

fn words(part: Part, text: Option<&String>) -> Vec<Edit> {
    text.map(|text| Edit::Body(part, text.clone())).into_iter().collect()
}
