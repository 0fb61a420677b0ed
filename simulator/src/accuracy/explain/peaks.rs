//! Each part of the step on both sides, and what is alive at the two peaks.

use std::collections::BTreeMap;

use crate::wire::capture::CaseCapture;

use super::super::trace::{Span, Trace};
use super::{Layers, Sides, label, mib, mib_between, put};

/// Rows shown of what is alive at a peak.
const ALIVE: usize = 15;

/// Start, end and peak of each part.
pub(super) fn parts(text: &mut String, sides: &Sides<'_>) {
    put(text, format_args!("\nparts, MiB (difference = predicted − measured)"));
    put(
        text,
        format_args!(
            "  {:<10} {:>30} {:>30} {:>30} {:>15} {:>13}",
            "part", "start", "end", "peak", "events", "large allocs"
        ),
    );
    let rows = sides.measured.spans.len().max(sides.predicted.spans.len());
    for row in 0..rows {
        let (left, right) = (sides.measured.spans.get(row), sides.predicted.spans.get(row));
        let name = match (left, right) {
            (Some(left), Some(right)) if left.part == right.part => left.part.word().to_owned(),
            (left, right) => {
                let word = |span: Option<&Span>| span.map_or("–", |span| span.part.word());
                format!("{}/{}", word(left), word(right))
            }
        };
        let column = |of: fn(&Trace, &Span) -> u64| {
            let measured = left.map(|span| of(&sides.measured, span));
            let predicted = right.map(|span| of(&sides.predicted, span));
            match (measured, predicted) {
                (Some(m), Some(p)) => format!("{} {:>14}", mib(m), mib_between(p, m)),
                (Some(m), None) => mib(m),
                (None, p) => format!("predicted {}", mib(p.unwrap_or(0))),
            }
        };
        let count = |span: Option<&Span>| span.map_or(0, |span| span.events.len());
        let large = |span: Option<&Span>, events: &[usize]| {
            events.iter().filter(|event| span.is_some_and(|s| s.events.contains(event))).count()
        };
        put(
            text,
            format_args!(
                "  {name:<10} {:>30} {:>30} {:>30} {:>7}/{:>7} {:>6}/{:>6}",
                column(|trace, span| trace.live[span.events.start]),
                column(|trace, span| trace.live[span.events.end]),
                column(highest),
                count(left),
                count(right),
                large(left, &sides.measured_large),
                large(right, &sides.predicted_large),
            ),
        );
    }
}

fn highest(trace: &Trace, span: &Span) -> u64 {
    trace.live[span.events.start..=span.events.end].iter().copied().max().unwrap_or(0)
}

/// Where the two peaks are, and how the live tensors differ there.
pub(super) fn peaks(text: &mut String, sides: &Sides<'_>, capture: &CaseCapture) {
    let (measured, measured_at) = sides.measured.peak();
    let (predicted, predicted_at) = sides.predicted.peak();
    put(
        text,
        format_args!(
            "\nmeasured peak {} MiB (recorded {}), {}",
            mib(measured),
            mib(capture.peak.traced_step_allocated),
            place(&sides.measured, measured_at),
        ),
    );
    put(
        text,
        format_args!(
            "predicted peak {} MiB ({} MiB), {}",
            mib(predicted),
            mib_between(predicted, measured),
            place(&sides.predicted, predicted_at),
        ),
    );
    if let Some(request) = predicted_at.checked_sub(1).map(|e| sides.predicted.requests[e]) {
        put(text, format_args!("  the last request there: {}", sides.label(&request)));
    }
    alive(text, sides, measured_at, predicted_at);
}

fn place(trace: &Trace, after: usize) -> String {
    let event = after.saturating_sub(1);
    let time_ns = trace.requests.get(event).map_or(0, |request| request.time_ns);
    format!("in {}, event {event}, {} µs", trace.part(event).word(), time_ns / 1000)
}

/// Sizes of this step's requests that are alive on one side only.
fn alive(text: &mut String, sides: &Sides<'_>, measured_at: usize, predicted_at: usize) {
    let measured = live_sizes(&sides.measured, measured_at);
    let predicted = live_sizes(&sides.predicted, predicted_at);
    let mut rows: Vec<(u64, usize, usize)> = measured
        .keys()
        .chain(predicted.keys())
        .map(|size| {
            let count = |side: &BTreeMap<u64, Vec<usize>>| side.get(size).map_or(0, Vec::len);
            (*size, count(&measured), count(&predicted))
        })
        .filter(|(_, left, right)| left != right)
        .collect();
    rows.sort_unstable_by_key(|(size, left, right)| {
        core::cmp::Reverse((size * u64::try_from(left.abs_diff(*right)).unwrap_or(0), *size))
    });
    rows.dedup();
    if rows.is_empty() {
        put(text, format_args!("  the same sizes are alive at both peaks"));
        return;
    }
    put(
        text,
        format_args!("  alive at its own peak, this step's requests: size, measured, predicted"),
    );
    for (size, left, right) in rows.iter().take(ALIVE) {
        let names = predicted.get(size).map_or_else(String::new, |tensors| names(sides, tensors));
        put(
            text,
            format_args!("  {:>14} MiB ({size} B) × {left:>5} {right:>5}  {names}", mib(*size)),
        );
    }
    if ALIVE < rows.len() {
        put(text, format_args!("  … and {} sizes more", rows.len() - ALIVE));
    }
}

/// The tensors of this step that are alive after `end` events, by size.
fn live_sizes(trace: &Trace, end: usize) -> BTreeMap<u64, Vec<usize>> {
    let mut live = BTreeMap::new();
    for request in &trace.requests[..end] {
        let Some(tensor) = request.tensor else { continue };
        if request.is_alloc {
            live.insert(tensor, request.bytes);
        } else {
            live.remove(&tensor);
        }
    }
    let mut sizes: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (tensor, bytes) in live {
        sizes.entry(bytes).or_default().push(tensor);
    }
    sizes
}

/// What the prediction calls these tensors, layers merged.
fn names(sides: &Sides<'_>, tensors: &[usize]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for tensor in tensors {
        *counts.entry(label(sides.timeline, *tensor, Layers::Merged)).or_default() += 1;
    }
    let mut names: Vec<String> =
        counts.iter().take(4).map(|(name, count)| format!("{count}× {name}")).collect();
    if 4 < counts.len() {
        names.push("…".to_owned());
    }
    names.join("; ")
}
