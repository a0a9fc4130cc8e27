//! What a node says of itself: whether it lives, whether it serves, and the document of its calls.

use crate::edge::document;
use axum::Router;
use axum::http::header;
use axum::response::Html;
use axum::routing::get;
use utoipa::openapi::OpenApi;

use crate::edge::Edge;

/// Paths outside `/v1`, which need no credential.
pub(super) fn router(document: &OpenApi) -> Router<Edge> {
    let json = document.to_json().unwrap_or_default();
    let page = document::page(document);
    Router::new()
        .route(
            "/openapi.json",
            get(move || async move { ([(header::CONTENT_TYPE, "application/json")], json) }),
        )
        .route("/docs", get(move || async move { Html(page) }))
}
