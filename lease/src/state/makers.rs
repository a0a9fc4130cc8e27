//! What each actor has created in each space and still exists: its part of the limits that the actors of a space share.

use crate::names::ActorId;
use crate::numbers::SpaceNo;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    /// Live items that the actor created, and the bytes of their bodies, whichever actor wrote them.
    pub(crate) items: u64,
    pub(crate) body_bytes: u64,
    pub(crate) queues: u64,
}

/// The creations of all actors. Actors of whose creations nothing exists any more are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Makers(BTreeMap<(SpaceNo, ActorId), Made>);

impl Makers {
    pub(crate) fn get(&self, space: SpaceNo, actor: &ActorId) -> Made {
        self.0.get(&(space, actor.clone())).copied().unwrap_or_default()
    }

    /// Changes what an actor has created. Returns its name, in the copy that all of its creations can share.
    pub(crate) fn change(&mut self, space: SpaceNo, actor: &ActorId, change: impl FnOnce(&mut Made)) -> ActorId {
        match self.0.entry((space, actor.clone())) {
            Entry::Vacant(new) => {
                let name = new.key().1.clone();
                change(new.insert(Made::default()));
                name
            }
            Entry::Occupied(mut kept) => {
                let name = kept.key().1.clone();
                change(kept.get_mut());
                if *kept.get() == Made::default() {
                    kept.remove();
                }
                name
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_kept_once_per_space_while_its_creations_exist() {
        let mut makers = Makers::default();
        let actor = || ActorId::new("ada").unwrap();
        let (first, second) = (actor(), actor());
        let kept = makers.change(SpaceNo(1), &first, |made| made.items += 1);
        let shared = makers.change(SpaceNo(1), &second, |made| made.queues += 2);
        assert!(std::ptr::eq(kept.as_str(), shared.as_str()) && !std::ptr::eq(kept.as_str(), second.as_str()));
        makers.change(SpaceNo(2), &second, |made| made.body_bytes += 7);
        assert_eq!(makers.get(SpaceNo(1), &actor()), Made { items: 1, body_bytes: 0, queues: 2 });
        assert_eq!(makers.get(SpaceNo(3), &actor()), Made::default());
        makers.change(SpaceNo(1), &first, |made| *made = Made { queues: made.queues - 2, items: 0, ..*made });
        makers.change(SpaceNo(2), &first, |made| made.body_bytes -= 7);
        assert_eq!(makers, Makers::default());
    }
}
