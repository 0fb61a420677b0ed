//! `LlamaForCausalLM`, and the classes written like it: Mistral, Qwen2, Qwen3, with experts Mixtral and
//! Qwen3-MoE, with latent attention DeepSeek-V3.
//!
//! Source: transformers 5.17, `models/llama/modeling_llama.py`, `models/qwen3/modeling_qwen3.py`.

use crate::engine::Recompute;
use crate::scenario::{Activation, LlamaLike};
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::experts::Mixture;
use super::heads::Heads;
use super::mask::Masks;
use super::mla::LatentAttention;
use super::mlp::Mlp;
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
    pub(super) cos: &'a Tensor,
    pub(super) sin: &'a Tensor,
    position_ids: &'a Tensor,
    pub(super) mask: Option<&'a Tensor>,
}

impl<'a> Shared<'a> {
    /// Cosine and sine, the positions, and the mask if there is one.
    pub(super) const fn new(
        [cos, sin]: [&'a Tensor; 2],
        position_ids: &'a Tensor,
        mask: Option<&'a Tensor>,
    ) -> Self {
        Self { cos, sin, position_ids, mask }
    }

    /// From a checkpoint's arguments: the mask, if there is one, sine and cosine, the positions.
    pub(super) fn of(arguments: &'a [Tensor]) -> Self {
        match arguments {
            [sin, cos, position_ids] => Self { cos, sin, position_ids, mask: None },
            [mask, sin, cos, position_ids] => Self { cos, sin, position_ids, mask: Some(mask) },
            _ => unreachable!("a layer has two tables, positions and at most one mask"),
        }
    }

    /// What a checkpoint keeps, in the order in which it dies: the tuple of tables from its end.
    pub(super) fn kept(&self) -> impl Iterator<Item = &'a Tensor> + use<'a> {
        self.mask.into_iter().chain([self.sin, self.cos, self.position_ids])
    }
}

/// A linear layer's parameters.
#[derive(Debug)]
pub(super) struct Linear {
    weight: ParamId,
    bias: Option<ParamId>,
}

impl Linear {
    /// Registers them under a module's path.
    pub(super) fn register(
        tape: &mut Tape,
        path: &str,
        sizes: [u64; 2],
        bias: bool,
        dtype: DType,
    ) -> Self {
        let weight = parameter(tape, format!("{path}.weight"), sizes, dtype);
        let bias = bias.then(|| parameter(tape, format!("{path}.bias"), [sizes[0]], dtype));
        Self { weight, bias }
    }

    pub(super) fn forward(&self, tape: &mut Tape, x: &Tensor) -> Tensor {
        tape.linear(x, self.weight, self.bias)
    }
}

/// A layer's first half.
#[derive(Debug)]
enum SelfAttention {
    /// Heads with projections of their own.
    Heads(Heads),
    /// Heads out of latents.
    Latent(LatentAttention),
}

/// A layer's second half.
#[derive(Debug)]
enum FeedForward {
    /// One gated MLP.
    Mlp(Mlp),
    /// Experts.
    Mixture(Mixture),
}

#[derive(Debug)]
struct Layer {
    attention: SelfAttention,
    mlp: FeedForward,
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
        let Tables { cos, sin } = rotary::tables(tape, tokens, self.config.rotary_dim(), dtype);

        let mut hidden_states = tape.share(&inputs_embeds);
        for index in (0_u32..).take(self.layers.len()) {
            let mask = masks.of_layer(self.config.sliding_window.as_ref(), index);
            let position_ids = &position_ids;
            let shared = Shared { cos: &cos, sin: &sin, position_ids, mask };
            let layer = |tape: &mut Tape| self.layer(tape, index, &hidden_states, &shared);
            let output = self.style.run_layer(tape, (index, &hidden_states), shared.kept(), layer);
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
        let scope = tape.scope();
        tape.enter(Block::Rotary, "inv_freq");
        for bytes in config.rotary_buffers() {
            tape.new_buffer("model.rotary_emb", bytes);
        }
        tape.set_scope(scope);
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
        let model = (&self.config, self.style.attention);
        match &layer.attention {
            SelfAttention::Heads(heads) => heads.forward(tape, hidden_states, shared, model),
            SelfAttention::Latent(latent) => latent.forward(tape, hidden_states, shared, model),
        }
    }

    fn mlp(&self, tape: &mut Tape, layer: &Layer, x: &Tensor) -> Tensor {
        match &layer.mlp {
            FeedForward::Mlp(mlp) => mlp.forward(tape, x, self.config.activation),
            FeedForward::Mixture(mixture) => mixture.forward(tape, x),
        }
    }
}

impl Layer {
    fn register(tape: &mut Tape, config: &LlamaLike, dtype: DType, index: u64) -> Self {
        let LlamaLike { hidden, intermediate, .. } = *config;
        let layer = format!("model.layers.{index}");
        let path = format!("{layer}.self_attn");
        let attention = match &config.latent {
            Some(latent) => {
                SelfAttention::Latent(LatentAttention::register(tape, &path, config, latent, dtype))
            }
            None => SelfAttention::Heads(Heads::register(tape, &path, config, dtype)),
        };
        let path = format!("{layer}.mlp");
        let experts = config.experts.as_ref().filter(|experts| experts.first_layer <= index);
        let mlp = if let Some(experts) = experts {
            FeedForward::Mixture(Mixture::register(tape, &path, config, experts, dtype))
        } else {
            let sizes = [hidden, intermediate];
            FeedForward::Mlp(Mlp::register(tape, &path, sizes, config.mlp_bias, dtype))
        };
        let [input_norm, post_norm] = ["input_layernorm", "post_attention_layernorm"]
            .map(|module| parameter(tape, format!("{layer}.{module}.weight"), [hidden], dtype));
        Self { attention, mlp, input_norm, post_norm }
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
