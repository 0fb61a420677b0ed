//! The model of a row: its class, its shape, the names of its projections.

use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::wire::ModelKind;
use crate::wire::published::PublishedRun;
use crate::wire::scenario::Model;

/// A model, and what of it is simulated differently.
pub(super) struct Described {
    pub(super) kind: ModelKind,
    pub(super) model: Model,
    pub(super) remark: Option<&'static str>,
}

/// Words of a model's name, the class that runs, and what is simulated differently.
type Named = (&'static [&'static str], ModelKind, Option<&'static str>);

/// The most special first.
const NAMES: [Named; 16] = [
    // Llama with four scalar factors: some temporaries more, nothing kept.
    (&["granite"], ModelKind::Llama, Some("Granite is simulated as Llama of the same shape")),
    (&["gemma-2b", "gemma-7b"], ModelKind::Llama, Some("Gemma 1 is simulated as Llama with GELU")),
    (&["llama", "yi-"], ModelKind::Llama, None),
    (&["mistral"], ModelKind::Mistral, None),
    (&["qwen3"], ModelKind::Qwen3, None),
    (&["qwen2", "qwen1.5"], ModelKind::Qwen2, None),
    (&["gpt2", "gpt-2"], ModelKind::Gpt2, None),
    (&["gemma2", "gemma-2-"], ModelKind::Gemma2, None),
    (&["phi-3"], ModelKind::Phi3, None),
    (&["phi-1", "phi-2"], ModelKind::Phi, None),
    (&["stablelm-base-alpha"], ModelKind::GptNeox, None),
    (&["pythia", "gpt-neox"], ModelKind::GptNeox, None),
    (&["falcon-7b"], ModelKind::Falcon, None),
    (&["roberta"], ModelKind::Roberta, None),
    (&["bert-"], ModelKind::Bert, None),
    (&["opt-"], ModelKind::Opt, None),
];

/// litgpt's Phi has one projection of query, key and value, as GPT-NeoX has.
const FUSED_PHI: &str =
    "litgpt's Phi is simulated as GPT-NeoX of the same shape, with a second norm a layer";

/// Shapes that are another architecture under one of these names.
const OTHERS: [&str; 5] = ["moe", "mixtral", "gptbigcode", "starcoder", "distilbert"];

/// The class that runs.
///
/// # Errors
///
/// None of the simulated ones.
fn named(name: &str, shape: &Map<String, Value>) -> Result<&'static Named, String> {
    let text = name.to_lowercase();
    let unknown = || format!("models like \"{name}\" are not simulated yet");
    let has_experts = shape.get("experts").is_some_and(|count| !count.is_null());
    if has_experts || OTHERS.iter().any(|other| text.contains(other)) {
        return Err(unknown());
    }
    let is = |(words, ..): &&Named| words.iter().any(|word| text.contains(word));
    let found = NAMES.iter().find(is).ok_or_else(unknown)?;
    let mlp = shape.get("mlp").and_then(Value::as_str);
    let gated = matches!(
        found.1,
        ModelKind::Llama | ModelKind::Mistral | ModelKind::Qwen2 | ModelKind::Qwen3
    );
    if gated && mlp.is_some_and(|mlp| !mlp.ends_with("glu")) { Err(unknown()) } else { Ok(found) }
}

/// The model of a row: the catalog's configuration of that name under the row's shape.
///
/// # Errors
///
/// It is none of the simulated ones, or its shape is not stated. `own_classes`: the tool's, which
/// have no dropout and an output projection of its own.
pub(super) fn described(
    run: &PublishedRun,
    catalog: &Catalog,
    own_classes: bool,
) -> Result<Described, String> {
    let name = run.model.get("name").and_then(Value::as_str).unwrap_or("");
    let &(_, kind, remark) = named(name, &run.model)?;
    let (kind, remark) = match kind {
        ModelKind::Phi if own_classes => (ModelKind::GptNeox, Some(FUSED_PHI)),
        kind => (kind, remark),
    };
    let card = catalog.model(name).filter(|card| card.kind == kind);
    let mut config = card.map(|card| card.config.clone()).unwrap_or_default();
    for &(key, field) in fields(kind) {
        match run.model.get(field).and_then(Value::as_u64) {
            Some(value) => {
                config.insert(key.to_owned(), value.into());
            }
            None if matches!(field, "kv_heads" | "head_dim") => {}
            None => return Err(format!("model.{field} is not stated as a number")),
        }
    }
    let extra = extra(name, kind, run);
    config.extend(extra.into_iter().map(|(key, value)| (key.to_owned(), value)));
    if own_classes {
        let plain = ["resid_pdrop", "embd_pdrop", "attn_pdrop"].map(|key| (key, 0.0.into()));
        let plain = plain.into_iter().filter(|_| matches!(kind, ModelKind::Phi | ModelKind::Phi3));
        config.extend(plain.map(|(key, value)| (key.to_owned(), value)));
    }
    let stated = run.model.get("tied_embeddings").and_then(Value::as_bool);
    if let Some(tied) = if own_classes { Some(false) } else { stated } {
        config.insert("tie_word_embeddings".to_owned(), tied.into());
    }
    Ok(Described { kind, model: Model::Inline { kind, config }, remark })
}

/// Fields of `config.json` and those of the row.
const fn fields(kind: ModelKind) -> &'static [(&'static str, &'static str)] {
    match kind {
        ModelKind::Gpt2 => &[
            ("n_embd", "hidden"),
            ("n_layer", "layers"),
            ("n_head", "heads"),
            ("n_inner", "ffn"),
            ("vocab_size", "vocab"),
        ],
        ModelKind::Falcon => &[
            ("hidden_size", "hidden"),
            ("num_hidden_layers", "layers"),
            ("num_attention_heads", "heads"),
            ("ffn_hidden_size", "ffn"),
            ("vocab_size", "vocab"),
        ],
        ModelKind::Opt => &[
            ("hidden_size", "hidden"),
            ("num_hidden_layers", "layers"),
            ("num_attention_heads", "heads"),
            ("ffn_dim", "ffn"),
            ("vocab_size", "vocab"),
        ],
        ModelKind::Bert | ModelKind::Roberta | ModelKind::GptNeox | ModelKind::Phi => &[
            ("hidden_size", "hidden"),
            ("num_hidden_layers", "layers"),
            ("num_attention_heads", "heads"),
            ("intermediate_size", "ffn"),
            ("vocab_size", "vocab"),
        ],
        _ => &[
            ("hidden_size", "hidden"),
            ("num_hidden_layers", "layers"),
            ("num_attention_heads", "heads"),
            ("num_key_value_heads", "kv_heads"),
            ("head_dim", "head_dim"),
            ("intermediate_size", "ffn"),
            ("vocab_size", "vocab"),
        ],
    }
}

/// What a class needs beside the shape: room for the positions, and what the models of a name have.
fn extra(name: &str, kind: ModelKind, run: &PublishedRun) -> Vec<(&'static str, Value)> {
    let text = name.to_lowercase();
    let seq_len = run.seq_len.unwrap_or(0);
    let (positions, least) = match kind {
        ModelKind::Gpt2 => ("n_positions", 1024),
        ModelKind::Bert => ("max_position_embeddings", 512),
        ModelKind::Roberta => ("max_position_embeddings", 514),
        _ => ("max_position_embeddings", 4096),
    };
    let mut extra = vec![(positions, seq_len.max(least).into())];
    let is = |word: &str| text.contains(word);
    match kind {
        ModelKind::Phi if is("phi-2") => extra.push(("partial_rotary_factor", 0.4.into())),
        ModelKind::GptNeox if is("phi-") => {
            let share = if is("phi-2") { 0.4 } else { 0.5 };
            extra.push(("rotary_pct", share.into()));
        }
        ModelKind::GptNeox => extra.push(("rotary_pct", 0.25.into())),
        ModelKind::Llama if is("gemma") => extra.extend([
            ("hidden_act", "gelu_pytorch_tanh".into()),
            ("tie_word_embeddings", true.into()),
        ]),
        ModelKind::Llama if is("llama-3.2-1b") || is("llama-3.2-3b") => {
            extra.push(("tie_word_embeddings", true.into()));
        }
        ModelKind::Bert if is("sequence classification") => {
            extra.push(("architectures", vec!["BertForSequenceClassification"].into()));
        }
        _ => {}
    }
    extra
}

/// The projections of a role that rows name.
pub(super) fn projections(kind: ModelKind, role: &str) -> &'static [&'static str] {
    match (kind, role) {
        (ModelKind::Phi3, "query" | "key" | "value") => &["qkv_proj"],
        (ModelKind::Phi3, "mlp") => &["gate_up_proj", "down_proj"],
        (ModelKind::GptNeox | ModelKind::Falcon, "query" | "key" | "value") => &["query_key_value"],
        (ModelKind::GptNeox | ModelKind::Falcon | ModelKind::Phi, "projection") => &["dense"],
        (ModelKind::GptNeox | ModelKind::Falcon, "mlp") => &["dense_h_to_4h", "dense_4h_to_h"],
        (ModelKind::Phi, "mlp") => &["fc1", "fc2"],
        (_, "query") => &["q_proj"],
        (_, "key") => &["k_proj"],
        (_, "value") => &["v_proj"],
        (_, "projection") => &["o_proj"],
        (_, "mlp") => &["gate_proj", "up_proj", "down_proj"],
        _ => &[],
    }
}
