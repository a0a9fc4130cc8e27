//! Paths and queries of the HTTP API.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

/// A path of the HTTP API. Names in it are encoded, so they may contain any character.
#[derive(Clone, Debug)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn item(id: &lease::names::ItemId) -> Self {
        Self::new("/v1/items").segment(id.as_str())
    }

    pub(crate) fn queue(name: &lease::names::QueueName) -> Self {
        Self::new("/v1/queues").segment(name.as_str())
    }

    pub(crate) fn actor(name: &lease::names::ActorId) -> Self {
        Self::new("/v1/actors").segment(name.as_str())
    }

    pub(crate) fn segment(mut self, name: &str) -> Self {
        self.0.push('/');
        self.0.extend(utf8_percent_encode(name, NON_ALPHANUMERIC));
        self
    }

    pub(crate) fn verb(mut self, verb: &str) -> Self {
        self.0.push('/');
        self.0.push_str(verb);
        self
    }

    /// Appends a query. Missing values are left out.
    pub(crate) fn with(mut self, query: &impl Serialize) -> Self {
        // The queries of `api` always encode.
        let query = serde_html_form::to_string(query).unwrap_or_default();
        if !query.is_empty() {
            self.0.push('?');
            self.0.push_str(&query);
        }
        self
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::query::{Consistency, ItemsQuery, PeekQuery, StreamQuery};
    use api::words::ItemState;
    use lease::names::Label;

    #[test]
    fn names_in_paths_and_queries_are_encoded() {
        let item = lease::names::ItemId::new("disk/1 ä?&.").unwrap();
        let labels = ["a b", "c&d"].map(|label| Label::new(label).unwrap()).to_vec();
        let query =
            ItemsQuery { labels, state: Some(ItemState::AwaitingInput), limit: Some(7), ..ItemsQuery::default() };
        assert_eq!(
            Path::item(&item).verb("claim").with(&query).into_string(),
            "/v1/items/disk%2F1%20%C3%A4%3F%26%2E/claim?state=awaiting_input&label=a+b&label=c%26d&limit=7"
        );
        let default = Path::new("/v1/items").with(&ItemsQuery::default()).into_string();
        assert_eq!(default, "/v1/items");
        let query = PeekQuery {
            capabilities: Some(vec![Label::new("gpu").unwrap()]),
            consistency: Consistency::Local,
            ..PeekQuery::default()
        };
        assert_eq!(Path::new("/peek").with(&query).into_string(), "/peek?capability=gpu&consistency=local");
        let query = StreamQuery { after: "0.7".parse().ok(), ..StreamQuery::default() };
        assert_eq!(Path::new("/stream").with(&query).into_string(), "/stream?after=0.7");
    }
}
