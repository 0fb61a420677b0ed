//! `torchvision/models/mobilenetv2.py`, `mobilenetv3.py`, `efficientnet.py`.

use super::build::{conv, conv_norm, excite, linear, make_divisible, norm, same};
use super::op::{Act, Join, Op, Residual};

/// The names of this file's models.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    const MOBILE: [&str; 3] = ["mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"];
    let scaled = SCALED.iter().map(|net| net.name);
    MOBILE.into_iter().chain(scaled).chain(SECOND.iter().map(|net| net.name))
}

/// The modules of a model of this name.
pub(super) fn ops(name: &str, classes: u64) -> Option<Vec<Op>> {
    match name {
        "mobilenet_v2" => Some(mobilenet_v2(classes)),
        "mobilenet_v3_large" => Some(mobilenet_v3(&V3_LARGE, 1280, classes)),
        "mobilenet_v3_small" => Some(mobilenet_v3(&V3_SMALL, 1024, classes)),
        _ => efficientnet(name, classes),
    }
}

/// A block whose branch is added to its input where both have the same shape.
fn around(same_shape: bool, branch: Vec<Op>, drop: f64, join: Join) -> Op {
    if !same_shape {
        return Op::Sequential(branch);
    }
    Op::Residual(Box::new(Residual {
        branch,
        skip: Vec::new(),
        skip_first: false,
        scale: None,
        drop,
        join,
        then: None,
    }))
}

/// `inverted_residual_setting`: expansion, channels, blocks, stride.
const V2: [[u64; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];

fn mobilenet_v2(classes: u64) -> Vec<Op> {
    let act = Some(Act::Relu6);
    let mut inputs = 32;
    let mut features = vec![conv_norm("features.0", [3, inputs], same(3, 2), 1, act)];
    for [expansion, outputs, blocks, stride] in V2 {
        for block in 0..blocks {
            let name = format!("features.{}.conv", features.len());
            let stride = if block == 0 { stride } else { 1 };
            let hidden = inputs * expansion;
            let mut branch = Vec::new();
            let mut at = 0;
            let mut next = || {
                at += 1;
                format!("{name}.{}", at - 1)
            };
            if expansion != 1 {
                branch.push(conv_norm(&next(), [inputs, hidden], same(1, 1), 1, act));
            }
            branch.push(conv_norm(&next(), [hidden; 2], same(3, stride), hidden, act));
            branch.push(conv(&next(), [hidden, outputs], same(1, 1), false));
            branch.push(norm(&next(), outputs));
            features.push(around(stride == 1 && inputs == outputs, branch, 0.0, Join::New));
            inputs = outputs;
        }
    }
    let name = format!("features.{}", features.len());
    features.push(conv_norm(&name, [inputs, 1280], same(1, 1), 1, act));
    vec![
        Op::Sequential(features),
        Op::Pool(1),
        Op::Flatten,
        Op::Sequential(vec![Op::Dropout(0.2, false), linear("classifier.1", 1280, classes)]),
    ]
}

/// `InvertedResidualConfig`: channels in, kernel, expanded channels, channels out, whether it excites,
/// whether it uses Hardswish, stride.
type V3Block = (u64, u64, u64, u64, bool, bool, u64);

const V3_LARGE: [V3Block; 15] = [
    (16, 3, 16, 16, false, false, 1),
    (16, 3, 64, 24, false, false, 2),
    (24, 3, 72, 24, false, false, 1),
    (24, 5, 72, 40, true, false, 2),
    (40, 5, 120, 40, true, false, 1),
    (40, 5, 120, 40, true, false, 1),
    (40, 3, 240, 80, false, true, 2),
    (80, 3, 200, 80, false, true, 1),
    (80, 3, 184, 80, false, true, 1),
    (80, 3, 184, 80, false, true, 1),
    (80, 3, 480, 112, true, true, 1),
    (112, 3, 672, 112, true, true, 1),
    (112, 5, 672, 160, true, true, 2),
    (160, 5, 960, 160, true, true, 1),
    (160, 5, 960, 160, true, true, 1),
];

const V3_SMALL: [V3Block; 11] = [
    (16, 3, 16, 16, true, false, 2),
    (16, 3, 72, 24, false, false, 2),
    (24, 3, 88, 24, false, false, 1),
    (24, 5, 96, 40, true, true, 2),
    (40, 5, 240, 40, true, true, 1),
    (40, 5, 240, 40, true, true, 1),
    (40, 5, 120, 48, true, true, 1),
    (48, 5, 144, 48, true, true, 1),
    (48, 5, 288, 96, true, true, 2),
    (96, 5, 576, 96, true, true, 1),
    (96, 5, 576, 96, true, true, 1),
];

fn mobilenet_v3(blocks: &[V3Block], width: u64, classes: u64) -> Vec<Op> {
    let hardswish = Some(Act::Hardswish);
    let mut features = vec![conv_norm("features.0", [3, 16], same(3, 2), 1, hardswish)];
    let mut last = 16;
    for &(inputs, kernel, hidden, outputs, excites, hard, stride) in blocks {
        let act = Some(if hard { Act::Hardswish } else { Act::Relu });
        let name = format!("features.{}.block", features.len());
        let mut branch = Vec::new();
        let at = |branch: &Vec<Op>| format!("{name}.{}", branch.len());
        if hidden != inputs {
            branch.push(conv_norm(&at(&branch), [inputs, hidden], same(1, 1), 1, act));
        }
        branch.push(conv_norm(&at(&branch), [hidden; 2], same(kernel, stride), hidden, act));
        if excites {
            let widths = [hidden, make_divisible(hidden / 4 * 10)];
            branch.push(excite(&at(&branch), widths, (Act::Relu, false), Act::Hardsigmoid));
        }
        branch.push(conv_norm(&at(&branch), [hidden, outputs], same(1, 1), 1, None));
        features.push(around(stride == 1 && inputs == outputs, branch, 0.0, Join::InPlace));
        last = outputs;
    }
    let name = format!("features.{}", features.len());
    features.push(conv_norm(&name, [last, 6 * last], same(1, 1), 1, hardswish));
    let classifier = vec![
        linear("classifier.0", 6 * last, width),
        Op::Act(Act::Hardswish, true),
        Op::Dropout(0.2, true),
        linear("classifier.3", width, classes),
    ];
    vec![Op::Sequential(features), Op::Pool(1), Op::Flatten, Op::Sequential(classifier)]
}

/// Blocks of one stage of an `EfficientNet`.
#[derive(Clone, Copy)]
struct Stage {
    /// `FusedMBConv` instead of `MBConv`.
    fused: bool,
    expansion: u64,
    kernel: u64,
    stride: u64,
    inputs: u64,
    outputs: u64,
    blocks: u64,
}

const fn mb(expansion: u64, kernel: u64, stride: u64, sizes: [u64; 3]) -> Stage {
    let [inputs, outputs, blocks] = sizes;
    Stage { fused: false, expansion, kernel, stride, inputs, outputs, blocks }
}

const fn fused(expansion: u64, kernel: u64, stride: u64, sizes: [u64; 3]) -> Stage {
    Stage { fused: true, ..mb(expansion, kernel, stride, sizes) }
}

/// The stages that B0 to B7 scale.
const FIRST: [Stage; 7] = [
    mb(1, 3, 1, [32, 16, 1]),
    mb(6, 3, 2, [16, 24, 2]),
    mb(6, 5, 2, [24, 40, 2]),
    mb(6, 3, 2, [40, 80, 3]),
    mb(6, 5, 1, [80, 112, 3]),
    mb(6, 5, 2, [112, 192, 4]),
    mb(6, 3, 1, [192, 320, 1]),
];

/// B0 to B7: how much wider and deeper, in tenths, and the dropout.
struct Scaled {
    name: &'static str,
    width: u64,
    depth: u64,
    dropout: f64,
}

const fn scaled(name: &'static str, width: u64, depth: u64, dropout: f64) -> Scaled {
    Scaled { name, width, depth, dropout }
}

const SCALED: [Scaled; 8] = [
    scaled("efficientnet_b0", 10, 10, 0.2),
    scaled("efficientnet_b1", 10, 11, 0.2),
    scaled("efficientnet_b2", 11, 12, 0.3),
    scaled("efficientnet_b3", 12, 14, 0.3),
    scaled("efficientnet_b4", 14, 18, 0.4),
    scaled("efficientnet_b5", 16, 22, 0.4),
    scaled("efficientnet_b6", 18, 26, 0.5),
    scaled("efficientnet_b7", 20, 31, 0.5),
];

/// V2: its stages and dropout.
struct Second {
    name: &'static str,
    stages: &'static [Stage],
    dropout: f64,
}

const SECOND: [Second; 3] = [
    Second {
        name: "efficientnet_v2_s",
        stages: &[
            fused(1, 3, 1, [24, 24, 2]),
            fused(4, 3, 2, [24, 48, 4]),
            fused(4, 3, 2, [48, 64, 4]),
            mb(4, 3, 2, [64, 128, 6]),
            mb(6, 3, 1, [128, 160, 9]),
            mb(6, 3, 2, [160, 256, 15]),
        ],
        dropout: 0.2,
    },
    Second {
        name: "efficientnet_v2_m",
        stages: &[
            fused(1, 3, 1, [24, 24, 3]),
            fused(4, 3, 2, [24, 48, 5]),
            fused(4, 3, 2, [48, 80, 5]),
            mb(4, 3, 2, [80, 160, 7]),
            mb(6, 3, 1, [160, 176, 14]),
            mb(6, 3, 2, [176, 304, 18]),
            mb(6, 3, 1, [304, 512, 5]),
        ],
        dropout: 0.3,
    },
    Second {
        name: "efficientnet_v2_l",
        stages: &[
            fused(1, 3, 1, [32, 32, 4]),
            fused(4, 3, 2, [32, 64, 7]),
            fused(4, 3, 2, [64, 96, 7]),
            mb(4, 3, 2, [96, 192, 10]),
            mb(6, 3, 1, [192, 224, 19]),
            mb(6, 3, 2, [224, 384, 25]),
            mb(6, 3, 1, [384, 640, 7]),
        ],
        dropout: 0.4,
    },
];

/// `stochastic_depth_prob`: the last block's.
const DROP: f64 = 0.2;

fn efficientnet(name: &str, classes: u64) -> Option<Vec<Op>> {
    if let Some(net) = SECOND.iter().find(|net| net.name == name) {
        return Some(efficientnet_ops(net.stages, net.dropout, Some(1280), classes));
    }
    let net = SCALED.iter().find(|net| net.name == name)?;
    let wider = |channels: u64| make_divisible(channels * net.width);
    let stages = FIRST.map(|stage| Stage {
        inputs: wider(stage.inputs),
        outputs: wider(stage.outputs),
        blocks: (stage.blocks * net.depth).div_ceil(10),
        ..stage
    });
    Some(efficientnet_ops(&stages, net.dropout, None, classes))
}

#[expect(clippy::cast_precision_loss, reason = "there are a few dozen blocks")]
fn efficientnet_ops(stages: &[Stage], dropout: f64, last: Option<u64>, classes: u64) -> Vec<Op> {
    let silu = Some(Act::Silu);
    let first = stages.first().map_or(32, |stage| stage.inputs);
    let mut features = vec![conv_norm("features.0", [3, first], same(3, 2), 1, silu)];
    let total: u64 = stages.iter().map(|stage| stage.blocks).sum();
    let mut number = 0_u32;
    let mut inputs = first;
    for stage in stages {
        let at = features.len();
        let mut blocks = Vec::new();
        for index in 0..stage.blocks {
            let name = format!("features.{at}.{index}.block");
            let stride = if index == 0 { stage.stride } else { 1 };
            let drop = DROP * f64::from(number) / total as f64;
            blocks.push(stage.block(&name, inputs, stride, drop));
            inputs = stage.outputs;
            number += 1;
        }
        features.push(Op::Sequential(blocks));
    }
    let width = last.unwrap_or(4 * inputs);
    let name = format!("features.{}", features.len());
    features.push(conv_norm(&name, [inputs, width], same(1, 1), 1, silu));
    vec![
        Op::Sequential(features),
        Op::Pool(1),
        Op::Flatten,
        Op::Sequential(vec![Op::Dropout(dropout, true), linear("classifier.1", width, classes)]),
    ]
}

impl Stage {
    fn block(&self, name: &str, inputs: u64, stride: u64, drop: f64) -> Op {
        let silu = Some(Act::Silu);
        let hidden = make_divisible(inputs * self.expansion * 10);
        let mut branch = Vec::new();
        let at = |branch: &Vec<Op>| format!("{name}.{}", branch.len());
        let window = same(self.kernel, stride);
        if self.fused && hidden == inputs {
            branch.push(conv_norm(&at(&branch), [inputs, self.outputs], window, 1, silu));
        } else if self.fused {
            branch.push(conv_norm(&at(&branch), [inputs, hidden], window, 1, silu));
            branch.push(conv_norm(&at(&branch), [hidden, self.outputs], same(1, 1), 1, None));
        } else {
            if hidden != inputs {
                branch.push(conv_norm(&at(&branch), [inputs, hidden], same(1, 1), 1, silu));
            }
            branch.push(conv_norm(&at(&branch), [hidden; 2], window, hidden, silu));
            let widths = [hidden, (inputs / 4).max(1)];
            branch.push(excite(&at(&branch), widths, (Act::Silu, true), Act::Sigmoid));
            branch.push(conv_norm(&at(&branch), [hidden, self.outputs], same(1, 1), 1, None));
        }
        around(stride == 1 && inputs == self.outputs, branch, drop, Join::InPlace)
    }
}
