//! Where the driver puts segments: a model of the virtual addresses that `cudaMalloc` returns.
//!
//! Addresses matter because best fit breaks ties by address. The policy was read off the order and
//! the addresses of the segments in the captures of `tests/ground-truth/allocator` (CUDA 13, H200):
//!
//! - the driver reserves address ranges (*chunks*) of a multiple of 32 MiB, from the top down: the
//!   highest gap between chunks that is large enough, at its upper end;
//! - an allocation starts at the lowest address inside the existing chunks where it fits, and
//!   otherwise at the start of a new chunk;
//! - a chunk without allocations is given up.
//!
//! ```text
//!  gap        chunk                    chunk              top
//!  ···········[segment|segment|  hole ][segment |   hole ]
//!             └ multiple of 32 MiB ───┘
//! ```

/// Size and alignment of chunks, in bytes: what the captures show for segments above 2 MiB.
const CHUNK_STEP: u64 = 32 << 20;
/// Addresses start below this; far more than any run of allocations can use up, in bytes.
const TOP: u64 = 1 << 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
}

impl Range {
    fn bytes(self) -> u64 {
        self.end - self.start
    }
}

/// The addresses in use; see the head of this file for the policy.
#[derive(Debug, Clone)]
pub(super) struct AddressSpace {
    /// Chunks by address.
    chunks: Vec<Range>,
    /// Free ranges inside chunks by address, none touching another of the same chunk.
    holes: Vec<Range>,
}

impl AddressSpace {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), holes: Vec::new() }
    }

    /// The address of a new allocation of `bytes`.
    pub(super) fn alloc(&mut self, bytes: u64) -> u64 {
        if let Some(at) = self.holes.iter().position(|hole| bytes <= hole.bytes()) {
            let start = self.holes[at].start;
            self.holes[at].start += bytes;
            if self.holes[at].bytes() == 0 {
                self.holes.remove(at);
            }
            return start;
        }
        let chunk = self.new_chunk(bytes.next_multiple_of(CHUNK_STEP));
        if bytes < chunk.bytes() {
            let hole = Range { start: chunk.start + bytes, end: chunk.end };
            let at = self.holes.partition_point(|other| other.start < hole.start);
            self.holes.insert(at, hole);
        }
        chunk.start
    }

    /// Reserves the highest gap of at least `bytes`.
    fn new_chunk(&mut self, bytes: u64) -> Range {
        let mut end = TOP;
        let mut at = self.chunks.len();
        while 0 < at && end - self.chunks[at - 1].end < bytes {
            at -= 1;
            end = self.chunks[at].start;
        }
        let chunk = Range { start: end - bytes, end };
        self.chunks.insert(at, chunk);
        chunk
    }

    /// Takes an allocation back.
    pub(super) fn free(&mut self, address: u64, bytes: u64) {
        let chunk_at = self.chunks.partition_point(|chunk| chunk.end <= address);
        let chunk = self.chunks[chunk_at];
        let mut hole = Range { start: address, end: address + bytes };
        let mut at = self.holes.partition_point(|other| other.start < address);
        if self.holes.get(at).is_some_and(|next| next.start == hole.end && next.end <= chunk.end) {
            hole.end = self.holes.remove(at).end;
        }
        if 0 < at && self.holes[at - 1].end == hole.start && chunk.start <= self.holes[at - 1].start
        {
            at -= 1;
            hole.start = self.holes.remove(at).start;
        }
        if hole == chunk {
            self.chunks.remove(chunk_at);
        } else {
            self.holes.insert(at, hole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn chunks_go_down_and_holes_are_filled_from_below() {
        let mut space = AddressSpace::new();
        let first = space.alloc(98 * MIB);
        let second = space.alloc(98 * MIB);
        assert_eq!(first - second, 128 * MIB);
        assert_eq!(space.alloc(26 * MIB), second + 98 * MIB);
        assert_eq!(space.alloc(26 * MIB), first + 98 * MIB);
        space.free(second, 98 * MIB);
        assert_eq!(space.alloc(50 * MIB), second);
    }

    #[test]
    fn an_empty_chunk_is_given_up() {
        let mut space = AddressSpace::new();
        let first = space.alloc(1232 * MIB);
        space.free(first, 1232 * MIB);
        assert!(space.chunks.is_empty() && space.holes.is_empty());
        assert_eq!(space.alloc(32 * MIB), TOP - 32 * MIB);
    }
}
