//! `LlamaForCausalLM`, and the classes written like it: Mistral, Qwen2, Qwen3, with experts Mixtral and
//! Qwen3-MoE, with latent attention DeepSeek-V3, with more norms Gemma 2 and 3, with fused projections
//! Phi-3.
//!
//! Source: transformers 5.17, `models/llama/modeling_llama.py`, `models/qwen3/modeling_qwen3.py`,
//! `models/gemma2/modeling_gemma2.py`, `models/gemma3/modeling_gemma3.py`,
//! `models/phi3/modeling_phi3.py`.

use crate::engine::Recompute;
use crate::scenario::{Activation, LlamaLike};
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::timeline::Category;

use super::experts::Mixture;
use super::gemma::{Norm, bounded};
use super::heads::Heads;
use super::mask::Masks;
use super::mla::LatentAttention;
use super::mlp::Mlp;
use super::phi3::{FusedHeads, FusedMlp, update_frequencies};
use super::rotary::Tables;
use super::{Network, Style, mask, parameter, rotary};

/// The model's parameters and what its forward pass keeps.
#[derive(Debug)]
pub(super) struct LlamaModel {
    config: LlamaLike,
    style: Style,
    embed_tokens: ParamId,
    layers: Vec<Layer>,
    norm: Norm,
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
    /// Heads out of one projection.
    Fused(FusedHeads),
    /// Heads out of latents.
    Latent(LatentAttention),
}

/// A layer's second half.
#[derive(Debug)]
enum FeedForward {
    /// One gated MLP.
    Mlp(Mlp),
    /// One whose gate and up projection are one.
    Fused(FusedMlp),
    /// Experts.
    Mixture(Mixture),
}

#[derive(Debug)]
struct Layer {
    attention: SelfAttention,
    mlp: FeedForward,
    norms: Norms,
}

/// A layer's norms: before each half, and in Gemma after it as well.
#[derive(Debug)]
struct Norms {
    input: Norm,
    after_attention: Option<Norm>,
    before_mlp: Norm,
    after_mlp: Option<Norm>,
}

impl Network for LlamaModel {
    fn forward(&self, tape: &mut Tape, ids: &Tensor) -> Tensor {
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are [batch, tokens]") };
        tape.enter(Block::Embedding, "embed_tokens");
        let inputs_embeds = if self.config.gemma.is_some() {
            tape.scaled_embedding(ids, self.embed_tokens)
        } else {
            tape.embedding(ids, self.embed_tokens, false)
        };
        let from_zero = tape.helper(Shape::new([tokens]), DType::I64, Prim::Arange);
        let position_ids = tape.helper(Shape::new([tokens]), DType::I64, Prim::Add);
        tape.release(from_zero);
        let dtype = inputs_embeds.dtype;
        let masks = self.masks(tape, [batch, tokens], dtype);
        let tables = self.tables(tape, tokens, dtype);

        let mut hidden_states = tape.share(&inputs_embeds);
        for index in (0_u32..).take(self.layers.len()) {
            let mask = masks.of_layer(self.config.sliding_window.as_ref(), index);
            let position_ids = &position_ids;
            let Tables { cos, sin } = &tables[self.kind_of_tables(index)];
            let shared = Shared { cos, sin, position_ids, mask };
            let layer = |tape: &mut Tape| self.layer(tape, index, &hidden_states, &shared);
            let output = self.style.run_layer(tape, (index, &hidden_states), shared.kept(), layer);
            tape.release(core::mem::replace(&mut hidden_states, output));
        }
        tape.enter(Block::FinalNorm, "norm");
        let normed = self.norm.forward(tape, &hidden_states);
        tape.release(hidden_states);
        for tensor in [position_ids, inputs_embeds] {
            tape.release(tensor);
        }
        masks.release(tape);
        for Tables { cos, sin } in tables {
            tape.release(sin);
            tape.release(cos);
        }
        normed
    }

    fn finish_logits(&self, tape: &mut Tape, logits: Tensor) -> Tensor {
        match &self.config.gemma {
            Some(gemma) if gemma.bounds_logits => bounded(tape, logits, Some(Category::Logits)),
            _ => logits,
        }
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
        if config.gemma.is_some() {
            tape.new_buffer("model.embed_tokens.embed_scale", dtype.bytes());
        }
        let layers = (0..config.layers).map(|i| Layer::register(tape, config, dtype, i)).collect();
        let norm = Norm::register(tape, "model.norm", config.hidden, config, dtype);
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

    /// The rotary tables of each kind of layer that has its own: first of those without a window.
    fn tables(&self, tape: &mut Tape, tokens: u64, dtype: DType) -> Vec<Tables> {
        let rotary_dim = self.config.rotary_dim();
        if let Some(original) = self.config.phi3.and_then(|phi| phi.long_from) {
            update_frequencies(tape, rotary_dim, original < tokens);
        }
        let kinds = self.config.gemma.as_ref().map_or(1, |gemma| gemma.rotary_kinds);
        (0..kinds).map(|_| rotary::tables(tape, tokens, rotary_dim, dtype)).collect()
    }

    fn kind_of_tables(&self, layer: u32) -> usize {
        let kinds = self.config.gemma.as_ref().map_or(1, |gemma| gemma.rotary_kinds);
        let window = self.config.sliding_window.as_ref();
        usize::from(kinds == 2 && window.is_some_and(|window| window.applies_to(u64::from(layer))))
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
        let norms = &layer.norms;
        let residual = tape.share(hidden_states);
        let normed = norms.input.enter(tape, (Block::InputNorm, "input_layernorm"), hidden_states);
        let (mut attended, weights) = self.attention(tape, layer, &normed, shared);
        tape.release(normed);
        if let Some(norm) = norms.after_attention {
            let place = (Block::PostNorm, "post_attention_layernorm");
            let normed = norm.enter(tape, place, &attended);
            tape.release(core::mem::replace(&mut attended, normed));
        }
        let hidden_states = self.add_to(tape, &residual, attended);
        tape.release(residual);

        let residual = tape.share(&hidden_states);
        let module = if norms.after_attention.is_some() {
            "pre_feedforward_layernorm"
        } else {
            "post_attention_layernorm"
        };
        let normed = norms.before_mlp.enter(tape, (Block::PostNorm, module), &hidden_states);
        tape.release(hidden_states);
        let mut projected = self.mlp(tape, layer, &normed);
        tape.release(normed);
        if let Some(norm) = norms.after_mlp {
            let place = (Block::PostNorm, "post_feedforward_layernorm");
            let normed = norm.enter(tape, place, &projected);
            tape.release(core::mem::replace(&mut projected, normed));
        }
        let output = self.add_to(tape, &residual, projected);
        for tensor in [residual].into_iter().chain(weights) {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        output
    }

    /// `residual + hidden_states`, the latter after Phi-3's dropout.
    fn add_to(&self, tape: &mut Tape, residual: &Tensor, hidden_states: Tensor) -> Tensor {
        tape.enter(Block::Residual, "residual");
        let dropout = self.config.phi3.map_or(0.0, |phi| phi.residual_dropout);
        let dropped = tape.dropout(&hidden_states, dropout);
        let sum = tape.add(residual, &dropped);
        tape.release(dropped);
        tape.release(hidden_states);
        sum
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
            SelfAttention::Fused(heads) => heads.forward(tape, hidden_states, shared, model),
            SelfAttention::Latent(latent) => latent.forward(tape, hidden_states, shared, model),
        }
    }

    fn mlp(&self, tape: &mut Tape, layer: &Layer, x: &Tensor) -> Tensor {
        match &layer.mlp {
            FeedForward::Mlp(mlp) => mlp.forward(tape, x, self.config.activation),
            FeedForward::Fused(mlp) => mlp.forward(tape, x, self.config.activation),
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
            None if config.phi3.is_some() => {
                SelfAttention::Fused(FusedHeads::register(tape, &path, config, dtype))
            }
            None => SelfAttention::Heads(Heads::register(tape, &path, config, dtype)),
        };
        let path = format!("{layer}.mlp");
        let experts = config.experts.as_ref().filter(|experts| experts.first_layer <= index);
        let mlp = if let Some(experts) = experts {
            FeedForward::Mixture(Mixture::register(tape, &path, config, experts, dtype))
        } else if config.phi3.is_some() {
            FeedForward::Fused(FusedMlp::register(tape, &path, config, dtype))
        } else {
            let sizes = [hidden, intermediate];
            FeedForward::Mlp(Mlp::register(tape, &path, sizes, config.mlp_bias, dtype))
        };
        let norms = Norms::register(tape, &layer, config, dtype);
        Self { attention, mlp, norms }
    }
}

impl Norms {
    fn register(tape: &mut Tape, layer: &str, config: &LlamaLike, dtype: DType) -> Self {
        let mut norm = |module: &str| {
            Norm::register(tape, &format!("{layer}.{module}"), config.hidden, config, dtype)
        };
        let input = norm("input_layernorm");
        let second = norm("post_attention_layernorm");
        if config.gemma.is_none() {
            return Self { input, after_attention: None, before_mlp: second, after_mlp: None };
        }
        let before_mlp = norm("pre_feedforward_layernorm");
        let after_mlp = Some(norm("post_feedforward_layernorm"));
        Self { input, after_attention: Some(second), before_mlp, after_mlp }
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
