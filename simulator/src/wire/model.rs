//! A model: the transformers class that runs, with the fields of its `config.json`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hardware::Provenance;

/// The class that runs, by transformers' `model_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// `DeepseekV3ForCausalLM`.
    #[serde(rename = "deepseek_v3")]
    DeepseekV3,
    /// `BertForMaskedLM`.
    Bert,
    /// `GPT2LMHeadModel`.
    Gpt2,
    /// `LlamaForCausalLM`.
    Llama,
    /// Megatron-core's `GPTModel`.
    MegatronGpt,
    /// `MistralForCausalLM`.
    Mistral,
    /// `MixtralForCausalLM`.
    Mixtral,
    /// `Qwen2ForCausalLM`.
    Qwen2,
    /// `Qwen2MoeForCausalLM`.
    Qwen2Moe,
    /// `OPTForCausalLM`.
    Opt,
    /// `Qwen3ForCausalLM`.
    Qwen3,
    /// `Qwen3MoeForCausalLM`.
    Qwen3Moe,
    /// `RobertaForMaskedLM`.
    Roberta,
    /// `ViTForImageClassification`.
    Vit,
}

impl ModelKind {
    /// All kinds, in the order shown to people.
    pub const ALL: [Self; 14] = [
        Self::Llama,
        Self::Qwen2,
        Self::Qwen3,
        Self::Qwen3Moe,
        Self::Qwen2Moe,
        Self::Mistral,
        Self::Mixtral,
        Self::DeepseekV3,
        Self::Gpt2,
        Self::Opt,
        Self::Bert,
        Self::Roberta,
        Self::Vit,
        Self::MegatronGpt,
    ];

    /// The transformers class.
    pub const fn class(self) -> &'static str {
        match self {
            Self::DeepseekV3 => "DeepseekV3ForCausalLM",
            Self::Bert => "BertForMaskedLM",
            Self::Gpt2 => "GPT2LMHeadModel",
            Self::Llama => "LlamaForCausalLM",
            Self::MegatronGpt => "megatron.core.models.gpt.GPTModel",
            Self::Mistral => "MistralForCausalLM",
            Self::Mixtral => "MixtralForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen2Moe => "Qwen2MoeForCausalLM",
            Self::Opt => "OPTForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Qwen3Moe => "Qwen3MoeForCausalLM",
            Self::Roberta => "RobertaForMaskedLM",
            Self::Vit => "ViTForImageClassification",
        }
    }

    /// The word in files (transformers' `model_type`).
    pub const fn word(self) -> &'static str {
        match self {
            Self::DeepseekV3 => "deepseek_v3",
            Self::Bert => "bert",
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::MegatronGpt => "megatron_gpt",
            Self::Mistral => "mistral",
            Self::Mixtral => "mixtral",
            Self::Qwen2 => "qwen2",
            Self::Qwen2Moe => "qwen2_moe",
            Self::Opt => "opt",
            Self::Qwen3 => "qwen3",
            Self::Qwen3Moe => "qwen3_moe",
            Self::Roberta => "roberta",
            Self::Vit => "vit",
        }
    }
}

/// One entry of the model catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelCard {
    /// Id used everywhere, such as `llama-3.2-1b`.
    pub id: String,
    /// Name as people write it.
    pub name: String,
    /// Other names it is found by, such as its Hugging Face repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// The class that runs.
    pub kind: ModelKind,
    /// Fields as in the model's `config.json`.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub config: Map<String, Value>,
    /// Parameters as published, when the publisher states an exact count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_parameters: Option<u64>,
    /// Fields whose value was not verified at the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
    /// Where the shape comes from.
    pub provenance: Provenance,
}
