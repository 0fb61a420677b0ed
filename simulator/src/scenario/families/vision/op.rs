//! What an image network is made of: modules in the order in which `forward` calls them.

/// A square kernel that moves over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Pixels a side.
    pub kernel: u64,
    /// Pixels from one place to the next.
    pub stride: u64,
    /// Pixels added at each edge.
    pub padding: u64,
}

impl Window {
    /// Pixels a side of the result; `None` where the window is larger than the image.
    pub fn side(self, side: u64) -> Option<u64> {
        let places = (side + 2 * self.padding).checked_sub(self.kernel)?;
        Some(places / self.stride + 1)
    }
}

/// `nn.Conv2d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    /// The module's path.
    pub name: String,
    /// Channels in.
    pub inputs: u64,
    /// Channels out.
    pub outputs: u64,
    /// Kernel, stride, padding.
    pub window: Window,
    /// `groups`.
    pub groups: u64,
    /// Whether it has a bias.
    pub bias: bool,
}

/// Activation functions of torchvision's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// `nn.ReLU`.
    Relu,
    /// `nn.ReLU6`.
    Relu6,
    /// `nn.SiLU`.
    Silu,
    /// `nn.GELU`.
    Gelu,
    /// `nn.Hardswish`.
    Hardswish,
    /// `nn.Sigmoid`.
    Sigmoid,
    /// `nn.Hardsigmoid`.
    Hardsigmoid,
}

/// `torchvision.ops.SqueezeExcitation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excite {
    /// `fc1` and `fc2`: convolutions over one pixel.
    pub convs: [Conv; 2],
    /// `activation`, and whether it works in place.
    pub act: (Act, bool),
    /// `scale_activation`.
    pub gate: Act,
}

/// How a block adds its branch to what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// `result += input`.
    InPlace,
    /// `input + result`: a new tensor.
    New,
}

/// A branch and a way around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Residual {
    /// The branch.
    pub branch: Vec<Op>,
    /// What the way around goes through; empty: the input itself.
    pub skip: Vec<Op>,
    /// Whether the way around runs, and was registered, before the branch.
    pub skip_first: bool,
    /// Path and channels of a parameter that the branch's result is multiplied by (`layer_scale`).
    pub scale: Option<(String, u64)>,
    /// Probability of `StochasticDepth` in mode `row`.
    pub drop: f64,
    /// How the two meet.
    pub join: Join,
    /// The activation after it, in place.
    pub then: Option<Act>,
}

/// One module.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A convolution.
    Conv(Conv),
    /// `nn.BatchNorm2d`: path and channels.
    BatchNorm(String, u64),
    /// An activation, and whether it works in place.
    Act(Act, bool),
    /// `nn.MaxPool2d`.
    MaxPool(Window),
    /// `nn.AvgPool2d`.
    AvgPool(Window),
    /// `nn.AdaptiveAvgPool2d` to this many pixels a side.
    Pool(u64),
    /// `permute(0, 2, 3, 1)`.
    ChannelsToLast,
    /// `permute(0, 3, 1, 2)`.
    ChannelsToFirst,
    /// `nn.LayerNorm` over the last dimension: path and size.
    LayerNorm(String, u64),
    /// `flatten(1)`.
    Flatten,
    /// `nn.Linear`: path, width in, width out.
    Linear(String, [u64; 2]),
    /// `nn.Dropout`: probability, and whether it works in place.
    Dropout(f64, bool),
    /// Squeeze and excitation.
    Excite(Excite),
    /// `nn.Sequential`.
    Sequential(Vec<Self>),
    /// A residual block.
    Residual(Box<Residual>),
    /// `_DenseBlock`: each layer sees all that came before it, concatenated; so does what follows.
    Dense(Vec<Vec<Self>>),
}

/// What a module keeps on the device from construction on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A parameter: path and sizes.
    Parameter(String, Vec<u64>),
    /// A buffer: path, elements, and whether they are 64-bit counts instead of weights' floats.
    Buffer(String, u64, bool),
}

/// Parameters and buffers of modules, in the order of `model.parameters()`.
pub fn slots(ops: &[Op]) -> Vec<Slot> {
    let mut slots = Vec::new();
    for op in ops {
        add_slots(op, &mut slots);
    }
    slots
}

fn add_slots(op: &Op, slots: &mut Vec<Slot>) {
    let mut parameter = |name: &str, end: &str, sizes| {
        slots.push(Slot::Parameter(format!("{name}.{end}"), sizes));
    };
    match op {
        Op::Conv(conv) => conv_slots(conv, slots),
        Op::BatchNorm(name, channels) => {
            parameter(name, "weight", vec![*channels]);
            parameter(name, "bias", vec![*channels]);
            for buffer in ["running_mean", "running_var"] {
                slots.push(Slot::Buffer(format!("{name}.{buffer}"), *channels, false));
            }
            slots.push(Slot::Buffer(format!("{name}.num_batches_tracked"), 1, true));
        }
        Op::LayerNorm(name, size) => {
            parameter(name, "weight", vec![*size]);
            parameter(name, "bias", vec![*size]);
        }
        Op::Linear(name, [inputs, outputs]) => {
            parameter(name, "weight", vec![*outputs, *inputs]);
            parameter(name, "bias", vec![*outputs]);
        }
        Op::Excite(excite) => excite.convs.iter().for_each(|conv| conv_slots(conv, slots)),
        Op::Sequential(ops) => ops.iter().for_each(|op| add_slots(op, slots)),
        Op::Residual(block) => {
            if let Some((name, channels)) = &block.scale {
                slots.push(Slot::Parameter(name.clone(), vec![*channels, 1, 1]));
            }
            let [first, second] = block.parts();
            first.iter().chain(second).for_each(|op| add_slots(op, slots));
        }
        Op::Dense(layers) => layers.iter().flatten().for_each(|op| add_slots(op, slots)),
        Op::Act(..)
        | Op::MaxPool(_)
        | Op::AvgPool(_)
        | Op::Pool(_)
        | Op::ChannelsToLast
        | Op::ChannelsToFirst
        | Op::Flatten
        | Op::Dropout(..) => {}
    }
}

fn conv_slots(conv: &Conv, slots: &mut Vec<Slot>) {
    let &Conv { inputs, outputs, window: Window { kernel, .. }, groups, .. } = conv;
    let sizes = vec![outputs, inputs / groups, kernel, kernel];
    slots.push(Slot::Parameter(format!("{}.weight", conv.name), sizes));
    if conv.bias {
        slots.push(Slot::Parameter(format!("{}.bias", conv.name), vec![outputs]));
    }
}

impl Residual {
    /// Whether it is a `ResNet`'s block of three convolutions.
    pub fn is_bottleneck(&self) -> bool {
        let convs = self.branch.iter().filter(|op| matches!(op, Op::Conv(_))).count();
        convs == 3 && self.then == Some(Act::Relu)
    }

    /// Branch and way around in the order in which they run.
    pub fn parts(&self) -> [&Vec<Op>; 2] {
        if self.skip_first { [&self.skip, &self.branch] } else { [&self.branch, &self.skip] }
    }
}

/// What one image costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Multiply-adds of the convolutions and linear layers, forward.
    pub macs: u128,
    /// Elements of all results.
    pub elements: u128,
}

/// The features of an image on their way through a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    /// Channels.
    pub channels: u64,
    /// Pixels a side.
    pub side: u64,
}

impl Features {
    const fn elements(self) -> u128 {
        self.channels as u128 * self.side as u128 * self.side as u128
    }
}

/// Follows the features of an image through modules, and adds up what they cost; `None` where a window
/// is larger than what it moves over.
pub(super) fn follow(ops: &[Op], mut features: Features, cost: &mut Cost) -> Option<Features> {
    for op in ops {
        features = step(op, features, cost)?;
        cost.elements += features.elements();
    }
    Some(features)
}

fn step(op: &Op, features: Features, cost: &mut Cost) -> Option<Features> {
    let Features { channels, side } = features;
    Some(match op {
        Op::Conv(conv) => conv_step(conv, features, cost)?,
        Op::MaxPool(window) | Op::AvgPool(window) => {
            Features { side: window.side(side)?, ..features }
        }
        Op::Pool(side) => Features { side: *side, ..features },
        Op::Flatten => Features { channels: channels * side * side, side: 1 },
        Op::Linear(_, [inputs, outputs]) => {
            cost.macs += u128::from(side * side) * u128::from(*inputs) * u128::from(*outputs);
            Features { channels: *outputs, ..features }
        }
        Op::Excite(excite) => {
            for conv in &excite.convs {
                conv_step(conv, Features { channels: conv.inputs, side: 1 }, cost)?;
            }
            features
        }
        Op::Sequential(ops) => follow(ops, features, cost)?,
        Op::Residual(block) => {
            follow(&block.skip, features, cost)?;
            follow(&block.branch, features, cost)?
        }
        Op::Dense(layers) => {
            let mut joined = features;
            for layer in layers {
                joined.channels += follow(layer, joined, cost)?.channels;
                cost.elements += joined.elements();
            }
            joined
        }
        Op::BatchNorm(..)
        | Op::Act(..)
        | Op::ChannelsToLast
        | Op::ChannelsToFirst
        | Op::LayerNorm(..)
        | Op::Dropout(..) => features,
    })
}

fn conv_step(conv: &Conv, features: Features, cost: &mut Cost) -> Option<Features> {
    let side = conv.window.side(features.side)?;
    let out = Features { channels: conv.outputs, side };
    let window = u128::from(conv.inputs / conv.groups) * u128::from(conv.window.kernel).pow(2);
    cost.macs += out.elements() * window;
    Some(out)
}
