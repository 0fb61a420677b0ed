//! Where the parts of the chart lie.
//!
//! ```text
//!          ┌──────────────────────────────────────┐
//!          │ phases                               │
//!          ├──────────────────────────────────────┤
//!   gutter │ plot                                 │
//!          ├──────────────────────────────────────┤
//!          │ tick labels                          │
//!          │ tracks: host, GPU (time axis only)   │
//!          ├──────────────────────────────────────┤
//!          │ minimap                              │
//!          └──────────────────────────────────────┘
//! ```

use super::axis::XAxis;
use super::curves::Curves;
use super::view::{Axis, View};

/// A rectangle in CSS pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
}

impl Area {
    /// Right edge.
    pub fn right(&self) -> f64 {
        self.x + self.w
    }

    /// Lower edge.
    pub fn bottom(&self) -> f64 {
        self.y + self.h
    }

    /// Whether a point lies inside.
    pub fn holds(&self, x: f64, y: f64) -> bool {
        self.x <= x && x < self.right() && self.y <= y && y < self.bottom()
    }
}

/// The size of the drawing surface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Surface {
    /// Width, CSS pixels.
    pub width: f64,
    /// Height, CSS pixels.
    pub height: f64,
    /// Device pixels per CSS pixel.
    pub px_ratio: f64,
}

/// Where the parts lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// The whole.
    pub surface: Surface,
    /// Names of the phases.
    pub phases: Area,
    /// The stack.
    pub plot: Area,
    /// Labels of the x axis.
    pub ticks: Area,
    /// When the host issues.
    pub host: Option<Area>,
    /// What the GPU computes.
    pub compute: Option<Area>,
    /// The whole step, small.
    pub minimap: Area,
}

impl Layout {
    /// Divides a surface; tracks are left out where they mean nothing or do not fit.
    pub fn new(surface: Surface, tracks: bool) -> Self {
        let narrow = surface.width < 560.0;
        let x = if narrow { 38.0 } else { 48.0 };
        let w = (surface.width - x - if narrow { 6.0 } else { 12.0 }).max(1.0);
        let row = |y: f64, h: f64| Area { x, y, w, h };
        let minimap_h = if surface.height < 300.0 { 24.0 } else { 32.0 };
        let minimap = row(surface.height - minimap_h - 1.0, minimap_h);
        let tracks = tracks && surface.height >= 220.0;
        let (host, compute, ticks_bottom) = if tracks {
            let compute = row(minimap.y - 7.0 - 13.0, 13.0);
            let host = row(compute.y - 3.0 - 7.0, 7.0);
            (Some(host), Some(compute), host.y - 2.0)
        } else {
            (None, None, minimap.y - 6.0)
        };
        let ticks = row(ticks_bottom - 17.0, 17.0);
        let phases = row(0.0, 19.0);
        let plot = row(phases.bottom(), (ticks.y - phases.bottom()).max(1.0));
        Self { surface, phases, plot, ticks, host, compute, minimap }
    }

    /// The layout for a view of a step.
    pub fn of_view(surface: Surface, curves: &Curves, view: &View) -> Self {
        let has_work = !curves.timeline().work.start_ns.is_empty();
        Self::new(surface, view.axis == Axis::Time && has_work)
    }

    /// The view's x axis over the plot.
    pub fn x_axis(&self, curves: &Curves, view: &View) -> XAxis {
        XAxis::of_view(curves, view, (self.plot.x, self.plot.w))
    }

    /// The x axis of the minimap.
    pub fn minimap_axis(&self, curves: &Curves, axis: Axis) -> XAxis {
        XAxis::whole(curves, axis, (self.minimap.x, self.minimap.w))
    }
}
