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

    /// `scaler.step(optimizer)` before the update: `unscale_`, then a wait for `found_inf`.
    pub(super) fn unscale(tape: &mut Tape, gradient_bytes: u64, gradients: u64) -> Tensor {
        tape.enter(Block::Scaler, "unscale_");
        let wide = |tape: &mut Tape| tape.helper(Shape::scalar(), DType::I64, Prim::GradScaler);
        let narrow = |tape: &mut Tape| tape.helper(Shape::scalar(), DType::F32, Prim::GradScaler);
        let double = wide(tape);
        let reciprocal = wide(tape);
        tape.release(double);
        let inverse = narrow(tape);
        tape.release(reciprocal);
        let found_inf = narrow(tape);
        let copies = [narrow(tape), narrow(tape)];
        tape.run(
            Prim::GradScaler,
            update(Update::Foreach, gradients, DType::F32, 2 * gradient_bytes),
        );
        let [per_device, last] = copies;
        for tensor in [last, inverse, per_device] {
            tape.release(tensor);
        }
        tape.run(Prim::GradScaler, Work::synchronize());
        found_inf
    }
}
