//! Attention with a projection for each of query, key and value: `LlamaAttention`, `Qwen3Attention`.

use crate::scenario::LlamaLike;
use crate::tape::{Block, Tape, Tensor};
use crate::tensor::DType;
use crate::wire::scenario::Attention;

use super::attention::{Inputs, Softmax, attend};
use super::gemma::Norm;
use super::llama::{Linear, Shared};
use super::rotary;

/// Its parameters.
#[derive(Debug)]
pub(super) struct Heads {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    qk_norm: Option<[Norm; 2]>,
}

#[derive(Clone, Copy)]
enum Head {
    Query,
    Key,
    Value,
}

impl Heads {
    /// Registers them under a path such as `model.layers.3.self_attn`.
    pub(super) fn register(tape: &mut Tape, path: &str, config: &LlamaLike, dtype: DType) -> Self {
        let LlamaLike { hidden, head_dim, qkv_bias, output_bias, .. } = *config;
        let (q_width, kv_width) = (config.heads * head_dim, config.kv_heads * head_dim);
        let linear = |tape: &mut Tape, module: &str, sizes: [u64; 2], bias: bool| {
            Linear::register(tape, &format!("{path}.{module}"), sizes, bias, dtype)
        };
        let q_proj = linear(tape, "q_proj", [q_width, hidden], qkv_bias);
        let k_proj = linear(tape, "k_proj", [kv_width, hidden], qkv_bias);
        let v_proj = linear(tape, "v_proj", [kv_width, hidden], qkv_bias);
        let o_proj = linear(tape, "o_proj", [hidden, q_width], output_bias);
        let qk_norm = config.qk_norm.then(|| {
            ["q_norm", "k_norm"].map(|module| {
                Norm::register(tape, &format!("{path}.{module}"), head_dim, config, dtype)
            })
        });
        Self { q_proj, k_proj, v_proj, o_proj, qk_norm }
    }

    /// The layer's attention, and the weights that the eager function returns.
    pub(super) fn forward(
        &self,
        tape: &mut Tape,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
        (config, attention): (&LlamaLike, Attention),
    ) -> (Tensor, Option<Tensor>) {
        let norms_last = config.gemma.is_some();
        let [mut query, mut key, value] = [Head::Query, Head::Key, Head::Value]
            .map(|head| self.project(tape, head, hidden_states, (config.head_dim, norms_last)));
        if let Some([q_norm, k_norm]) = self.qk_norm.filter(|_| norms_last) {
            let normed = q_norm.enter(tape, (Block::Attention, "q_norm"), &query);
            tape.release(core::mem::replace(&mut query, normed));
            let normed = k_norm.enter(tape, (Block::Attention, "k_norm"), &key);
            tape.release(core::mem::replace(&mut key, normed));
        }

        tape.enter(Block::Attention, "apply_rotary_pos_emb");
        let rotated_query = rotary::rotate(tape, &query, shared.cos, shared.sin);
        let rotated_key = rotary::rotate(tape, &key, shared.cos, shared.sin);
        tape.release(query);
        tape.release(key);

        tape.enter(Block::Attention, "attn_output");
        let inputs = Inputs {
            query: &rotated_query,
            key: &rotated_key,
            value: &value,
            mask: shared.mask,
            groups: config.heads / config.kv_heads,
            dropout: config.attention_dropout,
            causal: true,
            softmax: Softmax::InF32,
            bounded: config.gemma.as_ref().is_some_and(|gemma| gemma.bounds_scores),
        };
        let (attn_output, weights) = attend(tape, attention, inputs);
        tape.enter(Block::Attention, "o_proj");
        let projected = self.o_proj.forward(tape, &attn_output);
        for tensor in [attn_output, rotated_query, rotated_key, value] {
            tape.release(tensor);
        }
        (projected, weights)
    }

    /// A projection seen as heads, with Qwen3's norm over the head dimension; Gemma's comes when heads
    /// are in place.
    fn project(
        &self,
        tape: &mut Tape,
        head: Head,
        hidden_states: &Tensor,
        (head_dim, norms_last): (u64, bool),
    ) -> Tensor {
        let (modules, projection) = match head {
            Head::Query => (["q_proj", "q_norm"], &self.q_proj),
            Head::Key => (["k_proj", "k_norm"], &self.k_proj),
            Head::Value => (["v_proj", ""], &self.v_proj),
        };
        let norm = match head {
            _ if norms_last => None,
            Head::Query => self.qk_norm.map(|norms| norms[0]),
            Head::Key => self.qk_norm.map(|norms| norms[1]),
            Head::Value => None,
        };
        tape.enter(Block::Attention, modules[0]);
        let projected = projection.forward(tape, hidden_states);
        let mut per_head = tape.split_last(&projected, head_dim);
        tape.release(projected);
        if let Some(norm) = norm {
            let normed = norm.enter(tape, (Block::Attention, modules[1]), &per_head);
            tape.release(core::mem::replace(&mut per_head, normed));
        }
        let heads = tape.transpose(&per_head);
        tape.release(per_head);
        heads
    }
}
