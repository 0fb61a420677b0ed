//! Request bodies and queries, with our own errors when they cannot be read.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use simulator::scenario::Format;

use crate::error::{ApiError, Code};

/// Largest request body.
pub(crate) const LARGEST_BODY: usize = 64 * 1024;
/// How long a body may take to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// A scenario document as text, and how it is written.
pub(crate) struct Document {
    pub(crate) text: String,
    pub(crate) format: Format,
}

impl<S: Send + Sync> FromRequest<S> for Document {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let format = match media_type(request.headers()).as_str() {
            "application/json" => Format::Json,
            "application/toml" | "text/x-toml" => Format::Toml,
            other => return Err(unsupported(other, "application/json or application/toml")),
        };
        Ok(Self { text: text(request, state).await?, format })
    }
}

/// A JSON body. Other content types are refused: a form on another site's page could send them.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let media_type = media_type(request.headers());
        if media_type != "application/json" {
            return Err(unsupported(&media_type, "application/json"));
        }
        let text = text(request, state).await?;
        serde_json::from_str(&text)
            .map(Self)
            .map_err(|error| ApiError::new(Code::Malformed).detail(error.to_string()))
    }
}

/// The query of the address.
pub(crate) struct QueryOf<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryOf<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        let Query(query) =
            query.map_err(|error| ApiError::new(Code::InvalidQuery).detail(error.body_text()))?;
        Ok(Self(query))
    }
}

/// The content type without its parameters, in lower case.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn unsupported(sent: &str, wanted: &str) -> ApiError {
    let sent = if sent.is_empty() { "none" } else { sent };
    ApiError::new(Code::UnsupportedMediaType)
        .detail(format!("Content-Type is {sent}; send {wanted}."))
}

async fn text<S: Send + Sync>(request: Request, state: &S) -> Result<String, ApiError> {
    let body = tokio::time::timeout(BODY_DEADLINE, Bytes::from_request(request, state));
    let bytes = match body.await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let limit = format!("A body holds at most {} KiB.", LARGEST_BODY / 1024);
            return Err(ApiError::new(Code::TooLarge).detail(limit));
        }
        Ok(Err(rejection)) => {
            return Err(ApiError::new(Code::Malformed).detail(rejection.body_text()));
        }
        Err(_elapsed) => return Err(ApiError::new(Code::SlowBody)),
    };
    String::from_utf8(bytes.into())
        .map_err(|error| ApiError::new(Code::Malformed).detail(format!("Not UTF-8: {error}.")))
}
