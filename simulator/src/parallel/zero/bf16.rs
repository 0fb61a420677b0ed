//! Stage 1 over bf16 weights whose gradients are added up in fp32 (`BF16_Optimizer`): a whole fp32
//! gradient on every rank, beside the bf16 ones.
//!
//! # Source
//!
//! deepspeed 0.19.8, `runtime/bf16_optimizer.py`; `DeepSpeedEngine.allreduce_bucket`.

use crate::clock::{Pointwise, Update};
use crate::primitives::{pointwise, update};
use crate::tape::{Block, Hooks, ParamId, Prim, StorageId, Tape};
use crate::tensor::DType;
use crate::wire::scenario::Optimizer;
use crate::wire::timeline::{Category, PhaseKind};

use super::step::Master;
use super::{ZeroOptions, elements, flatten, partition, scalars, trained};

/// The hooks.
#[derive(Debug)]
pub(super) struct Bf16Optimizer {
    options: ZeroOptions,
    params: Vec<ParamId>,
    flat: StorageId,
    total: u64,
    /// `fp32_groups_gradients_flat`.
    gradients: StorageId,
    master: Master,
    micro_batch: u64,
}

impl Bf16Optimizer {
    /// Flattens the weights; the rank's part in fp32; the gradient of all in fp32.
    pub(super) fn new(tape: &mut Tape, options: ZeroOptions) -> Self {
        tape.enter(Block::Parallel, "BF16_Optimizer");
        let params = trained(tape);
        let (flat, total) = flatten(tape, &params, options.ranks, options.dtype);
        let master = partition::master(tape, &options, total / options.ranks);
        let gradients = tape.allocate(4 * total, Prim::Accumulate);
        tape.categorise(gradients, Category::Gradients);
        Self { options, params, flat, total, gradients, master, micro_batch: 0 }
    }

    /// `get_global_norm_of_tensors`: the gradients are in fp32 already.
    fn norm(&self, tape: &mut Tape) -> StorageId {
        let norms: Vec<StorageId> =
            self.params.iter().map(|_| tape.allocate(4, Prim::ClipGrad)).collect();
        let n = norms.len() as u64;
        let bytes = 4 * self.total;
        tape.run(Prim::ClipGrad, update(Update::Foreach, n, DType::F32, bytes));
        let stack = tape.allocate(4 * n, Prim::ClipGrad);
        let powers = tape.allocate(4 * n, Prim::ClipGrad);
        tape.release_storage(stack);
        let sum = tape.allocate(4, Prim::ClipGrad);
        let root = tape.allocate(4, Prim::ClipGrad);
        scalars::mask_invalid(tape);
        for storage in [sum, powers].into_iter().chain(norms) {
            tape.release_storage(storage);
        }
        root
    }
}

impl Hooks for Bf16Optimizer {
    /// `update_hp_grads`, then, at the last micro-batch, one reduction of everything in bf16.
    fn backward_returned(&mut self, tape: &mut Tape) {
        tape.enter(Block::Parallel, "update_hp_grads");
        for &id in &self.params {
            if tape.param(id).grad.is_some() {
                let bytes = 4 * elements(tape, id);
                tape.scratch(bytes, Prim::Accumulate);
                tape.run(Prim::Accumulate, pointwise(Pointwise::Binary, DType::F32, 3 * bytes));
            }
        }
        self.micro_batch += 1;
        if self.micro_batch == self.options.micro_batches {
            let bytes = self.total * self.options.dtype.bytes();
            tape.scratch(bytes, Prim::AllReduce);
            tape.run(Prim::AllReduce, pointwise(Pointwise::Narrow, DType::F32, 6 * bytes));
        }
    }

    fn update(&mut self, tape: &mut Tape, optimizer: &Optimizer) -> bool {
        self.micro_batch = 0;
        tape.phase(PhaseKind::Optimizer, 0);
        tape.enter(Block::Clip, "get_global_norm_of_tensors");
        let norm = self.norm(tape);
        if optimizer.clip_grad_norm {
            let sum = tape.allocate(4, Prim::ClipGrad);
            tape.scratch(4, Prim::ClipGrad);
            tape.scratch(1, Prim::ClipGrad);
            tape.release_storage(sum);
        }
        self.master.step(tape, optimizer);
        let bytes = 3 * self.master.elements * self.options.dtype.bytes();
        tape.run(Prim::Update, pointwise(Pointwise::Narrow, DType::F32, bytes));
        tape.release_storage(norm);
        tape.phase(PhaseKind::ZeroGrad, 0);
        tape.enter(Block::Optimizer, "zero_grad");
        for &id in &self.params {
            if let Some(grad) = tape.param_mut(id).grad.take() {
                tape.enter_layer(tape.param(id).layer);
                tape.release_storage(grad);
            }
        }
        tape.enter_layer(None);
        true
    }

    fn storages(&mut self) -> Vec<&mut StorageId> {
        let own = [&mut self.flat, &mut self.gradients];
        own.into_iter().chain(self.master.storages()).collect()
    }
}
