//! The driver under the allocator: who gives segments their addresses, and who refuses.
//!
//! [`Counting`] decides by itself (see its address policy); [`Logged`] writes down what any driver
//! was asked. The allocator asks the driver for every segment event, so a driver sees them all.

use super::addresses::AddressSpace;

/// What the caching allocator needs from the CUDA driver.
///
/// Source of the calls: PyTorch 2.11, `c10/cuda/CUDACachingAllocator.cpp` (`alloc_block`,
/// `release_block`, `ExpandableSegment`).
pub trait Driver {
    /// `cudaMalloc`: the address of a new segment of `bytes` for `stream`, or `None` when memory
    /// is out.
    fn alloc(&mut self, bytes: u64, stream: u32) -> Option<u64>;
    /// `cudaFree` of a segment.
    fn free(&mut self, address: u64, bytes: u64);
    /// `cuMemAddressReserve`: the base of an address range of `bytes` for `stream`.
    fn reserve(&mut self, bytes: u64, stream: u32) -> u64;
    /// `cuMemAddressFree` of a reserved range.
    fn release(&mut self, base: u64, bytes: u64);
    /// `cuMemCreate` and `cuMemMap`: whether `bytes` of memory now stand behind `address`.
    fn map(&mut self, address: u64, bytes: u64) -> bool;
    /// `cuMemUnmap` and `cuMemRelease`.
    fn unmap(&mut self, address: u64, bytes: u64);
    /// Bytes of the whole device: a memory fraction is of these, and an expandable segment
    /// reserves 9/8 of them.
    fn device_bytes(&self) -> u64;
}

/// A driver that counts bytes against a capacity and places segments by a fixed policy.
#[derive(Debug, Clone)]
pub struct Counting {
    device_bytes: u64,
    free_bytes: u64,
    addresses: AddressSpace,
}

impl Counting {
    /// A device of `device_bytes` of which `free_bytes` are left for the allocator (the context,
    /// libraries and other processes hold the rest).
    pub fn new(device_bytes: u64, free_bytes: u64) -> Self {
        Self { device_bytes, free_bytes, addresses: AddressSpace::new() }
    }

    /// A device that never refuses.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX, u64::MAX)
    }

    /// Bytes that the driver could still hand out.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    fn take(&mut self, bytes: u64) -> bool {
        let left = self.free_bytes.checked_sub(bytes);
        self.free_bytes = left.unwrap_or(self.free_bytes);
        left.is_some()
    }
}

impl Driver for Counting {
    fn alloc(&mut self, bytes: u64, _stream: u32) -> Option<u64> {
        self.take(bytes).then(|| self.addresses.alloc(bytes))
    }

    fn free(&mut self, address: u64, bytes: u64) {
        self.free_bytes += bytes;
        self.addresses.free(address, bytes);
    }

    fn reserve(&mut self, bytes: u64, _stream: u32) -> u64 {
        self.addresses.alloc(bytes)
    }

    fn release(&mut self, base: u64, bytes: u64) {
        self.addresses.free(base, bytes);
    }

    fn map(&mut self, _address: u64, bytes: u64) -> bool {
        self.take(bytes)
    }

    fn unmap(&mut self, _address: u64, bytes: u64) {
        self.free_bytes += bytes;
    }

    fn device_bytes(&self) -> u64 {
        self.device_bytes
    }
}

/// What happened to a segment; the names are those of the framework's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentAction {
    /// A segment was allocated.
    Alloc,
    /// A segment was given back.
    Free,
    /// Part of an expandable segment was mapped.
    Map,
    /// Part of an expandable segment was unmapped.
    Unmap,
}

/// One segment event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEvent {
    /// What happened.
    pub action: SegmentAction,
    /// Bytes of it.
    pub bytes: u64,
    /// Address of its first byte.
    pub address: u64,
}

/// A driver that keeps a log of its segment events.
#[derive(Debug, Clone)]
pub struct Logged<D> {
    /// The driver that decides.
    pub inner: D,
    /// The events so far, oldest first; the reader may drain them.
    pub events: Vec<SegmentEvent>,
}

impl<D> Logged<D> {
    /// Logs what `inner` is asked.
    pub fn new(inner: D) -> Self {
        Self { inner, events: Vec::new() }
    }

    fn log(&mut self, action: SegmentAction, address: u64, bytes: u64) {
        self.events.push(SegmentEvent { action, bytes, address });
    }
}

impl<D: Driver> Driver for Logged<D> {
    fn alloc(&mut self, bytes: u64, stream: u32) -> Option<u64> {
        let address = self.inner.alloc(bytes, stream)?;
        self.log(SegmentAction::Alloc, address, bytes);
        Some(address)
    }

    fn free(&mut self, address: u64, bytes: u64) {
        self.inner.free(address, bytes);
        self.log(SegmentAction::Free, address, bytes);
    }

    fn reserve(&mut self, bytes: u64, stream: u32) -> u64 {
        self.inner.reserve(bytes, stream)
    }

    fn release(&mut self, base: u64, bytes: u64) {
        self.inner.release(base, bytes);
    }

    fn map(&mut self, address: u64, bytes: u64) -> bool {
        let is_mapped = self.inner.map(address, bytes);
        if is_mapped {
            self.log(SegmentAction::Map, address, bytes);
        }
        is_mapped
    }

    fn unmap(&mut self, address: u64, bytes: u64) {
        self.inner.unmap(address, bytes);
        self.log(SegmentAction::Unmap, address, bytes);
    }

    fn device_bytes(&self) -> u64 {
        self.inner.device_bytes()
    }
}
