//! Between the report and the pixels: everything the timeline computes, without Leptos and without
//! the browser. `Curves` is prepared once per result; the rest answers for one window.

pub mod num;

pub mod view;

pub mod band;
pub mod curves;
pub mod lanes;

pub mod axis;
pub mod columns;
pub mod keys;
pub mod layout;
pub mod live;
pub mod range;
pub mod strata;
pub mod table;
pub mod ticks;

pub mod frame;
pub mod scene;
pub mod tip;

pub use band::Band;
pub use curves::Curves;
pub use frame::Frame;
pub use layout::Surface;
pub use live::{Hit, live_at};
pub use view::{Axis, View, YScale};

use simulator::wire::Timeline;

/// A step with its limits, as the page hands it over.
#[derive(Clone, Debug, Default)]
pub struct TimelineData {
    /// The step.
    pub timeline: Timeline,
    /// Bytes there are.
    pub capacity_bytes: u64,
    /// Context, kernels, libraries.
    pub outside_pool_bytes: u64,
    /// In use by other processes.
    pub already_used_bytes: u64,
    /// Half-width of the error band of the total.
    pub band_bytes: u64,
    /// Event after which the live bytes peak.
    pub peak_event: u32,
    /// Version, for cheap equality.
    pub id: u64,
}

impl PartialEq for TimelineData {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
