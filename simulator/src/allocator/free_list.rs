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
//! of comparisons that the processor cannot foresee. Within a bin the first in order stands last,
//! since blocks mostly come and go there.

use super::settings::MIN_BLOCK;

/// The largest block that the list orders: 2 TiB less 512 bytes.
pub(super) const MAX_BLOCK: u64 = (u32::MAX as u64) * MIN_BLOCK;

/// Bins; sizes of up to 2³² − 1 units use the first 240, and any `u8` is one.
const BINS: usize = 256;
/// Words of one bit per bin.
const WORDS: usize = BINS / 64;

/// A free block.
#[derive(Debug, Clone, Copy)]
struct Entry {
    units: u32,
    id: u32,
    address: u64,
}

impl Entry {
    #[inline]
    fn new(id: u32, size: u64, address: u64) -> Self {
        Self { units: units_of(size), id, address }
    }

    /// The order of the list.
    #[inline]
    fn is_before(self, other: Self) -> bool {
        self.units < other.units || (self.units == other.units && self.address < other.address)
    }
}

/// Where a block stands in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    bin: u8,
    at: u32,
}

/// Blocks by (size, address).
#[derive(Debug, Clone)]
pub(super) struct FreeList {
    bins: Box<[Vec<Entry>; BINS]>,
    occupied: [u64; WORDS],
}

/// Size in units of 512 bytes.
#[expect(clippy::cast_possible_truncation, reason = "no block is larger than `MAX_BLOCK`")]
#[inline]
fn units_of(size: u64) -> u32 {
    debug_assert!(size.is_multiple_of(MIN_BLOCK) && size <= MAX_BLOCK, "{size} is a block's size");
    (size / MIN_BLOCK) as u32
}

/// The bin of a size; see the head of this file.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "at most 239")]
fn bin_of(units: u32) -> u8 {
    let shift = units.max(8).ilog2() - 3;
    (shift * 8 + (units >> shift)) as u8
}

impl FreeList {
    pub(super) fn new() -> Self {
        Self { bins: Box::new([const { Vec::new() }; BINS]), occupied: [0; WORDS] }
    }

    #[inline]
    fn bin(&self, bin: u8) -> &[Entry] {
        &self.bins[usize::from(bin)]
    }

    /// The block at a position.
    #[inline]
    pub(super) fn id(&self, Position { bin, at }: Position) -> u32 {
        self.bin(bin)[at as usize].id
    }

    /// All blocks in order.
    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.bins.iter().flat_map(|entries| entries.iter().rev()).map(|entry| entry.id)
    }

    /// The smallest block of at least `size` bytes, the one at the lowest address first.
    #[inline]
    pub(super) fn best_fit(&self, size: u64) -> Option<Position> {
        let units = units_of(size);
        let bin = bin_of(units);
        match self.bin(bin).iter().rposition(|entry| units <= entry.units) {
            Some(at) => Some(position(bin, at)),
            None => self.first_after(bin),
        }
    }

    /// The block after a position.
    #[inline]
    pub(super) fn next(&self, Position { bin, at }: Position) -> Option<Position> {
        match at.checked_sub(1) {
            Some(at) => Some(Position { bin, at }),
            None => self.first_after(bin),
        }
    }

    /// The first block in the bins after `bin`.
    #[inline]
    fn first_after(&self, bin: u8) -> Option<Position> {
        let mut word = usize::from(bin / 64);
        let mut bits = self.occupied[word] & (u64::MAX << (bin % 64) << 1);
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        let bin = u8::try_from(word * 64 + bits.trailing_zeros() as usize).ok()?;
        Some(position(bin, self.bin(bin).len() - 1))
    }

    /// Adds a block.
    #[inline]
    pub(super) fn insert(&mut self, id: u32, size: u64, address: u64) {
        self.insert_entry(Entry::new(id, size, address));
    }

    #[inline]
    fn insert_entry(&mut self, entry: Entry) {
        let bin = bin_of(entry.units);
        self.occupied[usize::from(bin / 64)] |= 1 << (bin % 64);
        let entries = &mut self.bins[usize::from(bin)];
        entries.push(entry);
        let mut last = entries.as_mut_slice();
        while let [.., before, new] = last
            && before.is_before(entry)
        {
            *new = *before;
            *before = entry;
            let shorter = last.len() - 1;
            last = &mut last[..shorter];
        }
    }

    /// Position of a block, given its size as it was added.
    #[inline]
    pub(super) fn position(&self, id: u32, size: u64) -> Position {
        let bin = bin_of(units_of(size));
        let at = self.bin(bin).iter().rposition(|entry| entry.id == id);
        position(bin, at.expect("a free block is in its pool's list"))
    }

    /// Puts a block in the place of the one at a position, or where it belongs.
    #[inline]
    pub(super) fn replace(&mut self, position: Position, id: u32, size: u64, address: u64) {
        let entry = Entry::new(id, size, address);
        let Position { bin, at } = position;
        let at = at as usize;
        let entries = self.bins[usize::from(bin)].as_mut_slice();
        let stays = bin_of(entry.units) == bin
            && entries.get(at + 1).is_none_or(|before| before.is_before(entry))
            && entries.get(at.wrapping_sub(1)).is_none_or(|&after| entry.is_before(after));
        if stays {
            entries[at] = entry;
        } else {
            self.remove_at(position);
            self.insert_entry(entry);
        }
    }

    /// Takes out the block at a position.
    #[inline]
    pub(super) fn remove_at(&mut self, Position { bin, at }: Position) {
        let entries = &mut self.bins[usize::from(bin)];
        let at = at as usize;
        if at + 1 == entries.len() {
            entries.pop();
        } else {
            entries.remove(at);
        }
        if entries.is_empty() {
            self.occupied[usize::from(bin / 64)] &= !(1 << (bin % 64));
        }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2³² blocks")]
fn position(bin: u8, at: usize) -> Position {
    Position { bin, at: at as u32 }
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
        assert_eq!(bin_of(u32::MAX), 239);
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
        list.remove_at(list.position(2, 39 << 10));
        list.remove_at(list.position(3, 3000 << 10));
        assert_eq!(list.ids().collect::<Vec<_>>(), [1, 0]);
        assert_eq!(list.best_fit(41 << 10), None);
    }
}
