//! Replays an allocator capture: once with the captured driver's answers, where every block must
//! come to lie at its captured address, and once deciding everything by itself.
//!
//! ```text
//!  capture ─► walk (driver: Recorded) ─► script ─► run (driver: Counting)
//!             checks addresses and       what the  predicts the
//!             segments                   program   reserved peak
//!                                        asked
//! ```
//!
//! A capture does not say why segments were freed. They are taken for what an allocation itself
//! released (garbage collection, retry) where that explains them, and for an `empty_cache` of the
//! program otherwise. Likewise blocks that other streams used come back either before a request
//! or, all of them, within its retry.

mod recorded;

use std::collections::BTreeMap;

use super::{
    Block, CachingAllocator, Counting, ProcessLimit, SegmentAction, SegmentEvent, Settings,
    SettingsError, Stats,
};
use crate::wire::allocator_capture::{AllocatorCapture, CapturedAction, CapturedEvent};
use recorded::Recorded;

/// What the program asked of the allocator; requests are numbered in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// A request of so many bytes on a stream.
    Alloc {
        /// Bytes.
        bytes: u64,
        /// The stream.
        stream: u32,
        /// Whether it failed in the capture: the program went on without it.
        fails: bool,
    },
    /// A request's block is free again.
    Free(usize),
    /// Its owner is done with it, other streams may not be.
    Defer(usize),
    /// They are now.
    Complete(usize),
    /// `empty_cache`.
    EmptyCache,
}

/// Where a replay first left the capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Index of the captured event.
    pub event: usize,
    /// What differs.
    pub what: String,
}

/// How a replay went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Requests in the capture, failed ones included.
    pub requests: usize,
    /// Requests whose block lies at the captured address, or which failed as captured.
    pub in_place: usize,
    /// Whether all segment events came in the captured order with the captured bytes and, for
    /// what is given back or mapped, the captured addresses.
    pub segments_equal: bool,
    /// Where the replay with the captured driver's answers first left the capture.
    pub first_mismatch: Option<Mismatch>,
    /// Highest sum of captured segments, in bytes.
    pub measured_reserved_peak: u64,
    /// The counters of the replay with the captured driver's answers.
    pub recorded: Stats,
    /// The counters of the replay that decided by itself.
    pub decided: Stats,
}

/// Replays a capture both ways.
///
/// # Errors
///
/// When the capture's settings string is not understood.
pub fn replay(capture: &AllocatorCapture) -> Result<Replay, SettingsError> {
    let settings = settings_of(capture)?;
    let walk = walk(capture, settings.clone());
    let requests = walk.blocks.len();
    Ok(Replay {
        requests,
        in_place: walk.in_place,
        segments_equal: walk.segments_equal,
        first_mismatch: walk.first_mismatch,
        measured_reserved_peak: reserved_peak(&capture.events),
        recorded: *walk.allocator.stats(),
        decided: run(&walk.script, settings, Counting::unlimited()),
    })
}

/// What the program of a capture asked of its allocator, in order.
///
/// # Errors
///
/// When the capture's settings string is not understood.
pub fn script(capture: &AllocatorCapture) -> Result<Vec<Ask>, SettingsError> {
    Ok(walk(capture, settings_of(capture)?).script)
}

/// The settings under which a capture was made.
///
/// # Errors
///
/// When its settings string is not understood.
pub fn settings_of(capture: &AllocatorCapture) -> Result<Settings, SettingsError> {
    let conf = capture.allocator_settings.conf.as_deref().unwrap_or_default();
    let mut settings = Settings::parse(conf)?;
    if 0 < capture.case.cap_bytes {
        settings.process_limit = ProcessLimit::Bytes(capture.case.cap_bytes);
    }
    Ok(settings)
}

/// Runs a script against a driver that decides by itself.
///
/// A request that succeeds here but failed in the capture is freed at once, as the program went
/// on without it; one that fails only here is left out from then on.
pub fn run(script: &[Ask], settings: Settings, driver: Counting) -> Stats {
    let mut allocator = CachingAllocator::new(settings, driver);
    let mut blocks: Vec<Option<Block>> = Vec::new();
    for ask in script {
        match *ask {
            Ask::Alloc { bytes, stream, fails } => {
                let block = allocator.alloc(bytes, stream).ok();
                if let (Some(block), true) = (block, fails) {
                    allocator.free(block);
                }
                blocks.push(block.filter(|_| !fails));
            }
            Ask::Free(request) => {
                if let Some(block) = blocks[request] {
                    allocator.free(block);
                }
            }
            Ask::Defer(request) => {
                if let Some(block) = blocks[request] {
                    allocator.defer_free(block);
                }
            }
            Ask::Complete(request) => {
                if let Some(block) = blocks[request] {
                    allocator.complete_free(block);
                }
            }
            Ask::EmptyCache => allocator.empty_cache(),
        }
    }
    *allocator.stats()
}

fn walk(capture: &AllocatorCapture, settings: Settings) -> Walk {
    let mut walk = Walk::new(settings);
    for (index, event) in capture.events.iter().enumerate() {
        walk.step(index, event);
    }
    walk.flush(capture.events.len());
    walk
}

/// Highest sum of segments, in bytes.
fn reserved_peak(events: &[CapturedEvent]) -> u64 {
    let (mut reserved, mut peak) = (0u64, 0);
    for event in events {
        match event.action {
            CapturedAction::SegmentAlloc | CapturedAction::SegmentMap => reserved += event.bytes,
            CapturedAction::SegmentFree | CapturedAction::SegmentUnmap => {
                reserved = reserved.saturating_sub(event.bytes);
            }
            _ => {}
        }
        peak = reserved.max(peak);
    }
    peak
}

/// The way through a capture with its driver's answers.
struct Walk {
    allocator: CachingAllocator<Recorded>,
    /// Blocks by request.
    blocks: Vec<Option<Block>>,
    /// Requests by the captured address of their block, until it can be used again.
    by_address: BTreeMap<u64, usize>,
    /// Requests whose block came back since the last request or free.
    completed: Vec<usize>,
    /// Segment events since the last request or free.
    window: Vec<SegmentEvent>,
    script: Vec<Ask>,
    in_place: usize,
    segments_equal: bool,
    first_mismatch: Option<Mismatch>,
}

/// One way to explain the events before a request.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// So many of the blocks that came back did so before the request, the others within it.
    before: usize,
    /// The program emptied the cache before the request.
    is_emptied: bool,
}

impl Walk {
    fn new(settings: Settings) -> Self {
        Self {
            allocator: CachingAllocator::new(settings, Recorded::new()),
            blocks: Vec::new(),
            by_address: BTreeMap::new(),
            completed: Vec::new(),
            window: Vec::new(),
            script: Vec::new(),
            in_place: 0,
            segments_equal: true,
            first_mismatch: None,
        }
    }

    fn step(&mut self, index: usize, event: &CapturedEvent) {
        let segment = |action| SegmentEvent { action, bytes: event.bytes, address: event.address };
        match event.action {
            CapturedAction::Alloc | CapturedAction::Oom => self.request(index, event),
            CapturedAction::FreeRequested => {
                self.flush(index);
                if let Some(&request) = self.by_address.get(&event.address) {
                    self.script.push(Ask::Defer(request));
                    if let Some(block) = self.blocks[request] {
                        self.allocator.defer_free(block);
                    }
                }
            }
            CapturedAction::FreeCompleted => {
                self.completed.extend(self.by_address.remove(&event.address));
            }
            CapturedAction::SegmentAlloc => self.window.push(segment(SegmentAction::Alloc)),
            CapturedAction::SegmentFree => self.window.push(segment(SegmentAction::Free)),
            CapturedAction::SegmentMap => self.window.push(segment(SegmentAction::Map)),
            CapturedAction::SegmentUnmap => self.window.push(segment(SegmentAction::Unmap)),
            CapturedAction::Snapshot => {}
        }
    }

    /// Events that no request follows: blocks came back, and segments left by `empty_cache`.
    fn flush(&mut self, index: usize) {
        let completed = std::mem::take(&mut self.completed);
        complete(&mut self.allocator, &self.blocks, &completed);
        self.write_completed(&completed);
        if self.window.is_empty() {
            return;
        }
        self.allocator.driver_mut().open(&self.window, false);
        self.allocator.empty_cache();
        self.script.push(Ask::EmptyCache);
        if !self.allocator.driver().is_exact() {
            self.segments_differ(index, "segments freed by empty_cache");
        }
        self.window.clear();
    }

    fn request(&mut self, index: usize, event: &CapturedEvent) {
        let reading = self.best_reading(event);
        let block = self.attempt(event, reading);
        let mut before = std::mem::take(&mut self.completed);
        let within = before.split_off(reading.before);
        self.write_completed(&before);
        if reading.is_emptied {
            self.script.push(Ask::EmptyCache);
        }
        let (bytes, stream) = (event.bytes, event.stream);
        let fails = event.action == CapturedAction::Oom;
        self.script.push(Ask::Alloc { bytes, stream, fails });
        self.script.extend(within.iter().copied().map(Ask::Complete));
        complete(&mut self.allocator, &self.blocks, &within);
        self.window.clear();
        self.settle(index, event, block);
    }

    /// Writes down which blocks came back. One that did so at once was freed without further ado.
    fn write_completed(&mut self, requests: &[usize]) {
        for &request in requests {
            match self.script.last_mut() {
                Some(last) if *last == Ask::Defer(request) => *last = Ask::Free(request),
                _ => self.script.push(Ask::Complete(request)),
            }
        }
    }

    /// Compares a request's outcome with the capture and books its block.
    fn settle(&mut self, index: usize, event: &CapturedEvent, block: Option<Block>) {
        if !self.allocator.driver().is_exact() {
            self.segments_differ(index, "segment events of a request");
        }
        if is_as_captured(&self.allocator, event, block) {
            self.in_place += 1;
        } else {
            let at = block.map(|block| self.allocator.address(block));
            let what = format!("{event:?}: the block lies at {at:?}");
            self.first_mismatch.get_or_insert(Mismatch { event: index, what });
        }
        let fails = event.action == CapturedAction::Oom;
        if let (Some(block), true) = (block, fails) {
            self.allocator.free(block);
        }
        if !fails {
            self.by_address.insert(event.address, self.blocks.len());
        }
        self.blocks.push(block.filter(|_| !fails));
    }

    fn segments_differ(&mut self, index: usize, what: &str) {
        self.segments_equal = false;
        self.first_mismatch.get_or_insert(Mismatch { event: index, what: what.to_owned() });
    }

    /// The reading that explains all, or else most; without freed segments there is only one.
    /// That the device was full is believed last.
    fn best_reading(&self, event: &CapturedEvent) -> Reading {
        let all = self.completed.len();
        let gives_back = |segment: &SegmentEvent| {
            matches!(segment.action, SegmentAction::Free | SegmentAction::Unmap)
        };
        if !self.window.iter().any(gives_back) {
            return Reading { before: all, is_emptied: false };
        }
        let within = (0..=all).rev().map(|before| Reading { before, is_emptied: false });
        let emptied = Reading { before: all, is_emptied: true };
        let mut refused = None;
        let mut best = (0, emptied);
        for reading in within.chain(std::iter::once(emptied)) {
            let mut trial = self.trial();
            let block = trial.attempt(event, reading);
            let driver = trial.allocator.driver();
            if driver.is_exact() && is_as_captured(&trial.allocator, event, block) {
                if !driver.has_refused() {
                    return reading;
                }
                refused.get_or_insert(reading);
            }
            if best.0 < driver.agreement() {
                best = (driver.agreement(), reading);
            }
        }
        refused.unwrap_or(best.1)
    }

    /// A copy to try a reading on.
    fn trial(&self) -> Self {
        Self {
            allocator: self.allocator.clone(),
            blocks: self.blocks.clone(),
            by_address: BTreeMap::new(),
            completed: self.completed.clone(),
            window: self.window.clone(),
            script: Vec::new(),
            in_place: 0,
            segments_equal: true,
            first_mismatch: None,
        }
    }

    /// Serves a request under one reading of the events before it.
    fn attempt(&mut self, event: &CapturedEvent, reading: Reading) -> Option<Block> {
        complete(&mut self.allocator, &self.blocks, &self.completed[..reading.before]);
        let fails = event.action == CapturedAction::Oom;
        self.allocator.driver_mut().open(&self.window, fails);
        if reading.is_emptied {
            self.allocator.empty_cache();
        }
        self.allocator.alloc(event.bytes, event.stream).ok()
    }
}

fn complete(
    allocator: &mut CachingAllocator<Recorded>,
    blocks: &[Option<Block>],
    requests: &[usize],
) {
    for block in requests.iter().filter_map(|&request| blocks[request]) {
        allocator.complete_free(block);
    }
}

/// Whether a request was served at the captured address, or failed as captured.
fn is_as_captured(
    allocator: &CachingAllocator<Recorded>,
    event: &CapturedEvent,
    block: Option<Block>,
) -> bool {
    match block {
        Some(block) => {
            event.action == CapturedAction::Alloc && allocator.address(block) == event.address
        }
        None => event.action == CapturedAction::Oom,
    }
}
