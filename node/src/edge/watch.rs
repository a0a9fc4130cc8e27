//! Event streams from any position: events are read from disk until the stream is up to date, then sent as they are
//! applied. A stream keeps at most one page in memory, however slow its reader is.

use crate::edge::answer::Failure;
use crate::edge::call::{Call, failed_disk};
use crate::edge::gate::{Parked, Parking};
use crate::edge::identity::Authenticator;
use crate::edge::stopping::Stopping;
use crate::edge::survey::{HEAVY, ReadingMeter};
use crate::observe::metrics::Open;
use crate::peers::tokio_node::TokioNode;
use crate::replica::followers::{Delivery, Follower, Interest};
use api::event::Event;
use api::limits::HEARTBEAT;
use api::names::Number;
use api::stream::{END, End};
use api::{Code, Problem};
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use lease::caller::Caller;
use lease::event::Event as CoreEvent;
use lease::names::{ActorId, ItemId, QueueName, SpaceName};
use lease::numbers::EventNumber;
use raft_store::state::history::EventsAfter;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The stream of a reader that reads nothing for this long ends with `slow_reader`. Shorter than the time after which
/// the server closes a connection whose caller reads nothing: then the reader could not get the reason.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Events that are read from disk at once.
const PAGE: usize = 256;
/// Default pause before asking again for room to read.
const AGAIN: Duration = Duration::from_millis(250);

/// Which events a reader wants.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub queue: Option<QueueName>,
    pub item: Option<ItemId>,
    /// The actor that caused the event or that it names, as far as the reader may see that.
    pub actor: Option<ActorId>,
}

impl Wanted {
    /// The events to subscribe to, as narrow as possible without a look at each event.
    fn interest(&self, space: SpaceName) -> Interest {
        match (&self.item, &self.queue) {
            (Some(item), _) => Interest::Item(space, item.clone()),
            (None, Some(queue)) => Interest::Queue(space, queue.clone()),
            (None, None) => Interest::Space(space),
        }
    }

    fn takes(&self, event: &Event) -> bool {
        self.queue.as_ref().is_none_or(|queue| event.queue.as_ref() == Some(queue))
            && self.item.as_ref().is_none_or(|item| event.item.as_ref() == Some(item))
            && self.actor.as_ref().is_none_or(|actor| names(event, actor))
    }
}

fn names(event: &Event, actor: &ActorId) -> bool {
    let of = |who: &Option<api::worker::WorkerName>| who.as_ref().is_some_and(|who| who.actor == *actor);
    event.by.as_ref().is_some_and(|by| by.actor == *actor)
        || event.what.as_ref().is_some_and(|what| {
            of(&what.holder)
                || of(&what.worker)
                || what.actor.as_ref() == Some(actor)
                || what.was_assigned_to.as_ref() == Some(actor)
                || what.first.as_ref().is_some_and(|first| first.contains(actor))
        })
}

/// The number of the last event of the caller's space, including everything that was acknowledged before the call.
///
/// # Errors
/// When no leader confirmed the read in time.
pub async fn last_event(call: &Call) -> Result<EventNumber, Failure> {
    let seen = call.view(Default::default(), |state, _, _| Ok(state.last_event(&call.head.space))).await?;
    Ok(seen.value)
}

/// Checks that a position is in this history.
///
/// # Errors
/// When it is ahead of the last event.
pub fn check_position(after: EventNumber, last: EventNumber) -> Result<(), Failure> {
    if after > last {
        let why = format!("is ahead of the last event, {last}: it is from another cluster, or from before a restore");
        return Err(Problem::invalid("after", why).into());
    }
    Ok(())
}

/// The events after a position that the reader may see, and the position after them. The gate charges the events that
/// are read. They are read outside the threads that serve calls.
///
/// # Errors
/// When the position is no longer kept, there is no room to read now, or the disk fails.
pub async fn page(
    call: &Call,
    wanted: &Wanted,
    after: EventNumber,
    limit: usize,
) -> Result<(Vec<Event>, Option<EventNumber>), Failure> {
    let weight = u32::try_from(limit / EVENTS_PER_CALL).unwrap_or(u32::MAX).clamp(1, HEAVY);
    let (caller, name, wanted) = (call.caller.clone(), call.head.space.clone(), wanted.clone());
    let reading = move |node: &TokioNode| {
        let space = node.store().read(|state, _| state.space_no(&name)).map_err(failed_disk)?;
        let Some(space) = space else { return Ok((Vec::new(), None)) };
        match node.store().events_after(space, after, limit).map_err(failed_disk)? {
            EventsAfter::Page(events) => {
                let last = events.last().map(|event| event.number);
                Ok((shown(node, &caller, &wanted, &events)?, last))
            }
            EventsAfter::TooOld { gone } => {
                let mut problem = Problem::new(Code::PositionTooOld);
                problem.kept_after = Some(Number(gone));
                Err(problem.into())
            }
        }
    };
    call.read_apart(weight, reading).await
}

/// Events that weigh as much as an ordinary call.
const EVENTS_PER_CALL: usize = 64;

/// The position before the first event that is kept.
///
/// # Errors
/// When the disk fails.
pub async fn first_position(call: &Call) -> Result<EventNumber, Failure> {
    match page(call, &Wanted::default(), EventNumber::default(), 1).await {
        Err(Failure(problem)) if problem.code == Code::PositionTooOld => {
            Ok(problem.kept_after.map_or_else(EventNumber::default, |gone| gone.0))
        }
        Err(failure) => Err(failure),
        Ok(_) => Ok(EventNumber::default()),
    }
}

fn shown(node: &TokioNode, viewer: &Caller, wanted: &Wanted, events: &[CoreEvent]) -> Result<Vec<Event>, Failure> {
    let see = |state: &lease::State, archive: &dyn lease::Archive| {
        let view = |event| state.view_event(archive, viewer, event);
        events.iter().filter_map(view).map(Event::from).filter(|event| wanted.takes(event)).collect()
    };
    node.store().read(see).map_err(failed_disk)
}

/// One event stream and its reader.
struct Watch {
    call: Call,
    wanted: Wanted,
    /// Every event up to here was sent, or the reader does not get it.
    position: EventNumber,
    told: Follower,
    meter: ReadingMeter,
    /// Applied events may be only on disk, so read from there.
    is_behind: bool,
    heartbeat_at: Instant,
    sent_at: Instant,
    is_over: bool,
    /// The reader does not know its start position yet. It needs the position if it loses the connection before the
    /// first event.
    is_to_be_told: bool,
    _place: Parked,
    _open: Open,
}

/// Streams events after a position until the reader leaves.
///
/// # Errors
/// When too many streams are open.
pub fn stream(call: Call, wanted: Wanted, after: EventNumber, is_to_be_told: bool) -> Result<Response, Failure> {
    let place = call.park(Parking::Stream)?;
    let open = call.edge.metrics.stream_opened();
    // Subscribes before the first read from disk, so that no event is missed.
    let told = call.edge.node.hub().follow(wanted.interest(call.head.space.clone()));
    let now = Instant::now();
    let watch = Watch {
        meter: call.reading_meter(),
        call,
        wanted,
        position: after,
        told,
        is_behind: true,
        heartbeat_at: now + HEARTBEAT,
        sent_at: now,
        is_over: false,
        is_to_be_told,
        _place: place,
        _open: open,
    };
    let frames = stream::unfold(watch, |mut watch| async move {
        let text = watch.next().await?;
        watch.sent_at = Instant::now();
        Some((Ok::<_, Infallible>(Bytes::from(text)), watch))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // A proxy that buffers would delay events.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(frames)).into_response())
}

fn is_for_later(code: Code) -> bool {
    matches!(code, Code::RateLimited | Code::Overloaded | Code::Unavailable)
}

async fn begun(stopping: Option<Stopping>) {
    match stopping {
        Some(stopping) => stopping.begun().await,
        None => std::future::pending().await,
    }
}

impl Watch {
    /// The next text to send. None: the stream is over.
    async fn next(&mut self) -> Option<String> {
        if self.is_over {
            return None;
        }
        if std::mem::take(&mut self.is_to_be_told) {
            return Some(format!("id: {}\n\n", self.position));
        }
        // This is called again as soon as the previous text is on its way.
        if self.sent_at.elapsed() > self.call.edge.patience {
            let detail = "the reader read nothing for too long: reconnect with the last id".into();
            return Some(self.end(&End::SlowReader { detail }));
        }
        loop {
            if self.call.stopping.as_ref().is_some_and(Stopping::has_begun) {
                let detail = "this node is stopping: reconnect to another node".into();
                return Some(self.end(&End::Stopping { detail }));
            }
            if let Err(Failure(problem)) = self.call.check_reading() {
                match self.wait_for_room(&problem).await {
                    Some(heartbeat) => return Some(heartbeat),
                    None => continue,
                }
            }
            if self.is_behind {
                if !self.is_still_known() {
                    return Some(self.unauthenticated());
                }
                let (events, last) = match page(&self.call, &self.wanted, self.position, PAGE).await {
                    Ok(page) => page,
                    Err(Failure(problem)) if is_for_later(problem.code) => match self.wait_for_room(&problem).await {
                        Some(heartbeat) => return Some(heartbeat),
                        None => continue,
                    },
                    Err(Failure(problem)) => return Some(self.end(&problem.into())),
                };
                let Some(last) = last else {
                    self.is_behind = false;
                    continue;
                };
                self.position = last;
                if !events.is_empty() {
                    return Some(self.write(&events));
                }
                tokio::task::yield_now().await;
                continue;
            }
            let stopping = self.call.stopping.clone();
            let heard = tokio::select! {
                heard = timeout_at(self.heartbeat_at, self.told.next()) => heard,
                () = begun(stopping) => continue,
            };
            match heard {
                Err(_) => {
                    self.heartbeat_at = Instant::now() + HEARTBEAT;
                    if !self.is_still_known() {
                        return Some(self.unauthenticated());
                    }
                    let heard = self.told.has_heard_all_up_to(&self.call.head.space);
                    self.position = self.position.max(heard.unwrap_or_default());
                    // The id tells a reader whose filter matches few events its current position.
                    return Some(format!(": heartbeat\nid: {}\n\n", self.position));
                }
                Ok(Err(RecvError::Closed)) => return None,
                Ok(Err(RecvError::Lagged(_)) | Ok(Delivery::Jump)) => self.is_behind = true,
                Ok(Ok(Delivery::Events(events))) => {
                    let shown = match self.take(&events) {
                        Ok(shown) => shown,
                        Err(Failure(problem)) => return Some(self.end(&problem.into())),
                    };
                    if !shown.is_empty() {
                        return Some(self.write(&shown));
                    }
                }
            }
        }
    }

    /// The applied events after the position that the reader may see.
    fn take(&mut self, events: &[CoreEvent]) -> Result<Vec<Event>, Failure> {
        // Events that were already read from disk arrive here again.
        let fresh: Vec<CoreEvent> = events.iter().filter(|event| event.number > self.position).cloned().collect();
        self.position = fresh.last().map_or(self.position, |last| last.number);
        if fresh.is_empty() {
            return Ok(Vec::new());
        }
        self.meter.measure(|| shown(&self.call.edge.node, &self.call.caller, &self.wanted, &fresh))
    }

    /// Waits, because there is no room to read old events now. Returns a heartbeat when it is time for one.
    async fn wait_for_room(&mut self, problem: &Problem) -> Option<String> {
        let later = Instant::now() + problem.retry_after_ms.map_or(AGAIN, Duration::from_millis);
        tokio::select! {
            () = sleep_until(later.min(self.heartbeat_at)) => {}
            () = begun(self.call.stopping.clone()) => {}
        }
        (Instant::now() >= self.heartbeat_at).then(|| {
            self.heartbeat_at = Instant::now() + HEARTBEAT;
            format!(": heartbeat\nid: {}\n\n", self.position)
        })
    }

    fn write(&mut self, events: &[Event]) -> String {
        self.heartbeat_at = Instant::now() + HEARTBEAT;
        let mut text = String::new();
        for event in events {
            let data = serde_json::to_string(event).unwrap_or_default();
            text += &format!("id: {}\nevent: {}\ndata: {data}\n\n", event.number, event.kind);
        }
        if events.last().is_some_and(|event| event.number.0 != self.position) {
            text += &format!("id: {}\n\n", self.position);
        }
        text
    }

    /// The last text of the stream.
    fn end(&mut self, why: &End) -> String {
        self.is_over = true;
        let data = serde_json::to_string(why).unwrap_or_default();
        let id = match why {
            End::SlowReader { .. } | End::Stopping { .. } | End::Unauthenticated { .. } => {
                format!("id: {}\n", self.position)
            }
            // After a failure the events up to the position may not have been sent.
            End::PositionTooOld(_) | End::Internal(_) => String::new(),
        };
        format!("event: {END}\n{id}data: {data}\n\n")
    }

    fn unauthenticated(&mut self) -> String {
        self.end(&End::Unauthenticated { detail: "the API key is no longer valid".into() })
    }

    fn is_still_known(&self) -> bool {
        match (&self.call.edge.authenticator, self.call.head.api_key) {
            (Authenticator::ApiKeys(api_keys), Some(hash)) => {
                api_keys.find(hash).is_some_and(|identity| *identity == *self.call.head.identity)
            }
            (Authenticator::ApiKeys(_), None) => false,
            (Authenticator::SelfReported, _) => true,
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch after {}", self.position)
    }
}
