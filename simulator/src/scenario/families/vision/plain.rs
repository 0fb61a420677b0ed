//! `torchvision/models/vgg.py` and `densenet.py`.

use super::build::{conv, linear, norm, same, tiles};
use super::op::{Act, Op, Window};

/// Channels of the convolutions between the five pools (`cfgs`).
type Stages = [&'static [u64]; 5];

const VGGS: [(&str, Stages); 4] = [
    ("vgg11", [&[64], &[128], &[256; 2], &[512; 2], &[512; 2]]),
    ("vgg13", [&[64; 2], &[128; 2], &[256; 2], &[512; 2], &[512; 2]]),
    ("vgg16", [&[64; 2], &[128; 2], &[256; 3], &[512; 3], &[512; 3]]),
    ("vgg19", [&[64; 2], &[128; 2], &[256; 4], &[512; 4], &[512; 4]]),
];

/// What distinguishes one `DenseNet` from another.
struct DenseNet {
    name: &'static str,
    growth: u64,
    /// Layers of each block.
    blocks: [u64; 4],
    /// Channels of the first convolution.
    first: u64,
}

const DENSENETS: [DenseNet; 4] = [
    DenseNet { name: "densenet121", growth: 32, blocks: [6, 12, 24, 16], first: 64 },
    DenseNet { name: "densenet161", growth: 48, blocks: [6, 12, 36, 24], first: 96 },
    DenseNet { name: "densenet169", growth: 32, blocks: [6, 12, 32, 32], first: 64 },
    DenseNet { name: "densenet201", growth: 32, blocks: [6, 12, 48, 32], first: 64 },
];

/// `bn_size`: bottleneck channels for each channel of growth.
const BOTTLENECK: u64 = 4;

const RELU: Op = Op::Act(Act::Relu, true);

/// The names of this file's models.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    const WITH_NORM: [&str; 4] = ["vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn"];
    let vggs = VGGS.iter().map(|(name, _)| *name).chain(WITH_NORM);
    vggs.chain(DENSENETS.iter().map(|net| net.name))
}

/// The modules of a model of this name.
pub(super) fn ops(name: &str, classes: u64) -> Option<Vec<Op>> {
    let (plain, with_norm) = name.strip_suffix("_bn").map_or((name, false), |name| (name, true));
    let vgg = VGGS.iter().find(|(name, _)| *name == plain);
    if let Some((_, stages)) = vgg {
        return Some(vgg_ops(stages, with_norm, classes));
    }
    let net = DENSENETS.iter().find(|net| net.name == name)?;
    Some(net.ops(classes))
}

fn vgg_ops(stages: &Stages, with_norm: bool, classes: u64) -> Vec<Op> {
    let mut features = Vec::new();
    let mut index = 0;
    let mut inputs = 3;
    let mut name = || {
        index += 1;
        format!("features.{}", index - 1)
    };
    for stage in stages {
        for &outputs in *stage {
            features.push(conv(&name(), [inputs, outputs], same(3, 1), true));
            if with_norm {
                features.push(norm(&name(), outputs));
            }
            name();
            features.push(RELU);
            inputs = outputs;
        }
        name();
        features.push(Op::MaxPool(tiles(2)));
    }
    let classifier = vec![
        linear("classifier.0", inputs * 7 * 7, 4096),
        RELU,
        Op::Dropout(0.5, false),
        linear("classifier.3", 4096, 4096),
        RELU,
        Op::Dropout(0.5, false),
        linear("classifier.6", 4096, classes),
    ];
    vec![Op::Sequential(features), Op::Pool(7), Op::Flatten, Op::Sequential(classifier)]
}

impl DenseNet {
    fn ops(&self, classes: u64) -> Vec<Op> {
        let mut channels = self.first;
        let stem = Window { kernel: 7, stride: 2, padding: 3 };
        let mut features = vec![
            conv("features.conv0", [3, channels], stem, false),
            norm("features.norm0", channels),
            RELU,
            Op::MaxPool(Window { kernel: 3, stride: 2, padding: 1 }),
        ];
        for (block, layers) in (1_u64..).zip(self.blocks) {
            let layer = |layer: u64| {
                let name = format!("features.denseblock{block}.denselayer{}", layer + 1);
                self.layer(&name, channels + layer * self.growth)
            };
            features.push(Op::Dense((0..layers).map(layer).collect()));
            channels += layers * self.growth;
            if block < self.blocks.len() as u64 {
                let name = format!("features.transition{block}");
                features.push(transition(&name, channels));
                channels /= 2;
            }
        }
        features.push(norm("features.norm5", channels));
        let head = [RELU, Op::Pool(1), Op::Flatten, linear("classifier", channels, classes)];
        core::iter::once(Op::Sequential(features)).chain(head).collect()
    }

    /// `_DenseLayer` after the concatenation.
    fn layer(&self, name: &str, channels: u64) -> Vec<Op> {
        let width = BOTTLENECK * self.growth;
        let at = |module: &str| format!("{name}.{module}");
        vec![
            norm(&at("norm1"), channels),
            RELU,
            conv(&at("conv1"), [channels, width], same(1, 1), false),
            norm(&at("norm2"), width),
            RELU,
            conv(&at("conv2"), [width, self.growth], same(3, 1), false),
        ]
    }
}

fn transition(name: &str, channels: u64) -> Op {
    let conv = conv(&format!("{name}.conv"), [channels, channels / 2], same(1, 1), false);
    Op::Sequential(vec![norm(&format!("{name}.norm"), channels), RELU, conv, Op::AvgPool(tiles(2))])
}
