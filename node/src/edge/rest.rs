//! The REST API under `/v1`: each call once, with its OpenAPI description next to it.

#![allow(unused_qualifications, reason = "utoipa generates qualified names for parameters")]

pub mod claims;
pub mod cluster;
pub mod events;
pub mod holds;
pub mod items;
pub mod node;
mod past_holder;
pub mod queues;
pub mod spaces;
pub mod workers;
pub mod writes;

use crate::edge::answer::Failure;
use crate::edge::{Edge, document};
use api::{Code, Problem};
use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Every path.
pub(crate) fn router(edge: Edge) -> Router {
    Router::from(single())
        .merge(Router::from(batches()))
        .merge(Router::from(streamed()))
        .merge(node::router(&document()))
        .fallback(|| async { Failure::from(Problem::new(Code::NotFound).with_detail("no such path: see /docs")) })
        .method_not_allowed_fallback(|| async { Failure::from(Code::MethodNotAllowed) })
        .with_state(edge)
}

/// The OpenAPI document of every path.
#[must_use]
pub fn document() -> OpenApi {
    document::complete(OpenApiRouter::new().merge(single()).merge(batches()).merge(streamed()).into_openapi())
}

/// Calls whose bodies may be larger than those of other calls.
pub(crate) fn batches() -> OpenApiRouter<Edge> {
    OpenApiRouter::new().routes(routes!(items::create_many)).routes(routes!(claims::claim_many))
}

/// Calls whose bodies are read as a stream.
pub(crate) fn streamed() -> OpenApiRouter<Edge> {
    OpenApiRouter::new().routes(routes!(cluster::restore))
}

fn single() -> OpenApiRouter<Edge> {
    OpenApiRouter::new()
        .routes(routes!(items::list, items::create))
        .routes(routes!(items::show, items::update))
        .routes(routes!(items::line))
        .routes(routes!(items::claim_summary))
        .routes(routes!(items::activities))
        .routes(routes!(items::held_at))
        .routes(routes!(items::carrying))
        .routes(routes!(items::carrying_of))
        .routes(routes!(claims::claim))
        .routes(routes!(claims::next))
        .routes(routes!(claims::peek))
        .routes(routes!(holds::renew))
        .routes(routes!(holds::renew_all))
        .routes(routes!(holds::extend))
        .routes(routes!(holds::release))
        .routes(routes!(holds::reserve))
        .routes(routes!(holds::withdraw))
        .routes(routes!(holds::reorder))
        .routes(routes!(holds::revoke))
        .routes(routes!(holds::assign))
        .routes(routes!(holds::unassign))
        .routes(routes!(writes::activity))
        .routes(routes!(writes::await_input))
        .routes(routes!(writes::resume))
        .routes(routes!(writes::hand_on))
        .routes(routes!(writes::complete))
        .routes(routes!(writes::fail))
        .routes(routes!(writes::cancel))
        .routes(routes!(writes::reopen))
        .routes(routes!(writes::retry))
        .routes(routes!(queues::list))
        .routes(routes!(queues::show))
        .routes(routes!(queues::set_policy))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::unpause))
        .routes(routes!(queues::drain))
        .routes(routes!(spaces::show))
        .routes(routes!(spaces::set_policy))
        .routes(routes!(workers::list))
        .routes(routes!(workers::register))
        .routes(routes!(workers::drain))
        .routes(routes!(workers::remove))
        .routes(routes!(events::list))
        .routes(routes!(events::stream))
        .routes(routes!(cluster::status))
        .routes(routes!(cluster::add))
        .routes(routes!(cluster::join_secret))
        .routes(routes!(cluster::promote))
        .routes(routes!(cluster::remove))
        .routes(routes!(cluster::transfer))
        .routes(routes!(cluster::snapshot))
        .routes(routes!(cluster::backup))
        .routes(routes!(cluster::activate))
        .routes(routes!(cluster::raise_rules))
        .routes(routes!(cluster::drain))
        .routes(routes!(cluster::undrain))
}
