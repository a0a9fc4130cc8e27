//! One connection: its handshake, its requests, its end.

use super::pulse::{InFlight, Overdue, Pulse};
use super::socket::{Socket, Stream};
use super::{Handler, LIVENESS, Server, ServerLimits};
use crate::edge::remote::Remote;
use crate::edge::stopping::Stopping;
use crate::edge::unsent::{Owed, UnsentOfConnection};
use crate::net::slots::{ConnectionSlot, SlotHandle};
use crate::net::socket::{self, Liveness};
use crate::observe::metrics::Metrics;
use api::headers::ACTOR;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Version};
use axum::response::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(super) type Http = auto::Builder<Tasks>;

/// Maximum number of header fields. hyper has the same limit for HTTP/1 and none for HTTP/2.
const HEADERS_MAX: usize = 100;
/// An HTTP/2 caller that disappeared is noticed within the sum of both.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_WITHIN: Duration = Duration::from_secs(20);
/// Unread bytes in HTTP/2, per request and per connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Unsent bytes in HTTP/2, per request.
const SEND_BYTES_MAX: usize = 32 * 1024;
/// Streams that a caller may reset before the server has looked at them. Above it the connection ends.
const RESETS_MAX: usize = 20;
/// Streams that the server may reset because of the caller's errors. Above it the connection ends.
const OWN_RESETS_MAX: usize = 128;

/// Concurrent requests on a connection that has shown no credential.
const UNKNOWN_STREAMS_MAX: usize = 32;

/// Runs each HTTP/2 stream as a task that the server waits for.
#[derive(Clone, Debug)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    cut_off: CancellationToken,
}

impl Tasks {
    pub(super) fn new(cut_off: CancellationToken) -> Self {
        Self { tracker: TaskTracker::new(), cut_off }
    }

    /// Waits for all tasks. Call it when no connection is left that could start another.
    pub(super) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        let cut_off = self.cut_off.clone();
        self.tracker.spawn(async move {
            cut_off.run_until_cancelled(future).await;
        });
    }
}

pub(super) fn http(limits: &ServerLimits, tasks: Tasks) -> Http {
    let head_bytes_max = limits.head_bytes_max.max(8 * 1024);
    let mut http = auto::Builder::new(tasks);
    http.http1()
        .timer(TokioTimer::new())
        // The pulse limits this instead.
        .header_read_timeout(None)
        .max_buf_size(usize::try_from(head_bytes_max).unwrap_or(usize::MAX));
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(head_bytes_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(OWN_RESETS_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_WITHIN);
    http
}

impl Server {
    pub(super) async fn connection(&self, stream: TcpStream, address: SocketAddr, slot: &ConnectionSlot) {
        let _open = self.metrics.connection_opened();
        let stream = tokio::select! {
            stream = timeout(self.limits.handshake_within, self.greet(stream)) => stream,
            () = self.stopping.begun() => return,
            () = self.cut_off.cancelled() => return,
            () = slot.evicted() => return self.gave_way(address),
        };
        let stream = match stream {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return self.not_let_in(address, &error.to_string()),
            Err(_) => return self.not_let_in(address, "the handshake took too long"),
        };
        let peer = Remote { address, is_tls: self.tls.is_some() };
        tokio::select! {
            () = self.serve(stream, peer, slot) => {}
            () = self.cut_off.cancelled() => {}
            () = slot.evicted() => self.gave_way(address),
        }
    }

    fn gave_way(&self, address: SocketAddr) {
        self.metrics.shed("silent_connections");
        tracing::debug!("closed the connection of {address} for a new one: it had shown no credential");
    }

    fn not_let_in(&self, address: SocketAddr, why: &str) {
        if self.tls.is_some() {
            self.metrics.tls_failed();
        }
        tracing::debug!("rejected a connection from {address}: {why}");
    }

    async fn greet(&self, stream: TcpStream) -> io::Result<Stream> {
        socket::tune(&stream, Liveness { taken_within: self.limits.taken_within, ..LIVENESS })?;
        match &self.tls {
            None => Ok(Stream::Plain(stream)),
            Some(tls) => Ok(Stream::Tls(Box::new(tls.acceptor().accept(stream).await?))),
        }
    }

    async fn serve(&self, stream: Stream, peer: Remote, slot: &ConnectionSlot) {
        let pulse = Arc::new(Pulse::new(&self.limits, Instant::now()));
        let socket = Socket::new(stream, pulse.clone());
        let requests = RequestService {
            handler: self.handler.clone(),
            peer,
            slot_handle: slot.handle(),
            unsent: UnsentOfConnection::default(),
            metrics: self.metrics.clone(),
            stopping: self.stopping.clone(),
            pulse: pulse.clone(),
        };
        let service = service_fn(move |request: Request<Incoming>| requests.clone().ask(request));
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(socket), service));
        let mut stopping = pin!(self.stopping.begun());
        let mut look = pin!(sleep_until(pulse.deadline().map_or_else(Instant::now, |(at, _)| at)));
        let mut is_told = false;

        let ended = poll_fn(|cx| {
            if !is_told && stopping.as_mut().poll(cx).is_ready() {
                is_told = true;
                pulse.told();
                connection.as_mut().graceful_shutdown();
            }
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(Ok(ended));
            }
            // A later deadline is noticed when the timer fires; only an earlier one must reset the timer.
            if let Some((at, _)) = pulse.deadline()
                && at < look.deadline()
            {
                look.as_mut().reset(at);
            }
            while look.as_mut().poll(cx).is_ready() {
                let now = Instant::now();
                match pulse.deadline() {
                    None => look.as_mut().reset(now + pulse.rest()),
                    Some((at, _)) if at > now => look.as_mut().reset(at),
                    Some((_, Overdue::Idle)) => {
                        is_told = true;
                        pulse.told();
                        connection.as_mut().graceful_shutdown();
                        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                            return Poll::Ready(Ok(ended));
                        }
                    }
                    Some((_, Overdue::Stuck)) => return Poll::Ready(Err(())),
                }
            }
            Poll::Pending
        });
        match ended.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("the connection of {} ended: {error}", peer.address),
            Err(()) => tracing::debug!("closed the connection of {}: it was stuck for too long", peer.address),
        }
    }
}

/// The caller of one connection.
#[derive(Clone)]
struct RequestService {
    handler: Arc<dyn Handler>,
    peer: Remote,
    slot_handle: SlotHandle,
    unsent: UnsentOfConnection,
    metrics: Metrics,
    stopping: Stopping,
    pulse: Arc<Pulse>,
}

impl RequestService {
    async fn ask(self, request: Request<Incoming>) -> Result<Response<TrackedBody>, Infallible> {
        let mut in_flight = self.pulse.asked(request.version() == Version::HTTP_2);
        let mut response = if request.headers().len() > HEADERS_MAX {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            response
        } else if self.is_crowded(request.headers()) {
            self.metrics.shed("unknown_streams");
            crowded()
        } else {
            let mut request = request.map(Body::new);
            let extensions = request.extensions_mut();
            extensions.insert(self.peer);
            extensions.insert(ConnectInfo(self.peer.address));
            extensions.insert(self.stopping);
            extensions.insert(self.slot_handle);
            extensions.insert(self.unsent);
            self.handler.handle(request).await
        };
        in_flight.is_there();
        let owed = response.extensions_mut().remove::<Owed>();
        Ok(response.map(|body| TrackedBody { body, in_flight: Some(in_flight), owed }))
    }

    /// Whether a request without a credential is one too many on a connection that has shown none.
    fn is_crowded(&self, headers: &HeaderMap) -> bool {
        let shows_none = !headers.contains_key(AUTHORIZATION) && !headers.contains_key(ACTOR);
        shows_none && self.pulse.in_flight() > UNKNOWN_STREAMS_MAX && !self.slot_handle.has_shown_credential()
    }
}

/// The response for one request too many on a connection that has shown no credential.
fn crowded() -> Response {
    const WHY: &[u8] =
        b"{\"type\":\"/docs#overloaded\",\"title\":\"Too many concurrent requests without a credential\",\
        \"status\":503,\"code\":\"overloaded\",\"may_retry\":true,\"took_effect\":\"no\",\"retry_after_ms\":1000}";
    let mut response = Response::new(Body::from(Bytes::from_static(WHY)));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A response body. The request is in flight until all of it has been handed to hyper.
struct TrackedBody {
    body: Body,
    in_flight: Option<InFlight>,
    owed: Option<Owed>,
}

/// A piece of a response, and its room until it is sent.
struct Piece {
    bytes: Bytes,
    _owed: Owed,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // hyper polls for more only when it can send it.
        let mut frame = Pin::new(&mut self.body).poll_frame(cx);
        if let (Poll::Ready(Some(Ok(said))), Some(owed)) = (&mut frame, &self.owed)
            && let Some(data) = said.data_mut()
        {
            let bytes = std::mem::take(data);
            *data = Bytes::from_owner(Piece { bytes, _owed: owed.clone() });
        }
        match (&frame, &mut self.in_flight) {
            (Poll::Ready(None), in_flight) => *in_flight = None,
            (Poll::Ready(Some(_)), Some(in_flight)) => in_flight.is_there(),
            (Poll::Pending, Some(in_flight)) => in_flight.is_through(),
            (Poll::Ready(Some(_)) | Poll::Pending, None) => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
