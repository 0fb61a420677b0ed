//! Model families as lists of primitives, written as the named classes are written.
//!
//! The functions follow transformers 5.17 (`models/*/modeling_*.py`) line by line: each name that
//! Python would hold is a Rust binding, released where Python's name dies.

mod affine;
mod attention;
mod bert;
mod experts;
mod falcon;
mod gemma;
mod gpt2;
mod heads;
mod llama;
mod mask;
mod mla;
mod mlp;
mod opt;
mod parallel;
mod phi3;
mod plain;
mod position_bias;
mod rotary;
mod t5;
mod vision;
mod vit;

use bert::BertModel;
use falcon::FalconModel;
use gpt2::Gpt2Model;
use llama::LlamaModel;
use opt::OptModel;
use parallel::ParallelModel;
use t5::T5Model;
use vision::VisionModel;
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

    /// As [`Self::forward`], for classes whose decoder reads the labels.
    fn forward_to(&self, tape: &mut Tape, data: &Tensor, _labels: &Tensor) -> Forwarded {
        Forwarded { output: self.forward(tape, data), held: Vec::new() }
    }

    /// From what [`Self::forward`] gave to the logits, for classes that hold their last hidden state
    /// until the loss is known; the others give logits at once.
    fn head(&self, tape: &mut Tape, output: &Tensor) -> Tensor {
        tape.share(output)
    }

    /// What the class does to its logits.
    fn finish_logits(&self, tape: &mut Tape, logits: Tensor) -> Tensor {
        let _ = tape;
        logits
    }

    /// The output projection's weight.
    fn lm_head(&self) -> ParamId;

    /// The output projection's bias, where it has one.
    fn lm_head_bias(&self) -> Option<ParamId> {
        None
    }

    /// Whether construction makes an output projection last, where it is then tied to the embedding.
    fn makes_head_last(&self) -> bool {
        true
    }

    /// The table of `get_input_embeddings()`: the first parameter, where a model has one.
    fn input_embedding(&self) -> Option<ParamId> {
        Some(ParamId::new(0))
    }
}

/// What a forward pass leaves.
#[derive(Debug)]
pub struct Forwarded {
    /// The last hidden state, or the logits.
    pub output: Tensor,
    /// What else lives until the loss is known: names of the class's `forward`, fields of its result.
    pub held: Vec<Tensor>,
}

/// How a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Attention implementation.
    pub attention: Attention,
    /// Checkpointing.
    pub checkpointing: Checkpointing,
    /// Whether a pixel's channels are adjacent.
    pub channels_last: bool,
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
        Architecture::Falcon(config) => Box::new(FalconModel::register(tape, config, dtype, style)),
        Architecture::Gpt2(config) => Box::new(Gpt2Model::register(tape, config, dtype, style)),
        Architecture::Llama(config) => Box::new(LlamaModel::register(tape, config, dtype, style)),
        Architecture::Opt(config) => Box::new(OptModel::register(tape, config, dtype, style)),
        Architecture::Parallel(config) => {
            Box::new(ParallelModel::register(tape, config, dtype, style))
        }
        Architecture::T5(config) => Box::new(T5Model::register(tape, config, dtype, style)),
        Architecture::Vision(config) => Box::new(VisionModel::register(tape, config, dtype, style)),
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
