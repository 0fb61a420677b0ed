//! The strip of phases above the plot, with the longest label that fits.

use simulator::wire::timeline::PhaseKind;

use super::super::curves::Curves;
use super::super::frame::Frame;
use super::super::layout::Area;
use super::{Anchor, Ink, Mark, Op, SMALL, Style, rect};
use crate::timeline::words::fill;

/// A phase, or a micro-batch whose phases are too narrow, on the axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stretch {
    x0: f64,
    x1: f64,
    text: String,
}

/// Phases in sight, as pixels.
fn spans(curves: &Curves, frame: &Frame) -> Vec<(usize, f64, f64)> {
    let plot = frame.layout.plot;
    let unit = |event: u32| frame.x.unit_of_state(curves, event as usize + 1);
    let mut spans = Vec::new();
    for (index, phase) in curves.timeline().phases.iter().enumerate() {
        // The first phase begins with the step, and the last lasts until the next step.
        let start = if index == 0 { frame.x.limits.0 } else { unit(phase.first_event) };
        let is_last = index + 1 == curves.timeline().phases.len();
        let end = if is_last { frame.x.limits.1 } else { unit(phase.end_event) };
        let (x0, x1) = (frame.x.px(start).max(plot.x), frame.x.px(end).min(plot.right()));
        if x0 < x1 {
            spans.push((index, x0, x1));
        }
    }
    spans
}

/// Whether each micro-batch has a phase of this kind.
fn is_repeated(curves: &Curves, kind: PhaseKind) -> bool {
    curves.timeline().phases.iter().any(|phase| phase.kind == kind && phase.micro_batch > 0)
}

/// Names the phases; where none of a micro-batch's names fits, names the micro-batch.
pub(super) fn labels(curves: &Curves, frame: &Frame, style: &Style<'_>) -> Vec<Stretch> {
    let phases = &curves.timeline().phases;
    let spans = spans(curves, frame);
    let mut stretches = Vec::new();
    for group in spans.chunk_by(|a, b| phases[a.0].micro_batch == phases[b.0].micro_batch) {
        let before = stretches.len();
        for &(index, x0, x1) in group {
            let phase = &phases[index];
            let number = format!("\u{2009}{}", phase.micro_batch + 1);
            let suffix = if is_repeated(curves, phase.kind) { number.as_str() } else { "" };
            let long = format!("{}{suffix}", style.words.phase(phase.kind));
            let short = format!("{}{suffix}", style.words.phase_short(phase.kind));
            let fits = |text: &String| (style.measure)(text, SMALL, false) + 8.0 <= x1 - x0;
            if let Some(text) = [long, short].into_iter().find(fits) {
                stretches.push(Stretch { x0, x1, text });
            }
        }
        let repeats = group.iter().any(|&(index, ..)| is_repeated(curves, phases[index].kind));
        if let ([first, .., last], true) = (group, repeats && stretches.len() == before) {
            let number = (phases[first.0].micro_batch + 1).to_string();
            let stretch = Stretch { x0: first.1, x1: last.2, text: number.clone() };
            let long = fill(style.words.micro_batch, &[&number]);
            let width = stretch.x1 - stretch.x0;
            if (style.measure)(&long, SMALL, false) + 8.0 <= width {
                stretches.push(Stretch { text: long, ..stretch });
            } else if (style.measure)(&number, SMALL, false) + 4.0 <= width {
                stretches.push(stretch);
            }
        }
    }
    stretches
}

/// The strip.
pub(super) fn strip(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, style: &Style<'_>) {
    let area = frame.layout.phases;
    let mut shaded = Vec::new();
    for (index, x0, x1) in spans(curves, frame) {
        let inset = Area { x: x0, y: area.y + 1.0, w: (x1 - x0 - 1.0).max(0.5), h: area.h - 3.0 };
        if curves.timeline().phases[index].kind as usize % 2 == 1 {
            shaded.push(Op::Rect(inset));
        } else {
            marks.push(Mark::Fill { path: rect(inset), ink: Ink::Phase, alpha: 0.55 });
        }
    }
    marks.push(Mark::Fill { path: shaded, ink: Ink::Phase, alpha: 1.0 });
    for stretch in labels(curves, frame, style) {
        marks.push(Mark::Text {
            at: (f64::midpoint(stretch.x0, stretch.x1), area.y + area.h / 2.0),
            text: stretch.text,
            ink: Ink::Text,
            size: SMALL,
            anchor: Anchor::Middle,
            bold: false,
        });
    }
}

/// Thin lines down the plot where phases meet.
pub(super) fn boundaries(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame) {
    let plot = frame.layout.plot;
    let spans = spans(curves, frame);
    if spans.len() > 40 {
        return;
    }
    let mut path = Vec::new();
    for &(_, x0, _) in spans.iter().skip(1) {
        let x = x0.round() + 0.5;
        path.extend([Op::Move(x, plot.y), Op::Line(x, plot.bottom())]);
    }
    marks.push(Mark::Stroke { path, ink: Ink::Outline, alpha: 0.35, width: 1.0, dashed: true });
}
