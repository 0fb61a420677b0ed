//! Longest common subsequence of two sequences of sizes, 64 positions at a time.
//!
//! Bit `i` of a row stands for position `i` of the first sequence; it is 0 where taking one more
//! element of the first sequence makes the common subsequence longer. One row per element of the
//! second sequence, each from the last by one addition over the whole row: 20,000 × 20,000 takes
//! six million word operations.
//!
//! Source: H. Hyyrö, "Bit-parallel LCS-length computation revisited" (2004), figure 3.

use std::collections::BTreeMap;

/// Two elements that the longest common subsequence pairs, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    /// Position in the first sequence.
    pub left: usize,
    /// Position in the second sequence.
    pub right: usize,
}

/// Length of the longest common subsequence.
pub(super) fn length(left: &[u64], right: &[u64]) -> usize {
    let (before, left, right, after) = trim(left, right);
    let table = Table::of(left);
    let mut row = table.first_row();
    for size in right {
        table.advance(&mut row, *size);
    }
    before + table.zeros(&row) + after
}

/// One longest common subsequence, as pairs of positions in order.
///
/// Keeps all rows: an eighth of a byte for each pair of positions.
pub(super) fn pairs(left: &[u64], right: &[u64]) -> Vec<Pair> {
    let (before, middle_left, middle_right, after) = trim(left, right);
    let table = Table::of(middle_left);
    let mut row = table.first_row();
    let mut rows = Vec::with_capacity(middle_right.len());
    for size in middle_right {
        table.advance(&mut row, *size);
        rows.push(row.clone());
    }
    let is_set = |row: &[u64], position: usize| row[position / 64] >> (position % 64) & 1 == 1;
    let mut found = Vec::new();
    let (mut i, mut j) = (middle_left.len(), middle_right.len());
    while 0 < i && 0 < j {
        if is_set(&rows[j - 1], i - 1) {
            i -= 1;
        } else if 1 < j && !is_set(&rows[j - 2], i - 1) {
            j -= 1;
        } else {
            i -= 1;
            j -= 1;
            found.push(Pair { left: before + i, right: before + j });
        }
    }
    let head = (0..before).map(|position| Pair { left: position, right: position });
    let tail = (0..after).map(|offset| Pair {
        left: left.len() - after + offset,
        right: right.len() - after + offset,
    });
    head.chain(found.into_iter().rev()).chain(tail).collect()
}

/// Length of the common head, the two middles, and length of the common tail.
fn trim<'a>(left: &'a [u64], right: &'a [u64]) -> (usize, &'a [u64], &'a [u64], usize) {
    let head = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let (left, right) = (&left[head..], &right[head..]);
    let tail = left.iter().rev().zip(right.iter().rev()).take_while(|(a, b)| a == b).count();
    (head, &left[..left.len() - tail], &right[..right.len() - tail], tail)
}

/// For each size of the first sequence, the positions where it stands, as bits.
struct Table {
    len: usize,
    positions: BTreeMap<u64, Vec<u64>>,
}

impl Table {
    fn of(left: &[u64]) -> Self {
        let words = left.len().div_ceil(64);
        let mut positions = BTreeMap::new();
        for (position, size) in left.iter().enumerate() {
            let bits = positions.entry(*size).or_insert_with(|| vec![0; words]);
            bits[position / 64] |= 1 << (position % 64);
        }
        Self { len: left.len(), positions }
    }

    fn first_row(&self) -> Vec<u64> {
        vec![u64::MAX; self.len.div_ceil(64)]
    }

    /// `row = (row + (row & at)) | (row & !at)`, where `at` are the positions of `size`.
    fn advance(&self, row: &mut [u64], size: u64) {
        let Some(at) = self.positions.get(&size) else { return };
        let mut carry = false;
        for (word, at) in row.iter_mut().zip(at) {
            let (sum, first) = word.overflowing_add(*word & at);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first || second;
            *word = sum | (*word & !at);
        }
    }

    fn zeros(&self, row: &[u64]) -> usize {
        let unused = row.len() * 64 - self.len;
        let zeros: usize = row.iter().map(|word| word.count_zeros() as usize).sum();
        // The bits past the end start as ones; a carry may clear none of them.
        debug_assert!(
            row.last().is_none_or(|last| { unused == 0 || last.leading_ones() as usize >= unused })
        );
        zeros
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_definition(left: &[u64], right: &[u64]) -> usize {
        let mut last = vec![0; right.len() + 1];
        for a in left {
            let mut next = vec![0; right.len() + 1];
            for (j, b) in right.iter().enumerate() {
                next[j + 1] = if a == b { last[j] + 1 } else { last[j + 1].max(next[j]) };
            }
            last = next;
        }
        last[right.len()]
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            left in prop::collection::vec(0_u64..6, 0..300),
            right in prop::collection::vec(0_u64..6, 0..300),
        ) {
            let expected = by_definition(&left, &right);
            prop_assert_eq!(length(&left, &right), expected);
            let pairs = pairs(&left, &right);
            prop_assert_eq!(pairs.len(), expected);
            prop_assert!(pairs.iter().all(|pair| left[pair.left] == right[pair.right]));
            prop_assert!(pairs.is_sorted_by(|a, b| a.left < b.left && a.right < b.right));
        }
    }

    #[test]
    fn the_ends_of_a_word_count() {
        for len in [0, 1, 63, 64, 65, 127, 128, 129] {
            let left: Vec<u64> = (0..len).collect();
            let right: Vec<u64> = (0..len).map(|size| size * 2).collect();
            assert_eq!(length(&left, &left), left.len());
            assert_eq!(length(&left, &right), by_definition(&left, &right), "{len}");
        }
    }
}
