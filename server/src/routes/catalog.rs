//! The catalog and the API's description: JSON that does not change while the server runs.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use simulator::wire::{GpuProfile, ModelCard};
use utoipa::ToSchema;

use crate::state::App;

/// The models.
#[derive(Serialize, ToSchema)]
pub(crate) struct Models {
    models: Vec<ModelCard>,
}

/// The GPUs.
#[derive(Serialize, ToSchema)]
pub(crate) struct Gpus {
    gpus: Vec<GpuProfile>,
}

/// Models that a scenario can name.
#[utoipa::path(
    get, path = "/models", tag = "catalog",
    responses((status = 200, description = "All models", body = Models)),
)]
pub(crate) async fn models(State(app): State<App>, headers: HeaderMap) -> Response {
    app.models.respond(&headers)
}

/// GPUs that a scenario can name.
#[utoipa::path(
    get, path = "/gpus", tag = "catalog",
    responses((status = 200, description = "All GPUs", body = Gpus)),
)]
pub(crate) async fn gpus(State(app): State<App>, headers: HeaderMap) -> Response {
    app.gpus.respond(&headers)
}

/// This description.
#[utoipa::path(
    get, path = "/openapi.json", tag = "server",
    responses((status = 200, description = "OpenAPI description of this API", body = Object)),
)]
pub(crate) async fn openapi(State(app): State<App>, headers: HeaderMap) -> Response {
    app.openapi.respond(&headers)
}
