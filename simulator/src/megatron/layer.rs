//! `TransformerLayer`: norms, attention, MLP, residual additions.
//!
//! Source: megatron-core 0.19.2, `transformer/transformer_layer.py`, `transformer/mlp.py`,
//! `fusions/fused_bias_dropout.py`.

use crate::scenario::{Engine, MegatronGpt};
use crate::tape::{Block, ParamId, Runner, Tape, Tensor};
use crate::tensor::Shape;

use super::attention::Attention;
use super::chunk::Context;
use super::moe::Moe;
use super::rank::Rank;

/// A norm's parameters.
#[derive(Debug)]
pub(super) struct Norm {
    pub(super) weight: ParamId,
    pub(super) bias: Option<ParamId>,
}

/// A product's parameters on this rank.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) weight: ParamId,
    pub(super) bias: Option<ParamId>,
}

/// A layer's second half.
#[derive(Debug)]
enum FeedForward {
    Mlp(Mlp),
    Moe(Moe),
}

/// A layer's parameters.
#[derive(Debug)]
pub(super) struct Layer {
    /// Of its own where the first product has none in it.
    input_norm: Option<Norm>,
    pub(super) attention: Attention,
    mlp_norm: Option<Norm>,
    feed_forward: FeedForward,
}

impl Layer {
    pub(super) fn register(tape: &mut Tape, config: &MegatronGpt, rank: &Rank, layer: u64) -> Self {
        let at = |module: &str| format!("decoder.layers.{layer}.{module}");
        let own = |tape: &mut Tape, module: &str| {
            config.engine.is_none().then(|| Norm::register(tape, config, &at(module)))
        };
        let input_norm = own(tape, "input_layernorm");
        let attention = Attention::register(tape, config, rank, &at("self_attention"));
        let mlp_norm = own(tape, "pre_mlp_layernorm");
        let feed_forward = if let Some(mixture) = &config.mixture {
            FeedForward::Moe(Moe::register(tape, config, rank, mixture, &at("mlp")))
        } else {
            let fuses = config.engine.is_some();
            FeedForward::Mlp(Mlp::register(tape, config, rank.tensor, &at("mlp"), fuses))
        };
        Self { input_norm, attention, mlp_norm, feed_forward }
    }

    pub(super) fn forward(
        &self,
        tape: &mut Tape,
        context: &Context<'_>,
        number: u32,
        hidden: &Tensor,
    ) -> Tensor {
        tape.enter_layer(Some(number));
        tape.enter(Block::InputNorm, "input_layernorm");
        let normed = norm_of(tape, self.input_norm.as_ref(), hidden);
        let attended = self.attention.forward(tape, context, &normed, number);
        tape.enter(Block::Residual, "self_attn_bda");
        let bias = self.attention.output_bias();
        let hidden = bias_dropout_add(tape, context.config, &attended, bias, hidden);
        tape.release(attended);
        tape.release(normed);

        tape.enter(Block::PostNorm, "pre_mlp_layernorm");
        let normed = norm_of(tape, self.mlp_norm.as_ref(), &hidden);
        let (fed, bias) = match &self.feed_forward {
            FeedForward::Mlp(mlp) => (mlp.forward(tape, context, &normed), mlp.second.bias),
            FeedForward::Moe(moe) => (moe.forward(tape, context, &normed), None),
        };
        tape.enter(Block::Residual, "mlp_bda");
        let output = bias_dropout_add(tape, context.config, &fed, bias, &hidden);
        for tensor in [normed, fed, hidden] {
            tape.release(tensor);
        }
        tape.enter_layer(None);
        output
    }
}

/// A norm of its own, or nothing where the next product has it.
fn norm_of(tape: &mut Tape, norm: Option<&Norm>, hidden: &Tensor) -> Tensor {
    match norm {
        Some(norm) => norm.forward(tape, hidden),
        None => tape.share(hidden),
    }
}

/// `get_bias_dropout_add(training=True, fused)`.
fn bias_dropout_add(
    tape: &mut Tape,
    config: &MegatronGpt,
    x: &Tensor,
    bias: Option<ParamId>,
    residual: &Tensor,
) -> Tensor {
    if config.fused_dropout {
        return tape.bias_dropout_add(x, bias, residual, config.hidden_dropout);
    }
    let biased = add_bias(tape, x, bias);
    let dropped = tape.dropout(&biased, config.hidden_dropout);
    let out = tape.add(residual, &dropped);
    tape.release(dropped);
    tape.release(biased);
    out
}

fn add_bias(tape: &mut Tape, x: &Tensor, bias: Option<ParamId>) -> Tensor {
    let Some(bias) = bias else { return tape.share(x) };
    let bias = tape.weight(bias);
    let sum = tape.add(x, &bias);
    tape.release(bias);
    sum
}

/// `MLP`: two products around an activation.
#[derive(Debug)]
pub(super) struct Mlp {
    /// Transformer Engine's norm before the first product.
    norm: Option<Norm>,
    pub(super) first: Linear,
    pub(super) second: Linear,
}

impl Mlp {
    pub(super) fn register(
        tape: &mut Tape,
        config: &MegatronGpt,
        tensor: u64,
        path: &str,
        fuses: bool,
    ) -> Self {
        let norm = fuses.then(|| Norm::register(tape, config, &format!("{path}.linear_fc1")));
        let (hidden, ffn) = (config.hidden, config.ffn / tensor);
        let wide = config.first_width() / tensor;
        let first =
            Linear::register(tape, &format!("{path}.linear_fc1"), [wide, hidden], config.bias);
        let second =
            Linear::register(tape, &format!("{path}.linear_fc2"), [hidden, ffn], config.bias);
        Self { norm, first, second }
    }

    fn forward(&self, tape: &mut Tape, context: &Context<'_>, x: &Tensor) -> Tensor {
        tape.enter(Block::Mlp, "linear_fc1");
        let gathered = context.rank.gathered();
        let runner = runner(context.config);
        let mut intermediate = match &self.norm {
            Some(norm) => {
                let weight = [Some(self.first.weight), None];
                tape.norm_linear(x, norm.both(), weight, (gathered, runner))
            }
            None => tape.parallel_linear(x, self.first.weight, None, (gathered, runner)),
        };
        tape.enter(Block::Mlp, "activation_func");
        let activated = activate(tape, context.config, &intermediate, self.first.bias);
        tape.release(core::mem::replace(&mut intermediate, activated));
        tape.enter(Block::Mlp, "linear_fc2");
        let output = row_parallel(tape, context, &intermediate, self.second.weight);
        tape.release(intermediate);
        output
    }
}

/// The activation, fused with its bias or not.
fn activate(tape: &mut Tape, config: &MegatronGpt, x: &Tensor, bias: Option<ParamId>) -> Tensor {
    match (config.fused_activation, config.gated, bias) {
        (true, true, _) => tape.swiglu(x, bias),
        (true, false, Some(bias)) => tape.bias_gelu(x, bias),
        (_, gated, _) => {
            let biased = add_bias(tape, x, bias);
            let out = match gated {
                true => glu(tape, &biased),
                false if config.squared_relu => tape.squared_relu(&biased),
                false => tape.gelu(&biased),
            };
            tape.release(biased);
            out
        }
    }
}

/// `silu(x_glu) * (x_linear + glu_linear_offset)` of both halves.
pub(super) fn glu(tape: &mut Tape, x: &Tensor) -> Tensor {
    let [gate, linear] = tape.split(x, [x.shape.last() / 2; 2]);
    let activated = tape.silu(&gate);
    let shifted = tape.add_scalar(&linear);
    let out = tape.mul(&activated, &shifted);
    for tensor in [shifted, activated, linear, gate] {
        tape.release(tensor);
    }
    out
}

/// Who runs the layers' products.
pub(super) const fn runner(config: &MegatronGpt) -> Runner {
    match config.engine {
        None => Runner::Torch,
        Some(Engine { fused_gradients: false, .. }) => Runner::Engine,
        Some(_) => Runner::EngineFused,
    }
}

/// `RowParallelLinear.forward` without its bias: the product, then its sum over the ranks, of which a
/// rank keeps its part of the sequence or the whole.
pub(super) fn row_parallel(
    tape: &mut Tape,
    context: &Context<'_>,
    x: &Tensor,
    weight: ParamId,
) -> Tensor {
    let output = tape.parallel_linear(x, weight, None, (None, runner(context.config)));
    let rank = context.rank;
    if !rank.sequence {
        return output;
    }
    let &[tokens, batch, width] = output.shape.sizes() else { return output };
    let part = tape.exchange(&output, Shape::new([tokens / rank.tensor, batch, width]));
    tape.release(output);
    part
}
