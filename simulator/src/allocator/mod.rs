//! The caching allocator: which requests are served from cached blocks, when the driver is asked
//! for memory, and when there is none left. A replay model of PyTorch 2.11's
//! `CUDACachingAllocator`, rule for rule, without a device.
//!
//! Terms (all sizes in bytes): a *request* is rounded up to a *block*; blocks are cut from
//! *segments*, which the [`Driver`] hands out; a *pool* holds the free blocks of one stream and
//! one kind, small (blocks up to 1 MiB) or large.
//!
//! ```text
//!  alloc ─ round up ─ best fit in the pool ─┬─ found ──────────────────────┬─ split? ─ block
//!                                           └─ new segment ─┬─ granted ────┘
//!                                                refused:   ├─ release some oversize blocks, retry
//!                                                           ├─ release all unused segments, retry
//!                                                           └─ out of memory
//! ```
//!
//! Source: PyTorch 2.11, `c10/cuda/CUDACachingAllocator.cpp`, class `DeviceCachingAllocator`; each
//! function here names its counterpart there. Left out: CUDA graphs' private pools, IPC and
//! `cudaMallocAsync`.

mod addresses;
mod arena;
mod driver;
mod expandable;
mod free_list;
mod release;
pub mod replay;
mod settings;
#[cfg(test)]
mod tests;

use std::fmt;

pub use driver::{Counting, Driver, Logged, SegmentAction, SegmentEvent};
pub use settings::{ProcessLimit, Segments, Settings, SettingsError};

use arena::{Arena, NONE, PoolIdx, Slot, State};
use expandable::ExpandableRange;
use free_list::{FreeList, MAX_BLOCK, Position};
use settings::{MIN_BLOCK, SMALL_BLOCK};

/// A block that was handed out; valid until it is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    id: u32,
    /// How often the slot had been handed out: tells a stale handle from a valid one.
    generation: u32,
}

/// A request that could not be served, after everything unused was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes that were requested.
    pub requested: u64,
    /// Bytes that the driver was asked for.
    pub segment: u64,
    /// Bytes in blocks handed out at that moment.
    pub allocated: u64,
    /// Bytes reserved at that moment, after all releases.
    pub reserved: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "out of memory: {} bytes requested, {} bytes allocated, {} bytes reserved",
            self.requested, self.allocated, self.reserved
        )
    }
}

impl std::error::Error for OutOfMemory {}

/// The allocator's counters. The names follow `torch.cuda.memory_stats`; all but the counts are
/// bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// In blocks handed out.
    pub allocated: u64,
    /// In blocks handed out, and in freed blocks that other streams still use.
    pub active: u64,
    /// Requested, over the active blocks.
    pub requested: u64,
    /// In segments and mapped pages.
    pub reserved: u64,
    /// Highest `allocated` since the last reset.
    pub peak_allocated: u64,
    /// Highest `active` since the last reset.
    pub peak_active: u64,
    /// Highest `requested` since the last reset.
    pub peak_requested: u64,
    /// Highest `reserved` since the last reset.
    pub peak_reserved: u64,
    /// Segments held; expandable ones are not counted.
    pub segments: u64,
    /// Times the driver was asked again after all unused memory was released
    /// (`num_alloc_retries`).
    pub retries: u64,
    /// Requests that failed (`num_ooms`).
    pub ooms: u64,
    /// Segments allocated and page groups mapped (`num_device_alloc`).
    pub driver_allocs: u64,
    /// Segments freed and page groups unmapped (`num_device_free`).
    pub driver_frees: u64,
}

impl Stats {
    fn reserve(&mut self, bytes: u64) {
        self.reserved += bytes;
        self.peak_reserved = self.peak_reserved.max(self.reserved);
        self.driver_allocs += 1;
    }

    fn give_back(&mut self, bytes: u64) {
        self.reserved -= bytes;
        self.driver_frees += 1;
    }
}

/// The free blocks of one stream and kind.
#[derive(Debug, Clone)]
struct Pool {
    stream: u32,
    free: FreeList,
    /// Unmapped blocks by address.
    unmapped: Vec<u32>,
}

/// The allocator of one device. See the head of this module.
#[derive(Debug, Clone)]
pub struct CachingAllocator<D> {
    settings: Settings,
    driver: D,
    arena: Arena,
    /// Two per stream: large, small.
    pools: Vec<Pool>,
    /// Blocks freed while other streams use them, oldest first.
    pending: Vec<u32>,
    expandables: Vec<ExpandableRange>,
    stats: Stats,
    /// Bytes that the process may reserve.
    limit: u64,
    /// Whether segments are expandable.
    is_expandable: bool,
    /// Blocks of this many bytes and more are not split.
    max_split: u64,
    /// Reserved bytes above which garbage is collected.
    gc_floor: Option<u64>,
    /// Look-ups so far in large and small pools: the clock of garbage collection.
    lookups: [u64; 2],
}

impl<D: Driver> CachingAllocator<D> {
    /// An allocator that holds nothing yet.
    pub fn new(settings: Settings, driver: D) -> Self {
        let limit = match settings.process_limit {
            ProcessLimit::None => None,
            ProcessLimit::Fraction(share) => Some(share_of(driver.device_bytes(), share)),
            ProcessLimit::Bytes(bytes) => Some(bytes),
        };
        let gc_floor =
            settings.garbage_collection_threshold.and_then(|share| Some(share_of(limit?, share)));
        Self {
            is_expandable: settings.segments == Segments::Expandable,
            max_split: settings.max_split_size.unwrap_or(u64::MAX),
            settings,
            driver,
            arena: Arena::new(),
            pools: Vec::new(),
            pending: Vec::new(),
            expandables: Vec::new(),
            stats: Stats::default(),
            limit: limit.unwrap_or(u64::MAX),
            gc_floor,
            lookups: [0; 2],
        }
    }

    /// Serves a request of `bytes` for work on `stream` (`malloc`).
    ///
    /// Streams are small numbers; the default stream is 0. Blocks that other streams have finished
    /// with must be completed before, as the framework does at the start of every request.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] when the driver or the process limit refuses although everything unused was
    /// given back. The allocator stays usable.
    ///
    /// # Panics
    ///
    /// On a request of zero bytes, which the framework never passes on, and on a stream above
    /// 32 767.
    pub fn alloc(&mut self, bytes: u64, stream: u32) -> Result<Block, OutOfMemory> {
        assert!(0 < bytes, "an empty request does not reach the allocator");
        if MAX_BLOCK / 2 < bytes {
            return Err(self.out_of_memory(bytes, bytes));
        }
        let size = self.settings.block_size(bytes);
        let pool = PoolIdx::new(stream, size <= SMALL_BLOCK);
        if self.pools.len() <= pool.index() {
            self.add_streams(stream);
        }
        let id = match self.find(pool, size) {
            Some(at) => self.take(pool, at, size),
            None => {
                self.take_new(pool, size).map_err(|segment| self.out_of_memory(bytes, segment))?
            }
        };
        Ok(self.hand_out(id, bytes))
    }

    /// Takes a block back at once (`free` without recorded streams).
    ///
    /// # Panics
    ///
    /// When the block is not allocated.
    pub fn free(&mut self, block: Block) {
        self.drop_allocated(block);
        self.release_to_pool(block.id);
    }

    /// Takes a block back that other streams still use (`record_stream`, then `free`): it is not
    /// reused before [`Self::complete_free`], or until everything unused is released.
    ///
    /// # Panics
    ///
    /// When the block is not allocated.
    pub fn defer_free(&mut self, block: Block) {
        self.drop_allocated(block);
        self.arena.get_mut(block.id).state = State::Pending;
        self.pending.push(block.id);
    }

    /// The other streams have finished with a deferred block (`process_events`). False when a
    /// release of all unused memory has waited for it already.
    pub fn complete_free(&mut self, block: Block) -> bool {
        if self.arena.get(block.id).generation != block.generation {
            return false;
        }
        let Some(at) = self.pending.iter().position(|&id| id == block.id) else { return false };
        self.pending.remove(at);
        self.release_to_pool(block.id);
        true
    }

    /// Gives everything unused back to the driver (`emptyCache`).
    pub fn empty_cache(&mut self) {
        self.release_cached();
    }

    /// Starts the peaks anew from the current values (`resetPeakStats`).
    pub fn reset_peaks(&mut self) {
        self.stats.peak_allocated = self.stats.allocated;
        self.stats.peak_active = self.stats.active;
        self.stats.peak_requested = self.stats.requested;
        self.stats.peak_reserved = self.stats.reserved;
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Bytes in blocks handed out.
    pub fn allocated(&self) -> u64 {
        self.stats.allocated
    }

    /// Bytes in segments and mapped pages.
    pub fn reserved(&self) -> u64 {
        self.stats.reserved
    }

    /// Address of a block's first byte.
    pub fn address(&self, block: Block) -> u64 {
        self.arena.get(block.id).address
    }

    /// Bytes of a block; at least what was requested.
    pub fn size(&self, block: Block) -> u64 {
        self.arena.get(block.id).size
    }

    /// Bytes of the largest free block of any pool.
    pub fn largest_free(&self) -> u64 {
        let last = self.pools.iter().filter_map(|pool| pool.free.ids().next_back());
        last.map(|id| self.arena.get(id).size).max().unwrap_or(0)
    }

    /// What the process may reserve, in bytes; `u64::MAX` without a limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The driver, to drain its log.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    fn out_of_memory(&mut self, requested: u64, segment: u64) -> OutOfMemory {
        self.stats.ooms += 1;
        let Stats { allocated, reserved, .. } = self.stats;
        OutOfMemory { requested, segment, allocated, reserved }
    }

    /// Makes the pools of all streams up to one (`get_pool` makes them as they are needed).
    #[cold]
    fn add_streams(&mut self, up_to: u32) {
        while self.pools.last().is_none_or(|pool| pool.stream < up_to) {
            let stream = self.pools.last().map_or(0, |pool| pool.stream + 1);
            let pool = Pool { stream, free: FreeList::new(), unmapped: Vec::new() };
            self.pools.extend([pool.clone(), pool]);
        }
    }

    /// Position in the pool of the free block that serves `size` (`get_free_block`).
    fn find(&mut self, pool: PoolIdx, size: u64) -> Option<Position> {
        self.lookups[usize::from(pool.is_small())] += 1;
        let free = &self.pools[pool.index()].free;
        let mut at = free.best_fit(size)?;
        if self.is_expandable {
            at = self.least_room(pool, at);
        }
        let found = self.arena.get(free.id(at)).size;
        let fits = if size < self.max_split {
            found < self.max_split
        } else {
            found < size + self.settings.max_non_split_rounding
        };
        fits.then_some(at)
    }

    /// Whether what remains of a block becomes a block of its own (`should_split`).
    fn splits(&self, is_small: bool, block: u64, size: u64) -> bool {
        let remaining = block - size;
        if is_small || self.is_expandable {
            MIN_BLOCK <= remaining
        } else {
            size < self.max_split && SMALL_BLOCK < remaining
        }
    }

    /// Takes the free block at a position, cut to `size` where the rules allow.
    fn take(&mut self, pool: PoolIdx, at: Position, size: u64) -> u32 {
        let id = self.pools[pool.index()].free.id(at);
        if !self.splits(pool.is_small(), self.arena.get(id).size, size) {
            self.pools[pool.index()].free.remove_at(at);
            return id;
        }
        let (rest, Slot { size, address, .. }) = self.cut(id, size);
        self.pools[pool.index()].free.replace(at, rest, size, address);
        id
    }

    /// Takes a block from a new segment (the second half of `malloc`). The error is the size of
    /// the segment that could not be had.
    #[cold]
    fn take_new(&mut self, pool: PoolIdx, size: u64) -> Result<u32, u64> {
        if self.gc_floor.is_some() {
            self.collect_garbage();
        }
        let id = match self.grow(pool, size) {
            Some(id) => id,
            None => self.grow_after_release(pool, size).ok_or(self.settings.segment_size(size))?,
        };
        if self.splits(pool.is_small(), self.arena.get(id).size, size) {
            let (rest, Slot { size, address, .. }) = self.cut(id, size);
            self.pools[pool.index()].free.insert(rest, size, address);
        }
        Ok(id)
    }

    fn grow_after_release(&mut self, pool: PoolIdx, size: u64) -> Option<u32> {
        if self.release_available(pool, size)
            && let Some(id) = self.grow(pool, size)
        {
            return Some(id);
        }
        self.release_cached();
        self.stats.retries += 1;
        self.grow(pool, size)
    }

    /// A new block of at least `size` bytes, in no free list (`alloc_block`).
    fn grow(&mut self, pool: PoolIdx, size: u64) -> Option<u32> {
        let bytes = self.settings.segment_size(size);
        if self.limit.saturating_sub(self.stats.reserved) < bytes {
            return None;
        }
        if self.is_expandable {
            return self.grow_expandable(pool, size);
        }
        let address = self.driver.alloc(bytes, self.pools[pool.index()].stream)?;
        self.stats.reserve(bytes);
        self.stats.segments += 1;
        Some(self.arena.add(Slot::whole(address, bytes, pool, State::Free)))
    }

    /// Cuts a block after `size` bytes; the rest is free, but not yet listed
    /// (`alloc_found_block`).
    fn cut(&mut self, id: u32, size: u64) -> (u32, Slot) {
        let front = self.arena.get_mut(id);
        let rest = Slot {
            address: front.address + size,
            size: front.size - size,
            requested_or_born: self.lookups[usize::from(front.pool.is_small())],
            prev: id,
            state: State::Free,
            ..*front
        };
        front.size = size;
        let new = self.arena.add(rest);
        self.arena.link(id, new);
        self.arena.link(new, rest.next);
        (new, rest)
    }

    /// A block becomes free: its age starts (`insert_into_blocks`).
    fn mark_free(&mut self, id: u32) -> Slot {
        let slot = self.arena.get_mut(id);
        slot.requested_or_born = self.lookups[usize::from(slot.pool.is_small())];
        slot.state = State::Free;
        *slot
    }

    /// A block enters its pool's free list.
    fn set_free(&mut self, id: u32) {
        let Slot { pool, size, address, .. } = self.mark_free(id);
        self.pools[pool.index()].free.insert(id, size, address);
    }

    /// A free block leaves its pool's free list.
    fn unlist(&mut self, id: u32) {
        let Slot { pool, size, .. } = *self.arena.get(id);
        let free = &mut self.pools[pool.index()].free;
        free.remove_at(free.position(id, size));
    }

    fn hand_out(&mut self, id: u32, bytes: u64) -> Block {
        let slot = self.arena.get_mut(id);
        slot.state = State::Allocated;
        slot.requested_or_born = bytes;
        slot.generation = slot.generation.wrapping_add(1);
        let stats = &mut self.stats;
        stats.allocated += slot.size;
        stats.active += slot.size;
        stats.requested += bytes;
        stats.peak_allocated = stats.peak_allocated.max(stats.allocated);
        stats.peak_active = stats.peak_active.max(stats.active);
        stats.peak_requested = stats.peak_requested.max(stats.requested);
        Block { id, generation: slot.generation }
    }

    fn drop_allocated(&mut self, block: Block) {
        let slot = self.arena.get(block.id);
        let is_live = slot.state == State::Allocated && slot.generation == block.generation;
        assert!(is_live, "only an allocated block can be freed");
        self.stats.allocated -= slot.size;
    }

    /// A block is no longer used by anyone (`free_block`).
    fn release_to_pool(&mut self, id: u32) {
        let slot = self.arena.get(id);
        self.stats.active -= slot.size;
        self.stats.requested -= slot.requested_or_born;
        self.merge_free(id);
    }

    /// Makes a block free, merged with its free neighbours (`try_merge_blocks`).
    fn merge_free(&mut self, id: u32) {
        let Slot { prev, next, pool, .. } = *self.arena.get(id);
        let pool = pool.index();
        if self.is_free(prev) {
            if self.is_free(next) {
                self.unlist(next);
                self.absorb_next(id, next);
            }
            let at = self.pools[pool].free.position(prev, self.arena.get(prev).size);
            self.absorb_prev(id, prev);
            let merged = self.mark_free(id);
            self.pools[pool].free.replace(at, id, merged.size, merged.address);
        } else if self.is_free(next) {
            let at = self.pools[pool].free.position(next, self.arena.get(next).size);
            self.absorb_next(id, next);
            let merged = self.mark_free(id);
            self.pools[pool].free.replace(at, id, merged.size, merged.address);
        } else {
            self.set_free(id);
        }
    }

    fn is_free(&self, id: u32) -> bool {
        id != NONE && self.arena.get(id).state == State::Free
    }

    /// Merges the block before into `id`.
    fn absorb_prev(&mut self, id: u32, prev: u32) {
        let Slot { address, size, prev: before, .. } = *self.arena.get(prev);
        let slot = self.arena.get_mut(id);
        slot.address = address;
        slot.size += size;
        slot.prev = before;
        self.arena.link(before, id);
        self.arena.drop_slot(prev);
    }

    /// Merges the block after into `id`.
    fn absorb_next(&mut self, id: u32, next: u32) {
        let Slot { size, next: after, .. } = *self.arena.get(next);
        let slot = self.arena.get_mut(id);
        slot.size += size;
        slot.next = after;
        self.arena.link(id, after);
        self.arena.drop_slot(next);
    }
}

/// A share of a number of bytes, rounded down, computed as the framework does (in double
/// precision).
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the framework multiplies in double precision and truncates; shares are in (0, 1)"
)]
fn share_of(bytes: u64, share: f64) -> u64 {
    (share * bytes as f64) as u64
}
