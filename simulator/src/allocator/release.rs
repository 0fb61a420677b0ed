//! Giving memory back to the driver: garbage collection, the two steps after a refusal, and
//! `empty_cache`.
//!
//! Source: PyTorch 2.11, `c10/cuda/CUDACachingAllocator.cpp` (`garbage_collect_cached_blocks`,
//! `release_available_cached_blocks`, `release_cached_blocks`, `release_blocks`, `release_block`).

use super::arena::{NONE, PoolIdx};
use super::{CachingAllocator, Driver};

impl<D: Driver> CachingAllocator<D> {
    /// Frees unused segments of the large pools, the oldest first, until the reserved bytes are
    /// back at the threshold (`garbage_collect_cached_blocks`).
    ///
    /// Each round frees all whose age is at least the mean age, so it may free more than asked.
    /// Age counts look-ups in large pools since the block became free.
    pub(super) fn collect_garbage(&mut self) {
        let floor = self.gc_floor.unwrap_or(u64::MAX);
        let Some(target @ 1..) = self.stats.reserved.checked_sub(floor) else { return };
        let mut candidates: Vec<u32> = Vec::new();
        for pool in self.pools.iter().step_by(2) {
            candidates.extend(pool.free.ids().filter(|&id| self.is_whole_segment(id)));
        }
        let now = self.lookups[0];
        let mut total_age: u64 =
            candidates.iter().map(|&id| now - self.arena.get(id).requested_or_born).sum();
        let mut reclaimed = 0;
        while reclaimed < target && !candidates.is_empty() {
            // In whole numbers: age ≥ total / count.
            let (total, count) = (total_age, candidates.len() as u64);
            let mut kept = Vec::new();
            for &id in &candidates {
                let age = now - self.arena.get(id).requested_or_born;
                if total <= age * count {
                    reclaimed += self.arena.get(id).size;
                    total_age -= age;
                    self.free_segment(id);
                } else {
                    kept.push(id);
                }
            }
            candidates = kept;
        }
    }

    /// Frees just enough oversize blocks of the pool for a request of `size`
    /// (`release_available_cached_blocks`): one that is large enough, or else several from the
    /// largest down. False when that was not enough; what was freed stays freed.
    pub(super) fn release_available(&mut self, pool: PoolIdx, size: u64) -> bool {
        if self.settings.max_split_size.is_none() {
            return false;
        }
        let wanted = size.max(self.max_split);
        if let Some(at) = self.pools[pool.index()].free.best_fit(wanted) {
            let id = self.pools[pool.index()].free.id(at);
            let can_release = self.is_whole_segment(id);
            if can_release {
                self.free_segment(id);
            }
            return can_release;
        }
        let mut released = 0;
        while released < wanted {
            let Some(id) = self.pools[pool.index()].free.ids().next_back() else { break };
            let bytes = self.arena.get(id).size;
            if bytes < self.max_split || !self.is_whole_segment(id) {
                break;
            }
            released += bytes;
            self.free_segment(id);
        }
        wanted <= released
    }

    /// Waits for other streams, then frees every unused segment and unmaps every unused page
    /// (`release_cached_blocks`).
    pub(super) fn release_cached(&mut self) {
        for id in std::mem::take(&mut self.pending) {
            self.release_to_pool(id);
        }
        for kind in 0..2 {
            for pool in (kind..self.pools.len()).step_by(2) {
                self.release_pool(pool);
            }
        }
    }

    fn release_pool(&mut self, pool: usize) {
        let mut to_unmap = Vec::new();
        let free: Vec<u32> = self.pools[pool].free.ids().collect();
        for id in free {
            if self.is_expandable {
                to_unmap.push(id);
            } else if self.is_whole_segment(id) {
                self.free_segment(id);
            }
        }
        for id in to_unmap {
            self.unmap_block(id);
        }
    }

    /// Whether a free block is a fixed segment of its own.
    fn is_whole_segment(&self, id: u32) -> bool {
        let slot = self.arena.get(id);
        slot.prev == NONE && slot.next == NONE && !self.is_expandable
    }

    /// Gives a free block that is a whole segment back to the driver (`release_block`).
    fn free_segment(&mut self, id: u32) {
        let slot = *self.arena.get(id);
        self.driver.free(slot.address, slot.size);
        self.stats.give_back(slot.size);
        self.stats.segments -= 1;
        self.unlist(id);
        self.arena.drop_slot(id);
    }
}
