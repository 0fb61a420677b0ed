//! `T5ForConditionalGeneration`: an encoder and a decoder that attends to it, relative position biases
//! that the layers of a stack share, norms without mean or bias, no bias anywhere.

use super::fields::{activation_named, must_be_off, must_be_on};
use super::{Activation, Family, Positions, Projection, Task, activation, either, linear};
use crate::scenario::Table;
use crate::scenario::limits;
use crate::wire::{Fault, Faults, Rule};

/// Its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct T5 {
    /// `d_model`.
    pub hidden: u64,
    /// `d_ff`.
    pub intermediate: u64,
    /// `num_layers`: layers of the encoder.
    pub encoder_layers: u64,
    /// `num_decoder_layers`.
    pub decoder_layers: u64,
    /// `num_heads`.
    pub heads: u64,
    /// `d_kv`: width of a head, whatever `d_model` is.
    pub head_dim: u64,
    /// `vocab_size`.
    pub vocab: u64,
    /// `relative_attention_num_buckets`: rows of each table of position biases.
    pub buckets: u64,
    /// The activation function that `feed_forward_proj` names.
    pub activation: Activation,
    /// Whether the MLP is gated: two projections into it.
    pub gated: bool,
    /// `dropout_rate`.
    pub dropout: f64,
    /// Whether the decoder's output is scaled before the head, as T5 before 1.1 does.
    pub scales_output: bool,
}

impl T5 {
    /// Width of all heads together.
    pub const fn inner(&self) -> u64 {
        self.heads * self.head_dim
    }
}

impl Family for T5 {
    fn class(&self) -> &'static str {
        "T5ForConditionalGeneration"
    }

    fn task(&self) -> Task {
        Task::TokenLabels
    }

    fn layers(&self) -> u64 {
        self.encoder_layers + self.decoder_layers
    }

    fn layer_kinds(&self) -> [u64; 2] {
        [self.encoder_layers, self.decoder_layers]
    }

    fn set_layer_kinds(&mut self, [encoder, decoder]: [u64; 2]) {
        self.encoder_layers = encoder;
        self.decoder_layers = decoder;
    }

    fn first_layers_share(&self) -> bool {
        true
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

    /// Distances beyond the last bucket share it.
    fn positions(&self) -> Positions {
        Positions::Any
    }

    fn has_decoder(&self) -> bool {
        true
    }

    fn widest(&self) -> u64 {
        self.intermediate.max(self.hidden).max(self.inner())
    }

    /// A position bias keeps self-attention from every fused kernel.
    fn flash_head_dim(&self) -> bool {
        false
    }

    /// The configuration's `tie_word_embeddings` says something else (`scales_output`).
    fn tied(&self) -> bool {
        true
    }

    fn projections(&self) -> Vec<Projection> {
        let Self { hidden, intermediate, encoder_layers, decoder_layers, .. } = *self;
        let (inner, layers) = (self.inner(), encoder_layers + decoder_layers);
        let attentions = encoder_layers + 2 * decoder_layers;
        let of =
            |name, [inputs, outputs]: [u64; 2], count| Projection { name, inputs, outputs, count };
        let attention = ["q", "k", "v"].map(|name| of(name, [hidden, inner], attentions));
        let output = of("o", [inner, hidden], attentions);
        let into: &[&'static str] = if self.gated { &["wi_0", "wi_1"] } else { &["wi"] };
        let into = into.iter().map(|name| of(name, [hidden, intermediate], layers));
        let out = of("wo", [intermediate, hidden], layers);
        attention.into_iter().chain([output]).chain(into).chain([out]).collect()
    }

    /// ```text
    /// V·h + 2·B·n + E·(4·h·i + g·h·f + 2h) + D·(8·h·i + g·h·f + 3h) + 2h      (g = 3 gated, else 2)
    /// ```
    fn parameters(&self) -> u128 {
        let [h, f, inner] = [self.hidden, self.intermediate, self.inner()].map(u128::from);
        let [encoder, decoder] = self.layer_kinds().map(u128::from);
        let [vocab, buckets, heads] = [self.vocab, self.buckets, self.heads].map(u128::from);
        let attention = 3 * linear(h, inner, false) + linear(inner, h, false);
        let mlp = if self.gated { 3 } else { 2 } * h * f;
        let layers = encoder * (attention + mlp + 2 * h) + decoder * (2 * attention + mlp + 3 * h);
        vocab * h + 2 * buckets * heads + layers + 2 * h
    }

    fn parameters_formula(&self) -> [String; 2] {
        let Self { vocab, hidden, buckets, heads, intermediate, .. } = self;
        let [encoder, decoder] = self.layer_kinds();
        [
            "V·h + 2·B·n + E·(4h·i + g·h·f + 2h) + D·(8h·i + g·h·f + 3h) + 2h".to_owned(),
            format!(
                "V={vocab}, h={hidden}, B={buckets}, n={heads}, i={}, f={intermediate}, g={}, \
                 E={encoder}, D={decoder}",
                self.inner(),
                if self.gated { 3 } else { 2 },
            ),
        ]
    }
}

/// Source: transformers 5.17, `models/t5/configuration_t5.py`.
pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults) -> Option<T5> {
    // The standard names are accepted through the class's `attribute_map`.
    let hidden = either(table, ["d_model", "hidden_size"], limits::WIDTH, 512, faults);
    let head_dim = either(table, ["d_kv", "head_dim"], limits::HEAD_DIM, 64, faults);
    let intermediate = table.integer_or("d_ff", limits::WIDTH, 2_048, faults);
    let encoder_layers =
        either(table, ["num_layers", "num_hidden_layers"], limits::LAYERS, 6, faults);
    let symmetric = encoder_layers.unwrap_or(6);
    let decoder_layers = table.integer_or("num_decoder_layers", limits::LAYERS, symmetric, faults);
    let heads = either(table, ["num_heads", "num_attention_heads"], limits::HEADS, 8, faults);
    let vocab = table.integer_or("vocab_size", limits::VOCAB, 32_128, faults);
    let buckets = table.integer_or("relative_attention_num_buckets", limits::VOCAB, 32, faults);
    let dropout = table.number_or("dropout_rate", limits::DROPOUT, 0.1, faults);
    let feed_forward = feed_forward(table, faults);
    // 1.1 and its descendants say `tie_word_embeddings: false`; the class ties them all the same.
    let scales = table.flag_or("tie_word_embeddings", true, faults);
    let scales = table.flag_or("scale_decoder_outputs", scales.unwrap_or(true), faults);
    must_be_on(table, "is_encoder_decoder", "the encoder alone is not simulated", faults);
    must_be_off(table, "is_decoder", "the decoder alone is not simulated", faults);
    // Where the biases change from bucket to bucket: no tensor's size depends on it.
    table.integer_or("relative_attention_max_distance", limits::POSITIONS, 128, faults);
    if heads == Some(1) {
        let message = "one head's position bias is stored as a mask; such a model is not simulated";
        let fault = Fault::new(table.path("num_heads"), Rule::Unsupported, message);
        faults.push(fault.arguments(["1".to_owned(), message.to_owned()]));
    }
    let (activation, gated) = feed_forward?;
    Some(T5 {
        hidden: hidden?,
        intermediate: intermediate?,
        encoder_layers: encoder_layers?,
        decoder_layers: decoder_layers?,
        heads: heads?,
        head_dim: head_dim?,
        vocab: vocab?,
        buckets: buckets?,
        activation,
        gated,
        dropout: dropout?,
        scales_output: scales?,
    })
}

/// `feed_forward_proj` is an activation function, or `gated-` and one; `gated-gelu` means `gelu_new`.
/// What a saved configuration says beside it wins (`PreTrainedConfig.__post_init__`).
fn feed_forward(table: &mut Table<'_>, faults: &mut Faults) -> Option<(Activation, bool)> {
    let key = "feed_forward_proj";
    let named = match table.text(key, faults) {
        Some(name) => name,
        None if table.value(key).is_some() => return None,
        None => "relu",
    };
    let (gated, word) = match named.strip_prefix("gated-") {
        Some("gelu") => (true, "gelu_new"),
        Some(word) => (true, word),
        None => (false, named),
    };
    let own = activation_named(word, table.path(key), faults)?;
    let gated = table.flag_or("is_gated_act", gated, faults)?;
    Some((activation(table, "dense_act_fn", own, faults)?, gated))
}
