//! A model: the transformers class that runs, with the fields of its `config.json`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::hardware::Provenance;

/// The class that runs, by transformers' `model_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// `BertForMaskedLM`.
    Bert,
    /// `GPT2LMHeadModel`.
    Gpt2,
    /// `LlamaForCausalLM`.
    Llama,
    /// `MistralForCausalLM`.
    Mistral,
    /// `Qwen2ForCausalLM`.
    Qwen2,
    /// `OPTForCausalLM`.
    Opt,
    /// `Qwen3ForCausalLM`.
    Qwen3,
    /// `RobertaForMaskedLM`.
    Roberta,
    /// `ViTForImageClassification`.
    Vit,
}

impl ModelKind {
    /// All kinds, in the order shown to people.
    pub const ALL: [Self; 9] = [
        Self::Llama,
        Self::Qwen2,
        Self::Qwen3,
        Self::Mistral,
        Self::Gpt2,
        Self::Opt,
        Self::Bert,
        Self::Roberta,
        Self::Vit,
    ];

    /// The transformers class.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Bert => "BertForMaskedLM",
            Self::Gpt2 => "GPT2LMHeadModel",
            Self::Llama => "LlamaForCausalLM",
            Self::Mistral => "MistralForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Opt => "OPTForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Roberta => "RobertaForMaskedLM",
            Self::Vit => "ViTForImageClassification",
        }
    }

    /// The word in files (transformers' `model_type`).
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bert => "bert",
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Opt => "opt",
            Self::Qwen3 => "qwen3",
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
