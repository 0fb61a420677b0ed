//! The layer above: cursor, lit tensors, selection. Redrawn alone while the pointer moves.

use super::super::band::Band;
use super::super::curves::Curves;
use super::super::frame::Frame;
use super::super::layout::Area;
use super::super::live::{Slab, slabs};
use super::super::view::View;
use super::stack::{edge, under};
use super::{Ink, Mark, Op, rect};

/// What stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Marked {
    /// Tensor under the pointer, or of a row of the table.
    pub hovered: Option<u32>,
    /// Kernel under the pointer.
    pub work: Option<usize>,
    /// Band whose entry in the legend is under the pointer.
    pub band: Option<Band>,
}

/// The overlay.
pub fn overlay(curves: &Curves, frame: &Frame, view: &View, marked: Marked) -> Vec<Mark> {
    let mut marks = Vec::new();
    let plot = frame.layout.plot;
    marks.push(Mark::Clip(plot));
    selection(&mut marks, curves, frame, view);
    if let Some(band) = marked.band {
        light_band(&mut marks, frame, band);
    }
    let lit = |tensor: Option<u32>| tensor.filter(|&tensor| curves.has_tensor(tensor));
    if let Some(tensor) = lit(view.pinned) {
        light(&mut marks, curves, frame, tensor, 0.38);
    }
    if let Some(tensor) = lit(marked.hovered).filter(|&tensor| Some(tensor) != view.pinned) {
        light(&mut marks, curves, frame, tensor, 0.0);
    }
    marks.push(Mark::Unclip);
    cursor(&mut marks, curves, frame, view);
    kernel(&mut marks, curves, frame, marked.work);
    marks
}

/// A tensor as its own band; with a veil, everything else steps back.
fn light(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, tensor: u32, veil: f64) {
    let bytes = curves.bytes(tensor);
    let boxes: Vec<Area> = slabs(curves, &frame.columns, tensor)
        .into_iter()
        .map(|slab| slab_box(frame, slab, bytes))
        .collect();
    let path: Vec<Op> = boxes.iter().copied().map(Op::Rect).collect();
    if veil > 0.0 {
        marks.push(Mark::Fill { path: rect(frame.layout.plot), ink: Ink::Paper, alpha: veil });
    }
    let ink = Ink::Band(curves.band(tensor));
    marks.push(Mark::Fill { path: path.clone(), ink, alpha: 1.0 });
    if veil <= 0.0 {
        marks.push(Mark::Fill { path, ink: Ink::Paper, alpha: 0.28 });
    }
    marks.push(Mark::Stroke {
        path: outline(&boxes),
        ink: Ink::Outline,
        alpha: 1.0,
        width: 1.25,
        dashed: false,
    });
}

/// A whole band: everything below and above it steps back.
fn light_band(marks: &mut Vec<Mark>, frame: &Frame, band: Band) {
    let plot = frame.layout.plot;
    let index = band.index();
    let upper = edge(frame, |_, tops| tops[index + 1]);
    let lower = edge(frame, |_, tops| tops[index]);
    let mut path = under(&lower, plot.bottom());
    path.extend(under(&upper, plot.y));
    marks.push(Mark::Fill { path, ink: Ink::Paper, alpha: 0.6 });
}

fn slab_box(frame: &Frame, slab: Slab, bytes: u64) -> Area {
    let top = frame.y.px_of(slab.below + bytes);
    let bottom = frame.y.px_of(slab.below);
    // A tensor thinner than two pixels is drawn two pixels high, so that it can be found.
    let h = (bottom - top).max(2.0);
    Area { x: slab.x0, y: bottom - h, w: slab.x1 - slab.x0, h }
}

fn outline(boxes: &[Area]) -> Vec<Op> {
    let mut ops = Vec::with_capacity(boxes.len() * 4 + 1);
    for (index, area) in boxes.iter().enumerate() {
        ops.push(if index == 0 { Op::Move(area.x, area.y) } else { Op::Line(area.x, area.y) });
        ops.push(Op::Line(area.right(), area.y));
    }
    for area in boxes.iter().rev() {
        ops.push(Op::Line(area.right(), area.bottom()));
        ops.push(Op::Line(area.x, area.bottom()));
    }
    ops.push(Op::Close);
    ops
}

fn cursor(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, view: &View) {
    let Some(event) = view.cursor_event else { return };
    let Some(x) = frame.px_of_event(curves, event) else { return };
    let layout = &frame.layout;
    let bottom = layout.compute.map_or(layout.plot.bottom(), |area| area.bottom());
    let x = x.floor() + 0.5;
    marks.push(Mark::Stroke {
        path: Vec::from([Op::Move(x, layout.plot.y), Op::Line(x, bottom)]),
        ink: Ink::Cursor,
        alpha: if view.cursor_held { 1.0 } else { 0.6 },
        width: 1.0,
        dashed: !view.cursor_held,
    });
    if view.cursor_held {
        let y = layout.plot.y;
        let flag = Vec::from([
            Op::Move(x - 5.0, y - 6.0),
            Op::Line(x + 5.0, y - 6.0),
            Op::Line(x, y + 1.0),
            Op::Close,
        ]);
        marks.push(Mark::Fill { path: flag, ink: Ink::Cursor, alpha: 1.0 });
    }
}

fn selection(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, view: &View) {
    let Some((first, last)) = view.selection else { return };
    let plot = frame.layout.plot;
    let px = |state: usize| frame.x.px(frame.x.unit_of_state(curves, state));
    let x0 = px(first as usize + 1).clamp(plot.x, plot.right());
    let x1 = px(last as usize + 2).clamp(plot.x, plot.right());
    let area = Area { x: x0, w: (x1 - x0).max(1.0), ..plot };
    marks.push(Mark::Fill { path: rect(area), ink: Ink::Selection, alpha: 0.14 });
    let mut path = Vec::new();
    for x in [x0, x1] {
        path.extend([Op::Move(x, plot.y), Op::Line(x, plot.bottom())]);
    }
    marks.push(Mark::Stroke { path, ink: Ink::Selection, alpha: 1.0, width: 1.5, dashed: false });
}

/// The kernel under the pointer, and when the host issued it.
fn kernel(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, work: Option<usize>) {
    let (Some(host), Some(compute), Some(index)) = (frame.layout.host, frame.layout.compute, work)
    else {
        return;
    };
    let columns = &curves.timeline().work;
    let Some(&issued) = columns.issued_ns.get(index) else { return };
    let px = |ns: u64| frame.x.px(super::super::num::from_u64(ns));
    let (issued, x0, x1) = (px(issued), px(columns.start_ns[index]), px(columns.end_ns[index]));
    marks.push(Mark::Clip(Area { y: host.y, h: compute.bottom() - host.y, ..host }));
    let flow = Vec::from([
        Op::Move(issued, host.y),
        Op::Line(issued, host.bottom()),
        Op::Line(x0, compute.y),
    ]);
    marks.push(Mark::Stroke {
        path: flow,
        ink: Ink::Selection,
        alpha: 1.0,
        width: 1.5,
        dashed: false,
    });
    let slab = Area { x: x0, w: (x1 - x0).max(1.5), ..compute };
    marks.push(Mark::Fill { path: rect(slab), ink: Ink::Selection, alpha: 1.0 });
    marks.push(Mark::Unclip);
}
