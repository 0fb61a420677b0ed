//! Where a step's tensors lie: the step replayed through the caching allocator, after the process
//! that leads to it.
//!
//! The process is the timelines' own: what is alive before the first step, that step, and for a
//! steady step what the first one leaves behind. Memory never runs out here, so that a step that
//! does not fit is shown whole.

use std::collections::BTreeMap;

use crate::allocator::{Block, CachingAllocator, Counting, Logged, SegmentAction, Settings};
use crate::order;
use crate::wire::timeline::{BEFORE, NEVER, Timeline};

/// Where a process's first segment usually lies. The replay's own addresses are too large for
/// JavaScript's numbers.
const LOWEST: u64 = 0x7f00_0000_0000;

/// What the allocator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Handed a block out.
    Alloc,
    /// Took a block back.
    Free,
    /// Something with a segment.
    Segment(SegmentAction),
}

/// One thing that the allocator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) action: Action,
    pub(super) address: u64,
    /// Requested bytes, or bytes of the segment.
    pub(super) bytes: u64,
    pub(super) time_ns: u64,
    /// The tensor, and the event; a tensor from before the step has no event.
    pub(super) tensor: Option<usize>,
    pub(super) event: Option<usize>,
}

/// A block that is handed out at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) tensor: usize,
}

/// The recorded step.
#[derive(Clone, Debug, Default)]
pub(super) struct Placement {
    /// What happened, in order; what is alive before the step comes first, at time 0.
    pub(super) entries: Vec<Entry>,
    /// Segments at the end: address → bytes.
    pub(super) segments: BTreeMap<u64, u64>,
    /// Blocks at the end, by address.
    pub(super) live: Vec<Live>,
}

impl Placement {
    /// Moves all addresses, so that the lowest one is [`LOWEST`].
    fn rebase(&mut self) {
        let entries = self.entries.iter().map(|entry| entry.address);
        let lowest = entries.chain(self.segments.keys().copied()).min().unwrap_or(LOWEST);
        let moved = |address: u64| address - lowest + LOWEST;
        for entry in &mut self.entries {
            entry.address = moved(entry.address);
        }
        for block in &mut self.live {
            block.address = moved(block.address);
        }
        let segments = core::mem::take(&mut self.segments);
        self.segments =
            segments.into_iter().map(|(address, bytes)| (moved(address), bytes)).collect();
    }
}

/// Replays a step. `first` is the step before it, when there is one.
pub(super) fn place(
    settings: Settings,
    device_bytes: u64,
    first: Option<&Timeline>,
    recorded: &Timeline,
) -> Placement {
    let driver = Logged::new(Counting::new(device_bytes, u64::MAX));
    let mut process = Process {
        allocator: CachingAllocator::new(settings, driver),
        segments: BTreeMap::new(),
        entries: Vec::new(),
    };
    let before = match first {
        None => process.start(recorded, BTreeMap::new()),
        Some(first) => {
            let before = process.start(first, BTreeMap::new());
            let blocks = process.step(first, before);
            let left = leftovers(first, blocks);
            process.start(recorded, left)
        }
    };
    process.entries = before_entries(&process, recorded, &before);
    let blocks = process.step(recorded, before);
    process.finish(recorded, &blocks)
}

/// Blocks by name and size: those of one key are taken in order.
type Leftovers<'a> = BTreeMap<(&'a str, u64), Vec<Block>>;

/// The process as it goes.
struct Process {
    allocator: CachingAllocator<Logged<Counting>>,
    segments: BTreeMap<u64, u64>,
    entries: Vec<Entry>,
}

impl Process {
    /// Blocks for what is alive before a step: a leftover where there is one, else a new one.
    /// Leftovers that the step does not know are freed.
    fn start<'a>(&mut self, step: &'a Timeline, mut left: Leftovers<'a>) -> Vec<Option<Block>> {
        let mut blocks = vec![None; step.tensors.len()];
        for (tensor, block) in blocks.iter_mut().enumerate() {
            if step.tensors.born[tensor] == BEFORE {
                let bytes = step.tensors.bytes[tensor];
                let same = left.get_mut(&(name(step, tensor), bytes));
                *block = same
                    .and_then(
                        |blocks| if blocks.is_empty() { None } else { Some(blocks.remove(0)) },
                    )
                    .or_else(|| self.alloc(bytes));
            }
        }
        for block in left.into_values().flatten() {
            self.allocator.free(block);
        }
        self.drain(0);
        blocks
    }

    /// Runs a step and returns each tensor's block.
    fn step(&mut self, step: &Timeline, mut blocks: Vec<Option<Block>>) -> Vec<Option<Block>> {
        for event in 0..step.events.len() {
            let tensor = step.events.tensor[event] as usize;
            let bytes = step.tensors.bytes[tensor];
            let time_ns = step.events.time_ns[event];
            let is_alloc = step.events.is_alloc[event] == 1;
            if is_alloc {
                blocks[tensor] = self.alloc(bytes);
                self.drain(time_ns);
            }
            let Some(block) = blocks[tensor] else { continue };
            let address = self.allocator.address(block);
            if !is_alloc {
                self.allocator.free(block);
                blocks[tensor] = None;
            }
            self.entries.push(Entry {
                action: if is_alloc { Action::Alloc } else { Action::Free },
                address,
                bytes,
                time_ns,
                tensor: Some(tensor),
                event: Some(event),
            });
        }
        blocks
    }

    /// A block; nothing for an empty tensor, or one larger than any address space.
    fn alloc(&mut self, bytes: u64) -> Option<Block> {
        if bytes == 0 { None } else { self.allocator.alloc(bytes, 0).ok() }
    }

    /// Notes what happened to segments since the last call.
    fn drain(&mut self, time_ns: u64) {
        let events = core::mem::take(&mut self.allocator.driver_mut().events);
        for event in events {
            match event.action {
                SegmentAction::Alloc => {
                    self.segments.insert(event.address, event.bytes);
                }
                SegmentAction::Map => map(&mut self.segments, event.address, event.bytes),
                SegmentAction::Free => {
                    self.segments.remove(&event.address);
                }
                SegmentAction::Unmap => cut(&mut self.segments, event.address, event.bytes),
            }
            self.entries.push(Entry {
                action: Action::Segment(event.action),
                address: event.address,
                bytes: event.bytes,
                time_ns,
                tensor: None,
                event: None,
            });
        }
    }

    /// The result, with addresses as a device shows them.
    fn finish(self, recorded: &Timeline, blocks: &[Option<Block>]) -> Placement {
        let mut live: Vec<Live> = blocks
            .iter()
            .enumerate()
            .filter_map(|(tensor, block)| {
                let block = (*block)?;
                debug_assert_eq!(recorded.tensors.freed[tensor], NEVER);
                let bytes = self.allocator.size(block);
                Some(Live { address: self.allocator.address(block), bytes, tensor })
            })
            .collect();
        order::sort_by(&mut live, |a, b| a.address.cmp(&b.address));
        let mut placement = Placement { entries: self.entries, segments: self.segments, live };
        placement.rebase();
        placement
    }
}

/// What is alive before the recorded step, as if it were allocated at its start.
fn before_entries(process: &Process, step: &Timeline, blocks: &[Option<Block>]) -> Vec<Entry> {
    blocks
        .iter()
        .enumerate()
        .filter_map(|(tensor, block)| {
            Some(Entry {
                action: Action::Alloc,
                address: process.allocator.address((*block)?),
                bytes: step.tensors.bytes[tensor],
                time_ns: 0,
                tensor: Some(tensor),
                event: None,
            })
        })
        .collect()
}

/// What a step leaves behind.
fn leftovers(step: &Timeline, blocks: Vec<Option<Block>>) -> Leftovers<'_> {
    let mut left = Leftovers::new();
    for (tensor, block) in blocks.into_iter().enumerate() {
        if let Some(block) = block {
            let key = (name(step, tensor), step.tensors.bytes[tensor]);
            left.entry(key).or_default().push(block);
        }
    }
    left
}

fn name(step: &Timeline, tensor: usize) -> &str {
    step.labels.get(step.tensors.name[tensor] as usize).map_or("", String::as_str)
}

/// Takes a stretch out of the mapped stretches.
fn cut(mapped: &mut BTreeMap<u64, u64>, address: u64, bytes: u64) {
    let end = address + bytes;
    let touched: Vec<(u64, u64)> = mapped
        .range(..end)
        .filter(|(start, length)| address < *start + *length)
        .map(|(start, length)| (*start, *length))
        .collect();
    for (start, length) in touched {
        mapped.remove(&start);
        if start < address {
            mapped.insert(start, address - start);
        }
        if end < start + length {
            mapped.insert(end, start + length - end);
        }
    }
}

/// Adds a mapped stretch; with its neighbours in the same expandable segment it is one, as a
/// snapshot shows it. Two expandable segments never touch: each reserves more than the device has.
fn map(mapped: &mut BTreeMap<u64, u64>, address: u64, bytes: u64) {
    let (mut start, mut end) = (address, address + bytes);
    if let Some((before, length)) = mapped.range(..address).next_back()
        && *before + *length == address
    {
        start = *before;
    }
    if let Some(length) = mapped.remove(&end) {
        end += length;
    }
    mapped.insert(start, end - start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_stretches_grow_together_and_are_cut() {
        let mut mapped = BTreeMap::new();
        map(&mut mapped, 100, 10);
        map(&mut mapped, 120, 10);
        map(&mut mapped, 110, 10);
        assert_eq!(mapped, BTreeMap::from([(100, 30)]));
        cut(&mut mapped, 105, 10);
        assert_eq!(mapped, BTreeMap::from([(100, 5), (115, 15)]));
        cut(&mut mapped, 100, 5);
        cut(&mut mapped, 115, 15);
        assert!(mapped.is_empty());
    }
}
