//! What every drawing of a step needs, prepared once per result.
//!
//! A *state* is what an event leaves behind; state 0 stands before the first event, state `i + 1`
//! after event `i`. Bytes by band are kept at every 64th state and replayed from there; blocks of
//! 64 states know their extremes. Any window is thereby summed up per pixel without a full pass.

use std::ops::RangeInclusive;
use std::sync::Arc;

use simulator::wire::timeline::{BEFORE, NEVER, Timeline};

use super::TimelineData;
use super::band::{Band, BlockKind, N_BANDS, band_of};
use super::lanes::Lanes;
use super::num::to_u32;

/// States between two checkpoints, and states in a block.
const STRIDE: usize = 64;

/// Bytes of each band at one state.
pub type BandBytes = [u64; N_BANDS];

/// A step, ready to be asked.
#[derive(Clone, Debug)]
pub struct Curves {
    /// The step itself.
    pub data: Arc<TimelineData>,
    /// Its device work.
    pub lanes: Lanes,
    /// Live requested bytes by state.
    live: Vec<u64>,
    /// Bytes by band at states 0, 64, 128, …
    checkpoints: Vec<BandBytes>,
    blocks: Vec<Block>,
    /// Start of each state in ns, never decreasing, and the step's end as the last element.
    edges_ns: Vec<u64>,
    /// Tensors in stacking order: by band, then by birth.
    order: Vec<u32>,
    /// Place of each tensor in `order`.
    rank: Vec<u32>,
    /// Band of each tensor.
    band: Vec<u8>,
    /// Where each band begins in `order`; one more at the end.
    band_starts: [usize; N_BANDS + 1],
}

/// Extremes over 64 states.
#[derive(Clone, Copy, Debug)]
struct Block {
    highest: u32,
    high_live: u64,
    low_live: u64,
    high_reserved: u64,
}

/// Extremes over a run of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// The first state with the most live bytes.
    pub highest: usize,
    /// Its live bytes.
    pub high_live: u64,
    /// Fewest live bytes.
    pub low_live: u64,
    /// Most reserved bytes.
    pub high_reserved: u64,
}

impl Extremes {
    fn join(self, other: Self) -> Self {
        let mut joined = if other.high_live > self.high_live { other } else { self };
        joined.low_live = self.low_live.min(other.low_live);
        joined.high_reserved = self.high_reserved.max(other.high_reserved);
        joined
    }
}

impl Curves {
    /// Prepares a step; linear in its events and tensors.
    pub fn new(data: Arc<TimelineData>) -> Self {
        let timeline = &data.timeline;
        let band = tensor_bands(timeline);
        let (order, band_starts) = stacking_order(timeline, &band);
        let mut rank = vec![0; order.len()];
        for (place, &tensor) in order.iter().enumerate() {
            rank[tensor as usize] = to_u32(place);
        }
        let (live, checkpoints) = running_totals(timeline, &band);
        let edges_ns = edges(timeline);
        let mut curves = Self {
            blocks: Vec::new(),
            live,
            checkpoints,
            edges_ns,
            order,
            rank,
            band,
            band_starts,
            lanes: Lanes::new(&timeline.work),
            data,
        };
        let n_states = curves.n_states();
        curves.blocks = (0..n_states)
            .step_by(STRIDE)
            .map(|first| {
                let run = curves.scan(first..=(first + STRIDE).min(n_states) - 1);
                Block {
                    highest: to_u32(run.highest),
                    high_live: run.high_live,
                    low_live: run.low_live,
                    high_reserved: run.high_reserved,
                }
            })
            .collect();
        curves
    }

    /// The step's timeline.
    pub fn timeline(&self) -> &Timeline {
        &self.data.timeline
    }

    /// Number of events.
    pub fn n_events(&self) -> usize {
        self.live.len() - 1
    }

    /// Number of states: one more than events.
    pub fn n_states(&self) -> usize {
        self.live.len()
    }

    /// Bytes below the pool in the stack: outside of it, and in use by others.
    pub fn floor_bytes(&self) -> u64 {
        self.data.outside_pool_bytes + self.data.already_used_bytes
    }

    /// Live requested bytes at a state.
    pub fn live(&self, state: usize) -> u64 {
        self.live[state]
    }

    /// Reserved bytes at a state, at least the live ones.
    pub fn reserved(&self, state: usize) -> u64 {
        let reserved = match state.checked_sub(1) {
            None => self.data.timeline.base_reserved,
            Some(event) => self.data.timeline.events.reserved[event],
        };
        reserved.max(self.live[state])
    }

    /// When a state begins, ns since the step's start; for one past the last, the step's end.
    pub fn edge_ns(&self, state: usize) -> u64 {
        self.edges_ns[state.min(self.edges_ns.len() - 1)]
    }

    /// The step's end, ns.
    pub fn end_ns(&self) -> u64 {
        self.edges_ns[self.edges_ns.len() - 1]
    }

    /// The state that holds at a time.
    pub fn state_at_ns(&self, time_ns: u64) -> usize {
        let states = &self.edges_ns[..self.n_states()];
        states.partition_point(|&edge| edge <= time_ns).saturating_sub(1)
    }

    /// The state of the highest live bytes in the step.
    pub fn peak_state(&self) -> usize {
        self.extremes(0..=self.n_states() - 1).highest
    }

    /// Bytes by band at a state.
    pub fn bands(&self, state: usize) -> BandBytes {
        let mut bytes = self.checkpoints[state / STRIDE];
        let timeline = self.timeline();
        for event in state / STRIDE * STRIDE..state {
            apply(timeline, &self.band, event, &mut bytes);
        }
        bytes
    }

    /// Extremes over a run of states.
    pub fn extremes(&self, states: RangeInclusive<usize>) -> Extremes {
        let (first, last) = (*states.start(), *states.end());
        let (first_block, last_block) = (first.div_ceil(STRIDE), (last + 1) / STRIDE);
        if first_block >= last_block {
            return self.scan(states);
        }
        let mut result: Option<Extremes> = None;
        let mut add = |next: Extremes| {
            result = Some(result.map_or(next, |so_far| so_far.join(next)));
        };
        if first < first_block * STRIDE {
            add(self.scan(first..=first_block * STRIDE - 1));
        }
        for block in &self.blocks[first_block..last_block] {
            add(Extremes {
                highest: block.highest as usize,
                high_live: block.high_live,
                low_live: block.low_live,
                high_reserved: block.high_reserved,
            });
        }
        if last_block * STRIDE <= last {
            add(self.scan(last_block * STRIDE..=last));
        }
        result.unwrap_or_else(|| self.scan(states))
    }

    fn scan(&self, states: RangeInclusive<usize>) -> Extremes {
        let first = *states.start();
        let mut run = Extremes {
            highest: first,
            high_live: self.live[first],
            low_live: self.live[first],
            high_reserved: 0,
        };
        for state in states {
            let live = self.live[state];
            if live > run.high_live {
                (run.highest, run.high_live) = (state, live);
            }
            run.low_live = run.low_live.min(live);
            run.high_reserved = run.high_reserved.max(self.reserved(state));
        }
        run
    }

    /// Tensors in stacking order.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Tensors of one band, by birth.
    pub fn in_band(&self, band: Band) -> &[u32] {
        &self.order[self.band_starts[band.index()]..self.band_starts[band.index() + 1]]
    }

    /// Place of a tensor in the stacking order.
    pub fn rank(&self, tensor: u32) -> u32 {
        self.rank[tensor as usize]
    }

    /// Band of a tensor.
    pub fn band(&self, tensor: u32) -> Band {
        Band::at(self.band[tensor as usize])
    }

    /// Requested bytes of a tensor.
    pub fn bytes(&self, tensor: u32) -> u64 {
        self.timeline().tensors.bytes[tensor as usize]
    }

    /// Whether there is such a tensor; ids from a URL may come from another result.
    pub fn has_tensor(&self, tensor: u32) -> bool {
        (tensor as usize) < self.band.len()
    }

    /// States in which a tensor is alive: first, and one past the last.
    pub fn lifetime(&self, tensor: u32) -> (usize, usize) {
        let tensors = &self.timeline().tensors;
        let state_after = |event: u32, open: u32, otherwise: usize| {
            if event == open { otherwise } else { event as usize + 1 }
        };
        let born = state_after(tensors.born[tensor as usize], BEFORE, 0);
        let freed = state_after(tensors.freed[tensor as usize], NEVER, self.n_states());
        (born, freed)
    }

    /// Whether a tensor is alive at a state.
    pub fn is_live(&self, tensor: u32, state: usize) -> bool {
        let (born, freed) = self.lifetime(tensor);
        born <= state && state < freed
    }
}

fn tensor_bands(timeline: &Timeline) -> Vec<u8> {
    let kinds: Vec<BlockKind> = timeline.labels.iter().map(|label| BlockKind::of(label)).collect();
    let tensors = &timeline.tensors;
    (tensors.category.iter().zip(&tensors.block))
        .map(|(&category, &block)| {
            let kind = kinds.get(block as usize).copied().unwrap_or(BlockKind::Other);
            band_of(category, kind) as u8
        })
        .collect()
}

/// Tensors by band, then by birth, with the start of each band.
fn stacking_order(timeline: &Timeline, band: &[u8]) -> (Vec<u32>, [usize; N_BANDS + 1]) {
    let mut starts = [0; N_BANDS + 1];
    for &band in band {
        starts[usize::from(band) + 1] += 1;
    }
    for index in 0..N_BANDS {
        starts[index + 1] += starts[index];
    }
    let mut next = starts;
    let mut order = vec![0; band.len()];
    let mut place = |tensor: u32| {
        let slot = &mut next[usize::from(band[tensor as usize])];
        order[*slot] = tensor;
        *slot += 1;
    };
    for (tensor, &born) in timeline.tensors.born.iter().enumerate() {
        if born == BEFORE {
            place(to_u32(tensor));
        }
    }
    let events = &timeline.events;
    for (&tensor, &is_alloc) in events.tensor.iter().zip(&events.is_alloc) {
        if is_alloc != 0 {
            place(tensor);
        }
    }
    (order, starts)
}

/// Live bytes by state, and bytes by band at every checkpoint.
fn running_totals(timeline: &Timeline, band: &[u8]) -> (Vec<u64>, Vec<BandBytes>) {
    let n_events = timeline.events.len();
    let mut bytes = BandBytes::default();
    for (tensor, &born) in timeline.tensors.born.iter().enumerate() {
        if born == BEFORE {
            bytes[usize::from(band[tensor])] += timeline.tensors.bytes[tensor];
        }
    }
    let mut total: u64 = bytes.iter().sum();
    let mut live = Vec::with_capacity(n_events + 1);
    let mut checkpoints = Vec::with_capacity(n_events / STRIDE + 1);
    live.push(total);
    for event in 0..n_events {
        if event.is_multiple_of(STRIDE) {
            checkpoints.push(bytes);
        }
        total = total.wrapping_add_signed(apply(timeline, band, event, &mut bytes));
        live.push(total);
    }
    if n_events.is_multiple_of(STRIDE) {
        checkpoints.push(bytes);
    }
    (live, checkpoints)
}

/// Applies an event to the bytes by band and returns its change of the total.
fn apply(timeline: &Timeline, band: &[u8], event: usize, bytes: &mut BandBytes) -> i64 {
    let tensor = timeline.events.tensor[event] as usize;
    let size = timeline.tensors.bytes[tensor];
    let slot = &mut bytes[usize::from(band[tensor])];
    if timeline.events.is_alloc[event] == 0 {
        *slot -= size;
        -size.cast_signed()
    } else {
        *slot += size;
        size.cast_signed()
    }
}

fn edges(timeline: &Timeline) -> Vec<u64> {
    let mut latest = 0;
    let mut edges = Vec::with_capacity(timeline.events.len() + 2);
    edges.push(0);
    for &time_ns in &timeline.events.time_ns {
        latest = time_ns.max(latest);
        edges.push(latest);
    }
    edges.push(timeline.step_ns.max(latest).max(1));
    edges
}
