//! Where a prediction and a capture part: parts of the step, peaks, missing and surplus
//! allocations, and tensors that die too early or too late. Text for the one who mends it.

mod lifetimes;
mod peaks;
mod sequence;

use core::fmt::Write as _;

use crate::simulate::Simulation;
use crate::wire::capture::CaseCapture;
use crate::wire::timeline::{NO_LAYER, Timeline};

use super::lcs::{self, Pair};
use super::trace::{LARGE, Request, Trace};

/// How much to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explain {
    /// Smallest request that is looked at.
    pub smallest: u64,
    /// Most places where the sequences part.
    pub places: usize,
    /// Matched allocations shown around each of them.
    pub context: usize,
}

impl Default for Explain {
    fn default() -> Self {
        Self { smallest: LARGE, places: 12, context: 2 }
    }
}

/// Both sides of a comparison, with their large allocations paired.
struct Sides<'a> {
    timeline: &'a Timeline,
    measured: Trace,
    predicted: Trace,
    /// Events of the large allocations.
    measured_large: Vec<usize>,
    predicted_large: Vec<usize>,
    /// Which of them are the same, as positions in the two lists.
    pairs: Vec<Pair>,
}

/// The whole explanation.
pub fn explain(simulation: &Simulation, capture: &CaseCapture, how: Explain) -> String {
    let sides = Sides::of(&simulation.steady, capture, how.smallest);
    let mut text = String::new();
    heading(&mut text, simulation, capture);
    peaks::parts(&mut text, &sides);
    peaks::peaks(&mut text, &sides, capture);
    sequence::differences(&mut text, &sides, how);
    lifetimes::lifetimes(&mut text, &sides, how);
    text
}

impl<'a> Sides<'a> {
    fn of(timeline: &'a Timeline, capture: &CaseCapture, smallest: u64) -> Self {
        let measured = Trace::of_capture(capture);
        let predicted = Trace::of_timeline(timeline);
        let (measured_large, predicted_large) =
            (measured.large(smallest), predicted.large(smallest));
        let sizes = |trace: &Trace, large: &[usize]| {
            large.iter().map(|event| trace.requests[*event].bytes).collect::<Vec<_>>()
        };
        let pairs =
            lcs::pairs(&sizes(&measured, &measured_large), &sizes(&predicted, &predicted_large));
        Self { timeline, measured, predicted, measured_large, predicted_large, pairs }
    }

    /// What the prediction calls the tensor of a request.
    fn label(&self, request: &Request) -> String {
        request
            .tensor
            .map_or_else(String::new, |tensor| label(self.timeline, tensor, Layers::Shown))
    }
}

/// Whether a label tells layers apart.
#[derive(Clone, Copy)]
enum Layers {
    Shown,
    Merged,
}

/// `layer 3 mlp · mul · hidden_states`.
fn label(timeline: &Timeline, tensor: usize, layers: Layers) -> String {
    let word = |column: &[u32]| {
        let index = column.get(tensor).map_or(usize::MAX, |index| *index as usize);
        timeline.labels.get(index).map_or("?", String::as_str)
    };
    let tensors = &timeline.tensors;
    let place = match (tensors.layer.get(tensor), layers) {
        (Some(&layer), Layers::Shown) if layer != NO_LAYER => format!("layer {layer} "),
        (Some(&layer), Layers::Merged) if layer != NO_LAYER => "layer * ".to_owned(),
        _ => String::new(),
    };
    let (block, primitive, name) =
        (word(&tensors.block), word(&tensors.primitive), word(&tensors.name));
    format!("{place}{block} · {primitive} · {name}")
}

fn heading(text: &mut String, simulation: &Simulation, capture: &CaseCapture) {
    put(text, format_args!("{} ({}, {})", capture.id, capture.stack, capture.gpu));
    let parameters = capture.params.total.map_or_else(|| "?".to_owned(), |n| n.to_string());
    put(
        text,
        format_args!(
            "parameters: measured {parameters}, predicted {}; buffers: measured {} B, predicted {} B",
            simulation.report.model.parameters,
            capture.params.buffer_bytes.unwrap_or(0),
            simulation.report.model.buffer_bytes.get(),
        ),
    );
    let base = &simulation.steady.base_bytes;
    put(
        text,
        format_args!(
            "base: measured {} B (counter), predicted {base} B requested + {} B kept by blocks",
            capture.base_alloc,
            Trace::of_timeline(&simulation.steady).live[0] - base,
        ),
    );
}

/// One more line.
fn put(text: &mut String, line: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    if writeln!(text, "{line}").is_err() {
        text.push('\n');
    }
}

/// Bytes in MiB with three decimals, exact enough to tell sizes apart by eye.
fn mib(bytes: u64) -> String {
    let thousandths = u128::from(bytes) * 1000 / (1 << 20);
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

/// A signed difference in MiB.
fn mib_between(predicted: u64, measured: u64) -> String {
    let sign = if predicted < measured { '-' } else { '+' };
    format!("{sign}{}", mib(predicted.abs_diff(measured)))
}
