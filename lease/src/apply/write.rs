//! Writing under a lease: the check of every write, and the writes that keep the lease.

use super::find::Found;
use super::{Sender, Step};
use crate::bounds::{ACTIVITIES, NOTE_BYTES};
use crate::command::{Activity, AwaitInput, HandOn, Write};
use crate::event::What;
use crate::item::{self, ActivityKind, Edit, Mirrors, Part, Transition};
use crate::numbers::Revision;
use crate::outcome::Outcome;
use crate::policy::RequireLease;
use crate::record::Key;
use crate::refusal::Refusal;
use crate::standing::{ItemState, StateKind};
use crate::state::item_key::ItemKey;
use sabotage::{Broken, is_broken};

/// Why a write is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standpoint {
    Holder,
    /// Nobody holds the item, and the caller has read its revision.
    Optimist,
    /// The caller's lease expired, and nothing has happened to the item since.
    LateHolder,
}

/// What a write needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Lease,
    /// A holder whose lease expired may still do it.
    LeaseOrLate,
    /// Anyone may do it to an item that nobody holds.
    LeaseOrRevision,
}

impl Step<'_> {
    /// The checks of every write, in order. No surface bypasses them.
    pub(super) fn check_write(
        &self,
        sender: Sender<'_>,
        write: &Write,
        needs: Needs,
    ) -> Result<(ItemKey, Standpoint), Refusal> {
        let key = match self.find_item(sender, &write.item)? {
            Found::Live(key) => key,
            Found::Archived(archived) => {
                let is_stale = write.token.is_some_and(|token| token < archived.standing.newest_token);
                return Err(if is_stale { Refusal::StaleToken } else { Refusal::TerminalItem });
            }
        };
        let item = self.item(key);
        let standing = &item.standing;
        if needs == Needs::LeaseOrRevision && is_broken(Broken::Fencing) {
            return Ok((key, Standpoint::Optimist));
        }
        // If another actor holds the item, every token is stale, also a greater one. Otherwise a caller could find the
        // holder's token by trial.
        let is_others = standing.is_held_by_other(sender.caller);
        if write.token.is_some_and(|token| is_others || token < standing.newest_token) {
            return Err(Refusal::StaleToken);
        }
        let standpoint = match (&standing.lease, write.token) {
            (Some(_), None) => return Err(self.conflict(sender, key)),
            (Some(lease), Some(token)) if lease.holder.is(sender.caller) && lease.token == token => Standpoint::Holder,
            (Some(_), Some(_)) => return Err(Refusal::NotHolder),
            (None, token) => {
                let is_late = standing.late_right().is_some_and(|late| {
                    Some(late.token) == token
                        && late.actor == sender.caller.actor
                        && late.session == sender.caller.session
                        && matches!(standing.state, ItemState::Stale | ItemState::Blocked(_))
                });
                let require_lease = self.state.queue(item.queue).queue.policy.require_lease;
                match needs {
                    Needs::LeaseOrLate if is_late => Standpoint::LateHolder,
                    Needs::LeaseOrRevision if require_lease == RequireLease::IfHeld => Standpoint::Optimist,
                    _ => return Err(Refusal::LeaseRequired),
                }
            }
        };
        match write.read_at {
            None if standpoint == Standpoint::Optimist => {
                Err(Refusal::invalid("read_at", "is required while nobody holds the item"))
            }
            Some(read_at) if read_at != standing.revision => Err(self.stale_write(key, read_at)),
            _ => Ok((key, standpoint)),
        }
    }

    /// The refusal `stale_write`, with the fields that have changed since the caller's revision.
    pub(super) fn stale_write(&self, key: ItemKey, read_at: Revision) -> Refusal {
        let standing = &self.item(key).standing;
        let changed = standing.changed.iter().flat_map(|changed| &changed.0);
        let fields = changed.filter(|(_, at)| **at > read_at).map(|(field, _)| *field).collect();
        Refusal::StaleWrite { revision: standing.revision, fields }
    }

    /// Begins a write that only the live holder may make. The first request of a holder picks up a grant from the line.
    fn begin_write(&mut self, sender: Sender<'_>, write: &Write) -> Result<ItemKey, Refusal> {
        let (key, _) = self.check_write(sender, write, Needs::Lease)?;
        self.confirm(sender, key);
        Ok(key)
    }

    pub(super) fn activity(&mut self, sender: Sender<'_>, activity: &Activity) -> Result<Outcome, Refusal> {
        let part = match activity.kind {
            ActivityKind::PlanUpdated => Some(Part::Plan),
            ActivityKind::ExternalUrlUpdated => Some(Part::ExternalUrl),
            ActivityKind::Progress
            | ActivityKind::PolicyDecision
            | ActivityKind::AwaitingInput
            | ActivityKind::Completed
            | ActivityKind::Failed => None,
        };
        let (key, _) = self.check_write(sender, &activity.write, Needs::Lease)?;
        let edits: Vec<_> = part.map(|part| Edit::Body(part, activity.note.clone())).into_iter().collect();
        self.check_edits(sender, key, &edits)?;
        self.confirm(sender, key);
        let fields = self.write_edits(key, &edits);
        let note = cut(&activity.note).to_owned();
        self.note_activity(sender, key, activity.kind, &note);
        self.emit_content(key, What::ActivityRecorded { kind: activity.kind, note }, &fields);
        Ok(self.moved(key))
    }

    /// Records an activity of the item and overwrites the oldest.
    pub(super) fn note_activity(&mut self, sender: Sender<'_>, key: ItemKey, kind: ActivityKind, note: &str) {
        let count = self.item(key).standing.activities;
        self.change(key, |item| item.standing.activities += 1);
        let slot = u32::try_from(count % u64::from(ACTIVITIES)).expect("below the size of the ring");
        let activity = item::Activity {
            kind,
            by: sender.caller.actor.clone(),
            at: self.now(),
            wall: self.wall,
            note: cut(note).to_owned(),
        };
        self.changes.put(&Key::Activity(key.no, slot), &activity);
    }

    pub(super) fn await_input(&mut self, sender: Sender<'_>, wait: &AwaitInput) -> Result<Outcome, Refusal> {
        let key = self.begin_write(sender, &wait.write)?;
        if self.item(key).standing.state.kind() == StateKind::Active {
            let lease = self.item(key).standing.lease.as_ref().expect("a held item");
            let (token, mirrors) = (lease.token, lease.mirrors);
            self.set_state(key, ItemState::AwaitingInput);
            self.note_activity(sender, key, ActivityKind::AwaitingInput, &wait.question);
            self.emit_of(key, What::AwaitedInput { token });
            self.mirror(key, Transition::AwaitingInput, mirrors);
        }
        Ok(self.moved(key))
    }

    pub(super) fn resume(&mut self, sender: Sender<'_>, write: &Write) -> Result<Outcome, Refusal> {
        let key = self.begin_write(sender, write)?;
        if self.item(key).standing.state.kind() == StateKind::AwaitingInput {
            let token = self.item(key).standing.newest_token;
            self.set_state(key, ItemState::Active);
            self.emit_of(key, What::Resumed { token });
        }
        Ok(self.moved(key))
    }

    /// Ends the lease, removes the assignment and queues the item in another phase, in one step.
    pub(super) fn hand_on(&mut self, sender: Sender<'_>, hand_on: &HandOn) -> Result<Outcome, Refusal> {
        let (key, _) = self.check_write(sender, &hand_on.write, Needs::Lease)?;
        let edits = [Edit::Phase(hand_on.phase.clone())];
        self.check_values(sender, key, &edits)?;
        self.confirm(sender, key);
        let lease = self.end_lease(key);
        let fields = self.write_edits(key, &edits);
        self.change(key, |item| item.standing.assignment = None);
        let what = What::HandedOn { holder: lease.holder, token: lease.token, phase: hand_on.phase.clone() };
        self.emit_content(key, what, &fields);
        let revision = self.item(key).standing.revision;
        self.free(key, ItemState::Queued);
        let state = self.state_now(sender, &hand_on.write.item).expect("it existed just now");
        Ok(Outcome::Moved { item: hand_on.write.item.clone(), state, revision })
    }

    pub(super) fn moved(&self, key: ItemKey) -> Outcome {
        let item = self.item(key);
        Outcome::Moved { item: item.id.clone(), state: item.standing.state.kind(), revision: item.standing.revision }
    }

    /// The mirrors that the holder of this item allows.
    pub(super) fn mirrors_of(&self, key: ItemKey) -> Mirrors {
        self.item(key).standing.lease.as_ref().map_or(Mirrors::ALL, |lease| lease.mirrors)
    }
}

/// The beginning of a text, for observers. The full text is in the body.
fn cut(note: &str) -> &str {
    &note[..note.floor_char_boundary(NOTE_BYTES)]
}
