//! `torchvision/models/resnet.py` and `regnet.py`.

use super::build::{conv, conv_norm, excite, linear, norm, same};
use super::op::{Act, Conv, Join, Op, Residual, Window};

/// What distinguishes one `ResNet` from another.
struct ResNet {
    name: &'static str,
    /// Blocks of each of the four layers.
    layers: [u64; 4],
    /// `Bottleneck` instead of `BasicBlock`.
    bottleneck: bool,
    groups: u64,
    width_per_group: u64,
}

const fn bottlenecks(
    name: &'static str,
    layers: [u64; 4],
    groups: u64,
    width_per_group: u64,
) -> ResNet {
    ResNet { name, layers, bottleneck: true, groups, width_per_group }
}

const fn basic(name: &'static str, layers: [u64; 4]) -> ResNet {
    ResNet { name, layers, bottleneck: false, groups: 1, width_per_group: 64 }
}

const RESNETS: [ResNet; 10] = [
    basic("resnet18", [2, 2, 2, 2]),
    basic("resnet34", [3, 4, 6, 3]),
    bottlenecks("resnet50", [3, 4, 6, 3], 1, 64),
    bottlenecks("resnet101", [3, 4, 23, 3], 1, 64),
    bottlenecks("resnet152", [3, 8, 36, 3], 1, 64),
    bottlenecks("resnext50_32x4d", [3, 4, 6, 3], 32, 4),
    bottlenecks("resnext101_32x8d", [3, 4, 23, 3], 32, 8),
    bottlenecks("resnext101_64x4d", [3, 4, 23, 3], 64, 4),
    bottlenecks("wide_resnet50_2", [3, 4, 6, 3], 1, 128),
    bottlenecks("wide_resnet101_2", [3, 4, 23, 3], 1, 128),
];

/// The names of this file's models.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    RESNETS.iter().map(|net| net.name).chain(REGNETS.iter().map(|net| net.name))
}

/// The modules of a model of this name.
pub(super) fn ops(name: &str, classes: u64) -> Option<Vec<Op>> {
    let resnet = RESNETS.iter().find(|net| net.name == name).map(|net| net.ops(classes));
    resnet.or_else(|| REGNETS.iter().find(|net| net.name == name).map(|net| net.ops(classes)))
}

const RELU: Op = Op::Act(Act::Relu, true);

impl ResNet {
    const fn expansion(&self) -> u64 {
        if self.bottleneck { 4 } else { 1 }
    }

    fn ops(&self, classes: u64) -> Vec<Op> {
        let mut ops = vec![
            conv("conv1", [3, 64], Window { kernel: 7, stride: 2, padding: 3 }, false),
            norm("bn1", 64),
            RELU,
            Op::MaxPool(Window { kernel: 3, stride: 2, padding: 1 }),
        ];
        let mut inplanes = 64;
        for (layer, (planes, blocks)) in
            [64, 128, 256, 512].into_iter().zip(self.layers).enumerate()
        {
            let stride = if layer == 0 { 1 } else { 2 };
            let outplanes = planes * self.expansion();
            let block = |block: u64| {
                let name = format!("layer{}.{block}", layer + 1);
                let (inputs, stride) = if block == 0 { (inplanes, stride) } else { (outplanes, 1) };
                self.block(&name, [inputs, planes, outplanes], stride)
            };
            ops.push(Op::Sequential((0..blocks).map(block).collect()));
            inplanes = outplanes;
        }
        ops.extend([Op::Pool(1), Op::Flatten, linear("fc", inplanes, classes)]);
        ops
    }

    fn block(&self, name: &str, [inputs, planes, outputs]: [u64; 3], stride: u64) -> Op {
        let at = |module: &str| format!("{name}.{module}");
        let plain = |module: &str, sizes, window| conv(&at(module), sizes, window, false);
        let branch = if self.bottleneck {
            let width = planes * self.width_per_group / 64 * self.groups;
            let (window, groups) = (same(3, stride), self.groups);
            let middle = Conv {
                name: at("conv2"),
                inputs: width,
                outputs: width,
                window,
                groups,
                bias: false,
            };
            vec![
                plain("conv1", [inputs, width], same(1, 1)),
                norm(&at("bn1"), width),
                RELU,
                Op::Conv(middle),
                norm(&at("bn2"), width),
                RELU,
                plain("conv3", [width, outputs], same(1, 1)),
                norm(&at("bn3"), outputs),
            ]
        } else {
            vec![
                plain("conv1", [inputs, planes], same(3, stride)),
                norm(&at("bn1"), planes),
                RELU,
                plain("conv2", [planes, planes], same(3, 1)),
                norm(&at("bn2"), planes),
            ]
        };
        let downsamples = stride != 1 || inputs != outputs;
        let skip = if downsamples {
            vec![
                plain("downsample.0", [inputs, outputs], same(1, stride)),
                norm(&at("downsample.1"), outputs),
            ]
        } else {
            Vec::new()
        };
        Op::Residual(Box::new(Residual {
            branch,
            skip,
            skip_first: false,
            scale: None,
            drop: 0.0,
            join: Join::InPlace,
            then: Some(Act::Relu),
        }))
    }
}

/// What distinguishes one `RegNet` from another: what `BlockParams.from_init_params` makes of its
/// parameters.
struct RegNet {
    name: &'static str,
    depths: [u64; 4],
    widths: [u64; 4],
    /// Channels of a group.
    groups: [u64; 4],
    /// Whether blocks have squeeze and excitation.
    excites: bool,
}

const fn x(name: &'static str, depths: [u64; 4], widths: [u64; 4], groups: [u64; 4]) -> RegNet {
    RegNet { name, depths, widths, groups, excites: false }
}

const fn y(name: &'static str, depths: [u64; 4], widths: [u64; 4], group: u64) -> RegNet {
    RegNet { name, depths, widths, groups: [group; 4], excites: true }
}

const REGNETS: [RegNet; 15] = [
    y("regnet_y_400mf", [1, 3, 6, 6], [48, 104, 208, 440], 8),
    y("regnet_y_800mf", [1, 3, 8, 2], [64, 144, 320, 784], 16),
    y("regnet_y_1_6gf", [2, 6, 17, 2], [48, 120, 336, 888], 24),
    y("regnet_y_3_2gf", [2, 5, 13, 1], [72, 216, 576, 1512], 24),
    y("regnet_y_8gf", [2, 4, 10, 1], [224, 448, 896, 2016], 56),
    y("regnet_y_16gf", [2, 4, 11, 1], [224, 448, 1232, 3024], 112),
    y("regnet_y_32gf", [2, 5, 12, 1], [232, 696, 1392, 3712], 232),
    y("regnet_y_128gf", [2, 7, 17, 1], [528, 1056, 2904, 7392], 264),
    x("regnet_x_400mf", [1, 2, 7, 12], [32, 64, 160, 400], [16; 4]),
    x("regnet_x_800mf", [1, 3, 7, 5], [64, 128, 288, 672], [16; 4]),
    x("regnet_x_1_6gf", [2, 4, 10, 2], [72, 168, 408, 912], [24; 4]),
    x("regnet_x_3_2gf", [2, 6, 15, 2], [96, 192, 432, 1008], [48; 4]),
    x("regnet_x_8gf", [2, 5, 15, 1], [80, 240, 720, 1920], [80, 120, 120, 120]),
    x("regnet_x_16gf", [2, 6, 13, 1], [256, 512, 896, 2048], [128; 4]),
    x("regnet_x_32gf", [2, 7, 13, 1], [336, 672, 1344, 2520], [168; 4]),
];

const STEM_WIDTH: u64 = 32;

impl RegNet {
    fn ops(&self, classes: u64) -> Vec<Op> {
        let stem = conv_norm("stem", [3, STEM_WIDTH], same(3, 2), 1, Some(Act::Relu));
        let mut inputs = STEM_WIDTH;
        let mut stages = Vec::new();
        for stage in 0..self.depths.len() {
            let (outputs, group) = (self.widths[stage], self.groups[stage]);
            let block = |block: u64| {
                let number = stage + 1;
                let name = format!("trunk_output.block{number}.block{number}-{block}");
                let (inputs, stride) = if block == 0 { (inputs, 2) } else { (outputs, 1) };
                self.block(&name, [inputs, outputs], group, stride)
            };
            stages.push(Op::Sequential((0..self.depths[stage]).map(block).collect()));
            inputs = outputs;
        }
        let head = [Op::Pool(1), Op::Flatten, linear("fc", inputs, classes)];
        [stem, Op::Sequential(stages)].into_iter().chain(head).collect()
    }

    fn block(&self, name: &str, [inputs, outputs]: [u64; 2], group: u64, stride: u64) -> Op {
        let at = |module: &str| format!("{name}.f.{module}");
        let relu = Some(Act::Relu);
        let groups = outputs / group;
        let mut branch = vec![
            conv_norm(&at("a"), [inputs, outputs], same(1, 1), 1, relu),
            conv_norm(&at("b"), [outputs, outputs], same(3, stride), groups, relu),
        ];
        if self.excites {
            let widths = [outputs, inputs / 4];
            branch.push(excite(&at("se"), widths, (Act::Relu, false), Act::Sigmoid));
        }
        branch.push(conv_norm(&at("c"), [outputs, outputs], same(1, 1), 1, None));
        let projects = stride != 1 || inputs != outputs;
        let project =
            || conv_norm(&format!("{name}.proj"), [inputs, outputs], same(1, stride), 1, None);
        Op::Residual(Box::new(Residual {
            branch,
            skip: if projects { vec![project()] } else { Vec::new() },
            skip_first: true,
            scale: None,
            drop: 0.0,
            join: Join::New,
            then: relu,
        }))
    }
}
