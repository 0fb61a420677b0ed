//! The fields of a `config.json` become an [`Architecture`], with the defaults of the class.
//!
//! As in transformers, a field that the class does not read changes nothing, and is let through;
//! only a slip of the pen next to a field that it does read, and fields that mean another model, are
//! faults.

use serde_json::{Map, Value};

use super::document::{Table, unknown_field};
use super::families::Architecture;
use super::words::Word;
use crate::catalog::slip;
use crate::wire::{Fault, Faults, ModelKind, Rule};

/// Fields that describe a model or a mode that the built-in programs do not have.
const UNSUPPORTED: [(&str, &str); 19] = [
    ("quantization_config", "quantised weights are not simulated"),
    ("num_local_experts", MIXTURE),
    ("num_experts", MIXTURE),
    ("n_routed_experts", MIXTURE),
    ("n_shared_experts", MIXTURE),
    ("num_experts_per_tok", MIXTURE),
    ("moe_intermediate_size", MIXTURE),
    ("shared_expert_intermediate_size", MIXTURE),
    ("kv_lora_rank", "multi-head latent attention is not simulated"),
    ("q_lora_rank", "multi-head latent attention is not simulated"),
    ("is_encoder_decoder", "encoder–decoders are not simulated"),
    ("add_cross_attention", "cross-attention is not simulated"),
    ("reorder_and_upcast_attn", "upcast attention is not simulated"),
    ("output_attentions", "returned attention maps are not simulated"),
    ("output_hidden_states", "returned hidden states are not simulated"),
    ("per_layer_config", "layers of different shapes are not simulated"),
    ("text_config", "this is a multimodal model; give its text model's fields"),
    ("vision_config", "vision towers are not simulated"),
    ("audio_config", "audio towers are not simulated"),
];
const MIXTURE: &str = "mixtures of experts are not simulated";

/// Reads a class's configuration; `path` is where it stands in the document.
///
/// `None` exactly when it adds a fault.
pub(crate) fn architecture(
    kind: ModelKind,
    config: &Map<String, Value>,
    path: &str,
    faults: &mut Faults,
) -> Option<Architecture> {
    let before = faults.0.len();
    let mut table = Table::new(String::from(path), config);
    check_model_type(kind, &mut table, faults);
    let architecture = Architecture::read(kind, &mut table, faults);
    check_other_fields(kind, &table, faults);
    architecture.filter(|_| faults.0.len() == before)
}

/// The fields of a configuration that the class reads.
pub(crate) fn relevant(kind: ModelKind, config: &Map<String, Value>) -> Map<String, Value> {
    let mut table = Table::new(String::new(), config);
    Architecture::read(kind, &mut table, &mut Faults::default());
    let read = config.iter().filter(|(key, _)| table.known().contains(&key.as_str()));
    read.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A `config.json` says itself which class it is for.
fn check_model_type(kind: ModelKind, table: &mut Table<'_>, faults: &mut Faults) {
    let Some(model_type) = table.text("model_type", faults) else { return };
    if model_type == kind.word() {
        return;
    }
    let path = table.path("model_type");
    let message =
        format!("the configuration is of `{model_type}`, but the class is `{}`", kind.word());
    let mut fault = Fault::new(path, Rule::Conflict, message)
        .arguments([String::from(model_type), String::from(kind.word())]);
    if ModelKind::WORDS.iter().any(|(word, _)| *word == model_type) {
        fault = fault.mend("model.kind", model_type);
    }
    faults.push(fault);
}

/// Fields that the class does not read.
fn check_other_fields(kind: ModelKind, table: &Table<'_>, faults: &mut Faults) {
    let read: Vec<&'static str> = table.known().to_vec();
    for (key, value) in table.unknown() {
        let unsupported = UNSUPPORTED.iter().find(|(name, _)| name == key);
        if let Some((_, reason)) = unsupported {
            if !is_off(value) {
                let message = format!("`{key}` is set, and {reason}");
                let fault = Fault::new(table.path(key), Rule::Unsupported, message);
                faults.push(fault.arguments([key.clone(), String::from(*reason)]));
            }
        } else if let Some(near) = slip(key, read.iter().copied()) {
            let mut fault = unknown_field(table.path(key), key, &[near]);
            fault.message = format!("{}; {} does not read `{key}`", fault.message, kind.word());
            faults.push(fault);
        }
    }
}

/// Whether a field is as good as absent.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(_) => false,
    }
}
