//! `GPT2LMHeadModel`: learned positions, layer norms, fused QKV, GELU, dropout.

use super::{Activation, Family, Positions, Projection, activation, either, linear, must_divide};
use crate::scenario::Table;
use crate::scenario::limits;
use crate::wire::Faults;

/// Its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpt2 {
    /// `n_embd`.
    pub hidden: u64,
    /// `n_inner`, 4·`n_embd` by default.
    pub intermediate: u64,
    /// `n_layer`.
    pub layers: u64,
    /// `n_head`.
    pub heads: u64,
    /// `vocab_size`.
    pub vocab: u64,
    /// `n_positions`.
    pub positions: u64,
    /// `activation_function`.
    pub activation: Activation,
    /// `embd_pdrop`.
    pub embedding_dropout: f64,
    /// `attn_pdrop`.
    pub attention_dropout: f64,
    /// `resid_pdrop`.
    pub residual_dropout: f64,
    /// `tie_word_embeddings`.
    pub tied: bool,
}

impl Family for Gpt2 {
    fn class(&self) -> &'static str {
        "GPT2LMHeadModel"
    }

    alike_layers!();

    fn vocab(&self) -> u64 {
        self.vocab
    }

    fn positions(&self) -> Positions {
        Positions::Table(self.positions)
    }

    fn widest(&self) -> u64 {
        self.intermediate.max(3 * self.hidden)
    }

    fn tied(&self) -> bool {
        self.tied
    }

    fn projections(&self) -> Vec<Projection> {
        let Self { hidden, intermediate, layers, .. } = *self;
        [
            ("c_attn", hidden, 3 * hidden),
            ("c_proj", hidden, hidden),
            ("c_fc", hidden, intermediate),
            ("c_proj", intermediate, hidden),
        ]
        .map(|(name, inputs, outputs)| Projection { name, inputs, outputs, count: layers })
        .to_vec()
    }

    /// ```text
    /// V·h + P·h + L·(2·2h + h·3h + 3h + h·h + h + 2·h·f + f + h) + 2h  [+ V·h untied]
    /// ```
    fn parameters(&self) -> u128 {
        let [h, f] = [self.hidden, self.intermediate].map(u128::from);
        let [layers, vocab, positions] = [self.layers, self.vocab, self.positions].map(u128::from);
        let norms = 2 * 2 * h;
        let attention = linear(h, 3 * h, true) + linear(h, h, true);
        let mlp = linear(h, f, true) + linear(f, h, true);
        let head = if self.tied { 0 } else { vocab * h };
        (vocab + positions) * h + layers * (norms + attention + mlp) + 2 * h + head
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { vocab, hidden, positions, layers, intermediate, tied, .. } = self;
        [
            "V·h·(1 or 2) + P·h + L·(3h² + 3h + h² + h + 2h·f + f + h + 4h) + 2h".to_owned(),
            format!(
                "V={vocab}, h={hidden}, P={positions}, L={layers}, f={intermediate}, tied={tied}"
            ),
        ]
    }
}

/// Source: transformers 5.17, `models/gpt2/configuration_gpt2.py`.
pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults) -> Option<Gpt2> {
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
