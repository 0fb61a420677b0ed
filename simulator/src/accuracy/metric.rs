//! The numbers of a comparison and their names.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// What is compared. The words are those of the JSON output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricName {
    /// Highest sum of live requested bytes in the steady step, base included.
    AllocatedPeak,
    /// Most bytes held from the driver over the process.
    ReservedPeak,
    /// What the driver shows: reserved and what lies outside the pool.
    DevicePeak,
    /// Whole step, seconds.
    StepTime,
    /// Forward and loss, seconds.
    ForwardTime,
    /// Backward, seconds.
    BackwardTime,
    /// Clipping, optimizer and `zero_grad`, seconds.
    OptimizerTime,
    /// Share of allocations of 1 MiB and more that match in order and size, %.
    EventsMatchedPct,
    /// Mean gap between the two curves over the measured peak, %.
    CurveGapPct,
    /// Whether a replay takes and gives back the same segments: 0 or 1.
    SegmentsEqual,
}

impl MetricName {
    /// All names, in the order shown to people.
    pub const ALL: [Self; 10] = [
        Self::AllocatedPeak,
        Self::ReservedPeak,
        Self::DevicePeak,
        Self::StepTime,
        Self::ForwardTime,
        Self::BackwardTime,
        Self::OptimizerTime,
        Self::EventsMatchedPct,
        Self::CurveGapPct,
        Self::SegmentsEqual,
    ];

    /// The word in the JSON output and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::AllocatedPeak => "allocated_peak",
            Self::ReservedPeak => "reserved_peak",
            Self::DevicePeak => "device_peak",
            Self::StepTime => "step_time",
            Self::ForwardTime => "forward_time",
            Self::BackwardTime => "backward_time",
            Self::OptimizerTime => "optimizer_time",
            Self::EventsMatchedPct => "events_matched_pct",
            Self::CurveGapPct => "curve_gap_pct",
            Self::SegmentsEqual => "segments_equal",
        }
    }

    /// The name of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.word() == word)
    }

    /// Whether a larger number is a better one.
    pub const fn larger_is_better(self) -> bool {
        matches!(self, Self::EventsMatchedPct | Self::SegmentsEqual)
    }
}

/// One compared number. Bytes, seconds, % or 0/1, as the name says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// What the simulator says.
    pub predicted: f64,
    /// What was measured; absent where the number is itself a comparison.
    pub measured: Option<f64>,
    /// 100·(predicted − measured)/measured.
    pub error_pct: Option<f64>,
}

/// The numbers of one case.
pub type Metrics = BTreeMap<MetricName, Metric>;

impl Metric {
    /// A prediction beside its measurement.
    pub fn against(predicted: f64, measured: f64) -> Self {
        let error_pct = (measured != 0.0).then(|| 100.0 * (predicted - measured) / measured);
        Self { predicted, measured: Some(measured), error_pct }
    }

    /// A number that is itself a comparison.
    pub const fn alone(value: f64) -> Self {
        Self { predicted: value, measured: None, error_pct: None }
    }

    /// The number that summaries and limits look at: the error's size, or the number itself.
    pub fn judged(&self) -> Option<f64> {
        match self.measured {
            None => Some(self.predicted),
            Some(_) => self.error_pct.map(f64::abs),
        }
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("predicted", &Short(self.predicted))?;
        if let Some(measured) = self.measured {
            map.serialize_entry("measured", &Short(measured))?;
        }
        if let Some(error_pct) = self.error_pct {
            map.serialize_entry("error_pct", &Short(error_pct))?;
        }
        map.end()
    }
}

/// A number that is written without a fraction when it is whole: bytes stay bytes.
struct Short(f64);

impl Serialize for Short {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0; // 2⁵³
        if self.0.fract() != 0.0 || EXACT < self.0.abs() {
            return serializer.serialize_f64(self.0);
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        serializer.serialize_i64(self.0 as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_whole_in_json() {
        let check = |metric: Metric, expect: &str| {
            assert_eq!(serde_json::to_string(&metric).unwrap(), expect);
        };
        check(Metric::against(150.0, 200.0), r#"{"predicted":150,"measured":200,"error_pct":-25}"#);
        check(
            Metric::against(0.125, 0.1),
            r#"{"predicted":0.125,"measured":0.1,"error_pct":24.999999999999993}"#,
        );
        check(Metric::alone(99.5), r#"{"predicted":99.5}"#);
        check(Metric::against(1.0, 0.0), r#"{"predicted":1,"measured":0}"#);
    }
}
