//! Editing the content of an item.

use super::claim::{Decision, Plan};
use super::find::Found;
use super::write::{Needs, Standpoint};
use super::{Sender, Step};
use crate::bounds::{ANCESTORS, BODY_BYTES};
use crate::caller::Role;
use crate::command::{Claim, Update};
use crate::event::What;
use crate::item::{Content, Edit, Field, Mode};
use crate::names::ItemId;
use crate::numbers::SpaceNo;
use crate::outcome::Outcome;
use crate::record::Key;
use crate::refusal::Refusal;
use crate::rights::check_role;
use crate::standing::ItemState;
use crate::state::item_key::ItemKey;
use std::sync::Arc;

impl Step<'_> {
    pub(super) fn update(&mut self, sender: Sender<'_>, update: &Update) -> Result<Outcome, Refusal> {
        if update.start {
            return self.start(sender, update);
        }
        let (key, standpoint) = self.check_write(sender, &update.write, Needs::LeaseOrRevision)?;
        self.check_edits(sender, key, &update.edits)?;
        if standpoint == Standpoint::Holder {
            self.confirm(sender, key);
        }
        self.edit(key, &update.edits);
        self.settle_waits(key);
        Ok(Outcome::Updated {
            item: update.write.item.clone(),
            revision: self.item(key).standing.revision,
            grant: None,
        })
    }

    /// Sets an item to in-progress. This is a claim, and the answer contains the grant.
    fn start(&mut self, sender: Sender<'_>, update: &Update) -> Result<Outcome, Refusal> {
        let claim = Claim::new(update.write.item.clone());
        let decision = self.decide_claim(sender, &claim, Plan::NONE)?;
        let key = decision.key();
        if matches!(decision, Decision::Renew { .. }) && !update.edits.is_empty() {
            // A write to a held item needs its token, also from its holder.
            return Err(self.conflict(sender, key));
        }
        self.check_edits(sender, key, &update.edits)?;
        let revision = self.item(key).standing.revision;
        if let Some(read_at) = update.write.read_at.filter(|read_at| *read_at != revision) {
            return Err(self.stale_write(key, read_at));
        }
        let outcome = self.carry_out_claim(sender, &claim, decision)?;
        self.edit(key, &update.edits);
        let Outcome::Granted(mut grant) = outcome else { return Ok(outcome) };
        grant.snapshot = Some(Box::new(self.snapshot(key)));
        let revision = self.item(key).standing.revision;
        Ok(Outcome::Updated { item: update.write.item.clone(), revision, grant: Some(grant) })
    }

    fn edit(&mut self, key: ItemKey, edits: &[Edit]) {
        let fields = self.write_edits(key, edits);
        if !fields.is_empty() {
            self.emit_content(key, What::Updated { fields: fields.clone() }, &fields);
        }
    }

    /// Checks that these edits are valid and that this caller may make them.
    pub(super) fn check_edits(&self, sender: Sender<'_>, key: ItemKey, edits: &[Edit]) -> Result<(), Refusal> {
        for edit in edits {
            if let Edit::Mode(Mode::Local { owner }) = edit
                && *owner != sender.caller.actor
            {
                return Err(Refusal::invalid("mode", "only its owner may make an item local"));
            }
        }
        let more = self.check_values(sender, key, edits)?;
        self.check_growth(key, more)
    }

    /// Checks that the item's space has room for this many more bytes in the item.
    pub(super) fn check_growth(&self, key: ItemKey, more: u64) -> Result<(), Refusal> {
        let item = self.item(key);
        self.check_space(item.space, &item.content.created_by, 0, more)
    }

    /// Checks that these values are valid. Returns by how many bytes they make the body longer.
    pub(super) fn check_values(&self, sender: Sender<'_>, key: ItemKey, edits: &[Edit]) -> Result<u64, Refusal> {
        let item = self.item(key);
        let mut content = Content::clone(&item.content);
        for edit in edits {
            match edit {
                Edit::Phase(phase) if !self.policy(key).has_phase(phase) => {
                    return Err(Refusal::invalid("phase", "is not a phase of the queue"));
                }
                Edit::Parent(Some(parent)) => self.check_parent(sender, item.space, &item.id, parent)?,
                Edit::Target(Some(target)) => self.check_target(sender, &item.id, target)?,
                Edit::NotBefore(_) if !matches!(item.standing.state, ItemState::Pending(_)) => {
                    return Err(Refusal::WrongState { state: item.standing.state.name().into() });
                }
                _ => {}
            }
            content.take_edit(edit);
        }
        self.check_class(item.queue, &content)?;
        if content.body_bytes() > BODY_BYTES as u64 {
            return Err(Refusal::invalid("body", "has more than 65536 bytes in total"));
        }
        Ok(content.body_bytes().saturating_sub(item.content.body_bytes()))
    }

    /// Checks that a parent is an item of the same space and not the item itself or one of its descendants.
    pub(super) fn check_parent(
        &self,
        sender: Sender<'_>,
        space: SpaceNo,
        id: &ItemId,
        parent: &ItemId,
    ) -> Result<(), Refusal> {
        if self.find_visible(sender, parent).is_err() {
            return Err(Refusal::invalid("parent", "does not exist"));
        }
        let mut above = Some(parent.clone());
        for _ in 0..ANCESTORS {
            let Some(current) = above else { return Ok(()) };
            if current == *id {
                return Err(Refusal::invalid("parent", "is the item itself or one of its descendants"));
            }
            above = match self.find(space, &current) {
                Some(Found::Live(key)) => self.item(key).content.parent().cloned(),
                Some(Found::Archived(archived)) => archived.content.parent().cloned(),
                None => None,
            };
        }
        Err(Refusal::invalid("parent", "has too many ancestors"))
    }

    /// Checks that the caller may change the target, because mirrors change it.
    pub(super) fn check_target(&self, sender: Sender<'_>, id: &ItemId, target: &ItemId) -> Result<(), Refusal> {
        if target == id {
            return Err(Refusal::invalid("target", "is the item itself"));
        }
        let Ok(found) = self.find_visible(sender, target) else {
            return Err(Refusal::invalid("target", "does not exist"));
        };
        check_role(sender.caller, self.whereabouts(sender.caller, &found).queue, &[Role::Dispatcher])
    }

    /// Makes the edits and returns the fields that changed. Body parts are not in memory and cannot be compared, so
    /// writing one always counts as a change.
    pub(super) fn write_edits(&mut self, key: ItemKey, edits: &[Edit]) -> Vec<Field> {
        let mut fields = Vec::new();
        let mut content = Content::clone(&self.item(key).content);
        for edit in edits {
            if content.take_edit(edit) && !fields.contains(&edit.field()) {
                fields.push(edit.field());
            }
            match edit {
                Edit::Body(part, text) if text.is_empty() => self.changes.remove(&Key::Body(key.no, *part)),
                Edit::Body(part, text) => self.changes.put(&Key::Body(key.no, *part), text),
                Edit::NotBefore(date) => self.change(key, |item| {
                    if let ItemState::Pending(waits) = &mut item.standing.state {
                        waits.not_before = *date;
                    }
                }),
                _ => {}
            }
        }
        if fields.is_empty() {
            return fields;
        }
        let space = self.item(key).space;
        let (before, after) = (self.item(key).content.body_bytes(), content.body_bytes());
        self.touch_content(key);
        self.state.change_content(key, |old| *old = content);
        if before != after {
            self.touched_spaces.insert(space);
            let counts = &mut self.state.space_mut(space).counts;
            counts.body_bytes = counts.body_bytes + after - before;
        }
        fields.sort_unstable();
        fields
    }
}

impl Content {
    /// Makes one edit. Returns whether it changed anything.
    fn take_edit(&mut self, edit: &Edit) -> bool {
        fn set<T: PartialEq>(old: &mut T, new: T) -> bool {
            let changed = *old != new;
            *old = new;
            changed
        }
        let mut links = self.links.take().unwrap_or_default();
        let changed = match edit {
            Edit::Title(title) => set(&mut self.title, title.as_str().into()),
            Edit::Priority(priority) => set(&mut self.priority, *priority),
            Edit::Labels(labels) => set(&mut Arc::make_mut(&mut self.label_sets).labels, labels.as_slice().into()),
            Edit::Needs(needs) => set(&mut Arc::make_mut(&mut self.label_sets).needs, crate::item::sorted(needs)),
            Edit::Parent(parent) => set(&mut links.parent, parent.clone()),
            Edit::Target(target) => set(&mut links.target, target.clone()),
            Edit::NotBefore(date) => set(&mut links.not_before, *date),
            Edit::Mode(mode) => set(&mut self.mode, mode.clone()),
            Edit::Phase(phase) => set(&mut self.phase, Some(phase.clone())),
            Edit::Body(part, text) => {
                self.set_part(*part, text.len());
                true
            }
        };
        self.links = (*links != crate::item::Links::default()).then_some(links);
        changed
    }
}
