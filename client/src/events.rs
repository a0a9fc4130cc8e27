//! Events in pages. To get events as they happen, use [`Client::watch`].

use crate::Client;
use crate::call::Call;
use crate::path::Path;
use api::event::EventPage;
use api::query::EventsQuery;

impl Client {
    /// Events, oldest first. A page may be empty and still have a next position.
    pub fn events(&self, query: &EventsQuery) -> Call<EventPage> {
        Call::get(self, Path::new("/v1/events").with(query))
    }
}
