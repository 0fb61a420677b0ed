//! The free blocks of one pool, ordered by (size, address): best fit is the first that is large
//! enough.
//!
//! A pool rarely holds more than some dozens of free blocks, so a sorted vector of packed entries
//! beats a tree: an entry is eight bytes (size in units of 512 bytes, then the block's index), and
//! the address is looked up in the arena only between blocks of equal size.

use super::arena::Slot;
use super::settings::MIN_BLOCK;

/// The largest block that fits an entry: 2 TiB less 512 bytes.
pub(super) const MAX_BLOCK: u64 = (u32::MAX as u64) * MIN_BLOCK;

/// Blocks by (size, address).
#[derive(Debug, Clone, Default)]
pub(super) struct FreeList {
    entries: Vec<u64>,
}

fn entry(size: u64, id: u32) -> u64 {
    debug_assert!(size.is_multiple_of(MIN_BLOCK) && size <= MAX_BLOCK, "{size} fits an entry");
    (size / MIN_BLOCK) << 32 | u64::from(id)
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is the index")]
fn id_of(entry: u64) -> u32 {
    entry as u32
}

impl FreeList {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The block at a position.
    pub(super) fn id(&self, at: usize) -> u32 {
        id_of(self.entries[at])
    }

    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.entries.iter().map(|&entry| id_of(entry))
    }

    /// Position of the smallest block of at least `size` bytes, the lowest address first; the
    /// length when there is none.
    pub(super) fn best_fit(&self, size: u64) -> usize {
        let key = (size / MIN_BLOCK) << 32;
        self.entries.partition_point(|&entry| entry < key)
    }

    /// Position of block `id` by its size and address in `slots`, or where it belongs.
    fn position(&self, slots: &[Slot], size: u64, address: u64) -> usize {
        let units = size / MIN_BLOCK;
        self.entries.partition_point(|&entry| {
            let other = entry >> 32;
            other < units || (other == units && slots[id_of(entry) as usize].address < address)
        })
    }

    /// Adds block `id`.
    pub(super) fn insert(&mut self, slots: &[Slot], id: u32) {
        let slot = &slots[id as usize];
        let at = self.position(slots, slot.size, slot.address);
        self.entries.insert(at, entry(slot.size, id));
    }

    /// Takes block `id` out; its slot must be as it was when it was added.
    pub(super) fn remove(&mut self, slots: &[Slot], id: u32) {
        let slot = &slots[id as usize];
        let at = self.position(slots, slot.size, slot.address);
        assert_eq!(self.id(at), id, "the free list holds block {id}");
        self.entries.remove(at);
    }

    /// Takes out the block at a position.
    pub(super) fn remove_at(&mut self, at: usize) {
        self.entries.remove(at);
    }

    /// Puts the block at position `at`, which has shrunk or moved up, where it belongs now.
    pub(super) fn shrink_at(&mut self, slots: &[Slot], at: usize) {
        let id = self.id(at);
        let slot = &slots[id as usize];
        let below = &self.entries[..at];
        let units = slot.size / MIN_BLOCK;
        let to = below.partition_point(|&entry| {
            let other = entry >> 32;
            other < units || (other == units && slots[id_of(entry) as usize].address < slot.address)
        });
        self.entries.copy_within(to..at, to + 1);
        self.entries[to] = entry(slot.size, id);
    }
}
