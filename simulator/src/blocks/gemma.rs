//! What Gemma's classes do otherwise than Llama's: norms around one, bounded scores and logits.
//!
//! Source: transformers 5.17, `models/gemma2/modeling_gemma2.py`, `models/gemma3/modeling_gemma3.py`.

use crate::scenario::LlamaLike;
use crate::tape::{Block, ParamId, Tape, Tensor};
use crate::tensor::DType;
use crate::wire::timeline::Category;

use super::llama::rms_norm;
use super::parameter;

/// An RMS norm as the model's class writes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Norm {
    weight: ParamId,
    around_one: bool,
}

impl Norm {
    /// Registers its weight under a module's path.
    pub(super) fn register(
        tape: &mut Tape,
        path: &str,
        size: u64,
        config: &LlamaLike,
        dtype: DType,
    ) -> Self {
        let weight = parameter(tape, format!("{path}.weight"), [size], dtype);
        Self { weight, around_one: config.gemma.is_some() }
    }

    /// Makes it the current module, and runs it.
    pub(super) fn enter(
        self,
        tape: &mut Tape,
        (block, module): (Block, &'static str),
        x: &Tensor,
    ) -> Tensor {
        tape.enter(block, module);
        self.forward(tape, x)
    }

    pub(super) fn forward(self, tape: &mut Tape, x: &Tensor) -> Tensor {
        if self.around_one {
            around_one(tape, x, self.weight)
        } else {
            rms_norm(tape, x, self.weight)
        }
    }
}

/// `Gemma2RMSNorm`: all of it in fp32, the weight stored as its distance from one.
fn around_one(tape: &mut Tape, x: &Tensor, weight: ParamId) -> Tensor {
    let wide = tape.cast(x, DType::F32);
    let squared = tape.square(&wide);
    let variance = tape.mean_last(&squared);
    tape.release(squared);
    let shifted = tape.add_scalar(&variance);
    tape.release(variance);
    let scale = tape.rsqrt(&shifted);
    tape.release(shifted);
    let normed = tape.mul(&wide, &scale);
    tape.release(scale);
    tape.release(wide);
    let weight = tape.weight(weight);
    let wide_weight = tape.cast(&weight, DType::F32);
    tape.release(weight);
    let shifted = tape.add_scalar(&wide_weight);
    tape.release(wide_weight);
    let output = tape.mul(&normed, &shifted);
    tape.release(shifted);
    tape.release(normed);
    let cast = tape.cast(&output, x.dtype);
    tape.release(output);
    cast
}

/// `cap * tanh(x / cap)`, each step under the same name, and in the same category where one is given.
pub(super) fn bounded(tape: &mut Tape, mut x: Tensor, category: Option<Category>) -> Tensor {
    for step in [Tape::div_scalar, Tape::tanh, Tape::mul_scalar] {
        let next = step(tape, &x);
        if let Some(category) = category {
            tape.categorise(next.storage, category);
        }
        tape.release(core::mem::replace(&mut x, next));
    }
    x
}
