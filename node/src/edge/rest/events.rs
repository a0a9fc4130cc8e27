//! Events: as pages and as a stream.

use crate::edge::answer::{Failure, Reply};
use crate::edge::call::Call;
use crate::edge::extract::Query;
use crate::edge::rest::items::limit;
use crate::edge::watch::{self, Wanted};
use api::Problem;
use api::event::EventPage;
use api::headers::LAST_EVENT_ID;
use api::names::Number;
use api::query::{EventsQuery, StreamQuery};
use axum::Json;
use axum::http::HeaderMap;
use axum::response::Response;
use lease::numbers::EventNumber;

/// List events
///
/// Oldest first. A page may have fewer events than were examined, even none, and still have a `next_after` to continue
/// from.
#[utoipa::path(get, path = "/v1/events", operation_id = "list_events", tag = "events",
    params(EventsQuery), responses((status = 200, body = EventPage, description = "A page of events")))]
pub async fn list(call: Call, Query(query): Query<EventsQuery>) -> Reply<EventPage> {
    call.check_sees_space()?;
    let limit = limit(query.limit)?;
    let last = watch::last_event(&call).await?;
    let after = match query.after {
        Some(Number(after)) => {
            watch::check_position(after, last)?;
            after
        }
        None => watch::first_position(&call).await?,
    };
    let wanted = Wanted { queue: query.queue, item: query.item, actor: query.actor };
    let (events, seen) = watch::page(&call, &wanted, after, limit).await?;
    Ok(Json(EventPage { events, next_after: seen.map(Number) }))
}

/// Follow events
///
/// Server-sent events after the position, without gaps. Any other node can continue from the same position. A heartbeat
/// every 15 s carries the current position. The stream ends with an event `end`, whose data is `End` with the reason:
/// `position_too_old`, `slow_reader`, `stopping`, `unauthenticated` or `internal`.
#[utoipa::path(get, path = "/v1/events/stream", operation_id = "follow_events", tag = "events",
    params(StreamQuery, ("Last-Event-ID" = Option<Number>, Header, description = "The position to continue after")),
    responses((status = 200, content_type = "text/event-stream", body = String, description = "The stream of events")))]
pub async fn stream(call: Call, headers: HeaderMap, Query(query): Query<StreamQuery>) -> Result<Response, Failure> {
    call.check_sees_space()?;
    let resumed = match headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default()) {
        None | Some("") => None,
        Some(id) => Some(id.parse::<Number>().map_err(|why| Problem::invalid("Last-Event-ID", why))?),
    };
    let last = watch::last_event(&call).await?;
    let said = resumed.or(query.after);
    let after: EventNumber = match said {
        Some(Number(after)) => {
            watch::check_position(after, last)?;
            after
        }
        None => last,
    };
    let wanted = Wanted { queue: query.queue, item: query.item, actor: query.actor };
    // Rejects a position that is no longer kept with a problem, instead of opening a stream that ends at once.
    watch::page(&call, &wanted, after, 1).await?;
    watch::stream(call, wanted, after, said.is_none())
}
