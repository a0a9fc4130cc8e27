//! The items of one actor.

use super::ItemView;
use crate::archive::Archive;
use crate::caller::Caller;
use crate::disclose::{self, Sight};
use crate::names::{ActorId, SpaceName};
use crate::standing::ItemState;
use crate::state::State;
use crate::state::item_key::ItemKey;
use std::cell::Cell;

/// How many links to other items a view checks if it is not made in parts.
const LINKS_PER_LOOK: u32 = 10_000;

/// The items that an actor is assigned to, holds or has reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carrying {
    pub assigned: Vec<ItemView>,
    pub leased: Vec<ItemView>,
    pub reserved: Vec<ItemView>,
}

impl State {
    /// The items that an actor is assigned to, holds or has reserved in this space, at most `limit` of each. Of another
    /// actor than the viewer, only those whose holder and assignee the viewer may see.
    #[must_use]
    pub fn carrying(
        &self,
        archive: &dyn Archive,
        viewer: &Caller,
        space: &SpaceName,
        actor: &ActorId,
        limit: usize,
    ) -> Carrying {
        let Some(holdings) = self.space_numbers.get(space).and_then(|space| self.holdings.get(*space, actor)) else {
            return Carrying::default();
        };
        // Each link may need a lookup on disk while others wait for the state, so the last of thousands are omitted.
        let links_left = Cell::new(LINKS_PER_LOOK);
        let is_seen = |key: ItemKey| {
            let queue = &self.queue(self.item(key).queue).queue;
            *actor == viewer.actor || disclose::sight_of_list(viewer, queue) == Sight::All
        };
        let show_one = |key: ItemKey| {
            let space = self.item(key).space;
            if !is_seen(key) {
                return None;
            }
            self.show_naming(viewer, key, |id| {
                links_left.set(links_left.get().saturating_sub(1));
                links_left.get() > 0 && self.may_name(archive, viewer, space, id)
            })
        };
        let show = |keys: &mut dyn Iterator<Item = ItemKey>| keys.filter_map(show_one).take(limit).collect::<Vec<_>>();
        let is_assigned = |key: &ItemKey| self.item(*key).standing.is_assigned_to(actor);
        let mut assigned: Vec<_> = holdings.leases().map(|(_, _, key)| key).filter(is_assigned).collect();
        // No more of them than this can be among the first `limit`.
        assigned
            .extend(holdings.assigned.iter().filter(|key| is_seen(**key) && self.is_shown(viewer, **key)).take(limit));
        assigned.sort_unstable();
        Carrying {
            assigned: show(&mut assigned.into_iter()),
            leased: show(&mut holdings.leases().map(|(_, _, key)| key)),
            reserved: show(
                &mut holdings
                    .own
                    .iter()
                    .map(|(_, _, key)| *key)
                    .filter(|key| matches!(self.item(*key).standing.state, ItemState::Reserved(_))),
            ),
        }
    }
}
