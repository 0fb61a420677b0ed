//! What the stack is held against: error band, headroom, capacity, and the peak itself.

use super::super::curves::Curves;
use super::super::frame::Frame;
use super::super::layout::Area;
use super::plates::Plates;
use super::stack::{edge, open};
use super::{Ink, Mark, Op, Style, line, rect, snap};
use crate::format::size;
use crate::timeline::words::fill;

/// Error band, headroom, capacity and peak.
pub(super) fn limits(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, style: &Style<'_>) {
    headroom(marks, curves, frame);
    error_band(marks, curves, frame);
    let mut plates = Plates::new(frame.layout.plot, style);
    capacity(marks, curves, frame, &mut plates);
    peak(marks, curves, frame, &mut plates);
    device_peak(marks, curves, frame, &mut plates);
}

/// The most that the device shows in this step.
fn held_bytes(curves: &Curves) -> u64 {
    curves.floor_bytes() + curves.extremes(0..=curves.n_states() - 1).high_reserved
}

/// Room between the step's highest point and the capacity.
fn headroom(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame) {
    let plot = frame.layout.plot;
    let top = frame.y.px_of(curves.data.capacity_bytes).max(plot.y);
    let bottom = frame.y.px_of(held_bytes(curves)).min(plot.bottom());
    if top < bottom {
        let room = Area { y: top, h: bottom - top, ..plot };
        marks.push(Mark::Fill { path: rect(room), ink: Ink::Free, alpha: 0.07 });
    }
}

fn error_band(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame) {
    let (floor, band) = (curves.floor_bytes(), curves.data.band_bytes);
    if band == 0 {
        return;
    }
    let upper = edge(frame, |column, _| floor + column.high_reserved + band);
    let lower = edge(frame, |column, _| (floor + column.high_reserved).saturating_sub(band));
    let mut path = open(&upper);
    path.extend(lower.iter().rev().map(|&(x, y)| Op::Line(x, y)));
    path.push(Op::Close);
    marks.push(Mark::Fill { path, ink: Ink::ErrorBand, alpha: 0.16 });
}

fn capacity(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, plates: &mut Plates<'_>) {
    let plot = frame.layout.plot;
    let y = snap(frame.y.px_of(curves.data.capacity_bytes), frame.layout.surface.px_ratio);
    let style = plates.style();
    let label = fill(style.words.capacity, &[&size(curves.data.capacity_bytes, style.unit)]);
    if y < plot.y {
        // Out of sight: say where it is.
        let text = format!("{label} \u{2191}");
        return plates.put(marks, text, Ink::Capacity, &[(f64::INFINITY, plot.y)]);
    }
    if y > plot.bottom() {
        return;
    }
    let above = Area { h: y - plot.y, ..plot };
    let held = Area { y: frame.y.px_of(held_bytes(curves)).max(plot.y), ..above };
    if held.y < y {
        let too_much = rect(Area { h: y - held.y, ..held });
        marks.push(Mark::Fill { path: too_much, ink: Ink::Capacity, alpha: 0.16 });
    }
    marks.push(Mark::Hatch { path: rect(above), ink: Ink::Capacity, alpha: 0.28 });
    let path = line((plot.x, y), (plot.right(), y));
    marks.push(Mark::Stroke { path, ink: Ink::Capacity, alpha: 1.0, width: 1.5, dashed: false });
    plates.put(marks, label, Ink::Capacity, &[(f64::INFINITY, y + 11.0)]);
}

fn peak(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, plates: &mut Plates<'_>) {
    let event = curves.data.peak_event;
    let Some(x) = frame.px_of_event(curves, event) else { return };
    let state = (event as usize + 1).min(curves.n_states() - 1);
    let y = frame.y.px_of(curves.floor_bytes() + curves.live(state));
    let plot = frame.layout.plot;
    if y < plot.y || plot.bottom() < y {
        return;
    }
    let arrow = Vec::from([
        Op::Move(x, y),
        Op::Line(x - 4.5, y - 8.0),
        Op::Line(x + 4.5, y - 8.0),
        Op::Close,
    ]);
    marks.push(Mark::Fill { path: arrow, ink: Ink::Outline, alpha: 1.0 });
    let style = plates.style();
    let text = fill(style.words.peak, &[&size(curves.live(state), style.unit)]);
    let w = (style.measure)(&text, super::SMALL, true) + 10.0;
    // Beside the arrow, away from the plot's edge.
    let left = (x - w - 8.0, y + 6.0);
    let right = (x + 8.0, y + 6.0);
    let candidates = if x + 8.0 + w < plot.right() { [right, left] } else { [left, right] };
    // Lower where the capacity's name is in the way.
    let lower = candidates.map(|(x, y)| (x, y + 20.0));
    plates.put(marks, text, Ink::Outline, [candidates, lower].as_flattened());
}

/// The line's name, and the room above it or what it lacks.
fn device_peak(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, plates: &mut Plates<'_>) {
    let plot = frame.layout.plot;
    let held = held_bytes(curves);
    let capacity = curves.data.capacity_bytes;
    let y = frame.y.px_of(held);
    if plot.bottom() < y {
        return;
    }
    let style = plates.style();
    let on_device = fill(style.words.on_device, &[&size(held, style.unit)]);
    let (rest, ink) = if capacity < held {
        (fill(style.words.over, &[&size(held - capacity, style.unit)]), Ink::Capacity)
    } else {
        (fill(style.words.free, &[&size(capacity - held, style.unit)]), Ink::Text)
    };
    let arrow = if y < plot.y { " \u{2191}" } else { "" };
    let text = format!("{on_device} · {rest}{arrow}");
    let y = y.max(plot.y);
    // Above the line, else below it, left or right, until nothing is covered.
    let rows = [-11.0, 12.0, 30.0, 48.0].map(|by| y + by);
    let candidates = rows.map(|row| [(plot.x, row), (f64::INFINITY, row)]);
    plates.put(marks, text, ink, candidates.as_flattened());
}
