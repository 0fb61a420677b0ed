//! `GPTModel` of Megatron-core, from its "local" layer specification or from Transformer Engine's.

use super::fields::must_be_off;
use super::{Family, Positions, must_divide};
use crate::scenario::Table;
use crate::scenario::document::choice_fault;
use crate::scenario::limits;
use crate::wire::{Fault, Faults, Rule};

/// Its shape: arguments of `TransformerConfig` and `GPTModel` by their own names.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of the class that do not depend on each other"
)]
pub struct MegatronGpt {
    /// `num_layers`.
    pub layers: u64,
    /// `hidden_size`.
    pub hidden: u64,
    /// `num_attention_heads`.
    pub heads: u64,
    /// `num_query_groups`.
    pub groups: u64,
    /// `kv_channels`.
    pub head_dim: u64,
    /// `ffn_hidden_size`; of each expert `moe_ffn_hidden_size`.
    pub ffn: u64,
    /// `vocab_size`, padded.
    pub vocab: u64,
    /// `max_sequence_length`: rows of the table of positions, where there is one.
    pub positions: u64,
    /// `position_embedding_type`.
    pub position: Position,
    /// Elements of a head that rotate: `kv_channels` times `rotary_percent`.
    pub rotary_dim: u64,
    /// `normalization`.
    pub normalization: Normalization,
    /// `gated_linear_unit` with `activation_func = "silu"`.
    pub gated: bool,
    /// `activation_func = "squared_relu"`; plain GELU where neither is set.
    pub squared_relu: bool,
    /// `add_bias_linear`.
    pub bias: bool,
    /// `add_qkv_bias`, or `add_bias_linear`.
    pub qkv_bias: bool,
    /// `bias_activation_fusion`.
    pub fused_activation: bool,
    /// `bias_dropout_fusion`.
    pub fused_dropout: bool,
    /// `hidden_dropout`.
    pub hidden_dropout: f64,
    /// `attention_dropout`.
    pub attention_dropout: f64,
    /// `share_embeddings_and_output_weights`.
    pub tied: bool,
    /// `masked_softmax_fusion`: mask and softmax of the scores in one kernel.
    pub fused_softmax: bool,
    /// `embed_layernorm` of Megatron-DeepSpeed: a norm after the embedding.
    pub embedding_norm: bool,
    /// `account_for_embedding_in_pipeline_split`: the first stage has a layer less.
    pub split_embedding: bool,
    /// `account_for_loss_in_pipeline_split`: the last stage has a layer less.
    pub split_loss: bool,
    /// `num_layers_in_first_pipeline_stage` and `num_layers_in_last_pipeline_stage`, where the layers of a
    /// pipeline are not dealt evenly.
    pub end_layers: [Option<u64>; 2],
    /// Experts, where the layers have them.
    pub mixture: Option<Mixture>,
    /// `transformer_impl = "transformer_engine"`: its modules in place of the local ones.
    pub engine: Option<Engine>,
}

/// Options of a model whose layers are Transformer Engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on each other")]
pub struct Engine {
    /// `attention_backend = "unfused"`: the scores are written out.
    pub unfused: bool,
    /// `apply_rope_fusion`.
    pub fused_rope: bool,
    /// `cross_entropy_loss_fusion` with `cross_entropy_fusion_impl = "te"`.
    pub fused_loss: bool,
    /// `gradient_accumulation_fusion`: gradients of weights are added to their buffer by the products.
    pub fused_gradients: bool,
    /// `create_attention_mask_in_dataloader`.
    pub mask: bool,
}

/// Where positions enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A table that is added to the embedding.
    Learned,
    /// Rotations of queries and keys.
    Rope,
    /// Nowhere.
    None,
}

/// A layer's norms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalization {
    /// `torch.nn.LayerNorm`.
    LayerNorm,
    /// `torch.nn.RMSNorm`.
    RmsNorm,
}

/// The experts of a layer (`SequentialMLP` behind `MoEAlltoAllTokenDispatcher`).
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// `num_moe_experts`.
    pub experts: u64,
    /// `moe_router_topk`.
    pub top_k: u64,
    /// How tokens spread over the experts.
    pub load: ExpertLoad,
}

/// How tokens spread over experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertLoad {
    /// Evenly, by random scores (`moe_router_force_load_balancing`).
    Balanced,
    /// Every token chooses the first experts, which the simulated rank has.
    First,
}

impl MegatronGpt {
    /// Columns of queries.
    pub const fn query_width(&self) -> u64 {
        self.heads * self.head_dim
    }

    /// Columns of queries, keys and values together.
    pub const fn qkv_width(&self) -> u64 {
        (self.heads + 2 * self.groups) * self.head_dim
    }

    /// Columns of an MLP's first product.
    pub const fn first_width(&self) -> u64 {
        if self.gated { 2 * self.ffn } else { self.ffn }
    }

    /// Parameters of one layer.
    fn layer_parameters(&self) -> u128 {
        let [h, q, qkv, first, ffn] =
            [self.hidden, self.query_width(), self.qkv_width(), self.first_width(), self.ffn]
                .map(u128::from);
        let on = |flag: bool, size: u128| if flag { size } else { 0 };
        let norm = self.norm_parameters();
        let attention = q * h + on(self.bias, h) + qkv * h + on(self.qkv_bias, qkv);
        let mlp = first * h + on(self.bias, first) + ffn * h + on(self.bias, h);
        let mlp = match &self.mixture {
            None => mlp,
            Some(mixture) => u128::from(mixture.experts) * (mlp + h),
        };
        2 * norm + attention + mlp
    }

    fn norm_parameters(&self) -> u128 {
        let each = u128::from(self.hidden);
        if self.normalization == Normalization::LayerNorm { 2 * each } else { each }
    }
}

impl Family for MegatronGpt {
    fn class(&self) -> &'static str {
        "megatron.core.models.gpt.GPTModel"
    }

    fn layers(&self) -> u64 {
        self.layers
    }

    fn set_layer_kinds(&mut self, [whole, others]: [u64; 2]) {
        self.layers = whole + others;
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
        if self.position == Position::Learned {
            Positions::Table(self.positions)
        } else {
            Positions::Trained(self.positions)
        }
    }

    fn widest(&self) -> u64 {
        let copies = self.mixture.as_ref().map_or(1, |mixture| mixture.top_k);
        (copies * self.first_width()).max(self.qkv_width())
    }

    fn flash_head_dim(&self) -> bool {
        // The local specification writes the scores out.
        self.engine.is_some()
    }

    fn tied(&self) -> bool {
        self.tied
    }

    /// Of the whole model, whatever the layout over ranks.
    fn parameters(&self) -> u128 {
        let [h, vocab, positions, layers] =
            [self.hidden, self.vocab, self.positions, self.layers].map(u128::from);
        let table = if self.position == Position::Learned { positions * h } else { 0 };
        let tables = if self.tied { 1 } else { 2 };
        let table = table + if self.embedding_norm { self.norm_parameters() } else { 0 };
        tables * vocab * h + table + layers * self.layer_parameters() + self.norm_parameters()
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { vocab, hidden, layers, .. } = self;
        [
            "V·h·(1 or 2) + P·h + L·layer + norms".to_owned(),
            format!("V={vocab}, h={hidden}, L={layers}, layer={}", self.layer_parameters()),
        ]
    }
}

/// Arguments that ask for another program.
const OFF: [&str; 19] = [
    "apply_query_key_layer_scaling",
    "attention_output_gate",
    "cpu_offloading",
    "fp4",
    "fp8",
    "fp32_residual_connection",
    "moe_aux_loss_coeff",
    "moe_expert_capacity_factor",
    "moe_grouped_gemm",
    "moe_latent_size",
    "moe_permute_fusion",
    "moe_router_enable_expert_bias",
    "moe_router_pre_softmax",
    "moe_shared_expert_intermediate_size",
    "moe_z_loss_coeff",
    "mtp_num_layers",
    "multi_latent_attention",
    "qk_layernorm",
    "window_size",
];

/// Source: megatron-core 0.19.2, `transformer/transformer_config.py` (`TransformerConfig.__post_init__`
/// fills in what is absent), `models/gpt/gpt_model.py`.
pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults) -> Option<MegatronGpt> {
    check_others(table, faults);
    let layers = table.required_integer("num_layers", limits::LAYERS, faults);
    let hidden = table.required_integer("hidden_size", limits::WIDTH, faults);
    let heads = table.required_integer("num_attention_heads", limits::HEADS, faults);
    let groups = table.integer_or("num_query_groups", limits::HEADS, heads.unwrap_or(1), faults);
    let per_head = hidden.zip(heads).map_or(1, |(hidden, heads)| (hidden / heads).max(1));
    let head_dim = table.integer_or("kv_channels", limits::HEAD_DIM, per_head, faults);
    let four = hidden.map_or(1, |hidden| 4 * hidden);
    let ffn = table.integer_or("ffn_hidden_size", limits::WIDTH, four, faults);
    let vocab = table.required_integer("vocab_size", limits::VOCAB, faults);
    let (position, positions) = positions(table, faults);
    let words = [("LayerNorm", Normalization::LayerNorm), ("RMSNorm", Normalization::RmsNorm)];
    let normalization = choice(table, "normalization", &words, faults);
    let gated = table.flag_or("gated_linear_unit", false, faults)?;
    let activation: &[(&str, bool)] =
        if gated { &[("silu", false)] } else { &[("gelu", false), ("squared_relu", true)] };
    let squared_relu = choice(table, "activation_func", activation, faults)?;
    let bias = table.flag_or("add_bias_linear", true, faults)?;
    let qkv_bias = table.flag_or("add_qkv_bias", false, faults)? || bias;
    let fused_activation = table.flag_or("bias_activation_fusion", false, faults);
    let fused_dropout = table.flag_or("bias_dropout_fusion", false, faults);
    let hidden_dropout = table.number_or("hidden_dropout", limits::DROPOUT, 0.1, faults);
    let attention_dropout = table.number_or("attention_dropout", limits::DROPOUT, 0.1, faults);
    let tied = table.flag_or("share_embeddings_and_output_weights", false, faults);
    let [fused_softmax, embedding_norm, split_embedding, split_loss] = switches(table, faults)?;
    let experts = table.integer_or("num_moe_experts", 0..=*limits::HEADS.end(), 0, faults)?;
    let (mixture, ffn) = match experts {
        0 => (None, ffn),
        experts => mixture(table, experts, ffn, faults)?,
    };
    let engine = engine(table, mixture.is_some(), faults);
    let fused = fused_activation == Some(true);
    check_activation(table, [fused, gated, bias, mixture.is_some()], faults);
    check_squared(table, [squared_relu, fused, mixture.is_some()], faults);
    let rotary_dim = rotary_dim(table, position, head_dim.unwrap_or(2), faults);
    if let (Some(groups), Some(heads)) = (groups, heads) {
        must_divide(table, ("num_query_groups", groups), ("num_attention_heads", heads), faults);
    }
    Some(MegatronGpt {
        layers: layers?,
        hidden: hidden?,
        heads: heads?,
        groups: groups?,
        head_dim: head_dim?,
        ffn: ffn?,
        vocab: vocab?,
        positions: positions?,
        position: position?,
        rotary_dim,
        normalization: normalization?,
        gated,
        squared_relu,
        bias,
        qkv_bias,
        fused_activation: fused_activation?,
        fused_dropout: fused_dropout?,
        hidden_dropout: hidden_dropout?,
        attention_dropout: attention_dropout?,
        tied: tied?,
        fused_softmax,
        embedding_norm,
        split_embedding,
        split_loss,
        end_layers: end_layers(table, faults)?,
        mixture,
        engine: engine?,
    })
}

/// Layers of the first and of the last stage, where they are given.
fn end_layers(table: &mut Table<'_>, faults: &mut Faults) -> Option<[Option<u64>; 2]> {
    let mut layers = |key| match table.value(key) {
        Some(_) => table.required_integer(key, limits::LAYERS, faults).map(Some),
        None => Some(None),
    };
    let first = layers("num_layers_in_first_pipeline_stage")?;
    let last = layers("num_layers_in_last_pipeline_stage")?;
    Some([first, last])
}

/// Switches that are off by default.
fn switches(table: &mut Table<'_>, faults: &mut Faults) -> Option<[bool; 4]> {
    let mut flag = |key| table.flag_or(key, false, faults);
    Some([
        flag("masked_softmax_fusion")?,
        flag("embed_layernorm")?,
        flag("account_for_embedding_in_pipeline_split")?,
        flag("account_for_loss_in_pipeline_split")?,
    ])
}

/// A squared `ReLU` is fused with no bias, and experts are simulated without it.
fn check_squared(table: &Table<'_>, [squared, fused, mixture]: [bool; 3], faults: &mut Faults) {
    if squared && fused {
        let path = table.path("bias_activation_fusion");
        let message = "`bias_activation_fusion` goes with GELU and SwiGLU alone \
                       (`TransformerConfig.__post_init__`)";
        faults.push(Fault::new(path.clone(), Rule::Conflict, message).mend(path, false));
    }
    if squared && mixture {
        let reason = "experts are simulated with GELU and SwiGLU alone";
        let fault = Fault::new(table.path("activation_func"), Rule::Unsupported, reason);
        faults.push(fault.arguments([reason.to_owned()]));
    }
}

/// Elements of a head that rotate, which are whole pairs.
fn rotary_dim(
    table: &mut Table<'_>,
    position: Option<Position>,
    head_dim: u64,
    faults: &mut Faults,
) -> u64 {
    let share = table.number_or("rotary_percent", 0.0..=1.0, 1.0, faults);
    let dim = part_of(head_dim, share.unwrap_or(1.0));
    if position == Some(Position::Rope) && (dim < 2 || !dim.is_multiple_of(2)) {
        let path = table.path("kv_channels");
        let message = "rotary embeddings turn pairs of elements: heads have an even width";
        faults.push(Fault::new(path, Rule::Divisible, message));
    }
    dim
}

/// `int(kv_channels * rotary_percent)` (`RotaryEmbedding.__init__`).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a width within its limits"
)]
fn part_of(head_dim: u64, share: f64) -> u64 {
    (head_dim as f64 * share) as u64
}

/// Whose modules the layers are made of.
///
/// Source: `transformer_impl` and what goes with it in megatron-core 0.19.2
/// (`transformer/transformer_config.py`, `models/gpt/gpt_layer_specs.py`).
#[expect(clippy::option_option, reason = "absent where a field cannot be read, and where local")]
fn engine(table: &mut Table<'_>, mixture: bool, faults: &mut Faults) -> Option<Option<Engine>> {
    let words = [("local", false), ("transformer_engine", true)];
    let is_engine = choice(table, "transformer_impl", &words, faults)?;
    let backend: &[(&str, bool)] = if is_engine {
        &[("auto", false), ("fused", false), ("unfused", true)]
    } else {
        &[("auto", true), ("unfused", true)]
    };
    let unfused = choice(table, "attention_backend", backend, faults);
    if !is_engine {
        for key in ["apply_rope_fusion", "cross_entropy_loss_fusion"] {
            must_be_off(table, key, "its program is not simulated", faults);
        }
        // Without Transformer Engine a gradient that was added already leaves a dummy of its size.
        table.flag_or("gradient_accumulation_fusion", false, faults);
        return Some(None);
    }
    if mixture {
        let reason = "experts of Transformer Engine are not simulated: set `transformer_impl` to \
                      `local`";
        let fault = Fault::new(table.path("transformer_impl"), Rule::Unsupported, reason);
        faults.push(fault.arguments([reason.to_owned()]));
    }
    let fused_rope = table.flag_or("apply_rope_fusion", false, faults);
    let fused_loss = table.flag_or("cross_entropy_loss_fusion", false, faults);
    if fused_loss == Some(true) {
        // The default, `native`, is another program.
        choice(table, "cross_entropy_fusion_impl", &[("te", ())], faults);
    }
    let fused_gradients = table.flag_or("gradient_accumulation_fusion", false, faults);
    let mask = table.flag_or("create_attention_mask_in_dataloader", true, faults);
    Some(Some(Engine {
        unfused: unfused?,
        fused_rope: fused_rope?,
        fused_loss: fused_loss?,
        fused_gradients: fused_gradients?,
        mask: mask?,
    }))
}

/// Arguments that change no size, and those that ask for another program.
fn check_others(table: &mut Table<'_>, faults: &mut Faults) {
    for key in OFF {
        must_be_off(table, key, "its program is not simulated", faults);
    }
    // It goes with the default load.
    table.flag_or("moe_router_force_load_balancing", true, faults);
}

/// Activations that Megatron-core, or this program, does not have.
fn check_activation(
    table: &Table<'_>,
    [fused, gated, bias, mixture]: [bool; 4],
    faults: &mut Faults,
) {
    if fused && !gated && !bias {
        let path = table.path("add_bias_linear");
        let message = "`bias_activation_fusion` without a gated linear unit needs a bias \
                       (`TransformerConfig.__post_init__`)";
        faults.push(Fault::new(path.clone(), Rule::Conflict, message).mend(path, true));
    }
    if mixture && (bias || (fused && !gated)) {
        let path = table.path("num_moe_experts");
        let reason = "experts are simulated without biases, and fused with SwiGLU alone: set \
                      `add_bias_linear` to false, and `gated_linear_unit` to true";
        let fault = Fault::new(path, Rule::Unsupported, reason);
        faults.push(fault.arguments([reason.to_owned()]));
    }
}

/// Where positions enter, and how many there are.
fn positions(table: &mut Table<'_>, faults: &mut Faults) -> (Option<Position>, Option<u64>) {
    let position = choice(
        table,
        "position_embedding_type",
        &[
            ("learned_absolute", Position::Learned),
            ("rope", Position::Rope),
            ("none", Position::None),
        ],
        faults,
    );
    let positions = if position == Some(Position::Learned) {
        table.required_integer("max_sequence_length", limits::POSITIONS, faults)
    } else {
        let most = *limits::POSITIONS.end();
        table.integer_or("max_sequence_length", limits::POSITIONS, most, faults)
    };
    (position, positions)
}

/// The experts, and the width of each.
fn mixture(
    table: &mut Table<'_>,
    experts: u64,
    ffn: Option<u64>,
    faults: &mut Faults,
) -> Option<(Option<Mixture>, Option<u64>)> {
    let top_k = table.integer_or("moe_router_topk", 1..=experts, 2.min(experts), faults);
    let width = table.integer_or("moe_ffn_hidden_size", limits::WIDTH, ffn.unwrap_or(1), faults);
    let load = choice(
        table,
        "expert_load",
        &[("balanced", ExpertLoad::Balanced), ("first", ExpertLoad::First)],
        faults,
    );
    Some((Some(Mixture { experts, top_k: top_k?, load: load? }), width))
}

/// One of several words; the first is the default.
fn choice<T: Copy>(
    table: &mut Table<'_>,
    key: &'static str,
    words: &[(&str, T)],
    faults: &mut Faults,
) -> Option<T> {
    let Some(name) = table.text(key, faults) else {
        return table.value(key).is_none().then(|| words[0].1);
    };
    let found = words.iter().find(|(word, _)| *word == name);
    if found.is_none() {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let mut fault = choice_fault(table.path(key), name, &names);
        fault.rule = Rule::Unsupported;
        faults.push(fault);
    }
    found.map(|(_, choice)| *choice)
}
