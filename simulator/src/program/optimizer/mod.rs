//! Clipping, the optimizer's update, `zero_grad`.
//!
//! Sources: PyTorch 2.11, `torch/optim/adam.py`, `sgd.py`, `rmsprop.py`, `torch/nn/utils/clip_grad.py`,
//! `aten/src/ATen/native/cuda/ForeachReduceOp.cu`.

mod adafactor;
mod in_backward;
mod muon;
mod states;

use crate::clock::{Update, Work};
use crate::primitives::update;
use crate::tape::{Block, ParamId, Prim, StorageId, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::{Implementation, Optimizer, OptimizerName, Precision};
use crate::wire::timeline::PhaseKind;

use super::Process;
use super::scaler::{Gradients, Scaler};

pub(super) use in_backward::InBackward;

/// Elements of one chunk of a multi-tensor kernel (`kChunkSize` in `MultiTensorApply.cuh`).
const CHUNK_ELEMENTS: u64 = 65_536;

impl Process<'_> {
    pub(super) fn update(&mut self) {
        let mut updated = false;
        let optimizer = &self.scenario.optimizer;
        self.tape.hook(|hooks, tape| updated = hooks.update(tape, optimizer));
        if updated {
            return;
        }
        if self.scenario.optimizer.clip_grad_norm {
            self.clip();
        }
        self.tape.phase(PhaseKind::Optimizer, 0);
        let trainable = trainable(&self.tape);
        let found_inf = (self.scenario.precision == Precision::AmpFp16).then(|| {
            let bytes = trainable.iter().map(|&id| gradient_bytes(&self.tape, id)).sum();
            let sharded = trainable.first().is_some_and(|&id| self.tape.param(id).shard.is_some());
            let gradients = Gradients { n: trainable.len() as u64, bytes, sharded };
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
            return self.end_step(&trainable);
        }
        let groups = groups(&self.tape, &trainable);
        for group in &groups {
            step(&mut self.tape, &self.scenario.optimizer, group);
        }
        for tensor in found_inf.into_iter().flatten() {
            self.tape.release(tensor);
        }
        self.end_step(&groups.concat());
    }

    fn end_step(&mut self, trainable: &[ParamId]) {
        self.tape.phase(PhaseKind::ZeroGrad, 0);
        zero_grad(&mut self.tape, trainable, self.scenario.optimizer.set_to_none);
    }

    /// `clip_grad_norm_`: one norm per gradient (a buffer of partial sums per tensor and chunk), their
    /// stack, its norm, the coefficient; the gradients are scaled in place.
    fn clip(&mut self) {
        let trainable = trainable(&self.tape);
        let tape = &mut self.tape;
        tape.phase(PhaseKind::Clip, 0);
        if trainable.is_empty() {
            // Gradients in host memory are clipped there.
            return;
        }
        tape.enter(Block::Clip, "clip_grad_norm_");
        let elements = |tape: &Tape, id| tape.param(id).local_elements();
        let chunks = trainable
            .iter()
            .map(|&id| elements(tape, id).div_ceil(CHUNK_ELEMENTS))
            .max()
            .unwrap_or(0);
        let n = trainable.len() as u64;
        let dtype = trainable.first().map_or(DType::F32, |&id| tape.param(id).local_dtype());
        let partial = tape.allocate(n * chunks * 4, Prim::ClipGrad);
        let norms = each(tape, &trainable, |tape, _| tape.allocate(dtype.bytes(), Prim::ClipGrad));
        let bytes: u64 = trainable.iter().map(|&id| gradient_bytes(tape, id)).sum();
        tape.run(Prim::ClipGrad, update(Update::Foreach, n, dtype, bytes));
        tape.release_storage(partial);
        let total = total_norm(tape, &trainable, norms, dtype);
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

/// `optimizer.step()` of one of its `param_groups`.
fn step(tape: &mut Tape, optimizer: &Optimizer, params: &[ParamId]) {
    match (optimizer.name, optimizer.implementation) {
        (OptimizerName::Lion, _) => return lion(tape, optimizer, params),
        (OptimizerName::Muon, _) => return muon(tape, optimizer, params),
        (OptimizerName::Adamw8bit, _) => return adamw8bit(tape, optimizer, params),
        _ => create_states(tape, optimizer, params),
    }
    match (optimizer.name, optimizer.implementation) {
        (OptimizerName::Adamw, Implementation::Foreach) => foreach_roots(tape, params, 18),
        (OptimizerName::Adamw, Implementation::Loop) => loop_adamw(tape, params),
        (OptimizerName::Adamw, Implementation::Fused) => {
            in_place(tape, params, Update::Fused, 7);
        }
        (OptimizerName::Rmsprop, Implementation::Foreach) => foreach_roots(tape, params, 14),
        (OptimizerName::Rmsprop, _) => loop_rmsprop(tape, params),
        (OptimizerName::Adafactor, Implementation::Foreach) => adafactor::foreach(tape, params),
        (OptimizerName::Adafactor, _) => adafactor::one_by_one(tape, params),
        _ => in_place(tape, params, Update::Foreach, 5),
    }
}

/// States are made at the first step, before any update.
fn create_states(tape: &mut Tape, optimizer: &Optimizer, params: &[ParamId]) {
    tape.enter(Block::Optimizer, "state");
    for &id in params {
        states::create(tape, optimizer, id, false);
    }
    tape.enter_layer(None);
    tape.enter(Block::Optimizer, "step");
}

/// `Lion` of lion-pytorch (`update_fn`): one parameter after the other, a copy of its momentum, and
/// the copy with the gradient added. Each parameter's state is made just before.
fn lion(tape: &mut Tape, optimizer: &Optimizer, params: &[ParamId]) {
    for &id in params {
        create_states(tape, optimizer, &[id]);
        tape.enter_layer(tape.param(id).layer);
        let (dtype, bytes) = (tape.param(id).local_dtype(), gradient_bytes(tape, id));
        let copy = tape.allocate(bytes, Prim::Update);
        let sum = tape.allocate(bytes, Prim::Update);
        tape.release_storage(copy);
        for _ in 0..8 {
            tape.run(Prim::Update, update(Update::Single, 1, dtype, 2 * bytes));
        }
        tape.release_storage(sum);
    }
    tape.enter_layer(None);
}

/// Muon takes matrices alone, and is meant for those of the layers: two optimizers, one after the
/// other.
fn muon(tape: &mut Tape, optimizer: &Optimizer, params: &[ParamId]) {
    let (matrices, others): (Vec<ParamId>, Vec<ParamId>) =
        params.iter().copied().partition(|&id| is_matrix_of_layer(tape, id));
    create_states(tape, optimizer, &matrices);
    muon::one_by_one(tape, &matrices);
    create_states(tape, optimizer, &others);
    foreach_roots(tape, &others, 18);
}

/// `AdamW8bit` of bitsandbytes: one kernel for each parameter, whose states are made just before
/// (`Optimizer8bit.step`), and a wait for it.
fn adamw8bit(tape: &mut Tape, optimizer: &Optimizer, params: &[ParamId]) {
    let mut has_maps = params.iter().any(|&id| 2 < tape.param(id).states.len());
    for &id in params {
        tape.enter(Block::Optimizer, "state");
        states::create(tape, optimizer, id, !has_maps);
        has_maps |= 2 < tape.param(id).states.len();
        tape.enter(Block::Optimizer, "step");
        let (dtype, bytes) = (tape.param(id).local_dtype(), gradient_bytes(tape, id));
        tape.run(Prim::Update, update(Update::Single, 1, dtype, 5 * bytes));
        tape.run(Prim::Update, Work::synchronize());
    }
    tape.enter_layer(None);
}

/// `optimizer.zero_grad(set_to_none)`.
fn zero_grad(tape: &mut Tape, trainable: &[ParamId], set_to_none: bool) {
    tape.enter(Block::Optimizer, "zero_grad");
    if !set_to_none {
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

/// The norm of the norms. Norms of shards are first summed over the ranks: to the power of two, reduced
/// into a tensor of their own, and back (`_NormPartial` in `torch/distributed/tensor/_ops/_math_ops.py`).
fn total_norm(tape: &mut Tape, params: &[ParamId], norms: Vec<StorageId>, dtype: DType) -> Tensor {
    let sharded = params.first().is_some_and(|&id| tape.param(id).shard.is_some());
    let all = Shape::new([params.len() as u64]);
    let stacked = tape.empty(all, dtype, Prim::ClipGrad);
    if !sharded {
        let total = tape.helper(Shape::scalar(), dtype, Prim::ClipGrad);
        tape.release(stacked);
        release_each(tape, params.iter().zip(norms));
        return total;
    }
    let [squares, sums, roots] = core::array::from_fn(|_| tape.helper(all, dtype, Prim::ClipGrad));
    tape.release(squares);
    tape.release(sums);
    let total = tape.helper(Shape::scalar(), dtype, Prim::ClipGrad);
    tape.release(roots);
    tape.release(stacked);
    release_each(tape, params.iter().zip(norms).rev());
    total
}

fn trainable(tape: &Tape) -> Vec<ParamId> {
    (0..tape.n_params())
        .map(ParamId::new)
        .filter(|&id| tape.param(id).grad.is_some() && !tape.param(id).unoptimized)
        .collect()
}

/// The optimizer's groups: multi-tensor operations take either parameters that ranks share or plain
/// ones, so that the shared ones come first, in a group of their own.
fn groups(tape: &Tape, trainable: &[ParamId]) -> Vec<Vec<ParamId>> {
    let (shared, plain): (Vec<_>, Vec<_>) =
        trainable.iter().partition(|&&id| tape.param(id).split.is_some());
    [shared, plain].into_iter().filter(|group| !group.is_empty()).collect()
}

fn gradient_bytes(tape: &Tape, id: ParamId) -> u64 {
    let param = tape.param(id);
    param.local_elements() * param.local_dtype().bytes()
}

/// Whether Muon takes it: a matrix of a layer.
fn is_matrix_of_layer(tape: &Tape, id: ParamId) -> bool {
    let param = tape.param(id);
    param.layer.is_some() && param.shape.sizes().len() == 2
}

/// `_multi_tensor_adam` and `_multi_tensor_rmsprop`: everything in place but the square root of the
/// second moments.
fn foreach_roots(tape: &mut Tape, params: &[ParamId], passes: u64) {
    let roots =
        each(tape, params, |tape, id| tape.allocate(gradient_bytes(tape, id), Prim::Update));
    in_place(tape, params, Update::Foreach, passes);
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
        let dtype = tape.param(id).local_dtype();
        for _ in 0..8 {
            tape.run(Prim::Update, update(Update::Single, 1, dtype, 2 * bytes));
        }
    }
    tape.enter_layer(None);
    tape.release_storage(previous);
}

/// `_single_tensor_rmsprop`: `avg = square_avg.sqrt()`, or of the centered one; the name holds one
/// parameter's until the next one's is made.
fn loop_rmsprop(tape: &mut Tape, params: &[ParamId]) {
    let mut previous = StorageId::NONE;
    for &id in params {
        tape.enter_layer(tape.param(id).layer);
        let bytes = gradient_bytes(tape, id);
        let avg = tape.allocate(bytes, Prim::Update);
        tape.release_storage(core::mem::replace(&mut previous, avg));
        let dtype = tape.param(id).local_dtype();
        for _ in 0..6 {
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
    let dtype = tape.param(first).local_dtype();
    tape.run(Prim::Update, update(kind, params.len() as u64, dtype, passes * bytes));
}
