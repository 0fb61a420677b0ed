//! A transformers model as Megatron-core trains it.
//!
//! # Source
//!
//! NVIDIA-NeMo/Megatron-Bridge, `models/conversion/model_bridge.py` (which field becomes which) and
//! `models/gpt_provider.py` (`GPTModelProvider`: fusions on, Transformer Engine's layers, its fused
//! cross-entropy, gradients added by the products). Experts are Megatron-core's own `SequentialMLP`.
//! Rows of the vocabulary are padded: `_vocab_size_with_padding` (megatron-core 0.19.2,
//! `megatron/training/tokenizer`), `make_vocab_size_divisible_by` 128.

use super::megatron::{Engine, ExpertLoad, MegatronGpt, Mixture, Normalization, Position};
use super::{Activation, Architecture, Gpt2, LlamaLike};
use crate::wire::parallel::Parallel as Layout;

/// Rows of the vocabulary for each tensor-parallel rank are a multiple of this.
const VOCAB_MULTIPLE: u64 = 128;

impl MegatronGpt {
    /// The same model in Megatron-core, over so many ranks. Layers that cannot be dealt evenly are, where
    /// embedding and loss count as layers.
    ///
    /// # Errors
    ///
    /// What of the model Megatron-core's program here does not have.
    pub(in crate::scenario) fn of(
        architecture: &Architecture,
        parallel: &Layout,
    ) -> Result<Self, &'static str> {
        let mut model = match architecture {
            Architecture::Megatron(model) => return Ok(model.clone()),
            Architecture::Llama(model) => of_llama(model)?,
            Architecture::Gpt2(model) => of_gpt2(model)?,
            _ => return Err("Megatron-core is simulated for models written like Llama and GPT-2"),
        };
        let multiple = VOCAB_MULTIPLE.saturating_mul(parallel.tensor.max(1));
        model.vocab = model.vocab.div_ceil(multiple).saturating_mul(multiple);
        let parts = parallel.pipeline.saturating_mul(parallel.virtual_stages).max(1);
        let ends_count =
            !model.layers.is_multiple_of(parts) && (model.layers + 2).is_multiple_of(parts);
        (model.split_embedding, model.split_loss) = (ends_count, ends_count);
        Ok(model)
    }
}

/// Transformer Engine's layers with everything fused.
const ENGINE: Engine = Engine {
    unfused: false,
    fused_rope: true,
    fused_loss: true,
    fused_gradients: true,
    mask: false,
};

fn of_llama(model: &LlamaLike) -> Result<MegatronGpt, &'static str> {
    let LlamaLike { latent, gemma, phi3, sliding_window, experts, .. } = model;
    if latent.is_some() || gemma.is_some() || phi3.is_some() {
        return Err("of the models written like Llama, Megatron-core is simulated for Llama, \
                    Mistral, Mixtral and Qwen2");
    }
    if model.qk_norm {
        return Err(
            "norms of queries and keys (`qk_layernorm`) are not simulated in Megatron-core",
        );
    }
    if sliding_window.is_some() {
        return Err("a sliding window (`window_size`) is not simulated in Megatron-core");
    }
    if model.activation != Activation::Silu || model.output_bias || model.mlp_bias {
        return Err("Megatron-core's gated layers are simulated with SiLU and without biases");
    }
    let mixture = match experts {
        None => None,
        Some(experts) if experts.shared.is_none() && experts.first_layer == 0 => Some(Mixture {
            experts: experts.count,
            top_k: experts.top_k,
            load: ExpertLoad::Balanced,
        }),
        Some(_) => {
            return Err("shared experts and plain layers among mixtures are not simulated in \
                        Megatron-core");
        }
    };
    let ffn = experts.as_ref().map_or(model.intermediate, |experts| experts.intermediate);
    Ok(MegatronGpt {
        layers: model.layers,
        hidden: model.hidden,
        heads: model.heads,
        groups: model.kv_heads,
        head_dim: model.head_dim,
        ffn,
        vocab: model.vocab,
        positions: model.positions,
        position: Position::Rope,
        rotary_dim: model.head_dim,
        normalization: Normalization::RmsNorm,
        gated: true,
        squared_relu: false,
        bias: false,
        qkv_bias: model.qkv_bias,
        fused_activation: true,
        fused_dropout: true,
        hidden_dropout: 0.0,
        attention_dropout: model.attention_dropout,
        tied: model.tied,
        engine: mixture.is_none().then_some(ENGINE),
        mixture,
        ..PLAIN
    })
}

fn of_gpt2(model: &Gpt2) -> Result<MegatronGpt, &'static str> {
    if !matches!(model.activation, Activation::GeluNew | Activation::Gelu | Activation::GeluTanh) {
        return Err("Megatron-core's plain layers are simulated with GELU");
    }
    Ok(MegatronGpt {
        layers: model.layers,
        hidden: model.hidden,
        heads: model.heads,
        groups: model.heads,
        head_dim: model.hidden / model.heads.max(1),
        ffn: model.intermediate,
        vocab: model.vocab,
        positions: model.positions,
        position: Position::Learned,
        rotary_dim: model.hidden / model.heads.max(1),
        normalization: Normalization::LayerNorm,
        bias: true,
        qkv_bias: true,
        fused_activation: true,
        fused_dropout: true,
        hidden_dropout: model.residual_dropout,
        attention_dropout: model.attention_dropout,
        tied: model.tied,
        engine: Some(ENGINE),
        ..PLAIN
    })
}

/// What both leave as it is by default.
const PLAIN: MegatronGpt = MegatronGpt {
    layers: 0,
    hidden: 0,
    heads: 0,
    groups: 0,
    head_dim: 0,
    ffn: 0,
    vocab: 0,
    positions: 0,
    position: Position::None,
    rotary_dim: 0,
    normalization: Normalization::LayerNorm,
    gated: false,
    squared_relu: false,
    bias: false,
    qkv_bias: false,
    fused_activation: false,
    fused_dropout: false,
    hidden_dropout: 0.0,
    attention_dropout: 0.0,
    tied: false,
    fused_softmax: false,
    embedding_norm: false,
    split_embedding: false,
    split_loss: false,
    end_layers: [None; 2],
    mixture: None,
    engine: None,
};
