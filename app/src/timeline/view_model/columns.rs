//! One window, summed up per device pixel.
//!
//! ```text
//!   several states in a pixel          one state over several pixels
//!   ┌┐  ◄ the state with the most      ┌──────────────┐
//!   ││    live bytes is drawn          │              │
//!   ┊┊  ◄ down to the fewest: veiled   │              │
//! ```
//!
//! A column is a run of whole device pixels. Where it covers several states it stands for the one
//! with the most live bytes and keeps the lowest total and the highest reserved: nothing that
//! reaches a peak is lost to sampling.

use super::axis::XAxis;
use super::curves::Curves;
use super::num::{from_usize, to_index};

/// A run of device pixels, drawn as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Left edge, CSS pixels.
    pub x0: f64,
    /// Right edge, CSS pixels.
    pub x1: f64,
    /// First state in it.
    pub first: usize,
    /// Last state in it.
    pub last: usize,
    /// The state with the most live bytes among them.
    pub state: usize,
    /// The fewest live bytes among them.
    pub low_live: u64,
    /// The most reserved bytes among them.
    pub high_reserved: u64,
}

/// The window's columns from left to right. Their states never decrease.
pub fn columns(curves: &Curves, axis: &XAxis, px_ratio: f64) -> Vec<Column> {
    let n_pixels = to_index((axis.width * px_ratio).round()).max(1);
    let mut columns: Vec<Column> = Vec::with_capacity(n_pixels);
    let edge = |pixel: usize| axis.left + from_usize(pixel) / px_ratio;
    let from_start = axis.start <= axis.limits.0;
    let to_end = axis.end >= axis.limits.1;
    // At the step's ends also the states that last no time.
    let mut first = if from_start { 0 } else { axis.state(curves, axis.start) };
    for pixel in 0..n_pixels {
        // The last pixel takes in all that is left of the window.
        let is_last = pixel + 1 == n_pixels;
        let right = if is_last { axis.end } else { axis.unit(edge(pixel + 1)) };
        let (last, next) = if is_last && to_end {
            (curves.n_states() - 1, first)
        } else {
            states_before(curves, axis, first, right)
        };
        match columns.last_mut() {
            Some(column)
                if column.first == column.last && column.last == first && last == first =>
            {
                column.x1 = edge(pixel + 1);
            }
            _ => {
                let run = curves.extremes(first..=last);
                columns.push(Column {
                    x0: edge(pixel),
                    x1: edge(pixel + 1),
                    first,
                    last,
                    state: run.highest,
                    low_live: run.low_live,
                    high_reserved: run.high_reserved,
                });
            }
        }
        first = next;
    }
    columns
}

/// The last state that begins before a unit, and the first state of the next pixel.
fn states_before(curves: &Curves, axis: &XAxis, from: usize, unit: f64) -> (usize, usize) {
    let last_state = curves.n_states() - 1;
    let begins_before =
        |state: usize| state <= last_state && axis.unit_of_state(curves, state) < unit;
    // Most pixels hold a state or a few: step ahead, then halve.
    let (mut last, mut stride) = (from, 1);
    while begins_before(last + stride) {
        last += stride;
        stride *= 2;
    }
    while stride > 0 {
        if begins_before(last + stride) {
            last += stride;
        }
        stride /= 2;
    }
    let begins_at_edge = last < last_state && axis.unit_of_state(curves, last + 1) <= unit;
    (last, if begins_at_edge { last + 1 } else { last })
}

/// The column under a pixel.
pub fn column_at(columns: &[Column], x: f64) -> Option<&Column> {
    let after = columns.partition_point(|column| column.x0 <= x);
    columns.get(after.checked_sub(1)?)
}
