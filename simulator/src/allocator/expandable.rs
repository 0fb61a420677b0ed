//! Expandable segments: one reserved address range per pool, into which memory is mapped page
//! group by page group, lowest address first.
//!
//! ```text
//!  base                                                            base + bytes
//!  [ block | free | unmapped ... | block | free |     unmapped                ]
//!          └──── a candidate: free and unmapped blocks in a row ─┘
//! ```
//!
//! Source: PyTorch 2.11, `c10/cuda/CUDACachingAllocator.cpp`: Note "Expandable Segments",
//! `ExpandableSegment`, `find_expandable_block`, `map_block`, `unmap_block`,
//! `try_allocate_expandable_block`, `release_expandable_segment`.

use super::arena::{NONE, PoolIdx, Slot, State};
use super::free_list::{MAX_BLOCK, Position};
use super::{CachingAllocator, Driver};

/// A reserved range of addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpandableRange {
    base: u64,
    bytes: u64,
}

impl<D: Driver> CachingAllocator<D> {
    /// From the best fit at `at`, goes on to larger blocks while they have less room to grow: a
    /// block that borders unmapped addresses counts as what it could become (`get_free_block`).
    pub(super) fn least_room(&self, pool: PoolIdx, mut at: Position) -> Position {
        let free = &self.pools[pool.index()].free;
        let mut room = self.room(free.id(at));
        while let Some(next) = free.next(at) {
            let next_room = self.room(free.id(next));
            if room <= next_room {
                break;
            }
            (at, room) = (next, next_room);
        }
        at
    }

    /// Bytes that a block could grow to.
    fn room(&self, id: u32) -> u64 {
        let slot = self.arena.get(id);
        let beyond = match slot.next {
            NONE => 0,
            next if self.arena.get(next).state == State::Unmapped => self.arena.get(next).size,
            _ => 0,
        };
        slot.size + beyond
    }

    /// Maps memory until there is a free block of `size` bytes, and takes it
    /// (`try_allocate_expandable_block`). What was mapped before a refusal stays, free.
    pub(super) fn grow_expandable(&mut self, pool: PoolIdx, size: u64) -> Option<u32> {
        let mut id = self.find_expandable(pool, size);
        if self.arena.get(id).state == State::Unmapped {
            let bytes = size.min(self.arena.get(id).size);
            id = self.map_block(id, bytes)?;
        }
        while self.arena.get(id).size < size {
            let Slot { size: have, next, .. } = *self.arena.get(id);
            let bytes = (size - have).min(self.arena.get(next).size);
            id = self.map_block(next, bytes)?;
        }
        self.unlist(id);
        Some(id)
    }

    /// First of the free and unmapped blocks in a row, at the lowest address, that have `size`
    /// bytes together; a new range when there are none (`find_expandable_block`).
    fn find_expandable(&mut self, pool: PoolIdx, size: u64) -> u32 {
        for &unmapped in &self.pools[pool.index()].unmapped {
            let prev = self.arena.get(unmapped).prev;
            let first = if self.is_free(prev) { prev } else { unmapped };
            if size <= self.run_bytes(first, size) {
                return first;
            }
        }
        self.reserve_range(pool, size)
    }

    /// Bytes of the free and unmapped blocks in a row from `id` on, counted until `enough`.
    fn run_bytes(&self, mut id: u32, enough: u64) -> u64 {
        let mut bytes = 0;
        while bytes < enough && id != NONE {
            let slot = self.arena.get(id);
            if !matches!(slot.state, State::Free | State::Unmapped) {
                break;
            }
            bytes += slot.size;
            id = slot.next;
        }
        bytes
    }

    /// Reserves 9/8 of the device's bytes, in whole pages.
    fn reserve_range(&mut self, pool: PoolIdx, size: u64) -> u32 {
        let page = self.settings.page(pool.is_small());
        let device = self.driver.device_bytes();
        let bytes = device.saturating_add(device / 8).max(size).min(MAX_BLOCK - page);
        let bytes = bytes.next_multiple_of(page);
        let base = self.driver.reserve(bytes, self.pools[pool.index()].stream);
        self.expandables.push(ExpandableRange { base, bytes });
        let id = self.arena.add(Slot::whole(base, bytes, pool, State::Unmapped));
        self.insert_unmapped(id);
        id
    }

    /// Place of the range in which an address lies: that with the highest base up to it.
    fn range_of(&self, address: u64) -> usize {
        let below = self.expandables.iter().enumerate().filter(|(_, range)| range.base <= address);
        let (at, _) = below.max_by_key(|(_, range)| range.base).expect("a block lies in a range");
        at
    }

    /// Maps the first `size` bytes of an unmapped block, rounded up to pages; returns the free
    /// block that they become part of (`map_block`).
    fn map_block(&mut self, id: u32, size: u64) -> Option<u32> {
        let slot = *self.arena.get(id);
        let bytes = size.next_multiple_of(self.settings.page(slot.pool.is_small()));
        if !self.driver.map(slot.address, bytes) {
            return None;
        }
        self.stats.reserve(bytes);
        self.remove_unmapped(id);
        if bytes < slot.size {
            let address = slot.address + bytes;
            let rest = self.arena.add(Slot { address, size: slot.size - bytes, ..slot });
            self.arena.link(rest, slot.next);
            self.arena.link(id, rest);
            self.insert_unmapped(rest);
            self.arena.get_mut(id).size = bytes;
        }
        self.merge_free(id);
        Some(id)
    }

    /// Unmaps the whole pages of a free block; what lies outside them stays free
    /// (`unmap_block`). A range without any memory left is given up.
    pub(super) fn unmap_block(&mut self, id: u32) {
        let slot = *self.arena.get(id);
        let ExpandableRange { base, .. } = self.expandables[self.range_of(slot.address)];
        let page = self.settings.page(slot.pool.is_small());
        let start = base + (slot.address - base).next_multiple_of(page);
        let end = base + (slot.address + slot.size - base) / page * page;
        if end <= start {
            return;
        }
        self.driver.unmap(start, end - start);
        self.stats.give_back(end - start);
        self.unlist(id);
        if slot.address < start {
            let before = self.arena.add(Slot { size: start - slot.address, ..slot });
            self.arena.link(slot.prev, before);
            self.arena.link(before, id);
            self.set_free(before);
        }
        if end < slot.address + slot.size {
            let size = slot.address + slot.size - end;
            let after = self.arena.add(Slot { address: end, size, ..slot });
            self.arena.link(after, slot.next);
            self.arena.link(id, after);
            self.set_free(after);
        }
        let unmapped = self.arena.get_mut(id);
        unmapped.address = start;
        unmapped.size = end - start;
        unmapped.state = State::Unmapped;
        self.merge_unmapped(id);
    }

    fn merge_unmapped(&mut self, id: u32) {
        let Slot { prev, next, .. } = *self.arena.get(id);
        if self.is_unmapped(prev) {
            self.remove_unmapped(prev);
            self.absorb_prev(id, prev);
        }
        if self.is_unmapped(next) {
            self.remove_unmapped(next);
            self.absorb_next(id, next);
        }
        let Slot { address, prev, next, .. } = *self.arena.get(id);
        if prev == NONE && next == NONE {
            let ExpandableRange { base, bytes } = self.expandables.remove(self.range_of(address));
            self.driver.release(base, bytes);
            self.arena.drop_slot(id);
        } else {
            self.insert_unmapped(id);
        }
    }

    fn is_unmapped(&self, id: u32) -> bool {
        id != NONE && self.arena.get(id).state == State::Unmapped
    }

    fn insert_unmapped(&mut self, id: u32) {
        let at = self.unmapped_position(id);
        let pool = self.arena.get(id).pool;
        self.pools[pool.index()].unmapped.insert(at, id);
    }

    fn remove_unmapped(&mut self, id: u32) {
        let at = self.unmapped_position(id);
        let pool = self.arena.get(id).pool;
        assert_eq!(self.pools[pool.index()].unmapped[at], id, "the pool lists its unmapped blocks");
        self.pools[pool.index()].unmapped.remove(at);
    }

    fn unmapped_position(&self, id: u32) -> usize {
        let Slot { address, pool, .. } = *self.arena.get(id);
        let unmapped = &self.pools[pool.index()].unmapped;
        unmapped.partition_point(|&other| self.arena.get(other).address < address)
    }
}
