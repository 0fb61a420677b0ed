//! Stage 3 (`DeepSpeedZeroOptimizer_Stage3`): each rank keeps its part of every weight.
//!
//! # Source
//!
//! deepspeed 0.19.8, `runtime/zero/stage3.py`, `parameter_offload.py`,
//! `runtime/comm/coalesced_collectives.py`.

use std::collections::BTreeMap;

use crate::clock::Pointwise;
use crate::order;
use crate::primitives::pointwise;
use crate::tape::{Block, Hooks, NodeId, ParamId, Prim, Scope, Shard, StorageId, Tape};
use crate::tensor::DType;
use crate::wire::scenario::Optimizer;
use crate::wire::timeline::{Category, PhaseKind};

use super::coordinator::{Coordinator, part};
use super::step::Master;
use super::{REDUCE_STREAM, ZeroOptions, elements, on_stream, scalars, trained};

/// Most padded parts of one gradient that are told apart; beyond, they are made as one.
const PADDED_PARTS: u64 = 64;

/// Modules without parameters that are called, as transformers names them.
const LEAVES: [&str; 6] = ["act_fn", "act", "rotary_emb", "drop", "dropout", "resid_dropout"];

/// Where an operation stands: block, module, layer.
type Place = (&'static str, &'static str, Option<u32>);

fn place(tape: &Tape) -> Place {
    let scope = tape.scope();
    (scope.block.word(), scope.module, scope.layer)
}

/// Nodes of a module: those after the first, up to the last.
type Nodes = (Option<NodeId>, Option<NodeId>);

/// The hooks of stage 3.
#[derive(Debug)]
pub(super) struct Weights {
    options: ZeroOptions,
    coordinator: Coordinator,
    /// `fp16_groups`: what is updated at a time.
    groups: Vec<Vec<ParamId>>,
    /// `lp_param_buffer`.
    flat: StorageId,
    masters: Vec<Master>,
    /// `grad_partitions_flat_buffer`.
    gradients: StorageId,
    /// `bucket.buffer`.
    buffer: StorageId,
    bucket: Vec<ParamId>,
    bucket_elements: u64,
    micro_batch: u64,
    /// The module that runs forward (one without parameters: none), and the node before it.
    forward: Option<(Option<ParamId>, Option<NodeId>)>,
    /// Where a module's parameters are taken first: it has begun when the place is entered.
    places: BTreeMap<Place, ParamId>,
    /// `PreBackwardFunctionForModule` behind these nodes.
    calls: BTreeMap<NodeId, (Option<ParamId>, Nodes)>,
    /// The module that runs backward.
    backward: Option<(Option<ParamId>, Nodes)>,
    norms: Vec<StorageId>,
}

impl Weights {
    /// Deals out a model that was built whole.
    pub(super) fn new(tape: &mut Tape, options: ZeroOptions) -> Self {
        tape.enter(Block::Parallel, "DeepSpeedZeroOptimizer_Stage3");
        let params = trained(tape);
        let coordinator = Coordinator::new(tape, &params, &options);
        let parts: u64 = params.iter().map(|&id| part(tape, id, options.ranks)).sum();
        let flat = partition(tape, &params, &options);
        let groups = sub_groups(tape, &params, &options);
        let masters = masters(tape, &groups, &options);
        let size = options.dtype.bytes();
        let buffer = if options.contiguous { options.reduce_bucket * size } else { 0 };
        let buffer = tape.allocate(buffer, Prim::ReduceScatter);
        let kept = if options.offload_optimizer { 0 } else { parts };
        let gradients = tape.allocate(kept * options.accumulation.bytes(), Prim::ReduceScatter);
        for storage in [buffer, gradients] {
            tape.categorise(storage, Category::Gradients);
        }
        if 1 < options.ranks {
            for &id in &params {
                // `create_reduce_and_remove_grad_hooks` gathers each to hook it.
                tape.scratch(part(tape, id, options.ranks) * options.ranks * size, Prim::AllGather);
            }
        }
        tape.watch_weights();
        Self {
            options,
            coordinator,
            groups,
            flat,
            masters,
            gradients,
            buffer,
            bucket: Vec::new(),
            bucket_elements: 0,
            micro_batch: 0,
            forward: None,
            places: BTreeMap::new(),
            calls: BTreeMap::new(),
            backward: None,
            norms: Vec::new(),
        }
    }

    const fn boundary(&self) -> bool {
        self.micro_batch + 1 == self.options.micro_batches
    }

    // ---- gradients ----

    /// `__add_grad_to_ipg_bucket`.
    fn add_to_bucket(&mut self, tape: &mut Tape, id: ParamId) {
        let count = elements(tape, id);
        let fits = self.bucket_elements + count <= self.options.reduce_bucket;
        if self.options.contiguous && fits {
            let bytes = 2 * count * self.options.dtype.bytes();
            tape.run(Prim::ReduceScatter, pointwise(Pointwise::Copy, self.options.dtype, bytes));
            tape.retain_storage(self.buffer);
            let old = tape.param_mut(id).whole_grad.replace(self.buffer);
            if let Some(old) = old {
                tape.release_storage(old);
            }
        }
        self.bucket.push(id);
        self.bucket_elements += count;
    }

    /// `__reduce_and_partition_ipg_grads`.
    fn reduce(&mut self, tape: &mut Tape) {
        let mut params = core::mem::take(&mut self.bucket);
        self.bucket_elements = 0;
        order::sort(&mut params);
        let stream = if self.options.overlap { REDUCE_STREAM } else { 0 };
        on_stream(tape, stream, |tape| {
            let kept = self.scattered(tape, &params);
            for &id in &params {
                if self.options.offload_optimizer {
                    self.offload(tape, id);
                }
                if let Some(grad) = tape.param_mut(id).whole_grad.take() {
                    tape.release_storage(grad);
                }
            }
            for storage in kept {
                tape.release_storage(storage);
            }
        });
    }

    /// `reduce_scatter_coalesced`: parts of all gradients rank by rank, padded; a single gradient that
    /// divides is sent as it is. The rank's parts are then cast, where they are added up in another
    /// type.
    fn scattered(&self, tape: &mut Tape, params: &[ParamId]) -> Vec<StorageId> {
        let ZeroOptions { ranks, dtype, accumulation, .. } = self.options;
        let parts: Vec<u64> = params.iter().map(|&id| part(tape, id, ranks)).collect();
        let total: u64 = parts.iter().sum();
        let whole = params.len() == 1 && elements(tape, params[0]).is_multiple_of(ranks);
        let mut kept = Vec::new();
        if !whole && !params.is_empty() {
            let paddings = paddings(tape, params, &parts, &self.options);
            kept.push(tape.allocate(total * ranks * dtype.bytes(), Prim::ReduceScatter));
            for padding in paddings {
                tape.release_storage(padding);
            }
        }
        let bytes = 4 * total * ranks * dtype.bytes();
        tape.run(Prim::ReduceScatter, pointwise(Pointwise::Copy, dtype, bytes));
        if dtype == accumulation {
            return kept;
        }
        let bytes = |part: &u64| part * accumulation.bytes();
        let casts =
            parts.iter().map(|part| tape.allocate(bytes(part), Prim::ReduceScatter)).collect();
        for flat in kept {
            tape.release_storage(flat);
        }
        casts
    }

    /// A part that goes to host memory: back on the device, and at the last micro-batch its norm.
    fn offload(&mut self, tape: &mut Tape, id: ParamId) {
        let count = part(tape, id, self.options.ranks);
        let bytes = count * self.options.accumulation.bytes();
        let device = tape.allocate(bytes, Prim::ReduceScatter);
        if self.boundary() {
            let norm = scalars::norm_in_fp64(tape, count);
            self.norms.push(norm);
        }
        tape.release_storage(device);
    }

    // ---- the step ----

    /// Check and norms; returns the norm of all.
    fn check(&self, tape: &mut Tape) -> StorageId {
        if self.options.dtype == DType::F16 {
            let parts: u64 = self.masters.iter().map(|master| master.elements).sum();
            let abs = tape.allocate(parts * self.options.accumulation.bytes(), Prim::ClipGrad);
            let infinite = tape.allocate(parts, Prim::ClipGrad);
            tape.release_storage(abs);
            tape.scratch(1, Prim::ClipGrad);
            tape.release_storage(infinite);
            tape.scratch(parts, Prim::ClipGrad);
        }
        if self.options.offload_optimizer {
            tape.scratch(4, Prim::ClipGrad);
            return StorageId::NONE;
        }
        let mut total = StorageId::NONE;
        for group in &self.groups {
            let parts: Vec<u64> =
                group.iter().map(|&id| part(tape, id, self.options.ranks)).collect();
            let norm = scalars::total_norm(tape, &parts);
            tape.release_storage(core::mem::replace(&mut total, norm));
        }
        total
    }

    /// `_prepare_fp32_grad_for_sub_group`.
    fn single_grad_partition(&self, tape: &mut Tape, group: usize) -> StorageId {
        let count = self.masters[group].elements;
        let accumulation = self.options.accumulation;
        let joined = if self.groups[group].len() == 1 {
            tape.retain_storage(self.gradients);
            self.gradients
        } else {
            tape.allocate(count * accumulation.bytes(), Prim::Accumulate)
        };
        let bytes = 2 * count * accumulation.bytes();
        tape.run(Prim::Accumulate, pointwise(Pointwise::Copy, accumulation, bytes));
        if accumulation == DType::F32 {
            return joined;
        }
        let single = tape.allocate(4 * count, Prim::Accumulate);
        tape.release_storage(joined);
        single
    }

    fn leave_backward(&mut self, tape: &mut Tape) {
        if let Some((Some(id), _)) = self.backward.take() {
            let module = self.coordinator.module_of(tape, id);
            self.coordinator.release(tape, module, &self.options);
        }
    }

    /// A module begins in a forward.
    fn begin(&mut self, tape: &mut Tape, param: Option<ParamId>) {
        self.after_weight(tape);
        let before = tape.last_node();
        within(tape, |tape| match param {
            Some(param) => self.coordinator.enter(tape, param, &self.options),
            None => self.coordinator.enter_leaf(tape, &self.options),
        });
        self.forward = Some((param, before));
    }
}

impl Hooks for Weights {
    fn before_model(&mut self, tape: &mut Tape) {
        self.coordinator.reset(tape, &self.options);
    }

    /// `pre_sub_module_forward_function` of a module that is known by its place.
    fn entered(&mut self, tape: &mut Tape) -> bool {
        let param = self.places.get(&place(tape)).copied();
        let begins = param.is_some() || LEAVES.contains(&tape.scope().module);
        if begins {
            self.begin(tape, param);
        }
        begins
    }

    /// The same of any other.
    fn before_weight(&mut self, tape: &mut Tape, param: ParamId) {
        let module = self.coordinator.module_of(tape, param);
        if let Some((Some(id), _)) = self.forward
            && self.coordinator.module_of(tape, id) == module
        {
            return;
        }
        self.places.entry(place(tape)).or_insert(param);
        self.begin(tape, Some(param));
    }

    /// `post_sub_module_forward_function`; not where a checkpoint's second run ends within the module.
    fn after_weight(&mut self, tape: &mut Tape) {
        let Some((id, before)) = self.forward.take() else { return };
        if tape.stopped() {
            return;
        }
        if let Some(id) = id {
            let module = self.coordinator.module_of(tape, id);
            within(tape, |tape| self.coordinator.release(tape, module, &self.options));
        }
        if let Some(last) = tape.last_node()
            && before != Some(last)
            && self.backward.is_none()
        {
            self.calls.insert(last, (id, (before, Some(last))));
        }
    }

    /// `PreBackwardFunctionForModule`, and what has run is let go.
    fn before_node(&mut self, tape: &mut Tape, node: NodeId) {
        let inside = |(first, last): Nodes| first < Some(node) && Some(node) <= last;
        within(tape, |tape| {
            if self.backward.is_some_and(|(_, nodes)| !inside(nodes)) {
                self.leave_backward(tape);
            }
            if let Some((id, nodes)) = self.calls.remove(&node) {
                match id {
                    Some(id) => self.coordinator.enter(tape, id, &self.options),
                    None => self.coordinator.enter_leaf(tape, &self.options),
                }
                self.backward = Some((id, nodes));
            }
        });
    }

    /// `reduce_independent_p_g_buckets_and_remove_grads`.
    fn after_gradient(&mut self, tape: &mut Tape, param: ParamId) {
        let count = elements(tape, param);
        let full = self.options.reduce_bucket < self.bucket_elements + count;
        if full && 0 < self.bucket_elements {
            within(tape, |tape| self.reduce(tape));
        }
        self.add_to_bucket(tape, param);
    }

    /// `independent_gradient_partition_epilogue`, then `release_backward_leftovers`.
    fn backward_returned(&mut self, tape: &mut Tape) {
        tape.enter(Block::Parallel, "allreduce_gradients");
        if !self.bucket.is_empty() {
            self.reduce(tape);
        }
        if let Some((Some(id), _)) = self.backward.take() {
            let module = self.coordinator.module_of(tape, id);
            self.coordinator.release_leftover(tape, module);
        }
        self.calls.clear();
        self.micro_batch += 1;
    }

    fn update(&mut self, tape: &mut Tape, optimizer: &Optimizer) -> bool {
        self.micro_batch = 0;
        tape.phase(PhaseKind::Optimizer, 0);
        tape.enter(Block::Parallel, "partition_all_parameters");
        self.coordinator.release_all(tape, &self.options);
        tape.enter(Block::Clip, "get_norm_groups");
        let norm = self.check(tape);
        // `_global_grad_norm`, which really lasts until the next step replaces it.
        let grad_norm = tape.allocate(4, Prim::ClipGrad);
        for group in 0..self.groups.len() {
            if self.options.offload_optimizer {
                continue;
            }
            tape.enter(Block::Optimizer, "gradients");
            let single = self.single_grad_partition(tape, group);
            tape.categorise(single, Category::Gradients);
            if optimizer.clip_grad_norm || self.options.dtype == DType::F16 {
                scalars::clip(tape, self.masters[group].elements, DType::F32);
            }
            self.masters[group].step(tape, optimizer);
            tape.release_storage(single);
        }
        tape.enter(Block::Parallel, "post_step");
        tape.release_storage(norm);
        tape.release_storage(grad_norm);
        for norm in core::mem::take(&mut self.norms) {
            tape.release_storage(norm);
        }
        self.coordinator.gather_persistent(tape, &self.options);
        tape.phase(PhaseKind::ZeroGrad, 0);
        true
    }

    fn storages(&mut self) -> Vec<&mut StorageId> {
        let own = [&mut self.flat, &mut self.gradients, &mut self.buffer];
        own.into_iter()
            .chain(self.coordinator.whole.values_mut())
            .chain(self.masters.iter_mut().flat_map(Master::storages))
            .collect()
    }
}

/// `_convert_to_zero_parameters` and `defragment`: each weight's part, then the weight goes; all
/// parts go to host memory and come back as one tensor.
fn partition(tape: &mut Tape, params: &[ParamId], options: &ZeroOptions) -> StorageId {
    let size = options.dtype.bytes();
    let mut parts = Vec::new();
    let mut total = 0;
    for &id in params {
        let count = part(tape, id, options.ranks);
        total += count;
        let bytes = if options.offload_param { 0 } else { count * size };
        parts.push(tape.allocate(bytes, Prim::Parameter));
        let param = tape.param_mut(id);
        let whole = core::mem::replace(&mut param.storage, StorageId::NONE);
        let shard = Shard { storage: StorageId::NONE, elements: count, dtype: options.dtype };
        param.shard = Some(shard);
        tape.release_storage(whole);
    }
    for part in parts {
        tape.release_storage(part);
    }
    if !options.offload_param {
        tape.empty_cache();
    }
    let bytes = if options.offload_param { 0 } else { total * size };
    let flat = tape.allocate(bytes, Prim::Parameter);
    tape.categorise(flat, Category::Weights);
    flat
}

/// `_create_fp16_sub_groups`: closed as soon as they reach the size.
fn sub_groups(tape: &Tape, params: &[ParamId], options: &ZeroOptions) -> Vec<Vec<ParamId>> {
    let mut groups = Vec::new();
    let mut open = Vec::new();
    let mut count = 0;
    for &id in params {
        open.push(id);
        count += part(tape, id, options.ranks);
        if options.sub_group <= count {
            groups.push(core::mem::take(&mut open));
            count = 0;
        }
    }
    groups.extend((!open.is_empty()).then_some(open));
    groups
}

/// `_create_fp32_partitions`: a cast and its copy for each group; `initialize_optimizer_states`: a
/// gradient of the largest one for a moment.
fn masters(tape: &mut Tape, groups: &[Vec<ParamId>], options: &ZeroOptions) -> Vec<Master> {
    let sizes: Vec<u64> = groups
        .iter()
        .map(|group| group.iter().map(|&id| part(tape, id, options.ranks)).sum())
        .collect();
    if options.offload_optimizer {
        return sizes.into_iter().map(Master::in_host_memory).collect();
    }
    let mut converted = StorageId::NONE;
    let mut masters = Vec::new();
    for &count in &sizes {
        let bytes = if options.dtype == DType::F32 { 0 } else { 4 * count };
        let cast = tape.allocate(bytes, Prim::Copy);
        tape.release_storage(core::mem::replace(&mut converted, cast));
        masters.push(Master::new(tape, count));
    }
    tape.release_storage(converted);
    tape.scratch(4 * sizes.iter().max().copied().unwrap_or(0), Prim::Accumulate);
    masters
}

/// What fills the last ranks' parts of gradients that do not divide.
fn paddings(
    tape: &mut Tape,
    params: &[ParamId],
    parts: &[u64],
    options: &ZeroOptions,
) -> Vec<StorageId> {
    let size = options.dtype.bytes();
    let mut paddings = Vec::new();
    for (&id, &part) in params.iter().zip(parts) {
        let count = elements(tape, id);
        let full = count / part;
        let padded = options.ranks - full;
        let first = (full + 1) * part - count;
        if PADDED_PARTS < padded {
            paddings
                .push(tape.allocate((part * options.ranks - count) * size, Prim::ReduceScatter));
            continue;
        }
        for rank in 0..padded {
            let elements = if rank == 0 { first } else { part };
            paddings.push(tape.allocate(elements * size, Prim::ReduceScatter));
        }
    }
    paddings
}

/// Runs a hook and goes back to where the tape was.
fn within(tape: &mut Tape, hook: impl FnOnce(&mut Tape)) {
    let scope = tape.scope();
    tape.set_scope(Scope { backward: false, block: Block::Parallel, module: "fetch", ..scope });
    hook(tape);
    tape.set_scope(scope);
}
