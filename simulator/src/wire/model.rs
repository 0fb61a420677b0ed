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
    /// `FalconForCausalLM`.
    Falcon,
    /// `Gemma2ForCausalLM`.
    Gemma2,
    /// `Gemma3ForCausalLM`: the language model of Gemma 3.
    #[serde(rename = "gemma3_text")]
    Gemma3Text,
    /// `GPT2LMHeadModel`.
    Gpt2,
    /// `GPTNeoXForCausalLM`.
    GptNeox,
    /// `LlamaForCausalLM`.
    Llama,
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
    /// `PhiForCausalLM`.
    Phi,
    /// `Phi3ForCausalLM`.
    Phi3,
    /// `Qwen3ForCausalLM`.
    Qwen3,
    /// `Qwen3MoeForCausalLM`.
    Qwen3Moe,
    /// `RobertaForMaskedLM`.
    Roberta,
    /// `T5ForConditionalGeneration`.
    T5,
    /// A model of `torchvision.models`, named in its configuration.
    Torchvision,
    /// `ViTForImageClassification`.
    Vit,
}

impl ModelKind {
    /// All kinds, in the order shown to people.
    pub const ALL: [Self; 21] = [
        Self::Llama,
        Self::Qwen2,
        Self::Qwen3,
        Self::Qwen3Moe,
        Self::Qwen2Moe,
        Self::Mistral,
        Self::Mixtral,
        Self::DeepseekV3,
        Self::Gemma3Text,
        Self::Gemma2,
        Self::Phi3,
        Self::Gpt2,
        Self::Falcon,
        Self::GptNeox,
        Self::Phi,
        Self::Opt,
        Self::Bert,
        Self::Roberta,
        Self::T5,
        Self::Vit,
        Self::Torchvision,
    ];

    /// The transformers class; of torchvision's models, the module of the functions that build them.
    pub const fn class(self) -> &'static str {
        match self {
            Self::DeepseekV3 => "DeepseekV3ForCausalLM",
            Self::Bert => "BertForMaskedLM",
            Self::Gemma2 => "Gemma2ForCausalLM",
            Self::Gemma3Text => "Gemma3ForCausalLM",
            Self::Gpt2 => "GPT2LMHeadModel",
            Self::Llama => "LlamaForCausalLM",
            Self::Mistral => "MistralForCausalLM",
            Self::Mixtral => "MixtralForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen2Moe => "Qwen2MoeForCausalLM",
            Self::Falcon => "FalconForCausalLM",
            Self::GptNeox => "GPTNeoXForCausalLM",
            Self::Phi => "PhiForCausalLM",
            Self::Opt => "OPTForCausalLM",
            Self::Phi3 => "Phi3ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Qwen3Moe => "Qwen3MoeForCausalLM",
            Self::Roberta => "RobertaForMaskedLM",
            Self::T5 => "T5ForConditionalGeneration",
            Self::Torchvision => "torchvision.models",
            Self::Vit => "ViTForImageClassification",
        }
    }

    /// The word in files (transformers' `model_type`).
    pub const fn word(self) -> &'static str {
        match self {
            Self::DeepseekV3 => "deepseek_v3",
            Self::Bert => "bert",
            Self::Gemma2 => "gemma2",
            Self::Gemma3Text => "gemma3_text",
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Mixtral => "mixtral",
            Self::Qwen2 => "qwen2",
            Self::Qwen2Moe => "qwen2_moe",
            Self::Falcon => "falcon",
            Self::GptNeox => "gpt_neox",
            Self::Phi => "phi",
            Self::Opt => "opt",
            Self::Phi3 => "phi3",
            Self::Qwen3 => "qwen3",
            Self::Qwen3Moe => "qwen3_moe",
            Self::Roberta => "roberta",
            Self::T5 => "t5",
            Self::Torchvision => "torchvision",
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
