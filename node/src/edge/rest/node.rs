//! What a node reports about itself: liveness, readiness, metrics, and the document of its calls.

use crate::admin::Unfit;
use crate::edge::answer::Failure;
use crate::edge::extract::{RequestHead, identify};
use crate::edge::identity::{ClusterRight, check_cluster_right};
use crate::edge::remote::Remote;
use crate::edge::{Edge, document};
use crate::observe::scrape;
use api::Code;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use std::io::Write as _;
use std::sync::PoisonError;
use utoipa::openapi::OpenApi;

/// Paths outside `/v1`. All but the metrics need no credential.
pub(super) fn router(document: &OpenApi) -> Router<Edge> {
    let json = Document::new("application/json", document.to_json().unwrap_or_default());
    let page = Document::new("text/html; charset=utf-8", document::page(document));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(move |headers: HeaderMap| async move { json.answer(&headers) }))
        .route("/docs", get(move |headers: HeaderMap| async move { page.answer(&headers) }))
}

/// A document that anyone may read. It is made once, plain and compressed, so that responses share its memory.
#[derive(Clone)]
struct Document {
    kind: &'static str,
    plain: Bytes,
    gzip: Bytes,
}

impl Document {
    fn new(kind: &'static str, text: String) -> Self {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let written = gzip.write_all(text.as_bytes()).and_then(|()| gzip.finish());
        let plain = Bytes::from(text);
        // Writing to memory does not fail.
        let gzip = written.map_or_else(|_| Bytes::new(), Bytes::from);
        Self { kind, plain, gzip }
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
        let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let takes_gzip = accepted.flat_map(|value| value.split(',')).any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            name.trim().eq_ignore_ascii_case("gzip") && !matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
        });
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        let varies = (header::VARY, HeaderValue::from_static("accept-encoding"));
        if takes_gzip && !self.gzip.is_empty() {
            let coding = (header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            return ([kind, varies, coding], self.gzip.clone()).into_response();
        }
        ([kind, varies], self.plain.clone()).into_response()
    }
}

/// Whether the process can continue. A node that fails this check must be restarted.
async fn healthz(State(edge): State<Edge>, request: Request) -> Response {
    told(&edge, &request.into_parts().0, edge.admin.is_healthy())
}

/// Whether load balancers should send callers here. A node that cannot reach a quorum is not ready.
async fn readyz(State(edge): State<Edge>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    told(&edge, &head, edge.admin.is_ready().await)
}

/// The response of a health check. Anyone may call it, so only callers with a cluster right get more than the kind of
/// failure: details name paths and addresses.
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

/// Requires the cluster right `metrics`, because the metrics name the queues of every space. With `--metrics-open`
/// callers on this machine need no right. Only the operator knows whether a proxy on this machine forwards requests of
/// others.
async fn metrics(State(edge): State<Edge>, request: Request) -> Result<Response, Failure> {
    let is_open = edge.metrics_open && request.extensions().get::<Remote>().is_some_and(Remote::is_loopback);
    if !is_open {
        let (mut parts, _) = request.into_parts();
        let head = RequestHead::from_request_parts(&mut parts, &edge).await?;
        check_cluster_right(&head.identity, ClusterRight::Metrics)?;
    }
    let rendering = tokio::task::spawn_blocking(move || {
        let gate = edge.gate.status();
        edge.metrics.room(gate.room);
        edge.metrics.admitted(gate.in_flight);
        edge.metrics.share(gate.share);
        edge.metrics.unsent(edge.unsent.bytes());
        scrape::render(&edge.metrics, &edge.node, &edge.log)
    });
    let text = rendering.await.map_err(|_| Failure::from(Code::Internal))?;
    Ok(([(header::CONTENT_TYPE, scrape::CONTENT_TYPE)], text).into_response())
}
