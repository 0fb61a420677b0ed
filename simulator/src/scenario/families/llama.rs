//! `LlamaForCausalLM` and the classes written like it: RMS norms, rotary positions, a gated MLP or
//! experts, grouped heads or latent ones, with the differences of Mistral, Qwen and `DeepSeek`.

use serde_json::Value;

use super::defaults::defaults;
use super::experts::{self, Experts, Router};
use super::gemma::{self, Gemma};
use super::latent::{self, Latent};
use super::phi3::{self, Phi3};
use super::{Activation, Family, Positions, Projection, activation, linear, must_divide};
use crate::scenario::Table;
use crate::scenario::document::{choice_fault, type_fault};
use crate::scenario::limits;
use crate::wire::{Fault, Faults, ModelKind, Rule};

/// `LlamaForCausalLM`, `MistralForCausalLM`, `MixtralForCausalLM`, `Qwen2ForCausalLM`,
/// `Qwen2MoeForCausalLM`, `Qwen3ForCausalLM`, `Qwen3MoeForCausalLM`, `DeepseekV3ForCausalLM`,
/// `Gemma2ForCausalLM`, `Gemma3ForCausalLM`, `Phi3ForCausalLM`.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each yes-or-no field of config.json")]
pub struct LlamaLike {
    /// Which of the classes.
    pub kind: ModelKind,
    /// `hidden_size`.
    pub hidden: u64,
    /// `intermediate_size`: width of a plain MLP.
    pub intermediate: u64,
    /// `num_hidden_layers`.
    pub layers: u64,
    /// `num_attention_heads`.
    pub heads: u64,
    /// `num_key_value_heads`.
    pub kv_heads: u64,
    /// Elements of a query and of a key head: `head_dim`.
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
    /// RMS norm over the head dimension of q and k (Qwen3, Gemma 3).
    pub qk_norm: bool,
    /// Layers from this one on attend within a window, when the class uses one.
    pub sliding_window: Option<SlidingWindow>,
    /// Keys and values out of a latent vector.
    pub latent: Option<Latent>,
    /// Mixtures in place of MLPs.
    pub experts: Option<Experts>,
    /// What Gemma's classes have besides.
    pub gemma: Option<Gemma>,
    /// What Phi-3's class has besides.
    pub phi3: Option<Phi3>,
    /// `hidden_act`; Gemma's `hidden_activation`.
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
    /// Whether each layer uses it, where layers with and without it take turns.
    pub listed: Option<Vec<bool>>,
    /// Whether the class makes a mask for layers without it in any case.
    pub beside_full: bool,
}

impl SlidingWindow {
    /// Whether a layer uses it.
    pub fn applies_to(&self, layer: u64) -> bool {
        match &self.listed {
            Some(listed) => usize::try_from(layer).is_ok_and(|i| listed.get(i) == Some(&true)),
            None => self.first_layer <= layer,
        }
    }
}

impl Family for LlamaLike {
    fn class(&self) -> &'static str {
        self.kind.class()
    }

    fn idle_parameters(&self) -> u64 {
        let [_, mixtures] = self.layer_kinds();
        let idle = |experts: &Experts| mixtures * experts.idle_parameters(self.hidden);
        self.experts.as_ref().map_or(0, idle)
    }

    fn layers(&self) -> u64 {
        self.layers
    }

    fn layer_kinds(&self) -> [u64; 2] {
        let experts = self.experts.as_ref().map(|experts| experts.first_layer);
        let window = self.sliding_window.as_ref().map(|window| window.first_layer);
        let first = experts.or(window).unwrap_or(0).min(self.layers);
        [first, self.layers - first]
    }

    fn alternates(&self) -> bool {
        self.sliding_window.as_ref().is_some_and(|window| window.listed.is_some())
    }

    fn set_layer_kinds(&mut self, [first, others]: [u64; 2]) {
        self.layers = first + others;
        // Where layers differ by their MLP, all of them have the window, or none.
        if let Some(experts) = &mut self.experts {
            experts.first_layer = first;
        } else if let Some(window) = &mut self.sliding_window {
            window.first_layer = first;
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
        let experts = self.experts.as_ref().map_or(0, Experts::widest);
        let fused = self.phi3.map_or(0, |_| {
            (2 * self.intermediate).max((self.heads + 2 * self.kv_heads) * self.head_dim)
        });
        let plain = self.intermediate.max(self.hidden).max(self.heads * self.head_dim);
        plain.max(fused).max(experts)
    }

    fn tied(&self) -> bool {
        self.tied
    }

    /// Experts are stacked parameters, not linear layers, and latent attention has layers of its own.
    fn projections(&self) -> Vec<Projection> {
        let Self { hidden, intermediate, layers, head_dim, .. } = *self;
        let [q, kv] = [self.heads, self.kv_heads].map(|heads| heads * head_dim);
        let attention = [
            ("q_proj", hidden, q),
            ("k_proj", hidden, kv),
            ("v_proj", hidden, kv),
            ("o_proj", q, hidden),
        ];
        let mlp = [
            ("gate_proj", hidden, intermediate),
            ("up_proj", hidden, intermediate),
            ("down_proj", intermediate, hidden),
        ];
        let fused = [
            ("o_proj", q, hidden),
            ("qkv_proj", hidden, q + 2 * kv),
            ("gate_up_proj", hidden, 2 * intermediate),
            ("down_proj", intermediate, hidden),
        ];
        let separate = self.phi3.is_none();
        let attention = attention.into_iter().filter(|_| separate && self.latent.is_none());
        let mlp = mlp.into_iter().filter(|_| separate && self.experts.is_none());
        attention
            .chain(mlp)
            .chain(fused.into_iter().filter(|_| !separate))
            .map(|(name, inputs, outputs)| Projection { name, inputs, outputs, count: layers })
            .collect()
    }

    /// Rotary frequencies, a grouped router's correction of its scores in each mixture, and the scale of
    /// Gemma's embedding.
    fn buffer_bytes(&self, weight_bytes: u64) -> u64 {
        let corrections = match &self.experts {
            Some(Experts { count, router: Router::Grouped { .. }, .. }) => {
                self.layer_kinds()[1] * count * weight_bytes
            }
            _ => 0,
        };
        let embed_scale = if self.gemma.is_some() { weight_bytes } else { 0 };
        self.rotary_buffers().iter().sum::<u64>() + corrections + embed_scale
    }

    /// ```text
    /// V·h + L·(2·h·q + 2·h·kv + 3·h·f + 2h + biases + norms) + h  [+ V·h untied]   (Gemma: 4h)
    /// ```
    ///
    /// `q` and `kv`: heads times head width.
    fn parameters(&self) -> u128 {
        let [h, f, d] = [self.hidden, self.intermediate, self.head_dim].map(u128::from);
        let [layers, vocab] = [self.layers, self.vocab].map(u128::from);
        let [q, kv] = [self.heads, self.kv_heads].map(|heads| u128::from(heads) * d);
        let attention = match &self.latent {
            Some(latent) => latent.parameters(h, u128::from(self.heads), self.qkv_bias),
            None => {
                linear(h, q, self.qkv_bias)
                    + 2 * linear(h, kv, self.qkv_bias)
                    + linear(q, h, self.output_bias)
            }
        };
        let mlp = 2 * linear(h, f, self.mlp_bias) + linear(f, h, self.mlp_bias);
        let of_layer = if self.gemma.is_some() { 4 * h } else { 2 * h };
        let norms = of_layer + if self.qk_norm { 2 * d } else { 0 };
        let head = if self.tied { 0 } else { vocab * h };
        let [plain, others] = self.layer_kinds().map(u128::from);
        let mixtures = self.experts.as_ref().map(|experts| others * experts.parameters(h));
        let mlps = mixtures.map_or(layers * mlp, |mixtures| plain * mlp + mixtures);
        vocab * h + layers * (norms + attention) + mlps + h + head
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { vocab, hidden, layers, heads, kv_heads, head_dim, intermediate, tied, .. } =
            self;
        let (attention, widths) = match &self.latent {
            None => ("h·d·(2n + 2n_kv)", format!("n_kv={kv_heads}, d={head_dim}")),
            Some(latent) => latent.formula(),
        };
        let (mlp, mixtures, experts) = match &self.experts {
            None => (" + 3h·f", "", String::new()),
            Some(experts) => {
                let [plain, mixtures] = self.layer_kinds();
                let Experts { count, intermediate, shared, .. } = experts;
                let shared = shared.unwrap_or(0);
                (
                    "",
                    " + L_p·3h·f + L_e·(E·h + 3h·(E·f_e + f_s))",
                    format!(
                        ", L_p={plain}, L_e={mixtures}, E={count}, f_e={intermediate}, f_s={shared}"
                    ),
                )
            }
        };
        [
            format!("V·h·(1 or 2) + L·({attention}{mlp} + biases + norms){mixtures} + h"),
            format!(
                "V={vocab}, h={hidden}, L={layers}, n={heads}, {widths}, f={intermediate}{experts}, \
                 tied={tied}"
            ),
        ]
    }
}

impl LlamaLike {
    /// Elements of a head that carry rotary positions.
    pub fn rotary_dim(&self) -> u64 {
        let part = self.phi3.map_or(self.head_dim, |phi| phi.rotary_dim);
        self.latent.as_ref().map_or(part, |latent| latent.rotary_dim)
    }

    /// Bytes of the rotary frequencies and of their copy, fp32, for each kind of layer that has its own.
    pub fn rotary_buffers(&self) -> Vec<u64> {
        let kinds = self.gemma.as_ref().map_or(1, |gemma| gemma.rotary_kinds);
        (0..2 * kinds).map(|_| self.rotary_dim() / 2 * 4).collect()
    }
}

/// Source: transformers 5.17, `models/{llama,mistral,mixtral,qwen2,qwen3,qwen3_moe}/configuration_*.py`.
pub(super) fn read(
    kind: ModelKind,
    table: &mut Table<'_>,
    faults: &mut Faults,
) -> Option<LlamaLike> {
    let default = defaults(kind);
    let vocab = table.integer_or("vocab_size", limits::VOCAB, default.vocab, faults);
    let intermediate =
        table.integer_or("intermediate_size", limits::WIDTH, default.intermediate, faults);
    let layers = table.integer_or("num_hidden_layers", limits::LAYERS, default.layers, faults);
    let positions =
        table.integer_or("max_position_embeddings", limits::POSITIONS, default.positions, faults);
    let latent = match kind {
        ModelKind::DeepseekV3 => Some(latent::read(table, faults)?),
        _ => None,
    };
    let heads = match &latent {
        Some(latent) => latent_heads(latent, table, faults),
        None => head_counts(kind, table, faults),
    };
    let biases = biases(kind, table, faults);
    let is_gemma = matches!(kind, ModelKind::Gemma2 | ModelKind::Gemma3Text);
    let activation = if is_gemma {
        activation(table, "hidden_activation", Activation::GeluTanh, faults)
    } else {
        activation(table, "hidden_act", Activation::Silu, faults)
    };
    let attention_dropout = table.number_or("attention_dropout", limits::DROPOUT, 0.0, faults);
    let tied = table.flag_or("tie_word_embeddings", is_gemma, faults);
    let (gemma, listed_window) = if is_gemma {
        Some(gemma::read(kind, layers?, table, faults)?).unzip()
    } else {
        (None, None)
    };
    let sliding_window = listed_window.or(sliding_window(kind, layers?, table, faults));
    let experts = match kind {
        ModelKind::DeepseekV3 | ModelKind::Mixtral | ModelKind::Qwen2Moe | ModelKind::Qwen3Moe => {
            Some(experts::read(kind, intermediate?, table, faults)?)
        }
        _ => None,
    };
    let (heads, biases) = (heads?, biases?);
    let phi3 = match kind {
        ModelKind::Phi3 => Some(phi3::read(heads.head_dim, table, faults)?),
        _ => None,
    };
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
        qk_norm: matches!(kind, ModelKind::Qwen3 | ModelKind::Qwen3Moe | ModelKind::Gemma3Text),
        sliding_window,
        latent,
        experts,
        gemma,
        phi3,
        activation: activation?,
        attention_dropout: attention_dropout?,
        tied: tied?,
    })
}

fn sliding_window(
    kind: ModelKind,
    layers: u64,
    table: &mut Table<'_>,
    faults: &mut Faults,
) -> Option<SlidingWindow> {
    match kind {
        ModelKind::Mistral => window(table, 4_096, faults),
        ModelKind::Mixtral | ModelKind::Phi3 => window(table, 0, faults),
        ModelKind::Qwen3Moe => optional_window(table, faults),
        ModelKind::Qwen2Moe => Some(unused_window(table, layers, faults)),
        ModelKind::Qwen2 | ModelKind::Qwen3 => qwen_window(table, layers, faults),
        _ => None,
    }
}

struct HeadCounts {
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
}

fn head_counts(kind: ModelKind, table: &mut Table<'_>, faults: &mut Faults) -> Option<HeadCounts> {
    let default = defaults(kind);
    let hidden = table.integer_or("hidden_size", limits::WIDTH, default.hidden, faults);
    let heads = table.integer_or("num_attention_heads", limits::HEADS, default.heads, faults);
    // Absent means the class's default; null always means "as many as attention heads".
    let absent = table.raw("num_key_value_heads").is_none();
    let fallback = default.kv_heads.filter(|_| absent).or(heads).unwrap_or(1);
    let kv_heads = table.integer_or("num_key_value_heads", limits::HEADS, fallback, faults);
    let own_head_dim = table.value("head_dim").is_some() || default.head_dim.is_some();
    let fallback = default.head_dim.or(Some(hidden? / heads?)).unwrap_or(1);
    let head_dim = table.integer_or("head_dim", limits::HEAD_DIM, fallback, faults);
    let (hidden, heads) = (hidden?, heads?);
    // Llama's and Gemma's classes insist on it even where `head_dim` is given.
    let insists = matches!(kind, ModelKind::Llama | ModelKind::Gemma2 | ModelKind::Gemma3Text);
    if insists || !own_head_dim {
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

/// Every head of latent attention has its own key and value.
fn latent_heads(latent: &Latent, table: &mut Table<'_>, faults: &mut Faults) -> Option<HeadCounts> {
    let default = defaults(ModelKind::DeepseekV3);
    let hidden = table.integer_or("hidden_size", limits::WIDTH, default.hidden, faults);
    let heads = table.integer_or("num_attention_heads", limits::HEADS, default.heads, faults);
    let absent = table.raw("num_key_value_heads").is_none();
    let fallback = default.kv_heads.filter(|_| absent).or(heads).unwrap_or(1);
    let kv_heads = table.integer_or("num_key_value_heads", limits::HEADS, fallback, faults);
    let (hidden, heads, kv_heads) = (hidden?, heads?, kv_heads?);
    if kv_heads != heads {
        let path = table.path("num_key_value_heads");
        let message = format!("latent attention has as many key heads as query heads ({heads})");
        let fault = Fault::new(path.clone(), Rule::Conflict, message);
        let fault = fault.arguments([kv_heads.to_string(), heads.to_string()]);
        faults.push(fault.mend(path, heads));
    }
    Some(HeadCounts { hidden, heads, kv_heads, head_dim: latent.head_dim() })
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
        ModelKind::DeepseekV3
        | ModelKind::Gemma2
        | ModelKind::Gemma3Text
        | ModelKind::Qwen3
        | ModelKind::Qwen3Moe => {
            let attention = table.flag_or("attention_bias", false, faults)?;
            Biases { qkv: attention, output: attention, mlp: false }
        }
        ModelKind::Qwen2Moe => {
            let qkv = table.flag_or("qkv_bias", true, faults)?;
            Biases { qkv, output: false, mlp: false }
        }
        ModelKind::Qwen2 => Biases { qkv: true, output: false, mlp: false },
        _ => Biases { qkv: false, output: false, mlp: false },
    })
}

/// Mistral: every layer has the window; a default of 4096 where the field is absent (Mixtral: none),
/// none where it is null (or 0, which is how TOML writes it).
fn window(table: &mut Table<'_>, default: u64, faults: &mut Faults) -> Option<SlidingWindow> {
    let tokens = match table.raw("sliding_window") {
        Some(Value::Null) => 0,
        _ => table.integer_or("sliding_window", 0..=*limits::POSITIONS.end(), default, faults)?,
    };
    let every = SlidingWindow { tokens, first_layer: 0, listed: None, beside_full: false };
    (0 < tokens).then_some(every)
}

/// Qwen's mixtures: every layer has the window, when `use_sliding_window` says so.
fn optional_window(table: &mut Table<'_>, faults: &mut Faults) -> Option<SlidingWindow> {
    let in_use = table.flag_or("use_sliding_window", false, faults);
    window(table, 4_096, faults).filter(|_| in_use == Some(true))
}

/// `Qwen2MoeConfig`: off unless `use_sliding_window`, which then alternates, and is not simulated. The
/// class makes a mask of window 0 nevertheless, and no layer uses it.
fn unused_window(table: &mut Table<'_>, layers: u64, faults: &mut Faults) -> SlidingWindow {
    let in_use = table.flag_or("use_sliding_window", false, faults);
    let listed = layer_types(table, layers, faults);
    let sliding = matches!(listed, Types::Listed(slides) if slides.contains(&true));
    if in_use == Some(true) || sliding {
        let key = if sliding { "layer_types" } else { "use_sliding_window" };
        let message = "windows in some layers of a mixture are not simulated";
        let fault = Fault::new(table.path(key), Rule::Unsupported, message);
        faults.push(fault.arguments([key.to_owned(), message.to_owned()]));
    }
    SlidingWindow { tokens: 0, first_layer: layers, listed: None, beside_full: true }
}

/// Qwen: off unless `use_sliding_window`; then the layers from `max_window_layers` on have it,
/// unless `layer_types` says otherwise.
fn qwen_window(table: &mut Table<'_>, layers: u64, faults: &mut Faults) -> Option<SlidingWindow> {
    let in_use = table.flag_or("use_sliding_window", false, faults);
    let range = 0..=*limits::POSITIONS.end();
    let null = table.raw("sliding_window").is_some_and(Value::is_null);
    let tokens = table.integer_or("sliding_window", range, if null { 0 } else { 4_096 }, faults);
    let from = table.integer_or("max_window_layers", 0..=*limits::WIDTH.end(), 28, faults);
    let listed = layer_types(table, layers, faults);
    let tokens = if in_use? { tokens? } else { 0 };
    let (first_layer, listed) = match listed {
        Types::Absent => (from?, None),
        Types::Listed(slides) => {
            let first = slides.iter().position(|&slides| slides).unwrap_or(slides.len());
            let take_turns = slides[first..].contains(&false);
            (first as u64, Some((slides, take_turns)))
        }
        Types::Wrong => return None,
    };
    if tokens == 0 && listed.is_some() && first_layer < layers {
        let message = "`layer_types` has sliding layers, but the window is off";
        let fault = Fault::new(table.path("layer_types"), Rule::Conflict, message);
        faults.push(fault.mend(table.path("use_sliding_window"), true));
    }
    let listed = listed.filter(|(_, take_turns)| *take_turns).map(|(slides, _)| slides);
    let window = SlidingWindow { tokens, first_layer, listed, beside_full: true };
    (0 < tokens && first_layer < layers).then_some(window)
}

/// The list in `layer_types`.
pub(super) enum Types {
    /// There is none.
    Absent,
    /// Whether each layer attends within the window.
    Listed(Vec<bool>),
    /// A fault was noted.
    Wrong,
}

/// Reads `layer_types`.
pub(super) fn layer_types(table: &mut Table<'_>, layers: u64, faults: &mut Faults) -> Types {
    const TYPES: [&str; 2] = ["full_attention", "sliding_attention"];
    let Some(value) = table.value("layer_types") else { return Types::Absent };
    let path = table.path("layer_types");
    let Value::Array(types) = value else {
        faults.push(type_fault(&path, "a list with a word per layer", value));
        return Types::Wrong;
    };
    let other = types.iter().position(|kind| !kind.as_str().is_some_and(|w| TYPES.contains(&w)));
    if let Some(index) = other {
        let found = types[index].as_str().unwrap_or("no text");
        faults.push(choice_fault(format!("{path}.{index}"), found, &TYPES));
        return Types::Wrong;
    }
    let count = types.len() as u64;
    if count != layers {
        let message = format!("{count} layer types for {layers} layers");
        let fault = Fault::new(path, Rule::Conflict, message);
        faults.push(fault.arguments([count.to_string(), layers.to_string()]));
        return Types::Wrong;
    }
    Types::Listed(types.iter().map(|kind| kind.as_str() == Some(TYPES[1])).collect())
}
