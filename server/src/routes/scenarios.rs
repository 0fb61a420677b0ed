//! Shared scenarios: a short id for a scenario and what the page showed of it.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use simulator::scenario;
use simulator::wire::report::Engine;
use simulator::wire::{Problem, Scenario, ShareRequest, SharedScenario};

use crate::error::{ApiError, Code};
use crate::extract::JsonBody;
use crate::short_id;
use crate::state::App;
use crate::store::{NewScenario, SavedRow};

/// Stores a scenario under a short id. The same scenario and view always get the same id.
#[utoipa::path(
    post, path = "/scenarios", tag = "scenarios",
    request_body = ShareRequest,
    responses(
        (status = 201, description = "Stored", body = SharedScenario,
         headers(("location" = String, description = "Where to read it"))),
        (status = 200, description = "Was stored before", body = SharedScenario),
        (status = 400, description = "Not JSON", body = Problem,
         content_type = "application/problem+json"),
        (status = 401, description = "The token is missing or wrong", body = Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "This server stores nothing, or another site asks", body = Problem,
         content_type = "application/problem+json"),
        (status = 413, description = "More than 64 KiB", body = Problem,
         content_type = "application/problem+json"),
        (status = 415, description = "Not application/json", body = Problem,
         content_type = "application/problem+json"),
        (status = 422, description = "The scenario has faults", body = Problem,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many requests", body = Problem,
         content_type = "application/problem+json"),
    ),
    security((), ("token" = [])),
)]
pub(crate) async fn share(
    State(app): State<App>,
    headers: HeaderMap,
    body: Result<JsonBody<ShareRequest>, ApiError>,
) -> Result<Response, ApiError> {
    app.writes.check(&headers)?;
    let JsonBody(request) = body?;
    let valid = scenario::check(&request.scenario, &app.catalog)?;
    let new = to_store(valid.document(), request.view.as_ref(), (app.now)())?;
    let (row, is_new) = app.store.save_scenario(&new).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("/api/v1/scenarios/{}", row.id);
    Ok((status, [(LOCATION, location)], Json(shared(row)?)).into_response())
}

/// The scenario of a short id. It never changes.
#[utoipa::path(
    get, path = "/scenarios/{id}", tag = "scenarios",
    params(("id" = String, Path, description = "The short id")),
    responses(
        (status = 200, description = "The scenario", body = SharedScenario),
        (status = 404, description = "No such id", body = Problem,
         content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn find(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let row = if short_id::is_well_formed(&id) { app.store.scenario(&id).await? } else { None };
    let row = row.ok_or(ApiError::new(Code::NotFound))?;
    let forever = [(CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Ok((forever, Json(shared(row)?)).into_response())
}

/// The row for a scenario. Its digest is taken over the canonical JSON of document and view.
fn to_store(
    scenario: &Scenario,
    view: Option<&serde_json::Value>,
    now: Timestamp,
) -> Result<NewScenario, ApiError> {
    let document = canonical(&serde_json::to_value(scenario).map_err(ApiError::internal)?);
    let view = view.map(canonical);
    let content = format!("{document}\n{}", view.as_deref().unwrap_or_default());
    let engine = simulator::report::engine();
    Ok(NewScenario {
        digest: short_id::digest(content.as_bytes()),
        document,
        view,
        engine_version: engine.version,
        engine_predictions: i64::try_from(engine.predictions).map_err(ApiError::internal)?,
        created_at_ms: now.as_millisecond(),
    })
}

/// JSON without spaces and with sorted keys.
fn canonical(value: &serde_json::Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

fn shared(row: SavedRow) -> Result<SharedScenario, ApiError> {
    let created_at =
        Timestamp::from_millisecond(row.created_at_ms).map_err(ApiError::internal)?.to_string();
    let view = row.view.as_deref().map(serde_json::from_str).transpose();
    Ok(SharedScenario {
        id: row.id,
        scenario: serde_json::from_str(&row.document).map_err(ApiError::internal)?,
        view: view.map_err(ApiError::internal)?,
        engine: Engine {
            version: row.engine_version,
            predictions: u64::try_from(row.engine_predictions).map_err(ApiError::internal)?,
        },
        created_at,
    })
}
