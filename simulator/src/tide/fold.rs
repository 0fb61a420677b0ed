//! A process of any depth from one of three layers.
//!
//! The process runs with its first layer, one interior layer and its last (three of each kind, when
//! later layers attend within a window; the first two, when an adapter, sharding, or what the first makes
//! for the others makes the second special), and with at most three micro-batches. Each of its runs is cut
//! wherever the phase, the micro-batch or the
//! layer changes; what belongs to the interior layer or the middle micro-batch counts as often as the
//! real process has them.

use crate::process::Process;
use crate::program::Run;
use crate::scenario::ValidScenario;
use crate::tape::{PhaseStart, Recorded, Request};
use crate::wire::parallel::DataParallel;
use crate::wire::timeline::PhaseKind;

use super::Tide;

/// Of each kind of layer: first, interior, last.
const LAYERS: u64 = 3;
/// The first micro-batch makes gradients, the others add to them.
const MICRO_BATCHES: usize = 3;

/// A process's runs, summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// Construction and data.
    pub build: Tide,
    /// The first step.
    pub first: Tide,
    /// Every later step.
    pub steady: Tide,
}

impl Folded {
    /// Highest live bytes in the first step, each request rounded.
    pub const fn first_peak(&self) -> u64 {
        self.first.peak.saturating_add_signed(self.build.net)
    }

    /// Highest live bytes in a later step, each request rounded.
    pub const fn steady_peak(&self) -> u64 {
        self.steady.peak.saturating_add_signed(self.build.net + self.first.net)
    }
}

/// Summarises the process of a scenario without replaying every layer and micro-batch.
pub fn folded(scenario: &ValidScenario) -> Folded {
    if scenario.megatron().is_some() {
        // Schedules of a pipeline are no repetition of one micro-batch.
        return whole(scenario);
    }
    let kinds = scenario.family().layer_kinds();
    let accumulation = scenario.document().workload.grad_accum;
    let micro_batches = accumulation.min(MICRO_BATCHES as u64);
    // Before its first adapter a frozen model records nothing, so the layer after is the lowest one
    // to hold what layers share. Where layers are gathered ahead, backward's last but one gathers none.
    let document = scenario.document();
    let zero = document.parallel.data.and_then(DataParallel::zero_stage).is_some();
    if zero || document.parallel.data == Some(DataParallel::Ddp) {
        return whole(scenario);
    }
    let gathers = document.parallel.data == Some(DataParallel::Fsdp2);
    let lead = if document.adapter.is_some() || gathers { 2 } else { 1 };
    let more = u64::from(scenario.family().first_layers_share());
    let leads = if kinds[0] == 0 { [1, lead + more] } else { [lead + more, 1 + more] };
    // Where layers of two kinds take turns, all of them are run.
    let alternates = scenario.family().alternates();
    let most = if alternates { kinds } else { leads.map(|lead| LAYERS + lead - 1) };
    let short = Extent { kinds: core::array::from_fn(|i| kinds[i].min(most[i])), leads };
    let depth = Depth {
        short,
        interior: core::array::from_fn(|i| 1 + kinds[i].saturating_sub(most[i])),
        middle: accumulation - micro_batches + 1,
    };
    let small = runs(&scenario.with_extent(short.kinds, micro_batches));
    // Clipping alone makes tensors whose size depends on the number of layers (one norm a tensor).
    let depends = scenario.document().optimizer.clip_grad_norm && kinds != short.kinds;
    let larger = depends.then(|| {
        let extent = short.one_more(kinds);
        (extent, runs(&scenario.with_extent(extent.kinds, micro_batches)))
    });
    let more = kinds.iter().sum::<u64>() - short.kinds.iter().sum::<u64>();
    let [build, first, steady] = core::array::from_fn(|i| {
        let record = &small[i].record;
        let larger = larger.as_ref().map(|(extent, runs)| (*extent, &runs[i].record));
        let grown = larger.map(|larger| grown((short, record), larger, more));
        Reader { record, grown, depth }.run()
    });
    Folded { build, first, steady }
}

/// Summarises every request: buckets of gradients end wherever they are full, in any layer.
fn whole(scenario: &ValidScenario) -> Folded {
    let summary = |run: Run| {
        let record = &run.record;
        Tide::of(record.requests.iter().map(|request| {
            let bytes = record.storages[request.storage().index()].bytes;
            if request.is_alloc() { Tide::allocation(bytes) } else { Tide::free(bytes) }
        }))
    };
    let [build, first, steady] = runs(scenario).map(summary);
    Folded { build, first, steady }
}

/// Layers that are run.
#[derive(Clone, Copy)]
struct Extent {
    /// How many of each kind.
    kinds: [u64; 2],
    /// How many layers at the start of each kind are like no other.
    leads: [u64; 2],
}

impl Extent {
    /// With one more interior layer, of a kind that has more.
    fn one_more(self, real: [u64; 2]) -> Self {
        let [whole, others] = self.kinds;
        let kinds = if others < real[1] { [whole, others + 1] } else { [whole + 1, others] };
        Self { kinds, ..self }
    }

    /// The kind of which a layer is neither the first nor the last.
    fn interior(self, layer: Option<u32>) -> Option<usize> {
        let layer = u64::from(layer?);
        let [whole, others] = self.kinds;
        let (kind, first, count) = if layer < whole { (0, 0, whole) } else { (1, whole, others) };
        (first + self.leads[kind] <= layer && layer + 1 < first + count).then_some(kind)
    }
}

/// Construction, first step, steady step.
type Runs = [Run; 3];

/// How often what was recorded once takes place.
#[derive(Clone, Copy)]
struct Depth {
    short: Extent,
    /// The interior layer of each kind.
    interior: [u64; 2],
    /// The middle micro-batch.
    middle: u64,
}

fn runs(scenario: &ValidScenario) -> Runs {
    let (mut process, build) = Process::build(scenario);
    let first = process.step();
    let steady = process.step();
    [build, first, steady]
}

/// Bytes of each storage in a process with `more` layers.
///
/// Requests outside the interior layers are the same in a process with one more of them, but for sizes
/// that grow with the number of layers: linearly.
fn grown(small: (Extent, &Recorded), large: (Extent, &Recorded), more: u64) -> Vec<u64> {
    let mut bytes: Vec<u64> = small.1.storages.iter().map(|storage| storage.bytes).collect();
    let outer = outer_requests(small).zip(outer_requests(large));
    for (one, other) in outer.filter(|(one, _)| one.is_alloc()) {
        let (index, larger) = (one.storage().index(), large.1.storages[other.storage().index()]);
        bytes[index] += more * larger.bytes.saturating_sub(bytes[index]);
    }
    bytes
}

fn outer_requests((extent, record): (Extent, &Recorded)) -> impl Iterator<Item = Request> {
    visits(record)
        .filter(move |visit| extent.interior(visit.layer).is_none())
        .flat_map(|visit| record.requests[visit.start..visit.end].iter().copied())
}

#[derive(Clone, Copy)]
/// Requests of one phase that belong to one layer; what follows a layer belongs to it.
pub(super) struct Visit {
    pub(super) phase: PhaseStart,
    pub(super) layer: Option<u32>,
    pub(super) start: usize,
    pub(super) end: usize,
}

pub(super) fn visits(record: &Recorded) -> impl Iterator<Item = Visit> {
    let n_requests = record.requests.len();
    let ends = record.phases.iter().skip(1).map(|phase| phase.request as usize);
    let mut marks = record.marks.iter().peekable();
    record.phases.iter().zip(ends.chain([n_requests])).flat_map(move |(&phase, end)| {
        let mut visits = Vec::new();
        let mut visit = Visit { phase, layer: None, start: phase.request as usize, end };
        while let Some(mark) = marks.next_if(|mark| (mark.request as usize) < end) {
            if mark.layer.is_none() || mark.layer == visit.layer {
                continue;
            }
            let start = mark.request as usize;
            visits.push(Visit { end: start, ..visit });
            visit = Visit { phase, layer: mark.layer, start, end };
        }
        visits.push(visit);
        visits
    })
}

/// Summarises one run.
struct Reader<'a> {
    record: &'a Recorded,
    grown: Option<Vec<u64>>,
    depth: Depth,
}

impl Reader<'_> {
    fn run(&self) -> Tide {
        let mut micro_batches = [Tide::NONE; MICRO_BATCHES];
        let mut rest = Tide::NONE;
        for visit in visits(self.record) {
            let interior = self.depth.short.interior(visit.layer);
            let times = interior.map_or(1, |kind| self.depth.interior[kind]);
            let tide = self.tide(&visit).repeat(times);
            let whole = match visit.phase.kind {
                PhaseKind::Forward | PhaseKind::Loss | PhaseKind::Backward => {
                    &mut micro_batches[visit.phase.micro_batch as usize]
                }
                PhaseKind::Build | PhaseKind::Clip | PhaseKind::Optimizer | PhaseKind::ZeroGrad => {
                    &mut rest
                }
            };
            *whole = whole.then(tide);
        }
        let [first, middle, last] = micro_batches;
        first.then(middle.repeat(self.depth.middle)).then(last).then(rest)
    }

    fn tide(&self, visit: &Visit) -> Tide {
        Tide::of(self.record.requests[visit.start..visit.end].iter().map(|request| {
            let index = request.storage().index();
            let bytes = match &self.grown {
                Some(grown) => grown[index],
                None => self.record.storages[index].bytes,
            };
            if request.is_alloc() { Tide::allocation(bytes) } else { Tide::free(bytes) }
        }))
    }
}
