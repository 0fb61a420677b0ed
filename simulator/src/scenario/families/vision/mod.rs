//! torchvision's image classifiers: a network is a list of modules, generated from what its file
//! says. torchvision 0.26.

mod build;
mod convnext;
mod mobile;
mod op;
mod plain;
mod resnet;

pub use op::{Act, Conv, Excite, Join, Op, Residual, Slot, Window, slots};

use op::{Cost, Features, follow};

use super::{Data, Family, Positions, Task};
use crate::scenario::Table;
use crate::scenario::document::{choice_fault, missing};
use crate::scenario::limits;
use crate::wire::{Fault, Faults, Rule};

/// Its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Vision {
    /// `name`: the function of `torchvision.models` that builds it.
    pub name: &'static str,
    /// `image_size`, pixels a side.
    pub image: u64,
    /// `num_classes`.
    pub classes: u64,
    /// Its modules.
    pub ops: Vec<Op>,
    cost: Cost,
}

/// Channels of an image.
const CHANNELS: u64 = 3;
/// Pixels a side of the images that most of the weights were trained on.
const IMAGE: u64 = 224;

/// The names of all models.
fn names() -> Vec<&'static str> {
    let names = resnet::names().chain(plain::names());
    names.chain(mobile::names()).chain(convnext::names()).collect()
}

fn ops(name: &str, classes: u64) -> Option<Vec<Op>> {
    resnet::ops(name, classes)
        .or_else(|| plain::ops(name, classes))
        .or_else(|| mobile::ops(name, classes))
        .or_else(|| convnext::ops(name, classes))
}

impl Family for Vision {
    /// The function, for torchvision's classes have several sizes each.
    fn class(&self) -> &'static str {
        self.name
    }

    fn task(&self) -> Task {
        Task::ClassificationInF32
    }

    fn data(&self) -> Data {
        Data::Images(self.image)
    }

    /// No two need be alike: nothing is folded.
    fn layers(&self) -> u64 {
        1
    }

    fn set_layer_kinds(&mut self, _kinds: [u64; 2]) {}

    /// Channels that the classifier reads.
    fn hidden(&self) -> u64 {
        last_width(&self.ops)
    }

    fn heads(&self) -> u64 {
        0
    }

    fn head_dim(&self) -> u64 {
        0
    }

    /// Classes.
    fn vocab(&self) -> u64 {
        self.classes
    }

    /// An image counts as one.
    fn tokens(&self, _seq_len: u64) -> u64 {
        1
    }

    fn positions(&self) -> Positions {
        Positions::Trained(0)
    }

    /// Elements of all results for one image, since no two modules need be alike.
    fn widest(&self) -> u64 {
        u64::try_from(self.cost.elements).unwrap_or(u64::MAX)
    }

    fn tied(&self) -> bool {
        false
    }

    fn buffer_bytes(&self, weight_bytes: u64) -> u64 {
        let bytes = |slot: &Slot| match *slot {
            Slot::Buffer(_, elements, is_count) => {
                elements * if is_count { 8 } else { weight_bytes }
            }
            Slot::Parameter(..) => 0,
        };
        slots(&self.ops).iter().map(bytes).sum()
    }

    fn parameters(&self) -> u128 {
        let elements = |slot: &Slot| match slot {
            Slot::Parameter(_, sizes) => sizes.iter().copied().map(u128::from).product(),
            Slot::Buffer(..) => 0,
        };
        slots(&self.ops).iter().map(elements).sum()
    }

    fn parameters_formula(&self) -> [String; 2] {
        let shapes = |slot: &Slot| matches!(slot, Slot::Parameter(..));
        let n = slots(&self.ops).iter().filter(|slot| shapes(slot)).count();
        [
            "Σ outputs · (inputs / groups) · kernel² + biases + 2 · norm channels".to_owned(),
            format!("{n} tensors of {}, C={}", self.name, self.classes),
        ]
    }

    fn library(&self) -> &'static str {
        "torchvision 0.26"
    }

    /// The scale starts at 2¹⁶ and is halved until no gradient overflows. In bottleneck `ResNet`s
    /// gradients grow with each block that they pass on their way back, and fall with the images that they
    /// are averaged over; in plain networks with norms they grow with each convolution.
    ///
    /// # Formula
    ///
    /// ```text
    /// bottlenecks: round(0.85 + 0.13 · blocks − ½ · log₂(images / 64))
    /// plain:       ⌊(convolutions − 7) / 3⌋
    /// ```
    ///
    /// # Source
    ///
    /// `torch/amp/grad_scaler.py`; the numbers from 17 runs of `ResNet`-50, 101 and 152, `ResNeXt`, Wide
    /// `ResNet` and VGG-13, 16 and 19 with norms, 16 to 256 images, torch 2.11 on an H200 (2026-12-01): 1
    /// to 8 steps, each met. Other families were seen to skip two steps or fewer.
    fn skipped_steps(&self, images: u64) -> u64 {
        const FIRST: f64 = 0.85;
        const EACH: f64 = 0.13;
        const USUAL_IMAGES: f64 = 64.0;
        let float = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let Growth { bottlenecks, others, norms } = growth(&self.ops);
        match (bottlenecks, others) {
            (0, 0) => norms.saturating_sub(7) / 3,
            (0, _) => 0,
            (blocks, _) => {
                let halvings = FIRST + EACH * float(blocks)
                    - libm::log2(float(images.max(1)) / USUAL_IMAGES) / 2.0;
                let mut steps = 0;
                while float(steps) + 0.5 <= halvings {
                    steps += 1;
                }
                steps
            }
        }
    }

    /// `2 · Σ pixels · outputs · (inputs / groups) · kernel²` over convolutions and linear layers.
    fn forward_flops(&self) -> Option<u128> {
        Some(2 * self.cost.macs)
    }
}

/// Modules outside of any block, and blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    /// Bottlenecks of a `ResNet`.
    bottlenecks: u64,
    /// Other blocks.
    others: u64,
    /// Batch norms outside of blocks.
    norms: u64,
}

fn growth(ops: &[Op]) -> Growth {
    let mut growth = Growth::default();
    for op in ops {
        match op {
            Op::Residual(block) if block.is_bottleneck() => growth.bottlenecks += 1,
            Op::Residual(_) | Op::Dense(_) => growth.others += 1,
            Op::BatchNorm(..) => growth.norms += 1,
            Op::Sequential(inner) => {
                let Growth { bottlenecks, others, norms } = self::growth(inner);
                growth.bottlenecks += bottlenecks;
                growth.others += others;
                growth.norms += norms;
            }
            _ => {}
        }
    }
    growth
}

/// Width of what the last linear layer reads.
fn last_width(ops: &[Op]) -> u64 {
    let last = ops.iter().rev().find_map(|op| match op {
        Op::Linear(_, [inputs, _]) => Some(*inputs),
        Op::Sequential(ops) => Some(last_width(ops)),
        _ => None,
    });
    last.unwrap_or(1)
}

/// Source: torchvision 0.26, `torchvision/models`; `weights=None`.
pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults) -> Option<Vision> {
    let name = table.text("name", faults);
    let image = table.integer_or("image_size", limits::IMAGE_SIDE, IMAGE, faults);
    let classes = table.integer_or("num_classes", limits::VOCAB, 1000, faults);
    let Some(name) = name else {
        if table.value("name").is_none() {
            faults.push(missing(table.path("name")));
        }
        return None;
    };
    let names = names();
    let Some(known) = names.iter().find(|known| **known == name) else {
        let mut fault = choice_fault(table.path("name"), name, &names);
        fault.rule = Rule::Unsupported;
        faults.push(fault);
        return None;
    };
    let (image, classes) = (image?, classes?);
    let ops = ops(known, classes)?;
    let mut cost = Cost::default();
    let features = Features { channels: CHANNELS, side: image };
    if follow(&ops, features, &mut cost).is_none() {
        let message = format!("images of {image} pixels a side are too small for {known}");
        let path = table.path("image_size");
        let fault = Fault::new(path.clone(), Rule::Conflict, message).mend(path, IMAGE);
        faults.push(fault);
        return None;
    }
    Some(Vision { name: known, image, classes, ops, cost })
}

#[cfg(test)]
mod tests;
