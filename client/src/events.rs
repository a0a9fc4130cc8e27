//! Events in pages. To get events as they happen, use [`Client::watch`].

use crate::Client;
use crate::call::Call;
use crate::path::{Path, Query};
use api::event::EventPage;
use api::names::Number;
use lease::names::{ActorId, ItemId, QueueName};

/// Selects events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsQuery {
    /// Only events after this one. By default, pages start at the oldest event that is kept, and streams start now.
    pub after: Option<Number>,
    pub queue: Option<QueueName>,
    pub item: Option<ItemId>,
    /// Only events that this actor caused or that name it.
    pub actor: Option<ActorId>,
}

impl EventsQuery {
    pub(crate) fn said(&self) -> Query {
        Query::default().say("queue", &self.queue).say("item", &self.item).say("actor", &self.actor)
    }
}

impl Client {
    /// Events, oldest first. A page may be empty and still have a next position.
    pub fn events(&self, query: &EventsQuery, limit: Option<usize>) -> Call<EventPage> {
        let said = query.said().say("after", query.after).say("limit", limit);
        Call::get(self, Path::new("/v1/events").with(said))
    }
}
