//! Responses: problems are written in one place, with the request id, and every response names that id.

use crate::edge::request_name::RequestName;
use crate::observe::trace::{self, TraceContext};
use api::headers::{AGE_MS, APPLIED_INDEX, REQUEST_ID};
use api::{Code, Problem};
use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;

const TRACE: HeaderName = HeaderName::from_static(trace::HEADER);

/// A call that failed. Boxed, because failures are rare and results are everywhere.
#[derive(Debug)]
pub struct Failure(pub Box<Problem>);

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Box<Problem>> for Failure {
    fn from(problem: Box<Problem>) -> Self {
        Self(problem)
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Problem::new(code).into()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        // `finished` writes it, because it knows the request id.
        response.extensions_mut().insert(UnwrittenProblem(self.0));
        response
    }
}

/// A problem that is not written yet. It stays in the response's extensions, so that outer code knows its code.
#[derive(Clone, Debug)]
pub struct UnwrittenProblem(pub Box<Problem>);

pub type Reply<T> = Result<Json<T>, Failure>;

/// The result of a read, and its age if it was a local read.
#[derive(Debug)]
pub struct Viewed<T> {
    pub value: T,
    pub age: Option<Age>,
    pub revision: Option<String>,
}

/// The age of a local read.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    pub applied: u64,
    /// None: this node has not been up to date since it started.
    pub in_step_within: Option<Duration>,
}

impl<T: Serialize> IntoResponse for Viewed<T> {
    fn into_response(self) -> Response {
        let mut headers = HeaderMap::new();
        let mut set = |name: HeaderName, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        if let Some(revision) = self.revision {
            set(header::ETAG, format!("\"{revision}\""));
        }
        if let Some(age) = self.age {
            set(APPLIED_INDEX, age.applied.to_string());
            set(AGE_MS, age.in_step_within.map_or_else(|| "unknown".into(), |age| age.as_millis().to_string()));
        }
        (headers, Json(self.value)).into_response()
    }
}

/// The id of a request and the trace that it belongs to.
pub(crate) fn named(headers: &HeaderMap) -> (RequestName, TraceContext) {
    let trace = TraceContext::of(headers.get(trace::HEADER).and_then(|header| header.to_str().ok()));
    (RequestName::of(headers, &trace), trace)
}

/// Writes the problem, if any, and adds the request id and the trace.
pub(crate) fn finished(response: &mut Response, name: &RequestName, trace: &TraceContext) {
    if let Some(mut told) = response.extensions_mut().remove::<UnwrittenProblem>() {
        told.0.request_id = Some(name.as_str().to_owned());
        write(response, &told.0);
        response.extensions_mut().insert(told);
    }
    for (header, value) in [(REQUEST_ID, name.as_str()), (TRACE, trace.header().as_str())] {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(header, value);
        }
    }
}

fn write(response: &mut Response, problem: &Problem) {
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(millis) = problem.retry_after_ms {
        // In whole seconds, rounded up.
        headers.insert(header::RETRY_AFTER, HeaderValue::from(millis.div_ceil(1_000)));
    }
    if problem.code == Code::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    headers.remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::from(body);
}
