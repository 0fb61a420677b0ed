//! torchvision's image classifiers: the list of modules that [`Vision`] is, run one after the other.
//!
//! Source: torchvision 0.26, `torchvision/models`, `torchvision/ops/misc.py`.

use core::cell::Cell;

use crate::engine::Recompute;
use crate::primitives::Places;
use crate::scenario::{Act, Conv, Excite, Join, Op, Residual, Slot, Vision, Window, slots};
use crate::tape::{Block, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::{Network, Style};

/// The model's parameters.
#[derive(Debug)]
pub(super) struct VisionModel {
    config: Vision,
    channels_last: bool,
    /// In the order in which the modules use them.
    parameters: Vec<ParamId>,
}

/// Hands the parameters out as the modules come to them.
struct Walk<'a> {
    parameters: &'a [ParamId],
    next: Cell<usize>,
}

impl Walk<'_> {
    fn parameter(&self) -> ParamId {
        let index = self.next.get();
        self.next.set(index + 1);
        self.parameters[index]
    }
}

impl Network for VisionModel {
    fn forward(&self, tape: &mut Tape, images: &Tensor) -> Tensor {
        let layout = if self.channels_last { Layout::ChannelsLast } else { Layout::Contiguous };
        let images = Tensor { layout, ..tape.share(images) };
        let walk = Walk { parameters: &self.parameters, next: Cell::new(0) };
        let logits = walk.sequential(tape, &self.config.ops, &images);
        tape.release(images);
        logits
    }

    fn lm_head(&self) -> ParamId {
        self.parameters[self.parameters.len() - 2]
    }

    fn input_embedding(&self) -> Option<ParamId> {
        None
    }
}

impl Recompute for VisionModel {
    fn recompute(&self, _: &mut Tape, _: u32, _: &Tensor, _: &[Tensor]) {
        unreachable!("validation refuses to checkpoint image networks")
    }
}

impl VisionModel {
    /// Registers parameters and buffers. `model.to(memory_format=torch.channels_last)` copies each
    /// parameter of four dimensions once the model stands.
    pub(super) fn register(tape: &mut Tape, config: &Vision, dtype: DType, style: Style) -> Self {
        let Style { channels_last, .. } = style;
        let mut parameters = Vec::new();
        for slot in slots(&config.ops) {
            match slot {
                Slot::Parameter(name, sizes) => {
                    let shape = Shape::of(&sizes);
                    parameters.push(tape.new_parameter_of(None, name, shape, dtype));
                }
                Slot::Buffer(_, elements, is_count) => {
                    let bytes = if is_count { 8 } else { dtype.bytes() };
                    tape.new_buffer("", elements * bytes);
                }
            }
        }
        if channels_last {
            for &id in &parameters {
                tape.channels_to_last(id);
            }
        }
        Self { config: config.clone(), channels_last, parameters }
    }
}

impl Walk<'_> {
    /// `for module in self: input = module(input)`.
    fn sequential(&self, tape: &mut Tape, ops: &[Op], x: &Tensor) -> Tensor {
        let mut input = tape.share(x);
        for op in ops {
            self.step(tape, op, &mut input);
        }
        input
    }

    fn step(&self, tape: &mut Tape, op: &Op, x: &mut Tensor) {
        tape.enter(Block::Features, module(op));
        tape.module_call();
        let out = match op {
            Op::Act(act, true) => {
                return in_place(tape, x, |tape, x| activate_in_place(tape, *act, x));
            }
            Op::Dropout(p, true) => {
                return in_place(tape, x, |tape, x| tape.dropout_in_place(x, *p));
            }
            Op::Act(act, false) => activate(tape, *act, x),
            Op::Dropout(p, false) => tape.dropout(x, *p),
            Op::Conv(conv) => self.conv(tape, conv, x),
            Op::BatchNorm(..) => {
                let (weight, bias) = (self.parameter(), self.parameter());
                tape.batch_norm(x, weight, bias)
            }
            Op::LayerNorm(..) => {
                let (weight, bias) = (self.parameter(), self.parameter());
                tape.layer_norm(x, weight, bias)
            }
            Op::Linear(..) => {
                let (weight, bias) = (self.parameter(), self.parameter());
                tape.linear(x, weight, Some(bias))
            }
            Op::MaxPool(window) => tape.max_pool(x, side(*window, x)),
            Op::AvgPool(window) => tape.average_pool(x, side(*window, x)),
            Op::Pool(1) => tape.image_mean(x),
            Op::Pool(side) => tape.average_pool(x, *side),
            Op::ChannelsToLast => tape.permute(x, true),
            Op::ChannelsToFirst => tape.permute(x, false),
            Op::Flatten => tape.flatten_image(x),
            Op::Excite(excite) => self.excite(tape, excite, x),
            Op::Sequential(ops) => self.sequential(tape, ops, x),
            Op::Residual(block) => self.residual(tape, block, x),
            Op::Dense(layers) => self.dense(tape, layers, x),
        };
        tape.release(core::mem::replace(x, out));
    }

    fn conv(&self, tape: &mut Tape, conv: &Conv, x: &Tensor) -> Tensor {
        let weight = self.parameter();
        let bias = conv.bias.then(|| self.parameter());
        let Window { stride, padding, .. } = conv.window;
        tape.conv2d(x, weight, bias, Places { stride, padding, groups: conv.groups })
    }

    /// `self._scale(input) * input`.
    fn excite(&self, tape: &mut Tape, excite: &Excite, input: &Tensor) -> Tensor {
        let [fc1, fc2] = &excite.convs;
        let (act, acts_in_place) = excite.act;
        let ops = [
            Op::Pool(1),
            Op::Conv(fc1.clone()),
            Op::Act(act, acts_in_place),
            Op::Conv(fc2.clone()),
            Op::Act(excite.gate, false),
        ];
        let mut scale = tape.image_mean(input);
        ops[1..].iter().for_each(|op| self.step(tape, op, &mut scale));
        tape.enter(Block::Features, "scale");
        let out = tape.mul_image(&scale, input);
        tape.release(scale);
        out
    }

    fn residual(&self, tape: &mut Tape, block: &Residual, input: &Tensor) -> Tensor {
        let scale = block.scale.is_some().then(|| self.parameter());
        let skip = |tape: &mut Tape| self.sequential(tape, &block.skip, input);
        let early = block.skip_first.then(|| skip(tape));
        let mut result = self.sequential(tape, &block.branch, input);
        if let Some(scale) = scale {
            tape.enter(Block::Features, "layer_scale");
            let scale = tape.weight(scale);
            let scaled = tape.mul_image(&scale, &result);
            tape.release(scale);
            tape.release(core::mem::replace(&mut result, scaled));
        }
        if 0.0 < block.drop {
            tape.enter(Block::Features, "stochastic_depth");
            let images = result.shape.sizes()[0];
            let noise = tape.noise(Shape::new([images, 1, 1, 1]), result.dtype);
            let kept = tape.mul(&result, &noise);
            tape.release(noise);
            tape.release(core::mem::replace(&mut result, kept));
        }
        let skip = early.unwrap_or_else(|| skip(tape));
        tape.enter(Block::Features, "residual");
        let mut sum = match block.join {
            Join::InPlace => tape.add_in_place(result, &skip),
            Join::New => {
                let sum = tape.add(&skip, &result);
                tape.release(result);
                sum
            }
        };
        if let Some(act) = block.then {
            tape.enter(Block::Features, "activation");
            in_place(tape, &mut sum, |tape, sum| activate_in_place(tape, act, sum));
        }
        tape.release(skip);
        sum
    }

    /// Each layer sees the concatenation of all features before it.
    fn dense(&self, tape: &mut Tape, layers: &[Vec<Op>], input: &Tensor) -> Tensor {
        let mut features = vec![tape.share(input)];
        for layer in layers {
            tape.enter(Block::Features, "cat");
            let joined = tape.cat_channels(&features);
            let new = self.sequential(tape, layer, &joined);
            tape.release(joined);
            features.push(new);
        }
        tape.enter(Block::Features, "cat");
        let joined = tape.cat_channels(&features);
        for feature in features {
            tape.release(feature);
        }
        joined
    }
}

/// Replaces a tensor by what an operation in place makes of it.
fn in_place(tape: &mut Tape, x: &mut Tensor, run: impl FnOnce(&mut Tape, Tensor) -> Tensor) {
    let own = tape.share(x);
    let out = run(tape, own);
    tape.release(core::mem::replace(x, out));
}

fn side(window: Window, x: &Tensor) -> u64 {
    window.side(x.shape.last()).expect("validation followed the images through")
}

fn activate(tape: &mut Tape, act: Act, x: &Tensor) -> Tensor {
    match act {
        Act::Relu | Act::Relu6 => tape.relu(x),
        Act::Silu => tape.silu(x),
        Act::Gelu => tape.gelu(x),
        Act::Sigmoid => tape.sigmoid(x),
        Act::Hardsigmoid => tape.hardsigmoid(x),
        Act::Hardswish => tape.hardswish(x),
    }
}

fn activate_in_place(tape: &mut Tape, act: Act, x: Tensor) -> Tensor {
    let prim = match act {
        Act::Relu => return tape.relu_in_place(x),
        Act::Relu6 => Prim::Relu,
        Act::Silu => Prim::Silu,
        Act::Gelu => Prim::Gelu,
        Act::Hardswish => Prim::Hardswish,
        Act::Sigmoid => Prim::Sigmoid,
        Act::Hardsigmoid => Prim::Hardsigmoid,
    };
    tape.activate_in_place(prim, x)
}

/// The word for a module in the timeline.
const fn module(op: &Op) -> &'static str {
    match op {
        Op::Conv(_) => "conv",
        Op::BatchNorm(..) | Op::LayerNorm(..) => "norm",
        Op::Act(..) => "activation",
        Op::MaxPool(_) => "maxpool",
        Op::AvgPool(_) | Op::Pool(_) => "avgpool",
        Op::ChannelsToLast | Op::ChannelsToFirst => "permute",
        Op::Flatten => "flatten",
        Op::Linear(..) => "linear",
        Op::Dropout(..) => "dropout",
        Op::Excite(_) => "se",
        Op::Sequential(_) => "sequential",
        Op::Residual(_) => "block",
        Op::Dense(_) => "denseblock",
    }
}
