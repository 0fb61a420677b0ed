//! `fully_shard` on every layer and on the model: each rank keeps its part of every parameter.
//!
//! A *group* is what one call of `fully_shard` manages: the parameters of a layer, or those that no
//! layer has (the root's). Its whole parameters exist from its unshard to its reshard; autograd holds
//! references to tensors whose storage has been resized to nothing meanwhile.
//!
//! # Source
//!
//! `torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py`, `_fsdp_state.py`, `_fsdp_collectives.py`,
//! PyTorch 2.11. Names here are the names there.

use std::collections::BTreeMap;

use crate::clock::Pointwise;
use crate::order;
use crate::primitives::pointwise;
use crate::tape::{Block, Hooks, NodeId, ParamId, Prim, Scope, Shard, StorageId, Tape};
use crate::tensor::DType;
use crate::wire::timeline::Category;

use super::copies::{chunk_cat_metadata, split_copy_metadata};

/// `all_gather_copy_in_stream`.
const GATHER_STREAM: u8 = 1;
/// `reduce_scatter_stream`.
const REDUCE_STREAM: u8 = 2;

/// The root's group.
const ROOT: usize = 0;

/// The settings of all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsdpOptions {
    /// Ranks that share each parameter.
    pub ranks: u64,
    /// Whether whole parameters go after a group's forward.
    pub reshard_after_forward: bool,
    /// Element type of the parts.
    pub shard_dtype: DType,
    /// Element type of the whole parameters.
    pub compute_dtype: DType,
    /// Element type of a reduction, when it is not the gradients'.
    pub reduce_dtype: Option<DType>,
    /// Whether the parts stay in host memory.
    pub cpu_offload: bool,
    /// Backward passes from one reduction of gradients to the next.
    pub passes: u64,
    /// Whether a group's parameters are one flat parameter (`FlatParamHandle`).
    pub flat: bool,
}

/// A group's place between forward and backward (`TrainingState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Forward,
    PreBackward,
    PostBackward,
}

/// What one `fully_shard` manages (`FSDPParamGroup`).
#[derive(Debug)]
struct Group {
    params: Vec<ParamId>,
    state: State,
    /// `_all_gather_result`: gathered and not yet copied out.
    result: StorageId,
    /// The whole parameters, when they are there.
    whole: Option<Vec<StorageId>>,
    /// `_post_forward_indices`.
    post_forward_indices: Vec<usize>,
}

/// What a node's output has been hooked with, in the order of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    /// `RegisterPostBackwardFunction` stands between the node and the group's module.
    PostBackward(usize),
    /// `register_hook(self._pre_backward)` on the group's output.
    PreBackward(usize),
}

/// The hooks of `fully_shard`.
#[derive(Debug)]
pub struct Fsdp {
    options: FsdpOptions,
    groups: Vec<Group>,
    /// The group of a layer.
    of_layer: BTreeMap<u32, usize>,
    /// `post_forward_order`.
    post_forward_order: Vec<usize>,
    /// `all_gather_state`: kept until the next group's copy-out.
    all_gather_state: StorageId,
    /// `reduce_scatter_state`: kept until the next group's reduction.
    reduce_scatter_state: StorageId,
    /// Backward passes since the last reduction.
    pass: u64,
    calls: BTreeMap<NodeId, Vec<Call>>,
}

impl Fsdp {
    /// Groups the parameters that the tape has.
    pub fn new(tape: &Tape, options: FsdpOptions) -> Self {
        let all: Vec<ParamId> = (0..tape.n_params()).map(ParamId::new).collect();
        let mut members = BTreeMap::<Option<u32>, Vec<ParamId>>::new();
        members.entry(None).or_default();
        for id in all {
            members.entry(tape.param(id).layer).or_default().push(id);
        }
        let of_layer = order::map(members.keys().flatten().zip(ROOT + 1..).map(|(&l, i)| (l, i)));
        let groups = members.into_values().map(|params| Group {
            params: children_first(tape, &params),
            state: State::Idle,
            result: StorageId::NONE,
            whole: None,
            post_forward_indices: Vec::new(),
        });
        Self {
            options,
            groups: groups.collect(),
            of_layer,
            post_forward_order: Vec::new(),
            all_gather_state: StorageId::NONE,
            reduce_scatter_state: StorageId::NONE,
            pass: 0,
            calls: BTreeMap::new(),
        }
    }

    /// Deals out a model that was built whole, one group after the other, the root's last
    /// (`FSDPParam._init_sharded_param`): a group's whole parameters go when all its parts are made.
    pub fn shard_whole(&self, tape: &mut Tape) {
        tape.enter(Block::Parallel, "fully_shard");
        let FsdpOptions { ranks, shard_dtype, compute_dtype, cpu_offload, .. } = self.options;
        let (root, layers) = self.groups.split_at(ROOT + 1);
        for group in layers.iter().chain(root) {
            let mut whole = Vec::new();
            for &id in &group.params {
                tape.enter_layer(tape.param(id).layer);
                let elements = Shard::elements(tape.param(id).shape, ranks);
                let mut storage = tape.allocate(elements * shard_dtype.bytes(), Prim::Parameter);
                if cpu_offload {
                    tape.release_storage(storage);
                    storage = StorageId::NONE;
                }
                tape.own(storage, id, Category::Weights);
                let param = tape.param_mut(id);
                param.shard = Some(Shard { storage, elements, dtype: shard_dtype });
                param.dtype = compute_dtype;
                whole.push(core::mem::replace(&mut param.storage, StorageId::NONE));
            }
            whole.into_iter().rev().for_each(|storage| tape.release_storage(storage));
            tape.enter_layer(None);
        }
    }

    // ---- unshard ----

    fn part_elements(&self, tape: &Tape, group: usize) -> Vec<u64> {
        self.groups[group].params.iter().map(|&id| tape.param(id).local_elements()).collect()
    }

    /// `FSDPParamGroup.unshard` → `foreach_all_gather`.
    fn unshard(&mut self, tape: &mut Tape, group: usize) {
        let unneeded = &self.groups[group];
        if unneeded.whole.is_some() || unneeded.result != StorageId::NONE {
            return;
        }
        let FsdpOptions { ranks, compute_dtype, .. } = self.options;
        let elements = self.part_elements(tape, group);
        let total = elements.iter().sum::<u64>() * compute_dtype.bytes();
        tape.enter(Block::Parallel, "all_gather");
        tape.set_stream(GATHER_STREAM);
        let inputs = self.all_gather_inputs(tape, &elements);
        let output = tape.allocate(total * ranks, Prim::AllGather);
        tape.run(Prim::AllGather, pointwise(Pointwise::Copy, compute_dtype, 2 * total));
        tape.set_stream(0);
        // The list of inputs lives until the function returns, and lets go from its end.
        for input in inputs.into_iter().rev() {
            tape.release_storage(input);
        }
        self.groups[group].result = output;
    }

    /// `_get_param_all_gather_inputs`: one flat cast of all parts; from host memory a copy and a cast
    /// of each; the parts themselves where nothing is cast.
    fn all_gather_inputs(&self, tape: &mut Tape, elements: &[u64]) -> Vec<StorageId> {
        let FsdpOptions { shard_dtype, compute_dtype, cpu_offload, .. } = self.options;
        let casts = shard_dtype != compute_dtype;
        let narrow = |count: u64| count * compute_dtype.bytes();
        if cpu_offload {
            return elements
                .iter()
                .map(|&count| {
                    let copy = tape.allocate(count * shard_dtype.bytes(), Prim::AllGather);
                    if !casts {
                        return copy;
                    }
                    let cast = tape.allocate(narrow(count), Prim::AllGather);
                    let work = pointwise(Pointwise::Narrow, shard_dtype, 2 * narrow(count));
                    tape.run(Prim::AllGather, work);
                    tape.release_storage(copy);
                    cast
                })
                .collect();
        }
        if !casts {
            return Vec::new();
        }
        let total = elements.iter().sum();
        let flat = tape.allocate(narrow(total), Prim::AllGather);
        let bytes = total * (shard_dtype.bytes() + compute_dtype.bytes());
        tape.run(Prim::AllGather, pointwise(Pointwise::Narrow, shard_dtype, bytes));
        Vec::from([flat])
    }

    /// `FSDPParamGroup.wait_for_unshard` → `foreach_all_gather_copy_out`.
    fn wait_for_unshard(&mut self, tape: &mut Tape, group: usize) {
        let result = core::mem::replace(&mut self.groups[group].result, StorageId::NONE);
        if result == StorageId::NONE {
            return;
        }
        let FsdpOptions { ranks, compute_dtype, .. } = self.options;
        let forward = self.groups[group].state == State::Forward;
        tape.enter(Block::Parallel, "all_gather_copy_out");
        let elements = self.part_elements(tape, group);
        let params = self.groups[group].params.iter().zip(&elements);
        let whole = params.map(|(&id, count)| {
            let bytes = count * ranks * compute_dtype.bytes();
            let storage = tape.allocate(bytes, Prim::AllGather);
            tape.own(storage, id, Category::Weights);
            storage
        });
        self.groups[group].whole = Some(whole.collect());
        let chunks: Vec<u64> = elements.iter().map(|n| n * compute_dtype.bytes()).collect();
        tape.scratch(split_copy_metadata(&chunks, ranks, &tape.device), Prim::AllGather);
        let bytes = 2 * ranks * chunks.iter().sum::<u64>();
        tape.run(Prim::AllGather, pointwise(Pointwise::Copy, compute_dtype, bytes));
        // In forward the next group's copy-out lets go of it.
        let spent =
            if forward { core::mem::replace(&mut self.all_gather_state, result) } else { result };
        tape.release_storage(spent);
    }

    /// `FSDPParamGroup._to_sharded`.
    fn reshard(&mut self, tape: &mut Tape, group: usize) {
        for storage in self.groups[group].whole.take().into_iter().flatten() {
            tape.release_storage(storage);
        }
    }

    // ---- forward ----

    fn pre_forward(&mut self, tape: &mut Tape, group: usize) {
        self.groups[group].state = State::Forward;
        self.unshard(tape, group);
        self.wait_for_unshard(tape, group);
    }

    fn post_forward(&mut self, tape: &mut Tape, group: usize) {
        if self.options.reshard_after_forward {
            self.reshard(tape, group);
        }
        let index = self.post_forward_order.len();
        self.post_forward_order.push(group);
        self.groups[group].post_forward_indices.push(index);
        self.groups[group].state = State::Idle;
    }

    fn call_before(&mut self, tape: &Tape, call: Call) {
        if let Some(node) = tape.last_node() {
            self.calls.entry(node).or_default().push(call);
        }
    }

    // ---- backward ----

    fn pre_backward(&mut self, tape: &mut Tape, group: usize) {
        if self.groups[group].state == State::PreBackward {
            return;
        }
        self.groups[group].state = State::PreBackward;
        self.unshard(tape, group);
        self.wait_for_unshard(tape, group);
        // `_backward_prefetch`: the group that ran before this one in forward.
        let index = self.groups[group].post_forward_indices.pop();
        if let Some(before) = index.and_then(|index| index.checked_sub(1)) {
            self.unshard(tape, self.post_forward_order[before]);
        }
    }

    fn post_backward(&mut self, tape: &mut Tape, group: usize) {
        self.groups[group].state = State::PostBackward;
        if self.options.flat {
            self.fill_up(tape, group);
        }
        if self.pass + 1 < self.options.passes {
            // `accumulate_unsharded_grad_if_needed`: they wait, whole, for the next pass.
            self.reshard(tape, group);
            return;
        }
        let with_grad: Vec<(ParamId, StorageId)> = self.groups[group]
            .params
            .iter()
            .filter_map(|&id| Some((id, tape.param_mut(id).whole_grad.take()?)))
            .collect();
        self.reshard(tape, group);
        if with_grad.is_empty() {
            return;
        }
        let previous = core::mem::replace(&mut self.reduce_scatter_state, StorageId::NONE);
        tape.release_storage(previous);
        self.foreach_reduce(tape, &with_grad);
    }

    /// The gradient of a flat parameter, which its views' backward makes of theirs, has zeros where a
    /// parameter has none (`FlatParamHandle._get_unflat_views_unaligned`: `torch.split`).
    fn fill_up(&self, tape: &mut Tape, group: usize) {
        let params = &self.groups[group].params;
        if params.iter().all(|&id| tape.param(id).whole_grad.is_none()) {
            return;
        }
        tape.enter(Block::Parallel, "flat_param.grad");
        for &id in params {
            let param = tape.param(id);
            if param.whole_grad.is_none() {
                let bytes = param.shape.elements() * self.options.compute_dtype.bytes();
                let zeros = tape.allocate(bytes, Prim::Accumulate);
                tape.own(zeros, id, Category::Gradients);
                tape.param_mut(id).whole_grad = Some(zeros);
            }
        }
    }

    /// `foreach_reduce`.
    fn foreach_reduce(&mut self, tape: &mut Tape, with_grad: &[(ParamId, StorageId)]) {
        let FsdpOptions { ranks, compute_dtype, .. } = self.options;
        let reduce_dtype = self.options.reduce_dtype.unwrap_or(compute_dtype);
        tape.enter(Block::Parallel, "reduce_scatter");
        let elements = with_grad.iter().map(|&(id, _)| tape.param(id).local_elements());
        let chunks: Vec<u64> = elements.map(|count| count * reduce_dtype.bytes()).collect();
        let part: u64 = chunks.iter().sum();
        let input = tape.allocate(part * ranks, Prim::ReduceScatter);
        tape.scratch(chunk_cat_metadata(&chunks), Prim::ReduceScatter);
        tape.run(Prim::ReduceScatter, pointwise(Pointwise::Widen, compute_dtype, 2 * part * ranks));
        // `unsharded_grads.clear()` lets go from the end; a loop's name still holds the last one.
        let mut grads = with_grad.iter().map(|&(_, grad)| grad).rev();
        let last = grads.next();
        grads.for_each(|grad| tape.release_storage(grad));
        tape.set_stream(REDUCE_STREAM);
        let output = self.reduced(tape, part, reduce_dtype);
        tape.set_stream(0);
        for &(id, _) in with_grad {
            if tape.param(id).trainable {
                self.take_over(tape, id, output);
            }
        }
        if let Some(last) = last {
            tape.release_storage(last);
        }
        tape.release_storage(output);
        self.reduce_scatter_state = input;
    }

    /// The rank's part of the sum, in the element type of its parameters.
    fn reduced(&self, tape: &mut Tape, part: u64, reduce_dtype: DType) -> StorageId {
        let shard_dtype = self.options.shard_dtype;
        let output = tape.allocate(part, Prim::ReduceScatter);
        if reduce_dtype == shard_dtype {
            return output;
        }
        let bytes = part / reduce_dtype.bytes() * shard_dtype.bytes();
        let cast = tape.allocate(bytes, Prim::ReduceScatter);
        tape.run(Prim::ReduceScatter, pointwise(Pointwise::Widen, reduce_dtype, part + bytes));
        tape.release_storage(output);
        cast
    }

    /// A part of the reduced gradients becomes a parameter's gradient, is added to it, or goes to
    /// host memory.
    fn take_over(&self, tape: &mut Tape, id: ParamId, reduced: StorageId) {
        if self.options.cpu_offload {
            return;
        }
        let param = tape.param(id);
        if param.grad.is_some() {
            let dtype = param.local_dtype();
            let bytes = 3 * param.local_elements() * dtype.bytes();
            tape.run(Prim::Accumulate, pointwise(Pointwise::Binary, dtype, bytes));
            return;
        }
        tape.retain_storage(reduced);
        tape.own(reduced, id, Category::Gradients);
        tape.param_mut(id).grad = Some(reduced);
    }
}

impl Hooks for Fsdp {
    fn before_model(&mut self, tape: &mut Tape) {
        self.pre_forward(tape, ROOT);
    }

    fn after_model(&mut self, tape: &mut Tape) {
        self.post_forward(tape, ROOT);
        let last = core::mem::replace(&mut self.all_gather_state, StorageId::NONE);
        tape.release_storage(last);
        // Of its outputs the loss gets its gradient first.
        self.call_before(tape, Call::PreBackward(ROOT));
    }

    fn before_layer(&mut self, tape: &mut Tape, layer: u32) {
        let Some(&group) = self.of_layer.get(&layer) else { return };
        within(tape, |tape| self.pre_forward(tape, group));
        self.call_before(tape, Call::PostBackward(group));
    }

    fn after_layer(&mut self, tape: &mut Tape, layer: u32) {
        let Some(&group) = self.of_layer.get(&layer) else { return };
        within(tape, |tape| self.post_forward(tape, group));
        self.call_before(tape, Call::PreBackward(group));
    }

    fn before_node(&mut self, tape: &mut Tape, node: NodeId) {
        let Some(mut calls) = self.calls.remove(&node) else { return };
        // What lies between the node and the next layer comes before the hook on its output.
        order::sort(&mut calls);
        within(tape, |tape| {
            for call in calls {
                match call {
                    Call::PostBackward(group) => self.post_backward(tape, group),
                    Call::PreBackward(group) => self.pre_backward(tape, group),
                }
            }
        });
    }

    /// `_root_post_backward_final_callback`.
    fn after_backward(&mut self, tape: &mut Tape) {
        within(tape, |tape| {
            for group in 0..self.groups.len() {
                if self.groups[group].state != State::PostBackward {
                    self.post_backward(tape, group);
                }
                self.groups[group].state = State::Idle;
                self.groups[group].post_forward_indices.clear();
            }
            let last = core::mem::replace(&mut self.reduce_scatter_state, StorageId::NONE);
            tape.release_storage(last);
        });
        self.pass = (self.pass + 1) % self.options.passes.max(1);
        self.post_forward_order.clear();
        self.calls.clear();
    }
}

/// Runs a hook and goes back to where the tape was.
fn within(tape: &mut Tape, hook: impl FnOnce(&mut Tape)) {
    let scope = tape.scope();
    tape.set_scope(Scope { backward: false, ..scope });
    hook(tape);
    tape.set_scope(scope);
}

/// Parameters by their modules, each module after those inside it (`_get_managed_modules`).
fn children_first(tape: &Tape, params: &[ParamId]) -> Vec<ParamId> {
    let module =
        |id: ParamId| tape.param(id).name.rsplit_once('.').map_or("", |(module, _)| module);
    let last_inside = |id: ParamId| {
        let path = module(id);
        let inside = |other: &ParamId| {
            let rest = module(*other).strip_prefix(path);
            rest.is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('.'))
        };
        params.iter().rposition(inside)
    };
    let mut keyed: Vec<_> = params
        .iter()
        .map(|&id| (last_inside(id), core::cmp::Reverse(module(id).matches('.').count()), id))
        .collect();
    order::sort(&mut keyed);
    keyed.into_iter().map(|(_, _, id)| id).collect()
}
