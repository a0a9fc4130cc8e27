//! Events in pages. As they happen: [`Client::watch`].

use crate::Client;
use crate::call::Call;
use crate::path::{Path, Query};
use api::event::EventPage;
use api::names::Number;
use lease::names::{ActorId, ItemId, QueueName};

/// Which events are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsQuery {
    /// Behind this one. In pages from the first that is kept unless said; as they happen from now on.
    pub after: Option<Number>,
    pub queue: Option<QueueName>,
    pub item: Option<ItemId>,
    /// Only those that this actor caused or that name it.
    pub actor: Option<ActorId>,
}

impl EventsQuery {
    pub(crate) fn said(&self) -> Query {
        Query::default().say("queue", &self.queue).say("item", &self.item).say("actor", &self.actor)
    }
}

impl Client {
    /// Oldest first. A page may be empty and still say where to go on.
    pub fn events(&self, query: &EventsQuery, limit: Option<usize>) -> Call<EventPage> {
        let said = query.said().say("after", query.after).say("limit", limit);
        Call::get(self, Path::new("/v1/events").with(said))
    }
}
