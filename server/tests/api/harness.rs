//! A server in process, and cases that check one request each.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, StatusCode};
use jiff::Timestamp;
use serde_json::Value;
use server::auth::{TokenHash, Writes};
use server::rate::{Client, Rate};
use server::store::Store;
use server::{ApiSettings, App, router};
use simulator::catalog::Catalog;
use tempfile::TempDir;
use tower::ServiceExt;

use crate::postgres::Cluster;

pub(crate) const TOKEN: &str = "correct horse battery staple";
/// 2026-11-30T12:00:00Z.
const NOON: i64 = 1_796_040_000_000;

/// Where fresh databases come from.
pub(crate) enum Site<'a> {
    Sqlite { folder: TempDir, made: AtomicU32 },
    Postgres { cluster: &'a Cluster, made: AtomicU32 },
}

impl<'a> Site<'a> {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite { folder: TempDir::new().unwrap(), made: AtomicU32::new(0) }
    }

    pub(crate) fn postgres(cluster: &'a Cluster) -> Self {
        Self::Postgres { cluster, made: AtomicU32::new(0) }
    }

    /// The address of a database that does not exist yet.
    pub(crate) async fn url(&self) -> String {
        match self {
            Self::Sqlite { folder, made } => {
                let number = made.fetch_add(1, Ordering::Relaxed);
                format!("sqlite://{}/{number}.db", folder.path().display())
            }
            Self::Postgres { cluster, made } => {
                cluster.database(made.fetch_add(1, Ordering::Relaxed)).await
            }
        }
    }

    pub(crate) async fn store(&self) -> Store {
        Store::connect(&self.url().await).await.unwrap()
    }
}

/// A server with its own database.
pub(crate) struct Server {
    pub(crate) router: Router,
}

impl Server {
    pub(crate) async fn open(site: &Site<'_>) -> Self {
        Self::new(site, Writes::Open, 1000).await
    }

    pub(crate) async fn with_token(site: &Site<'_>) -> Self {
        Self::new(site, Writes::Token(TokenHash::parse(TOKEN).unwrap()), 1000).await
    }

    pub(crate) async fn closed(site: &Site<'_>) -> Self {
        Self::new(site, Writes::Closed, 1000).await
    }

    /// Two requests at once, and no third for an hour.
    pub(crate) async fn slow(site: &Site<'_>) -> Self {
        Self::new(site, Writes::Open, 2).await
    }

    async fn new(site: &Site<'_>, writes: Writes, burst: u32) -> Self {
        let rate = Rate { burst, refill: Duration::from_hours(1) };
        let settings = ApiSettings {
            writes,
            client: Client::Peer,
            share_rate: rate,
            simulate_rate: rate,
            now: || Timestamp::from_millisecond(NOON).unwrap(),
        };
        let app = App::new(site.store().await, Catalog::builtin(), &settings).unwrap();
        Self { router: router(app) }
    }

    pub(crate) async fn send(&self, case: &Case) -> Answer {
        let mut request = Request::builder().method(case.method).uri(&case.path);
        for (name, value) in &case.headers {
            request = request.header(*name, value);
        }
        let mut request = request.body(Body::from(case.body.clone())).unwrap();
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        request.extensions_mut().insert(ConnectInfo(peer));
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 1 << 30).await.unwrap();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Sends the case and compares: status, headers by substring, JSON by subset.
    pub(crate) async fn check(&self, case: &Case) -> Answer {
        let answer = self.send(case).await;
        let what = format!("{} {} → {}", case.method, case.path, answer.text());
        assert_eq!(answer.status.as_u16(), case.status, "{what}");
        for (name, part) in &case.answer_headers {
            let value = answer.header(name);
            assert!(value.contains(part), "{name} is {value:?}, not {part:?}: {what}");
        }
        if case.answer != Value::Null {
            let got = answer.json();
            assert!(holds(&got, &case.answer), "no {} in {what}", case.answer);
        }
        if 400 <= case.status && case.path.starts_with("/api") {
            assert_eq!(answer.header("content-type"), "application/problem+json", "{what}");
            let problem = answer.json();
            assert_eq!(problem["status"], case.status, "{what}");
            assert_eq!(problem["request_id"], answer.header("x-request-id"), "{what}");
        }
        answer
    }
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(500)]).into_owned()
    }
}

/// A request, and what its answer must hold.
#[derive(Clone)]
pub(crate) struct Case {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
    status: u16,
    answer_headers: Vec<(&'static str, &'static str)>,
    answer: Value,
}

pub(crate) fn get(path: &str) -> Case {
    request("GET", path)
}

pub(crate) fn post(path: &str, body: &Value) -> Case {
    request("POST", path).header("content-type", "application/json").text(&body.to_string())
}

pub(crate) fn request(method: &'static str, path: &str) -> Case {
    Case {
        method,
        path: path.to_owned(),
        headers: Vec::new(),
        body: String::new(),
        status: 200,
        answer_headers: Vec::new(),
        answer: Value::Null,
    }
}

impl Case {
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn text(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    /// Expects this status.
    pub(crate) fn gives(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Expects a header that contains this.
    pub(crate) fn with(mut self, name: &'static str, part: &'static str) -> Self {
        self.answer_headers.push((name, part));
        self
    }

    /// Expects a JSON body that holds at least this.
    pub(crate) fn and(mut self, answer: Value) -> Self {
        self.answer = answer;
        self
    }
}

/// Whether `got` holds everything in `wanted`: objects by subset, the rest by equality.
fn holds(got: &Value, wanted: &Value) -> bool {
    match (got, wanted) {
        (Value::Object(got), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| got.get(key).is_some_and(|got| holds(got, wanted)))
        }
        (Value::Array(got), Value::Array(wanted)) => {
            got.len() == wanted.len()
                && got.iter().zip(wanted).all(|(got, wanted)| holds(got, wanted))
        }
        _ => got == wanted,
    }
}
