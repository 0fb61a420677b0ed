//! What stands at the peak, largest first, with its share.

use simulator::wire::report::{BreakdownRow, CategoryBytes};
use simulator::wire::timeline::Category;

use crate::format::float;

/// One category's part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    pub category: Category,
    pub bytes: u64,
    /// Of the whole, 0 to 1.
    pub share: f64,
}

/// The parts in the stack's order, empty ones left out, and their sum.
pub(crate) fn parts(rows: &[CategoryBytes]) -> (Vec<Part>, u64) {
    let total: u64 = rows.iter().map(|row| row.bytes.get()).sum();
    let parts = rows
        .iter()
        .filter(|row| 0 < row.bytes.get())
        .map(|row| Part {
            category: row.category,
            bytes: row.bytes.get(),
            share: share(row.bytes.get(), total),
        })
        .collect();
    (parts, total)
}

/// A part of a whole, 0 when there is no whole.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

/// The first `most` rows of the breakdown, and what the rest sums to.
pub(crate) fn head(rows: &[BreakdownRow], most: usize) -> (&[BreakdownRow], u64) {
    let (head, tail) = rows.split_at(most.min(rows.len()));
    (head, tail.iter().map(|row| row.bytes.get()).sum())
}

#[cfg(test)]
mod tests {
    use simulator::units::Bytes;

    use super::*;

    #[test]
    fn shares_sum_to_one_and_empty_parts_are_left_out() {
        let row = |category, gib| CategoryBytes { category, bytes: Bytes::from_gib(gib) };
        let rows = [row(Category::Weights, 3), row(Category::Inputs, 0), row(Category::Slack, 1)];
        let (parts, total) = parts(&rows);
        assert_eq!(total, 4 << 30);
        assert_eq!(parts.len(), 2);
        assert!((parts[0].share - 0.75).abs() < f64::EPSILON);
        assert!(share(1, 0).abs() < f64::EPSILON);
    }
}
