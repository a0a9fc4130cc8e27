//! Mirrors: a transition of an item moves the phase of its target. The move is not a transition itself, so it goes no
//! further.

use super::Step;
use super::find::Found;
use crate::event::What;
use crate::item::{Edit, Field, MirrorSkip, Mirrors, Transition};
use crate::state::item_key::ItemKey;

impl Step<'_> {
    pub(super) fn mirror(&mut self, key: ItemKey, transition: Transition, allowed: Mirrors) {
        let item = self.item(key);
        let Some(target) = item.content.target().cloned() else { return };
        let Some(phase) = self.policy(key).mirror_of(transition).cloned() else { return };
        if !allowed.has(transition) {
            return;
        }
        let of = item.id.clone();
        let target = match self.find(item.space, &target) {
            Some(Found::Live(target)) => target,
            Some(Found::Archived(_)) => return self.skip_mirror(key, transition, MirrorSkip::Terminal),
            None => return self.skip_mirror(key, transition, MirrorSkip::Missing),
        };
        if self.item(target).standing.lease.is_some() {
            return self.skip_mirror(key, transition, MirrorSkip::Held);
        }
        if !self.policy(target).has_phase(&phase) {
            return self.skip_mirror(key, transition, MirrorSkip::NoSuchPhase);
        }
        if self.item(target).content.phase.as_ref() != Some(&phase) {
            self.write_edits(target, &[Edit::Phase(phase.clone())]);
            self.emit_content(target, What::Mirrored { of, transition, phase }, &[Field::Phase]);
        }
    }

    fn skip_mirror(&mut self, key: ItemKey, transition: Transition, why: MirrorSkip) {
        self.emit_of(key, What::MirrorSkipped { transition, why });
    }
}
