//! Families of models: each file has a family's shape, how it is read from a `config.json`, and its
//! counts. What a family does is written in `blocks`.

/// The getters of a shape whose layers are all alike and whose heads share its width.
macro_rules! alike_layers {
    () => {
        fn layers(&self) -> u64 {
            self.layers
        }

        fn set_layer_kinds(&mut self, [whole, others]: [u64; 2]) {
            self.layers = whole + others;
        }

        fn hidden(&self) -> u64 {
            self.hidden
        }

        fn heads(&self) -> u64 {
            self.heads
        }

        fn head_dim(&self) -> u64 {
            self.hidden / self.heads
        }
    };
}

mod bert;
mod bridge;
mod defaults;
mod experts;
mod falcon;
mod fields;
mod gemma;
mod gpt2;
mod latent;
mod llama;
mod megatron;
mod opt;
mod parallel;
mod phi3;
mod t5;
mod vision;
mod vit;

pub use bert::Bert;
pub use experts::{Experts, Router};
pub use falcon::Falcon;
pub use gemma::Gemma;
pub use gpt2::Gpt2;
pub use latent::Latent;
pub use llama::{LlamaLike, SlidingWindow};
pub use megatron::{Engine, ExpertLoad, MegatronGpt, Mixture, Normalization, Position};
pub use opt::Opt;
pub(crate) use opt::POSITION_OFFSET;
pub use parallel::Parallel;
pub use phi3::Phi3;
pub use t5::T5;
pub use vision::{Act, Conv, Excite, Join, Op, Residual, Slot, Vision, Window, slots};
pub(crate) use vit::CHANNELS;
pub use vit::Vit;

use fields::{activation, either, must_divide};

use super::Table;
use crate::wire::parallel::Parallel as Layout;
use crate::wire::scenario::Adapter;
use crate::wire::{Faults, ModelKind};

/// A model's shape as the named transformers class builds it.
#[derive(Clone, Debug, PartialEq)]
pub enum Architecture {
    /// `BertForMaskedLM`, `RobertaForMaskedLM`.
    Bert(Bert),
    /// `FalconForCausalLM`.
    Falcon(Falcon),
    /// `GPT2LMHeadModel`.
    Gpt2(Gpt2),
    /// `LlamaForCausalLM` and the classes written like it.
    Llama(Box<LlamaLike>),
    /// Megatron-core's `GPTModel`.
    Megatron(MegatronGpt),
    /// `OPTForCausalLM`.
    Opt(Opt),
    /// `PhiForCausalLM`, `GPTNeoXForCausalLM`.
    Parallel(Parallel),
    /// `T5ForConditionalGeneration`.
    T5(T5),
    /// A model of `torchvision.models`.
    Vision(Vision),
    /// `ViTForImageClassification`.
    Vit(Vit),
}

impl Architecture {
    /// Whether its layers have experts.
    pub const fn has_experts(&self) -> bool {
        match self {
            Self::Llama(model) => model.experts.is_some(),
            Self::Megatron(model) => model.mixture.is_some(),
            _ => false,
        }
    }

    /// Whether Megatron-core can train it.
    pub fn runs_in_megatron(&self) -> bool {
        MegatronGpt::of(self, &Layout::default()).is_ok()
    }

    /// Reads the fields that the class reads; `None` when one is at fault.
    pub(super) fn read(
        kind: ModelKind,
        table: &mut Table<'_>,
        faults: &mut Faults,
    ) -> Option<Self> {
        match kind {
            ModelKind::Bert | ModelKind::Roberta => bert::read(kind, table, faults).map(Self::Bert),
            ModelKind::Falcon => falcon::read(table, faults).map(Self::Falcon),
            ModelKind::Gpt2 => gpt2::read(table, faults).map(Self::Gpt2),
            ModelKind::MegatronGpt => megatron::read(table, faults).map(Self::Megatron),
            ModelKind::Opt => opt::read(table, faults).map(Self::Opt),
            ModelKind::GptNeox | ModelKind::Phi => {
                parallel::read(kind, table, faults).map(Self::Parallel)
            }
            ModelKind::T5 => t5::read(table, faults).map(Self::T5),
            ModelKind::Torchvision => vision::read(table, faults).map(Self::Vision),
            ModelKind::Vit => vit::read(table, faults).map(Self::Vit),
            ModelKind::DeepseekV3
            | ModelKind::Gemma2
            | ModelKind::Gemma3Text
            | ModelKind::Llama
            | ModelKind::Mistral
            | ModelKind::Mixtral
            | ModelKind::Phi3
            | ModelKind::Qwen2
            | ModelKind::Qwen2Moe
            | ModelKind::Qwen3
            | ModelKind::Qwen3Moe => {
                llama::read(kind, table, faults).map(Box::new).map(Self::Llama)
            }
        }
    }

    /// What every family can say.
    pub fn family(&self) -> &dyn Family {
        match self {
            Self::Bert(model) => model,
            Self::Falcon(model) => model,
            Self::Gpt2(model) => model,
            Self::Llama(model) => model.as_ref(),
            Self::Megatron(model) => model,
            Self::Opt(model) => model,
            Self::Parallel(model) => model,
            Self::T5(model) => model,
            Self::Vision(model) => model,
            Self::Vit(model) => model,
        }
    }

    pub(super) fn family_mut(&mut self) -> &mut dyn Family {
        match self {
            Self::Bert(model) => model,
            Self::Falcon(model) => model,
            Self::Gpt2(model) => model,
            Self::Llama(model) => model.as_mut(),
            Self::Megatron(model) => model,
            Self::Opt(model) => model,
            Self::Parallel(model) => model,
            Self::T5(model) => model,
            Self::Vision(model) => model,
            Self::Vit(model) => model,
        }
    }
}

/// What a family says about a model.
pub trait Family: core::fmt::Debug {
    /// The transformers class that runs.
    fn class(&self) -> &'static str;

    /// What the model is trained to do.
    fn task(&self) -> Task {
        Task::CausalLm
    }

    /// What the model reads.
    fn data(&self) -> Data {
        Data::Tokens
    }

    /// Repeated layers.
    fn layers(&self) -> u64;

    /// How many layers are of a first kind, and how many after them of a second: within a kind layers
    /// are alike. All are of the second where there is but one.
    fn layer_kinds(&self) -> [u64; 2] {
        [0, self.layers()]
    }

    /// Whether layers of both kinds take turns, so that none of [`Self::layer_kinds`] is a stretch of
    /// layers that are alike.
    fn alternates(&self) -> bool {
        false
    }

    /// Changes how many layers there are of each kind.
    fn set_layer_kinds(&mut self, kinds: [u64; 2]);

    /// Whether the first layer of a kind makes what the later ones share: the second is then the lowest
    /// one to hold it.
    fn first_layers_share(&self) -> bool {
        false
    }

    /// Width of the residual stream.
    fn hidden(&self) -> u64;

    /// Attention heads.
    fn heads(&self) -> u64;

    /// Width of one attention head.
    fn head_dim(&self) -> u64;

    /// Tokens of the vocabulary.
    fn vocab(&self) -> u64;

    /// Parameters that a token does not meet: those of the experts that it does not go to.
    fn idle_parameters(&self) -> u64 {
        0
    }

    /// Tokens that the layers see of one item, of sequences of this length.
    fn tokens(&self, seq_len: u64) -> u64 {
        seq_len
    }

    /// How far positions go.
    fn positions(&self) -> Positions;

    /// Whether labels are sequences of their own length, which a decoder reads.
    fn has_decoder(&self) -> bool {
        false
    }

    /// The widest tensor inside a layer, elements per token, attention scores aside.
    fn widest(&self) -> u64;

    /// Whether every attention kernel takes heads of this width, so that none falls back to writing
    /// the scores out.
    fn flash_head_dim(&self) -> bool {
        let head_dim = self.head_dim();
        head_dim.is_multiple_of(8) && head_dim <= 256
    }

    /// Whether the output projection is the embedding.
    fn tied(&self) -> bool;

    /// Linear layers that an adapter may target, in the order in which the model has them.
    fn projections(&self) -> Vec<Projection> {
        Vec::new()
    }

    /// Bytes of each buffer that construction leaves after all parameters, in their order.
    fn buffers(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Bytes of all buffers, those that stand among the parameters included; `weight_bytes`: of an
    /// element of the latter.
    fn buffer_bytes(&self, weight_bytes: u64) -> u64 {
        let _ = weight_bytes;
        self.buffers().iter().sum()
    }

    /// Parameters, a tied weight counted once. In 128 bits, for shapes that nobody checked yet.
    ///
    /// Source: the modules that transformers 5.17 builds; equal to every measured capture's count.
    fn parameters(&self) -> u128;

    /// The formula of [`Self::parameters`], and the values put in.
    fn parameters_formula(&self) -> [String; 2];

    /// The library whose class it is, with its version.
    fn library(&self) -> &'static str {
        "transformers 5.17"
    }

    /// First steps whose gradients overflow in fp16 at the scaler's first scales, so that it skips the
    /// update; `images`: items of a micro-batch. An estimate, for numbers are not simulated.
    fn skipped_steps(&self, images: u64) -> u64 {
        let _ = images;
        0
    }

    /// FLOPs of one item's forward pass, where they do not follow from tokens and parameters.
    fn forward_flops(&self) -> Option<u128> {
        None
    }
}

/// A linear layer inside the repeated layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    /// The module's name in its parent.
    pub name: &'static str,
    /// Width of its input.
    pub inputs: u64,
    /// Width of its output.
    pub outputs: u64,
    /// How many the model has.
    pub count: u64,
}

/// Parameters that a low-rank adapter adds: `Σ count · rank · (inputs + outputs)` over the
/// projections that it targets.
///
/// Source: `LoraLayer.update_layer` in peft 0.21 (`tuners/lora/layer.py`): `lora_A` of
/// `[rank, inputs]` and `lora_B` of `[outputs, rank]`, without biases.
pub fn adapter_parameters(family: &dyn Family, adapter: &Adapter) -> u128 {
    let targeted = |projection: &Projection| adapter.targets.iter().any(|t| t == projection.name);
    let added = |Projection { inputs, outputs, count, .. }: Projection| {
        let [inputs, outputs, count, rank] = [inputs, outputs, count, adapter.rank].map(u128::from);
        count * rank * (inputs + outputs)
    };
    family.projections().into_iter().filter(targeted).map(added).sum()
}

/// What a model is trained to do, which decides its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Predict the next token.
    CausalLm,
    /// Predict a token's label where it stands: masked and sequence-to-sequence language models.
    TokenLabels,
    /// Predict one label for each item.
    Classification,
    /// The same, with a loss over `logits.float()`.
    ClassificationInF32,
}

/// What a model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Sequences of token ids.
    Tokens,
    /// Square images of three channels with this many pixels a side.
    Images(u64),
}

/// How far positions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// They index a table of this many rows.
    Table(u64),
    /// Any can be computed; the model was trained for this many.
    Trained(u64),
    /// There is no last one.
    Any,
}

impl Positions {
    /// How many it has or was trained for.
    pub const fn limit(self) -> Option<u64> {
        match self {
            Self::Table(rows) | Self::Trained(rows) => Some(rows),
            Self::Any => None,
        }
    }
}

/// A linear layer's weight and bias.
const fn linear(inputs: u128, outputs: u128, bias: bool) -> u128 {
    inputs * outputs + if bias { outputs } else { 0 }
}

/// The MLP's activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `silu`.
    Silu,
    /// `gelu`, exact.
    Gelu,
    /// `gelu_new`: the tanh approximation written in primitives.
    GeluNew,
    /// `gelu_pytorch_tanh`: the tanh approximation as one kernel.
    GeluTanh,
    /// `relu`.
    Relu,
}
