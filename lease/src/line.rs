//! The wait line of one item. Waiters are granted in the order in which they joined, by position in the log.

use crate::caller::{ActorKind, Holder};
use crate::item::Mirrors;
use crate::names::ActorId;
use crate::numbers::{Span, Time};
use crate::remembered::RequestKey;
use crate::standing::Doing;
use sabotage::{Broken, is_broken};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The position of a place in its line. A new place gets the next number. An operator's reorder uses numbers below the
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlaceNo(pub i64);

/// One waiting claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub holder: Holder,
    pub kind: ActorKind,
    /// The actor that dispatched the waiter. A local item is granted only to callers that work for its owner.
    pub parent: Option<ActorId>,
    /// The request that gets an answer when the place ends. None: the claim came in a batch.
    pub request: Option<RequestKey>,
    pub joined_at: Time,
    pub polled_at: Time,
    /// When the caller no longer wants the item.
    pub wait_until: Option<Time>,
    pub lease_for: Span,
    pub doing: Option<Box<Doing>>,
    pub mirrors: Mirrors,
}

impl Place {
    /// When the place ends: the waiter has not polled for too long, or the time that it wants to wait is over.
    #[must_use]
    pub fn ends_at(&self) -> Time {
        let dead = self.polled_at.after(crate::bounds::PLACE_LIFE);
        self.wait_until.map_or(dead, |until| until.min(dead))
    }
}

/// All places of one item, head first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    places: BTreeMap<PlaceNo, Place>,
    numbers: BTreeMap<Holder, PlaceNo>,
}

impl Line {
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[must_use]
    pub fn number_of(&self, holder: &Holder) -> Option<PlaceNo> {
        self.numbers.get(holder).copied()
    }

    /// How many places an actor has with all of its sessions. Counting stops at `enough`.
    #[must_use]
    pub fn places_of(&self, actor: &ActorId, enough: usize) -> usize {
        let from = Holder::new(actor.clone(), None);
        self.numbers.range(from..).take(enough).take_while(|(holder, _)| holder.actor == *actor).count()
    }

    #[must_use]
    pub fn get(&self, number: PlaceNo) -> Option<&Place> {
        self.places.get(&number)
    }

    /// How many places are before it: 0 is next.
    #[must_use]
    pub fn position(&self, number: PlaceNo) -> u32 {
        u32::try_from(self.places.range(..number).count()).unwrap_or(u32::MAX)
    }

    #[must_use]
    pub fn head(&self) -> Option<(PlaceNo, &Place)> {
        let places = &self.places;
        let head = if is_broken(Broken::Fifo) { places.last_key_value() } else { places.first_key_value() };
        head.map(|(number, place)| (*number, place))
    }

    pub fn iter(&self) -> impl Iterator<Item = (PlaceNo, &Place)> {
        self.places.iter().map(|(number, place)| (*number, place))
    }

    #[must_use]
    pub fn first_number(&self) -> PlaceNo {
        self.places.first_key_value().map_or(PlaceNo(0), |(number, _)| *number)
    }

    #[must_use]
    pub fn next_number(&self) -> PlaceNo {
        self.places.last_key_value().map_or(PlaceNo(0), |(number, _)| PlaceNo(number.0 + 1))
    }

    pub fn insert(&mut self, number: PlaceNo, place: Place) {
        self.numbers.insert(place.holder.clone(), number);
        self.places.insert(number, place);
    }

    pub fn remove(&mut self, number: PlaceNo) -> Option<Place> {
        let place = self.places.remove(&number)?;
        self.numbers.remove(&place.holder);
        Some(place)
    }
}
