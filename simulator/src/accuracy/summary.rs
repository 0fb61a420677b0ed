//! Median, 95th percentile and worst of each number, per family and over all.

use std::collections::BTreeMap;

use serde::Serialize;

use super::metric::MetricName;
use super::row::{Row, Status};

/// How a number spreads over cases: of errors their size, of other numbers the number itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Cases that have the number.
    pub cases: usize,
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest value that at least 95 % of the cases are not worse than.
    pub p95: f64,
    /// The worst: the largest, or the smallest where larger is better.
    pub worst: f64,
    /// The case with the worst value.
    pub worst_id: String,
}

/// Spreads by number.
pub type Spreads = BTreeMap<MetricName, Spread>;

/// Everything below the rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Rows.
    pub cases: usize,
    /// Rows that were predicted.
    pub ok: usize,
    /// Rows that cannot be predicted.
    pub unsupported: usize,
    /// Rows that could not be read.
    pub invalid: usize,
    /// Over all predicted rows.
    pub overall: Spreads,
    /// Per family.
    pub families: BTreeMap<String, Spreads>,
}

/// Sums the rows up.
pub fn summarize(rows: &[Row]) -> Summary {
    let count = |status| rows.iter().filter(|row| row.status == status).count();
    let mut families: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.status == Status::Ok) {
        families.entry(row.family.clone()).or_default().push(row);
    }
    Summary {
        cases: rows.len(),
        ok: count(Status::Ok),
        unsupported: count(Status::Unsupported),
        invalid: count(Status::Invalid),
        overall: spreads(&rows.iter().collect::<Vec<_>>()),
        families: families.into_iter().map(|(name, rows)| (name, spreads(&rows))).collect(),
    }
}

fn spreads(rows: &[&Row]) -> Spreads {
    MetricName::ALL
        .into_iter()
        .filter_map(|name| {
            let values = rows
                .iter()
                .filter_map(|row| Some((row.metrics.get(&name)?.judged()?, row.id.as_str())));
            Some((name, spread(values.collect(), name.larger_is_better())?))
        })
        .collect()
}

/// The spread of some values; nothing when there are none.
fn spread(mut values: Vec<(f64, &str)>, larger_is_better: bool) -> Option<Spread> {
    values.sort_by(|(a, a_id), (b, b_id)| {
        let order = a.total_cmp(b);
        let order = if larger_is_better { order.reverse() } else { order };
        order.then_with(|| b_id.cmp(a_id))
    });
    let (worst, worst_id) = values.last().copied()?;
    let cases = values.len();
    let middle = f64::midpoint(values[(cases - 1) / 2].0, values[cases / 2].0);
    let p95 = values[(cases * 95).div_ceil(100) - 1].0;
    Some(Spread { cases, median: middle, p95, worst, worst_id: worst_id.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_by_hand() {
        let check = |values: &[f64], larger_is_better, expect: [f64; 3], worst_id| {
            let named = ["a", "b", "c", "d"];
            let values = values.iter().copied().zip(named).collect();
            let spread = spread(values, larger_is_better).unwrap();
            let found = [spread.median, spread.p95, spread.worst];
            assert!(found.iter().zip(&expect).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
            assert_eq!(spread.worst_id, worst_id);
        };
        check(&[3.0], false, [3.0, 3.0, 3.0], "a");
        check(&[1.0, 4.0, 2.0, 3.0], false, [2.5, 4.0, 4.0], "b");
        check(&[99.0, 97.0, 100.0], true, [99.0, 97.0, 97.0], "b");
        check(&[2.0, 2.0], false, [2.0, 2.0, 2.0], "a");
        assert_eq!(spread(Vec::new(), false), None);
        let many: Vec<(f64, &str)> = (1..=100).map(|value| (f64::from(value), "x")).collect();
        assert!((spread(many, false).unwrap().p95 - 95.0).abs() < 1e-12);
    }
}
