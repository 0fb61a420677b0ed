//! `PhiForCausalLM` and `GPTNeoXForCausalLM`: layer norms, rotary positions over part of each head, and an
//! MLP beside the attention instead of after it.

use super::fields::must_be_off;
use super::{Activation, Family, Positions, Projection, activation, linear, must_divide};
use crate::scenario::Table;
use crate::scenario::limits;
use crate::wire::{Fault, Faults, ModelKind, Rule};

/// The shape of both.
#[derive(Clone, Debug, PartialEq)]
pub struct Parallel {
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
    /// `num_key_value_heads` of Phi.
    pub kv_heads: u64,
    /// `vocab_size`.
    pub vocab: u64,
    /// `max_position_embeddings`.
    pub positions: u64,
    /// Elements of each head that are rotated.
    pub rotary_dim: u64,
    /// `hidden_act`.
    pub activation: Activation,
    /// `embd_pdrop`, `hidden_dropout`.
    pub embedding_dropout: f64,
    /// `attention_dropout`.
    pub attention_dropout: f64,
    /// `resid_pdrop`, `hidden_dropout`.
    pub residual_dropout: f64,
    /// `use_parallel_residual` of GPT-NeoX: whether the MLP reads what the attention reads.
    pub mlp_beside: bool,
    /// `attention_bias` of GPT-NeoX.
    pub attention_bias: bool,
    /// `tie_word_embeddings`.
    pub tied: bool,
}

impl Parallel {
    /// Whether it is `PhiForCausalLM`.
    pub fn is_phi(&self) -> bool {
        self.kind == ModelKind::Phi
    }

    /// Bytes of the inverse frequencies and of their copy, fp32.
    pub fn rotary_buffers(&self) -> [u64; 2] {
        [self.rotary_dim / 2 * 4; 2]
    }

    /// Layer norms of a layer.
    fn norms(&self) -> u64 {
        if self.is_phi() { 1 } else { 2 }
    }
}

impl Family for Parallel {
    fn class(&self) -> &'static str {
        self.kind.class()
    }

    alike_layers!();

    fn vocab(&self) -> u64 {
        self.vocab
    }

    fn positions(&self) -> Positions {
        Positions::Trained(self.positions)
    }

    fn widest(&self) -> u64 {
        self.intermediate.max(3 * self.hidden)
    }

    fn tied(&self) -> bool {
        self.tied
    }

    fn buffer_bytes(&self, _weight_bytes: u64) -> u64 {
        self.rotary_buffers().iter().sum()
    }

    fn projections(&self) -> Vec<Projection> {
        let Self { hidden, intermediate, layers, .. } = *self;
        let kv = self.kv_heads * self.head_dim();
        let of =
            |name, [inputs, outputs]: [u64; 2]| Projection { name, inputs, outputs, count: layers };
        if self.is_phi() {
            return vec![
                of("q_proj", [hidden, hidden]),
                of("k_proj", [hidden, kv]),
                of("v_proj", [hidden, kv]),
                of("dense", [hidden, hidden]),
                of("fc1", [hidden, intermediate]),
                of("fc2", [intermediate, hidden]),
            ];
        }
        vec![
            of("query_key_value", [hidden, 3 * hidden]),
            of("dense", [hidden, hidden]),
            of("dense_h_to_4h", [hidden, intermediate]),
            of("dense_4h_to_h", [intermediate, hidden]),
        ]
    }

    /// ```text
    /// V·h + L·(2·h² + 2·h·kv + 2·h·f + f + h + biases of attention + 2h·norms) + 2h
    /// [+ V·h untied] [+ V bias of Phi's head]
    /// ```
    fn parameters(&self) -> u128 {
        let [h, f, layers, vocab, norms] =
            [self.hidden, self.intermediate, self.layers, self.vocab, self.norms()].map(u128::from);
        let kv = u128::from(self.kv_heads * self.head_dim());
        let bias = self.attention_bias;
        let attention = 2 * linear(h, h, bias) + 2 * linear(h, kv, bias);
        let mlp = linear(h, f, true) + linear(f, h, true);
        let head = if self.tied { 0 } else { vocab * h } + if self.is_phi() { vocab } else { 0 };
        vocab * h + layers * (attention + mlp + 2 * h * norms) + 2 * h + head
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { vocab, hidden, layers, intermediate, tied, attention_bias, .. } = self;
        let kv = self.kv_heads * self.head_dim();
        [
            "V·h·(1 or 2) + L·(2h² + 2h·k + 2h·f + f + h + 2n·h + biases) + 2h [+ V]".to_owned(),
            format!(
                "V={vocab}, h={hidden}, k={kv}, L={layers}, f={intermediate}, n={}, \
                 attention_bias={attention_bias}, tied={tied}",
                self.norms()
            ),
        ]
    }
}

/// Source: transformers 5.17, `models/{phi,gpt_neox}/configuration_*.py`.
pub(super) fn read(
    kind: ModelKind,
    table: &mut Table<'_>,
    faults: &mut Faults,
) -> Option<Parallel> {
    let phi = kind == ModelKind::Phi;
    let of = |of_phi: u64, of_neox: u64| if phi { of_phi } else { of_neox };
    let hidden = table.integer_or("hidden_size", limits::WIDTH, of(2_048, 6_144), faults);
    let intermediate =
        table.integer_or("intermediate_size", limits::WIDTH, of(8_192, 24_576), faults);
    let layers = table.integer_or("num_hidden_layers", limits::LAYERS, of(24, 44), faults);
    let heads = table.integer_or("num_attention_heads", limits::HEADS, of(32, 64), faults);
    let vocab = table.integer_or("vocab_size", limits::VOCAB, of(51_200, 50_432), faults);
    let positions = table.integer_or("max_position_embeddings", limits::POSITIONS, 2_048, faults);
    let own = if phi { Activation::GeluNew } else { Activation::Gelu };
    let activation = activation(table, "hidden_act", own, faults);
    let attention_dropout = table.number_or("attention_dropout", limits::DROPOUT, 0.0, faults);
    let [embedding, residual] =
        if phi { ["embd_pdrop", "resid_pdrop"] } else { ["hidden_dropout"; 2] };
    let embedding_dropout = table.number_or(embedding, limits::DROPOUT, 0.0, faults);
    let residual_dropout = table.number_or(residual, limits::DROPOUT, 0.0, faults);
    let tied = table.flag_or("tie_word_embeddings", false, faults);
    let (mut kv_heads, mut mlp_beside, mut attention_bias) = (heads, Some(true), Some(true));
    if phi {
        kv_heads = table.integer_or("num_key_value_heads", limits::HEADS, heads?, faults);
        must_be_off(table, "qk_layernorm", "norms of query and key are not simulated", faults);
    } else {
        mlp_beside = table.flag_or("use_parallel_residual", true, faults);
        attention_bias = table.flag_or("attention_bias", true, faults);
        must_be_off(table, "is_decoder", "such a decoder is not simulated", faults);
    }
    let (hidden, heads, kv_heads) = (hidden?, heads?, kv_heads?);
    must_divide(table, ("num_attention_heads", heads), ("hidden_size", hidden), faults);
    must_divide(table, ("num_key_value_heads", kv_heads), ("num_attention_heads", heads), faults);
    let rotary_dim = rotary_dim(phi, hidden / heads, table, faults);
    Some(Parallel {
        kind,
        hidden,
        intermediate: intermediate?,
        layers: layers?,
        heads,
        kv_heads,
        vocab: vocab?,
        positions: positions?,
        rotary_dim: rotary_dim?,
        activation: activation?,
        embedding_dropout: embedding_dropout?,
        attention_dropout: attention_dropout?,
        residual_dropout: residual_dropout?,
        mlp_beside: mlp_beside?,
        attention_bias: attention_bias?,
        tied: tied?,
    })
}

/// `int(head_dim · partial_rotary_factor)`, the factor in `rope_parameters` or beside it under its old
/// name; rotated elements come in pairs.
fn rotary_dim(phi: bool, head_dim: u64, table: &mut Table<'_>, faults: &mut Faults) -> Option<u64> {
    let (key, default) = if phi { ("partial_rotary_factor", 0.5) } else { ("rotary_pct", 0.25) };
    let beside = table.number_or(key, 0.0..=1.0, default, faults)?;
    let factor = match table.table("rope_parameters", faults) {
        Some(mut rope) => rope.number_or("partial_rotary_factor", 0.0..=1.0, beside, faults)?,
        None => beside,
    };
    #[expect(clippy::cast_precision_loss, reason = "a head has at most 2^16 elements")]
    let elements = head_dim as f64 * factor;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a head"
    )]
    let dim = elements as u64;
    if dim == 0 || !dim.is_multiple_of(2) {
        let message = format!("{dim} rotated elements of a head are not a positive even number");
        let fault = Fault::new(table.path(key), Rule::Divisible, message);
        let arguments = [dim.to_string(), String::from("multiple of"), String::from("2")];
        faults.push(fault.arguments(arguments));
    }
    Some(dim)
}
