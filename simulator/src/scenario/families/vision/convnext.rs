//! `torchvision/models/convnext.py`.

use super::build::{conv, linear, tiles};
use super::op::{Act, Conv, Join, Op, Residual, Window};

/// What distinguishes one `ConvNeXt` from another.
struct ConvNeXt {
    name: &'static str,
    /// Channels of the first stage; each stage doubles them.
    width: u64,
    /// Blocks of the third stage; the others have three.
    depth: u64,
    /// `stochastic_depth_prob`: the last block's.
    drop: f64,
}

const CONVNEXTS: [ConvNeXt; 4] = [
    ConvNeXt { name: "convnext_tiny", width: 96, depth: 9, drop: 0.1 },
    ConvNeXt { name: "convnext_small", width: 96, depth: 27, drop: 0.4 },
    ConvNeXt { name: "convnext_base", width: 128, depth: 27, drop: 0.5 },
    ConvNeXt { name: "convnext_large", width: 192, depth: 27, drop: 0.5 },
];

/// The names of this file's models.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CONVNEXTS.iter().map(|net| net.name)
}

/// The modules of a model of this name.
pub(super) fn ops(name: &str, classes: u64) -> Option<Vec<Op>> {
    CONVNEXTS.iter().find(|net| net.name == name).map(|net| net.ops(classes))
}

impl ConvNeXt {
    #[expect(clippy::cast_precision_loss, reason = "there are a few dozen blocks")]
    fn ops(&self, classes: u64) -> Vec<Op> {
        let depths = [3, 3, self.depth, 3];
        let last = depths.iter().sum::<u64>() - 1;
        let stem = Op::Sequential(vec![
            conv("features.0.0", [3, self.width], tiles(4), true),
            layer_norm_2d("features.0.1", self.width),
        ]);
        let mut features = vec![stem];
        let mut number = 0_u32;
        let mut width = self.width;
        for (stage, depth) in depths.into_iter().enumerate() {
            let at = features.len();
            let mut blocks = Vec::new();
            for index in 0..depth {
                let drop = self.drop * f64::from(number) / last as f64;
                blocks.push(block(&format!("features.{at}.{index}"), width, drop));
                number += 1;
            }
            features.push(Op::Sequential(blocks));
            if stage < 3 {
                let name = format!("features.{}", features.len());
                features.push(Op::Sequential(vec![
                    layer_norm_2d(&format!("{name}.0"), width),
                    conv(&format!("{name}.1"), [width, 2 * width], tiles(2), true),
                ]));
                width *= 2;
            }
        }
        let classifier = Op::Sequential(vec![
            layer_norm_2d("classifier.0", width),
            Op::Flatten,
            linear("classifier.2", width, classes),
        ]);
        vec![Op::Sequential(features), Op::Pool(1), classifier]
    }
}

/// `LayerNorm2d`.
fn layer_norm_2d(name: &str, width: u64) -> Op {
    let norm = Op::LayerNorm(name.to_owned(), width);
    Op::Sequential(vec![Op::ChannelsToLast, norm, Op::ChannelsToFirst])
}

/// `CNBlock`.
fn block(name: &str, width: u64, drop: f64) -> Op {
    let at = |index: u64| format!("{name}.block.{index}");
    let depthwise = Conv {
        name: at(0),
        inputs: width,
        outputs: width,
        window: Window { kernel: 7, stride: 1, padding: 3 },
        groups: width,
        bias: true,
    };
    let branch = vec![Op::Sequential(vec![
        Op::Conv(depthwise),
        Op::ChannelsToLast,
        Op::LayerNorm(at(2), width),
        linear(&at(3), width, 4 * width),
        Op::Act(Act::Gelu, false),
        linear(&at(5), 4 * width, width),
        Op::ChannelsToFirst,
    ])];
    Op::Residual(Box::new(Residual {
        branch,
        skip: Vec::new(),
        skip_first: false,
        scale: Some((format!("{name}.layer_scale"), width)),
        drop,
        join: Join::InPlace,
        then: None,
    }))
}
