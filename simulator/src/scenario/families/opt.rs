//! `OPTForCausalLM`: learned positions after an offset of two, layer norms, `ReLU`, embeddings that may
//! be narrower than the model.

use super::fields::{must_be_off, must_be_on};
use super::{Activation, Family, Positions, activation, linear, must_divide};
use crate::scenario::Table;
use crate::scenario::limits;
use crate::wire::Faults;

/// Its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Opt {
    /// `hidden_size`.
    pub hidden: u64,
    /// `word_embed_proj_dim`, `hidden_size` by default.
    pub word_embed: u64,
    /// `ffn_dim`.
    pub intermediate: u64,
    /// `num_hidden_layers`.
    pub layers: u64,
    /// `num_attention_heads`.
    pub heads: u64,
    /// `vocab_size`.
    pub vocab: u64,
    /// `max_position_embeddings`.
    pub positions: u64,
    /// `do_layer_norm_before`: norms before attention and MLP instead of after.
    pub norm_before: bool,
    /// Whether there is a norm after the last layer.
    pub final_norm: bool,
    /// `activation_function`.
    pub activation: Activation,
    /// `dropout`.
    pub dropout: f64,
    /// `attention_dropout`.
    pub attention_dropout: f64,
    /// `tie_word_embeddings`.
    pub tied: bool,
}

/// Rows of the position table before the first position (`OPTLearnedPositionalEmbedding.offset`).
pub(crate) const POSITION_OFFSET: u64 = 2;

impl Opt {
    /// Whether projections lead from the embedding's width to the model's and back.
    pub const fn projects(&self) -> bool {
        self.word_embed != self.hidden
    }
}

impl Family for Opt {
    fn class(&self) -> &'static str {
        "OPTForCausalLM"
    }

    alike_layers!();

    fn vocab(&self) -> u64 {
        self.vocab
    }

    fn positions(&self) -> Positions {
        Positions::Table(self.positions)
    }

    fn widest(&self) -> u64 {
        self.intermediate.max(self.hidden).max(self.word_embed)
    }

    fn tied(&self) -> bool {
        self.tied
    }

    /// ```text
    /// V·w + (P + 2)·h + L·(4·(h² + h) + 2·h·f + f + h + 4h) [+ 2h final norm] [+ 2·w·h where w ≠ h]
    /// [+ V·w untied]
    /// ```
    fn parameters(&self) -> u128 {
        let [h, w, f] = [self.hidden, self.word_embed, self.intermediate].map(u128::from);
        let [layers, vocab] = [self.layers, self.vocab].map(u128::from);
        let positions = u128::from(self.positions) + u128::from(POSITION_OFFSET);
        let attention = 4 * linear(h, h, true);
        let mlp = linear(h, f, true) + linear(f, h, true);
        let norms = 2 * 2 * h;
        let final_norm = if self.final_norm { 2 * h } else { 0 };
        let projections = if self.projects() { 2 * w * h } else { 0 };
        let head = if self.tied { 0 } else { vocab * w };
        vocab * w
            + positions * h
            + layers * (attention + mlp + norms)
            + final_norm
            + projections
            + head
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { vocab, hidden, word_embed, positions, layers, intermediate, tied, .. } = self;
        [
            "V·w·(1 or 2) + (P + 2)·h + L·(4h² + 2h·f + f + 9h) + final norm + projections"
                .to_owned(),
            format!(
                "V={vocab}, w={word_embed}, h={hidden}, P={positions}, L={layers}, \
                 f={intermediate}, tied={tied}"
            ),
        ]
    }
}

/// Source: transformers 5.17, `models/opt/configuration_opt.py`.
pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults) -> Option<Opt> {
    let hidden = table.integer_or("hidden_size", limits::WIDTH, 768, faults);
    let width = hidden.unwrap_or(1);
    let word_embed = table.integer_or("word_embed_proj_dim", limits::WIDTH, width, faults);
    let intermediate = table.integer_or("ffn_dim", limits::WIDTH, 3_072, faults);
    let layers = table.integer_or("num_hidden_layers", limits::LAYERS, 12, faults);
    let heads = table.integer_or("num_attention_heads", limits::HEADS, 12, faults);
    let vocab = table.integer_or("vocab_size", limits::VOCAB, 50_272, faults);
    let positions = table.integer_or("max_position_embeddings", limits::POSITIONS, 2_048, faults);
    let norm_before = table.flag_or("do_layer_norm_before", true, faults);
    let no_final_norm = table.flag_or("_remove_final_layer_norm", false, faults);
    let activation = activation(table, "activation_function", Activation::Relu, faults);
    let dropout = table.number_or("dropout", limits::DROPOUT, 0.1, faults);
    let attention_dropout = table.number_or("attention_dropout", limits::DROPOUT, 0.0, faults);
    let tied = table.flag_or("tie_word_embeddings", true, faults);
    must_be_off(table, "layerdrop", "layers that are skipped at random are not simulated", faults);
    must_be_on(table, "enable_bias", "layers without bias are not simulated", faults);
    let reason = "norms without parameters are not simulated";
    must_be_on(table, "layer_norm_elementwise_affine", reason, faults);
    if let (Some(hidden), Some(heads)) = (hidden, heads) {
        must_divide(table, ("num_attention_heads", heads), ("hidden_size", hidden), faults);
    }
    Some(Opt {
        hidden: hidden?,
        word_embed: word_embed?,
        intermediate: intermediate?,
        layers: layers?,
        heads: heads?,
        vocab: vocab?,
        positions: positions?,
        norm_before: norm_before?,
        final_norm: norm_before? && !no_final_norm?,
        activation: activation?,
        dropout: dropout?,
        attention_dropout: attention_dropout?,
        tied: tied?,
    })
}
