//! Errors of the API: a closed list of codes, each with its status and title.
//!
//! A handler returns an [`ApiError`]; `observe` turns it into an RFC 9457 body with the request's id
//! and logs it, once. What caused a 5xx goes to the log and never to the client.

use std::sync::Arc;

use axum::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use simulator::wire::{Faults, Problem, Rule};

use crate::store::StoreError;

/// The kinds of problem. Their words are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The body is not JSON or TOML.
    Malformed,
    /// The query or the path cannot be read.
    InvalidQuery,
    /// No token, or a wrong one.
    Unauthorized,
    /// This server stores nothing.
    WritesClosed,
    /// Another site's page sent the request.
    CrossOrigin,
    /// Nothing is there.
    NotFound,
    /// The path does not have this method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    SlowBody,
    /// The body is too large.
    TooLarge,
    /// The content type is not one that the path takes.
    UnsupportedMediaType,
    /// The scenario has faults.
    InvalidScenario,
    /// Too many requests from this address.
    RateLimited,
    /// Any other client error.
    Rejected,
    /// Our fault.
    Internal,
    /// All workers are busy.
    Overloaded,
    /// The answer took too long.
    TimedOut,
}

impl Code {
    /// All codes, by status.
    pub const ALL: [Self; 16] = [
        Self::Malformed,
        Self::InvalidQuery,
        Self::Rejected,
        Self::Unauthorized,
        Self::WritesClosed,
        Self::CrossOrigin,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::SlowBody,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::InvalidScenario,
        Self::RateLimited,
        Self::Internal,
        Self::Overloaded,
        Self::TimedOut,
    ];

    /// Status, word and title.
    const fn row(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Malformed => (StatusCode::BAD_REQUEST, "malformed", "The body cannot be read"),
            Self::InvalidQuery => {
                (StatusCode::BAD_REQUEST, "invalid-query", "The address cannot be read")
            }
            Self::Rejected => (StatusCode::BAD_REQUEST, "rejected", "The request was rejected"),
            Self::Unauthorized => {
                (StatusCode::UNAUTHORIZED, "unauthorized", "A token is needed to store something")
            }
            Self::WritesClosed => {
                (StatusCode::FORBIDDEN, "writes-closed", "This server stores nothing")
            }
            Self::CrossOrigin => {
                (StatusCode::FORBIDDEN, "cross-origin", "Requests from other sites are refused")
            }
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "Nothing is there"),
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "The method is not allowed")
            }
            Self::SlowBody => {
                (StatusCode::REQUEST_TIMEOUT, "slow-body", "The body did not arrive in time")
            }
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too large"),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported-media-type",
                "The content type is not supported",
            ),
            Self::InvalidScenario => {
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid-scenario", "The scenario has faults")
            }
            Self::RateLimited => {
                (StatusCode::TOO_MANY_REQUESTS, "rate-limited", "Too many requests")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed"),
            Self::Overloaded => {
                (StatusCode::SERVICE_UNAVAILABLE, "overloaded", "All workers are busy")
            }
            Self::TimedOut => {
                (StatusCode::GATEWAY_TIMEOUT, "timed-out", "The answer took too long")
            }
        }
    }

    /// The HTTP status.
    pub const fn status(self) -> StatusCode {
        self.row().0
    }

    /// The stable word.
    pub const fn word(self) -> &'static str {
        self.row().1
    }

    /// The code for a status that no handler of ours chose.
    fn of(status: StatusCode) -> Self {
        let same = |code: &Self| code.status() == status;
        let fallback = if status.is_server_error() { Self::Internal } else { Self::Rejected };
        // Statuses shared by several codes mean their most general one.
        match status {
            StatusCode::BAD_REQUEST => Self::Rejected,
            StatusCode::FORBIDDEN => Self::CrossOrigin,
            _ => Self::ALL.into_iter().find(same).unwrap_or(fallback),
        }
    }
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub struct ApiError {
    code: Code,
    detail: Option<String>,
    faults: Faults,
    headers: Vec<(HeaderName, HeaderValue)>,
    cause: Option<Arc<anyhow::Error>>,
}

impl ApiError {
    /// A problem without a sentence of its own.
    pub const fn new(code: Code) -> Self {
        Self { code, detail: None, faults: Faults(Vec::new()), headers: Vec::new(), cause: None }
    }

    /// The same with a sentence.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Our fault; the cause is only logged.
    pub fn internal(cause: impl Into<anyhow::Error>) -> Self {
        Self { cause: Some(Arc::new(cause.into())), ..Self::new(Code::Internal) }
    }

    /// Too many requests; the client may come back after this many seconds.
    pub fn rate_limited(seconds: u64) -> Self {
        Self::new(Code::RateLimited)
            .detail(format!("Try again in {seconds} s."))
            .header(RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// All workers are busy.
    pub fn overloaded() -> Self {
        Self::new(Code::Overloaded).header(RETRY_AFTER, HeaderValue::from_static("2"))
    }

    /// A token is missing or wrong.
    pub fn unauthorized(detail: &str) -> Self {
        Self::new(Code::Unauthorized)
            .detail(detail)
            .header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tidemark\""))
    }

    /// A response that some layer made without a body of ours.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        Self::new(Code::of(status))
    }

    #[must_use]
    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The kind of problem.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// What caused it, for the log.
    pub(crate) fn cause(&self) -> Option<&anyhow::Error> {
        self.cause.as_deref()
    }

    /// The body.
    pub(crate) fn problem(&self, status: StatusCode, request_id: &str) -> Problem {
        let (_, word, title) = self.code.row();
        Problem {
            kind: format!("urn:tidemark:problem:{word}"),
            code: word.to_owned(),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: self.detail.clone(),
            faults: self.faults.0.clone(),
            request_id: Some(request_id.to_owned()),
        }
    }
}

/// Only status and headers: `observe` writes the body, since it knows the request's id.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        for (name, value) in &self.headers {
            response.headers_mut().insert(name, value.clone());
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Faults> for ApiError {
    fn from(faults: Faults) -> Self {
        let unreadable = faults.0.iter().any(|fault| fault.rule == Rule::Syntax);
        let code = if unreadable { Code::Malformed } else { Code::InvalidScenario };
        let detail = match faults.0.len() {
            1 => "1 fault; see `faults`.".to_owned(),
            n => format!("{n} faults; see `faults`."),
        };
        Self { faults, ..Self::new(code).detail(detail) }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Database(sqlx::Error::PoolTimedOut) => Self::overloaded(),
            other => Self::internal(other),
        }
    }
}

/// Headers of an error response that some other layer made and that a client needs.
pub(crate) const KEPT_HEADERS: [HeaderName; 3] = [ALLOW, RETRY_AFTER, WWW_AUTHENTICATE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_statuses_find_a_code() {
        let words: std::collections::BTreeSet<_> = Code::ALL.map(Code::word).into();
        assert_eq!(words.len(), Code::ALL.len());
        for (status, code) in [
            (StatusCode::NOT_FOUND, Code::NotFound),
            (StatusCode::BAD_REQUEST, Code::Rejected),
            (StatusCode::EXPECTATION_FAILED, Code::Rejected),
            (StatusCode::NOT_IMPLEMENTED, Code::Internal),
            (StatusCode::GATEWAY_TIMEOUT, Code::TimedOut),
        ] {
            assert_eq!(Code::of(status), code, "{status}");
        }
    }
}
