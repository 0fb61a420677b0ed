//! `LlamaForCausalLM`, and the classes written like it: Mistral, Qwen2, Qwen3.
//!
//! Source: transformers 5.17, `models/llama/modeling_llama.py`, `models/qwen3/modeling_qwen3.py`.

use crate::engine::Recompute;
use crate::scenario::{Activation, LlamaLike};
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::scenario::Checkpointing;

use super::attention::{Inputs, Softmax, attend};
use super::mask::Masks;
use super::rotary::Tables;
use super::{Network, Style, mask, parameter, rotary};

/// The model's parameters and what its forward pass keeps.
#[derive(Debug)]
pub(super) struct LlamaModel {
    config: LlamaLike,
    style: Style,
    embed_tokens: ParamId,
    layers: Vec<Layer>,
    norm: ParamId,
    pub(super) lm_head: ParamId,
}

/// What every layer gets beside its input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared<'a> {
    cos: &'a Tensor,
    sin: &'a Tensor,
    position_ids: &'a Tensor,
    mask: Option<&'a Tensor>,
}

impl<'a> Shared<'a> {
    /// From a checkpoint's arguments: the mask, if there is one, sine and cosine, the positions.
    pub(super) fn of(arguments: &'a [Tensor]) -> Self {
        match arguments {
            [sin, cos, position_ids] => Self { cos, sin, position_ids, mask: None },
            [mask, sin, cos, position_ids] => Self { cos, sin, position_ids, mask: Some(mask) },
            _ => unreachable!("a layer has two tables, positions and at most one mask"),
        }
    }

    /// As a checkpoint keeps them, in the order in which they die: the tuple of tables from its end.
    fn arguments(&self, tape: &mut Tape) -> Vec<Tensor> {
        let others = [self.sin, self.cos, self.position_ids];
        self.mask.into_iter().chain(others).map(|tensor| tape.share(tensor)).collect()
    }
}

#[derive(Debug)]
struct Linear {
    weight: ParamId,
    bias: Option<ParamId>,
}

#[derive(Debug)]
struct Layer {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    qk_norm: Option<[ParamId; 2]>,
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    input_norm: ParamId,
    post_norm: ParamId,
}

impl Network for LlamaModel {
    fn forward(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are [batch, tokens]") };
        tape.enter(Block::Embedding, "embed_tokens");
        let inputs_embeds = tape.embedding(ids, self.embed_tokens, false);
        let from_zero = tape.helper(Shape::new([tokens]), DType::I64, Prim::Arange);
        let position_ids = tape.helper(Shape::new([tokens]), DType::I64, Prim::Add);
        tape.release(from_zero);
        let dtype = inputs_embeds.dtype;
        let masks = self.masks(tape, [batch, tokens], dtype);
        let Tables { cos, sin } = rotary::tables(tape, tokens, self.config.head_dim, dtype);

        let mut hidden_states = tape.share(&inputs_embeds);
        for index in (0_u32..).take(self.layers.len()) {
            let mask = masks.of_layer(self.config.sliding_window.as_ref(), index);
            let position_ids = &position_ids;
            let shared = Shared { cos: &cos, sin: &sin, position_ids, mask };
            let output = self.run_layer(tape, index, &hidden_states, &shared);
            tape.release(core::mem::replace(&mut hidden_states, output));
        }
        tape.enter(Block::FinalNorm, "norm");
        let normed = rms_norm(tape, &hidden_states, self.norm);
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
}

impl Recompute for LlamaModel {
    fn recompute(&self, tape: &mut Tape, layer: u32, input: &Tensor, arguments: &[Tensor]) {
        let output = self.layer(tape, layer, input, &Shared::of(arguments));
        tape.release(output);
    }
}

impl LlamaModel {
    pub(super) fn register(
        tape: &mut Tape,
        config: &LlamaLike,
        dtype: DType,
        style: Style,
    ) -> Self {
        let embed_tokens = parameter(
            tape,
            "model.embed_tokens.weight".to_owned(),
            [config.vocab, config.hidden],
            dtype,
        );
        let layers = (0..config.layers).map(|i| Layer::register(tape, config, dtype, i)).collect();
        let norm = parameter(tape, "model.norm.weight".to_owned(), [config.hidden], dtype);
        let lm_head = if config.tied {
            embed_tokens
        } else {
            let sizes = [config.vocab, config.hidden];
            parameter(tape, "lm_head.weight".to_owned(), sizes, dtype)
        };
        let config = config.clone();
        Self { config, style, embed_tokens, layers, norm, lm_head }
    }

    fn masks(&self, tape: &mut Tape, sizes: [u64; 2], dtype: DType) -> Masks {
        mask::causal(tape, sizes, dtype, self.style.attention, self.config.sliding_window.as_ref())
    }

    fn run_layer(
        &self,
        tape: &mut Tape,
        index: u32,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
    ) -> Tensor {
        if self.style.checkpointing == Checkpointing::None {
            return self.layer(tape, index, hidden_states, shared);
        }
        let input = tape.share(hidden_states);
        let arguments = shared.arguments(tape);
        tape.begin_checkpoint(index, input, arguments);
        let output = self.layer(tape, index, hidden_states, shared);
        tape.end_checkpoint();
        output
    }

    pub(super) fn layer(
        &self,
        tape: &mut Tape,
        index: u32,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
    ) -> Tensor {
        let layer = &self.layers[index as usize];
        tape.enter_layer(Some(index));
        let residual = tape.share(hidden_states);
        tape.enter(Block::InputNorm, "input_layernorm");
        let normed = rms_norm(tape, hidden_states, layer.input_norm);
        let (attended, weights) = self.attention(tape, layer, &normed, shared);
        tape.release(normed);
        tape.enter(Block::Residual, "residual");
        let hidden_states = tape.add(&residual, &attended);
        tape.release(attended);
        tape.release(residual);

        let residual = tape.share(&hidden_states);
        tape.enter(Block::PostNorm, "post_attention_layernorm");
        let normed = rms_norm(tape, &hidden_states, layer.post_norm);
        tape.release(hidden_states);
        let projected = self.mlp(tape, layer, &normed);
        tape.release(normed);
        tape.enter(Block::Residual, "residual");
        let output = tape.add(&residual, &projected);
        for tensor in [projected, residual].into_iter().chain(weights) {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        output
    }

    fn attention(
        &self,
        tape: &mut Tape,
        layer: &Layer,
        hidden_states: &Tensor,
        shared: &Shared<'_>,
    ) -> (Tensor, Option<Tensor>) {
        let query = self.heads(tape, &layer.q_proj, hidden_states, Head::Query(layer));
        let key = self.heads(tape, &layer.k_proj, hidden_states, Head::Key(layer));
        let value = self.heads(tape, &layer.v_proj, hidden_states, Head::Value);

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
            groups: self.config.heads / self.config.kv_heads,
            dropout: self.config.attention_dropout,
            causal: true,
            softmax: Softmax::InF32,
        };
        let (attn_output, weights) = attend(tape, self.style.attention, inputs);
        tape.enter(Block::Attention, "o_proj");
        let projected = tape.linear(&attn_output, layer.o_proj.weight, layer.o_proj.bias);
        for tensor in [attn_output, rotated_query, rotated_key, value] {
            tape.release(tensor);
        }
        (projected, weights)
    }

    /// A projection seen as heads, with Qwen3's norm over the head dimension.
    fn heads(
        &self,
        tape: &mut Tape,
        proj: &Linear,
        hidden_states: &Tensor,
        head: Head<'_>,
    ) -> Tensor {
        let (module, norm) = match head {
            Head::Query(layer) => ("q_proj", layer.qk_norm.map(|norms| norms[0])),
            Head::Key(layer) => ("k_proj", layer.qk_norm.map(|norms| norms[1])),
            Head::Value => ("v_proj", None),
        };
        tape.enter(Block::Attention, module);
        let projected = tape.linear(hidden_states, proj.weight, proj.bias);
        let mut per_head = tape.split_last(&projected, self.config.head_dim);
        tape.release(projected);
        if let Some(norm) = norm {
            tape.enter(Block::Attention, if module == "q_proj" { "q_norm" } else { "k_norm" });
            let normed = rms_norm(tape, &per_head, norm);
            tape.release(core::mem::replace(&mut per_head, normed));
        }
        let heads = tape.transpose(&per_head);
        tape.release(per_head);
        heads
    }

    fn mlp(&self, tape: &mut Tape, layer: &Layer, x: &Tensor) -> Tensor {
        tape.enter(Block::Mlp, "gate_proj");
        let gate = tape.linear(x, layer.gate_proj.weight, layer.gate_proj.bias);
        tape.enter(Block::Mlp, "act_fn");
        let activated = activate(tape, &gate, self.config.activation);
        tape.release(gate);
        tape.enter(Block::Mlp, "up_proj");
        let up = tape.linear(x, layer.up_proj.weight, layer.up_proj.bias);
        tape.enter(Block::Mlp, "act_fn * up_proj");
        let product = tape.mul(&activated, &up);
        tape.release(activated);
        tape.release(up);
        tape.enter(Block::Mlp, "down_proj");
        let down = tape.linear(&product, layer.down_proj.weight, layer.down_proj.bias);
        tape.release(product);
        down
    }
}

#[derive(Clone, Copy)]
enum Head<'a> {
    Query(&'a Layer),
    Key(&'a Layer),
    Value,
}

impl Layer {
    fn register(tape: &mut Tape, config: &LlamaLike, dtype: DType, index: u64) -> Self {
        let LlamaLike { hidden, intermediate, head_dim, .. } = *config;
        let (q_width, kv_width) = (config.heads * head_dim, config.kv_heads * head_dim);
        let linear = |tape: &mut Tape, module: &str, outer: u64, inner: u64, bias: bool| {
            let name = format!("model.layers.{index}.{module}");
            let weight = parameter(tape, format!("{name}.weight"), [outer, inner], dtype);
            let bias = bias.then(|| parameter(tape, format!("{name}.bias"), [outer], dtype));
            Linear { weight, bias }
        };
        let vector = |tape: &mut Tape, module: &str, size: u64| {
            parameter(tape, format!("model.layers.{index}.{module}.weight"), [size], dtype)
        };
        let q_proj = linear(tape, "self_attn.q_proj", q_width, hidden, config.qkv_bias);
        let k_proj = linear(tape, "self_attn.k_proj", kv_width, hidden, config.qkv_bias);
        let v_proj = linear(tape, "self_attn.v_proj", kv_width, hidden, config.qkv_bias);
        let o_proj = linear(tape, "self_attn.o_proj", hidden, q_width, config.output_bias);
        let qk_norm = config.qk_norm.then(|| {
            ["q_norm", "k_norm"].map(|m| vector(tape, &format!("self_attn.{m}"), head_dim))
        });
        let gate_proj = linear(tape, "mlp.gate_proj", intermediate, hidden, config.mlp_bias);
        let up_proj = linear(tape, "mlp.up_proj", intermediate, hidden, config.mlp_bias);
        let down_proj = linear(tape, "mlp.down_proj", hidden, intermediate, config.mlp_bias);
        let input_norm = vector(tape, "input_layernorm", hidden);
        let post_norm = vector(tape, "post_attention_layernorm", hidden);
        Self {
            q_proj,
            k_proj,
            v_proj,
            o_proj,
            qk_norm,
            gate_proj,
            up_proj,
            down_proj,
            input_norm,
            post_norm,
        }
    }
}

/// `LlamaRMSNorm`: statistics in fp32, the weight applied in the input's dtype.
pub(super) fn rms_norm(tape: &mut Tape, x: &Tensor, weight: ParamId) -> Tensor {
    let hidden_states = tape.cast(x, DType::F32);
    let squared = tape.square(&hidden_states);
    let variance = tape.mean_last(&squared);
    tape.release(squared);
    let shifted = tape.add_scalar(&variance);
    let scale = tape.rsqrt(&shifted);
    tape.release(shifted);
    let normed = tape.mul(&hidden_states, &scale);
    tape.release(scale);
    tape.release(hidden_states);
    let cast = tape.cast(&normed, x.dtype);
    let weight = tape.weight(weight);
    let output = tape.mul(&weight, &cast);
    tape.release(weight);
    tape.release(cast);
    tape.release(normed);
    tape.release(variance);
    output
}

/// The activation function as one kernel, or GPT-2's tanh approximation in primitives.
pub(super) fn activate(tape: &mut Tape, x: &Tensor, activation: Activation) -> Tensor {
    match activation {
        Activation::Silu => tape.silu(x),
        Activation::Gelu | Activation::GeluTanh => tape.gelu(x),
        Activation::Relu => tape.relu(x),
        Activation::GeluNew => gelu_new(tape, x),
    }
}

/// `0.5 * x * (1.0 + tanh(√(2/π) * (x + 0.044715 * pow(x, 3.0))))` (`NewGELUActivation`).
///
/// Autocast runs `pow` in fp32, and what follows is promoted.
fn gelu_new(tape: &mut Tape, x: &Tensor) -> Tensor {
    let half = tape.mul_scalar(x);
    let base = if tape.autocast().is_some() { tape.cast(x, DType::F32) } else { tape.share(x) };
    let inner = tape.square(&base);
    tape.release(base);
    let scaled = tape.mul_scalar(&inner);
    tape.release(inner);
    let sum = tape.add(x, &scaled);
    tape.release(scaled);
    let argument = tape.mul_scalar(&sum);
    tape.release(sum);
    let tanh = tape.tanh(&argument);
    tape.release(argument);
    let shifted = tape.add_scalar(&tanh);
    tape.release(tanh);
    let output = tape.mul(&half, &shifted);
    tape.release(half);
    tape.release(shifted);
    output
}
