//! The same engine as on the page, for scripts.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use simulator::Simulation;
use simulator::catalog::Catalog;
use simulator::scenario::{self, ValidScenario};
use simulator::wire::report::StepKind;
use simulator::wire::{Answer, Fault, Faults, Problem, Rule, Scenario};
use utoipa::IntoParams;

use crate::error::ApiError;
use crate::extract::{Document, QueryOf};
use crate::state::App;

/// Most layer passes (layers × micro-batches) that one request may ask for: about a second of work
/// and 100 MB of timeline. The command line takes what the simulator takes.
const LAYER_PASSES_MAX: u64 = 4_096;

/// What else to send.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// The step whose timeline is added to the report.
    timeline: Option<StepKind>,
}

/// Simulates a scenario.
#[utoipa::path(
    post, path = "/simulate", tag = "simulate",
    params(Wanted),
    request_body(content(
        (Scenario = "application/json"),
        (Scenario = "application/toml"),
    )),
    responses(
        (status = 200, description = "The report", body = Answer),
        (status = 400, description = "Neither JSON nor TOML", body = Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Asked by another site", body = Problem,
         content_type = "application/problem+json"),
        (status = 413, description = "More than 64 KiB", body = Problem,
         content_type = "application/problem+json"),
        (status = 415, description = "Neither application/json nor application/toml", body = Problem,
         content_type = "application/problem+json"),
        (status = 422, description = "The scenario has faults", body = Problem,
         content_type = "application/problem+json"),
        (status = 429, description = "Too many requests", body = Problem,
         content_type = "application/problem+json"),
        (status = 503, description = "All workers are busy", body = Problem,
         content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn simulate(
    State(app): State<App>,
    QueryOf(wanted): QueryOf<Wanted>,
    document: Document,
) -> Result<Response, ApiError> {
    let catalog = std::sync::Arc::clone(&app.catalog);
    let work = move || answer(&document, &catalog, wanted.timeline);
    let body = app.workers.run(work).await??;
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from(body)).into_response())
}

/// Reads, simulates and writes: all the work that computes.
fn answer(
    document: &Document,
    catalog: &Catalog,
    timeline: Option<StepKind>,
) -> Result<Vec<u8>, ApiError> {
    let valid = scenario::read_valid(&document.text, document.format, catalog)?;
    bound(&valid)?;
    let Simulation { report, first, steady } = simulator::simulate(&valid);
    let timeline = timeline.map(|step| match step {
        StepKind::First => first,
        StepKind::Steady => steady,
    });
    serde_json::to_vec(&Answer { report, timeline }).map_err(ApiError::internal)
}

/// Refuses what would keep a worker for long.
fn bound(scenario: &ValidScenario) -> Result<(), Faults> {
    let layers = scenario.family().layers();
    let grad_accum = scenario.document().workload.grad_accum;
    if layers.saturating_mul(grad_accum) <= LAYER_PASSES_MAX {
        return Ok(());
    }
    let path = "workload.grad_accum";
    let most = (LAYER_PASSES_MAX / layers).max(1);
    let message = format!(
        "{layers} layers × {grad_accum} micro-batches are more than this server simulates in one \
         request; `tidemark simulate` does"
    );
    let fault = Fault::new(path, Rule::Range, message);
    let fault = fault.arguments([grad_accum.to_string(), "1".to_owned(), most.to_string()]);
    Err(fault.mend(path, most).into())
}
