//! The whole step, small, with its own vertical scale; a brush marks the window.

use super::super::axis::YAxis;
use super::super::band::Band;
use super::super::columns::columns;
use super::super::curves::Curves;
use super::super::frame::Frame;
use super::super::layout::Area;
use super::super::num::from_u64;
use super::super::view::View;
use super::{Ink, Mark, Op, rect};

/// Bands drawn in the minimap, by their upper edge; activations as one.
const EDGES: [(Band, Band); 6] = [
    (Band::Temporaries, Band::Temporaries),
    (Band::Logits, Band::Logits),
    (Band::OtherActivations, Band::AttentionActivations),
    (Band::Inputs, Band::Gradients),
    (Band::OptimizerStates, Band::OptimizerStates),
    (Band::Weights, Band::Weights),
];

/// The minimap and its brush.
pub(super) fn minimap(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, view: &View) {
    let area = frame.layout.minimap;
    marks.push(Mark::Fill { path: rect(area), ink: Ink::Phase, alpha: 0.8 });
    let axis = frame.layout.minimap_axis(curves, view.axis);
    let columns = columns(curves, &axis, 1.0);
    let peak = curves.live(curves.peak_state());
    // From the lowest state's height on: the shape of the step, not its base.
    let low = columns.iter().map(|column| column.low_live).min().unwrap_or_default();
    let low = (from_u64(low) - from_u64(peak - low) * 0.25).max(0.0);
    let y = YAxis {
        top: area.y + 2.0,
        bottom: area.bottom(),
        low,
        high: from_u64(peak).max(low + 1.0),
    };
    let bands: Vec<_> = columns.iter().map(|column| curves.bands(column.state)).collect();
    marks.push(Mark::Clip(area));
    for (upto, ink) in EDGES {
        let mut path = Vec::with_capacity(columns.len() * 2 + 3);
        path.push(Op::Move(area.x, area.bottom()));
        for (column, bands) in columns.iter().zip(&bands) {
            let bytes: u64 = bands[..=upto.index()].iter().sum();
            let top = y.px_of(bytes).min(area.bottom()).round();
            path.extend([Op::Line(column.x0, top), Op::Line(column.x1, top)]);
        }
        path.extend([Op::Line(area.right(), area.bottom()), Op::Close]);
        marks.push(Mark::Fill { path, ink: Ink::Band(ink), alpha: 0.9 });
    }
    brush(marks, curves, frame, view);
    marks.push(Mark::Unclip);
}

/// Left and right edge of the window in the minimap.
pub fn brush_px(curves: &Curves, frame: &Frame, view: &View) -> (f64, f64) {
    let axis = frame.layout.minimap_axis(curves, view.axis);
    (axis.px(frame.x.start), axis.px(frame.x.end))
}

fn brush(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, view: &View) {
    let area = frame.layout.minimap;
    let (x0, x1) = brush_px(curves, frame, view);
    let (x0, x1) = (x0, x1.max(x0 + 2.0));
    let is_whole = frame.x.start <= frame.x.limits.0 && frame.x.limits.1 <= frame.x.end;
    if is_whole {
        return handles(marks, area, (x0 + 2.0, x1 - 2.0), 0.45);
    }
    let outside = Vec::from([
        Op::Rect(Area { w: x0 - area.x, ..area }),
        Op::Rect(Area { x: x1, w: area.right() - x1, ..area }),
    ]);
    marks.push(Mark::Fill { path: outside, ink: Ink::Paper, alpha: 0.68 });
    let window = Area { x: x0, w: x1 - x0, ..area };
    marks.push(Mark::Stroke {
        path: rect(Area { y: window.y + 0.75, h: window.h - 1.5, ..window }),
        ink: Ink::Selection,
        alpha: 1.0,
        width: 1.5,
        dashed: false,
    });
    handles(marks, area, (x0, x1), 1.0);
}

/// What to grab at both edges of the window.
fn handles(marks: &mut Vec<Mark>, area: Area, (x0, x1): (f64, f64), alpha: f64) {
    let inset = area.h / 4.0;
    let handle =
        |x: f64| Op::Rect(Area { x: x - 2.0, y: area.y + inset, w: 4.0, h: area.h - 2.0 * inset });
    let path = Vec::from([handle(x0), handle(x1)]);
    marks.push(Mark::Fill { path, ink: Ink::Selection, alpha });
}
