//! What a node says of itself: whether it lives, whether it serves, what it counted, and the document of its calls.

use crate::edge::answer::Failure;
use crate::edge::extract::Asking;
use crate::edge::server::Peer;
use crate::edge::{Edge, document};
use crate::metrics;
use api::{Code, Problem};
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
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
async fn healthz(State(edge): State<Edge>) -> Response {
    told(edge.admin.is_healthy())
}

/// Whether callers should be sent here: a node that cannot reach a quorum is not ready.
async fn readyz(State(edge): State<Edge>) -> Response {
    told(edge.admin.is_ready().await)
}

fn told(fine: Result<(), String>) -> Response {
    match fine {
        Ok(()) => Json(json!({ "ok": true })).into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "ok": false, "why": why }))).into_response(),
    }
}

/// For a scraper with the token of an operator or an admin: queue names are tenants' own. On this machine it needs none
/// where the operator says so; nobody else can know whether a proxy stands there.
async fn scrape(State(edge): State<Edge>, request: Request) -> Result<Response, Failure> {
    let is_open = edge.metrics_open && request.extensions().get::<Peer>().is_some_and(Peer::is_loopback);
    if !is_open {
        let (mut parts, _) = request.into_parts();
        let asking = Asking::from_request_parts(&mut parts, &edge).await?;
        if !asking.identity.runs_something() {
            let mut problem = Problem::new(Code::Forbidden);
            problem.needs = Some(api::words::Role::Operator);
            return Err(problem.into());
        }
    }
    let rendering = tokio::task::spawn_blocking(move || {
        edge.node.metrics().room(edge.gate.status());
        edge.node.metrics().render(&edge.node, &edge.log)
    });
    let text = rendering.await.map_err(|_| Failure::from(Code::Internal))?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
