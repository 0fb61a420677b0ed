//! `DistributedDataParallel`: every rank has everything, and gradients are averaged in buckets.
//!
//! # Source
//!
//! `torch/nn/parallel/distributed.py`, `torch/csrc/distributed/c10d/reducer.cpp` and `comm.cpp`,
//! PyTorch 2.11. Names here are the names there.

use std::collections::{BTreeMap, VecDeque};

use crate::clock::Pointwise;
use crate::order;
use crate::primitives::pointwise;
use crate::tape::{Block, Hooks, ParamId, Prim, StorageId, Tape};
use crate::tensor::DType;
use crate::wire::timeline::Category;

/// `broadcast_bucket_size`, bytes.
const BROADCAST_BYTES: u64 = 250 << 20;
/// Broadcasts under way at once (`max_in_flight`).
const IN_FLIGHT: usize = 2;

/// The wrapper's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdpOptions {
    /// Ranks.
    pub ranks: u64,
    /// Most bytes of the bucket that is ready first, and of the others.
    pub caps: [u64; 2],
    /// Whether gradients are views into the buckets.
    pub bucket_view: bool,
}

/// The hooks of `DistributedDataParallel` and its reducer.
#[derive(Debug)]
pub struct Ddp {
    options: DdpOptions,
    /// `bucket.gradients`.
    buckets: Vec<StorageId>,
    bucket_of: BTreeMap<ParamId, usize>,
    /// `rebuilt_params_`: in the order in which their gradients were ready.
    rebuilt_params: Vec<ParamId>,
    has_rebuilt_buckets: bool,
}

impl Ddp {
    /// Wraps the model that is on the tape: rank 0's states for all, then one bucket for all
    /// gradients.
    pub fn new(tape: &mut Tape, options: DdpOptions) -> Self {
        tape.enter(Block::Parallel, "DistributedDataParallel");
        let all: Vec<ParamId> = (0..tape.n_params()).map(ParamId::new).collect();
        let trained: Vec<ParamId> =
            all.iter().copied().filter(|&id| tape.param(id).trainable).collect();
        verify(tape, &trained, options.ranks);
        let mut states: Vec<_> = all.iter().map(|&id| size_of(tape, id)).collect();
        states.extend(tape.buffers());
        broadcast_coalesced(tape, &states);
        let mut reducer = Self {
            options,
            buckets: Vec::new(),
            bucket_of: BTreeMap::new(),
            rebuilt_params: Vec::new(),
            has_rebuilt_buckets: false,
        };
        // `bucket_size_limits = [sys.maxsize]`: buckets are made for good after the first backward.
        reducer.initialize_buckets(tape, &trained, &[u64::MAX]);
        reducer
    }

    /// `Reducer::initialize_buckets` over parameters in this order.
    fn initialize_buckets(&mut self, tape: &mut Tape, params: &[ParamId], limits: &[u64]) {
        for bucket in core::mem::take(&mut self.buckets) {
            tape.release_storage(bucket);
        }
        self.bucket_of.clear();
        let sizes: Vec<_> = params.iter().map(|&id| size_of(tape, id)).collect();
        for (number, members) in assignment(&sizes, limits).into_iter().enumerate() {
            let bytes = members.iter().map(|&i| sizes[i].1).sum();
            let bucket = tape.allocate(bytes, Prim::AllReduce);
            tape.categorise(bucket, Category::Gradients);
            self.buckets.push(bucket);
            for id in members.into_iter().map(|i| params[i]) {
                self.bucket_of.insert(id, number);
                if self.options.bucket_view && tape.param(id).grad.is_some() {
                    self.view_bucket(tape, id);
                }
            }
        }
    }

    /// `Reducer::rebuild_buckets`.
    fn rebuild_buckets(&mut self, tape: &mut Tape) {
        if self.has_rebuilt_buckets || self.rebuilt_params.is_empty() {
            return;
        }
        self.has_rebuilt_buckets = true;
        tape.enter(Block::Parallel, "_rebuild_buckets");
        let params = core::mem::take(&mut self.rebuilt_params);
        let sizes: Vec<_> = params.iter().map(|&id| size_of(tape, id)).collect();
        // `sync_bucket_indices`: 32-bit numbers, for all ranks.
        let indices = tape.allocate(4 * (params.len() as u64 + 1), Prim::Broadcast);
        let count = assignment(&sizes, &self.options.caps).len() as u64;
        let bucket_sizes = tape.allocate(4 * count, Prim::Broadcast);
        tape.release_storage(bucket_sizes);
        tape.release_storage(indices);
        self.initialize_buckets(tape, &params, &self.options.caps.clone());
    }

    /// A gradient becomes a view into its bucket, which lets go of what it was.
    fn view_bucket(&self, tape: &mut Tape, id: ParamId) {
        let bucket = self.buckets[self.bucket_of[&id]];
        tape.retain_storage(bucket);
        if let Some(old) = tape.param_mut(id).grad.replace(bucket) {
            tape.release_storage(old);
        }
    }
}

impl Hooks for Ddp {
    /// `_pre_forward`.
    fn before_model(&mut self, tape: &mut Tape) {
        self.rebuild_buckets(tape);
        tape.enter(Block::Parallel, "_sync_buffers");
        let buffers = tape.buffers().to_vec();
        broadcast_coalesced(tape, &buffers);
    }

    /// `Reducer::autograd_hook` → `mark_variable_ready_dense`.
    fn after_gradient(&mut self, tape: &mut Tape, param: ParamId) {
        if !self.has_rebuilt_buckets {
            self.rebuilt_params.push(param);
        }
        let (dtype, bytes) = size_of(tape, param);
        tape.run(Prim::AllReduce, pointwise(Pointwise::Unary, dtype, 2 * bytes));
        let bucket = self.buckets[self.bucket_of[&param]];
        if self.options.bucket_view && tape.param(param).grad != Some(bucket) {
            self.view_bucket(tape, param);
        }
    }

    /// `Reducer::finalize_backward`: what was reduced is copied back where it is no view.
    fn after_backward(&mut self, tape: &mut Tape) {
        if self.options.bucket_view {
            return;
        }
        for &id in self.bucket_of.keys() {
            let (dtype, bytes) = size_of(tape, id);
            tape.run(Prim::AllReduce, pointwise(Pointwise::Copy, dtype, 2 * bytes));
        }
    }

    /// The next step's first forward would rebuild the buckets before anything else.
    fn after_step(&mut self, tape: &mut Tape) {
        self.rebuild_buckets(tape);
    }

    fn storages(&mut self) -> Vec<&mut StorageId> {
        self.buckets.iter_mut().collect()
    }
}

fn size_of(tape: &Tape, id: ParamId) -> (DType, u64) {
    let param = tape.param(id);
    (param.dtype, param.shape.elements() * param.dtype.bytes())
}

/// `_verify_param_shape_across_processes`: how many parameters each rank has, then their sizes and
/// strides, as 64-bit numbers.
fn verify(tape: &mut Tape, params: &[ParamId], ranks: u64) {
    let count = tape.allocate(8, Prim::Broadcast);
    let counts: Vec<StorageId> = (0..ranks).map(|_| tape.allocate(8, Prim::Broadcast)).collect();
    let dimensions: u64 = params.iter().map(|&id| tape.param(id).shape.sizes().len() as u64).sum();
    tape.scratch(8 * 2 * dimensions, Prim::Broadcast);
    for storage in counts.into_iter().chain([count]) {
        tape.release_storage(storage);
    }
}

/// `broadcast_coalesced`: tensors of one element type are sent as one, flattened when there are
/// several.
fn broadcast_coalesced(tape: &mut Tape, tensors: &[(DType, u64)]) {
    let mut in_flight = VecDeque::new();
    for bucket in sorted(assignment(tensors, &[BROADCAST_BYTES])) {
        if in_flight.len() == IN_FLIGHT {
            in_flight.pop_front().into_iter().for_each(|flat| tape.release_storage(flat));
        }
        let bytes = bucket.iter().map(|&i| tensors[i].1).sum::<u64>();
        let flat = if 1 < bucket.len() { bytes } else { 0 };
        in_flight.push_back(tape.allocate(flat, Prim::Broadcast));
        let dtype = tensors[bucket[0]].0;
        tape.run(Prim::Broadcast, pointwise(Pointwise::Copy, dtype, 4 * bytes));
    }
    for flat in in_flight {
        tape.release_storage(flat);
    }
}

/// `compute_bucket_assignment_by_size` of tensors in their order: a bucket of one element type is
/// closed as soon as it reaches its limit; the last limit holds for all that follow.
fn assignment(tensors: &[(DType, u64)], limits: &[u64]) -> Vec<Vec<usize>> {
    let mut closed = Vec::new();
    let mut open = BTreeMap::<DType, (Vec<usize>, u64, usize)>::new();
    for (index, &(dtype, bytes)) in tensors.iter().enumerate() {
        let (members, size, limit) = open.entry(dtype).or_default();
        members.push(index);
        *size += bytes;
        if limits[*limit] <= *size {
            closed.push(core::mem::take(members));
            *size = 0;
            *limit = (*limit + 1).min(limits.len() - 1);
        }
    }
    closed.extend(open.into_values().map(|(members, ..)| members).filter(|m| !m.is_empty()));
    closed
}

/// By the first tensor of each.
fn sorted(mut buckets: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    order::sort(&mut buckets);
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_close_when_they_are_full() {
        let tensors = [3, 1, 9, 2, 2, 1].map(|bytes| (DType::F32, bytes));
        assert_eq!(assignment(&tensors, &[2, 4]), [vec![0], vec![1, 2], vec![3, 4], vec![5]]);
        assert_eq!(assignment(&tensors, &[u64::MAX]), [vec![0, 1, 2, 3, 4, 5]]);
        let mixed = [(DType::F32, 3), (DType::BF16, 9), (DType::F32, 3)];
        assert_eq!(sorted(assignment(&mixed, &[6])), [vec![0, 2], vec![1]]);
    }
}
