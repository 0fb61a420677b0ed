//! Clipping, the optimizer's update, `zero_grad`.
//!
//! Sources: PyTorch 2.11, `torch/optim/adam.py`, `sgd.py`, `torch/nn/utils/clip_grad.py`,
//! `aten/src/ATen/native/cuda/ForeachReduceOp.cu`.

use crate::clock::{Pointwise, Update};
use crate::primitives::{pointwise, update};
use crate::tape::{Block, ParamId, Prim, StorageId, Tape};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::{Implementation, OptimizerName, Precision};
use crate::wire::timeline::{Category, PhaseKind};

use super::Process;
use super::scaler::{Gradients, Scaler};

/// Elements of one chunk of a multi-tensor kernel (`kChunkSize` in `MultiTensorApply.cuh`).
const CHUNK_ELEMENTS: u64 = 65_536;

impl Process<'_> {
    pub(super) fn update(&mut self) {
        if self.scenario.optimizer.clip_grad_norm {
            self.clip();
        }
        self.tape.phase(PhaseKind::Optimizer, 0);
        let trainable = trainable(&self.tape);
        let found_inf = (self.scenario.precision == Precision::AmpFp16).then(|| {
            let bytes = trainable.iter().map(|&id| gradient_bytes(&self.tape, id)).sum();
            let gradients = Gradients { n: trainable.len() as u64, bytes };
            match self.scenario.optimizer.implementation {
                Implementation::Fused => Scaler::check(&mut self.tape, &gradients),
                _ => Scaler::unscale(&mut self.tape, &gradients),
            }
        });
        let by_scaler = self.scenario.optimizer.implementation != Implementation::Fused;
        if found_inf.is_some() && by_scaler && 0 < self.skips {
            // `_maybe_opt_step` leaves the optimizer out when a gradient is not finite.
            self.skips -= 1;
            for tensor in found_inf.into_iter().flatten() {
                self.tape.release(tensor);
            }
            return self.zero_grad(&trainable);
        }
        self.tape.enter(Block::Optimizer, "state");
        for &id in &trainable {
            self.create_states(id);
        }
        self.tape.enter_layer(None);
        self.tape.enter(Block::Optimizer, "step");
        match (self.scenario.optimizer.name, self.scenario.optimizer.implementation) {
            (OptimizerName::Adamw, Implementation::Foreach) => {
                foreach_adamw(&mut self.tape, &trainable);
            }
            (OptimizerName::Adamw, Implementation::Loop) => loop_adamw(&mut self.tape, &trainable),
            (OptimizerName::Adamw, Implementation::Fused) => {
                in_place(&mut self.tape, &trainable, Update::Fused, 7);
            }
            (OptimizerName::Sgd, _) => in_place(&mut self.tape, &trainable, Update::Foreach, 5),
        }
        for tensor in found_inf.into_iter().flatten() {
            self.tape.release(tensor);
        }
        self.zero_grad(&trainable);
    }

    /// States are made at the first step: two for `AdamW`, one for SGD with momentum (a copy of the
    /// gradient); the fused form keeps its step count on the GPU.
    fn create_states(&mut self, id: ParamId) {
        let optimizer = &self.scenario.optimizer;
        if !self.tape.param(id).states.is_empty() {
            return;
        }
        let bytes = gradient_bytes(&self.tape, id);
        let sizes: &[u64] = match (optimizer.name, optimizer.implementation) {
            (OptimizerName::Adamw, Implementation::Fused) => &[4, bytes, bytes],
            (OptimizerName::Adamw, _) => &[bytes, bytes],
            (OptimizerName::Sgd, _) if optimizer.momentum.is_some_and(|m| 0.0 < m) => &[bytes],
            (OptimizerName::Sgd, _) => &[],
        };
        self.tape.enter_layer(self.tape.param(id).layer);
        for &size in sizes {
            let state = self.tape.allocate(size, Prim::State);
            self.tape.own(state, id, Category::OptimizerStates);
            self.tape.param_mut(id).states.push(state);
        }
        let dtype = self.tape.param(id).dtype;
        self.tape.run(Prim::State, pointwise(Pointwise::Unary, dtype, bytes));
    }

    fn zero_grad(&mut self, trainable: &[ParamId]) {
        let tape = &mut self.tape;
        tape.phase(PhaseKind::ZeroGrad, 0);
        tape.enter(Block::Optimizer, "zero_grad");
        if !self.scenario.optimizer.set_to_none {
            return in_place(tape, trainable, Update::Foreach, 1);
        }
        for &id in trainable {
            if let Some(grad) = tape.param_mut(id).grad.take() {
                tape.enter_layer(tape.param(id).layer);
                tape.release_storage(grad);
            }
        }
        tape.enter_layer(None);
    }

    /// `clip_grad_norm_`: one norm per gradient (a buffer of partial sums per tensor and chunk), their
    /// stack, its norm, the coefficient; the gradients are scaled in place.
    fn clip(&mut self) {
        let trainable = trainable(&self.tape);
        let tape = &mut self.tape;
        tape.phase(PhaseKind::Clip, 0);
        tape.enter(Block::Clip, "clip_grad_norm_");
        let elements = |tape: &Tape, id| tape.param(id).shape.elements();
        let chunks = trainable
            .iter()
            .map(|&id| elements(tape, id).div_ceil(CHUNK_ELEMENTS))
            .max()
            .unwrap_or(0);
        let n = trainable.len() as u64;
        let dtype = trainable.first().map_or(DType::F32, |&id| tape.param(id).dtype);
        let partial = tape.allocate(n * chunks * 4, Prim::ClipGrad);
        let norms = each(tape, &trainable, |tape, _| tape.allocate(dtype.bytes(), Prim::ClipGrad));
        let bytes: u64 = trainable.iter().map(|&id| gradient_bytes(tape, id)).sum();
        tape.run(Prim::ClipGrad, update(Update::Foreach, n, dtype, bytes));
        tape.release_storage(partial);
        let stacked = tape.empty(Shape::new([n]), dtype, Prim::ClipGrad);
        let total = tape.helper(Shape::scalar(), dtype, Prim::ClipGrad);
        tape.release(stacked);
        release_each(tape, trainable.iter().zip(norms));
        let scalar = |tape: &mut Tape| tape.helper(Shape::scalar(), dtype, Prim::ClipGrad);
        // `max_norm / (total + 1e-6)` is a reciprocal times a number.
        let [sum, reciprocal, coefficient] = [scalar(tape), scalar(tape), scalar(tape)];
        tape.release(reciprocal);
        tape.release(sum);
        let clamped = scalar(tape);
        tape.run(Prim::ClipGrad, update(Update::Foreach, n, dtype, 2 * bytes));
        for tensor in [coefficient, clamped, total] {
            tape.release(tensor);
        }
    }
}

fn trainable(tape: &Tape) -> Vec<ParamId> {
    (0..tape.n_params()).map(ParamId::new).filter(|&id| tape.param(id).grad.is_some()).collect()
}

fn gradient_bytes(tape: &Tape, id: ParamId) -> u64 {
    let param = tape.param(id);
    param.shape.elements() * param.dtype.bytes()
}

/// `_multi_tensor_adam`: everything in place but the square root of the second moments.
fn foreach_adamw(tape: &mut Tape, params: &[ParamId]) {
    let roots =
        each(tape, params, |tape, id| tape.allocate(gradient_bytes(tape, id), Prim::Update));
    in_place(tape, params, Update::Foreach, 18);
    release_each(tape, params.iter().zip(roots).rev());
}

/// One storage for each parameter, made within the parameter's layer.
fn each(
    tape: &mut Tape,
    params: &[ParamId],
    make: impl Fn(&mut Tape, ParamId) -> StorageId,
) -> Vec<StorageId> {
    let make = |&id: &ParamId| {
        tape.enter_layer(tape.param(id).layer);
        make(tape, id)
    };
    let storages = params.iter().map(make).collect();
    tape.enter_layer(None);
    storages
}

fn release_each<'a>(tape: &mut Tape, storages: impl Iterator<Item = (&'a ParamId, StorageId)>) {
    for (&id, storage) in storages {
        tape.enter_layer(tape.param(id).layer);
        tape.release_storage(storage);
    }
    tape.enter_layer(None);
}

/// `_single_tensor_adam`: `denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps)`; the name
/// holds one parameter's denominator until the next one's is made.
fn loop_adamw(tape: &mut Tape, params: &[ParamId]) {
    let mut previous = StorageId::NONE;
    for &id in params {
        tape.enter_layer(tape.param(id).layer);
        let bytes = gradient_bytes(tape, id);
        let root = tape.allocate(bytes, Prim::Update);
        let denominator = tape.allocate(bytes, Prim::Update);
        tape.release_storage(root);
        tape.release_storage(core::mem::replace(&mut previous, denominator));
        let dtype = tape.param(id).dtype;
        for _ in 0..8 {
            tape.run(Prim::Update, update(Update::Single, 1, dtype, 2 * bytes));
        }
    }
    tape.enter_layer(None);
    tape.release_storage(previous);
}

/// Multi-tensor kernels that pass `passes` times over tensors of the parameters' size.
fn in_place(tape: &mut Tape, params: &[ParamId], kind: Update, passes: u64) {
    let Some(&first) = params.first() else { return };
    let bytes: u64 = params.iter().map(|&id| gradient_bytes(tape, id)).sum();
    let dtype = tape.param(first).dtype;
    tape.run(Prim::Update, update(kind, params.len() as u64, dtype, passes * bytes));
}
