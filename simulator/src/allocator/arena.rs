//! The blocks: one slot each in a vector, linked to their neighbours in the segment by index, so
//! that no block costs a heap allocation.

/// No block.
pub(super) const NONE: u32 = u32::MAX;

/// A pool: that of stream `n` for large blocks is 2 · n, that for small ones 2 · n + 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolIdx(u16);

impl PoolIdx {
    /// The pool of a stream and kind.
    ///
    /// # Panics
    ///
    /// When the stream is not a small number.
    #[inline]
    pub(super) fn new(stream: u32, is_small: bool) -> Self {
        let pool = u16::try_from(2 * stream).expect("streams are small numbers");
        Self(pool + u16::from(is_small))
    }

    /// Whether it holds small blocks.
    #[inline]
    pub(super) fn is_small(self) -> bool {
        self.0 & 1 == 1
    }

    /// Its place among the pools.
    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What a block is to the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// In its pool's free list.
    Free,
    /// Handed out.
    Allocated,
    /// Freed by its owner, while other streams may still use it.
    Pending,
    /// Addresses without memory in an expandable segment.
    Unmapped,
    /// The slot is vacant.
    Vacant,
}

/// One block: 40 bytes, since programs hold thousands and the near caches hold few.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Address of its first byte.
    pub(super) address: u64,
    /// Bytes of it, a multiple of 512.
    pub(super) size: u64,
    /// While it is handed out or pending, the bytes that were requested; while it is free, the
    /// look-ups in pools of its kind when it became free, from which its age is counted.
    pub(super) requested_or_born: u64,
    /// The block that ends where this one starts, in the same segment.
    pub(super) prev: u32,
    /// The block that starts where this one ends, in the same segment; for a vacant slot the next
    /// vacant one.
    pub(super) next: u32,
    /// How often this slot was handed out.
    pub(super) generation: u32,
    /// Its pool.
    pub(super) pool: PoolIdx,
    /// What it is.
    pub(super) state: State,
}

impl Slot {
    /// A block that is a segment or range of its own.
    pub(super) fn whole(address: u64, size: u64, pool: PoolIdx, state: State) -> Self {
        Self {
            address,
            size,
            requested_or_born: 0,
            prev: NONE,
            next: NONE,
            generation: 0,
            pool,
            state,
        }
    }
}

/// All blocks.
#[derive(Debug, Clone)]
pub(super) struct Arena {
    /// Slots by block index.
    pub(super) slots: Vec<Slot>,
    vacant: u32,
}

impl Arena {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), vacant: NONE }
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &Slot {
        &self.slots[id as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Slot {
        &mut self.slots[id as usize]
    }

    /// Adds a block without neighbours' knowledge of it.
    #[inline]
    pub(super) fn add(&mut self, slot: Slot) -> u32 {
        let id = self.vacant;
        if id == NONE {
            let id = u32::try_from(self.slots.len()).expect("fewer than 2³² blocks");
            self.slots.push(slot);
            return id;
        }
        let vacant = self.get_mut(id);
        let (next, generation) = (vacant.next, vacant.generation);
        *vacant = Slot { generation, ..slot };
        self.vacant = next;
        id
    }

    /// Vacates a slot.
    #[inline]
    pub(super) fn drop_slot(&mut self, id: u32) {
        let vacant = self.vacant;
        let slot = self.get_mut(id);
        slot.state = State::Vacant;
        slot.next = vacant;
        self.vacant = id;
    }

    /// Makes two blocks neighbours; either may be none.
    #[inline]
    pub(super) fn link(&mut self, prev: u32, next: u32) {
        if prev != NONE {
            self.get_mut(prev).next = next;
        }
        if next != NONE {
            self.get_mut(next).prev = prev;
        }
    }
}
