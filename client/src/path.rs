//! Paths and queries of the HTTP API.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Display;

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

    /// Appends a query.
    pub(crate) fn with(mut self, query: Query) -> Self {
        if !query.0.is_empty() {
            self.0.push('?');
            self.0.push_str(&query.0);
        }
        self
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

/// A query. Missing values are left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn say<T: Display>(mut self, name: &str, value: impl IntoIterator<Item = T>) -> Self {
        for value in value {
            let mut writer = form_urlencoded::Serializer::new(String::new());
            writer.append_pair(name, &value.to_string());
            if !self.0.is_empty() {
                self.0.push('&');
            }
            self.0 += &writer.finish();
        }
        self
    }

    /// Adds the JSON name of an enum value.
    pub(crate) fn word(self, name: &str, word: Option<impl serde::Serialize>) -> Self {
        let text = word.and_then(|word| serde_json::to_value(word).ok()?.as_str().map(ToOwned::to_owned));
        self.say(name, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_and_queries_are_encoded() {
        let item = lease::names::ItemId::new("disk/1 ä?&.").unwrap();
        let query = Query::default().say("label", ["a b", "c&d"]).say("limit", None::<u32>);
        let query = query.word("state", Some(api::words::ItemState::AwaitingInput));
        assert_eq!(
            Path::item(&item).verb("claim").with(query).into_string(),
            "/v1/items/disk%2F1%20%C3%A4%3F%26%2E/claim?label=a+b&label=c%26d&state=awaiting_input"
        );
    }
}
