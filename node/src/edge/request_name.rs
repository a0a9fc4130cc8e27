//! The id under which a request is answered and remembered.

use crate::observe::trace::TraceContext;
use api::headers::IDEMPOTENCY_KEY;
use axum::http::HeaderMap;
use lease::names::RequestId;
use std::sync::Arc;

/// The id of a request: the caller's `Idempotency-Key`, or an id that this node made.
#[derive(Clone, Debug)]
pub(crate) struct RequestName {
    name: Arc<str>,
    /// None: the caller's id is invalid. The id that this node made is then used only in the response.
    id: Option<RequestId>,
}

impl RequestName {
    pub(crate) fn of(headers: &HeaderMap, trace: &TraceContext) -> Self {
        let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
        let id = match (given.next(), given.next()) {
            (None, _) => trace.request_name().and_then(|name| RequestId::new(&name).ok()),
            (Some(given), None) => given.to_str().ok().and_then(|given| RequestId::new(given).ok()),
            (Some(_), Some(_)) => None,
        };
        let own = || trace.request_name().unwrap_or_else(|| trace.trace_id().to_string());
        Self { name: id.as_ref().map_or_else(|| own().into(), |id| id.as_str().into()), id }
    }

    pub(crate) fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }
}
