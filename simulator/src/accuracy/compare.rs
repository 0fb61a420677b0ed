//! One prediction against one capture.

use crate::simulate::Simulation;
use crate::units::Bytes;
use crate::wire::capture::CaseCapture;

use super::lcs;
use super::metric::{Metric, MetricName, Metrics};
use super::trace::{LARGE, Span, Trace};

/// Points at which two curves are compared within a part of the step.
const POINTS: usize = 1000;

/// All numbers that the capture allows.
pub fn compare(simulation: &Simulation, capture: &CaseCapture) -> Metrics {
    let predicted = Trace::of_timeline(&simulation.steady);
    let measured = Trace::of_capture(capture);
    let mut metrics = Metrics::new();
    compare_memory(simulation, capture, predicted.peak().0, &mut metrics);
    compare_times(simulation, capture, &mut metrics);
    let matched = events_matched_pct(&predicted, &measured);
    metrics.insert(MetricName::EventsMatchedPct, Metric::alone(matched));
    let peak = capture.peak.traced_step_allocated;
    metrics
        .insert(MetricName::CurveGapPct, Metric::alone(curve_gap_pct(&predicted, &measured, peak)));
    metrics
}

fn compare_memory(
    simulation: &Simulation,
    capture: &CaseCapture,
    predicted_peak: u64,
    metrics: &mut Metrics,
) {
    let bytes = |count: u64| Bytes::new(count).as_f64();
    let peak = &capture.peak;
    metrics.insert(
        MetricName::AllocatedPeak,
        Metric::against(bytes(predicted_peak), bytes(peak.traced_step_allocated)),
    );
    let Some(reserved) = peak.reserved else { return };
    let predicted = simulation.report.steady.peak_reserved_bytes;
    let metric = Metric::against(predicted.as_f64(), bytes(reserved));
    metrics.insert(MetricName::ReservedPeak, metric);
    let Some(outside) = capture.outside_pool_bytes else { return };
    let predicted = simulation.report.verdict.device_peak_bytes;
    let metric = Metric::against(predicted.as_f64(), bytes(reserved + outside));
    metrics.insert(MetricName::DevicePeak, metric);
}

/// Times by CUDA events. With accumulation the program's events split only the last micro-batch,
/// so that only the whole step can be compared.
fn compare_times(simulation: &Simulation, capture: &CaseCapture, metrics: &mut Metrics) {
    let accumulates = capture.case.get("grad_accum").is_some_and(|count| count.as_u64() != Some(1));
    let predicted = &simulation.report.steady.time;
    let measured = &capture.time_ms;
    let mut insert = |name, seconds: f64, milliseconds: Option<f64>| {
        if let Some(milliseconds) = milliseconds {
            metrics.insert(name, Metric::against(seconds, milliseconds / 1000.0));
        }
    };
    insert(MetricName::StepTime, predicted.step_s, measured.step);
    if !accumulates {
        insert(MetricName::ForwardTime, predicted.forward_s, measured.fwd);
        insert(MetricName::BackwardTime, predicted.backward_s, measured.bwd);
        insert(MetricName::OptimizerTime, predicted.optimizer_s, measured.opt);
    }
}

/// 100·LCS/max(n, m) over the sequences of requested sizes of 1 MiB and more.
pub fn events_matched_pct(predicted: &Trace, measured: &Trace) -> f64 {
    let left = sizes(measured);
    let right = sizes(predicted);
    let longest = left.len().max(right.len());
    if longest == 0 { 100.0 } else { 100.0 * ratio(lcs::length(&left, &right), longest) }
}

/// Mean |difference| of the two curves at 1,000 equal steps of event index within each part of
/// the step, over the measured peak, in %.
///
/// Parts are compared pairwise; when the two sides have different parts, each side is one part.
pub fn curve_gap_pct(predicted: &Trace, measured: &Trace, peak: u64) -> f64 {
    let parts = |trace: &Trace| trace.spans.iter().map(|span| span.part).collect::<Vec<_>>();
    let whole = |trace: &Trace| {
        let part = super::trace::Part::Rest;
        Vec::from([Span { part, events: 0..trace.requests.len() }])
    };
    let (left, right) = if parts(predicted) == parts(measured) {
        (predicted.spans.clone(), measured.spans.clone())
    } else {
        (whole(predicted), whole(measured))
    };
    let mut sum: u128 = 0;
    for (left, right) in left.iter().zip(&right) {
        for step in 1..=POINTS {
            let at = |span: &Span, trace: &Trace| {
                trace.live[span.events.start + span.events.len() * step / POINTS]
            };
            sum += u128::from(at(left, predicted).abs_diff(at(right, measured)));
        }
    }
    let points = left.len().max(1) * POINTS;
    100.0 * to_f64(sum) / (ratio(points, 1) * Bytes::new(peak.max(1)).as_f64())
}

fn sizes(trace: &Trace) -> Vec<u64> {
    trace.large(LARGE).into_iter().map(|event| trace.requests[event].bytes).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts of events stay far below 2^53")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

#[expect(clippy::cast_precision_loss, reason = "a mean gap needs no more than 53 bits")]
fn to_f64(sum: u128) -> f64 {
    sum as f64
}
