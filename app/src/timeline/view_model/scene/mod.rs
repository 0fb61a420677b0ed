//! The chart as a list of marks, which the canvas and the SVG paint alike.
//!
//! Marks are in painting order. Colours are roles (`Ink`), never values: the painter knows the
//! theme.

mod axes;
mod caption;
mod limits;
mod minimap;
mod overlay;
mod phases;
mod plates;
mod stack;
mod tracks;

pub use caption::{Caption, caption};
pub use minimap::brush_px;
pub use overlay::{Marked, overlay};
pub use tracks::work_at;

use super::band::Band;
use super::curves::Curves;
use super::frame::Frame;
use super::layout::Area;
use super::view::View;
use crate::format::Unit;
use crate::timeline::words::TimelineWords;

/// The role of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ink {
    /// A band of live tensors.
    Band(Band),
    /// Context, kernels, libraries.
    OutsidePool,
    /// Reserved and not handed out.
    Slack,
    /// Lines over slack.
    Hatch,
    /// What the chart is drawn on.
    Paper,
    /// Text.
    Text,
    /// Lines behind everything.
    Grid,
    /// Axis lines.
    Axis,
    /// Capacity and what lies above it.
    Capacity,
    /// Room that is left.
    Free,
    /// The error band.
    ErrorBand,
    /// The cursor.
    Cursor,
    /// Outline of the stack and of lit tensors.
    Outline,
    /// The strip of phases.
    Phase,
    /// Selection and brush.
    Selection,
}

/// A step of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Start a piece.
    Move(f64, f64),
    /// Go straight.
    Line(f64, f64),
    /// Close the piece.
    Close,
    /// A rectangle of its own.
    Rect(Area),
}

/// Where a text's position lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At its start.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A filled path.
    Fill {
        /// The path; rectangles in it do not overlap each other.
        path: Vec<Op>,
        /// Its colour.
        ink: Ink,
        /// Its opacity.
        alpha: f64,
    },
    /// A path filled with slanted lines.
    Hatch {
        /// The path.
        path: Vec<Op>,
        /// Colour of the lines.
        ink: Ink,
        /// Their opacity.
        alpha: f64,
    },
    /// A stroked path.
    Stroke {
        /// The path.
        path: Vec<Op>,
        /// Its colour.
        ink: Ink,
        /// Its opacity.
        alpha: f64,
        /// Width in CSS pixels.
        width: f64,
        /// Whether it is dashed.
        dashed: bool,
    },
    /// A line of text, centred vertically on its point.
    Text {
        /// Point.
        at: (f64, f64),
        /// The text.
        text: String,
        /// Its colour.
        ink: Ink,
        /// Font size in CSS pixels.
        size: f64,
        /// Where the point lies.
        anchor: Anchor,
        /// Whether it is bold.
        bold: bool,
    },
    /// Everything up to `Unclip` shows only inside.
    Clip(Area),
    /// Ends the clip.
    Unclip,
    /// Everything up to `Unshift` lies lower by so many pixels.
    Shift(f64),
    /// Ends the shift.
    Unshift,
}

/// What a drawing depends on besides the step and the window.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// Texts in the chosen language.
    pub words: &'a TimelineWords,
    /// GiB or GB.
    pub unit: Unit,
    /// Width of a text by its font size and boldness: [`text_width`], or the canvas.
    pub measure: &'a dyn Fn(&str, f64, bool) -> f64,
}

/// The static layer of the chart.
pub fn scene(curves: &Curves, frame: &Frame, view: &View, style: &Style<'_>) -> Vec<Mark> {
    let mut marks = Vec::with_capacity(128);
    axes::grid(&mut marks, frame, style);
    marks.push(Mark::Clip(frame.layout.plot));
    stack::slack(&mut marks, curves, frame);
    phases::boundaries(&mut marks, curves, frame);
    stack::stack(&mut marks, curves, frame);
    limits::limits(&mut marks, curves, frame, style);
    marks.push(Mark::Unclip);
    axes::labels(&mut marks, frame, style);
    phases::strip(&mut marks, curves, frame, style);
    tracks::tracks(&mut marks, curves, frame, style);
    minimap::minimap(&mut marks, curves, frame, view);
    marks
}

/// Size of small text.
pub const SMALL: f64 = 11.0;

/// Roughly how wide a text runs, on the wide side: full width for Chinese, over half an em for Latin.
pub fn text_width(text: &str, size: f64, bold: bool) -> f64 {
    let ems: f64 = text
        .chars()
        .map(|c| match c {
            '\u{2e80}'.. => 1.0,
            'i' | 'l' | 'j' | '.' | ',' | ' ' | ':' | '\u{a0}' => 0.33,
            'm' | 'M' | 'w' | 'W' | 'G' | 'B' | 'O' => 0.82,
            _ => 0.62,
        })
        .sum();
    ems * size * if bold { 1.08 } else { 1.0 }
}

fn rect(area: Area) -> Vec<Op> {
    Vec::from([Op::Rect(area)])
}

fn line(from: (f64, f64), to: (f64, f64)) -> Vec<Op> {
    Vec::from([Op::Move(from.0, from.1), Op::Line(to.0, to.1)])
}

/// Rounded to a device pixel, so that edges are crisp and equal heights merge.
fn snap(px: f64, px_ratio: f64) -> f64 {
    (px * px_ratio).round() / px_ratio
}
