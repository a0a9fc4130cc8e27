//! The REST surface, under `/v1`: each call once, with its document beside it.

#![allow(unused_qualifications, reason = "what utoipa writes for parameters qualifies them")]

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

use crate::edge::answer::{Failure, finish};
use crate::edge::body::{BodyLimits, BodyRefusal, WholeBody};
use crate::edge::extract::{Asking, who};
use crate::edge::{Edge, document};
use api::{Code, Problem};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What one ordinary call may send.
const BODY_BYTES: usize = 1024 * 1024;
/// What a batch may send; the node takes no more at once anyway.
const BATCH_BYTES: usize = crate::propose::SUBMISSION_BYTES_MAX;

/// Every path.
pub fn router(edge: Edge) -> Router {
    let whole_body = WholeBody::new(BodyLimits { bytes_max: BODY_BYTES, ..BodyLimits::default() });
    let metrics = edge.node.metrics().clone();
    let whole_body = whole_body.owned_by(|head| head.extensions.get::<Asking>().map(Asking::actor));
    let whole_body = whole_body.refusing_with(move |refusal| {
        if matches!(refusal, BodyRefusal::NoRoom { .. }) {
            metrics.shed("body_bytes");
        }
        not_taken(refusal).into_response()
    });
    let calls = Router::from(single())
        .layer(whole_body.clone())
        .merge(Router::from(batches()).layer(whole_body.with_bytes_max(BATCH_BYTES)))
        .merge(Router::from(streamed()))
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(edge.clone(), who));
    // What is compressed already, or is read as it comes, stays as it is.
    let worth_it = DefaultPredicate::new().and(NotForContentType::const_new("application/octet-stream"));
    calls
        .merge(node::router(&document()))
        .fallback(|| async { Failure::from(Problem::new(Code::NotFound).with_detail("there is no such path")) })
        .method_not_allowed_fallback(|| async { Failure::from(Code::MethodNotAllowed) })
        .layer(CompressionLayer::new().compress_when(worth_it))
        .layer(from_fn_with_state(edge.clone(), finish))
        .with_state(edge)
}

/// The document that describes them.
#[must_use]
pub fn document() -> OpenApi {
    document::complete(OpenApiRouter::new().merge(single()).merge(batches()).merge(streamed()).into_openapi())
}

fn not_taken(refusal: BodyRefusal) -> Failure {
    match refusal {
        BodyRefusal::TooLarge { bytes_max } => {
            Problem::new(Code::TooLarge).with_detail(format!("a body has at most {bytes_max} bytes")).into()
        }
        BodyRefusal::TooSlow { within } => {
            let why = format!("a body has to arrive within {} s", within.as_secs());
            Problem::new(Code::TooSlow).with_detail(why).into()
        }
        BodyRefusal::NoRoom { retry_after, is_owners_own } => {
            let code = if is_owners_own { Code::RateLimited } else { Code::Overloaded };
            let mut problem = Problem::new(code).with_detail("too many large bodies at a time");
            problem.retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
            problem.into()
        }
        BodyRefusal::Broken => Problem::invalid("body", "did not arrive whole").into(),
    }
}

fn batches() -> OpenApiRouter<Edge> {
    OpenApiRouter::new().routes(routes!(items::create_many)).routes(routes!(claims::claim_many))
}

/// What is not read whole.
fn streamed() -> OpenApiRouter<Edge> {
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
