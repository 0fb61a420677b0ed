//! Made-up steps for the tests.

use std::sync::Arc;

use simulator::wire::timeline::{BEFORE, Category, NEVER, NO_LAYER, Phase, PhaseKind, Timeline};

use super::curves::Curves;
use super::num::to_u32;
use super::{Surface, TimelineData};

/// Builds a step event by event.
#[derive(Default)]
pub(super) struct Step {
    timeline: Timeline,
    live: u64,
    now_ns: u64,
}

impl Step {
    pub(super) fn new() -> Self {
        let mut step = Self::default();
        step.timeline.labels =
            ["x", "linear", "self_attn", "mlp", "norm", ""].map(str::to_owned).into();
        step
    }

    /// A tensor that is there before the step; only before the first event.
    pub(super) fn before(&mut self, bytes: u64, category: Category) -> u32 {
        self.live += bytes;
        self.timeline.base_bytes += bytes;
        self.tensor(bytes, category, BEFORE)
    }

    fn tensor(&mut self, bytes: u64, category: Category, born: u32) -> u32 {
        let tensors = &mut self.timeline.tensors;
        let id = to_u32(tensors.len());
        tensors.bytes.push(bytes);
        tensors.born.push(born);
        tensors.freed.push(NEVER);
        tensors.category.push(category as u8);
        tensors.name.push(0);
        tensors.primitive.push(1);
        tensors.block.push(2 + id % 4);
        tensors.layer.push(NO_LAYER);
        id
    }

    pub(super) fn alloc(&mut self, bytes: u64, category: Category) -> u32 {
        let tensor = self.tensor(bytes, category, to_u32(self.timeline.events.len()));
        self.live += bytes;
        self.event(tensor, 1);
        tensor
    }

    pub(super) fn free(&mut self, tensor: u32) {
        self.timeline.tensors.freed[tensor as usize] = to_u32(self.timeline.events.len());
        self.live -= self.timeline.tensors.bytes[tensor as usize];
        self.event(tensor, 0);
    }

    /// Lets time pass.
    pub(super) fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    fn event(&mut self, tensor: u32, is_alloc: u8) {
        let events = &mut self.timeline.events;
        let before = events.reserved.last().copied().unwrap_or(self.timeline.base_bytes);
        events.time_ns.push(self.now_ns);
        events.tensor.push(tensor);
        events.is_alloc.push(is_alloc);
        events.reserved.push(before.max(self.live));
        events.allocated.push(self.live);
    }

    /// Ends the phase that began with the step or the last phase.
    pub(super) fn phase(&mut self, kind: PhaseKind, micro_batch: u32) {
        let first_event = self.timeline.phases.last().map_or(0, |phase| phase.end_event);
        let end_event = to_u32(self.timeline.events.len());
        let (start_ns, end_ns) = (0, self.now_ns);
        let phase = Phase { kind, micro_batch, first_event, end_event, start_ns, end_ns };
        self.timeline.phases.push(phase);
    }

    pub(super) fn curves(mut self) -> Curves {
        self.timeline.base_reserved = self.timeline.base_bytes;
        self.timeline.step_ns = self.now_ns + 1000;
        let data = TimelineData {
            timeline: self.timeline,
            capacity_bytes: 80 << 30,
            outside_pool_bytes: 1 << 30,
            already_used_bytes: 1 << 29,
            band_bytes: 1 << 28,
            peak_event: 0,
            id: 1,
        };
        let peak_state = Curves::new(Arc::new(data.clone())).peak_state();
        let peak_event = to_u32(peak_state.saturating_sub(1));
        Curves::new(Arc::new(TimelineData { peak_event, ..data }))
    }
}

/// Reproducible numbers (splitmix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// A random step: some tensors before it, then allocations and frees, several at one time.
pub(super) fn random(seed: u64, n_events: usize) -> Curves {
    let mut dice = Dice(seed);
    let mut step = Step::new();
    let category = |dice: &mut Dice| Category::ALL[1 + usize::try_from(dice.roll(7)).unwrap()];
    let mut live = Vec::new();
    for _ in 0..dice.roll(20) {
        let kind = category(&mut dice);
        live.push(step.before(1 + dice.roll(1 << 30), kind));
    }
    for event in 0..n_events {
        step.wait(dice.roll(3) * dice.roll(2000));
        if live.is_empty() || dice.roll(100) < 52 {
            let kind = category(&mut dice);
            let most = 1 << (10 + dice.roll(20));
            live.push(step.alloc(1 + dice.roll(most), kind));
        } else {
            let place = usize::try_from(dice.roll(live.len() as u64)).unwrap();
            step.free(live.swap_remove(place));
        }
        if event == n_events / 2 {
            step.phase(PhaseKind::Forward, 0);
        }
    }
    step.phase(PhaseKind::Backward, 0);
    step.curves()
}

/// A surface of a width.
pub(super) fn surface(width: f64, px_ratio: f64) -> Surface {
    Surface { width, height: 420.0, px_ratio }
}
