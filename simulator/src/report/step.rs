//! One step's numbers: peak, categories and breakdown at the peak, phases, times.

use std::collections::BTreeMap;

use crate::order;
use crate::tape::{Recorded, Storage};
use crate::timeline::{Replayed, Timed};
use crate::units::Bytes;
use crate::wire::report::{BreakdownRow, CategoryBytes, PhaseReport, StepReport, TimeReport};
use crate::wire::timeline::{Category, PhaseKind, Timeline};

/// The live requested bytes of a record, request by request.
struct Walk {
    peak: u64,
    /// Number of the request after which the peak stands.
    peak_request: usize,
    phases: Vec<PhaseReport>,
}

/// The numbers of a step.
///
/// `outside_pool` is added to the categories; `time` comes from the clock.
pub fn step_report(
    record: &Recorded,
    replayed: &Replayed,
    timeline: &Timeline,
    outside_pool: Bytes,
    time: TimeReport,
) -> StepReport {
    let walk = walk(record, timeline);
    let live = live_at(record, walk.peak_request);
    let peak_phase = timeline
        .phases
        .iter()
        .rev()
        .find(|phase| phase.first_event as usize <= walk.peak_request)
        .map_or(PhaseKind::Forward, |phase| phase.kind);
    let at_peak = |column: &[u64]| column.get(walk.peak_request).copied().unwrap_or_default();
    let highest = |column: &[u64], base: u64| {
        Bytes::new(column.iter().copied().max().unwrap_or_default().max(base))
    };
    StepReport {
        base_bytes: Bytes::new(record.base_bytes),
        base_allocated_bytes: Bytes::new(replayed.base_allocated),
        peak_requested_bytes: Bytes::new(walk.peak),
        peak_allocated_bytes: highest(&replayed.allocated, replayed.base_allocated),
        peak_reserved_bytes: highest(&replayed.reserved, replayed.base_reserved),
        peak_event: u32::try_from(walk.peak_request).unwrap_or(u32::MAX),
        peak_ns: at_peak(&timeline.events.time_ns),
        peak_phase,
        categories: categories(&live, outside_pool, at_peak(&replayed.reserved), walk.peak),
        breakdown: breakdown(&live),
        phases: walk.phases,
        allocations: record.requests.iter().filter(|request| request.is_alloc()).count() as u64,
        time,
    }
}

fn walk(record: &Recorded, timeline: &Timeline) -> Walk {
    let mut live = record.base_bytes;
    let mut walk = Walk { peak: live, peak_request: 0, phases: Vec::new() };
    for phase in &timeline.phases {
        let mut report = PhaseReport {
            kind: phase.kind,
            micro_batch: phase.micro_batch,
            start_bytes: Bytes::new(live),
            end_bytes: Bytes::new(live),
            peak_bytes: Bytes::new(live),
            length_ns: phase.end_ns.saturating_sub(phase.start_ns),
        };
        let mut peak = live;
        for number in phase.first_event as usize..phase.end_event as usize {
            let request = record.requests[number];
            let bytes = record.storages[request.storage().index()].bytes;
            if !request.is_alloc() {
                live -= bytes;
                continue;
            }
            live += bytes;
            peak = peak.max(live);
            if walk.peak < live {
                (walk.peak, walk.peak_request) = (live, number);
            }
        }
        report.peak_bytes = Bytes::new(peak);
        report.end_bytes = Bytes::new(live);
        walk.phases.push(report);
    }
    walk
}

/// Storages alive after a request.
fn live_at(record: &Recorded, request: usize) -> Vec<Storage> {
    let mut alive = vec![true; record.n_before];
    alive.resize(record.storages.len(), false);
    for request in &record.requests[..record.requests.len().min(request + 1)] {
        alive[request.storage().index()] = request.is_alloc();
    }
    let storages = record.storages.iter().zip(alive);
    storages.filter(|(_, alive)| *alive).map(|(storage, _)| *storage).collect()
}

/// Bytes by category; they sum to the bytes reserved at that event plus those outside the pool.
fn categories(
    live: &[Storage],
    outside_pool: Bytes,
    reserved: u64,
    requested: u64,
) -> Vec<CategoryBytes> {
    let mut sums = [0_u64; Category::ALL.len()];
    for storage in live {
        sums[storage.category as usize] += storage.bytes;
    }
    sums[Category::OutsidePool as usize] = outside_pool.get();
    sums[Category::Slack as usize] = reserved.saturating_sub(requested);
    Category::ALL
        .into_iter()
        .map(|category| CategoryBytes { category, bytes: Bytes::new(sums[category as usize]) })
        .collect()
}

fn breakdown(live: &[Storage]) -> Vec<BreakdownRow> {
    let mut rows = BTreeMap::<_, (u64, u64)>::new();
    for storage in live {
        let key = (storage.category, storage.scope.block, storage.prim, storage.scope.backward);
        let row = rows.entry(key).or_default();
        row.0 += storage.bytes;
        row.1 += 1;
    }
    let mut rows: Vec<BreakdownRow> = rows
        .into_iter()
        .map(|((category, block, prim, backward), (bytes, tensors))| BreakdownRow {
            category,
            block: block.word().to_owned(),
            primitive: format!("{}{}", prim.word(), if backward { ".backward" } else { "" }),
            bytes: Bytes::new(bytes),
            tensors,
        })
        .collect();
    order::sort_by(&mut rows, |a, b| b.bytes.cmp(&a.bytes));
    rows
}

/// Times of a step as CUDA events between the phases would show them.
pub fn time_report(timed: &Timed, timeline: &Timeline, context: &TimeContext) -> TimeReport {
    let seconds = |ns: u64| crate::units::Nanos::new(ns).seconds();
    let mut ends = [0_u64; 3];
    for phase in &timeline.phases {
        let part = match phase.kind {
            PhaseKind::Build | PhaseKind::Forward | PhaseKind::Loss => 0,
            PhaseKind::Backward => 1,
            PhaseKind::Clip | PhaseKind::Optimizer | PhaseKind::ZeroGrad => 2,
        };
        ends[part] = ends[part].max(phase.end_ns);
    }
    let step_ns = timeline.step_ns.max(ends[2]);
    let length_s = seconds(step_ns);
    let per_second = |count: f64| if 0.0 < length_s { count / length_s } else { 0.0 };
    TimeReport {
        step_s: length_s,
        forward_s: seconds(ends[0]),
        backward_s: seconds(ends[1].saturating_sub(ends[0])),
        optimizer_s: seconds(step_ns.saturating_sub(ends[1])),
        device_idle_s: seconds(timed.replay.idle_ns),
        host_bound: timed.replay.is_host_bound(),
        tokens_per_s: per_second(context.tokens),
        mfu: context.peak_flops.map(|peak| per_second(context.model_flops) / peak),
        mode: context.mode,
    }
}

/// What a time report needs beside the times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeContext {
    /// Tokens per step.
    pub tokens: f64,
    /// Model FLOPs per step.
    pub model_flops: f64,
    /// Peak rate of the matrix units in the step's format, FLOP/s.
    pub peak_flops: Option<f64>,
    /// Where the rates come from.
    pub mode: crate::wire::report::TimeMode,
}
