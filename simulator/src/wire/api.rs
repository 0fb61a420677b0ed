//! Bodies of the HTTP API beside scenario, report and timeline.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault::Fault;
use super::report::{Engine, Report};
use super::scenario::Scenario;
use super::timeline::Timeline;

/// A scenario to store under a short id, as sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ShareRequest {
    /// The scenario document; checked like a file.
    #[cfg_attr(feature = "openapi", schema(value_type = Scenario))]
    pub scenario: Value,
    /// What the page showed of it; kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<Value>,
}

/// A stored scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SharedScenario {
    /// Its short id; it follows from scenario and view.
    pub id: String,
    /// The scenario document.
    pub scenario: Scenario,
    /// What the page showed of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<Value>,
    /// The program that stored it first.
    pub engine: Engine,
    /// When that was, RFC 3339.
    pub created_at: String,
}

/// The answer to a scenario: the report, and one step when it was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Answer {
    /// The report.
    #[serde(flatten)]
    pub report: Report,
    /// The step that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

/// Why a request failed, as RFC 9457 lays it out (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `urn:tidemark:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// Stable word for programs, such as `invalid-scenario`.
    pub code: String,
    /// The kind of problem in a few words; the same for every problem of this code.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// This very problem in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Every fault of the scenario; paths begin at the scenario's root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Id of the request, for whoever reads the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}
