//! The model's shape as the named transformers class builds it.

use crate::wire::ModelKind;

/// A model that the simulator can run.
#[derive(Clone, Debug, PartialEq)]
pub enum Architecture {
    /// `GPT2LMHeadModel`.
    Gpt2(Gpt2),
    /// `LlamaForCausalLM` and the classes written like it.
    Llama(LlamaLike),
}

impl Architecture {
    /// The transformers class that runs.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Gpt2(_) => "GPT2LMHeadModel",
            Self::Llama(model) => match model.kind {
                ModelKind::Mistral => "MistralForCausalLM",
                ModelKind::Qwen2 => "Qwen2ForCausalLM",
                ModelKind::Qwen3 => "Qwen3ForCausalLM",
                ModelKind::Llama | ModelKind::Gpt2 => "LlamaForCausalLM",
            },
        }
    }

    /// Repeated layers.
    pub const fn layers(&self) -> u64 {
        match self {
            Self::Gpt2(model) => model.layers,
            Self::Llama(model) => model.layers,
        }
    }

    /// How many layers see the whole sequence, and how many after them attend within a window. All are
    /// of the second kind when the class knows no window: within a kind layers are alike.
    pub(crate) fn layer_kinds(&self) -> [u64; 2] {
        let whole = match self {
            Self::Llama(LlamaLike { sliding_window: Some(window), layers, .. }) => {
                window.first_layer.min(*layers)
            }
            Self::Llama(_) | Self::Gpt2(_) => 0,
        };
        [whole, self.layers() - whole]
    }

    /// Changes how many layers there are of each kind.
    pub(super) const fn set_layer_kinds(&mut self, [whole, others]: [u64; 2]) {
        match self {
            Self::Gpt2(model) => model.layers = whole + others,
            Self::Llama(model) => {
                model.layers = whole + others;
                if let Some(window) = &mut model.sliding_window {
                    window.first_layer = whole;
                }
            }
        }
    }

    /// Attention heads.
    pub const fn heads(&self) -> u64 {
        match self {
            Self::Gpt2(model) => model.heads,
            Self::Llama(model) => model.heads,
        }
    }

    /// Width of one attention head.
    pub const fn head_dim(&self) -> u64 {
        match self {
            Self::Gpt2(model) => model.hidden / model.heads,
            Self::Llama(model) => model.head_dim,
        }
    }

    /// Tokens of the vocabulary.
    pub const fn vocab(&self) -> u64 {
        match self {
            Self::Gpt2(model) => model.vocab,
            Self::Llama(model) => model.vocab,
        }
    }

    /// The widest tensor inside a layer, elements per token, attention scores aside.
    pub(crate) fn widest(&self) -> u64 {
        match self {
            Self::Gpt2(model) => model.intermediate.max(3 * model.hidden),
            Self::Llama(model) => {
                model.intermediate.max(model.hidden).max(model.heads * model.head_dim)
            }
        }
    }

    /// Whether every attention kernel takes heads of this width, so that none falls back to
    /// writing the scores out.
    pub(crate) const fn flash_head_dim(&self) -> bool {
        let head_dim = self.head_dim();
        head_dim.is_multiple_of(8) && head_dim <= 256
    }
}

/// `GPT2LMHeadModel`: learned positions, layer norms, fused QKV, GELU, dropout.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpt2 {
    /// `n_embd`.
    pub hidden: u64,
    /// `n_inner`, 4·`n_embd` by default.
    pub intermediate: u64,
    /// `n_layer`.
    pub layers: u64,
    /// `n_head`.
    pub heads: u64,
    /// `vocab_size`.
    pub vocab: u64,
    /// `n_positions`.
    pub positions: u64,
    /// `activation_function`.
    pub activation: Activation,
    /// `embd_pdrop`.
    pub embedding_dropout: f64,
    /// `attn_pdrop`.
    pub attention_dropout: f64,
    /// `resid_pdrop`.
    pub residual_dropout: f64,
    /// `tie_word_embeddings`.
    pub tied: bool,
}

/// `LlamaForCausalLM`, `MistralForCausalLM`, `Qwen2ForCausalLM`, `Qwen3ForCausalLM`.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each yes-or-no field of config.json")]
pub struct LlamaLike {
    /// Which of the classes.
    pub kind: ModelKind,
    /// `hidden_size`.
    pub hidden: u64,
    /// `intermediate_size`.
    pub intermediate: u64,
    /// `num_hidden_layers`.
    pub layers: u64,
    /// `num_attention_heads`.
    pub heads: u64,
    /// `num_key_value_heads`.
    pub kv_heads: u64,
    /// `head_dim`.
    pub head_dim: u64,
    /// `vocab_size`.
    pub vocab: u64,
    /// `max_position_embeddings`.
    pub positions: u64,
    /// Bias on q, k and v projections.
    pub qkv_bias: bool,
    /// Bias on the output projection.
    pub output_bias: bool,
    /// Bias on the MLP's projections.
    pub mlp_bias: bool,
    /// RMS norm over the head dimension of q and k (Qwen3).
    pub qk_norm: bool,
    /// Layers from this one on attend within a window, when the class uses one.
    pub sliding_window: Option<SlidingWindow>,
    /// `hidden_act`.
    pub activation: Activation,
    /// `attention_dropout`.
    pub attention_dropout: f64,
    /// `tie_word_embeddings`.
    pub tied: bool,
}

/// A sliding attention window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    /// Width in tokens.
    pub tokens: u64,
    /// First layer that uses it.
    pub first_layer: u64,
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
