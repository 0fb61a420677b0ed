//! Whether the server works.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::state::App;

/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether the server works.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, or `failing` when the database does not answer.
    status: &'static str,
    /// Version of the program.
    version: &'static str,
}

/// Whether the server and its database work.
#[utoipa::path(
    get, path = "/healthz", tag = "server",
    responses(
        (status = 200, description = "Both work", body = Health),
        (status = 503, description = "The database does not answer", body = Health),
    ),
)]
pub(crate) async fn healthz(State(app): State<App>) -> Response {
    let (status, word) = match tokio::time::timeout(PATIENCE, app.store.ping()).await {
        Ok(Ok(())) => (StatusCode::OK, "ok"),
        failing => {
            tracing::error!(?failing, "the database does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, "failing")
        }
    };
    let health = Health { status: word, version: env!("CARGO_PKG_VERSION") };
    (status, [(CACHE_CONTROL, "no-store")], Json(health)).into_response()
}
