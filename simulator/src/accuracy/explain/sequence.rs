//! The two sequences of large allocations side by side, where they part.

use core::ops::Range;
use std::collections::BTreeMap;

use super::{Explain, Layers, Sides, label, mib, put};

/// A stretch between two matched allocations that is not the same on both sides.
struct Place {
    measured: Range<usize>,
    predicted: Range<usize>,
}

/// Counts, sizes that are missing or surplus, and the first places.
pub(super) fn differences(text: &mut String, sides: &Sides<'_>, how: Explain) {
    let (left, right) = (sides.measured_large.len(), sides.predicted_large.len());
    let places = places(sides);
    put(
        text,
        format_args!(
            "\nallocations of {} B and more: measured {left}, predicted {right}, in common {} \
             ({} places where they part)",
            how.smallest,
            sides.pairs.len(),
            places.len(),
        ),
    );
    unmatched(text, sides, &places);
    for place in places.iter().take(how.places) {
        show(text, sides, place, how.context);
    }
    if how.places < places.len() {
        put(text, format_args!("… and {} places more", places.len() - how.places));
    }
}

fn places(sides: &Sides<'_>) -> Vec<Place> {
    let mut places = Vec::new();
    let (mut left, mut right) = (0, 0);
    let ends = (sides.measured_large.len(), sides.predicted_large.len());
    let stops = sides.pairs.iter().map(|pair| (pair.left, pair.right)).chain([ends]);
    for (next_left, next_right) in stops {
        if left < next_left || right < next_right {
            places.push(Place { measured: left..next_left, predicted: right..next_right });
        }
        (left, right) = (next_left + 1, next_right + 1);
    }
    places
}

/// Sizes without a partner, per part of the step.
fn unmatched(text: &mut String, sides: &Sides<'_>, places: &[Place]) {
    let mut rows: BTreeMap<(usize, u64, String), [usize; 2]> = BTreeMap::new();
    for place in places {
        for position in place.measured.clone() {
            let event = sides.measured_large[position];
            let key =
                (part_order(sides, event), sides.measured.requests[event].bytes, String::new());
            rows.entry(key).or_default()[0] += 1;
        }
        for position in place.predicted.clone() {
            let event = sides.predicted_large[position];
            let request = sides.predicted.requests[event];
            let tensor = request.tensor.unwrap_or(usize::MAX);
            let name = label(sides.timeline, tensor, Layers::Merged);
            let part = sides.predicted.part(event) as usize;
            rows.entry((part, request.bytes, name)).or_default()[1] += 1;
        }
    }
    for ((part, size, name), [missing, surplus]) in &rows {
        let part = super::super::trace::Part::ALL[*part].word();
        let what = if *missing == 0 { "surplus" } else { "missing" };
        put(
            text,
            format_args!(
                "  {what} {:>5} × {:>12} MiB ({size} B) in {part} {name}",
                missing + surplus,
                mib(*size)
            ),
        );
    }
}

fn part_order(sides: &Sides<'_>, event: usize) -> usize {
    sides.measured.part(event) as usize
}

fn show(text: &mut String, sides: &Sides<'_>, place: &Place, context: usize) {
    let first = place.measured.start.saturating_sub(context);
    let event = sides
        .measured_large
        .get(place.measured.start)
        .or_else(|| sides.measured_large.last())
        .copied()
        .unwrap_or(0);
    let time_us = sides.measured.requests.get(event).map_or(0, |r| r.time_ns / 1000);
    let part = sides.measured.part(event).word();
    put(
        text,
        format_args!(
            "@ measured {} / predicted {} ({part}, {time_us} µs)",
            place.measured.start, place.predicted.start
        ),
    );
    for offset in (1..=place.measured.start - first).rev() {
        if offset <= place.predicted.start {
            matched(text, sides, place.measured.start - offset, place.predicted.start - offset);
        }
    }
    for position in place.measured.clone() {
        let request = sides.measured.requests[sides.measured_large[position]];
        put(text, format_args!("  - {:>12} MiB  {:>12} B", mib(request.bytes), request.bytes));
    }
    for position in place.predicted.clone() {
        let request = sides.predicted.requests[sides.predicted_large[position]];
        put(
            text,
            format_args!(
                "  + {:>12} MiB  {:>12} B  {}",
                mib(request.bytes),
                request.bytes,
                sides.label(&request)
            ),
        );
    }
    for offset in 0..context {
        matched(text, sides, place.measured.end + offset, place.predicted.end + offset);
    }
}

/// A line of context; nothing where the two positions hold different sizes.
fn matched(text: &mut String, sides: &Sides<'_>, measured: usize, predicted: usize) {
    let (Some(left), Some(right)) =
        (sides.measured_large.get(measured), sides.predicted_large.get(predicted))
    else {
        return;
    };
    let (left, right) = (sides.measured.requests[*left], sides.predicted.requests[*right]);
    if left.bytes == right.bytes {
        put(
            text,
            format_args!(
                "    {:>12} MiB  {:>12} B  {}",
                mib(left.bytes),
                left.bytes,
                sides.label(&right)
            ),
        );
    }
}
