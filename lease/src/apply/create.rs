//! Creating items. Creation never starts work on an item; only an accepted claim does.

use super::find::Found;
use super::{Sender, Step};
use crate::bounds::{BODY_BYTES_AT_LEAST, CLASSES, ITEMS_AT_LEAST};
use crate::event::What;
use crate::item::{Content, LabelSets, Links, Mode, NewItem, Parts, sorted};
use crate::names::{ActorId, ItemId};
use crate::numbers::{ItemNo, QueueNo, Revision, SpaceNo};
use crate::outcome::Outcome;
use crate::policy::{OnDependencyFailed, Policy};
use crate::record::Key;
use crate::refusal::Refusal;
use crate::rights::Need;
use crate::share::Bound;
use crate::standing::{BlockedBy, ItemState, Standing, StateKind, Waits};
use crate::state::items::Item;
use std::sync::Arc;

impl Step<'_> {
    pub(super) fn create_many(&mut self, sender: Sender<'_>, items: &[NewItem]) -> Result<Outcome, Refusal> {
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            // The first item may have created the space.
            let space = self.state.space_numbers.get(sender.space_name).copied();
            let sender = Sender { space, ..sender };
            let created = self.check_right(sender, Need::of_create(item)).and_then(|()| self.create(sender, item));
            outcomes.push(created.into());
        }
        Ok(Outcome::CreatedMany(outcomes))
    }

    pub(super) fn create(&mut self, sender: Sender<'_>, new: &NewItem) -> Result<Outcome, Refusal> {
        if let Mode::Local { owner } = &new.mode
            && *owner != sender.caller.actor
        {
            return Err(Refusal::invalid("mode", "only its owner may make an item local"));
        }
        let fingerprint = self.fingerprint(new);
        if let Some(existing) = sender.space.and_then(|space| self.find(space, &new.id)) {
            // The caller learns nothing of a hidden item except that its id is taken: ids are unique in a space.
            return if self.whereabouts(sender.caller, &existing).is_visible_to(sender.caller) {
                self.created_before(new, &existing, fingerprint)
            } else {
                Err(Refusal::AlreadyExists)
            };
        }
        let policy = self.find_queue(sender, &new.queue).map(|no| self.state.queue(no).queue.policy.clone());
        let policy = policy.unwrap_or_default();
        let phase = new.phase.clone().or_else(|| policy.phases.first().cloned());
        if phase.as_ref().is_some_and(|phase| !policy.has_phase(phase)) {
            return Err(Refusal::invalid("phase", "is not a phase of the queue"));
        }
        for (field, id) in [("parent", &new.parent), ("target", &new.target)] {
            if id.is_some() && sender.space.is_none() {
                return Err(Refusal::invalid(field, "does not exist"));
            }
        }
        if let (Some(space), Some(parent)) = (sender.space, &new.parent) {
            self.check_parent(sender, space, &new.id, parent)?;
        }
        if let (Some(_), Some(target)) = (sender.space, &new.target) {
            self.check_target(sender, &new.id, target)?;
        }
        let state = self.first_state(sender, new, &policy)?;
        let mut content = Content {
            title: new.title.as_str().into(),
            priority: new.priority,
            label_sets: Arc::new(LabelSets { labels: new.labels.as_slice().into(), needs: sorted(&new.needs) }),
            mode: new.mode.clone(),
            phase,
            links: links_of(new),
            parts: Parts::default(),
            created_by: sender.caller.actor.clone(),
            created_at: self.now(),
            created_wall: self.wall,
            fingerprint,
        };
        for (part, text) in &new.body {
            content.set_part(*part, text.len());
        }
        self.check_room(sender, Some(&new.queue))?;
        if let Some(space) = sender.space {
            self.check_space(space, &content.created_by, 1, content.body_bytes())?;
        }
        if let Some(queue) = self.find_queue(sender, &new.queue) {
            self.check_class(queue, &content)?;
        }

        let space = self.ensure_space(sender.space_name);
        let queue = self.ensure_queue(sender, space, &new.queue);
        self.state.meta.last_item = ItemNo(self.state.meta.last_item.0 + 1);
        let no = self.state.meta.last_item;
        for (part, text) in &new.body {
            self.changes.put(&Key::Body(no, *part), text);
        }
        let counts = &mut self.state.space_mut(space).counts;
        counts.created += 1;
        counts.live += 1;
        counts.body_bytes += content.body_bytes();
        let is_blocked = matches!(state, ItemState::Blocked(_));
        let kind = state.kind();
        let standing = Standing::new(state, Revision::default(), self.now());
        let item = Item::new(no, new.id.clone(), space, queue, Arc::new(content), standing);
        let key = self.state.items.insert(item);
        self.state.index(key);
        self.touch_content(key);
        let revision = self.emit_of(key, What::Created);
        self.change(key, |item| item.standing.revision = revision);
        if is_blocked {
            self.emit_of(key, What::Blocked { by: BlockedBy::Dependency });
        }
        Ok(Outcome::Created { item: new.id.clone(), created: true, revision, state: kind })
    }

    fn created_before(&self, new: &NewItem, existing: &Found, fingerprint: u64) -> Result<Outcome, Refusal> {
        let (content, standing) = match existing {
            Found::Live(key) => (&self.item(*key).content, &self.item(*key).standing),
            Found::Archived(archived) => (&archived.content, &archived.standing),
        };
        if content.fingerprint != fingerprint {
            return Err(Refusal::AlreadyExists);
        }
        let (revision, state) = (standing.revision, standing.state.kind());
        Ok(Outcome::Created { item: new.id.clone(), created: false, revision, state })
    }

    /// Pending if the item waits for anything, blocked if it waits for something that can no longer happen.
    fn first_state(&self, sender: Sender<'_>, new: &NewItem, policy: &Policy) -> Result<ItemState, Refusal> {
        let mut waits = Waits {
            dependencies: Vec::new(),
            not_before: new.not_before.filter(|date| *date > self.wall),
            until: new.delay.map(|delay| self.now().after(delay)),
        };
        let mut waits_in_vain = false;
        for dependency in &new.depends_on {
            match self.find_dependency(sender, dependency)? {
                Found::Live(key) => {
                    let dependents = self.state.dependents.get(&key.no).map_or(0, std::collections::BTreeSet::len);
                    if dependents >= crate::bounds::DEPENDENTS {
                        return Err(Refusal::TooManyDependents { item: dependency.clone() });
                    }
                    waits.dependencies.push(key.no);
                }
                Found::Archived(archived) => {
                    waits_in_vain |= archived.standing.state.kind() != StateKind::Complete
                        && policy.on_dependency_failed == OnDependencyFailed::Block;
                }
            }
        }
        Ok(if waits_in_vain {
            ItemState::Blocked(BlockedBy::Dependency)
        } else if waits.is_over() {
            ItemState::Queued
        } else {
            ItemState::Pending(Box::new(waits))
        })
    }

    fn find_dependency(&self, sender: Sender<'_>, id: &ItemId) -> Result<Found, Refusal> {
        self.find_visible(sender, id)
            .map_err(|_| Refusal::invalid("depends_on", format!("{id} does not exist; create it first")))
    }

    /// Checks that a queue may have a live item of this class.
    pub(super) fn check_class(&self, queue: QueueNo, content: &Content) -> Result<(), Refusal> {
        if self.state.queue(queue).ready.has_room_for(content) {
            return Ok(());
        }
        let why = format!("the queue already has {CLASSES} combinations of mode, needs and phase");
        Err(Refusal::invalid("needs", why))
    }

    /// Checks that a space may get this many more live items and bytes of bodies, created by this actor.
    pub(super) fn check_space(
        &self,
        space_no: SpaceNo,
        creator: &ActorId,
        items: u64,
        bytes: u64,
    ) -> Result<(), Refusal> {
        let space = self.state.space(space_no);
        let (items_max, body_bytes_max) = (space.policy.items_max, space.policy.body_bytes_max);
        let of_items = Bound { max: items_max, used: space.counts.live, at_least: ITEMS_AT_LEAST };
        let of_bytes = Bound { max: body_bytes_max, used: space.counts.body_bytes, at_least: BODY_BYTES_AT_LEAST };
        let made = || self.state.makers.get(space_no, creator);
        if of_items.admits(items, || made().items) && of_bytes.admits(bytes, || made().body_bytes) {
            Ok(())
        } else {
            Err(Refusal::SpaceFull { items_max, body_bytes_max })
        }
    }
}

fn links_of(new: &NewItem) -> Option<Box<Links>> {
    let links = Links {
        parent: new.parent.clone(),
        target: new.target.clone(),
        depends_on: new.depends_on.as_slice().into(),
        not_before: new.not_before,
    };
    (links != Links::default()).then(|| Box::new(links))
}
