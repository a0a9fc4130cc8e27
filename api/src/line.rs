//! The wait line of an item, as it is shown.

use crate::dates::{Calendar, Date};
use crate::names;
use crate::words::ActorKind;
use lease::names::{ActorId, SessionId};
use lease::views::PlaceView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The wait line of an item, head first. The holder is not in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Line {
    pub places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// 0 is next.
    pub place: u32,
    pub is_yours: bool,
    pub joined_at_ms: u64,
    pub joined_at: Date,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ActorKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::ActorId>)]
    pub actor: Option<ActorId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::SessionId>)]
    pub session: Option<SessionId>,
}

impl Line {
    #[must_use]
    pub fn new(places: Vec<PlaceView>, calendar: Calendar) -> Self {
        let place = |view: PlaceView| {
            let (actor, session) =
                view.waiter.map_or((None, None), |who| (Some(who.actor.clone()), who.session.clone()));
            Place {
                place: view.place,
                is_yours: view.is_yours,
                joined_at_ms: view.joined_at.0,
                joined_at: calendar.date(view.joined_at),
                kind: view.kind.map(Into::into),
                actor,
                session,
            }
        };
        Self { places: places.into_iter().map(place).collect() }
    }
}
