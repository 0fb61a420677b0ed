//! One window, ready to be drawn and asked: axes, columns and the stack in each column.

use super::axis::{XAxis, YAxis};
use super::band::{Band, N_BANDS};
use super::columns::{Column, column_at, columns};
use super::curves::Curves;
use super::layout::{Layout, Surface};
use super::live::{Hit, hit};
use super::num::{from_u64, to_u64};
use super::view::{View, YScale};

/// From this share of the capacity on, the automatic scale shows the capacity.
const CAPACITY_IN_SIGHT: f64 = 0.4;

/// Upper edges of the stack in one column: memory outside the pool, then each band.
pub type Tops = [u64; N_BANDS + 1];

/// One window.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Where the parts lie.
    pub layout: Layout,
    /// Horizontal axis of plot and tracks.
    pub x: XAxis,
    /// Vertical axis of the plot.
    pub y: YAxis,
    /// The window per device pixel.
    pub columns: Vec<Column>,
    /// The stack in each column.
    pub tops: Vec<Tops>,
}

impl Frame {
    /// Sums up a view of a step.
    pub fn new(curves: &Curves, view: &View, surface: Surface) -> Self {
        let layout = Layout::of_view(surface, curves, view);
        let x = layout.x_axis(curves, view);
        let columns = columns(curves, &x, surface.px_ratio);
        let tops = columns.iter().map(|column| tops(curves, column.state)).collect();
        let (low, high) = y_range(curves, &columns, view.y_scale);
        let y = YAxis { top: layout.plot.y, bottom: layout.plot.bottom(), low, high };
        Self { layout, x, y, columns, tops }
    }

    /// The column under a pixel of the plot.
    pub fn column_at(&self, x: f64) -> Option<&Column> {
        let plot = self.layout.plot;
        if x < plot.x || plot.right() <= x { None } else { column_at(&self.columns, x) }
    }

    /// The event whose state is drawn under a pixel.
    pub fn event_at(&self, x: f64) -> Option<u32> {
        let state = self.column_at(x)?.state;
        Some(super::num::to_u32(state.saturating_sub(1)))
    }

    /// What is drawn at a point of the plot.
    pub fn hit(&self, curves: &Curves, x: f64, y: f64) -> Option<Hit> {
        let column = self.column_at(x)?;
        if y < self.layout.plot.y || self.layout.plot.bottom() <= y {
            return None;
        }
        let bytes = to_u64(self.y.bytes(y));
        let found = hit(curves, column.state, bytes);
        // Reserved memory is drawn as the most of its column.
        let reserved = curves.floor_bytes() + column.high_reserved;
        Some(if found == Hit::Free && bytes < reserved { Hit::Slack } else { found })
    }

    /// Pixel at which the state after an event is drawn, if it is in sight.
    pub fn px_of_event(&self, curves: &Curves, event: u32) -> Option<f64> {
        let state = (event as usize + 1).min(curves.n_states() - 1);
        let start = self.x.px(self.x.unit_of_state(curves, state));
        let end = self.x.px(self.x.unit_of_state(curves, state + 1));
        let plot = self.layout.plot;
        let inside = start <= plot.right() && plot.x <= end;
        inside.then(|| (start + ((end - start) / 2.0).min(6.0)).clamp(plot.x, plot.right() - 1.0))
    }
}

fn tops(curves: &Curves, state: usize) -> Tops {
    let mut tops = Tops::default();
    tops[0] = curves.floor_bytes();
    for (index, size) in curves.bands(state).into_iter().enumerate() {
        tops[index + 1] = tops[index] + size;
    }
    tops
}

/// Upper edge of a band in a column's stack.
pub fn top_of(tops: &Tops, band: Band) -> u64 {
    tops[band.index() + 1]
}

fn y_range(curves: &Curves, columns: &[Column], scale: YScale) -> (f64, f64) {
    let floor = curves.floor_bytes();
    let highest = |of: fn(&Curves, &Column) -> u64| {
        columns.iter().map(|column| of(curves, column)).max().unwrap_or_default()
    };
    let reserved = from_u64(floor + highest(|_, column| column.high_reserved)).max(1.0);
    let live = from_u64(floor + highest(|curves, column| curves.live(column.state))).max(1.0);
    let capacity = from_u64(curves.data.capacity_bytes);
    match scale {
        YScale::Auto if reserved < capacity * CAPACITY_IN_SIGHT => (0.0, reserved * 1.1),
        YScale::Auto | YScale::Capacity => (0.0, capacity.max(reserved) * 1.06),
        YScale::Live => (0.0, live * 1.08),
        YScale::Window => {
            let low = columns.iter().map(|column| column.low_live).min().unwrap_or_default();
            let low = from_u64(floor + low);
            let room = ((live - low) * 0.08).max(1024.0);
            ((low - room).max(0.0), live + room)
        }
    }
}
