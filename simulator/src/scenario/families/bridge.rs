//! A transformers model as Megatron-core trains it.
//!
//! # Source
//!
//! NVIDIA-NeMo/Megatron-Bridge, `src/megatron/bridge/models`: `llama/llama_bridge.py` (which field becomes
//! which), `llama/llama_provider.py` and `gpt_provider.py` at 0254ddd (fusions on, Transformer Engine's
//! layers, `cross_entropy_fusion_impl = "te"` of the Llama 3 providers, gradients added by the products),
//! `training/config.py` (`skip_getting_attention_mask_from_dataset`: no mask comes with the data). Mistral,
//! Qwen2 and GPT-2 get the same fusions. Experts are Megatron-core's own `SequentialMLP`, not the grouped
//! products that the bridge's mixtures ask for.

use super::megatron::{Engine, ExpertLoad, MegatronGpt, Mixture, Normalization, Position};
use super::{Activation, Architecture, Gpt2, LlamaLike};
use crate::wire::parallel::Parallel as Layout;

/// The largest power of two that rows of the vocabulary are made a multiple of.
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
        model.vocab = padded(model.vocab, parallel.tensor.max(1));
        let parts = parallel.pipeline.saturating_mul(parallel.virtual_stages).max(1);
        let ends_count =
            !model.layers.is_multiple_of(parts) && (model.layers + 2).is_multiple_of(parts);
        (model.split_embedding, model.split_loss) = (ends_count, ends_count);
        Ok(model)
    }
}

/// Rows of the vocabulary: as they are where the ranks can share them (`should_pad_vocab` is off), else as
/// `calculate_padded_vocab_size` pads them.
///
/// # Source
///
/// Megatron-Bridge, `utils/vocab_utils.py`; `make_vocab_size_divisible_by` in
/// `models/conversion/model_bridge.py`: the largest power of two up to 128 that divides them.
fn padded(vocab: u64, tensor: u64) -> u64 {
    if vocab.is_multiple_of(tensor) {
        return vocab;
    }
    let divisor = 1_u64 << vocab.trailing_zeros().min(VOCAB_MULTIPLE.trailing_zeros());
    let multiple = divisor.saturating_mul(tensor);
    vocab.div_ceil(multiple).saturating_mul(multiple)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalog::Catalog;
    use crate::scenario::{Family as _, check};
    use crate::wire::Faults;

    fn translated(model: &str, tensor: u64, pipeline: u64) -> Result<MegatronGpt, Faults> {
        let document = json!({
            "version": 1,
            "model": {"id": model},
            "hardware": {"gpu": "h200-sxm", "count": tensor * pipeline},
            "parallel": {"tensor": tensor, "pipeline": pipeline},
            "workload": {"micro_batch": 1, "seq_len": 1024, "grad_accum": 16},
            "stack": {"framework": "megatron_core"},
        });
        let valid = check(&document, &Catalog::builtin())?;
        let noted = valid.notes().iter().any(|note| note.path == "stack.framework");
        assert!(noted, "no capture stands behind Transformer Engine's layers");
        Ok(valid.megatron().expect("it is Megatron-core's").clone())
    }

    #[test]
    fn nothing_is_added_that_the_ranks_need_not() {
        let catalog = Catalog::builtin();
        for (id, tensor) in [("llama-3.1-70b", 8), ("mistral-7b-v0.3", 4), ("qwen2.5-7b", 4)] {
            let model = translated(id, tensor, 1).unwrap_or_else(|faults| panic!("{id}: {faults}"));
            let published = catalog.model(id).and_then(|card| card.published_parameters);
            assert_eq!(u64::try_from(model.parameters()).ok(), published, "{id}");
        }
        assert_eq!(translated("gpt2", 1, 1).map(|model| model.vocab), Ok(50_257));
        assert_eq!(translated("gpt2", 4, 1).map(|model| model.vocab), Ok(50_260));
    }

    #[test]
    fn ends_count_where_layers_cannot_be_dealt_evenly() {
        let ends = |pipeline| {
            let model = translated("llama-3.1-405b", 8, pipeline).expect("it is simulated");
            (model.split_embedding, model.split_loss)
        };
        assert_eq!((ends(2), ends(16)), ((false, false), (true, true)));
    }

    #[test]
    fn what_megatron_does_not_have_here_is_one_fault() {
        for id in ["qwen3-8b", "gemma-3-1b", "bert-base-uncased"] {
            let faults = translated(id, 2, 4).expect_err(id).0;
            let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
            assert_eq!(paths, ["stack.framework"], "{id}");
        }
    }
}
