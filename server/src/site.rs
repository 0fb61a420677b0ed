//! The page's files from the embedded bundle, and the page itself for its own addresses.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{Html, IntoResponse, Response};

use crate::bundle::{self, Asset};
use crate::error::{ApiError, Code};
use crate::fixed::none_match;

const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

/// Shown instead of the page by a binary that was built without it.
const NO_PAGE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Tidemark</title>
<h1>Tidemark</h1>
<p>This binary was built without its page. In the source folder,
<code>cargo xtask serve</code> builds and serves it, and
<code>cargo xtask build</code> makes one binary with the page inside.</p>
<p>The API works: <a href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p>
</html>
"#;

/// Everything that is no endpoint.
pub(crate) async fn serve(request: Request) -> Response {
    let path = request.uri().path();
    if path == "/api" || path.starts_with("/api/") {
        return ApiError::new(Code::NotFound).into_response();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return ApiError::new(Code::MethodNotAllowed).into_response();
    }
    if let Some(asset) = bundle::find(path) {
        return file(asset, request.headers());
    }
    if !is_page(path) {
        let headers = [(CACHE_CONTROL, "no-store")];
        return (StatusCode::NOT_FOUND, headers, "Not found\n").into_response();
    }
    match bundle::index() {
        Some(index) => file(index, request.headers()),
        None => ([(CACHE_CONTROL, "no-store")], Html(NO_PAGE)).into_response(),
    }
}

/// Whether the page's own router knows what to do with this address. A missing file must not be
/// answered with the page: an old tab would take it for a script.
fn is_page(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    !path.starts_with("/assets/") && !last.contains('.')
}

fn file(asset: &Asset, request: &HeaderMap) -> Response {
    let brotli = asset.brotli.filter(|_| accepts_brotli(request));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    headers.insert(CACHE_CONTROL, if asset.immutable { FOREVER } else { ASK_AGAIN });
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    let mut etag = HeaderValue::from_static(asset.etag);
    if brotli.is_some() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("br"));
        etag = brotli_tag(asset.etag);
    }
    let is_known = none_match(request, &etag);
    headers.insert(ETAG, etag);
    if is_known {
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_ENCODING);
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, Body::from(brotli.unwrap_or(asset.identity))).into_response()
}

/// A strong tag names the bytes as sent, so each encoding has its own.
fn brotli_tag(etag: &'static str) -> HeaderValue {
    let tag = format!("{}-br\"", etag.trim_end_matches('"'));
    HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static(etag))
}

/// Whether the client takes brotli: named, or by `*`, and not with quality zero.
fn accepts_brotli(request: &HeaderMap) -> bool {
    let values = request.get_all(ACCEPT_ENCODING).into_iter().filter_map(|v| v.to_str().ok());
    let mut any = None;
    let mut brotli = None;
    for item in values.flat_map(|value| value.split(',')) {
        let mut parts = item.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
        let accepted = 0.0 < quality.unwrap_or(1.0_f32);
        if name.eq_ignore_ascii_case("br") {
            brotli = Some(accepted);
        } else if name == "*" {
            any = Some(accepted);
        }
    }
    brotli.or(any).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    static SCRIPT: Asset = Asset {
        path: "/assets/app.0123456789abcdef.js",
        content_type: "text/javascript",
        etag: "\"abc\"",
        immutable: true,
        identity: b"let tide = 1;",
        brotli: Some(b"short"),
    };

    #[test]
    fn encodings_are_negotiated() {
        for (sent, expected) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=0.5", true),
            ("BR", true),
            ("*", true),
            ("br;q=0, *", false),
            ("br; q=0", false),
            ("gzip", false),
            ("brotli", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(sent));
            assert_eq!(accepts_brotli(&headers), expected, "{sent}");
        }
    }

    #[test]
    fn files_answer_with_their_own_tag_for_each_encoding() {
        for (encoding, known, status, etag) in [
            ("gzip", "", StatusCode::OK, "\"abc\""),
            ("br", "", StatusCode::OK, "\"abc-br\""),
            ("br", "\"abc-br\"", StatusCode::NOT_MODIFIED, "\"abc-br\""),
            ("br", "\"abc\"", StatusCode::OK, "\"abc-br\""),
            ("gzip", "\"abc\"", StatusCode::NOT_MODIFIED, "\"abc\""),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
            headers.insert("if-none-match", HeaderValue::from_static(known));
            let response = file(&SCRIPT, &headers);
            assert_eq!(response.status(), status, "{encoding} {known}");
            assert_eq!(response.headers()[ETAG], etag);
            assert_eq!(response.headers()[CACHE_CONTROL], FOREVER);
            assert_eq!(response.headers()[VARY], "accept-encoding");
        }
    }

    #[test]
    fn only_pages_fall_back_to_the_page() {
        for (path, expected) in [
            ("/", true),
            ("/compare", true),
            ("/s/0123456789", true),
            ("/assets/app.js", false),
            ("/assets/app", false),
            ("/favicon.ico", false),
        ] {
            assert_eq!(is_page(path), expected, "{path}");
        }
    }
}
