//! The REST surface, under `/v1`: each call once, with its document beside it.

#![allow(unused_qualifications, reason = "what utoipa writes for parameters qualifies them")]

pub mod claims;
pub mod events;
pub mod holds;
pub mod items;
pub mod node;
pub mod queues;
pub mod spaces;
pub mod workers;
pub mod writes;

use crate::edge::answer::{Failure, finish};
use crate::edge::{Edge, document};
use api::Code;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use tower_http::compression::CompressionLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What one ordinary call may send.
const BODY_BYTES: usize = 1024 * 1024;
/// What a batch may send; the node takes no more at once anyway.
const BATCH_BYTES: usize = crate::propose::SUBMISSION_BYTES_MAX;

/// Every path, and the document that describes them.
#[must_use]
pub fn router(edge: Edge) -> (Router, OpenApi) {
    let (router, document) = calls().split_for_parts();
    let document = document::complete(document);
    let router = router
        .merge(node::router(&document))
        .fallback(|| async { Failure::from(api::Problem::new(Code::NotFound).with_detail("there is no such path")) })
        .method_not_allowed_fallback(|| async { Failure::from(Code::MethodNotAllowed) })
        .layer(CompressionLayer::new())
        .layer(from_fn(finish))
        .with_state(edge);
    (router, document)
}

fn calls() -> OpenApiRouter<Edge> {
    let batches = OpenApiRouter::new()
        .routes(routes!(items::create_many))
        .routes(routes!(claims::claim_many))
        .layer(DefaultBodyLimit::max(BATCH_BYTES));
    let single = OpenApiRouter::new()
        .routes(routes!(items::list, items::create))
        .routes(routes!(items::show, items::update))
        .routes(routes!(items::line))
        .routes(routes!(items::claim_summary))
        .routes(routes!(items::activities))
        .routes(routes!(items::held_at))
        .routes(routes!(items::carrying))
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
        .layer(DefaultBodyLimit::max(BODY_BYTES));
    OpenApiRouter::new().merge(single).merge(batches)
}
