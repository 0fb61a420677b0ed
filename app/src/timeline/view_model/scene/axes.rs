//! Grid, tick labels and the axis lines.

use super::super::frame::Frame;
use super::super::num::{from_usize, to_index};
use super::super::ticks::{byte_ticks, x_ticks};
use super::super::view::Axis;
use super::{Anchor, Ink, Mark, Op, SMALL, Style};

const Y_GAP: f64 = 34.0;

/// Lines behind the stack.
pub(super) fn grid(marks: &mut Vec<Mark>, frame: &Frame, style: &Style<'_>) {
    let plot = frame.layout.plot;
    let mut path = Vec::new();
    for tick in byte_ticks(&frame.y, style.unit, Y_GAP).ticks {
        let y = tick.px.round() + 0.5;
        path.extend([Op::Move(plot.x, y), Op::Line(plot.right(), y)]);
    }
    marks.push(Mark::Stroke { path, ink: Ink::Grid, alpha: 1.0, width: 1.0, dashed: false });
}

/// Labels of both axes and their lines.
pub(super) fn labels(marks: &mut Vec<Mark>, frame: &Frame, style: &Style<'_>) {
    let plot = frame.layout.plot;
    let text = |at: (f64, f64), text: String, anchor: Anchor| Mark::Text {
        at,
        text,
        ink: Ink::Text,
        size: SMALL,
        anchor,
        bold: false,
    };
    let bytes = byte_ticks(&frame.y, style.unit, Y_GAP);
    for tick in bytes.ticks {
        if tick.px > plot.y + 8.0 {
            marks.push(text(
                (plot.x - 6.0, tick.px.min(plot.bottom() - 5.0)),
                tick.text,
                Anchor::End,
            ));
        }
    }
    marks.push(text((plot.x - 6.0, plot.y - 10.0), bytes.unit.to_owned(), Anchor::End));

    let ticks = x_ticks(&frame.x, if plot.w < 500.0 { 64.0 } else { 84.0 });
    let y = frame.layout.ticks.y + 10.0;
    let mut path = Vec::from([
        Op::Move(plot.x, plot.bottom() + 0.5),
        Op::Line(plot.right(), plot.bottom() + 0.5),
    ]);
    let unit = if frame.x.kind == Axis::Time { ticks.unit } else { "" };
    for tick in ticks.ticks {
        let x = tick.px.round() + 0.5;
        path.extend([Op::Move(x, plot.bottom()), Op::Line(x, plot.bottom() + 4.0)]);
        let label = if unit.is_empty() { tick.text } else { format!("{} {unit}", tick.text) };
        let anchor = if x > plot.right() - 16.0 { Anchor::End } else { Anchor::Middle };
        marks.push(text((x, y), label, anchor));
    }
    marks.push(Mark::Stroke { path, ink: Ink::Axis, alpha: 1.0, width: 1.0, dashed: false });
    broken_base(marks, frame);
}

/// A torn edge where the vertical axis does not start at zero.
fn broken_base(marks: &mut Vec<Mark>, frame: &Frame) {
    let plot = frame.layout.plot;
    if frame.y.low <= 0.0 {
        return;
    }
    let base = plot.bottom() + 1.0;
    let mut path = Vec::from([Op::Move(plot.x, base)]);
    for tooth in 0..to_index(plot.w / 6.0) {
        let x = plot.x + from_usize(tooth) * 6.0;
        path.extend([Op::Line(x + 3.0, base - 4.0), Op::Line(x + 6.0, base)]);
    }
    path.extend([Op::Line(plot.right(), base), Op::Close]);
    marks.push(Mark::Fill { path, ink: Ink::Paper, alpha: 1.0 });
}
