//! Model families as lists of primitives, written as the named classes are written.
//!
//! The functions follow transformers 5.17 (`models/*/modeling_*.py`) line by line: each name that
//! Python would hold is a Rust binding, released where Python's name dies.

mod attention;
mod gpt2;
mod llama;
mod mask;
mod rotary;

pub use gpt2::Gpt2Model;
pub use llama::LlamaModel;
use llama::Shared;

use crate::engine::Recompute;
use crate::scenario::Architecture;
use crate::tape::{ParamId, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::{Attention, Checkpointing};

/// A model on the tape.
#[derive(Debug)]
pub enum Model {
    /// `GPT2LMHeadModel`.
    Gpt2(Gpt2Model),
    /// `LlamaForCausalLM` and the classes written like it.
    Llama(LlamaModel),
}

/// How a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Attention implementation.
    pub attention: Attention,
    /// Checkpointing.
    pub checkpointing: Checkpointing,
}

impl Model {
    /// Registers the parameters of a model, in the order of `model.parameters()`.
    pub fn register(
        tape: &mut Tape,
        architecture: &Architecture,
        dtype: DType,
        style: Style,
    ) -> Self {
        match architecture {
            Architecture::Gpt2(config) => {
                Self::Gpt2(Gpt2Model::register(tape, config, dtype, style))
            }
            Architecture::Llama(config) => {
                Self::Llama(LlamaModel::register(tape, config, dtype, style))
            }
        }
    }

    /// Runs the model up to the last hidden state.
    pub fn forward(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        match self {
            Self::Gpt2(model) => model.forward(tape, ids),
            Self::Llama(model) => model.forward(tape, ids),
        }
    }

    /// The output projection's weight.
    pub const fn lm_head(&self) -> ParamId {
        match self {
            Self::Gpt2(model) => model.lm_head,
            Self::Llama(model) => model.lm_head,
        }
    }
}

impl Recompute for Model {
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, arguments: &[Tensor]) {
        let output = match self {
            Self::Gpt2(model) => model.layer(tape, layer, input, arguments.first()),
            Self::Llama(model) => model.layer(tape, layer, input, &Shared::of(arguments)),
        };
        tape.release(output);
    }
}

/// Registers one parameter over a new storage.
fn parameter<const N: usize>(
    tape: &mut Tape,
    name: String,
    sizes: [u64; N],
    dtype: DType,
) -> ParamId {
    tape.new_parameter(name, Shape::new(sizes), dtype)
}
