//! The question: which model, on which GPU, doing what, with which software. Version 1.
//!
//! Reading from text collects every fault at once (see `scenario::read`); these types are
//! the well-formed document, still unchecked against its cross-field rules.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::model::ModelKind;
use super::parallel::{Parallel, is_default};

/// Version of the scenario format written by this program.
pub const SCENARIO_VERSION: u64 = 1;

/// A question for the simulator. TOML and JSON have the same shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Scenario {
    /// Version of this format.
    pub version: u64,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is trained.
    pub model: Model,
    /// On what.
    pub hardware: Hardware,
    /// How several GPUs share the work.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parallel: Parallel,
    /// How much of it at once.
    pub workload: Workload,
    /// Number formats.
    #[serde(default)]
    pub precision: Precision,
    /// What the optimizer keeps and does.
    #[serde(default)]
    pub optimizer: Optimizer,
    /// What is traded for memory.
    #[serde(default)]
    pub checkpointing: Checkpointing,
    /// What is trained instead of the model's own parameters, which then stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    /// Which software runs it.
    #[serde(default)]
    pub stack: Stack,
}

/// Either a catalog id, or a class with the fields of its `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Model {
    /// A catalog entry.
    Catalog {
        /// Its id.
        id: String,
    },
    /// A class and its configuration.
    Inline {
        /// The class.
        kind: ModelKind,
        /// Fields as in `config.json`; absent ones take the class's default.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        config: Map<String, Value>,
    },
}

/// The GPU and what else lives on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Hardware {
    /// Catalog id of the GPU.
    pub gpu: String,
    /// How many of them. One rank is simulated; more than one needs a parallel layout.
    #[serde(default = "one")]
    pub count: u64,
    /// Bytes already in use on the card by somebody else.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub already_used_bytes: u64,
    /// Most bytes this process may reserve (`set_per_process_memory_fraction`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_cap_bytes: Option<u64>,
}

/// One optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Workload {
    /// Sequences or images per forward pass.
    pub micro_batch: u64,
    /// Tokens per sequence; none (0) for a model that reads images.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seq_len: u64,
    /// Tokens per target sequence of an encoder–decoder; 0: as many as `seq_len`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub target_len: u64,
    /// Forward and backward passes per optimizer step.
    #[serde(default = "one")]
    pub grad_accum: u64,
}

impl Workload {
    /// Tokens per sequence of labels.
    pub const fn label_len(&self) -> u64 {
        if self.target_len == 0 { self.seq_len } else { self.target_len }
    }
}

/// Number formats of the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Everything in fp32.
    Fp32,
    /// Weights, gradients and states in bf16.
    #[default]
    Bf16,
    /// Weights and gradients in fp16 beside fp32 ones that `DeepSpeed` trains, with its loss scale.
    Fp16,
    /// fp32 weights under `torch.autocast(bfloat16)`.
    AmpBf16,
    /// fp32 weights under `torch.autocast(float16)` with a gradient scaler.
    AmpFp16,
}

/// The optimizer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(clippy::struct_excessive_bools, reason = "one for each yes-or-no option")]
pub struct Optimizer {
    /// Its update rule.
    pub name: OptimizerName,
    /// Which of PyTorch's implementations runs.
    #[serde(default)]
    pub implementation: Implementation,
    /// Momentum of SGD and `RMSprop`; no buffer is kept at zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f64>,
    /// Whether `RMSprop` keeps a mean of the gradients as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub centered: bool,
    /// Whether `clip_grad_norm_` runs before the step.
    #[serde(default)]
    pub clip_grad_norm: bool,
    /// `zero_grad(set_to_none=…)` after the step.
    #[serde(default = "yes")]
    pub set_to_none: bool,
    /// Whether each parameter has an optimizer of its own that a hook steps as soon as its gradient is
    /// there, which then goes (`register_post_accumulate_grad_hook`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_backward: bool,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self {
            name: OptimizerName::Adamw,
            implementation: Implementation::Foreach,
            momentum: None,
            centered: false,
            clip_grad_norm: false,
            set_to_none: true,
            in_backward: false,
        }
    }
}

/// Update rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OptimizerName {
    /// `torch.optim.AdamW`.
    Adamw,
    /// `torch.optim.SGD`.
    Sgd,
    /// `torch.optim.Adafactor`.
    Adafactor,
    /// `torch.optim.RMSprop`.
    Rmsprop,
    /// `Lion` of lion-pytorch.
    Lion,
    /// `torch.optim.Muon` for the matrices of the layers, which is all that it takes, and
    /// `torch.optim.AdamW` for the other parameters.
    Muon,
    /// `AdamW8bit` of bitsandbytes.
    Adamw8bit,
}

impl OptimizerName {
    /// Its implementations, the default first.
    pub const fn implementations(self) -> &'static [Implementation] {
        use Implementation::{Foreach, Fused, Loop};
        match self {
            Self::Adamw | Self::Sgd => &[Foreach, Fused, Loop],
            Self::Rmsprop => &[Foreach, Loop],
            Self::Adafactor => &[Loop, Foreach],
            Self::Lion | Self::Muon | Self::Adamw8bit => &[Loop],
        }
    }

    /// Whether an element's update needs nothing of other elements.
    pub const fn is_elementwise(self) -> bool {
        matches!(self, Self::Adamw | Self::Sgd | Self::Rmsprop | Self::Lion)
    }

    /// Whether it can have a momentum that adds a buffer.
    pub const fn has_momentum(self) -> bool {
        matches!(self, Self::Sgd | Self::Rmsprop)
    }
}

/// PyTorch's three implementations of an optimizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Implementation {
    /// Multi-tensor operations with whole-model temporaries (the default on CUDA).
    #[default]
    Foreach,
    /// One fused kernel, no temporaries.
    Fused,
    /// One parameter after the other (the default of those that have no other, and of `Adafactor`).
    Loop,
}

/// Which activations are thrown away and computed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Checkpointing {
    /// None.
    #[default]
    None,
    /// Every layer, non-reentrant (`gradient_checkpointing_enable`).
    Full,
    /// The core of attention alone, reentrant (Megatron-core's `recompute_granularity`).
    Selective,
}

/// Small trainable parts beside a frozen model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Adapter {
    /// Which method.
    #[serde(default)]
    pub kind: AdapterKind,
    /// Inner size of the two factors (`r`).
    pub rank: u64,
    /// Names of the modules that get one (`target_modules`).
    pub targets: Vec<String>,
    /// Probability of dropping an element of the adapter's input (`lora_dropout`).
    #[serde(default)]
    pub dropout: f64,
    /// Whether the factors are fp32 beside half-precision weights (`autocast_adapter_dtype`).
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub autocast: bool,
    /// How the frozen weights of linear layers are held.
    #[serde(default, skip_serializing_if = "is_default")]
    pub base: BaseFormat,
    /// Whether the output projection is held like that too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub base_head: bool,
    /// Whether a `StableEmbedding` of bitsandbytes replaces the embedding, which stays beside it: the new one
    /// gets gradients that no optimizer knows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stable_embedding: bool,
}

/// Formats of frozen weights beside an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BaseFormat {
    /// The element type that they are computed with.
    #[default]
    Whole,
    /// `NF4` of bitsandbytes: 4 bits a weight, and an fp32 scale for 64 of them.
    Nf4,
    /// The same with scales of 8 bits, and an fp32 scale for 256 of those (`use_double_quant`).
    Nf4Double,
}

/// Adapter methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AdapterKind {
    /// A product of two narrow matrices added to a projection, as peft 0.21 writes it.
    #[default]
    Lora,
}

/// The software.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(clippy::struct_excessive_bools, reason = "one for each yes-or-no option")]
pub struct Stack {
    /// Whose model and training loop run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub framework: Framework,
    /// How attention is written.
    #[serde(default)]
    pub attention: Attention,
    /// How the loss is written.
    #[serde(default)]
    pub loss: Loss,
    /// Whether fp32 matrix products may run as TF32 (`torch.backends.cuda.matmul.allow_tf32`).
    #[serde(default)]
    pub tf32: bool,
    /// Whether weights and images have a pixel's channels adjacent
    /// (`model.to(memory_format=torch.channels_last)`). Only torchvision's models.
    #[serde(default, skip_serializing_if = "is_false")]
    pub channels_last: bool,
    /// Whether what backward needs lies in pinned host memory until then
    /// (`torch.autograd.graph.save_on_cpu(pin_memory=True)` around forward and loss).
    #[serde(default, skip_serializing_if = "is_false")]
    pub activation_offload: bool,
    /// Whether the model was compiled (`torch.compile(model)`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub compile: bool,
    /// `PYTORCH_CUDA_ALLOC_CONF`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alloc_conf: String,
}

/// Whose model and training loop run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Framework {
    /// A transformers class in a plain PyTorch loop.
    #[default]
    Transformers,
    /// Megatron-core's `GPTModel`, its pipeline schedules, buffers and optimizer.
    MegatronCore,
}

/// Attention implementations of transformers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// `scaled_dot_product_attention`, with the kernel that PyTorch chooses.
    #[default]
    Sdpa,
    /// Matrix products and a softmax.
    Eager,
    /// `flash_attn_func` of flash-attn 2.
    #[serde(rename = "flash_attention_2")]
    FlashAttention2,
    /// The same of flash-attn 3, for Hopper.
    #[serde(rename = "flash_attention_3")]
    FlashAttention3,
}

/// How the causal-LM loss is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// transformers 5: logits to fp32, labels shifted by padding.
    #[default]
    Transformers5,
    /// transformers 4.3x: logits to fp32, logits shifted by a contiguous copy.
    Transformers4,
    /// Liger's fused linear cross-entropy: logits in chunks, gradients in the forward pass.
    FusedLinear,
    /// Logits and their loss in the model's element type, 128 tokens of each sequence at a time
    /// (litgpt's fine-tuning of adapters).
    Chunked,
    /// Logits and their loss in the model's element type, 128 rows at a time (litgpt's full
    /// fine-tuning).
    Narrow,
}

pub(super) const fn one() -> u64 {
    1
}

pub(super) const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if wants it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if wants it")]
const fn is_true(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if wants it")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}
