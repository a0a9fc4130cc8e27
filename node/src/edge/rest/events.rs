//! Events: as pages and as a stream.

use crate::edge::answer::{Failure, Reply};
use crate::edge::call::Call;
use crate::edge::extract::Query;
use crate::edge::rest::items::limit;
use crate::edge::watch::{self, Wanted};
use api::Problem;
use api::event::EventPage;
use api::names::Number;
use axum::Json;
use axum::http::HeaderMap;
use axum::response::Response;
use lease::names::{ActorId, ItemId, QueueName};
use lease::numbers::EventNumber;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only events after this position. [default: from the first event that is kept]
    #[param(value_type = Option<Number>)]
    after: Option<Number>,
    /// Only events of this queue.
    #[param(value_type = Option<api::names::QueueName>)]
    queue: Option<QueueName>,
    /// Only events of this item.
    #[param(value_type = Option<api::names::ItemId>)]
    item: Option<ItemId>,
    /// Only events that this actor caused or that name it, as far as the caller may see that.
    #[param(value_type = Option<api::names::ActorId>)]
    actor: Option<ActorId>,
    /// Number of events to examine. [default: 100]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

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

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct StreamQuery {
    /// Only events after this position. The header Last-Event-ID overrides it. [default: from now on]
    #[param(value_type = Option<Number>)]
    after: Option<Number>,
    /// Only events of this queue.
    #[param(value_type = Option<api::names::QueueName>)]
    queue: Option<QueueName>,
    /// Only events of this item.
    #[param(value_type = Option<api::names::ItemId>)]
    item: Option<ItemId>,
    /// Only events that this actor caused or that name it, as far as the caller may see that.
    #[param(value_type = Option<api::names::ActorId>)]
    actor: Option<ActorId>,
}

/// Follow events
///
/// Server-sent events after the position, without gaps. Any other node can continue from the same position. A heartbeat
/// every 15 s carries the current position. The stream ends with an event `end` that gives the reason:
/// `position_too_old`, `slow_reader`, `stopping` or `unauthenticated`.
#[utoipa::path(get, path = "/v1/events/stream", operation_id = "follow_events", tag = "events",
    params(StreamQuery, ("Last-Event-ID" = Option<Number>, Header, description = "The position to continue after")),
    responses((status = 200, content_type = "text/event-stream", body = String, description = "The stream of events")))]
pub async fn stream(call: Call, headers: HeaderMap, Query(query): Query<StreamQuery>) -> Result<Response, Failure> {
    call.check_sees_space()?;
    let resumed = match headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default()) {
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
