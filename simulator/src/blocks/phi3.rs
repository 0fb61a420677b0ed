//! What Phi-3's class does otherwise than Llama's: one projection for query, key and value, one for gate
//! and up, rotary positions in part of a head.
//!
//! Source: transformers 5.17, `models/phi3/modeling_phi3.py`.

use crate::scenario::{Activation, LlamaLike};
use crate::tape::{Block, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::Attention;

use super::attention::{Inputs, Softmax, attend};
use super::llama::{Linear, Shared, activate};
use super::rotary;

/// `Phi3Attention`.
#[derive(Debug)]
pub(super) struct FusedHeads {
    o_proj: Linear,
    qkv_proj: Linear,
}

impl FusedHeads {
    /// Registers its parameters under a path such as `model.layers.3.self_attn`.
    pub(super) fn register(tape: &mut Tape, path: &str, config: &LlamaLike, dtype: DType) -> Self {
        let [q, kv] = [config.heads, config.kv_heads].map(|heads| heads * config.head_dim);
        let mut linear = |module: &str, sizes: [u64; 2]| {
            Linear::register(tape, &format!("{path}.{module}"), sizes, false, dtype)
        };
        let o_proj = linear("o_proj", [config.hidden, q]);
        let qkv_proj = linear("qkv_proj", [q + 2 * kv, config.hidden]);
        Self { o_proj, qkv_proj }
    }

    /// The layer's attention, and the weights that the eager function returns.
    pub(super) fn forward(
        &self,
        tape: &mut Tape,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
        (config, attention): (&LlamaLike, Attention),
    ) -> (Tensor, Option<Tensor>) {
        tape.enter(Block::Attention, "qkv_proj");
        let qkv = self.qkv_proj.forward(tape, hidden_states);
        let [q, kv] = [config.heads, config.kv_heads].map(|heads| heads * config.head_dim);
        let states = [q, kv, kv].map(|width| tape.slice_last(&qkv, width));
        let [query, key, value] = states.map(|state| {
            let per_head = tape.split_last(&state, config.head_dim);
            tape.release(state);
            let heads = tape.transpose(&per_head);
            tape.release(per_head);
            heads
        });
        tape.enter(Block::Attention, "apply_rotary_pos_emb");
        let [rotated_query, rotated_key] = rotate_parts(tape, [&query, &key], shared);
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
            bounded: false,
        };
        let (attn_output, weights) = attend(tape, attention, inputs);
        tape.enter(Block::Attention, "o_proj");
        let projected = self.o_proj.forward(tape, &attn_output);
        for tensor in [attn_output, qkv, rotated_query, rotated_key, value] {
            tape.release(tensor);
        }
        (projected, weights)
    }
}

/// `apply_rotary_pos_emb`: the first elements of each head are rotated, the others appended, even where
/// there are none.
fn rotate_parts(tape: &mut Tape, inputs: [&Tensor; 2], shared: &Shared<'_>) -> [Tensor; 2] {
    let rotary_dim = shared.cos.shape.last();
    let parts = inputs.map(|x| {
        let first = tape.leading_part(x, rotary_dim);
        [first, tape.slice_last(x, x.shape.last() - rotary_dim)]
    });
    let embedded = parts.each_ref().map(|[first, others]| {
        let rotated = rotary::rotate(tape, first, shared.cos, shared.sin);
        let whole = tape.cat_last(&rotated, others);
        tape.release(rotated);
        whole
    });
    for tensor in parts.into_iter().flatten() {
        tape.release(tensor);
    }
    embedded
}

/// `Phi3MLP`: `down_proj(up * activation_fn(gate))` of the halves of one projection.
#[derive(Debug)]
pub(super) struct FusedMlp {
    gate_up_proj: Linear,
    down_proj: Linear,
}

impl FusedMlp {
    /// Registers its parameters under a path such as `model.layers.3.mlp`.
    pub(super) fn register(tape: &mut Tape, path: &str, config: &LlamaLike, dtype: DType) -> Self {
        let LlamaLike { hidden, intermediate, .. } = *config;
        let mut linear = |module: &str, sizes: [u64; 2]| {
            Linear::register(tape, &format!("{path}.{module}"), sizes, false, dtype)
        };
        let gate_up_proj = linear("gate_up_proj", [2 * intermediate, hidden]);
        let down_proj = linear("down_proj", [hidden, intermediate]);
        Self { gate_up_proj, down_proj }
    }

    pub(super) fn forward(&self, tape: &mut Tape, x: &Tensor, activation: Activation) -> Tensor {
        tape.enter(Block::Mlp, "gate_up_proj");
        let both = self.gate_up_proj.forward(tape, x);
        let [gate, up] = tape.split(&both, [both.shape.last() / 2; 2]);
        tape.release(both);
        tape.enter(Block::Mlp, "activation_fn");
        let activated = activate(tape, &gate, activation);
        tape.enter(Block::Mlp, "up_states * activation_fn");
        let product = tape.mul(&up, &activated);
        tape.release(activated);
        tape.release(up);
        tape.enter(Block::Mlp, "down_proj");
        let down = self.down_proj.forward(tape, &product);
        tape.release(product);
        tape.release(gate);
        down
    }
}

/// `longrope_frequency_update`: the frequencies of sequences longer than the model was first trained for
/// are computed in each forward pass, and take the place of the last ones.
///
/// Source: transformers 5.17, `modeling_rope_utils.py`, with `_compute_longrope_parameters`.
pub(super) fn update_frequencies(tape: &mut Tape, rotary_dim: u64, is_long: bool) {
    tape.enter(Block::Rotary, "longrope_frequency_update");
    let integer = |tape: &mut Tape| tape.helper(Shape::scalar(), DType::I64, Prim::Add);
    let most = integer(tape);
    let seq_len = integer(tape);
    tape.release(most);
    let exceeds = tape.helper(Shape::scalar(), DType::Bool, Prim::Add);
    tape.release(exceeds);
    if is_long {
        let floats =
            |tape: &mut Tape| tape.helper(Shape::new([rotary_dim / 2]), DType::F32, Prim::Mul);
        let ext_factors = floats(tape);
        let integers = tape.helper(Shape::new([rotary_dim / 2]), DType::I64, Prim::Arange);
        let wide = floats(tape);
        tape.release(integers);
        let inv_freq_shape = floats(tape);
        tape.release(wide);
        let power = floats(tape);
        // `pow` puts its base on the device.
        tape.scratch(8, Prim::Pow);
        let product = floats(tape);
        tape.release(power);
        let reciprocal = floats(tape);
        tape.release(product);
        let inv_freq = floats(tape);
        for tensor in [reciprocal, ext_factors, inv_freq_shape, inv_freq] {
            tape.release(tensor);
        }
    }
    tape.release(seq_len);
}
