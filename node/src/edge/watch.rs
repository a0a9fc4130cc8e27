//! Events as a stream, from any position on: read from disk until the stream is up to date, then as they are applied.
//! A stream holds no more than one page, however slow its reader is.

use crate::edge::answer::Failure;
use crate::edge::call::{Call, failed_disk};
use crate::edge::gate::{Parked, Parking};
use crate::edge::server::Stopping;
use crate::edge::survey::{HEAVY, ReadingMeter};
use crate::followers::{Follower, Interest, Told};
use crate::identity::Authenticator;
use crate::metrics::Open;
use crate::service::TokioNode;
use api::event::Event;
use api::names::Number;
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

/// Often enough to keep what stands between alive, and to tell the reader how far it is.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A reader that takes nothing for so long, and then reads on, is told so and ended. Less than the time after which a
/// connection on which nothing is taken is closed: then nobody would be there to be told.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Events read from disk at once.
const PAGE: usize = 256;
/// When to ask again for room to read, unless it is said.
const AGAIN: Duration = Duration::from_millis(250);

/// Which events a reader wants.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub queue: Option<QueueName>,
    pub item: Option<ItemId>,
    /// Whose command it was, or whom it names, as far as the reader may see that.
    pub actor: Option<ActorId>,
}

impl Wanted {
    /// What it is woken by: no more than can be told without looking at each event.
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

/// The number of the last event of the caller's space, after all that was acknowledged before.
///
/// # Errors
/// When no leader could be asked in time.
pub async fn last_event(call: &Call) -> Result<EventNumber, Failure> {
    let seen = call.view(Default::default(), |state, _, _| Ok(state.last_event(&call.asking.space))).await?;
    Ok(seen.value)
}

/// Whether a position is one of this history.
///
/// # Errors
/// When it is ahead of everything that has happened.
pub fn check_position(after: EventNumber, last: EventNumber) -> Result<(), Failure> {
    if after > last {
        let why = format!("is ahead of the last event, {last}: it is of another cluster, or of one before a restore");
        return Err(Problem::invalid("after", why).into());
    }
    Ok(())
}

/// What stands behind a position, as its reader may see it, and how far that goes. It is charged to the gate by what is
/// read, and read apart from the threads that serve calls.
///
/// # Errors
/// When the position is no longer kept, there is no room for it now, or the disk fails.
pub async fn page(
    call: &Call,
    wanted: &Wanted,
    after: EventNumber,
    limit: usize,
) -> Result<(Vec<Event>, Option<EventNumber>), Failure> {
    let weight = u32::try_from(limit / EVENTS_PER_CALL).unwrap_or(u32::MAX).clamp(1, HEAVY);
    let (caller, name, wanted) = (call.caller.clone(), call.asking.space.clone(), wanted.clone());
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

/// Before the first event that is kept.
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

/// One reader.
struct Watch {
    call: Call,
    wanted: Wanted,
    /// Everything up to here was sent, or is not the reader's.
    position: EventNumber,
    told: Follower,
    meter: ReadingMeter,
    /// What was applied may stand on disk only.
    is_behind: bool,
    heartbeat_at: Instant,
    sent_at: Instant,
    is_over: bool,
    /// The reader does not know where it begins, and is to go on from there if it is cut off before anything happens.
    is_to_be_told: bool,
    _place: Parked,
    _open: Open,
}

/// Events from a position on, for as long as the reader stays.
///
/// # Errors
/// When too many streams are open.
pub fn stream(call: Call, wanted: Wanted, after: EventNumber, is_to_be_told: bool) -> Result<Response, Failure> {
    let place = call.park(Parking::Stream)?;
    let open = call.edge.node.metrics().stream_opened();
    // Before the first look at the disk: nothing falls between.
    let told = call.edge.node.hub().follow(wanted.interest(call.asking.space.clone()));
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
        // Proxies that gather would keep events back.
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
    /// What is sent next. None: the stream is over.
    async fn next(&mut self) -> Option<String> {
        if self.is_over {
            return None;
        }
        if std::mem::take(&mut self.is_to_be_told) {
            return Some(format!("id: {}\n\n", self.position));
        }
        // Asked for again as soon as what was sent before is on its way.
        if self.sent_at.elapsed() > self.call.edge.patience {
            return Some(self.end("slow_reader", "nothing was taken for too long: come back with the last id"));
        }
        loop {
            if self.call.stopping.as_ref().is_some_and(Stopping::has_begun) {
                return Some(self.end("stopping", "this node stops: go on with another one"));
            }
            if let Err(Failure(problem)) = self.call.check_reading() {
                match self.wait_for_room(&problem).await {
                    Some(heartbeat) => return Some(heartbeat),
                    None => continue,
                }
            }
            if self.is_behind {
                if !self.is_still_known() {
                    return Some(self.end("unauthenticated", "the token is no longer known"));
                }
                let (events, last) = match page(&self.call, &self.wanted, self.position, PAGE).await {
                    Ok(page) => page,
                    Err(Failure(problem)) if is_for_later(problem.code) => match self.wait_for_room(&problem).await {
                        Some(heartbeat) => return Some(heartbeat),
                        None => continue,
                    },
                    Err(Failure(problem)) => return Some(self.end_with(&problem)),
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
                        return Some(self.end("unauthenticated", "the token is no longer known"));
                    }
                    let heard = self.told.has_heard_all_up_to(&self.call.asking.space);
                    self.position = self.position.max(heard.unwrap_or_default());
                    // The id alone tells a reader whose filter lets little through how far it is.
                    return Some(format!(": heartbeat\nid: {}\n\n", self.position));
                }
                Ok(Err(RecvError::Closed)) => return None,
                Ok(Err(RecvError::Lagged(_)) | Ok(Told::Jump)) => self.is_behind = true,
                Ok(Ok(Told::Events(events))) => {
                    let shown = match self.take(&events) {
                        Ok(shown) => shown,
                        Err(Failure(problem)) => return Some(self.end_with(&problem)),
                    };
                    if !shown.is_empty() {
                        return Some(self.write(&shown));
                    }
                }
            }
        }
    }

    /// Of what was applied, what follows the position without a gap.
    fn take(&mut self, events: &[CoreEvent]) -> Result<Vec<Event>, Failure> {
        // What the disk has shown already is told once more.
        let fresh: Vec<CoreEvent> = events.iter().filter(|event| event.number > self.position).cloned().collect();
        self.position = fresh.last().map_or(self.position, |last| last.number);
        if fresh.is_empty() {
            return Ok(Vec::new());
        }
        self.meter.measure(|| shown(&self.call.edge.node, &self.call.caller, &self.wanted, &fresh))
    }

    /// There is no room to read old events now. Some(heartbeat): it is time for one.
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

    fn end(&mut self, reason: &str, why: &str) -> String {
        self.is_over = true;
        let data = serde_json::json!({ "reason": reason, "detail": why });
        format!("event: end\nid: {}\ndata: {data}\n\n", self.position)
    }

    fn end_with(&mut self, problem: &Problem) -> String {
        self.is_over = true;
        let mut data = serde_json::to_value(problem).unwrap_or_default();
        data["reason"] = problem.code.name().into();
        format!("event: end\ndata: {data}\n\n")
    }

    fn is_still_known(&self) -> bool {
        match (&self.call.edge.authenticator, self.call.asking.token) {
            (Authenticator::Tokens(tokens), Some(hash)) => {
                tokens.find(hash).is_some_and(|identity| *identity == *self.call.asking.identity)
            }
            (Authenticator::Tokens(_), None) => false,
            (Authenticator::SelfReported, _) => true,
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch behind {}", self.position)
    }
}
