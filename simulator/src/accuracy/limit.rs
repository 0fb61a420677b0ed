//! Limits on a summary: `allocated_peak:median=0.2,worst=1`.

use serde::Serialize;

use super::metric::MetricName;
use super::summary::{Spread, Summary};

/// Which number of a spread is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The median.
    Median,
    /// The 95th percentile.
    P95,
    /// The worst.
    Worst,
}

impl Statistic {
    const ALL: [Self; 3] = [Self::Median, Self::P95, Self::Worst];

    /// The word in files and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::P95 => "p95",
            Self::Worst => "worst",
        }
    }

    const fn of(self, spread: &Spread) -> f64 {
        match self {
            Self::Median => spread.median,
            Self::P95 => spread.p95,
            Self::Worst => spread.worst,
        }
    }
}

/// Which side of the bound is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The value may not be larger.
    Max,
    /// The value may not be smaller.
    Min,
}

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// Which number.
    pub metric: MetricName,
    /// Which of its statistics, over all cases.
    pub statistic: Statistic,
    /// Which side is good.
    pub side: Side,
    /// The bound.
    pub bound: f64,
}

/// A limit and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The limit.
    #[serde(flatten)]
    pub limit: Limit,
    /// The value; absent when no case has it.
    pub value: Option<f64>,
    /// Whether it holds. A limit on nothing does not.
    pub holds: bool,
}

/// Limits on one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits(pub Vec<Limit>);

impl Limits {
    /// Reads `METRIC:median=0.2,worst=1`.
    ///
    /// # Errors
    ///
    /// A sentence that says which part is not understood.
    pub fn parse(side: Side, text: &str) -> Result<Self, String> {
        let (metric, bounds) = text
            .split_once(':')
            .ok_or_else(|| format!("\"{text}\" is not METRIC:STATISTIC=NUMBER[,…]"))?;
        let metric = MetricName::from_word(metric).ok_or_else(|| {
            let words: Vec<&str> = MetricName::ALL.iter().map(|name| name.word()).collect();
            format!("\"{metric}\" is no metric; there are {}", words.join(", "))
        })?;
        let limits = bounds.split(',').map(|bound| {
            let (word, number) = bound.split_once('=').unwrap_or((bound, ""));
            let statistic = Statistic::ALL.into_iter().find(|one| one.word() == word);
            let statistic =
                statistic.ok_or_else(|| format!("\"{word}\" is not one of median, p95, worst"))?;
            let bound =
                number.parse().map_err(|_not_a_number| format!("\"{number}\" is not a number"))?;
            Ok(Limit { metric, statistic, side, bound })
        });
        limits.collect::<Result<_, _>>().map(Self)
    }
}

impl Limit {
    /// Whether it holds over all cases of a summary.
    pub fn check(self, summary: &Summary) -> Checked {
        let value = summary.overall.get(&self.metric).map(|spread| self.statistic.of(spread));
        let holds = value.is_some_and(|value| match self.side {
            Side::Max => value <= self.bound,
            Side::Min => self.bound <= value,
        });
        Checked { limit: self, value, holds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let Limits(limits) = Limits::parse(Side::Max, "allocated_peak:median=0.2,worst=1").unwrap();
        assert_eq!(limits.len(), 2);
        assert_eq!(limits[0].metric, MetricName::AllocatedPeak);
        assert_eq!(
            (limits[0].statistic, limits[1].statistic),
            (Statistic::Median, Statistic::Worst)
        );
        for wrong in ["allocated_peak", "peak:median=1", "step_time:mean=1", "step_time:p95=x", ""]
        {
            assert!(Limits::parse(Side::Max, wrong).is_err(), "{wrong}");
        }
    }
}
