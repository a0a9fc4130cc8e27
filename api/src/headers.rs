//! The names of the headers of Tenure.

use http::HeaderName;

/// The id of a request. A command that is repeated with the same id has no second effect.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Marks a repeat of a request that got no answer: the milliseconds since its first attempt.
pub const RETRY: HeaderName = HeaderName::from_static("tenure-retry");
/// The space of a request.
pub const SPACE: HeaderName = HeaderName::from_static("tenure-space");
/// The session of a request: one run of its actor.
pub const SESSION: HeaderName = HeaderName::from_static("tenure-session");
/// The name of the caller. Only a development node reads this header and the next two; every other node identifies its
/// callers by their API keys.
pub const ACTOR: HeaderName = HeaderName::from_static("tenure-actor");
/// The kind of the caller: `user`, `agent` or `system`.
pub const ACTOR_KIND: HeaderName = HeaderName::from_static("tenure-actor-kind");
/// The actor for which the caller acts.
pub const ACTOR_PARENT: HeaderName = HeaderName::from_static("tenure-actor-parent");
/// The position after which an event stream begins.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// In every answer: the id of the request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("tenure-request-id");
/// In the answer to a local read: the log index of the last entry in the state that was read.
pub const APPLIED_INDEX: HeaderName = HeaderName::from_static("tenure-applied-index");
/// In the answer to a local read: the age of the state that was read, in milliseconds, or `unknown`.
pub const AGE_MS: HeaderName = HeaderName::from_static("tenure-age-ms");

/// A header name with its usual capitals.
#[must_use]
pub fn title(name: &HeaderName) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.as_str().split('-').map(word).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_named_with_their_usual_capitals() {
        assert_eq!(title(&IDEMPOTENCY_KEY), "Idempotency-Key");
        assert_eq!(title(&SPACE), "Tenure-Space");
    }
}
