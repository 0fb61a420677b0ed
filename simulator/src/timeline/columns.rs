//! A run, its replay and its times as the columns that the page draws.

use crate::clock::{Clock, Replay, Work};
use crate::program::Run;
use crate::tape::{OpRecord, Storage};
use crate::wire::timeline::{
    BEFORE, Category, Events, NEVER, NO_LAYER, Phase, Tensors, Timeline, Work as WorkColumns,
};

use super::labels::Labels;
use super::pool::Replayed;

/// A run's times.
#[derive(Debug, Default)]
pub struct Timed {
    /// Per operation.
    pub replay: Replay,
    works: Vec<Work>,
}

impl Timed {
    /// Runs the operations of a run on the clock.
    pub fn run(&mut self, run: &Run, clock: &Clock) {
        self.works.clear();
        self.works.extend(run.record.ops.iter().map(|op| op.work));
        self.replay.run(clock, &self.works);
    }

    /// When the device has finished the operations before this one, ns.
    pub fn finished_before(&self, op: usize) -> u64 {
        // Ends of device work rise along one stream; host-only work in between ends earlier.
        self.replay.end_ns[..op].iter().rev().take(64).copied().max().unwrap_or(0)
    }
}

/// The columns of a step.
pub fn timeline(run: &Run, replayed: &Replayed, timed: &Timed, names: &[String]) -> Timeline {
    let record = &run.record;
    let mut labels = Labels::new();
    let first_name = labels.table.len();
    labels.table.extend(names.iter().cloned());
    let tensors = tensors(run, first_name, &mut labels);
    Timeline {
        events: events(run, replayed, timed),
        phases: phases(run, timed),
        work: work(&record.ops, timed),
        base_bytes: record.base_bytes,
        base_allocated: replayed.base_allocated,
        base_reserved: replayed.base_reserved,
        step_ns: timed.replay.length_ns,
        labels: labels.table,
        tensors,
    }
}

fn tensors(run: &Run, first_name: usize, labels: &mut Labels) -> Tensors {
    let record = &run.record;
    let n = record.storages.len();
    let mut tensors = Tensors {
        bytes: record.storages.iter().map(|storage| storage.bytes).collect(),
        born: vec![BEFORE; n],
        freed: vec![NEVER; n],
        category: record.storages.iter().map(|storage| storage.category as u8).collect(),
        name: record.storages.iter().map(|s| name(s, first_name, labels)).collect(),
        primitive: record
            .storages
            .iter()
            .map(|storage| Labels::prim(storage.prim, storage.scope.backward))
            .collect(),
        block: record.storages.iter().map(|s| Labels::block(s.scope.block)).collect(),
        layer: record.storages.iter().map(|s| s.scope.layer.unwrap_or(NO_LAYER)).collect(),
    };
    for (event, request) in (0_u32..).zip(&record.requests) {
        let column = if request.is_alloc() { &mut tensors.born } else { &mut tensors.freed };
        column[request.storage().index()] = event;
    }
    tensors
}

/// Parameters, their gradients and states carry the parameter's name; others their module's.
fn name(storage: &Storage, first_name: usize, labels: &mut Labels) -> u32 {
    match (storage.owner, storage.category) {
        (Some(owner), Category::Weights | Category::Gradients | Category::OptimizerStates) => {
            u32::try_from(first_name + owner.index()).unwrap_or(u32::MAX)
        }
        _ => labels.module(storage.scope.module),
    }
}

fn events(run: &Run, replayed: &Replayed, timed: &Timed) -> Events {
    let record = &run.record;
    let n = replayed.reserved.len();
    let mut events = Events {
        time_ns: Vec::with_capacity(n),
        tensor: Vec::with_capacity(n),
        is_alloc: Vec::with_capacity(n),
        reserved: replayed.reserved.clone(),
        allocated: replayed.allocated.clone(),
    };
    // A request happens while the host issues the first operation recorded after it.
    let mut op = 0;
    for (number, request) in (0_u32..).zip(record.requests.iter().take(n)) {
        while op < record.ops.len() && record.ops[op].request <= number {
            op += 1;
        }
        let time = timed.replay.issued_ns.get(op).copied().unwrap_or(timed.replay.length_ns);
        events.time_ns.push(time);
        events.tensor.push(u32::try_from(request.storage().index()).unwrap_or(u32::MAX));
        events.is_alloc.push(u8::from(request.is_alloc()));
    }
    events
}

fn phases(run: &Run, timed: &Timed) -> Vec<Phase> {
    let record = &run.record;
    let n_requests = u32::try_from(record.requests.len()).unwrap_or(u32::MAX);
    let n_ops = record.ops.len();
    let phases = &record.phases;
    (0..phases.len())
        .map(|i| {
            let start = &phases[i];
            let next = phases.get(i + 1);
            let end_op = next.map_or(n_ops, |next| next.op as usize);
            Phase {
                kind: start.kind,
                micro_batch: start.micro_batch,
                first_event: start.request,
                end_event: next.map_or(n_requests, |next| next.request),
                start_ns: timed
                    .replay
                    .issued_ns
                    .get(start.op as usize)
                    .copied()
                    .unwrap_or(timed.replay.length_ns),
                end_ns: timed.finished_before(end_op),
            }
        })
        .collect()
}

fn work(ops: &[OpRecord], timed: &Timed) -> WorkColumns {
    let mut columns = WorkColumns::default();
    for (number, op) in ops.iter().enumerate().filter(|(_, op)| 0 < op.work.kernels) {
        columns.primitive.push(Labels::prim(op.prim, op.scope.backward));
        columns.block.push(Labels::block(op.scope.block));
        columns.layer.push(op.scope.layer.unwrap_or(NO_LAYER));
        columns.issued_ns.push(timed.replay.issued_ns[number]);
        columns.start_ns.push(timed.replay.start_ns[number]);
        columns.end_ns.push(timed.replay.end_ns[number]);
    }
    columns
}
