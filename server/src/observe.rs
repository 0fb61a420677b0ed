//! The outermost layer: an id for each request, one log line, and problem bodies.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::request_id::{MakeRequestId, MakeRequestUuid};
use tracing::Instrument;

use crate::error::{ApiError, KEPT_HEADERS};

/// Header that carries the request's id in both directions.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Longest id that is taken over from a client or a proxy.
const LONGEST_ID: usize = 64;

/// Runs the request and answers for everything that went wrong in it.
pub(crate) async fn observe(mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&request);
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let id_text = id.to_str().unwrap_or_default().to_owned();
    let method = request.method().clone();
    let is_api = request.uri().path().starts_with("/api");
    // The route, not the address: addresses carry whole scenarios in their query.
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| request.uri().path().to_owned(), |path| path.as_str().to_owned());
    let span = tracing::info_span!("request", id = id_text, %method, route);
    async move {
        let mut response = problem_body(next.run(request).await, is_api, &id_text);
        response.headers_mut().insert(REQUEST_ID, id);
        let status = response.status().as_u16();
        let duration_ms = started.elapsed().as_millis();
        tracing::info!(status, duration_ms, "answered");
        response
    }
    .instrument(span)
    .await
}

/// The client's id when it is a plain word, else a new one.
fn request_id(request: &Request) -> HeaderValue {
    let plain = |value: &&HeaderValue| {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        (1..=LONGEST_ID).contains(&value.len()) && value.as_bytes().iter().all(word)
    };
    if let Some(id) = request.headers().get(REQUEST_ID).filter(plain) {
        return id.clone();
    }
    MakeRequestUuid
        .make_request_id(request)
        .map_or_else(|| HeaderValue::from_static("none"), |id| id.header_value().clone())
}

/// Writes the problem of a failed response as its body.
fn problem_body(mut response: Response, is_api: bool, request_id: &str) -> Response {
    let status = response.status();
    let failed = status.is_client_error() || status.is_server_error();
    let error = match response.extensions_mut().remove::<ApiError>() {
        Some(error) => error,
        None if is_api && failed => ApiError::of_status(status),
        None => return response,
    };
    if let Some(cause) = error.cause() {
        tracing::error!(code = error.code().word(), "{cause:#}");
    }
    let problem = error.problem(status, request_id);
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let mut rendered = (status, Body::from(body)).into_response();
    let headers = rendered.headers_mut();
    headers.insert(CONTENT_TYPE, PROBLEM_JSON);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for name in KEPT_HEADERS {
        if let Some(value) = response.headers().get(&name) {
            headers.insert(name, value.clone());
        }
    }
    headers.remove(CONTENT_LENGTH);
    rendered
}

/// The answer to a panic inside a handler.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the payload over")]
pub(crate) fn panicked(payload: Box<dyn std::any::Any + Send>) -> Response {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    ApiError::internal(anyhow::anyhow!("panic: {text}")).into_response()
}

/// The status of an answer that took too long; `ApiError` has a code for it.
pub(crate) const TIMED_OUT: StatusCode = StatusCode::GATEWAY_TIMEOUT;
