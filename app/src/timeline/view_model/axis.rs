//! The one place that turns time, events and bytes into pixels and back.
//!
//! ```text
//!   limit.0        start                       end            limit.1     units (ns or positions)
//!      │             │◄──────── window ─────────►│               │
//!      ├─────────────┼───────────────────────────┼───────────────┤
//!                    │                           │
//!                  left                     left + width                  CSS pixels
//!
//!        high ── top        bytes grow upwards, pixels downwards
//!         │       │
//!        low ── bottom
//! ```
//!
//! Units are nanoseconds on the time axis and positions (see `view`) on the event axis. Panning
//! and zooming return a new axis that stays within its limits.

use super::curves::Curves;
use super::num::{from_u64, from_usize, to_index, to_u64};
use super::view::{Axis, View};

/// Fewest events that fill the width.
const MIN_EVENTS: f64 = 4.0;
/// Fewest nanoseconds that fill the width.
const MIN_NS: f64 = 2_000.0;

/// Units ↔ pixels, horizontally.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XAxis {
    /// What the units are.
    pub kind: Axis,
    /// Pixel of the window's start.
    pub left: f64,
    /// Width of the window in pixels.
    pub width: f64,
    /// Unit at the left edge.
    pub start: f64,
    /// Unit at the right edge.
    pub end: f64,
    /// Units of the step's start and end.
    pub limits: (f64, f64),
}

impl XAxis {
    /// The whole step over a stretch of pixels.
    pub fn whole(curves: &Curves, kind: Axis, (left, width): (f64, f64)) -> Self {
        let limits = match kind {
            Axis::Time => (0.0, from_u64(curves.end_ns())),
            Axis::Order => (-1.0, from_usize(curves.n_events())),
        };
        Self { kind, left, width: width.max(1.0), start: limits.0, end: limits.1, limits }
    }

    /// The view's window over a stretch of pixels.
    pub fn of_view(curves: &Curves, view: &View, pixels: (f64, f64)) -> Self {
        let whole = Self::whole(curves, view.axis, pixels);
        let start = whole.unit_of_position(curves, view.start_event);
        let end = whole.unit_of_position(curves, view.end_event);
        whole.windowed(start, end)
    }

    /// The window as positions, for the view; the open ends of the whole step stay open.
    pub fn positions(&self, curves: &Curves) -> (f64, f64) {
        let start = if self.start <= self.limits.0 {
            -1.0
        } else {
            self.position_of_unit(curves, self.start)
        };
        let end = if self.end >= self.limits.1 {
            f64::INFINITY
        } else {
            self.position_of_unit(curves, self.end)
        };
        (start, end)
    }

    /// Pixel of a unit.
    pub fn px(&self, unit: f64) -> f64 {
        self.left + (unit - self.start) * self.width / (self.end - self.start)
    }

    /// Unit at a pixel.
    pub fn unit(&self, px: f64) -> f64 {
        self.start + (px - self.left) * self.units_per_px()
    }

    /// Units that one pixel covers.
    pub fn units_per_px(&self) -> f64 {
        (self.end - self.start) / self.width
    }

    /// Another window, moved and widened as far as the limits ask.
    #[must_use]
    pub fn windowed(&self, start: f64, end: f64) -> Self {
        let whole = self.limits.1 - self.limits.0;
        let least = match self.kind {
            Axis::Time => MIN_NS,
            Axis::Order => MIN_EVENTS,
        };
        let span = (end - start).max(least).min(whole);
        let middle = f64::midpoint(start, end);
        let start = (middle - span / 2.0).clamp(self.limits.0, self.limits.1 - span);
        Self { start, end: start + span, ..*self }
    }

    /// Zoomed around a pixel: a factor of 2 shows half as much; the unit under the pixel stays.
    #[must_use]
    pub fn zoomed(&self, px: f64, factor: f64) -> Self {
        let anchor = self.unit(px);
        let span = (self.end - self.start) / factor;
        let before = (px - self.left) / self.width * span;
        let zoomed = self.windowed(anchor - before, anchor - before + span);
        // At the narrowest window the centre would creep; keep the anchor instead.
        let span = zoomed.end - zoomed.start;
        let before = (px - self.left) / self.width * span;
        self.windowed(anchor - before, anchor - before + span)
    }

    /// Moved by pixels: positive shows what lies to the right.
    #[must_use]
    pub fn panned(&self, px: f64) -> Self {
        let by = px * self.units_per_px();
        self.windowed(self.start + by, self.end + by)
    }

    /// The state that holds at a unit.
    pub fn state(&self, curves: &Curves, unit: f64) -> usize {
        match self.kind {
            Axis::Time => curves.state_at_ns(to_u64(unit)),
            Axis::Order => to_index(unit + 1.0).min(curves.n_states() - 1),
        }
    }

    /// Unit at which a state begins; for one past the last, the step's end.
    pub fn unit_of_state(&self, curves: &Curves, state: usize) -> f64 {
        match self.kind {
            Axis::Time => from_u64(curves.edge_ns(state)),
            Axis::Order => from_usize(state.min(curves.n_states())) - 1.0,
        }
    }

    /// Unit of a position.
    pub fn unit_of_position(&self, curves: &Curves, position: f64) -> f64 {
        let place = (position + 1.0).clamp(0.0, from_usize(curves.n_states()));
        match self.kind {
            Axis::Order => place - 1.0,
            Axis::Time => {
                let state = to_index(place);
                let (start, end) = (curves.edge_ns(state), curves.edge_ns(state + 1));
                from_u64(start) + (place - from_usize(state)) * from_u64(end - start)
            }
        }
    }

    /// Position of a unit.
    pub fn position_of_unit(&self, curves: &Curves, unit: f64) -> f64 {
        match self.kind {
            Axis::Order => unit,
            Axis::Time => {
                let state = self.state(curves, unit);
                let start = from_u64(curves.edge_ns(state));
                let length = (from_u64(curves.edge_ns(state + 1)) - start).max(1.0);
                from_usize(state) - 1.0 + ((unit - start) / length).clamp(0.0, 1.0)
            }
        }
    }
}

/// Bytes ↔ pixels, vertically.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YAxis {
    /// Pixel of `high`.
    pub top: f64,
    /// Pixel of `low`.
    pub bottom: f64,
    /// Bytes at the bottom.
    pub low: f64,
    /// Bytes at the top.
    pub high: f64,
}

impl YAxis {
    /// Pixel of an amount of bytes.
    pub fn px(&self, bytes: f64) -> f64 {
        self.bottom - (bytes - self.low) * (self.bottom - self.top) / (self.high - self.low)
    }

    /// Pixel of whole bytes.
    pub fn px_of(&self, bytes: u64) -> f64 {
        self.px(from_u64(bytes))
    }

    /// Bytes at a pixel.
    pub fn bytes(&self, px: f64) -> f64 {
        self.low + (self.bottom - px) * self.bytes_per_px()
    }

    /// Bytes that one pixel covers.
    pub fn bytes_per_px(&self) -> f64 {
        (self.high - self.low) / (self.bottom - self.top)
    }
}
