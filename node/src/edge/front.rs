//! What every request goes through before and after its handler. Before: it gets an id, its caller is identified,
//! parameters that its call does not take are rejected, its body is read whole. After: a problem is written as the
//! response, and the request is counted.
//!
//! This is one function instead of router layers: each layer costs every request several allocations, and all layers
//! together cost more than the handlers did (docs/BENCHMARKS.md).

use crate::edge::answer::{Failure, UnwrittenProblem, finished, named};
use crate::edge::body::{BodyLimits, WholeBody};
use crate::edge::call::{BodyBytes, in_doubt, sent_away};
use crate::edge::extract::{RequestHead, cut};
use crate::edge::gate::Class;
use crate::edge::identity::Authenticator;
use crate::edge::remote::Remote;
use crate::edge::server::{Handler, Handling};
use crate::edge::unsent::{Full, Owed, Unsent, UnsentOfConnection};
use crate::edge::{Edge, document, local, rest};
use crate::observe::metrics;
use crate::observe::trace;
use api::{Code, Problem};
use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequestParts as _, Request};
use axum::http::request::Parts;
use axum::http::{Method, header};
use axum::response::{IntoResponse as _, Response};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tower::{Layer as _, Service};
use tower_http::compression::predicate::{And, DefaultPredicate, NotForContentType, Predicate as _};
use tower_http::compression::{Compression, CompressionLayer};
use tracing::Instrument as _;

/// Maximum body of an ordinary call.
const BODY_BYTES: usize = 1024 * 1024;
/// Maximum body of a batch. It becomes one entry of the log, and other callers wait while that is written and applied.
const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// Reads whose responses may be long.
const LISTS: [&str; 9] = [
    "list_items",
    "list_events",
    "list_queues",
    "list_workers",
    "carrying",
    "carrying_of",
    "activities",
    "peek",
    "line",
];
/// Calls that keep or end a lease. A throttled actor may still make them.
const KEEPS_OR_ENDS: [&str; 10] =
    ["renew", "renew_all", "extend", "release", "reserve", "withdraw", "hand_on", "complete", "fail", "cancel"];
/// Smaller bodies are not charged: their calls are charged by commands.
const UNCOUNTED: usize = 1_024;
/// How long refusals are delayed at most while the node throttles heavy callers, and how many at a time.
const HELD_FOR: Duration = Duration::from_secs(2);
const HELD_MAX: usize = 2_000;
/// Each is delayed by this many of `HELD_PARTS` more than the one before, so that any few of them are far apart.
const HELD_STEP: u32 = 61;
const HELD_PARTS: u32 = 99;
/// Room that is reserved for the response of one of [`LISTS`]: more than a usual page has.
const LIST_BYTES: usize = 4 * 1024 * 1024;
/// `retry_after_ms` of a caller that does not read its responses.
const UNSENT_AGAIN_MS: u64 = 1_000;

/// Answers all requests of callers. Clones share everything.
#[derive(Clone)]
pub struct Front(Arc<Inner>);

struct Inner {
    edge: Edge,
    routes: Router,
    /// The same routes, for callers that accept compressed responses.
    compressed: Compression<Measured, And<DefaultPredicate, NotForContentType>>,
    unsent: Unsent,
    bodies: WholeBody,
    batches: WholeBody,
    held: Semaphore,
    held_nth: AtomicU32,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Front of {:?}", self.0.edge)
    }
}

impl Front {
    #[must_use]
    pub fn new(edge: Edge) -> Self {
        let routes = rest::router(edge.clone());
        // Data that is already compressed, or is read as a stream, is not compressed.
        let worth_it = DefaultPredicate::new().and(NotForContentType::const_new("application/octet-stream"));
        let compressed = CompressionLayer::new().compress_when(worth_it).layer(Measured(routes.clone()));
        let unsent = edge.unsent.clone();
        let bodies = WholeBody::new(BodyLimits { bytes_max: BODY_BYTES, ..BodyLimits::default() });
        let batches = bodies.clone().with_bytes_max(BATCH_BYTES);
        Self(Arc::new(Inner {
            edge,
            routes,
            compressed,
            unsent,
            bodies,
            batches,
            held: Semaphore::new(HELD_MAX),
            held_nth: AtomicU32::new(0),
        }))
    }
}

impl Handler for Front {
    fn handle(&self, request: Request) -> Handling {
        let inner = self.0.clone();
        Box::pin(async move { inner.answer(request).await })
    }
}

impl Inner {
    async fn answer(&self, mut request: Request) -> Response {
        let began = Instant::now();
        let (name, trace) = named(request.headers());
        let path = OPERATIONS.at(request.uri().path()).ok().map(|found| found.value);
        let operation = path.and_then(|all| all.iter().find(|operation| operation.method == *request.method()));
        let span = trace::request_span(&trace, name.as_str(), operation.map(|operation| operation.name));
        request.extensions_mut().insert(name.clone());
        let in_flight = self.edge.metrics.request_began();
        let handled = async {
            if let Err(failure) = self.check_local(&request) {
                return failure.into_response();
            }
            match path {
                // A path outside the document: metrics, health checks, documents, or an unknown path.
                None if request.uri().path() == "/metrics" => self.routed(request).await,
                // Documents are already compressed, and the other responses are short.
                None => self.plain(request).await,
                Some(_) => self.call(operation, request).await.unwrap_or_else(Failure::into_response),
            }
        };
        let mut response = handled.instrument(span.clone()).await;
        drop(in_flight);
        let code = response.extensions().get::<UnwrittenProblem>().map(|told| told.0.code);
        if let Some(code) = code {
            span.record("outcome", code.name());
        }
        if let Some(operation) = operation {
            let outcome = code.map_or(metrics::OK, Code::name);
            self.edge.metrics.call(operation.name, outcome, began.elapsed());
        }
        if code == Some(Code::Internal) {
            span.in_scope(|| {
                tracing::error!(
                    operation = operation.map(|operation| operation.name),
                    "request failed with an internal error"
                )
            });
        }
        finished(&mut response, &name, &trace);
        if code == Some(Code::RateLimited) && operation.is_some_and(|operation| operation.class > Class::Finish) {
            let retry_after_ms = response.extensions().get::<UnwrittenProblem>().and_then(|told| told.0.retry_after_ms);
            self.hold_back(retry_after_ms.map_or(HELD_FOR, Duration::from_millis)).await;
        }
        response
    }

    /// Delays a refusal while heavy callers are throttled. A caller that retries at once on many connections would
    /// otherwise keep the node busy with refusals, and light callers would wait for their turn after them.
    async fn hold_back(&self, at_most: Duration) {
        if !self.edge.gate.is_pressed() {
            return;
        }
        // Beyond this many they are sent at once: they take memory.
        let Ok(_held) = self.held.try_acquire() else { return };
        // At different times: callers that were refused together would return together.
        let nth = self.held_nth.fetch_add(1, Ordering::Relaxed);
        let held_for = HELD_FOR / 2 + HELD_FOR / 2 * (nth.wrapping_mul(HELD_STEP) % HELD_PARTS) / HELD_PARTS;
        sleep(held_for.min(at_most)).await;
    }

    fn check_local(&self, request: &Request) -> Result<(), Failure> {
        match self.edge.authenticator {
            Authenticator::ApiKeys(_) => Ok(()),
            Authenticator::SelfReported => local::check(request.uri(), request.headers(), &self.edge.own_hosts),
        }
    }

    /// A call of a documented path. Without `operation` if the path does not have this method.
    async fn call(&self, operation: Option<&Operation>, request: Request) -> Result<Response, Failure> {
        // Before the body is read, so that an unknown caller need not send it.
        let (mut parts, mut body) = request.into_parts();
        let head = RequestHead::from_request_parts(&mut parts, &self.edge).await.inspect_err(|Failure(problem)| {
            if problem.code == Code::Unauthenticated {
                self.edge.metrics.auth_failed("unknown_caller");
                self.edge.audit.unknown_caller(parts.extensions.get::<Remote>());
            }
        })?;
        let owed = self.owed(operation, &parts, &head).await?;
        let mut room = None;
        if let Some(operation) = operation {
            operation.check(&parts, &head)?;
            self.check_share(operation, &head)?;
            let bodies = match operation.reads {
                BodyKind::Nothing => None,
                BodyKind::One => Some(&self.bodies),
                BodyKind::Batch => Some(&self.batches),
            };
            if let Some(bodies) = bodies {
                let taken = bodies.take_whole(Some(head.actor()), &parts, &mut body).await;
                let (bytes, taken) = taken.inspect_err(|refusal| {
                    if refusal.is_for_room() {
                        self.edge.metrics.shed("body_bytes");
                    }
                })?;
                if bytes.len() > UNCOUNTED {
                    self.edge.gate.has_sent(head.actor(), bytes.len());
                }
                parts.extensions.insert(BodyBytes(bytes.len()));
                body = Body::from(bytes);
                room = Some(taken);
            }
        }
        let identity = head.identity.clone();
        parts.extensions.insert(head);
        let mut response = self.routed(Request::from_parts(parts, body)).await;
        // The body is in memory while the call runs, and the response until it is sent.
        drop(room);
        if response.extensions().get::<UnwrittenProblem>().is_some_and(|told| told.0.code == Code::Forbidden) {
            self.edge.audit.forbidden(identity.actor.as_str(), operation.map(|operation| operation.name));
        }
        let measured = response.extensions().get::<AnswerBytes>().map(|bytes| bytes.0);
        let bytes = measured.or_else(|| response.body().size_hint().exact());
        owed.is(bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0));
        response.extensions_mut().insert(owed);
        Ok(response)
    }

    /// Rejects a throttled actor before its body is read.
    fn check_share(&self, operation: &Operation, head: &RequestHead) -> Result<(), Failure> {
        let checked = self.edge.gate.check_share(head.actor(), operation.class);
        checked.map_err(|shed| {
            let failure = sent_away(&self.edge, shed);
            let may_have_happened = head.repeat.is_some() && operation.method != Method::GET;
            if may_have_happened { in_doubt(failure) } else { failure }
        })
    }

    /// Takes room for the response before any work is done.
    async fn owed(&self, operation: Option<&Operation>, parts: &Parts, head: &RequestHead) -> Result<Owed, Failure> {
        let connection = parts.extensions.get::<UnsentOfConnection>();
        let is_view = parts.method == Method::GET;
        let taken = if is_view {
            self.unsent.view(head.actor(), connection, operation.map_or(0, |operation| operation.answer_bytes)).await
        } else {
            self.unsent.command(head.actor(), connection).await
        };
        taken.map_err(|full| {
            let (code, reason) = match full {
                Full::All => (Code::Overloaded, "unsent_bytes"),
                Full::Actor => (Code::RateLimited, "actor_unsent_bytes"),
                Full::Connection => (Code::RateLimited, "connection_unsent_bytes"),
            };
            self.edge.metrics.shed(reason);
            // An earlier attempt may have happened.
            let code = if head.repeat.is_some() && !is_view { Code::Unknown } else { code };
            let mut problem =
                Problem::new(code).with_detail("too many bytes of responses are unread: read them, then retry");
            problem.retry_after_ms = Some(UNSENT_AGAIN_MS);
            problem.into()
        })
    }

    async fn routed(&self, request: Request) -> Response {
        if request.headers().contains_key(header::ACCEPT_ENCODING) {
            let answered = self.compressed.clone().call(request).await;
            return answered.unwrap_or_else(|never| match never {}).map(Body::new);
        }
        self.plain(request).await
    }

    async fn plain(&self, request: Request) -> Response {
        // A router is always ready.
        self.routes.clone().call(request).await.unwrap_or_else(|never| match never {})
    }
}

/// Bytes of a response body before compression.
#[derive(Clone, Copy, Debug)]
struct AnswerBytes(u64);

/// The routes, which note the length of each response before it is compressed.
#[derive(Clone)]
struct Measured(Router);

impl Service<Request> for Measured {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // A router is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let answering = self.0.call(request);
        Box::pin(async move {
            let mut response = answering.await?;
            if let Some(bytes) = response.body().size_hint().exact() {
                response.extensions_mut().insert(AnswerBytes(bytes));
            }
            Ok(response)
        })
    }
}

/// A documented operation.
#[derive(Clone, Debug)]
struct Operation {
    method: Method,
    name: &'static str,
    takes_query: bool,
    takes_if_match: bool,
    reads: BodyKind,
    /// The class that is known before the body is read.
    class: Class,
    /// Room that is reserved for its response while it is made.
    answer_bytes: usize,
}

/// Which body is read before the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyKind {
    /// No body, or the handler reads it as a stream.
    Nothing,
    One,
    Batch,
}

impl Operation {
    /// Rejects parameters that the call does not take. They are not ignored, because the caller expects an effect.
    fn check(&self, parts: &Parts, head: &RequestHead) -> Result<(), Failure> {
        let query = parts.uri.query().filter(|_| !self.takes_query).unwrap_or_default();
        if let Some((name, _)) = form_urlencoded::parse(query.as_bytes()).next() {
            return Err(Problem::invalid(cut(&name), "this call takes no query parameters").into());
        }
        if head.if_match.is_some() && !self.takes_if_match {
            let why = "this call does not check a revision; only updates and writes under a lease do";
            return Err(Problem::invalid("If-Match", why).into());
        }
        Ok(())
    }
}

/// The operations by path. Made once, so that metric labels are a closed set of static names.
static OPERATIONS: LazyLock<matchit::Router<Vec<Operation>>> = LazyLock::new(|| {
    let document = rest::document();
    let takes = document::taking(&document);
    let ids = |part: &utoipa::openapi::OpenApi| -> BTreeSet<String> {
        document::operations(part).into_iter().map(|(_, _, id)| id).collect()
    };
    let (batches, streamed) = (ids(&rest::batches().into_openapi()), ids(&rest::streamed().into_openapi()));
    let mut paths: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
    for (method, path, id) in document::operations(&document) {
        let takes = |what: document::Takes| takes.contains(&(id.clone(), what));
        let (takes_query, takes_if_match) = (takes(document::Takes::Query), takes(document::Takes::IfMatch));
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).expect("the document names methods");
        let reads = if method == Method::GET || streamed.contains(&id) {
            // The body of a GET is not read.
            BodyKind::Nothing
        } else if batches.contains(&id) {
            BodyKind::Batch
        } else {
            BodyKind::One
        };
        let answer_bytes = if LISTS.contains(&id.as_str()) { LIST_BYTES } else { 0 };
        let class = if KEEPS_OR_ENDS.contains(&id.as_str()) { Class::Finish } else { Class::Bulk };
        let operation = Operation { class, method, takes_query, takes_if_match, reads, name: id.leak(), answer_bytes };
        paths.entry(path).or_default().push(operation);
    }
    let mut router = matchit::Router::new();
    for (path, operations) in paths {
        router.insert(path, operations).expect("the paths of the document are routes");
    }
    router
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_operations_exist_in_the_document() {
        let operations = document::operations(&rest::document());
        for name in LISTS.iter().chain(&KEEPS_OR_ENDS) {
            assert!(operations.iter().any(|(_, _, id)| id == name), "{name}");
        }
    }
}
