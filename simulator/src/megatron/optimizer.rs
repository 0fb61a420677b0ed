//! Megatron-core's optimizers in bf16: fp32 copies of what the rank owns, `torch.optim.AdamW` over
//! them, and clipping by the norm of all.
//!
//! Source: megatron-core 0.19.2, `optimizer/__init__.py`, `optimizer/distrib_optimizer.py`,
//! `optimizer/optimizer.py`, `optimizer/clip_grads.py`, and the replacements of Apex's kernels in
//! `utils.py`; PyTorch 2.11, `torch/optim/adam.py`.

use crate::clock::{Reduce, Update};
use crate::primitives::{full_reduction, update};
use crate::tape::{Block, ParamId, Prim, StorageId, Tape};
use crate::tensor::DType;
use crate::wire::timeline::{Category, PhaseKind};

/// An optimizer over parameters of one kind: dense ones, or experts.
#[derive(Debug)]
pub(super) struct Optimizer {
    /// With weight decay, and without (biases and norms): elements that this rank owns.
    groups: [Vec<(ParamId, u64)>; 2],
    /// Persistent bytes, numbered anew after each run.
    pub(super) storages: Vec<StorageId>,
    has_states: bool,
    /// Transformer Engine's `FusedAdam` and multi-tensor kernels: no temporaries.
    fused: bool,
}

impl Optimizer {
    /// `DistributedOptimizer` or `Float16OptimizerWithFloat16Params` over shards: the fp32 copies.
    pub(super) fn new(
        tape: &mut Tape,
        shards: impl Iterator<Item = (ParamId, u64)>,
        fused: bool,
    ) -> Self {
        let mut groups = [Vec::new(), Vec::new()];
        for (id, elements) in shards {
            let decays = 1 < tape.param(id).shape.sizes().len();
            groups[usize::from(!decays)].push((id, elements));
        }
        tape.enter(Block::Optimizer, "main_params");
        // `_scale_one`.
        let mut storages = vec![tape.allocate(4, Prim::GradScaler)];
        for &(id, elements) in groups.iter().flatten() {
            tape.enter_layer(tape.param(id).layer);
            // `shard_model_param.clone().float()`.
            let clone = tape.allocate(2 * elements, Prim::Copy);
            let main = tape.allocate(4 * elements, Prim::State);
            tape.own(main, id, Category::OptimizerStates);
            tape.release_storage(clone);
            storages.push(main);
        }
        tape.enter_layer(None);
        Self { groups, storages, has_states: false, fused }
    }

    fn sizes(&self) -> impl Iterator<Item = u64> + use<'_> {
        self.groups.iter().flatten().map(|&(_, elements)| elements)
    }

    /// `self.optimizer.step()`: states at the first step, then a root of the second moments a group.
    pub(super) fn step(&mut self, tape: &mut Tape) {
        for group in &self.groups {
            if !self.has_states {
                tape.enter(Block::Optimizer, "state");
                for &(id, elements) in group {
                    tape.enter_layer(tape.param(id).layer);
                    for _ in 0..2 {
                        let state = tape.allocate(4 * elements, Prim::State);
                        tape.own(state, id, Category::OptimizerStates);
                        self.storages.push(state);
                    }
                }
                tape.enter_layer(None);
            }
            tape.enter(Block::Optimizer, "step");
            let with_roots = if self.fused { &[][..] } else { group.as_slice() };
            let roots: Vec<StorageId> = with_roots
                .iter()
                .map(|&(_, elements)| tape.allocate(4 * elements, Prim::Update))
                .collect();
            let bytes = group.iter().map(|&(_, elements)| 4 * elements).sum::<u64>();
            let tensors = group.len() as u64;
            let kind = if self.fused { Update::Fused } else { Update::Foreach };
            tape.run(Prim::Update, update(kind, tensors, DType::F32, 18 * bytes));
            for root in roots.into_iter().rev() {
                tape.release_storage(root);
            }
        }
        self.has_states = true;
    }

    /// `clip_grad_by_total_norm_fp32`: each gradient scaled into a temporary and copied back. The norm
    /// is taken to be above the limit.
    pub(super) fn clip(&self, tape: &mut Tape) {
        tape.enter(Block::Clip, "clip_grad_by_total_norm_fp32");
        let overflow = tape.allocate(4, Prim::ClipGrad);
        for elements in self.sizes() {
            if !self.fused {
                tape.scratch(4 * elements, Prim::ClipGrad);
            }
            tape.run(Prim::ClipGrad, update(Update::Foreach, 1, DType::F32, 16 * elements));
        }
        tape.release_storage(overflow);
    }
}

/// `get_grad_norm_fp32` over the gradients of several optimizers: a norm each, read one by one.
///
/// `copy` is a parameter that another stage counts (`param_is_not_shared`).
pub(super) fn grad_norm(tape: &mut Tape, optimizers: &[Optimizer], copy: Option<ParamId>) {
    tape.phase(PhaseKind::Clip, 0);
    tape.enter(Block::Clip, "get_grad_norm_fp32");
    let zeros = tape.allocate(4, Prim::ClipGrad);
    let overflow = tape.allocate(4, Prim::ClipGrad);
    let shards = optimizers.iter().flat_map(|optimizer| optimizer.groups.iter().flatten());
    let norms: Vec<StorageId> = shards
        .filter(|(id, _)| Some(*id) != copy)
        .map(|&(_, elements)| {
            let norm = tape.allocate(4, Prim::ClipGrad);
            tape.full_reduction_scratch(elements);
            tape.run(Prim::ClipGrad, full_reduction(Reduce::Last, elements, DType::F32));
            norm
        })
        .collect();
    let norm = tape.allocate(4, Prim::ClipGrad);
    for each in norms.into_iter().rev() {
        tape.release_storage(each);
    }
    let squared = tape.allocate(4, Prim::ClipGrad);
    for storage in [zeros, squared, overflow, norm] {
        tape.release_storage(storage);
    }
}
