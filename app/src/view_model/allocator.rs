//! From what the program requests to what the driver shows, one number a line, for both steps.

use simulator::wire::report::{Report, StepKind, StepReport};

use crate::words::Tables;

/// One line of the allocator's table.
pub(crate) struct Line {
    pub name: fn(&Tables) -> &'static str,
    pub help: fn(&Tables) -> &'static str,
    pub values: [Value; 2],
    /// Whether it is the sum of what stands above.
    pub is_total: bool,
}

/// What stands in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Bytes(u64),
    Count(u64),
    /// Not said for this step.
    Nothing,
}

type Word = fn(&Tables) -> &'static str;

/// The lines, for the first and the steady step.
pub(crate) fn lines(report: &Report, outside: [u64; 2]) -> Vec<Line> {
    let steps = [&report.first, &report.steady];
    let already = report.scenario.hardware.already_used_bytes;
    let line =
        |name: Word, help: Word, values: [Value; 2]| Line { name, help, values, is_total: false };
    let bytes =
        |get: fn(&StepReport) -> simulator::units::Bytes| steps.map(|s| Value::Bytes(get(s).get()));
    let mut lines = Vec::from([
        line(|w| w.base, |w| w.base_help, bytes(|s| s.base_bytes)),
        line(|w| w.requested, |w| w.requested_help, bytes(|s| s.peak_requested_bytes)),
        line(|w| w.allocated, |w| w.allocated_help, bytes(|s| s.peak_allocated_bytes)),
        line(|w| w.reserved, |w| w.reserved_help, bytes(|s| s.peak_reserved_bytes)),
        line(|w| w.outside, |w| w.outside_help, outside.map(Value::Bytes)),
    ]);
    if 0 < already {
        lines.push(line(|w| w.already, |w| w.already_help, [Value::Bytes(already); 2]));
    }
    let device = Value::Bytes(report.verdict.device_peak_bytes.get());
    let values = match report.verdict.step {
        StepKind::First => [device, Value::Nothing],
        StepKind::Steady => [Value::Nothing, device],
    };
    lines.push(Line { name: |w| w.device, help: |w| w.device_help, values, is_total: true });
    let allocations = steps.map(|s| Value::Count(s.allocations));
    lines.push(line(|w| w.allocations, |w| w.allocations_help, allocations));
    lines
}
