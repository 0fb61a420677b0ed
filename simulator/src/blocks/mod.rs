//! Model families as lists of primitives, written as the named classes are written.
//!
//! The functions follow transformers 5.17 (`models/*/modeling_*.py`) line by line: each name that
//! Python would hold is a Rust binding, released where Python's name dies.

mod affine;
mod attention;
mod bert;
mod experts;
mod gpt2;
mod heads;
mod llama;
mod mask;
mod mla;
mod mlp;
mod opt;
mod rotary;
mod vit;

use bert::BertModel;
use gpt2::Gpt2Model;
use llama::LlamaModel;
use opt::OptModel;
use vit::VitModel;

use crate::engine::Recompute;
use crate::scenario::Architecture;
use crate::tape::{ParamId, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::{Attention, Checkpointing};

/// A model on the tape.
pub trait Network: Recompute + core::fmt::Debug {
    /// Runs the model on its data: up to the last hidden state where the task is causal language
    /// modelling, whose loss has several forms; to the logits elsewhere.
    fn forward(&self, tape: &mut Tape, data: &Tensor) -> Tensor;

    /// From what [`Self::forward`] gave to the logits, for classes that hold their last hidden state
    /// until the loss is known; the others give logits at once.
    fn head(&self, tape: &mut Tape, output: &Tensor) -> Tensor {
        tape.share(output)
    }

    /// The output projection's weight.
    fn lm_head(&self) -> ParamId;

    /// The table of `get_input_embeddings()`: the first parameter, where a model has one.
    fn input_embedding(&self) -> Option<ParamId> {
        Some(ParamId::new(0))
    }
}

/// How a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Attention implementation.
    pub attention: Attention,
    /// Checkpointing.
    pub checkpointing: Checkpointing,
}

/// Registers the parameters of a model, in the order of `model.parameters()`.
pub fn register(
    tape: &mut Tape,
    architecture: &Architecture,
    dtype: DType,
    style: Style,
) -> Box<dyn Network> {
    match architecture {
        Architecture::Bert(config) => Box::new(BertModel::register(tape, config, dtype, style)),
        Architecture::Gpt2(config) => Box::new(Gpt2Model::register(tape, config, dtype, style)),
        Architecture::Llama(config) => Box::new(LlamaModel::register(tape, config, dtype, style)),
        Architecture::Megatron(_) => {
            unreachable!("Megatron-core's models run in their own program")
        }
        Architecture::Opt(config) => Box::new(OptModel::register(tape, config, dtype, style)),
        Architecture::Vit(config) => Box::new(VitModel::register(tape, config, dtype, style)),
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
