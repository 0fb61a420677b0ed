//! How far a prediction is from what was measured: one capture, one prediction, named numbers.
//!
//! ```text
//! capture ──► trace ─┐
//!                    ├─► metrics ─► summary per family ─► limits
//! timeline ─► trace ─┘
//! ```
//!
//! The names and their meaning are a contract (docs/formats.md): a blind set is read by them.

mod compare;
mod explain;
mod judge;
mod lcs;
mod limit;
mod metric;
mod published;
mod row;
mod summary;
mod trace;

pub use compare::{compare, curve_gap_pct, events_matched_pct};
pub use explain::{Explain, explain};
pub use judge::{Setup, judge_capture, predict};
pub use limit::{Checked, Limit, Limits, Side, Statistic};
pub use metric::{Metric, MetricName, Metrics};
pub use published::judge_published;
pub use row::{Head, Kind, Row, Status, family};
pub use summary::{Spread, Spreads, Summary, summarize};
pub use trace::{LARGE, Part, Request, Span, Trace};
