//! `torch.amp.GradScaler`: scales the loss, checks and unscales the gradients.
//!
//! Source: `torch/amp/grad_scaler.py`, PyTorch 2.11.

use crate::clock::{Update, Work};
use crate::primitives::update;
use crate::tape::{Block, Prim, StorageId, Tape, Tensor};
use crate::tensor::{DType, Shape};

/// The scaler's two tensors, made at its first use.
#[derive(Debug, Default)]
pub(super) struct Scaler {
    tensors: Option<[StorageId; 2]>,
}

impl Scaler {
    pub(super) fn storages(&self) -> Vec<StorageId> {
        self.tensors.into_iter().flatten().collect()
    }

    pub(super) fn renumber(&mut self, storages: &[StorageId]) {
        if let [scale, growth] = *storages {
            self.tensors = Some([scale, growth]);
        }
    }

    /// `scaler.scale(loss)`: `loss * scale`.
    pub(super) fn scale(&mut self, tape: &mut Tape, loss: &Tensor) -> Tensor {
        tape.enter(Block::Scaler, "scale");
        if self.tensors.is_none() {
            let mut scalar = || tape.helper(Shape::scalar(), DType::F32, Prim::GradScaler).storage;
            self.tensors = Some([scalar(), scalar()]);
        }
        tape.mul_scalar(loss)
    }

    /// `scaler.step(optimizer)` before the update: `unscale_`, then a wait for what was found.
    /// Returns what falls after the update.
    pub(super) fn unscale(tape: &mut Tape, gradients: &Gradients) -> Vec<Tensor> {
        tape.enter(Block::Scaler, "unscale_");
        let wide = |tape: &mut Tape| tape.helper(Shape::scalar(), DType::I64, Prim::GradScaler);
        let double = wide(tape);
        let reciprocal = wide(tape);
        tape.release(double);
        let inverse = scalar(tape);
        tape.release(reciprocal);
        let found_inf = scale_gradients(tape, gradients, inverse);
        tape.run(Prim::GradScaler, Work::synchronize());
        vec![found_inf]
    }

    /// `scaler.step(optimizer)` before the update of an optimizer that unscales by itself
    /// (`_step_supports_amp_scaling`): the check alone, then what it found and the scale for the
    /// optimizer's kernel. Returns what falls after the update.
    pub(super) fn check(tape: &mut Tape, gradients: &Gradients) -> Vec<Tensor> {
        tape.enter(Block::Scaler, "_check_inf_per_device");
        let inverse = scalar(tape);
        let found_inf = scale_gradients(tape, gradients, inverse);
        let [sum, scale] = [scalar(tape), scalar(tape)];
        vec![scale, sum, found_inf]
    }
}

/// `DeepSpeedEngine.backward` (deepspeed 0.19.8, `runtime/engine.py`): the loss over the number of
/// micro-batches, times the loss scale, even where both are one.
pub(super) fn scale_for_engine(tape: &mut Tape, loss: &Tensor) -> Tensor {
    tape.enter(Block::Scaler, "scale_if_loss");
    let share = tape.div_scalar(loss);
    let scaled = tape.mul_scalar(&share);
    tape.release(share);
    scaled
}

/// The gradients that a scaler goes through.
pub(super) struct Gradients {
    pub(super) n: u64,
    pub(super) bytes: u64,
    /// Whether each rank has a part of them.
    pub(super) sharded: bool,
}

fn scalar(tape: &mut Tape) -> Tensor {
    tape.helper(Shape::scalar(), DType::F32, Prim::GradScaler)
}

/// `_unscale_grads_`: copies of both scalars for the device; that of what was found is kept.
fn scale_gradients(tape: &mut Tape, gradients: &Gradients, inverse: Tensor) -> Tensor {
    let found_inf = scalar(tape);
    let [kept, inverse_on_device] = [scalar(tape), scalar(tape)];
    let &Gradients { n, bytes, sharded } = gradients;
    tape.run(Prim::GradScaler, update(Update::Foreach, n, DType::F32, 2 * bytes));
    if sharded {
        // What any rank has found (`found_inf_reduce_handler` in `torch/distributed/tensor/_dispatch.py`).
        let found = scalar(tape);
        tape.release(found);
    }
    for tensor in [inverse_on_device, inverse, found_inf] {
        tape.release(tensor);
    }
    kept
}
