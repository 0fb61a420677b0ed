//! `FalconForCausalLM` as Falcon 7B uses it: one key and value head for all queries, an MLP beside the
//! attention, rotary positions.

use super::fields::{must_be_off, must_be_on};
use super::{Activation, Family, Positions, Projection, activation, linear, must_divide};
use crate::scenario::Table;
use crate::scenario::limits;
use crate::wire::{Fault, Faults, Rule};

/// Its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Falcon {
    /// `hidden_size`.
    pub hidden: u64,
    /// `ffn_hidden_size`, 4·`hidden_size` by default.
    pub intermediate: u64,
    /// `num_hidden_layers`.
    pub layers: u64,
    /// `num_attention_heads`.
    pub heads: u64,
    /// `vocab_size`.
    pub vocab: u64,
    /// `max_position_embeddings`.
    pub positions: u64,
    /// `activation`.
    pub activation: Activation,
    /// `hidden_dropout`.
    pub dropout: f64,
    /// `bias`: of linear layers.
    pub bias: bool,
    /// `tie_word_embeddings`.
    pub tied: bool,
}

impl Falcon {
    /// Width of queries, key and value together.
    pub const fn fused(&self) -> u64 {
        self.hidden + 2 * (self.hidden / self.heads)
    }

    /// Bytes of the inverse frequencies and of their copy, fp32.
    pub fn rotary_buffers(&self) -> [u64; 2] {
        [self.hidden / self.heads / 2 * 4; 2]
    }
}

impl Family for Falcon {
    fn class(&self) -> &'static str {
        "FalconForCausalLM"
    }

    alike_layers!();

    fn vocab(&self) -> u64 {
        self.vocab
    }

    fn positions(&self) -> Positions {
        Positions::Trained(self.positions)
    }

    fn widest(&self) -> u64 {
        self.intermediate.max(self.fused())
    }

    /// One key head without `enable_gqa` is for no fused kernel.
    fn flash_head_dim(&self) -> bool {
        false
    }

    fn tied(&self) -> bool {
        self.tied
    }

    fn buffer_bytes(&self, _weight_bytes: u64) -> u64 {
        self.rotary_buffers().iter().sum()
    }

    /// Its linear layers are no `nn.Linear` that peft replaces by one of the same result.
    fn projections(&self) -> Vec<Projection> {
        Vec::new()
    }

    /// ```text
    /// V·h + L·(h·(h + 2d) + h² + 2·h·f + 2h + biases) + 2h  [+ V·h untied]
    /// ```
    fn parameters(&self) -> u128 {
        let [h, f, fused] = [self.hidden, self.intermediate, self.fused()].map(u128::from);
        let [layers, vocab] = [self.layers, self.vocab].map(u128::from);
        let of = |inputs, outputs| linear(inputs, outputs, self.bias);
        let layer = of(h, fused) + of(h, h) + of(h, f) + of(f, h) + 2 * h;
        let head = if self.tied { 0 } else { vocab * h };
        vocab * h + layers * layer + 2 * h + head
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { vocab, hidden, layers, intermediate, bias, tied, .. } = self;
        [
            "V·h·(1 or 2) + L·(h·k + h² + 2h·f + 2h + biases) + 2h".to_owned(),
            format!(
                "V={vocab}, h={hidden}, k={}, L={layers}, f={intermediate}, bias={bias}, tied={tied}",
                self.fused()
            ),
        ]
    }
}

/// Source: transformers 5.17, `models/falcon/configuration_falcon.py`.
pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults) -> Option<Falcon> {
    let hidden = table.integer_or("hidden_size", limits::WIDTH, 4_544, faults);
    let layers = table.integer_or("num_hidden_layers", limits::LAYERS, 32, faults);
    let heads = table.integer_or("num_attention_heads", limits::HEADS, 71, faults);
    let four_hidden = hidden.map_or(1, |hidden| 4 * hidden);
    let intermediate = table.integer_or("ffn_hidden_size", limits::WIDTH, four_hidden, faults);
    let vocab = table.integer_or("vocab_size", limits::VOCAB, 65_024, faults);
    let positions = table.integer_or("max_position_embeddings", limits::POSITIONS, 2_048, faults);
    let activation = activation(table, "activation", Activation::Gelu, faults);
    let dropout = table.number_or("hidden_dropout", limits::DROPOUT, 0.0, faults);
    let bias = table.flag_or("bias", false, faults);
    let tied = table.flag_or("tie_word_embeddings", true, faults);
    // Without ALiBi it is never applied.
    table.number_or("attention_dropout", limits::DROPOUT, 0.0, faults);
    must_be_off(table, "alibi", "ALiBi is not simulated", faults);
    let reason = "the decoder of Falcon 40B is not simulated";
    must_be_off(table, "new_decoder_architecture", reason, faults);
    must_be_on(table, "multi_query", "several key heads are not simulated", faults);
    must_be_on(table, "parallel_attn", "an MLP after the attention is not simulated", faults);
    let (hidden, heads) = (hidden?, heads?);
    must_divide(table, ("num_attention_heads", heads), ("hidden_size", hidden), faults);
    if heads == 1 || hidden / heads % 2 != 0 {
        let message = "a single head, or an odd width of heads, is not simulated";
        let fault = Fault::new(table.path("num_attention_heads"), Rule::Unsupported, message);
        faults.push(fault.arguments([heads.to_string(), message.to_owned()]));
    }
    Some(Falcon {
        hidden,
        intermediate: intermediate?,
        layers: layers?,
        heads,
        vocab: vocab?,
        positions: positions?,
        activation: activation?,
        dropout: dropout?,
        bias: bias?,
        tied: tied?,
    })
}
