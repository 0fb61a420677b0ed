//! The free blocks of one pool, ordered by (size, address): best fit is the first that is large
//! enough.
//!
//! The order is cut into bins, eight to a power of two, and a bit per bin tells which hold blocks:
//!
//! ```text
//!  size in units of 512 bytes   1 2 … 7 | 8 9 … 15 | 16-17 18-19 … 30-31 | 32-35 …
//!  bin                          1 2 … 7 | 8 9 … 15 | 16    17    … 23    | 24    …
//! ```
//!
//! A program asks for few different sizes, so a bin mostly holds a handful of blocks, and finding,
//! adding and removing one costs a few steps, where a tree or one long sorted vector costs a chain
//! of comparisons that the processor cannot foresee.

use super::settings::MIN_BLOCK;

/// The largest block that the list orders: 2 TiB less 512 bytes.
pub(super) const MAX_BLOCK: u64 = (u32::MAX as u64) * MIN_BLOCK;

/// Bins for sizes of up to 2³² − 1 units.
const BINS: usize = 240;
/// Words of one bit per bin.
const WORDS: usize = BINS.div_ceil(64);

/// A free block; ordered by size, then address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    units: u32,
    id: u32,
    address: u64,
}

impl Entry {
    fn is_before(self, other: Self) -> bool {
        (self.units, self.address) < (other.units, other.address)
    }
}

/// Where a block stands in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    bin: usize,
    at: usize,
}

/// Blocks by (size, address).
#[derive(Debug, Clone)]
pub(super) struct FreeList {
    bins: Vec<Vec<Entry>>,
    occupied: [u64; WORDS],
}

/// Size in units of 512 bytes.
#[expect(clippy::cast_possible_truncation, reason = "no block is larger than `MAX_BLOCK`")]
fn units_of(size: u64) -> u32 {
    debug_assert!(size.is_multiple_of(MIN_BLOCK) && size <= MAX_BLOCK, "{size} is a block's size");
    (size / MIN_BLOCK) as u32
}

/// The bin of a size; see the head of this file.
fn bin_of(units: u32) -> usize {
    let power = units.max(8).ilog2();
    ((power - 3) * 8 + (units >> (power - 3))) as usize
}

impl FreeList {
    pub(super) fn new() -> Self {
        Self { bins: vec![Vec::new(); BINS], occupied: [0; WORDS] }
    }

    /// The block at a position.
    pub(super) fn id(&self, position: Position) -> u32 {
        self.bins[position.bin][position.at].id
    }

    /// All blocks in order.
    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.bins.iter().flatten().map(|entry| entry.id)
    }

    /// The smallest block of at least `size` bytes, the one at the lowest address first.
    pub(super) fn best_fit(&self, size: u64) -> Option<Position> {
        let units = units_of(size);
        let bin = bin_of(units);
        let at = self.bins[bin].iter().position(|entry| units <= entry.units);
        match at {
            Some(at) => Some(Position { bin, at }),
            None => self.first_in_bins(bin + 1),
        }
    }

    /// The block after a position.
    pub(super) fn next(&self, Position { bin, at }: Position) -> Option<Position> {
        if at + 1 < self.bins[bin].len() {
            return Some(Position { bin, at: at + 1 });
        }
        self.first_in_bins(bin + 1)
    }

    /// The first block in the bins from `bin` on.
    fn first_in_bins(&self, bin: usize) -> Option<Position> {
        let mut word = bin / 64;
        let mut bits = self.occupied.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(Position { bin: word * 64 + bits.trailing_zeros() as usize, at: 0 })
    }

    /// Adds a block.
    pub(super) fn insert(&mut self, id: u32, size: u64, address: u64) {
        let entry = Entry { units: units_of(size), id, address };
        let bin = bin_of(entry.units);
        let entries = &mut self.bins[bin];
        let at = entries.iter().rposition(|&other| other.is_before(entry)).map_or(0, |at| at + 1);
        entries.insert(at, entry);
        self.occupied[bin / 64] |= 1 << (bin % 64);
    }

    /// Takes a block out, given its size as it was added.
    pub(super) fn remove(&mut self, id: u32, size: u64) {
        let bin = bin_of(units_of(size));
        let at = self.bins[bin].iter().position(|entry| entry.id == id);
        self.remove_at(Position { bin, at: at.expect("a free block is in its pool's list") });
    }

    /// Takes out the block at a position.
    pub(super) fn remove_at(&mut self, Position { bin, at }: Position) {
        self.bins[bin].remove(at);
        if self.bins[bin].is_empty() {
            self.occupied[bin / 64] &= !(1 << (bin % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_in_order_of_size() {
        assert_eq!(
            [1, 7, 8, 15, 16, 17, 18, 31, 32].map(bin_of),
            [1, 7, 8, 15, 16, 16, 17, 23, 24]
        );
        assert_eq!(bin_of(u32::MAX), BINS - 1);
    }

    #[test]
    fn best_fit_is_the_smallest_then_the_lowest() {
        let mut list = FreeList::new();
        for (id, kib, address) in [(0, 40, 9), (1, 39, 8), (2, 39, 4), (3, 3000, 1)] {
            list.insert(id, kib << 10, address << 20);
        }
        assert_eq!(list.ids().collect::<Vec<_>>(), [2, 1, 0, 3]);
        let fits = |kib: u64| list.best_fit(kib << 10).map(|position| list.id(position));
        assert_eq!([1, 39, 40, 41, 3001].map(fits), [Some(2), Some(2), Some(0), Some(3), None]);
        list.remove(2, 39 << 10);
        list.remove(3, 3000 << 10);
        assert_eq!(list.ids().collect::<Vec<_>>(), [1, 0]);
        assert_eq!(list.best_fit(41 << 10), None);
    }
}
