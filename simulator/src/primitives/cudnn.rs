//! What cuDNN asks for beside a convolution's own tensors: a workspace, freed with the call.
//!
//! Which kernel runs, and with which workspace, is decided by heuristics inside cuDNN that are not
//! published. Their common cases follow from what the kernels are:
//!
//! - The tensor-core kernels work in the channels-last order with channels padded. Standard-order
//!   tensors, and groups of another width, are copied into the workspace: input, result, weight.
//! - A 1 × 1 convolution in the standard order is a matrix product an image as it stands; only images of
//!   an odd number of pixels, whose rows are not aligned, are copied.
//! - A weight's gradient sums over all pixels. Where there are too few output tiles for the machine the
//!   sum is split, and each part is an fp32 copy of the weight.
//!
//! # Source
//!
//! Read off an H200 with torch 2.11 and cuDNN 9.19 (2026-12-01): 2,358 convolutions of torchvision's
//! models at random, 1 to 256 images, in three formats and both orders, one call of each pass with
//! `cudnn.benchmark` off; and the captures of docs/accuracy.md. The tests hold how many of them the rules
//! meet. The rest is in the band: one more of the largest workspace (`report::Footprint`).

use crate::clock::Pass;
use crate::tape::Conv2d;
use crate::tensor::{DType, Layout};

/// Bytes to which a pixel's channels are padded.
const PIXEL_ALIGNMENT: u64 = 16;
/// Channels to which few are padded by half types' large-kernel variants.
const FEW_CHANNELS: u64 = 4;
/// Pixels a side from which a kernel counts as large.
const LARGE_KERNEL: u64 = 7;
/// Pixels a side below which fp32 images of few channels are read as they are.
const SMALL_KERNEL: u64 = 4;
/// Rows and columns of an output tile.
const TILE: u64 = 128;
/// Values that one part of a split sum adds up, at least.
const VALUES_OF_PART: u64 = 512;
/// Parts of a depthwise weight gradient's sum for each image.
const PARTS_OF_IMAGE: u64 = 8;
/// Widest group whose channels are padded to a power of two.
const WIDEST_PADDED: u64 = 256;

/// Elements of input, weight and result as a kernel sees them.
#[derive(Clone, Copy)]
struct Sizes {
    input: u64,
    weight: u64,
    result: u64,
}

impl Conv2d {
    /// Bytes of cuDNN's workspace for one pass, on a machine of so many multiprocessors.
    ///
    /// # Formula
    ///
    /// ```text
    /// (input + result + weight) · bytes      where they are copied, channels padded
    ///   + parts · 4 · weight                 a weight's gradient
    /// ```
    pub(super) fn workspace(&self, pass: Pass, dtype: DType, processors: u64) -> u64 {
        let pixels = self.out_side() * self.out_side();
        if pixels == 1 && self.side == 1 {
            return 0;
        }
        let last = self.layout == Layout::ChannelsLast;
        if 1 < self.groups && self.groups == self.inputs {
            let split = pass == Pass::WeightGrad && last && self.splits_depthwise(dtype);
            return if split { self.depthwise_parts() } else { 0 };
        }
        if self.inputs < PIXEL_ALIGNMENT / 2 {
            return self.few_channels(pass, dtype);
        }
        let plain = self.kernel == 1 && self.stride == 1 && self.groups == 1;
        let misaligned = pixels % 2 == 1;
        let copies = if last { self.pads_groups() } else { !plain || misaligned };
        let bytes = if copies { self.copies() * dtype.bytes() } else { 0 };
        if pass != Pass::WeightGrad {
            return bytes;
        }
        if plain && !last && !copies {
            return self.images * self.weight_bytes();
        }
        bytes + self.parts(processors) * self.weight_bytes()
    }

    fn sizes(&self) -> Sizes {
        let [input, weight, result] = self.shapes().map(|shape| shape.elements());
        Sizes { input, weight, result }
    }

    /// Bytes of the weight in fp32.
    fn weight_bytes(&self) -> u64 {
        self.sizes().weight * DType::F32.bytes()
    }

    /// Elements of input, result and weight in the kernels' order. A 1 × 1 weight has the same bytes in
    /// both.
    fn copies(&self) -> u64 {
        let Sizes { input, weight, result } = self.sizes();
        let weight = if self.kernel == 1 { 0 } else { weight };
        let width = self.inputs / self.groups;
        let padded = if self.groups == 1 { width } else { padded_group(width) };
        (input + weight + result) * padded / width
    }

    /// Whether groups are widened even where the order fits.
    const fn pads_groups(&self) -> bool {
        let width = self.inputs / self.groups;
        1 < self.groups && width != padded_group(width)
    }

    /// Parts into which a weight gradient's sum is split: as many output tiles as fit on the machine at
    /// once, each with enough values to add up; one part needs no copy.
    fn parts(&self, processors: u64) -> u64 {
        let columns = self.inputs / self.groups * self.kernel * self.kernel;
        let rows = self.outputs / self.groups;
        let tiles = self.groups * rows.div_ceil(TILE) * columns.div_ceil(TILE);
        let values = self.images * self.out_side() * self.out_side();
        let parts = (processors / tiles).min(values / VALUES_OF_PART);
        if parts < 2 { 0 } else { parts }
    }

    /// Images of a few channels: the first convolution.
    fn few_channels(&self, pass: Pass, dtype: DType) -> u64 {
        let Sizes { input, weight, result } = self.sizes();
        let last = self.layout == Layout::ChannelsLast;
        let large = LARGE_KERNEL <= self.kernel;
        let aligned = PIXEL_ALIGNMENT / dtype.bytes();
        let padded = match pass {
            Pass::WeightGrad if large && dtype.is_half() => FEW_CHANNELS,
            Pass::WeightGrad if dtype.is_half() || SMALL_KERNEL <= self.kernel => aligned,
            Pass::Forward | Pass::InputGrad if large && dtype.is_half() => FEW_CHANNELS,
            Pass::Forward | Pass::InputGrad if large => self.inputs,
            _ => return 0,
        };
        let copied = (input + weight) / self.inputs * padded + if last { 0 } else { result };
        copied * dtype.bytes()
    }

    /// Whether a channels-last depthwise weight gradient keeps a sum for each part of an image: in
    /// bfloat16, and in fp16 where channels fill whole tiles.
    const fn splits_depthwise(&self, dtype: DType) -> bool {
        match dtype {
            DType::BF16 => 1 < self.images,
            DType::F16 => 1 < self.images && self.inputs.is_multiple_of(TILE / 2),
            _ => false,
        }
    }

    fn depthwise_parts(&self) -> u64 {
        let channels = self.outputs.next_multiple_of(TILE / 2);
        PARTS_OF_IMAGE * self.images * channels * self.kernel * self.kernel * DType::F32.bytes()
    }
}

/// Channels to which a group's are padded.
const fn padded_group(width: u64) -> u64 {
    if width <= WIDEST_PADDED { width.next_power_of_two() } else { width.next_multiple_of(16) }
}
