//! What a node says of itself: whether it lives, whether it serves, what it counted, and the document of its calls.

use crate::admin::Unfit;
use crate::edge::answer::Failure;
use crate::edge::extract::{Asking, identify};
use crate::edge::server::Peer;
use crate::edge::{Edge, document};
use crate::identity::{ClusterRight, check_cluster_right};
use crate::metrics;
use api::Code;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use std::sync::PoisonError;
use utoipa::openapi::OpenApi;

/// Paths outside `/v1`. All but the metrics need no credential.
pub(super) fn router(document: &OpenApi) -> Router<Edge> {
    let json = document.to_json().unwrap_or_default();
    let page = document::page(document);
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(scrape))
        .route("/openapi.json", get(move || async move { ([(header::CONTENT_TYPE, "application/json")], json) }))
        .route("/docs", get(move || async move { Html(page) }))
}

/// Whether the process can go on as it is. A node that fails this is to be started again.
async fn healthz(State(edge): State<Edge>, request: Request) -> Response {
    told(&edge, &request.into_parts().0, edge.admin.is_healthy())
}

/// Whether callers should be sent here: a node that cannot reach a quorum is not ready.
async fn readyz(State(edge): State<Edge>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    told(&edge, &head, edge.admin.is_ready().await)
}

/// Anyone may ask, so only callers with a right for the cluster are told more than the kind of failure: details name
/// paths and addresses.
fn told(edge: &Edge, head: &Parts, fine: Result<(), Unfit>) -> Response {
    let Err(unfit) = fine else { return Json(json!({ "ok": true })).into_response() };
    edge.unfit.lock().unwrap_or_else(PoisonError::into_inner).say(|times| tracing::warn!(times, "not ready: {unfit}"));
    let mut said = json!({ "ok": false, "why": unfit.kind });
    let asks = identify(&edge.authenticator, &head.headers, &head.extensions);
    if let Some(detail) = unfit.detail.filter(|_| asks.is_ok_and(|(identity, _)| identity.serves_cluster())) {
        said["detail"] = detail.into();
    }
    (StatusCode::SERVICE_UNAVAILABLE, Json(said)).into_response()
}

/// For a scraper that was given the right `metrics` for the cluster: the numbers name the queues of every space. On this
/// machine it needs none where the operator says so; nobody else can know whether a proxy stands there.
async fn scrape(State(edge): State<Edge>, request: Request) -> Result<Response, Failure> {
    let is_open = edge.metrics_open && request.extensions().get::<Peer>().is_some_and(Peer::is_loopback);
    if !is_open {
        let (mut parts, _) = request.into_parts();
        let asking = Asking::from_request_parts(&mut parts, &edge).await?;
        check_cluster_right(&asking.identity, ClusterRight::Metrics)?;
    }
    let rendering = tokio::task::spawn_blocking(move || {
        edge.node.metrics().room(edge.gate.status());
        edge.node.metrics().render(&edge.node, &edge.log)
    });
    let text = rendering.await.map_err(|_| Failure::from(Code::Internal))?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
