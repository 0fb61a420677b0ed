//! Tracks under the plot, on the same time axis: when the host issues, what the GPU computes.

use super::super::band::BlockKind;
use super::super::curves::Curves;
use super::super::frame::Frame;
use super::super::lanes::{issued, touching};
use super::super::layout::Area;
use super::super::num::{from_u64, from_usize, to_index};
use super::{Anchor, Ink, Mark, Op, Style, rect};

/// Opacities of attention, feed-forward, norms and the rest.
const SHADES: [f64; 4] = [0.78, 0.58, 0.42, 0.3];
/// Where a pixel is busy only in part, its opacity falls in so many steps.
const LEVELS: usize = 4;

/// Both tracks.
pub(super) fn tracks(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, style: &Style<'_>) {
    let (Some(host), Some(compute)) = (frame.layout.host, frame.layout.compute) else { return };
    for (area, name) in [(host, style.words.host), (compute, style.words.compute)] {
        marks.push(Mark::Fill { path: rect(area), ink: Ink::Phase, alpha: 0.8 });
        marks.push(Mark::Text {
            at: (area.x - 6.0, area.y + area.h / 2.0),
            text: name.to_owned(),
            ink: Ink::Text,
            size: 10.0,
            anchor: Anchor::End,
            bold: false,
        });
    }
    marks.push(Mark::Clip(Area { h: compute.bottom() - host.y, ..host }));
    issues(marks, curves, frame, host);
    kernels(marks, curves, frame, style);
    marks.push(Mark::Unclip);
}

/// The stretch of time that each pixel of the tracks shows.
fn pixels(frame: &Frame, area: Area) -> impl Iterator<Item = (f64, (f64, f64))> {
    let (x, ns_per_px) = (frame.x, frame.x.units_per_px());
    (0..to_index(area.w)).map(move |pixel| {
        let left = area.x + from_usize(pixel);
        let from = x.unit(left);
        (left, (from, from + ns_per_px))
    })
}

/// Pixels by level, from 1; level 0 is left out.
fn fill_levels<const N: usize>(
    marks: &mut Vec<Mark>,
    area: Area,
    alphas: [f64; N],
    levels: impl Iterator<Item = (f64, usize)>,
) {
    let mut paths = [const { Vec::new() }; N];
    let mut before = 0;
    for (x, level) in levels {
        let level = level.min(N);
        if let Some(path) = level.checked_sub(1).map(|level| &mut paths[level]) {
            match path.last_mut() {
                Some(Op::Rect(run)) if level == before => run.w += 1.0,
                _ => path.push(Op::Rect(Area { x, w: 1.0, ..area })),
            }
        }
        before = level;
    }
    for (path, alpha) in paths.into_iter().zip(alphas) {
        if !path.is_empty() {
            marks.push(Mark::Fill { path, ink: Ink::Outline, alpha });
        }
    }
}

/// One mark for each kernel that the host issues; denser where many share a pixel.
fn issues(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, area: Area) {
    let work = &curves.timeline().work;
    let levels = pixels(frame, area).map(|(x, span)| (x, issued(work, span)));
    fill_levels(marks, area, [0.45, 0.62, 0.8], levels);
}

fn kernels(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, style: &Style<'_>) {
    let Some(area) = frame.layout.compute else { return };
    let timeline = curves.timeline();
    let work = &timeline.work;
    partly_busy(marks, curves, frame, area);
    let mut paths: [Vec<Op>; 4] = Default::default();
    let mut wide = Vec::new();
    let mut names = Vec::new();
    let window = (frame.x.start, frame.x.end);
    for index in curves.lanes.at_least(work, window, frame.x.units_per_px()) {
        let x0 = frame.x.px(from_u64(work.start_ns[index])).max(area.x);
        let x1 = frame.x.px(from_u64(work.end_ns[index])).min(area.right());
        let label = |id: u32| timeline.labels.get(id as usize).map_or("", String::as_str);
        let kind = BlockKind::of(label(work.block[index])) as usize;
        // A hair of the track between two kernels tells them apart.
        let gap = if x1 - x0 >= 3.0 { 0.75 } else { 0.0 };
        let slab = Op::Rect(Area { x: x0, w: (x1 - x0 - gap).max(0.0), ..area });
        wide.push(slab);
        paths[kind].push(slab);
        let name = label(work.primitive[index]);
        if x1 - x0 >= 24.0 && (style.measure)(name, 10.0, false) + 6.0 <= x1 - x0 {
            names.push((f64::midpoint(x0, x1), name.to_owned()));
        }
    }
    // What the pixels' shares say of these kernels is said better by their own shapes.
    marks.push(Mark::Fill { path: wide, ink: Ink::Phase, alpha: 1.0 });
    for (path, alpha) in paths.into_iter().zip(SHADES) {
        if !path.is_empty() {
            marks.push(Mark::Fill { path, ink: Ink::Outline, alpha });
        }
    }
    for (x, name) in names {
        marks.push(Mark::Text {
            at: (x, area.y + area.h / 2.0),
            text: name,
            ink: Ink::Paper,
            size: 10.0,
            anchor: Anchor::Middle,
            bold: false,
        });
    }
}

/// Pixels that several short kernels share: the busier, the darker.
fn partly_busy(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, area: Area) {
    let work = &curves.timeline().work;
    let levels = pixels(frame, area).map(|(x, span)| {
        let share = curves.lanes.busy_share(work, span);
        (x, to_index((share * from_usize(LEVELS)).ceil()))
    });
    fill_levels(marks, area, [0.15, 0.3, 0.45, 0.6], levels);
}

/// The kernel under a pixel of the compute track; the longest of those that share it.
pub fn work_at(curves: &Curves, frame: &Frame, x: f64) -> Option<usize> {
    let work = &curves.timeline().work;
    touching(work, (frame.x.unit(x - 0.5), frame.x.unit(x + 0.5)))
        .max_by_key(|&index| work.end_ns[index] - work.start_ns[index])
}
