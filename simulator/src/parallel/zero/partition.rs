//! Stages 1 and 2 (`DeepSpeedZeroOptimizer`): weights whole on every rank, states in parts, and in
//! stage 2 gradients too.
//!
//! # Source
//!
//! deepspeed 0.19.8, `runtime/zero/stage_1_and_2.py`.

use std::collections::BTreeMap;

use crate::clock::Pointwise;
use crate::order;
use crate::primitives::pointwise;
use crate::tape::{Block, Hooks, ParamId, Prim, StorageId, Tape};
use crate::tensor::DType;
use crate::wire::scenario::Optimizer;
use crate::wire::timeline::{Category, PhaseKind};

use super::step::Master;
use super::{ZeroOptions, elements, flatten, on_stream, scalars, trained};

/// The rank whose memory is simulated.
const RANK: u64 = 0;

/// The hooks of stages 1 and 2.
#[derive(Debug)]
pub(super) struct Partitioned {
    pub(super) options: ZeroOptions,
    /// `bit16_groups`: in the model's order.
    params: Vec<ParamId>,
    /// `bit16_groups_flat`.
    flat: StorageId,
    /// `partition_size`.
    pub(super) partition: u64,
    /// For each parameter its slices: the rank that has it, and elements.
    pub(super) slices: BTreeMap<ParamId, Vec<(u64, u64)>>,
    /// `params_in_partition`.
    owned: Vec<ParamId>,
    master: Master,
    /// `temp_grad_buffer_for_gpu_offload`.
    upload: StorageId,
    /// `bucket.buffer`.
    pub(super) buffers: [StorageId; 2],
    /// `bucket.index`.
    pub(super) index: usize,
    ready_for_gradients: bool,
    /// `bucket.params`.
    pub(super) bucket: Vec<ParamId>,
    pub(super) bucket_elements: u64,
    /// `previous_reduced_grads`.
    previous: Vec<ParamId>,
    /// `grads_in_partition`.
    grads_in_partition: StorageId,
    /// `param.grad_accum`, where gradients are added up outside of `param.grad`.
    grad_accum: BTreeMap<ParamId, StorageId>,
    /// `all_grad_tensors`.
    summed: Vec<StorageId>,
    /// `averaged_gradients`: tensors, or the one partition that holds them all.
    pub(super) averaged: Vec<StorageId>,
    micro_batch: u64,
    /// `norm_for_param_grads`.
    norms: Vec<StorageId>,
}

impl Partitioned {
    /// Flattens the weights and copies this rank's part in fp32.
    pub(super) fn new(tape: &mut Tape, options: ZeroOptions) -> Self {
        tape.enter(Block::Parallel, "DeepSpeedZeroOptimizer");
        let params = trained(tape);
        let order =
            if options.round_robin { round_robin(&params, options.ranks) } else { params.clone() };
        let (flat, total) = flatten(tape, &order, options.ranks, options.dtype);
        let partition = total / options.ranks;
        let slices = slices(order.iter().map(|&id| (id, elements(tape, id))), partition);
        let owned = order
            .into_iter()
            .filter(|id| slices[id].iter().any(|&(rank, _)| rank == RANK))
            .collect();
        let master = master(tape, &options, partition);
        let upload = if options.offload_optimizer {
            let largest = params.iter().map(|&id| elements(tape, id)).max().unwrap_or(0);
            let upload = tape.allocate(largest * options.dtype.bytes(), Prim::Copy);
            tape.categorise(upload, Category::Gradients);
            upload
        } else {
            tape.scratch(4 * partition, Prim::Copy);
            StorageId::NONE
        };
        Self {
            options,
            params,
            flat,
            partition,
            slices,
            owned,
            master,
            upload,
            buffers: [StorageId::NONE; 2],
            index: 0,
            ready_for_gradients: false,
            bucket: Vec::new(),
            bucket_elements: 0,
            previous: Vec::new(),
            grads_in_partition: StorageId::NONE,
            grad_accum: BTreeMap::new(),
            summed: Vec::new(),
            averaged: Vec::new(),
            micro_batch: 0,
            norms: Vec::new(),
        }
    }

    /// `is_gradient_accumulation_boundary`.
    const fn boundary(&self) -> bool {
        self.micro_batch + 1 == self.options.micro_batches
    }

    /// `use_grad_accum_attribute`.
    const fn sums_apart(&self) -> bool {
        self.options.stage == 1
            && !matches!(
                (self.options.dtype, self.options.accumulation),
                (DType::F32, DType::F32) | (DType::F16, DType::F16) | (DType::BF16, DType::BF16)
            )
    }

    /// `_use_compact_grad_partition_buffer`: reduced gradients are added to one fp32 partition.
    pub(super) fn compact(&self) -> bool {
        self.options.accumulation == DType::F32 && self.options.dtype != DType::F32
    }

    /// `_gradient_reduction_buffer_dtype`.
    pub(super) const fn buffer_dtype(&self) -> DType {
        if self.sums_apart() { self.options.accumulation } else { self.options.dtype }
    }

    /// Elements of a parameter that lie in this rank's partition.
    fn own_elements(&self, id: ParamId) -> u64 {
        self.slices[&id].iter().filter(|slice| slice.0 == RANK).map(|slice| slice.1).sum()
    }

    fn is_owned(&self, id: ParamId) -> bool {
        self.slices[&id].iter().any(|&(rank, _)| rank == RANK)
    }

    fn gradient(&mut self, tape: &mut Tape, id: ParamId) -> Option<StorageId> {
        if self.sums_apart() { self.grad_accum.get(&id).copied() } else { tape.param(id).grad }
    }

    /// `grad_reduc.data = view`: the gradient becomes a view of a buffer.
    pub(super) fn view(&mut self, tape: &mut Tape, id: ParamId, buffer: StorageId) {
        tape.retain_storage(buffer);
        let old = if self.sums_apart() {
            self.grad_accum.insert(id, buffer)
        } else {
            tape.param_mut(id).grad.replace(buffer)
        };
        if let Some(old) = old {
            tape.release_storage(old);
        }
    }

    /// `clear_grad_attribute`.
    fn clear(&mut self, tape: &mut Tape, id: ParamId) {
        let old = if self.sums_apart() {
            self.grad_accum.remove(&id)
        } else {
            tape.param_mut(id).grad.take()
        };
        if let Some(old) = old {
            tape.release_storage(old);
        }
    }

    /// `setup_buckets`, at the first gradient after the last reduction.
    fn setup_buckets(&mut self, tape: &mut Tape) {
        if self.ready_for_gradients {
            return;
        }
        self.ready_for_gradients = true;
        if !self.options.contiguous {
            return;
        }
        let bytes = self.options.reduce_bucket * self.buffer_dtype().bytes();
        for number in 0..=usize::from(self.options.overlap) {
            let buffer = tape.allocate(bytes, Prim::AllReduce);
            tape.categorise(buffer, Category::Gradients);
            self.buffers[number] = buffer;
        }
        self.index = 0;
    }

    /// `_fill_param_grad_accum_attribute`.
    fn fill_grad_accum(&mut self, tape: &mut Tape, id: ParamId) {
        let Some(grad) = tape.param_mut(id).grad.take() else { return };
        let bytes = elements(tape, id) * self.options.accumulation.bytes();
        let wide = tape.allocate(bytes, Prim::Accumulate);
        tape.run(Prim::Accumulate, pointwise(Pointwise::Widen, self.options.dtype, 2 * bytes));
        if let std::collections::btree_map::Entry::Vacant(e) = self.grad_accum.entry(id) {
            tape.own(wide, id, Category::Gradients);
            e.insert(wide);
        } else {
            tape.release_storage(wide);
        }
        tape.release_storage(grad);
    }

    /// `reduce_independent_p_g_buckets_and_remove_grads`.
    fn add_to_bucket(&mut self, tape: &mut Tape, id: ParamId) {
        let count = elements(tape, id);
        if self.options.reduce_bucket < self.bucket_elements + count {
            self.reduce_ipg_grads(tape);
            if self.options.contiguous && self.options.overlap {
                self.index = 1 - self.index;
            }
        }
        if self.options.contiguous && count <= self.options.reduce_bucket {
            let dtype = self.buffer_dtype();
            let bytes = 2 * count * dtype.bytes();
            tape.run(Prim::AllReduce, pointwise(Pointwise::Copy, dtype, bytes));
            self.view(tape, id, self.buffers[self.index]);
        }
        self.bucket_elements += count;
        self.bucket.push(id);
    }

    /// `reduce_ipg_grads`.
    fn reduce_ipg_grads(&mut self, tape: &mut Tape) {
        if self.bucket.is_empty() {
            return;
        }
        for id in core::mem::take(&mut self.previous) {
            self.clear(tape, id);
        }
        let stream = if self.options.overlap { super::REDUCE_STREAM } else { 0 };
        on_stream(tape, stream, |tape| {
            self.average(tape);
            for id in core::mem::take(&mut self.bucket) {
                let owned = self.is_owned(id);
                if owned && self.options.contiguous {
                    self.copy_in_partition(tape, id);
                } else if !owned && self.options.stage == 2 {
                    if self.options.overlap && !self.options.contiguous {
                        self.previous.push(id);
                    } else {
                        self.clear(tape, id);
                    }
                }
            }
        });
        self.bucket_elements = 0;
    }

    /// `copy_grads_in_partition`.
    fn copy_in_partition(&mut self, tape: &mut Tape, id: ParamId) {
        if self.options.offload_optimizer {
            return self.offload(tape, id);
        }
        if self.compact() {
            if self.sums_apart() {
                self.clear(tape, id);
            }
            return;
        }
        let dtype = self.options.dtype;
        if self.grads_in_partition == StorageId::NONE {
            let count: u64 = self.owned.iter().map(|&id| elements(tape, id)).sum();
            self.grads_in_partition = tape.allocate(count * dtype.bytes(), Prim::AllReduce);
            tape.categorise(self.grads_in_partition, Category::Gradients);
        }
        let bytes = 2 * elements(tape, id) * dtype.bytes();
        tape.run(Prim::AllReduce, pointwise(Pointwise::Copy, dtype, bytes));
        self.view(tape, id, self.grads_in_partition);
    }

    /// `async_accumulate_grad_in_cpu_via_gpu`, which makes nothing here, and at the last micro-batch
    /// the norm, the check, and the copy in fp32 (`async_inplace_copy_grad_to_fp32_buffer_from_gpu`).
    fn offload(&mut self, tape: &mut Tape, id: ParamId) {
        if !self.boundary() {
            return;
        }
        let count = self.own_elements(id);
        let norm = scalars::norm_in_fp64(tape, count);
        self.norms.push(norm);
        scalars::has_inf_or_nan(tape, elements(tape, id), self.buffer_dtype());
        if self.buffer_dtype() != DType::F32 {
            tape.scratch(4 * count, Prim::Copy);
        }
        self.clear(tape, id);
    }

    /// `independent_gradient_partition_epilogue`.
    fn epilogue(&mut self, tape: &mut Tape) {
        self.reduce_ipg_grads(tape);
        for id in core::mem::take(&mut self.previous) {
            self.clear(tape, id);
        }
        let mut met = Vec::new();
        let on_device = !self.options.offload_optimizer;
        if on_device && !self.compact() {
            met = self.sum(tape);
        } else if on_device && self.boundary() {
            self.compact_partition(tape);
        }
        for buffer in &mut self.buffers {
            tape.release_storage(core::mem::replace(buffer, StorageId::NONE));
        }
        let own = core::mem::replace(&mut self.grads_in_partition, StorageId::NONE);
        tape.release_storage(own);
        self.ready_for_gradients = false;
        for &id in &self.params {
            if let Some(grad) = tape.param_mut(id).grad.take() {
                tape.release_storage(grad);
            }
        }
        for grad in met {
            tape.release_storage(grad);
        }
    }

    /// `get_all_grad_tensors`, added to those of earlier micro-batches; at the last one
    /// `get_flat_partition`, with zeros up to the partition's size. Returns what was added.
    fn sum(&mut self, tape: &mut Tape) -> Vec<StorageId> {
        let mut new = Vec::new();
        for id in self.owned.clone() {
            if let Some(grad) = self.gradient(tape, id) {
                tape.retain_storage(grad);
                new.push(grad);
            }
        }
        if self.summed.is_empty() {
            self.summed = core::mem::take(&mut new);
        } else {
            let bytes = 3 * self.partition * self.options.dtype.bytes();
            tape.run(Prim::Accumulate, pointwise(Pointwise::Binary, self.options.dtype, bytes));
        }
        if self.boundary() {
            self.averaged = core::mem::take(&mut self.summed);
            let count: u64 = self.owned.iter().map(|&id| self.own_elements(id)).sum();
            let padding = (self.partition - count) * self.options.accumulation.bytes();
            let padding = tape.allocate(padding, Prim::Accumulate);
            if padding != StorageId::NONE {
                self.averaged.push(padding);
            }
        }
        new
    }

    /// `_build_compact_grad_partition_buffer`, once a step.
    pub(super) fn compact_partition(&mut self, tape: &mut Tape) {
        if self.averaged.is_empty() {
            let buffer = tape.allocate(4 * self.partition, Prim::AllReduce);
            tape.categorise(buffer, Category::Gradients);
            self.averaged.push(buffer);
        }
    }

    /// Sizes of this rank's gradients.
    fn own_gradients(&self) -> Vec<u64> {
        self.owned.iter().map(|&id| self.own_elements(id)).collect()
    }

    /// The check for infinities and the norm; returns the norm.
    fn check(&mut self, tape: &mut Tape) -> StorageId {
        let sizes = self.own_gradients();
        let half = self.options.dtype != DType::F32;
        if self.options.offload_optimizer {
            if half {
                tape.scratch(1, Prim::ClipGrad);
            }
            // The norms come to the host one by one.
            tape.scratch(4, Prim::ClipGrad);
            return StorageId::NONE;
        }
        if half {
            let padded = self.partition - sizes.iter().sum::<u64>();
            let all: Vec<u64> =
                sizes.iter().copied().chain((0 < padded).then_some(padded)).collect();
            let dtype = if self.compact() { DType::F32 } else { self.options.dtype };
            scalars::check_overflow(tape, &all, dtype);
        }
        scalars::total_norm(tape, &sizes)
    }

    /// The flat gradient in fp32 (`flatten_dense_tensors_aligned`, `.to(torch.float32)`).
    fn single_grad_partition(&mut self, tape: &mut Tape) -> StorageId {
        let averaged = core::mem::take(&mut self.averaged);
        let dtype = self.options.dtype;
        let single = if let ([one], true) = (averaged.as_slice(), self.compact()) {
            tape.retain_storage(*one);
            *one
        } else {
            let bytes = self.partition * dtype.bytes();
            let joined = match averaged.as_slice() {
                [one] => {
                    tape.retain_storage(*one);
                    *one
                }
                _ => tape.allocate(bytes, Prim::Accumulate),
            };
            tape.run(Prim::Accumulate, pointwise(Pointwise::Copy, dtype, 2 * bytes));
            if dtype == DType::F32 {
                joined
            } else {
                let wide = tape.allocate(4 * self.partition, Prim::Accumulate);
                tape.run(Prim::Accumulate, pointwise(Pointwise::Widen, dtype, 3 * bytes));
                tape.release_storage(joined);
                wide
            }
        };
        tape.categorise(single, Category::Gradients);
        for grad in averaged {
            tape.release_storage(grad);
        }
        single
    }
}

impl Hooks for Partitioned {
    /// `clear_backward_seen_flag`.
    fn before_model(&mut self, tape: &mut Tape) {
        if self.micro_batch == 0 {
            for (_, grad) in core::mem::take(&mut self.grad_accum) {
                tape.release_storage(grad);
            }
        }
    }

    /// `process_gradients`.
    fn after_gradient(&mut self, tape: &mut Tape, param: ParamId) {
        self.setup_buckets(tape);
        if self.sums_apart() {
            self.fill_grad_accum(tape, param);
        }
        let reduces = self.options.stage == 2 || (self.options.overlap && self.boundary());
        if reduces {
            self.add_to_bucket(tape, param);
        }
    }

    /// `DeepSpeedEngine.allreduce_gradients`.
    fn backward_returned(&mut self, tape: &mut Tape) {
        tape.enter(Block::Parallel, "allreduce_gradients");
        if self.options.stage == 2 {
            self.epilogue(tape);
        } else if self.boundary() {
            if !self.options.overlap {
                for id in self.params.clone() {
                    if self.gradient(tape, id).is_some() {
                        self.add_to_bucket(tape, id);
                    }
                }
            }
            self.epilogue(tape);
        }
        self.micro_batch += 1;
    }

    fn update(&mut self, tape: &mut Tape, optimizer: &Optimizer) -> bool {
        self.micro_batch = 0;
        tape.phase(PhaseKind::Optimizer, 0);
        tape.enter(Block::Clip, "scaled_global_norm");
        let norm = self.check(tape);
        // `_global_grad_norm`, which really lasts until the next step replaces it.
        let grad_norm = tape.allocate(4, Prim::ClipGrad);
        tape.enter(Block::Optimizer, "gradients");
        if !self.options.offload_optimizer {
            let single = self.single_grad_partition(tape);
            if optimizer.clip_grad_norm || self.options.dtype == DType::F16 {
                scalars::clip(tape, self.partition, DType::F32);
            }
            self.master.step(tape, optimizer);
            tape.release_storage(single);
        }
        let bytes = 3 * self.partition * self.options.dtype.bytes();
        tape.run(Prim::Update, pointwise(Pointwise::Narrow, DType::F32, bytes));
        // `all_gather_into_tensor`: into the flat tensor itself.
        let bytes = self.options.ranks * self.partition * self.options.dtype.bytes();
        tape.run(Prim::AllGather, pointwise(Pointwise::Copy, self.options.dtype, bytes));
        tape.release_storage(norm);
        tape.release_storage(grad_norm);
        for norm in core::mem::take(&mut self.norms) {
            tape.release_storage(norm);
        }
        tape.phase(PhaseKind::ZeroGrad, 0);
        for (_, grad) in core::mem::take(&mut self.grad_accum) {
            tape.release_storage(grad);
        }
        true
    }

    fn storages(&mut self) -> Vec<&mut StorageId> {
        let own = [&mut self.flat, &mut self.upload];
        own.into_iter().chain(self.master.storages()).collect()
    }
}

/// This rank's part in fp32: a copy in the weights' type, cast, or in host memory.
pub(super) fn master(tape: &mut Tape, options: &ZeroOptions, partition: u64) -> Master {
    if options.dtype == DType::F32 && !options.offload_optimizer {
        return Master::new(tape, partition);
    }
    let clone = tape.allocate(partition * options.dtype.bytes(), Prim::Copy);
    let master = if options.offload_optimizer {
        Master::in_host_memory(partition)
    } else {
        Master::new(tape, partition)
    };
    tape.release_storage(clone);
    master
}

/// Dealt out in turn (`_round_robin_reorder`).
fn round_robin(params: &[ParamId], ranks: u64) -> Vec<ParamId> {
    let ranks = usize::try_from(ranks).unwrap_or(usize::MAX);
    (0..ranks.min(params.len()))
        .flat_map(|first| params[first..].iter().step_by(ranks).copied())
        .collect()
}

/// Where the flat tensor's parts cut each parameter (`initialize_gradient_partition`).
fn slices(
    order: impl Iterator<Item = (ParamId, u64)>,
    partition: u64,
) -> BTreeMap<ParamId, Vec<(u64, u64)>> {
    let mut start = 0;
    let cut = |(id, count): (ParamId, u64)| {
        let end = start + count;
        let mut slices = Vec::new();
        while start < end {
            let rank = start / partition;
            let next = end.min((rank + 1) * partition);
            slices.push((rank, next - start));
            start = next;
        }
        (id, slices)
    };
    order::map(order.map(cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cut_parameters() {
        let [a, b, c] = [0, 1, 2].map(ParamId::new);
        let cut = slices([(a, 3), (b, 8), (c, 1)].into_iter(), 4);
        assert_eq!(cut[&a], [(0, 3)]);
        assert_eq!(cut[&b], [(0, 1), (1, 4), (2, 3)]);
        assert_eq!(cut[&c], [(2, 1)]);
    }

    #[test]
    fn tensors_are_dealt_out_in_turn() {
        let ids: Vec<ParamId> = (0..5).map(ParamId::new).collect();
        let order: Vec<usize> = round_robin(&ids, 2).iter().map(|id| id.index()).collect();
        assert_eq!(order, [0, 2, 4, 1, 3]);
    }
}
