//! The body of a request, read whole before its handler runs, within bounds of size, time and memory.
//!
//! It is a layer for a router. Put what needs only the head, as finding out who asks, outside of it. What arrives is
//! kept in memory as it arrives: a length that was only claimed takes no room. Whoever sends much, however slowly, takes
//! no room from others, and large bodies none from the small ones, as those of renewals are.

mod room;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use room::{Full, Room, Taken};
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;
use tower::{Layer, Service};

/// Told to a caller for whose body there is no room. Bodies are gone within milliseconds, or [`BodyLimits::within`].
const ROOM_AGAIN: Duration = Duration::from_millis(500);

/// A body that is too large is still read, and dropped, up to here: a caller that is cut off while it sends would not get
/// to read why.
const DROPPED_MAX: u64 = 16 * 1024 * 1024;
const DROPPED_WITHIN: Duration = Duration::from_secs(1);

/// What bodies may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Bytes of one. Default 1 MiB. Above 2 MiB axum's own limit has to be lifted as well.
    pub bytes_max: usize,
    /// From the first look at it to its end. Default 30 s.
    pub within: Duration,
    /// Bytes of all that are read or worked on at a time, over all connections. Default 256 MiB.
    pub all_bytes_max: usize,
    /// And of those of one owner. Default 32 MiB.
    pub owner_bytes_max: usize,
    /// A body of more may fill only three quarters of the room. Default 16 KiB.
    pub small_bytes_max: usize,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            bytes_max: 1024 * 1024,
            within: Duration::from_secs(30),
            all_bytes_max: 256 * 1024 * 1024,
            owner_bytes_max: 32 * 1024 * 1024,
            small_bytes_max: 16 * 1024,
        }
    }
}

/// Why a body was not taken. The handler did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRefusal {
    TooLarge {
        bytes_max: usize,
    },
    TooSlow {
        within: Duration,
    },
    /// All bodies together, or those of this owner, are as large as they may be.
    NoRoom {
        retry_after: Duration,
        is_owners_own: bool,
    },
    /// It ended before its end, or was no HTTP.
    Broken,
}

impl IntoResponse for BodyRefusal {
    fn into_response(self) -> Response {
        let (status, code, title, may_retry) = match self {
            Self::TooLarge { .. } => (413, "too_large", "The request is larger than is taken", false),
            Self::TooSlow { .. } => (408, "too_slow", "The request did not arrive in time", true),
            Self::NoRoom { is_owners_own: true, .. } => (429, "rate_limited", "You ask too much at a time", true),
            Self::NoRoom { .. } => (503, "overloaded", "This node has more to do than it can: it did not happen", true),
            Self::Broken => (400, "invalid", "The request itself is wrong; sending it again is of no use", false),
        };
        let detail = match self {
            Self::TooLarge { bytes_max } => format!("a body has at most {bytes_max} bytes"),
            Self::TooSlow { within } => format!("a body has to arrive within {within:?}"),
            Self::NoRoom { .. } => "too many large bodies at a time".to_owned(),
            Self::Broken => "the body did not arrive whole".to_owned(),
        };
        let retry_after_ms = match self {
            Self::NoRoom { retry_after, .. } => format!(",\"retry_after_ms\":{}", retry_after.as_millis()),
            Self::TooLarge { .. } | Self::TooSlow { .. } | Self::Broken => String::new(),
        };
        let text = format!(
            "{{\"type\":\"/docs#{code}\",\"title\":\"{title}\",\"status\":{status},\"code\":\"{code}\",\
             \"detail\":\"{detail}\",\"may_retry\":{may_retry},\"took_effect\":\"no\"{retry_after_ms}}}"
        );
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        let kind = HeaderValue::from_static("application/problem+json");
        (status, [(header::CONTENT_TYPE, kind)], text).into_response()
    }
}

/// The layer. Clones share the room for all bodies.
#[derive(Clone)]
pub struct WholeBody {
    limits: BodyLimits,
    room: Arc<Room>,
    refuse: Arc<dyn Fn(BodyRefusal) -> Response + Send + Sync>,
    owner: fn(&Parts) -> Option<&str>,
}

impl fmt::Debug for WholeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WholeBody").field("limits", &self.limits).field("room", &self.room).finish_non_exhaustive()
    }
}

impl WholeBody {
    #[must_use]
    pub fn new(limits: BodyLimits) -> Self {
        let room = Arc::new(Room::new(&limits));
        Self { limits, room, refuse: Arc::new(IntoResponse::into_response), owner: |_| None }
    }

    /// In the words of the API that this is used for.
    #[must_use]
    pub fn refusing_with(self, refuse: impl Fn(BodyRefusal) -> Response + Send + Sync + 'static) -> Self {
        Self { refuse: Arc::new(refuse), ..self }
    }

    /// Whose a body is; nobody's unless said.
    #[must_use]
    pub fn owned_by(self, owner: fn(&Parts) -> Option<&str>) -> Self {
        Self { owner, ..self }
    }

    /// With a larger or smaller bound of size, and the same room for all.
    #[must_use]
    pub fn with_bytes_max(mut self, bytes_max: usize) -> Self {
        self.limits.bytes_max = bytes_max;
        self
    }

    async fn take(&self, owner: Option<&str>, body: &mut Body) -> Result<(Bytes, Taken), BodyRefusal> {
        let BodyLimits { bytes_max, within, .. } = self.limits;
        let claimed = body.size_hint().lower();
        if claimed > u64::try_from(bytes_max).unwrap_or(u64::MAX) {
            return Err(BodyRefusal::TooLarge { bytes_max });
        }
        timeout(within, self.read(owner, claimed, body)).await.unwrap_or(Err(BodyRefusal::TooSlow { within }))
    }

    async fn read(&self, owner: Option<&str>, claimed: u64, body: &mut Body) -> Result<(Bytes, Taken), BodyRefusal> {
        let bytes_max = self.limits.bytes_max;
        let mut taken = self.room.clone().enter(owner, usize::try_from(claimed).unwrap_or(usize::MAX));
        let mut first = Bytes::new();
        let mut whole = BytesMut::new();
        let mut length = 0_usize;
        while let Some(frame) = body.frame().await {
            // Trailers are of no use to anyone here.
            let Ok(data) = frame.map_err(|_| BodyRefusal::Broken)?.into_data() else { continue };
            length += data.len();
            if length > bytes_max {
                return Err(BodyRefusal::TooLarge { bytes_max });
            }
            taken.grow(data.len()).map_err(|full| BodyRefusal::NoRoom {
                retry_after: ROOM_AGAIN,
                is_owners_own: full == Full::OfOwner,
            })?;
            // Most bodies come in one piece, which then need not be copied.
            if whole.is_empty() && first.is_empty() {
                first = data;
            } else {
                if whole.is_empty() {
                    whole.extend_from_slice(&first);
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok((if whole.is_empty() { first } else { whole.freeze() }, taken))
    }
}

/// Reads on for a while, so that a caller that still sends gets to read the answer.
pub(crate) async fn let_go(body: &mut Body) {
    let _ = timeout(DROPPED_WITHIN, drop_rest(body)).await;
}

async fn drop_rest(body: &mut Body) {
    if body.size_hint().lower() > DROPPED_MAX {
        return;
    }
    let mut dropped = 0;
    while let Some(Ok(frame)) = body.frame().await {
        dropped += frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
        if dropped > DROPPED_MAX {
            return;
        }
    }
}

impl<S> Layer<S> for WholeBody {
    type Service = Reading<S>;

    fn layer(&self, inner: S) -> Reading<S> {
        Reading { inner, of: self.clone() }
    }
}

/// Reads bodies for the service within.
#[derive(Clone, Debug)]
pub struct Reading<S> {
    inner: S,
    of: WholeBody,
}

impl<S> Service<Request> for Reading<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The one that was found ready is used; its clone waits for the next request.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        // What a view is sent along is nobody's to read.
        if request.body().is_end_stream() || matches!(*request.method(), Method::GET | Method::HEAD) {
            return Box::pin(inner.call(request));
        }
        let of = self.of.clone();
        Box::pin(async move {
            let (head, mut body) = request.into_parts();
            match of.take((of.owner)(&head), &mut body).await {
                Ok((bytes, _taken)) => inner.call(Request::from_parts(head, Body::from(bytes))).await,
                Err(refusal) => {
                    let waits_to_be_asked = head.headers.contains_key(header::EXPECT);
                    if matches!(refusal, BodyRefusal::TooLarge { .. }) && !waits_to_be_asked {
                        let_go(&mut body).await;
                    }
                    Ok((of.refuse)(refusal))
                }
            }
        })
    }
}
