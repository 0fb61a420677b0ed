//! `FalconForCausalLM` with one key and value head and an MLP beside the attention.
//!
//! Source: transformers 5.17, `models/falcon/modeling_falcon.py`.

use crate::engine::Recompute;
use crate::primitives::SdpaInputs;
use crate::scenario::Falcon;
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::Attention;

use super::affine::Affine;
use super::llama::{Shared, activate};
use super::rotary::Tables;
use super::{Network, Style, mask, parameter, rotary};

/// The model's parameters.
#[derive(Debug)]
pub(super) struct FalconModel {
    config: Falcon,
    style: Style,
    word_embeddings: ParamId,
    layers: Vec<Layer>,
    ln_f: Affine,
    lm_head: ParamId,
}

#[derive(Debug)]
struct Layer {
    query_key_value: FalconLinear,
    dense: FalconLinear,
    into: FalconLinear,
    out: FalconLinear,
    input_norm: Affine,
}

/// `input @ weight.T`, then the bias: autocast casts the transposed view anew each time.
#[derive(Clone, Copy, Debug)]
struct FalconLinear {
    weight: ParamId,
    bias: Option<ParamId>,
}

impl Network for FalconModel {
    fn forward(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are [batch, tokens]") };
        tape.enter(Block::Embedding, "word_embeddings");
        let inputs_embeds = tape.embedding(ids, self.word_embeddings, false);
        let from_zero = tape.helper(Shape::new([tokens]), DType::I64, Prim::Arange);
        let position_ids = tape.helper(Shape::new([tokens]), DType::I64, Prim::Add);
        tape.release(from_zero);
        let dtype = inputs_embeds.dtype;
        let causal_mask = mask::causal_always(tape, [batch, tokens], dtype, self.style.attention);
        let head_dim = self.config.hidden / self.config.heads;
        let Tables { cos, sin } = rotary::tables(tape, tokens, head_dim, dtype);
        let shared = Shared::new([&cos, &sin], &position_ids, Some(&causal_mask));
        let mut hidden_states = tape.share(&inputs_embeds);
        let mut weights: Option<Tensor> = None;
        for index in (0_u32..).take(self.layers.len()) {
            let mut returned = None;
            let layer = |tape: &mut Tape| {
                let (output, weights) = self.layer(tape, index, &hidden_states, &shared);
                returned = weights;
                output
            };
            let output = self.style.run_layer(tape, (index, &hidden_states), shared.kept(), layer);
            // `outputs`, with the weights of the layer before, lives until the next layer's.
            if let Some(old) = core::mem::replace(&mut weights, returned) {
                tape.release(old);
            }
            tape.release(core::mem::replace(&mut hidden_states, output));
        }
        tape.enter(Block::FinalNorm, "ln_f");
        let normed = self.ln_f.normed(tape, &hidden_states);
        tape.release(hidden_states);
        let locals = [position_ids, inputs_embeds, causal_mask, sin, cos];
        for tensor in locals.into_iter().chain(weights) {
            tape.release(tensor);
        }
        normed
    }

    fn lm_head(&self) -> ParamId {
        self.lm_head
    }
}

impl Recompute for FalconModel {
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, arguments: &[Tensor]) {
        let (output, weights) = self.layer(tape, layer, input, &Shared::of(arguments));
        for tensor in core::iter::once(output).chain(weights) {
            tape.release(tensor);
        }
    }
}

impl FalconModel {
    pub(super) fn register(tape: &mut Tape, config: &Falcon, dtype: DType, style: Style) -> Self {
        let Falcon { hidden, vocab, .. } = *config;
        let name = "transformer.word_embeddings.weight".to_owned();
        let word_embeddings = parameter(tape, name, [vocab, hidden], dtype);
        let layers = (0..config.layers)
            .map(|i| Layer::register(tape, config, &format!("transformer.h.{i}"), dtype))
            .collect();
        let ln_f = Affine::norm(tape, "transformer.ln_f", hidden, dtype);
        let scope = tape.scope();
        tape.enter(Block::Rotary, "inv_freq");
        for bytes in config.rotary_buffers() {
            tape.new_buffer("rotary_emb", bytes);
        }
        tape.set_scope(scope);
        let lm_head = if config.tied {
            word_embeddings
        } else {
            parameter(tape, "lm_head.weight".to_owned(), [vocab, hidden], dtype)
        };
        Self { config: config.clone(), style, word_embeddings, layers, ln_f, lm_head }
    }

    fn layer(
        &self,
        tape: &mut Tape,
        index: u32,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
    ) -> (Tensor, Option<Tensor>) {
        let layer = &self.layers[index as usize];
        tape.enter_layer(Some(index));
        tape.enter(Block::InputNorm, "input_layernorm");
        let normed = layer.input_norm.normed(tape, hidden_states);
        let (attention_output, weights) = self.attention(tape, layer, &normed, shared);
        tape.enter(Block::Mlp, "dense_h_to_4h");
        let widened = layer.into.forward(tape, &normed);
        tape.enter(Block::Mlp, "act");
        let activated = activate(tape, &widened, self.config.activation);
        tape.release(widened);
        tape.enter(Block::Mlp, "dense_4h_to_h");
        let mut mlp_output = layer.out.forward(tape, &activated);
        tape.release(activated);
        tape.enter(Block::Residual, "residual");
        mlp_output = tape.add_in_place(mlp_output, &attention_output);
        let dropped = tape.dropout(&mlp_output, self.config.dropout);
        let output = tape.add(hidden_states, &dropped);
        for tensor in [dropped, normed, attention_output, mlp_output] {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        (output, weights)
    }

    fn attention(
        &self,
        tape: &mut Tape,
        layer: &Layer,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
    ) -> (Tensor, Option<Tensor>) {
        let head_dim = self.config.hidden / self.config.heads;
        tape.enter(Block::Attention, "query_key_value");
        let fused_qkv = layer.query_key_value.forward(tape, hidden_states);
        tape.enter(Block::Attention, "split_heads");
        let per_head = tape.split_last(&fused_qkv, head_dim);
        let query = tape.leading_heads(&per_head, self.config.heads);
        let [key, value] = [(); 2].map(|()| tape.index_head(&per_head));
        tape.release(per_head);
        let [query, key, value] = [query, key, value].map(|part| {
            let heads = tape.transpose(&part);
            tape.release(part);
            heads
        });
        tape.enter(Block::Attention, "apply_rotary_pos_emb");
        let unrotated = [query, key];
        let [query, key] =
            unrotated.each_ref().map(|x| rotary::rotate(tape, x, shared.cos, shared.sin));
        for tensor in unrotated {
            tape.release(tensor);
        }
        tape.enter(Block::Attention, "attn_output");
        let inputs = [&query, &key, &value];
        let (attended, weights) = if self.style.attention == Attention::Eager {
            let (output, scores) = eager(tape, inputs, shared.mask, hidden_states.dtype);
            (output, Some(scores))
        } else {
            let [query, key, value] = inputs;
            let mask = shared.mask;
            let inputs = SdpaInputs { query, key, value, mask, causal: false, dropout: 0.0 };
            (tape.sdpa_of_one_head(inputs), None)
        };
        let tokens_first = tape.transpose(&attended);
        tape.release(attended);
        let mut attn_output = tape.merge_last(&tokens_first);
        tape.release(tokens_first);
        tape.enter(Block::Attention, "dense");
        let projected = layer.dense.forward(tape, &attn_output);
        tape.release(core::mem::replace(&mut attn_output, projected));
        for tensor in [fused_qkv, query, key, value] {
            tape.release(tensor);
        }
        (attn_output, weights)
    }
}

/// Scores divided in place, softmax in the type of the hidden states, no dropout.
fn eager(
    tape: &mut Tape,
    [query, key, value]: [&Tensor; 3],
    mask: Option<&Tensor>,
    dtype: DType,
) -> (Tensor, Tensor) {
    let mut scores = tape.bmm(query, key, true);
    scores = tape.scale_in_place(scores);
    let masked = match mask {
        Some(mask) => tape.add(&scores, mask),
        None => tape.share(&scores),
    };
    let probabilities = tape.softmax(&masked, dtype);
    tape.release(masked);
    tape.release(core::mem::replace(&mut scores, probabilities));
    let output = tape.bmm(&scores, value, false);
    (output, scores)
}

impl FalconLinear {
    fn register(
        tape: &mut Tape,
        path: &str,
        [inner, outer]: [u64; 2],
        bias: bool,
        dtype: DType,
    ) -> Self {
        let weight = parameter(tape, format!("{path}.weight"), [outer, inner], dtype);
        let bias = bias.then(|| parameter(tape, format!("{path}.bias"), [outer], dtype));
        Self { weight, bias }
    }

    fn forward(self, tape: &mut Tape, x: &Tensor) -> Tensor {
        let weight = tape.weight(self.weight);
        let product = tape.linear_of(x, &weight);
        tape.release(weight);
        let Some(bias) = self.bias else { return product };
        let bias = tape.weight(bias);
        let sum = tape.add(&product, &bias);
        for tensor in [product, bias] {
            tape.release(tensor);
        }
        sum
    }
}

impl Layer {
    fn register(tape: &mut Tape, config: &Falcon, at: &str, dtype: DType) -> Self {
        let Falcon { hidden, intermediate, bias, .. } = *config;
        let linear = |tape: &mut Tape, module: &str, sizes| {
            FalconLinear::register(tape, &format!("{at}.{module}"), sizes, bias, dtype)
        };
        let fused = [hidden, config.fused()];
        let query_key_value = linear(tape, "self_attention.query_key_value", fused);
        let dense = linear(tape, "self_attention.dense", [hidden, hidden]);
        let into = linear(tape, "mlp.dense_h_to_4h", [hidden, intermediate]);
        let out = linear(tape, "mlp.dense_4h_to_h", [intermediate, hidden]);
        let input_norm = Affine::norm(tape, &format!("{at}.input_layernorm"), hidden, dtype);
        Self { query_key_value, dense, into, out, input_norm }
    }
}
