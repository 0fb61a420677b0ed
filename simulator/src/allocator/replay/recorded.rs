//! A driver that answers as the captured one did, and notices where the allocator asks otherwise.

use super::super::addresses::AddressSpace;
use super::super::{Driver, SegmentAction, SegmentEvent};

/// The captured segment events of one request (or of one `empty_cache`), to be asked for in order.
///
/// A question that the capture does not answer next is refused: that is how a refusal looks in a
/// capture. Where the capture shows no refusal at all, it is a fault, and the answer is made up.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    window: Vec<SegmentEvent>,
    next: usize,
    may_refuse: bool,
    faults: usize,
    refusals: usize,
    /// Addresses for answers that are made up, above all captured ones.
    made_up: AddressSpace,
}

impl Recorded {
    pub(super) fn new() -> Self {
        Self {
            window: Vec::new(),
            next: 0,
            may_refuse: false,
            faults: 0,
            refusals: 0,
            made_up: AddressSpace::new(),
        }
    }

    /// Sets what the capture shows for the next request; `fails` when it ran out of memory.
    pub(super) fn open(&mut self, window: &[SegmentEvent], fails: bool) {
        self.window.clear();
        self.window.extend_from_slice(window);
        self.next = 0;
        self.faults = 0;
        self.refusals = 0;
        let gives = |event: &SegmentEvent| {
            matches!(event.action, SegmentAction::Free | SegmentAction::Unmap)
        };
        self.may_refuse = fails || window.iter().any(gives);
    }

    /// Whether the allocator asked exactly for what the capture shows.
    pub(super) fn is_exact(&self) -> bool {
        self.faults == 0 && self.next == self.window.len()
    }

    /// Whether it refused: then the driver, not the process limit, ran out of memory.
    pub(super) fn has_refused(&self) -> bool {
        0 < self.refusals
    }

    /// Captured events asked for so far, less faults.
    pub(super) fn agreement(&self) -> usize {
        self.next.saturating_sub(self.faults)
    }

    /// The next captured event, if it is of this action and these bytes.
    fn expect(&mut self, action: SegmentAction, bytes: u64) -> Option<u64> {
        let event = self.window.get(self.next)?;
        if event.action != action || event.bytes != bytes {
            return None;
        }
        self.next += 1;
        Some(event.address)
    }

    fn gave_back(&mut self, action: SegmentAction, address: u64, bytes: u64) {
        if self.expect(action, bytes) != Some(address) {
            self.faults += 1;
        }
    }
}

impl Driver for Recorded {
    fn alloc(&mut self, bytes: u64, _stream: u32) -> Option<u64> {
        if let Some(address) = self.expect(SegmentAction::Alloc, bytes) {
            return Some(address);
        }
        if self.may_refuse {
            self.refusals += 1;
            return None;
        }
        self.faults += 1;
        Some(self.made_up.alloc(bytes))
    }

    fn free(&mut self, address: u64, bytes: u64) {
        self.gave_back(SegmentAction::Free, address, bytes);
    }

    /// The first mapping of a range is at its base.
    fn reserve(&mut self, bytes: u64, _stream: u32) -> u64 {
        match self.window.get(self.next) {
            Some(event) if event.action == SegmentAction::Map => event.address,
            _ => self.made_up.alloc(bytes),
        }
    }

    fn release(&mut self, _base: u64, _bytes: u64) {}

    fn map(&mut self, address: u64, bytes: u64) -> bool {
        match self.expect(SegmentAction::Map, bytes) {
            Some(captured) if captured == address => {}
            None if self.may_refuse => {
                self.refusals += 1;
                return false;
            }
            _ => self.faults += 1,
        }
        true
    }

    fn unmap(&mut self, address: u64, bytes: u64) {
        self.gave_back(SegmentAction::Unmap, address, bytes);
    }

    /// Only sizes the reserved ranges, and the captured ones never filled theirs.
    fn device_bytes(&self) -> u64 {
        u64::MAX
    }
}
