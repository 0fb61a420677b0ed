//! `LlamaForCausalLM` and the classes written like it: RMS norms, rotary positions, a gated MLP,
//! grouped heads, with Mistral's and Qwen's differences.

use serde_json::Value;

use super::{Activation, Family, Positions, Projection, activation, linear, must_divide};
use crate::scenario::Table;
use crate::scenario::document::{choice_fault, type_fault};
use crate::scenario::limits;
use crate::wire::{Fault, Faults, ModelKind, Rule};

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

impl Family for LlamaLike {
    fn class(&self) -> &'static str {
        self.kind.class()
    }

    fn layers(&self) -> u64 {
        self.layers
    }

    fn layer_kinds(&self) -> [u64; 2] {
        let whole =
            self.sliding_window.as_ref().map_or(0, |window| window.first_layer.min(self.layers));
        [whole, self.layers - whole]
    }

    fn set_layer_kinds(&mut self, [whole, others]: [u64; 2]) {
        self.layers = whole + others;
        if let Some(window) = &mut self.sliding_window {
            window.first_layer = whole;
        }
    }

    fn hidden(&self) -> u64 {
        self.hidden
    }

    fn heads(&self) -> u64 {
        self.heads
    }

    fn head_dim(&self) -> u64 {
        self.head_dim
    }

    fn vocab(&self) -> u64 {
        self.vocab
    }

    fn positions(&self) -> Positions {
        Positions::Trained(self.positions)
    }

    fn widest(&self) -> u64 {
        self.intermediate.max(self.hidden).max(self.heads * self.head_dim)
    }

    fn tied(&self) -> bool {
        self.tied
    }

    fn projections(&self) -> Vec<Projection> {
        let Self { hidden, intermediate, layers, head_dim, .. } = *self;
        let [q, kv] = [self.heads, self.kv_heads].map(|heads| heads * head_dim);
        [
            ("q_proj", hidden, q),
            ("k_proj", hidden, kv),
            ("v_proj", hidden, kv),
            ("o_proj", q, hidden),
            ("gate_proj", hidden, intermediate),
            ("up_proj", hidden, intermediate),
            ("down_proj", intermediate, hidden),
        ]
        .map(|(name, inputs, outputs)| Projection { name, inputs, outputs, count: layers })
        .to_vec()
    }

    /// Rotary frequencies and their copy, fp32.
    fn buffers(&self) -> Vec<u64> {
        vec![self.head_dim / 2 * 4; 2]
    }

    /// ```text
    /// V·h + L·(2·h·q + 2·h·kv + 3·h·f + 2h + biases + norms) + h  [+ V·h untied]
    /// ```
    ///
    /// `q` and `kv`: heads times head width.
    fn parameters(&self) -> u128 {
        let [h, f, d] = [self.hidden, self.intermediate, self.head_dim].map(u128::from);
        let [layers, vocab] = [self.layers, self.vocab].map(u128::from);
        let [q, kv] = [self.heads, self.kv_heads].map(|heads| u128::from(heads) * d);
        let attention = linear(h, q, self.qkv_bias)
            + 2 * linear(h, kv, self.qkv_bias)
            + linear(q, h, self.output_bias);
        let mlp = 2 * linear(h, f, self.mlp_bias) + linear(f, h, self.mlp_bias);
        let norms = 2 * h + if self.qk_norm { 2 * d } else { 0 };
        let head = if self.tied { 0 } else { vocab * h };
        vocab * h + layers * (norms + attention + mlp) + h + head
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { vocab, hidden, layers, heads, kv_heads, head_dim, intermediate, tied, .. } =
            self;
        [
            "V·h·(1 or 2) + L·(h·d·(2n + 2n_kv) + 3h·f + biases + norms) + h".to_owned(),
            format!(
                "V={vocab}, h={hidden}, L={layers}, n={heads}, n_kv={kv_heads}, d={head_dim}, \
                 f={intermediate}, tied={tied}"
            ),
        ]
    }
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
        _ => Defaults {
            vocab: 32_000,
            intermediate: 11_008,
            kv_heads: None,
            head_dim: None,
            positions: 2_048,
        },
    }
}

/// Source: transformers 5.17, `models/{llama,mistral,qwen2,qwen3}/configuration_*.py`.
pub(super) fn read(
    kind: ModelKind,
    table: &mut Table<'_>,
    faults: &mut Faults,
) -> Option<LlamaLike> {
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
        _ => None,
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
        _ => Biases { qkv: false, output: false, mlp: false },
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
