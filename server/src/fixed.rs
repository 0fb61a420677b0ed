//! Bodies that never change while the server runs, and entity tags.

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::short_id::{digest, hex};

/// A JSON body with its strong entity tag.
#[derive(Clone, Debug)]
pub(crate) struct FixedJson {
    body: Bytes,
    etag: HeaderValue,
}

impl FixedJson {
    pub(crate) fn new(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let body = serde_json::to_vec(value)?;
        let etag = format!("\"{}\"", hex(&digest(&body)));
        let etag = HeaderValue::try_from(etag).map_err(serde::ser::Error::custom)?;
        Ok(Self { body: body.into(), etag })
    }

    /// 304 when the client has it already.
    pub(crate) fn respond(&self, request: &HeaderMap) -> Response {
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (ETAG, self.etag.clone()),
        ];
        if none_match(request, &self.etag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, Body::from(self.body.clone())).into_response()
    }
}

/// Whether `If-None-Match` names this tag, compared weakly as RFC 9110 wants it.
pub(crate) fn none_match(request: &HeaderMap, etag: &HeaderValue) -> bool {
    let tags = request.get_all(IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    tags.flat_map(|value| value.split(',')).map(str::trim).any(|tag| {
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag.as_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_weakly_and_in_lists() {
        let etag = HeaderValue::from_static("\"a\"");
        for (sent, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"ab\"", false),
            ("a", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_static(sent));
            assert_eq!(none_match(&headers, &etag), expected, "{sent}");
        }
        assert!(!none_match(&HeaderMap::new(), &etag));
    }
}
