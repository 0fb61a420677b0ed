//! `T5ForConditionalGeneration`.
//!
//! Source: transformers 5.17, `models/t5/modeling_t5.py`. Layers are numbered through: the decoder's
//! follow the encoder's.

use crate::engine::Recompute;
use crate::scenario::T5;
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::{Attention, Checkpointing};

use super::llama::activate;
use super::position_bias::{self, Biased, attend_biased};
use super::{Forwarded, Network, Style, mask};

/// The model's parameters.
#[derive(Debug)]
pub(super) struct T5Model {
    config: T5,
    style: Style,
    /// The embedding, which encoder, decoder and head are tied to.
    shared: ParamId,
    encoder: Stack,
    decoder: Stack,
}

/// `T5Stack`.
#[derive(Debug)]
struct Stack {
    layers: Vec<Layer>,
    final_layer_norm: ParamId,
}

/// `T5Block`.
#[derive(Debug)]
struct Layer {
    self_attention: SubLayer,
    /// The decoder's attention to the encoder.
    cross_attention: Option<SubLayer>,
    /// `wi`, or `wi_0` and `wi_1`.
    wi: Vec<ParamId>,
    wo: ParamId,
    mlp_norm: ParamId,
}

/// `T5LayerSelfAttention`, `T5LayerCrossAttention`.
#[derive(Debug)]
struct SubLayer {
    q: ParamId,
    k: ParamId,
    v: ParamId,
    o: ParamId,
    /// The table of position biases, which the first layer of a stack has for all.
    relative_attention_bias: Option<ParamId>,
    layer_norm: ParamId,
}

/// What a layer gets beside its input.
#[derive(Clone, Copy, Debug, Default)]
struct Given<'a> {
    mask: Option<&'a Tensor>,
    position_bias: Option<&'a Tensor>,
    encoder_hidden_states: Option<&'a Tensor>,
    cross_position_bias: Option<&'a Tensor>,
}

/// What a layer returns: the biases for the next ones.
#[derive(Debug)]
struct Returned {
    hidden_states: Tensor,
    position_bias: Tensor,
    cross_position_bias: Option<Tensor>,
}

/// What attention returns.
#[derive(Debug)]
struct Attended {
    output: Tensor,
    position_bias: Tensor,
    weights: Option<Tensor>,
}

impl Network for T5Model {
    /// The data is its own target.
    fn forward(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let Forwarded { output, held } = self.forward_to(tape, ids, ids);
        for tensor in held {
            tape.release(tensor);
        }
        output
    }

    fn forward_to(&self, tape: &mut Tape, ids: &Tensor, labels: &Tensor) -> Forwarded {
        let encoder_output = self.stack(tape, &self.encoder, ids, None);
        let decoder_input_ids = shift_right(tape, labels);
        let output = self.stack(tape, &self.decoder, &decoder_input_ids, Some(&encoder_output));
        let mut held = vec![decoder_input_ids];
        let sequence_output = if self.config.scales_output {
            tape.enter(Block::LmHead, "sequence_output");
            let scaled = tape.mul_scalar(&output);
            held.push(output);
            scaled
        } else {
            output
        };
        held.push(encoder_output);
        Forwarded { output: sequence_output, held }
    }

    fn head(&self, tape: &mut Tape, sequence_output: &Tensor) -> Tensor {
        tape.enter(Block::LmHead, "lm_head");
        tape.linear(sequence_output, self.shared, None)
    }

    fn lm_head(&self) -> ParamId {
        self.shared
    }

    fn makes_head_last(&self) -> bool {
        false
    }
}

impl Recompute for T5Model {
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, arguments: &[Tensor]) {
        let given = self.given(layer, arguments);
        let returned = self.layer(tape, layer, input, given);
        returned.release(tape);
    }
}

impl Returned {
    fn release(self, tape: &mut Tape) {
        let biases = core::iter::once(self.position_bias).chain(self.cross_position_bias);
        for tensor in core::iter::once(self.hidden_states).chain(biases) {
            tape.release(tensor);
        }
    }
}

/// `_shift_right`: the labels without their last, after a first token.
fn shift_right(tape: &mut Tape, labels: &Tensor) -> Tensor {
    let &[batch, tokens] = labels.shape.sizes() else { unreachable!("labels are a matrix") };
    tape.enter(Block::Embedding, "decoder_input_ids");
    let shifted = tape.helper(labels.shape, DType::I64, Prim::Copy);
    let clone = tape.helper(Shape::new([batch, tokens - 1]), DType::I64, Prim::Copy);
    tape.release(clone);
    let ignored = tape.helper(labels.shape, DType::Bool, Prim::Mask);
    tape.release(ignored);
    shifted
}

impl T5Model {
    pub(super) fn register(tape: &mut Tape, config: &T5, dtype: DType, style: Style) -> Self {
        let sizes = Shape::new([config.vocab, config.hidden]);
        let shared = tape.new_parameter("shared.weight".to_owned(), sizes, dtype);
        // Each stack and the head make a table of their own, which is then tied to the shared one.
        let own =
            |tape: &mut Tape| tape.allocate(sizes.elements() * dtype.bytes(), Prim::Parameter);
        let of_encoder = own(tape);
        let encoder = Stack::register(tape, config, dtype, false);
        let of_decoder = own(tape);
        let decoder = Stack::register(tape, config, dtype, true);
        let of_head = own(tape);
        for storage in [of_head, of_encoder, of_decoder] {
            tape.release_storage(storage);
        }
        Self { config: config.clone(), style, shared, encoder, decoder }
    }

    fn is_decoder(&self, layer: u32) -> bool {
        self.encoder.layers.len() <= layer as usize
    }

    fn checkpoints(&self) -> bool {
        self.style.checkpointing != Checkpointing::None
    }

    /// `T5Stack.forward`; a decoder gets what the encoder made.
    fn stack(
        &self,
        tape: &mut Tape,
        stack: &Stack,
        ids: &Tensor,
        encoder_hidden_states: Option<&Tensor>,
    ) -> Tensor {
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are [batch, tokens]") };
        tape.enter(Block::Embedding, "embed_tokens");
        let inputs_embeds = tape.embedding(ids, self.shared, false);
        let dtype = inputs_embeds.dtype;
        // Without padding the encoder, and attention to it, get no mask
        // (`_ignore_bidirectional_mask_sdpa`).
        let mask = encoder_hidden_states.and_then(|_| {
            mask::causal_of_embeddings(tape, [batch, tokens], dtype, self.style.attention)
        });
        tape.enter(Block::Embedding, "dropout");
        let mut hidden_states = tape.dropout(&inputs_embeds, self.config.dropout);
        let [mut position_bias, mut cross_position_bias] = [None, None];
        let first = if encoder_hidden_states.is_some() { self.encoder.layers.len() } else { 0 };
        for index in (0_u32..).skip(first).take(stack.layers.len()) {
            let given = Given {
                mask: mask.as_ref(),
                position_bias: position_bias.as_ref(),
                encoder_hidden_states,
                cross_position_bias: cross_position_bias.as_ref(),
            };
            let returned = self.run_layer(tape, index, &hidden_states, given);
            tape.release(core::mem::replace(&mut hidden_states, returned.hidden_states));
            let old = [
                position_bias.replace(returned.position_bias),
                core::mem::replace(&mut cross_position_bias, returned.cross_position_bias),
            ];
            for tensor in old.into_iter().flatten() {
                tape.release(tensor);
            }
        }
        tape.enter(Block::FinalNorm, "final_layer_norm");
        let normed = layer_norm(tape, &hidden_states, stack.final_layer_norm);
        tape.release(core::mem::replace(&mut hidden_states, normed));
        tape.enter(Block::FinalNorm, "dropout");
        let dropped = tape.dropout(&hidden_states, self.config.dropout);
        tape.release(core::mem::replace(&mut hidden_states, dropped));
        let locals = [mask, Some(inputs_embeds), position_bias, cross_position_bias];
        for tensor in locals.into_iter().flatten() {
            tape.release(tensor);
        }
        hidden_states
    }

    fn run_layer(
        &self,
        tape: &mut Tape,
        index: u32,
        hidden_states: &Tensor,
        given: Given<'_>,
    ) -> Returned {
        if !self.checkpoints() {
            return self.layer(tape, index, hidden_states, given);
        }
        let input = tape.share(hidden_states);
        let Given { mask, position_bias, encoder_hidden_states, cross_position_bias } = given;
        let arguments = [mask, position_bias, encoder_hidden_states, cross_position_bias];
        let arguments = arguments.into_iter().flatten().map(|tensor| tape.share(tensor)).collect();
        tape.begin_checkpoint(index, input, arguments);
        let returned = self.layer(tape, index, hidden_states, given);
        tape.end_checkpoint();
        returned
    }

    /// From a checkpoint's arguments: a mask where attention is eager, what the encoder made, and the
    /// biases that the stack's first layer returned.
    fn given<'a>(&self, layer: u32, arguments: &'a [Tensor]) -> Given<'a> {
        let mut arguments = arguments.iter();
        if !self.is_decoder(layer) {
            return Given { position_bias: arguments.next(), ..Given::default() };
        }
        let masked = self.style.attention == Attention::Eager;
        let first = layer as usize == self.encoder.layers.len();
        let mut when = |there: bool| if there { arguments.next() } else { None };
        Given {
            mask: when(masked),
            position_bias: when(!first),
            encoder_hidden_states: when(true),
            cross_position_bias: when(!first),
        }
    }

    /// `T5Block.forward`. Nothing is clamped: hidden states are never fp16.
    fn layer(
        &self,
        tape: &mut Tape,
        index: u32,
        hidden_states: &Tensor,
        given: Given<'_>,
    ) -> Returned {
        let encoder = &self.encoder.layers;
        let layer = match encoder.get(index as usize) {
            Some(layer) => layer,
            None => &self.decoder.layers[index as usize - encoder.len()],
        };
        tape.enter_layer(Some(index));
        let attended = self.self_attention(tape, &layer.self_attention, hidden_states, given);
        let Attended { output: mut hidden_states, position_bias, mut weights } = attended;
        let cross_position_bias = layer.cross_attention.as_ref().map(|cross| {
            let attended = self.cross_attention(tape, cross, &hidden_states, given);
            tape.release(core::mem::replace(&mut hidden_states, attended.output));
            if let Some(old) = core::mem::replace(&mut weights, attended.weights) {
                tape.release(old);
            }
            attended.position_bias
        });
        let output = self.feed_forward(tape, layer, &hidden_states);
        for tensor in core::iter::once(hidden_states).chain(weights) {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        Returned { hidden_states: output, position_bias, cross_position_bias }
    }

    fn self_attention(
        &self,
        tape: &mut Tape,
        sub_layer: &SubLayer,
        hidden_states: &Tensor,
        given: Given<'_>,
    ) -> Attended {
        tape.enter(Block::InputNorm, "layer_norm");
        let normed = layer_norm(tape, hidden_states, sub_layer.layer_norm);
        let Attended { output, position_bias, weights } =
            self.attention(tape, sub_layer, (&normed, None), given);
        let sum = self.add_dropped(tape, hidden_states, &output);
        tape.release(output);
        tape.release(normed);
        Attended { output: sum, position_bias, weights }
    }

    fn cross_attention(
        &self,
        tape: &mut Tape,
        sub_layer: &SubLayer,
        hidden_states: &Tensor,
        given: Given<'_>,
    ) -> Attended {
        tape.enter(Block::InputNorm, "layer_norm");
        let normed = layer_norm(tape, hidden_states, sub_layer.layer_norm);
        let keys = given.encoder_hidden_states;
        let given = Given { mask: None, position_bias: given.cross_position_bias, ..given };
        let Attended { output, position_bias, weights } =
            self.attention(tape, sub_layer, (&normed, keys), given);
        let sum = self.add_dropped(tape, hidden_states, &output);
        tape.release(normed);
        tape.release(output);
        Attended { output: sum, position_bias, weights }
    }

    /// `hidden_states + dropout(x)`.
    fn add_dropped(&self, tape: &mut Tape, hidden_states: &Tensor, x: &Tensor) -> Tensor {
        tape.enter(Block::Residual, "dropout");
        let dropped = tape.dropout(x, self.config.dropout);
        tape.enter(Block::Residual, "residual");
        let sum = tape.add(hidden_states, &dropped);
        tape.release(dropped);
        sum
    }

    /// `T5Attention.forward`: to the states themselves, or across to those that are given.
    fn attention(
        &self,
        tape: &mut Tape,
        sub_layer: &SubLayer,
        (hidden_states, key_value_states): (&Tensor, Option<&Tensor>),
        given: Given<'_>,
    ) -> Attended {
        let crosses = key_value_states.is_some();
        let modules = if crosses { CROSS } else { SELF };
        let current_states = key_value_states.unwrap_or(hidden_states);
        let states = [hidden_states, current_states, current_states];
        let weights = [sub_layer.q, sub_layer.k, sub_layer.v];
        let [query, key, value] = [0, 1, 2].map(|i| {
            tape.enter(Block::Attention, modules[i]);
            let projected = tape.linear(states[i], weights[i], None);
            let per_head = tape.split_last(&projected, self.config.head_dim);
            tape.release(projected);
            let heads = tape.transpose(&per_head);
            tape.release(per_head);
            heads
        });
        let decodes = given.encoder_hidden_states.is_some();
        let position_bias = match given.position_bias {
            Some(position_bias) => tape.share(position_bias),
            None => self.position_bias(tape, sub_layer, [&query, &key], !decodes),
        };
        tape.enter(Block::Attention, "attn_output");
        let inputs = Biased {
            query: &query,
            key: &key,
            value: &value,
            position_bias: &position_bias,
            mask: given.mask,
            dropout: self.config.dropout,
            causal: decodes && !crosses,
        };
        let (mut output, weights) = attend_biased(tape, self.style.attention, inputs);
        tape.enter(Block::Attention, modules[3]);
        let projected = tape.linear(&output, sub_layer.o, None);
        tape.release(core::mem::replace(&mut output, projected));
        for tensor in [query, key, value] {
            tape.release(tensor);
        }
        Attended { output, position_bias, weights }
    }

    /// The bias that the first layer of a stack makes for all: from its table, or zeros, which require a
    /// gradient where layers are checkpointed.
    fn position_bias(
        &self,
        tape: &mut Tape,
        sub_layer: &SubLayer,
        [query, key]: [&Tensor; 2],
        bidirectional: bool,
    ) -> Tensor {
        let [queries, keys] = [query, key].map(|tensor| tensor.shape.sizes()[2]);
        if let Some(table) = sub_layer.relative_attention_bias {
            return position_bias::compute(tape, table, [queries, keys], bidirectional);
        }
        tape.enter(Block::Attention, "position_bias");
        let shape = Shape::new([1, self.config.heads, queries, keys]);
        let zeros = tape.helper(shape, query.dtype, Prim::Mask);
        if self.checkpoints() { tape.require_grad(zeros) } else { zeros }
    }

    /// `T5LayerFF.forward`.
    fn feed_forward(&self, tape: &mut Tape, layer: &Layer, hidden_states: &Tensor) -> Tensor {
        tape.enter(Block::PostNorm, "layer_norm");
        let normed = layer_norm(tape, hidden_states, layer.mlp_norm);
        let forwarded = self.dense(tape, layer, &normed);
        tape.release(normed);
        let sum = self.add_dropped(tape, hidden_states, &forwarded);
        tape.release(forwarded);
        sum
    }

    /// `T5DenseActDense`, `T5DenseGatedActDense`.
    fn dense(&self, tape: &mut Tape, layer: &Layer, x: &Tensor) -> Tensor {
        let activated = |tape: &mut Tape, weight| {
            tape.enter(Block::Mlp, "wi");
            let projected = tape.linear(x, weight, None);
            tape.enter(Block::Mlp, "act");
            let activated = activate(tape, &projected, self.config.activation);
            tape.release(projected);
            activated
        };
        let (mut hidden_states, locals) = match layer.wi[..] {
            [gate, linear] => {
                let hidden_gelu = activated(tape, gate);
                tape.enter(Block::Mlp, "wi_1");
                let hidden_linear = tape.linear(x, linear, None);
                let product = tape.mul(&hidden_gelu, &hidden_linear);
                (product, vec![hidden_gelu, hidden_linear])
            }
            _ => (activated(tape, layer.wi[0]), Vec::new()),
        };
        tape.enter(Block::Mlp, "dropout");
        let dropped = tape.dropout(&hidden_states, self.config.dropout);
        tape.release(core::mem::replace(&mut hidden_states, dropped));
        let dtype = tape.param(layer.wo).dtype;
        let cast = tape.cast(&hidden_states, dtype);
        tape.release(core::mem::replace(&mut hidden_states, cast));
        tape.enter(Block::Mlp, "wo");
        let projected = tape.linear(&hidden_states, layer.wo, None);
        tape.release(core::mem::replace(&mut hidden_states, projected));
        for tensor in locals {
            tape.release(tensor);
        }
        hidden_states
    }
}

/// Modules of attention in the order in which they run.
const SELF: [&str; 4] =
    ["SelfAttention.q", "SelfAttention.k", "SelfAttention.v", "SelfAttention.o"];
const CROSS: [&str; 4] =
    ["EncDecAttention.q", "EncDecAttention.k", "EncDecAttention.v", "EncDecAttention.o"];

/// `T5LayerNorm`: no mean is taken off, statistics in fp32, the weight applied in its own type.
fn layer_norm(tape: &mut Tape, x: &Tensor, weight: ParamId) -> Tensor {
    let wide = tape.cast(x, DType::F32);
    let squared = tape.square(&wide);
    tape.release(wide);
    let variance = tape.mean_last(&squared);
    tape.release(squared);
    let shifted = tape.add_scalar(&variance);
    let scale = tape.rsqrt(&shifted);
    tape.release(shifted);
    let mut hidden_states = tape.mul(x, &scale);
    tape.release(scale);
    let weight = tape.weight(weight);
    if weight.dtype.is_half() {
        let cast = tape.cast(&hidden_states, weight.dtype);
        tape.release(core::mem::replace(&mut hidden_states, cast));
    }
    let output = tape.mul(&weight, &hidden_states);
    for tensor in [weight, hidden_states, variance] {
        tape.release(tensor);
    }
    output
}

impl Stack {
    fn register(tape: &mut Tape, config: &T5, dtype: DType, decodes: bool) -> Self {
        let [encoder_layers, decoder_layers] = [config.encoder_layers, config.decoder_layers];
        let (name, first, layers) = if decodes {
            ("decoder", encoder_layers, decoder_layers)
        } else {
            ("encoder", 0, encoder_layers)
        };
        let layers = (0..layers)
            .map(|i| {
                let at = At {
                    path: format!("{name}.block.{i}.layer"),
                    layer: u32::try_from(first + i).ok(),
                    first: i == 0,
                    dtype,
                };
                Layer::register(tape, config, &at, decodes)
            })
            .collect();
        let name = format!("{name}.final_layer_norm.weight");
        let final_layer_norm = tape.new_parameter(name, Shape::new([config.hidden]), dtype);
        Self { layers, final_layer_norm }
    }
}

/// Where a layer's parameters are.
struct At {
    path: String,
    layer: Option<u32>,
    /// Whether it is the first of its stack.
    first: bool,
    dtype: DType,
}

impl At {
    fn parameter(&self, tape: &mut Tape, module: &str, shape: Shape) -> ParamId {
        let name = format!("{}.{module}.weight", self.path);
        tape.new_parameter_of(self.layer, name, shape, self.dtype)
    }
}

impl Layer {
    fn register(tape: &mut Tape, config: &T5, at: &At, decodes: bool) -> Self {
        let T5 { hidden, intermediate, .. } = *config;
        let self_attention = SubLayer::register(tape, config, at, "0.SelfAttention", at.first);
        let cross_attention =
            decodes.then(|| SubLayer::register(tape, config, at, "1.EncDecAttention", false));
        let last = if decodes { 2 } else { 1 };
        let dense = format!("{last}.DenseReluDense");
        let into: &[&str] = if config.gated { &["wi_0", "wi_1"] } else { &["wi"] };
        let wi = into
            .iter()
            .map(|wi| {
                at.parameter(tape, &format!("{dense}.{wi}"), Shape::new([intermediate, hidden]))
            })
            .collect();
        let wo = at.parameter(tape, &format!("{dense}.wo"), Shape::new([hidden, intermediate]));
        let mlp_norm = at.parameter(tape, &format!("{last}.layer_norm"), Shape::new([hidden]));
        Self { self_attention, cross_attention, wi, wo, mlp_norm }
    }
}

impl SubLayer {
    fn register(tape: &mut Tape, config: &T5, at: &At, path: &str, biased: bool) -> Self {
        let (hidden, inner) = (config.hidden, config.inner());
        let matrix = |tape: &mut Tape, module: &str, sizes: [u64; 2]| {
            at.parameter(tape, &format!("{path}.{module}"), Shape::new(sizes))
        };
        let [q, k, v] = ["q", "k", "v"].map(|module| matrix(tape, module, [inner, hidden]));
        let o = matrix(tape, "o", [hidden, inner]);
        let sizes = [config.buckets, config.heads];
        let relative_attention_bias =
            biased.then(|| matrix(tape, "relative_attention_bias", sizes));
        let parent = path.split('.').next().unwrap_or_default();
        let layer_norm = at.parameter(tape, &format!("{parent}.layer_norm"), Shape::new([hidden]));
        Self { q, k, v, o, relative_attention_bias, layer_norm }
    }
}
