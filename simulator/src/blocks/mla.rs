//! Multi-head latent attention: `DeepseekV3Attention`.
//!
//! Source: transformers 5.17, `models/deepseek_v3/modeling_deepseek_v3.py`.

use crate::scenario::{Latent, LlamaLike};
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::Attention;

use super::attention::{Inputs, Softmax, attend};
use super::llama::{Linear, Shared, rms_norm};
use super::{parameter, rotary};

/// Its parameters.
#[derive(Debug)]
pub(super) struct LatentAttention {
    query: Query,
    compress: Linear,
    compressed_norm: ParamId,
    expand: Linear,
    o_proj: Linear,
}

#[derive(Debug)]
enum Query {
    /// `q_proj`.
    Direct(Linear),
    /// `q_a_proj`, `q_a_layernorm`, `q_b_proj`.
    Latent(Linear, ParamId, Linear),
}

impl LatentAttention {
    /// Registers them under a path such as `model.layers.3.self_attn`.
    pub(super) fn register(
        tape: &mut Tape,
        path: &str,
        config: &LlamaLike,
        latent: &Latent,
        dtype: DType,
    ) -> Self {
        let LlamaLike { hidden, heads, qkv_bias, output_bias, .. } = *config;
        let linear = |tape: &mut Tape, module: &str, sizes: [u64; 2], bias: bool| {
            Linear::register(tape, &format!("{path}.{module}"), sizes, bias, dtype)
        };
        let norm = |tape: &mut Tape, module: &str, size: u64| {
            parameter(tape, format!("{path}.{module}.weight"), [size], dtype)
        };
        let queries = heads * latent.head_dim();
        let query = match latent.query_rank {
            None => Query::Direct(linear(tape, "q_proj", [queries, hidden], false)),
            Some(rank) => {
                let down = linear(tape, "q_a_proj", [rank, hidden], qkv_bias);
                let weight = norm(tape, "q_a_layernorm", rank);
                Query::Latent(down, weight, linear(tape, "q_b_proj", [queries, rank], false))
            }
        };
        let compressed = latent.kv_rank + latent.rotary_dim;
        let compress = linear(tape, "kv_a_proj_with_mqa", [compressed, hidden], qkv_bias);
        let compressed_norm = norm(tape, "kv_a_layernorm", latent.kv_rank);
        let expanded = heads * (latent.plain_dim + latent.value_dim);
        let expand = linear(tape, "kv_b_proj", [expanded, latent.kv_rank], false);
        let o_proj = linear(tape, "o_proj", [hidden, heads * latent.value_dim], output_bias);
        Self { query, compress, compressed_norm, expand, o_proj }
    }

    /// The layer's attention, and the weights that the eager function returns.
    pub(super) fn forward(
        &self,
        tape: &mut Tape,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
        (config, attention): (&LlamaLike, Attention),
    ) -> (Tensor, Option<Tensor>) {
        let Some(latent) = &config.latent else { unreachable!("latent attention has a latent") };
        let q_states = self.queries(tape, hidden_states, latent);
        let [q_pass, q_rot] = tape.split(&q_states, [latent.plain_dim, latent.rotary_dim]);
        let (compressed_kv, [kv_nope, k_rot]) = self.compress(tape, hidden_states, latent);

        tape.enter(Block::Attention, "apply_rotary_pos_emb");
        let tables = [shared.cos, shared.sin];
        let rotated = if latent.interleaved {
            rotary::rotate_pairs(tape, [&q_rot, &k_rot], tables)
        } else {
            [&q_rot, &k_rot].map(|x| rotary::rotate(tape, x, shared.cos, shared.sin))
        };
        for tensor in [q_rot, k_rot] {
            tape.release(tensor);
        }
        let [q_rot, k_rot] = rotated;
        let query = tape.cat_last(&q_pass, &q_rot);
        let [key, value] = self.expand(tape, [&kv_nope, &k_rot], config.heads, latent);

        tape.enter(Block::Attention, "attn_output");
        let inputs = Inputs {
            query: &query,
            key: &key,
            value: &value,
            mask: shared.mask,
            groups: 1,
            dropout: config.attention_dropout,
            causal: true,
            softmax: Softmax::InF32,
            bounded: false,
        };
        let (attn_output, weights) = attend(tape, attention, inputs);
        tape.enter(Block::Attention, "o_proj");
        let projected = self.o_proj.forward(tape, &attn_output);
        let names = [q_states, q_pass, q_rot, compressed_kv, kv_nope, k_rot];
        for tensor in names.into_iter().chain([query, key, value, attn_output]) {
            tape.release(tensor);
        }
        (projected, weights)
    }

    fn queries(&self, tape: &mut Tape, hidden_states: &Tensor, latent: &Latent) -> Tensor {
        let projected = match &self.query {
            Query::Direct(projection) => {
                tape.enter(Block::Attention, "q_proj");
                projection.forward(tape, hidden_states)
            }
            Query::Latent(down, norm, up) => {
                tape.enter(Block::Attention, "q_a_proj");
                let compressed = down.forward(tape, hidden_states);
                tape.enter(Block::Attention, "q_a_layernorm");
                let normed = rms_norm(tape, &compressed, *norm);
                tape.release(compressed);
                tape.enter(Block::Attention, "q_b_proj");
                let projected = up.forward(tape, &normed);
                tape.release(normed);
                projected
            }
        };
        let per_head = tape.split_last(&projected, latent.head_dim());
        tape.release(projected);
        let states = tape.transpose(&per_head);
        tape.release(per_head);
        states
    }

    /// The latents of a token, and their parts as one head: without position and rotary.
    fn compress(
        &self,
        tape: &mut Tape,
        hidden_states: &Tensor,
        latent: &Latent,
    ) -> (Tensor, [Tensor; 2]) {
        tape.enter(Block::Attention, "kv_a_proj_with_mqa");
        let compressed = self.compress.forward(tape, hidden_states);
        let &[batch, tokens, _] = compressed.shape.sizes() else {
            unreachable!("latents are [batch, tokens, width]")
        };
        let parts = tape.split(&compressed, [latent.kv_rank, latent.rotary_dim]);
        tape.enter(Block::Attention, "kv_a_layernorm");
        let normed = rms_norm(tape, &parts[0], self.compressed_norm);
        let [plain, rotary] = parts;
        tape.release(plain);
        let one_head = [normed, rotary].map(|part| {
            let shape = Shape::new([batch, 1, tokens, part.shape.last()]);
            let head = tape.reshape(&part, shape);
            tape.release(part);
            head
        });
        (compressed, one_head)
    }

    /// `expand_kv`: keys and values of every head; the rotary part is the same in all keys.
    fn expand(
        &self,
        tape: &mut Tape,
        [kv_nope, k_rot]: [&Tensor; 2],
        heads: u64,
        latent: &Latent,
    ) -> [Tensor; 2] {
        let &[batch, _, tokens, _] = kv_nope.shape.sizes() else {
            unreachable!("one head has four dimensions")
        };
        let &Latent { plain_dim, value_dim, .. } = latent;
        tape.enter(Block::Attention, "kv_b_proj");
        let projected = self.expand.forward(tape, kv_nope);
        let by_head = Shape::new([batch, tokens, heads, plain_dim + value_dim]);
        let per_head = tape.reshape(&projected, by_head);
        tape.release(projected);
        let states = tape.transpose(&per_head);
        tape.release(per_head);
        tape.enter(Block::Attention, "key_states");
        let [plain, value] = tape.split(&states, [plain_dim, value_dim]);
        let k_rot = tape.expand_heads(k_rot, heads);
        let shape = Shape::new([batch, heads, tokens, latent.head_dim()]);
        let key = tape.empty(shape, states.dtype, Prim::Copy);
        let key = tape.copy_into(key, &plain);
        let key = tape.copy_into(key, &k_rot);
        for tensor in [states, plain, k_rot] {
            tape.release(tensor);
        }
        [key, value]
    }
}
