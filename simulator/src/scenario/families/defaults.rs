//! What the classes of the Llama family fill in where a field is absent.

use crate::wire::ModelKind;

/// What a class of the Llama family fills in where a field is absent.
pub(super) struct Defaults {
    pub(super) vocab: u64,
    pub(super) hidden: u64,
    pub(super) layers: u64,
    pub(super) intermediate: u64,
    pub(super) heads: u64,
    /// `None`: as many as attention heads.
    pub(super) kv_heads: Option<u64>,
    /// `None`: hidden size over attention heads.
    pub(super) head_dim: Option<u64>,
    pub(super) positions: u64,
}

/// Source: transformers 5.17, `models/*/configuration_*.py`.
pub(super) const fn defaults(kind: ModelKind) -> Defaults {
    match kind {
        ModelKind::Mistral | ModelKind::Mixtral => Defaults {
            vocab: 32_000,
            hidden: 4_096,
            layers: 32,
            intermediate: 14_336,
            heads: 32,
            kv_heads: Some(8),
            head_dim: None,
            positions: 131_072,
        },
        ModelKind::Qwen2 => Defaults {
            vocab: 151_936,
            hidden: 4_096,
            layers: 32,
            intermediate: 22_016,
            heads: 32,
            kv_heads: Some(32),
            head_dim: None,
            positions: 32_768,
        },
        ModelKind::Qwen3 => Defaults {
            vocab: 151_936,
            hidden: 4_096,
            layers: 32,
            intermediate: 22_016,
            heads: 32,
            kv_heads: Some(32),
            head_dim: Some(128),
            positions: 32_768,
        },
        ModelKind::Gemma2 | ModelKind::Gemma3Text => Defaults {
            vocab: if matches!(kind, ModelKind::Gemma2) { 256_000 } else { 262_208 },
            hidden: 2_304,
            layers: 26,
            intermediate: 9_216,
            heads: 8,
            kv_heads: Some(4),
            head_dim: Some(256),
            positions: if matches!(kind, ModelKind::Gemma2) { 8_192 } else { 131_072 },
        },
        ModelKind::Phi3 => Defaults {
            vocab: 32_064,
            hidden: 3_072,
            layers: 32,
            intermediate: 8_192,
            heads: 32,
            kv_heads: None,
            head_dim: None,
            positions: 4_096,
        },
        ModelKind::DeepseekV3 | ModelKind::Qwen2Moe | ModelKind::Qwen3Moe => of_mixture(kind),
        _ => Defaults {
            vocab: 32_000,
            hidden: 4_096,
            layers: 32,
            intermediate: 11_008,
            heads: 32,
            kv_heads: None,
            head_dim: None,
            positions: 2_048,
        },
    }
}

const fn of_mixture(kind: ModelKind) -> Defaults {
    match kind {
        ModelKind::Qwen2Moe => Defaults {
            vocab: 151_936,
            hidden: 2_048,
            layers: 24,
            intermediate: 5_632,
            heads: 16,
            kv_heads: Some(16),
            head_dim: None,
            positions: 32_768,
        },
        ModelKind::Qwen3Moe => Defaults {
            vocab: 151_936,
            hidden: 2_048,
            layers: 24,
            intermediate: 6_144,
            heads: 32,
            kv_heads: Some(4),
            head_dim: None,
            positions: 32_768,
        },
        _ => Defaults {
            vocab: 129_280,
            hidden: 7_168,
            layers: 61,
            intermediate: 18_432,
            heads: 128,
            kv_heads: Some(128),
            head_dim: None,
            positions: 4_096,
        },
    }
}
