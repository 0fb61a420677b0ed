//! The fields of a `config.json` become an [`Architecture`], with the defaults of the class.
//!
//! Source of the classes' fields and defaults: transformers 5.17,
//! `models/{gpt2,llama,mistral,qwen2,qwen3}/configuration_*.py` and `modeling_*.py`. As there, a
//! field that the class does not read changes nothing, and is let through; only a slip of the pen
//! next to a field that it does read, and fields that mean another model, are faults.

use serde_json::{Map, Value};

use super::architecture::{Activation, Architecture, Gpt2, LlamaLike, SlidingWindow};
use super::document::{Table, choice_fault, type_fault, unknown_field};
use super::{limits, words::Word};
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

/// Activation functions by transformers' names.
const ACTIVATIONS: [(&str, Activation); 6] = [
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
    ("gelu", Activation::Gelu),
    ("gelu_new", Activation::GeluNew),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("relu", Activation::Relu),
];

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
    let architecture = read_fields(kind, &mut table, faults);
    check_other_fields(kind, &table, faults);
    architecture.filter(|_| faults.0.len() == before)
}

/// The fields of a configuration that the class reads.
pub(crate) fn relevant(kind: ModelKind, config: &Map<String, Value>) -> Map<String, Value> {
    let mut table = Table::new(String::new(), config);
    read_fields(kind, &mut table, &mut Faults::default());
    let read = config.iter().filter(|(key, _)| table.known().contains(&key.as_str()));
    read.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn read_fields(
    kind: ModelKind,
    table: &mut Table<'_>,
    faults: &mut Faults,
) -> Option<Architecture> {
    match kind {
        ModelKind::Gpt2 => gpt2(table, faults).map(Architecture::Gpt2),
        ModelKind::Llama | ModelKind::Mistral | ModelKind::Qwen2 | ModelKind::Qwen3 => {
            llama_like(kind, table, faults).map(Architecture::Llama)
        }
    }
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

fn gpt2(table: &mut Table<'_>, faults: &mut Faults) -> Option<Gpt2> {
    // The standard names are accepted through the class's `attribute_map`.
    let hidden = either(table, ["n_embd", "hidden_size"], limits::WIDTH, 768, faults);
    let layers = either(table, ["n_layer", "num_hidden_layers"], limits::LAYERS, 12, faults);
    let heads = either(table, ["n_head", "num_attention_heads"], limits::HEADS, 12, faults);
    let positions =
        either(table, ["n_positions", "max_position_embeddings"], limits::POSITIONS, 1024, faults);
    let four_hidden = hidden.map_or(1, |hidden| 4 * hidden);
    let intermediate = table.integer_or("n_inner", limits::WIDTH, four_hidden, faults);
    let vocab = table.integer_or("vocab_size", limits::VOCAB, 50_257, faults);
    let activation = activation(table, "activation_function", Activation::GeluNew, faults);
    let embedding_dropout = table.number_or("embd_pdrop", limits::DROPOUT, 0.1, faults);
    let attention_dropout = table.number_or("attn_pdrop", limits::DROPOUT, 0.1, faults);
    let residual_dropout = table.number_or("resid_pdrop", limits::DROPOUT, 0.1, faults);
    let tied = table.flag_or("tie_word_embeddings", true, faults);
    // Only a factor: neither changes what is computed or kept.
    for factor in ["scale_attn_weights", "scale_attn_by_inverse_layer_idx"] {
        table.flag_or(factor, false, faults);
    }
    if let (Some(hidden), Some(heads)) = (hidden, heads) {
        must_divide(table, ("n_head", heads), ("n_embd", hidden), faults);
    }
    Some(Gpt2 {
        hidden: hidden?,
        intermediate: intermediate?,
        layers: layers?,
        heads: heads?,
        vocab: vocab?,
        positions: positions?,
        activation: activation?,
        embedding_dropout: embedding_dropout?,
        attention_dropout: attention_dropout?,
        residual_dropout: residual_dropout?,
        tied: tied?,
    })
}

/// What a class of the Llama family fills in where a field is absent.
struct Defaults {
    vocab: u64,
    intermediate: u64,
    /// `None`: as many as attention heads.
    kv_heads: Option<u64>,
    /// `None`: hidden size over attention heads.
    head_dim: Option<u64>,
    positions: u64,
}

const fn defaults(kind: ModelKind) -> Defaults {
    match kind {
        ModelKind::Llama | ModelKind::Gpt2 => Defaults {
            vocab: 32_000,
            intermediate: 11_008,
            kv_heads: None,
            head_dim: None,
            positions: 2_048,
        },
        ModelKind::Mistral => Defaults {
            vocab: 32_000,
            intermediate: 14_336,
            kv_heads: Some(8),
            head_dim: None,
            positions: 131_072,
        },
        ModelKind::Qwen2 => Defaults {
            vocab: 151_936,
            intermediate: 22_016,
            kv_heads: Some(32),
            head_dim: None,
            positions: 32_768,
        },
        ModelKind::Qwen3 => Defaults {
            vocab: 151_936,
            intermediate: 22_016,
            kv_heads: Some(32),
            head_dim: Some(128),
            positions: 32_768,
        },
    }
}

fn llama_like(kind: ModelKind, table: &mut Table<'_>, faults: &mut Faults) -> Option<LlamaLike> {
    let default = defaults(kind);
    let vocab = table.integer_or("vocab_size", limits::VOCAB, default.vocab, faults);
    let intermediate =
        table.integer_or("intermediate_size", limits::WIDTH, default.intermediate, faults);
    let layers = table.integer_or("num_hidden_layers", limits::LAYERS, 32, faults);
    let positions =
        table.integer_or("max_position_embeddings", limits::POSITIONS, default.positions, faults);
    let heads = head_counts(kind, table, faults);
    let biases = biases(kind, table, faults);
    let activation = activation(table, "hidden_act", Activation::Silu, faults);
    let attention_dropout = table.number_or("attention_dropout", limits::DROPOUT, 0.0, faults);
    let tied = table.flag_or("tie_word_embeddings", false, faults);
    let sliding_window = match kind {
        ModelKind::Mistral => mistral_window(table, faults),
        ModelKind::Qwen2 | ModelKind::Qwen3 => qwen_window(table, layers?, faults),
        ModelKind::Llama | ModelKind::Gpt2 => None,
    };
    let (heads, biases) = (heads?, biases?);
    Some(LlamaLike {
        kind,
        hidden: heads.hidden,
        intermediate: intermediate?,
        layers: layers?,
        heads: heads.heads,
        kv_heads: heads.kv_heads,
        head_dim: heads.head_dim,
        vocab: vocab?,
        positions: positions?,
        qkv_bias: biases.qkv,
        output_bias: biases.output,
        mlp_bias: biases.mlp,
        qk_norm: kind == ModelKind::Qwen3,
        sliding_window,
        activation: activation?,
        attention_dropout: attention_dropout?,
        tied: tied?,
    })
}

struct HeadCounts {
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
}

fn head_counts(kind: ModelKind, table: &mut Table<'_>, faults: &mut Faults) -> Option<HeadCounts> {
    let default = defaults(kind);
    let hidden = table.integer_or("hidden_size", limits::WIDTH, 4_096, faults);
    let heads = table.integer_or("num_attention_heads", limits::HEADS, 32, faults);
    // Absent means the class's default; null always means "as many as attention heads".
    let absent = table.raw("num_key_value_heads").is_none();
    let fallback = default.kv_heads.filter(|_| absent).or(heads).unwrap_or(1);
    let kv_heads = table.integer_or("num_key_value_heads", limits::HEADS, fallback, faults);
    let own_head_dim = table.value("head_dim").is_some() || default.head_dim.is_some();
    let fallback = default.head_dim.or(Some(hidden? / heads?)).unwrap_or(1);
    let head_dim = table.integer_or("head_dim", limits::HEAD_DIM, fallback, faults);
    let (hidden, heads) = (hidden?, heads?);
    // Llama's class insists on it even where `head_dim` is given.
    if kind == ModelKind::Llama || !own_head_dim {
        must_divide(table, ("num_attention_heads", heads), ("hidden_size", hidden), faults);
    }
    let (kv_heads, head_dim) = (kv_heads?, head_dim?);
    must_divide(table, ("num_key_value_heads", kv_heads), ("num_attention_heads", heads), faults);
    if head_dim % 2 != 0 && (own_head_dim || hidden % heads == 0) {
        let key = if own_head_dim { "head_dim" } else { "num_attention_heads" };
        let message = format!("rotary embedding needs an even head width, and it is {head_dim}");
        let fault = Fault::new(table.path(key), Rule::Divisible, message).arguments([
            head_dim.to_string(),
            String::from("multiple of"),
            String::from("2"),
        ]);
        faults.push(fault);
    }
    Some(HeadCounts { hidden, heads, kv_heads, head_dim })
}

struct Biases {
    qkv: bool,
    output: bool,
    mlp: bool,
}

fn biases(kind: ModelKind, table: &mut Table<'_>, faults: &mut Faults) -> Option<Biases> {
    Some(match kind {
        ModelKind::Llama => {
            let attention = table.flag_or("attention_bias", false, faults);
            let mlp = table.flag_or("mlp_bias", false, faults);
            Biases { qkv: attention?, output: attention?, mlp: mlp? }
        }
        ModelKind::Qwen3 => {
            let attention = table.flag_or("attention_bias", false, faults)?;
            Biases { qkv: attention, output: attention, mlp: false }
        }
        ModelKind::Qwen2 => Biases { qkv: true, output: false, mlp: false },
        ModelKind::Mistral | ModelKind::Gpt2 => Biases { qkv: false, output: false, mlp: false },
    })
}

/// Mistral: every layer has the window; 4096 where the field is absent, none where it is null
/// (or 0, which is how TOML writes it).
fn mistral_window(table: &mut Table<'_>, faults: &mut Faults) -> Option<SlidingWindow> {
    let tokens = match table.raw("sliding_window") {
        Some(Value::Null) => 0,
        _ => table.integer_or("sliding_window", 0..=*limits::POSITIONS.end(), 4_096, faults)?,
    };
    (0 < tokens).then_some(SlidingWindow { tokens, first_layer: 0 })
}

/// Qwen: off unless `use_sliding_window`; then the layers from `max_window_layers` on have it,
/// unless `layer_types` says otherwise.
fn qwen_window(table: &mut Table<'_>, layers: u64, faults: &mut Faults) -> Option<SlidingWindow> {
    let in_use = table.flag_or("use_sliding_window", false, faults);
    let range = 0..=*limits::POSITIONS.end();
    let null = table.raw("sliding_window").is_some_and(Value::is_null);
    let tokens = table.integer_or("sliding_window", range, if null { 0 } else { 4_096 }, faults);
    let from = table.integer_or("max_window_layers", 0..=*limits::WIDTH.end(), 28, faults);
    let listed = listed_window(table, layers, faults);
    let tokens = if in_use? { tokens? } else { 0 };
    let first_layer = match listed {
        Listed::Absent => from?,
        Listed::From(first) => first,
        Listed::Wrong => return None,
    };
    if tokens == 0 && matches!(listed, Listed::From(first) if first < layers) {
        let message = "`layer_types` has sliding layers, but the window is off";
        let fault = Fault::new(table.path("layer_types"), Rule::Conflict, message);
        faults.push(fault.mend(table.path("use_sliding_window"), true));
    }
    (0 < tokens && first_layer < layers).then_some(SlidingWindow { tokens, first_layer })
}

/// What `layer_types` says.
enum Listed {
    /// Nothing.
    Absent,
    /// Full attention up to this layer, sliding from it on.
    From(u64),
    /// A fault was noted.
    Wrong,
}

fn listed_window(table: &mut Table<'_>, layers: u64, faults: &mut Faults) -> Listed {
    const TYPES: [&str; 2] = ["full_attention", "sliding_attention"];
    let Some(value) = table.value("layer_types") else { return Listed::Absent };
    let path = table.path("layer_types");
    let Value::Array(types) = value else {
        faults.push(type_fault(&path, "a list with a word per layer", value));
        return Listed::Wrong;
    };
    let other = types.iter().position(|kind| !kind.as_str().is_some_and(|w| TYPES.contains(&w)));
    if let Some(index) = other {
        let found = types[index].as_str().unwrap_or("no text");
        faults.push(choice_fault(format!("{path}.{index}"), found, &TYPES));
        return Listed::Wrong;
    }
    let count = types.len() as u64;
    if count != layers {
        let message = format!("{count} layer types for {layers} layers");
        let fault = Fault::new(path, Rule::Conflict, message);
        faults.push(fault.arguments([count.to_string(), layers.to_string()]));
        return Listed::Wrong;
    }
    let sliding = |kind: &Value| kind.as_str() == Some(TYPES[1]);
    let first = types.iter().position(sliding).unwrap_or(types.len());
    if !types[first..].iter().all(sliding) {
        let message = "only full layers followed by sliding layers are simulated";
        faults.push(Fault::new(path, Rule::Unsupported, message));
        return Listed::Wrong;
    }
    Listed::From(first as u64)
}

/// A field under its own or its standard name.
fn either(
    table: &mut Table<'_>,
    [own, standard]: [&'static str; 2],
    range: core::ops::RangeInclusive<u64>,
    default: u64,
    faults: &mut Faults,
) -> Option<u64> {
    if table.value(own).is_none() {
        return table.integer_or(standard, range, default, faults);
    }
    let both = table.value(standard).is_some();
    if both && table.value(own) != table.value(standard) {
        let path = table.path(standard);
        let message = format!("`{standard}` is another name of `{own}`, and they differ");
        faults.push(Fault::new(path, Rule::Conflict, message));
    }
    table.integer_or(own, range, default, faults)
}

fn activation(
    table: &mut Table<'_>,
    key: &'static str,
    default: Activation,
    faults: &mut Faults,
) -> Option<Activation> {
    let Some(name) = table.text(key, faults) else {
        return table.value(key).is_none().then_some(default);
    };
    let found = ACTIVATIONS.iter().find(|(word, _)| *word == name);
    if found.is_none() {
        let words = ACTIVATIONS.map(|(word, _)| word);
        let mut fault = choice_fault(table.path(key), name, &words);
        fault.rule = Rule::Unsupported;
        faults.push(fault);
    }
    found.map(|(_, activation)| *activation)
}

/// `whole` must be a multiple of `divisor`; the nearest divisors come as mends.
fn must_divide(
    table: &Table<'_>,
    (divisor_key, divisor): (&str, u64),
    (whole_key, whole): (&str, u64),
    faults: &mut Faults,
) {
    if whole % divisor == 0 {
        return;
    }
    let path = table.path(divisor_key);
    let message = format!(
        "`{whole_key}` ({whole}) must be a multiple of `{divisor_key}` ({divisor}), and is not"
    );
    let fault = Fault::new(path.clone(), Rule::Divisible, message).arguments([
        whole.to_string(),
        String::from("multiple of"),
        divisor.to_string(),
    ]);
    let below = (1..divisor.min(whole)).rev().find(|candidate| whole % candidate == 0);
    let above = (divisor + 1..=whole).find(|candidate| whole % candidate == 0);
    let mends = below.into_iter().chain(above);
    faults.push(mends.fold(fault, |fault, value| fault.mend(path.clone(), value)));
}
