//! From a file's bytes to a row: read it, express it as a scenario, predict it, compare.

use serde_json::Value;

use crate::allocator::replay::replay;
use crate::catalog::Catalog;
use crate::importers::capture_case;
use crate::scenario::validate;
use crate::simulate::{Rates, Simulation, simulate_step};
use crate::units::Bytes;
use crate::wire::capture::{CaptureKind, CaseCapture, kind_of, read_case};
use crate::wire::{AllocatorCapture, Faults};

use super::compare::compare;
use super::metric::{Metric, MetricName, Metrics};
use super::row::{Head, Kind, Row, family};

/// What predictions are made with.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Known GPUs and models.
    pub catalog: &'a Catalog,
    /// Which rates the clock uses.
    pub rates: Rates,
}

/// Predicts a captured case on the catalog's GPU of the name that the driver gives it.
///
/// # Errors
///
/// In words, why the case cannot be predicted: what a scenario cannot express, or a GPU that the
/// catalog does not have.
pub fn predict(capture: &CaseCapture, setup: Setup<'_>) -> Result<Simulation, String> {
    let gpu = setup
        .catalog
        .gpu(&capture.gpu)
        .ok_or_else(|| format!("the catalog has no GPU called \"{}\"", capture.gpu))?;
    let case = Value::Object(capture.case.clone());
    let scenario = capture_case(&case, &gpu.id).map_err(|faults| in_one_line(&faults))?;
    let scenario = validate(&scenario, setup.catalog).map_err(|faults| in_one_line(&faults))?;
    Ok(simulate_step(&scenario, setup.rates, TRACED_STEP))
}

/// The traced step: the measuring program runs three before it.
const TRACED_STEP: u64 = 4;

/// All faults in one line.
pub(super) fn in_one_line(faults: &Faults) -> String {
    faults.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A row from a capture of either kind, decompressed. `name` stands in for the id of a file that
/// cannot be read.
pub fn judge_capture(name: &str, json: &[u8], setup: Setup<'_>) -> Row {
    match kind_of(json) {
        Err(faults) => Row::invalid(name, Kind::Case, faults.to_string()),
        Ok(CaptureKind::Case) => match read_case(json) {
            Err(faults) => Row::invalid(name, Kind::Case, faults.to_string()),
            Ok(capture) => judge_case(&capture, setup),
        },
        Ok(CaptureKind::Allocator) => judge_allocator(name, json),
    }
}

fn judge_case(capture: &CaseCapture, setup: Setup<'_>) -> Row {
    let head = Head {
        id: capture.id.clone(),
        kind: Kind::Case,
        family: family(&capture.case),
        stack: capture.stack.clone(),
    };
    match predict(capture, setup) {
        Err(reason) => Row::unsupported(head, reason),
        Ok(simulation) => Row::ok(head, compare(&simulation, capture)),
    }
}

/// Replays an allocator's whole life: with the captured driver's answers for the segments,
/// deciding by itself for the reserved peak.
fn judge_allocator(name: &str, json: &[u8]) -> Row {
    let capture = match AllocatorCapture::from_json(json) {
        Ok(capture) => capture,
        Err(error) => return Row::invalid(name, Kind::Allocator, error.to_string()),
    };
    let family = if capture.id.starts_with("stress-") { "stress" } else { "allocator" };
    let head = Head {
        id: capture.id.clone(),
        kind: Kind::Allocator,
        family: family.to_owned(),
        stack: capture.stack.clone(),
    };
    let replay = match replay(&capture) {
        Ok(replay) => replay,
        Err(error) => return Row::unsupported(head, error.to_string()),
    };
    let bytes = |count: u64| Bytes::new(count).as_f64();
    let equal = if replay.segments_equal { 1.0 } else { 0.0 };
    let reserved =
        Metric::against(bytes(replay.decided.peak_reserved), bytes(replay.measured_reserved_peak));
    Row::ok(
        head,
        Metrics::from([
            (MetricName::SegmentsEqual, Metric::alone(equal)),
            (MetricName::ReservedPeak, reserved),
        ]),
    )
}
