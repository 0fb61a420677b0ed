//! `PhiForCausalLM` and `GPTNeoXForCausalLM`.
//!
//! Source: transformers 5.17, `models/phi/modeling_phi.py`, `models/gpt_neox/modeling_gpt_neox.py`.

use crate::engine::Recompute;
use crate::scenario::Parallel;
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::affine::Affine;
use super::attention::{Inputs, Softmax, attend};
use super::llama::{Linear, Shared};
use super::plain::{self, per_head, projected_heads};
use super::rotary::Tables;
use super::{Network, Style, mask, parameter, rotary};

/// The model's parameters.
#[derive(Debug)]
pub(super) struct ParallelModel {
    config: Parallel,
    style: Style,
    embed: ParamId,
    layers: Vec<Layer>,
    final_norm: Affine,
    lm_head: ParamId,
    lm_head_bias: Option<ParamId>,
}

#[derive(Debug)]
struct Layer {
    input_norm: Affine,
    /// GPT-NeoX has a norm of its own before the MLP.
    post_norm: Option<Affine>,
    projections: Projections,
    dense: Linear,
    mlp: [Affine; 2],
}

#[derive(Debug)]
enum Projections {
    /// Query, key and value by a linear layer each.
    Each([Affine; 3]),
    /// All of them by one.
    Joint(Linear),
}

impl Network for ParallelModel {
    fn forward(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are [batch, tokens]") };
        tape.enter(Block::Embedding, "embed_tokens");
        let mut inputs_embeds = tape.embedding(ids, self.embed, false);
        let from_zero = tape.helper(Shape::new([tokens]), DType::I64, Prim::Arange);
        let position_ids = tape.helper(Shape::new([tokens]), DType::I64, Prim::Add);
        tape.release(from_zero);
        let dtype = inputs_embeds.dtype;
        let masks = mask::causal(tape, [batch, tokens], dtype, self.style.attention, None);
        tape.enter(Block::Embedding, "dropout");
        let mut hidden_states = tape.dropout(&inputs_embeds, self.config.embedding_dropout);
        if self.config.is_phi() {
            let dropped = tape.share(&hidden_states);
            tape.release(core::mem::replace(&mut inputs_embeds, dropped));
        }
        let Tables { cos, sin } = rotary::tables(tape, tokens, self.config.rotary_dim, dtype);
        let shared = Shared::new([&cos, &sin], &position_ids, masks.full.as_ref());
        for index in (0_u32..).take(self.layers.len()) {
            let layer = |tape: &mut Tape| self.layer(tape, index, &hidden_states, &shared);
            let kept = shared.kept();
            let output = self.style.run_layer(tape, (index, &hidden_states), kept, layer);
            tape.release(core::mem::replace(&mut hidden_states, output));
        }
        tape.enter(Block::FinalNorm, "final_layer_norm");
        let normed = self.final_norm.normed(tape, &hidden_states);
        tape.release(hidden_states);
        for tensor in [position_ids, inputs_embeds] {
            tape.release(tensor);
        }
        masks.release(tape);
        for tensor in [sin, cos] {
            tape.release(tensor);
        }
        normed
    }

    fn lm_head(&self) -> ParamId {
        self.lm_head
    }

    fn lm_head_bias(&self) -> Option<ParamId> {
        self.lm_head_bias
    }
}

impl Recompute for ParallelModel {
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, arguments: &[Tensor]) {
        let output = self.layer(tape, layer, input, &Shared::of(arguments));
        tape.release(output);
    }
}

impl ParallelModel {
    pub(super) fn register(tape: &mut Tape, config: &Parallel, dtype: DType, style: Style) -> Self {
        let Parallel { hidden, vocab, .. } = *config;
        let phi = config.is_phi();
        let (base, table) = if phi { ("model", "embed_tokens") } else { ("gpt_neox", "embed_in") };
        let embed = parameter(tape, format!("{base}.{table}.weight"), [vocab, hidden], dtype);
        let layers = (0..config.layers)
            .map(|i| Layer::register(tape, config, &format!("{base}.layers.{i}"), dtype))
            .collect();
        let buffers = |tape: &mut Tape| {
            let scope = tape.scope();
            tape.enter(Block::Rotary, "inv_freq");
            for bytes in config.rotary_buffers() {
                tape.new_buffer("rotary_emb", bytes);
            }
            tape.set_scope(scope);
        };
        let final_norm = |tape: &mut Tape, name: &str| {
            Affine::norm(tape, &format!("{base}.{name}"), hidden, dtype)
        };
        let final_norm = if phi {
            buffers(tape);
            final_norm(tape, "final_layernorm")
        } else {
            let norm = final_norm(tape, "final_layer_norm");
            buffers(tape);
            norm
        };
        let lm_head = if config.tied {
            embed
        } else {
            parameter(tape, "lm_head.weight".to_owned(), [vocab, hidden], dtype)
        };
        let lm_head_bias = phi.then(|| parameter(tape, "lm_head.bias".to_owned(), [vocab], dtype));
        let config = config.clone();
        Self { config, style, embed, layers, final_norm, lm_head, lm_head_bias }
    }

    fn layer(
        &self,
        tape: &mut Tape,
        index: u32,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
    ) -> Tensor {
        let layer = &self.layers[index as usize];
        tape.enter_layer(Some(index));
        tape.enter(Block::InputNorm, "input_layernorm");
        let normed = layer.input_norm.normed(tape, hidden_states);
        let (mut attn_output, weights) = self.attention(tape, layer, &normed, shared);
        let output = if let Some(post_norm) = layer.post_norm {
            tape.release(normed);
            self.dropout(tape, &mut attn_output);
            self.after_norm(tape, layer, post_norm, [hidden_states, &attn_output])
        } else {
            self.dropout(tape, &mut attn_output);
            let feed_forward = self.mlp(tape, layer, &normed);
            tape.enter(Block::Residual, "residual");
            let both = tape.add(&attn_output, &feed_forward);
            let output = tape.add(&both, hidden_states);
            for tensor in [both, normed, feed_forward] {
                tape.release(tensor);
            }
            output
        };
        for tensor in core::iter::once(attn_output).chain(weights) {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        output
    }

    /// GPT-NeoX: the MLP of the normed input, or of the input with the attention added.
    fn after_norm(
        &self,
        tape: &mut Tape,
        layer: &Layer,
        post_norm: Affine,
        [hidden_states, attn_output]: [&Tensor; 2],
    ) -> Tensor {
        let summed = (!self.config.mlp_beside).then(|| {
            tape.enter(Block::Residual, "residual");
            tape.add(attn_output, hidden_states)
        });
        tape.enter(Block::PostNorm, "post_attention_layernorm");
        let normed = post_norm.normed(tape, summed.as_ref().unwrap_or(hidden_states));
        let mlp_output = self.mlp(tape, layer, &normed);
        tape.release(normed);
        tape.enter(Block::Residual, "residual");
        let output = if let Some(summed) = &summed {
            tape.add(&mlp_output, summed)
        } else {
            let both = tape.add(&mlp_output, attn_output);
            let output = tape.add(&both, hidden_states);
            tape.release(both);
            output
        };
        for tensor in core::iter::once(mlp_output).chain(summed) {
            tape.release(tensor);
        }
        output
    }

    fn dropout(&self, tape: &mut Tape, x: &mut Tensor) {
        tape.enter(Block::Residual, "dropout");
        let dropped = tape.dropout(x, self.config.residual_dropout);
        tape.release(core::mem::replace(x, dropped));
    }

    fn mlp(&self, tape: &mut Tape, layer: &Layer, x: &Tensor) -> Tensor {
        let modules = if self.config.is_phi() {
            ["fc1", "activation_fn", "fc2"]
        } else {
            ["dense_h_to_4h", "act", "dense_4h_to_h"]
        };
        let mut output = plain::mlp(tape, x, layer.mlp, self.config.activation, modules);
        self.dropout(tape, &mut output);
        output
    }

    fn attention(
        &self,
        tape: &mut Tape,
        layer: &Layer,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
    ) -> (Tensor, Option<Tensor>) {
        let head_dim = self.config.hidden / self.config.heads;
        let (heads, joint) = match &layer.projections {
            Projections::Each([query, key, value]) => {
                let modules = [("q_proj", *query), ("k_proj", *key), ("v_proj", *value)];
                (projected_heads(tape, modules, hidden_states, head_dim), None)
            }
            Projections::Joint(query_key_value) => {
                tape.enter(Block::Attention, "query_key_value");
                let projected = query_key_value.forward(tape, hidden_states);
                let qkv = per_head(tape, projected, 3 * head_dim);
                (tape.split(&qkv, [head_dim; 3]), Some(qkv))
            }
        };
        let [query, key, value] = heads;
        tape.enter(Block::Attention, "apply_rotary_pos_emb");
        let ([query, key], parts) = self.rotated(tape, [query, key], shared);
        tape.enter(Block::Attention, "attn_output");
        let inputs = Inputs {
            query: &query,
            key: &key,
            value: &value,
            mask: shared.mask,
            groups: self.config.heads / self.config.kv_heads,
            bounded: false,
            dropout: self.config.attention_dropout,
            causal: true,
            softmax: Softmax::InF32,
        };
        let (mut attn_output, weights) = attend(tape, self.style.attention, inputs);
        tape.enter(Block::Attention, "dense");
        let projected = layer.dense.forward(tape, &attn_output);
        tape.release(core::mem::replace(&mut attn_output, projected));
        for tensor in [query, key, value].into_iter().chain(joint).chain(parts) {
            tape.release(tensor);
        }
        (attn_output, weights)
    }

    /// Query and key with the first part of each head rotated, and the rest as it is; and the parts,
    /// which Phi names until its attention ends.
    fn rotated(
        &self,
        tape: &mut Tape,
        inputs: [Tensor; 2],
        shared: &Shared<'_>,
    ) -> ([Tensor; 2], Vec<Tensor>) {
        let dim = self.config.rotary_dim;
        let parts = inputs.each_ref().map(|x| {
            let rest = x.shape.last() - dim;
            [dim, rest].map(|size| tape.slice_last(x, size))
        });
        let rotated =
            parts.each_ref().map(|[part, _]| rotary::rotate(tape, part, shared.cos, shared.sin));
        let [[query_part, query_rest], [key_part, key_rest]] = parts;
        let phi = self.config.is_phi();
        let mut named = Vec::new();
        let [rotated_query, rotated_key] = rotated;
        let pairs = [(rotated_query, &query_rest), (rotated_key, &key_rest)];
        let joined = pairs.map(|(rotated, rest)| {
            let joined = tape.cat_last(&rotated, rest);
            if phi {
                named.push(rotated);
            } else {
                tape.release(rotated);
            }
            joined
        });
        for tensor in [query_part, key_part].into_iter().chain(inputs) {
            tape.release(tensor);
        }
        if phi {
            named.extend([query_rest, key_rest]);
        } else {
            tape.release(query_rest);
            tape.release(key_rest);
        }
        (joined, named)
    }
}

impl Layer {
    fn register(tape: &mut Tape, config: &Parallel, at: &str, dtype: DType) -> Self {
        let Parallel { hidden, intermediate, attention_bias, .. } = *config;
        let kv = config.kv_heads * (hidden / config.heads);
        let linear = |tape: &mut Tape, module: &str, sizes| {
            Affine::linear(tape, &format!("{at}.{module}"), sizes, dtype)
        };
        let plain = |tape: &mut Tape, module: &str, [inner, outer]: [u64; 2]| {
            let path = format!("{at}.{module}");
            Linear::register(tape, &path, [outer, inner], attention_bias, dtype)
        };
        let norm = |tape: &mut Tape, module: &str| {
            Affine::norm(tape, &format!("{at}.{module}"), hidden, dtype)
        };
        if config.is_phi() {
            let projections = [("q_proj", hidden), ("k_proj", kv), ("v_proj", kv)]
                .map(|(name, width)| linear(tape, &format!("self_attn.{name}"), [hidden, width]));
            let dense = plain(tape, "self_attn.dense", [hidden, hidden]);
            let fc1 = linear(tape, "mlp.fc1", [hidden, intermediate]);
            let fc2 = linear(tape, "mlp.fc2", [intermediate, hidden]);
            let input_norm = norm(tape, "input_layernorm");
            let projections = Projections::Each(projections);
            return Self { input_norm, post_norm: None, projections, dense, mlp: [fc1, fc2] };
        }
        let input_norm = norm(tape, "input_layernorm");
        let post_norm = Some(norm(tape, "post_attention_layernorm"));
        let qkv = plain(tape, "attention.query_key_value", [hidden, 3 * hidden]);
        let dense = plain(tape, "attention.dense", [hidden, hidden]);
        let into = linear(tape, "mlp.dense_h_to_4h", [hidden, intermediate]);
        let out = linear(tape, "mlp.dense_4h_to_h", [intermediate, hidden]);
        let projections = Projections::Joint(qkv);
        Self { input_norm, post_norm, projections, dense, mlp: [into, out] }
    }
}
