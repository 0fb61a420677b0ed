//! Tracks under the plot, on the same time axis: when the host issues, what the GPU computes.

use super::super::band::BlockKind;
use super::super::curves::Curves;
use super::super::frame::Frame;
use super::super::layout::Area;
use super::super::num::{from_u64, from_usize, to_index, to_u64};
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

/// Works in the window, by their start on the device.
fn in_window(curves: &Curves, frame: &Frame) -> std::ops::Range<usize> {
    let work = &curves.timeline().work;
    let (start, end) = (to_u64(frame.x.start), to_u64(frame.x.end));
    let first = work.end_ns.partition_point(|&ns| ns < start);
    let last = work.start_ns.partition_point(|&ns| ns <= end);
    first..last.max(first)
}

/// One mark for each kernel that the host issues; denser where many share a pixel.
fn issues(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, area: Area) {
    let issued = &curves.timeline().work.issued_ns;
    let first = issued.partition_point(|&ns| from_u64(ns) < frame.x.start);
    let mut counts = vec![0_u32; to_index(area.w) + 1];
    for &ns in issued[first..].iter().take_while(|&&ns| from_u64(ns) <= frame.x.end) {
        let pixel = to_index(frame.x.px(from_u64(ns)) - area.x);
        if let Some(count) = counts.get_mut(pixel) {
            *count += 1;
        }
    }
    for (level, alpha) in [(1, 0.45), (2, 0.62), (3, 0.8)] {
        let path: Vec<Op> = (counts.iter().enumerate())
            .filter(|&(_, &count)| count.min(3) == level)
            .map(|(pixel, _)| Op::Rect(Area { x: area.x + from_usize(pixel), w: 1.0, ..area }))
            .collect();
        if !path.is_empty() {
            marks.push(Mark::Fill { path, ink: Ink::Outline, alpha });
        }
    }
}

fn kernels(marks: &mut Vec<Mark>, curves: &Curves, frame: &Frame, style: &Style<'_>) {
    let Some(area) = frame.layout.compute else { return };
    let timeline = curves.timeline();
    let work = &timeline.work;
    let mut paths: [Vec<Op>; 4] = Default::default();
    let mut names = Vec::new();
    let mut busy = vec![0.0_f64; to_index(area.w) + 1];
    for index in in_window(curves, frame) {
        let x0 = frame.x.px(from_u64(work.start_ns[index])).max(area.x);
        let x1 = frame.x.px(from_u64(work.end_ns[index])).min(area.right());
        if x1 - x0 < 1.0 {
            if let Some(share) = busy.get_mut(to_index(x0 - area.x)) {
                *share += x1 - x0;
            }
            continue;
        }
        let label = |id: u32| timeline.labels.get(id as usize).map_or("", String::as_str);
        let kind = BlockKind::of(label(work.block[index])) as usize;
        // A hair of the track between two kernels tells them apart.
        let gap = if x1 - x0 >= 3.0 { 0.75 } else { 0.0 };
        paths[kind].push(Op::Rect(Area { x: x0, w: x1 - x0 - gap, ..area }));
        let name = label(work.primitive[index]);
        if (style.measure)(name, 10.0, false) + 6.0 <= x1 - x0 {
            names.push((f64::midpoint(x0, x1), name.to_owned()));
        }
    }
    for (path, alpha) in paths.into_iter().zip(SHADES) {
        if !path.is_empty() {
            marks.push(Mark::Fill { path, ink: Ink::Outline, alpha });
        }
    }
    partly_busy(marks, area, &busy);
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
fn partly_busy(marks: &mut Vec<Mark>, area: Area, busy: &[f64]) {
    for level in 1..=LEVELS {
        let path: Vec<Op> = (busy.iter().enumerate())
            .filter(|&(_, &share)| share > 0.0)
            .filter(|&(_, &share)| {
                to_index(share.min(1.0) * from_usize(LEVELS)).clamp(1, LEVELS) == level
            })
            .map(|(pixel, _)| Op::Rect(Area { x: area.x + from_usize(pixel), w: 1.0, ..area }))
            .collect();
        if !path.is_empty() {
            let alpha = 0.6 * from_usize(level) / from_usize(LEVELS);
            marks.push(Mark::Fill { path, ink: Ink::Outline, alpha });
        }
    }
}

/// The kernel under a pixel of the compute track; the longest of those that share it.
pub fn work_at(curves: &Curves, frame: &Frame, x: f64) -> Option<usize> {
    let work = &curves.timeline().work;
    let (from, to) = (frame.x.unit(x - 0.5), frame.x.unit(x + 0.5));
    in_window(curves, frame)
        .filter(|&index| {
            from_u64(work.start_ns[index]) <= to && from <= from_u64(work.end_ns[index])
        })
        .max_by_key(|&index| work.end_ns[index] - work.start_ns[index])
}
