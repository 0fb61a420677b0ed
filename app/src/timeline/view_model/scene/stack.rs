//! The stack itself: memory outside the pool, bands, slack, strata.

use super::super::band::Band;
use super::super::columns::Column;
use super::super::curves::Curves;
use super::super::frame::{Frame, Tops, top_of};
use super::super::layout::Area;
use super::super::num::to_u64;
use super::super::strata::{Threshold, strata};
use super::{Ink, Mark, Op, rect, snap};

/// What is reserved, down to the stack, which covers the rest: to fill that too would cost as much as
/// all the bands.
pub(super) fn slack(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame) {
    let (floor, base) = (curves.floor_bytes(), frame.layout.plot.bottom());
    let reserved = edge(frame, |column, _| floor + column.high_reserved);
    let stack = edge(frame, |_, tops| tops[tops.len() - 1]);
    let path = between(&reserved, &stack, base);
    marks.push(Mark::Fill { path: path.clone(), ink: Ink::Slack, alpha: 0.3 });
    marks.push(Mark::Hatch { path, ink: Ink::Hatch, alpha: 0.38 });
    let path = open(&reserved);
    marks.push(Mark::Stroke { path, ink: Ink::Hatch, alpha: 0.9, width: 1.0, dashed: false });
}

/// Paints the stack from the top band to the bottom one, each a little below its lower edge: what lies
/// lower covers that, and no seam is left. Down to the base it would paint most pixels many times.
pub(super) fn stack(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame) {
    let base = frame.layout.plot.bottom();
    for band in Band::ALL.into_iter().rev() {
        if !has_band(frame, band) {
            continue;
        }
        let top = edge(frame, |_, tops| top_of(tops, band));
        let bottom = edge(frame, |_, tops| tops[band.index()]);
        let path = between(&top, &bottom, base);
        marks.push(Mark::Fill { path, ink: Ink::Band(band), alpha: 1.0 });
    }
    outside_pool(marks, curves, frame);
    veil(marks, curves, frame);
    lines_between_tensors(marks, curves, frame);
}

fn has_band(frame: &Frame, band: Band) -> bool {
    let index = band.index();
    frame.tops.iter().any(|tops| tops[index] < tops[index + 1])
}

/// A stepped line over the columns; equal heights are merged.
pub(super) fn edge(frame: &Frame, bytes: impl Fn(&Column, &Tops) -> u64) -> Vec<(f64, f64)> {
    let px_ratio = frame.layout.surface.px_ratio;
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(frame.columns.len());
    for (column, tops) in frame.columns.iter().zip(&frame.tops) {
        let y = snap(frame.y.px_of(bytes(column, tops)), px_ratio);
        match points.last_mut() {
            #[expect(clippy::float_cmp, reason = "both are snapped to the same grid")]
            Some(last) if last.1 == y => last.0 = column.x1,
            _ => {
                points.push((column.x0, y));
                points.push((column.x1, y));
            }
        }
    }
    points
}

pub(super) fn open(points: &[(f64, f64)]) -> Vec<Op> {
    let mut ops = Vec::with_capacity(points.len());
    for (index, &(x, y)) in points.iter().enumerate() {
        ops.push(if index == 0 { Op::Move(x, y) } else { Op::Line(x, y) });
    }
    ops
}

/// The area between a stepped line and a level one.
pub(super) fn under(points: &[(f64, f64)], base: f64) -> Vec<Op> {
    let mut ops = open(points);
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        ops.extend([Op::Line(last.0, base), Op::Line(first.0, base), Op::Close]);
    }
    ops
}

/// The area between two stepped lines, the lower one shifted down a little but not below the base.
fn between(top: &[(f64, f64)], bottom: &[(f64, f64)], base: f64) -> Vec<Op> {
    const OVERLAP: f64 = 2.0;
    let mut ops = open(top);
    ops.extend(bottom.iter().rev().map(|&(x, y)| Op::Line(x, (y + OVERLAP).min(base))));
    ops.push(Op::Close);
    ops
}

fn outside_pool(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame) {
    let plot = frame.layout.plot;
    let slice = |from: u64, to: u64| {
        let (top, bottom) = (frame.y.px_of(to), frame.y.px_of(from).min(plot.bottom()));
        rect(Area { x: plot.x, y: top, w: plot.w, h: (bottom - top).max(0.0) })
    };
    let used = curves.data.already_used_bytes;
    let path = slice(0, curves.floor_bytes());
    marks.push(Mark::Fill { path, ink: Ink::OutsidePool, alpha: 1.0 });
    if used > 0 {
        marks.push(Mark::Hatch { path: slice(0, used), ink: Ink::Paper, alpha: 0.45 });
    }
}

/// Where a column stands for several states, its bytes above the lowest of them are veiled.
fn veil(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame) {
    let floor = curves.floor_bytes();
    let mut path = Vec::new();
    for column in &frame.columns {
        let high = frame.y.px_of(floor + curves.live(column.state));
        let low = frame.y.px_of(floor + column.low_live);
        if low - high >= 1.0 {
            let w = column.x1 - column.x0;
            path.push(Op::Rect(Area { x: column.x0, y: high, w, h: low - high }));
        }
    }
    if !path.is_empty() {
        marks.push(Mark::Fill { path, ink: Ink::Paper, alpha: 0.38 });
    }
}

fn lines_between_tensors(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame) {
    let threshold = Threshold { bytes: to_u64(frame.y.bytes_per_px() * 2.5).max(1), width: 3.0 };
    let px_ratio = frame.layout.surface.px_ratio;
    let mut path = Vec::new();
    for edge in strata(curves, &frame.columns, threshold) {
        for (index, &(x, bytes)) in edge.iter().enumerate() {
            // Half a device pixel down: the hairline then covers one row of pixels.
            let y = snap(frame.y.px_of(bytes), px_ratio) + 0.5 / px_ratio;
            path.push(if index == 0 { Op::Move(x, y) } else { Op::Line(x, y) });
        }
    }
    if !path.is_empty() {
        let width = 1.0 / px_ratio;
        marks.push(Mark::Stroke { path, ink: Ink::Paper, alpha: 0.42, width, dashed: false });
    }
}
