//! `BertForMaskedLM` and `RobertaForMaskedLM`: encoders with token types, norms after the residual
//! sums, and a head that predicts tokens where they stand.

use super::fields::must_be_off;
use super::{Activation, Family, Positions, Task, activation, linear, must_divide};
use crate::scenario::Table;
use crate::scenario::limits;
use crate::wire::{Faults, ModelKind};

/// The shape of both.
#[derive(Clone, Debug, PartialEq)]
pub struct Bert {
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
    /// `vocab_size`.
    pub vocab: u64,
    /// `max_position_embeddings`.
    pub positions: u64,
    /// `type_vocab_size`.
    pub token_types: u64,
    /// `pad_token_id`; `RoBERTa`'s positions start after it.
    pub padding: u64,
    /// `hidden_act`.
    pub activation: Activation,
    /// `hidden_dropout_prob`.
    pub hidden_dropout: f64,
    /// `attention_probs_dropout_prob`.
    pub attention_dropout: f64,
    /// `tie_word_embeddings`.
    pub tied: bool,
}

impl Bert {
    /// Whether it is `RobertaForMaskedLM`.
    pub fn is_roberta(&self) -> bool {
        self.kind == ModelKind::Roberta
    }
}

impl Family for Bert {
    fn class(&self) -> &'static str {
        self.kind.class()
    }

    fn task(&self) -> Task {
        Task::TokenLabels
    }

    alike_layers!();

    fn vocab(&self) -> u64 {
        self.vocab
    }

    /// `RoBERTa` numbers tokens from `pad_token_id` + 1 (`create_position_ids_from_input_ids`).
    fn positions(&self) -> Positions {
        let unused = if self.is_roberta() { self.padding + 1 } else { 0 };
        Positions::Table(self.positions.saturating_sub(unused))
    }

    fn widest(&self) -> u64 {
        self.intermediate.max(self.hidden)
    }

    fn tied(&self) -> bool {
        self.tied
    }

    /// `position_ids` and `token_type_ids`, one 64-bit integer a position each.
    fn buffers(&self) -> Vec<u64> {
        vec![self.positions * 8; 2]
    }

    /// ```text
    /// (V + P + T)·h + 2h + L·(4·(h² + h) + 2·h·f + f + h + 4h) + h² + h + 2h + V  [+ V·h + V untied]
    /// ```
    fn parameters(&self) -> u128 {
        let [h, f] = [self.hidden, self.intermediate].map(u128::from);
        let [layers, vocab] = [self.layers, self.vocab].map(u128::from);
        let tables = vocab + u128::from(self.positions) + u128::from(self.token_types);
        let attention = 4 * linear(h, h, true);
        let mlp = linear(h, f, true) + linear(f, h, true);
        let norms = 2 * 2 * h;
        let head = linear(h, h, true) + 2 * h + vocab;
        let untied = if self.tied { 0 } else { linear(h, vocab, true) };
        tables * h + 2 * h + layers * (attention + mlp + norms) + head + untied
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { vocab, hidden, positions, token_types, layers, intermediate, tied, .. } = self;
        [
            "(V·(1 or 2) + P + T)·h + L·(4h² + 2h·f + f + 9h) + h² + 5h + V·(1 or 2)".to_owned(),
            format!(
                "V={vocab}, h={hidden}, P={positions}, T={token_types}, L={layers}, \
                 f={intermediate}, tied={tied}"
            ),
        ]
    }
}

/// Source: transformers 5.17, `models/{bert,roberta}/configuration_*.py`.
pub(super) fn read(kind: ModelKind, table: &mut Table<'_>, faults: &mut Faults) -> Option<Bert> {
    let (default_vocab, default_padding) =
        if kind == ModelKind::Roberta { (50_265, 1) } else { (30_522, 0) };
    let hidden = table.integer_or("hidden_size", limits::WIDTH, 768, faults);
    let intermediate = table.integer_or("intermediate_size", limits::WIDTH, 3_072, faults);
    let layers = table.integer_or("num_hidden_layers", limits::LAYERS, 12, faults);
    let heads = table.integer_or("num_attention_heads", limits::HEADS, 12, faults);
    let vocab = table.integer_or("vocab_size", limits::VOCAB, default_vocab, faults);
    let positions = table.integer_or("max_position_embeddings", limits::POSITIONS, 512, faults);
    let token_types = table.integer_or("type_vocab_size", limits::VOCAB, 2, faults);
    let ids = 0..=limits::VOCAB.end() - 1;
    let padding = table.integer_or("pad_token_id", ids, default_padding, faults);
    let activation = activation(table, "hidden_act", Activation::Gelu, faults);
    let hidden_dropout = table.number_or("hidden_dropout_prob", limits::DROPOUT, 0.1, faults);
    let attention_dropout =
        table.number_or("attention_probs_dropout_prob", limits::DROPOUT, 0.1, faults);
    let tied = table.flag_or("tie_word_embeddings", true, faults);
    must_be_off(table, "is_decoder", "decoders of this class are not simulated", faults);
    must_be_off(table, "chunk_size_feed_forward", "a chunked MLP is not simulated", faults);
    if let (Some(hidden), Some(heads)) = (hidden, heads) {
        must_divide(table, ("num_attention_heads", heads), ("hidden_size", hidden), faults);
    }
    Some(Bert {
        kind,
        hidden: hidden?,
        intermediate: intermediate?,
        layers: layers?,
        heads: heads?,
        vocab: vocab?,
        positions: positions?,
        token_types: token_types?,
        padding: padding?,
        activation: activation?,
        hidden_dropout: hidden_dropout?,
        attention_dropout: attention_dropout?,
        tied: tied?,
    })
}
