//! What one request sends, and what sending it twice would mean.

use crate::endpoint::Endpoint;
use api::names::Number;
use bytes::Bytes;
use hyper::Method;
use std::time::Duration;

/// What a request changes. It determines what a lost answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A read, which can be sent again at any time.
    Nothing,
    /// Takes effect once per request id, for as long as nodes remember the id.
    Once,
    /// Has the same effect however often it is sent, like a renewal, which is identified by its token.
    Same,
}

/// What a call sends, and how: everything but the type of its reply.
#[derive(Clone, Debug)]
pub(crate) struct RequestSpec {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) effect: Effect,
    pub(crate) key: Option<String>,
    /// How long ago the request was first sent, if it got no answer.
    pub(crate) repeat_after: Option<Duration>,
    pub(crate) read_at: Option<Number>,
    pub(crate) resume_after: Option<Number>,
    pub(crate) within: Option<Duration>,
    pub(crate) attempt_within: Option<Duration>,
    /// How long the node is asked to wait.
    pub(crate) waits: Duration,
    /// Send the request to this node only.
    pub(crate) only_at: Option<Endpoint>,
    /// Accept status 503 as a reply: health endpoints send it.
    pub(crate) accepts_503: bool,
}
