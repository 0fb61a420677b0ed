//! Every pipeline stage as a small chart on one scale.

use simulator::units::Bytes;
use simulator::wire::report::{RankReport, Report};
use simulator::wire::timeline::Category;

/// Size of a small chart in its own units.
pub(crate) const WIDTH: f64 = 120.0;
pub(crate) const HEIGHT: f64 = 48.0;

/// What the small charts share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    /// Bytes at the top.
    top: f64,
    /// Where the limit of the allocator's pool lies, from the top; above every chart when it is not reached.
    pub limit: f64,
}

impl Frame {
    /// High enough for the highest stage and for the limit.
    pub(crate) fn of(report: &Report) -> Self {
        let outside = report.steady.category(Category::OutsidePool).get();
        let others = report.scenario.hardware.already_used_bytes;
        let limit = report.verdict.limit_bytes.get().saturating_sub(outside + others);
        let highest = report.ranks.iter().map(|rank| rank.peak_allocated_bytes.get()).max();
        let top = to_f64(highest.unwrap_or(0).max(limit).max(1)) * 1.04;
        let mut frame = Self { top, limit: 0.0 };
        frame.limit = frame.y(limit);
        frame
    }

    fn y(&self, bytes: u64) -> f64 {
        HEIGHT * (1.0 - to_f64(bytes) / self.top)
    }

    /// The outline of a stage's course, closed along the bottom, as an SVG path.
    pub(crate) fn path(&self, rank: &RankReport) -> String {
        let step = WIDTH / to_f64(rank.course_bytes.len().max(1) as u64);
        let stretch = |(bytes, from): (&Bytes, u32)| {
            let left = f64::from(from) * step;
            format!("L{left:.1} {0:.1}H{1:.1}", self.y(bytes.get()), left + step)
        };
        let stretches: String = rank.course_bytes.iter().zip(0..).map(stretch).collect();
        format!("M0 {HEIGHT}{stretches}V{HEIGHT}Z")
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
const fn to_f64(bytes: u64) -> f64 {
    bytes as f64
}
