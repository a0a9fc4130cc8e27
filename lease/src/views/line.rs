//! The wait line of an item.

use crate::caller::{ActorKind, Caller, Holder};
use crate::disclose::{self, Sight};
use crate::names::{ItemId, SpaceName};
use crate::numbers::Time;
use crate::refusal::Refusal;
use crate::state::State;

/// A waiter in a line. Place 0 is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceView {
    pub place: u32,
    pub is_yours: bool,
    pub joined_at: Time,
    pub kind: Option<ActorKind>,
    pub waiter: Option<Holder>,
}

impl State {
    /// The waiters of an item, without its holder.
    ///
    /// # Errors
    /// `not_found`.
    pub fn line(&self, viewer: &Caller, space: &SpaceName, id: &ItemId) -> Result<Vec<PlaceView>, Refusal> {
        let space = self.space_numbers.get(space).copied().ok_or(Refusal::NotFound)?;
        let key = self.items.find(space, id).ok_or(Refusal::NotFound)?;
        if !self.is_shown(viewer, key) {
            return Err(Refusal::NotFound);
        }
        let item = self.item(key);
        let sight = disclose::sight_of_list(viewer, &self.queue(item.queue).queue);
        let places = item.line.iter().flat_map(|line| line.iter()).zip(0..).map(|((_, place), number)| {
            let is_yours = place.holder.actor == viewer.actor;
            let is_shown = is_yours || sight == Sight::All;
            PlaceView {
                place: number,
                is_yours,
                joined_at: place.joined_at,
                kind: is_shown.then_some(place.kind),
                waiter: is_shown.then(|| place.holder.clone()),
            }
        });
        Ok(places.collect())
    }
}
