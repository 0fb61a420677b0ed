//! What cuDNN asks for beside a convolution's own tensors: a workspace, freed with the call.
//!
//! Which kernel runs, and with which workspace, is decided by heuristics inside cuDNN that are not
//! published. Their common cases follow from what the kernels are:
//!
//! - The tensor-core kernels work in the channels-last order with channels padded. Standard-order
//!   tensors, and groups of another width, are copied into the workspace: input, result, weight.
//! - A 1 × 1 convolution in the standard order is a matrix product an image as it stands; only images of
//!   an odd number of pixels, whose channels are not aligned, are copied.
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
/// Bytes beside the copies, most often.
const EXTRA_OF_COPIES: u64 = 16;
/// Bytes that kernels of more than one stage take besides.
const EXTRA_OF_KERNEL: u64 = 131;
/// Bytes beside the parts of a split sum, most often.
const EXTRA_OF_PARTS: u64 = 679;
/// Channels to which few are padded by half types' large-kernel variants.
const FEW_CHANNELS: u64 = 4;
/// Images from which fp32 ones of an odd number of pixels are copied.
const MANY_IMAGES: u64 = 128;
/// How many times as large as the copies fp32 parts may be.
const MOST_PARTS: u64 = 3;
/// Channels out up to which a half type's weight gradient has a part for each image.
const NARROW_RESULT: u64 = 136;
/// The same for channels in.
const NARROW_INPUT: u64 = 96;
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
        if plain && !last {
            return self.product_of_images(pass, dtype, pixels);
        }
        let copied = !last || self.pads_groups();
        let bytes = if copied { self.copies() * dtype.bytes() } else { 0 };
        let parts = if pass == Pass::WeightGrad { self.parts(processors) } else { 0 };
        let extra = match (pass, copied, parts) {
            (Pass::WeightGrad, _, 1..) => EXTRA_OF_PARTS,
            (Pass::WeightGrad, true, _) => EXTRA_OF_COPIES,
            (_, true, _) => EXTRA_OF_COPIES + EXTRA_OF_KERNEL,
            _ => 0,
        };
        bytes + parts * self.weight_bytes() + extra
    }

    /// A 1 × 1 convolution in the standard order: a product for each image.
    ///
    /// Images of an odd number of pixels are copied, in fp32 only many of them. A weight's gradient has a
    /// part for each image, but copies where a half type's channels are not aligned and there are many of
    /// them on both sides, where many fp32 images have an odd number of pixels, or where fp32 parts would
    /// be some times as large.
    fn product_of_images(&self, pass: Pass, dtype: DType, pixels: u64) -> u64 {
        let half = dtype.is_half();
        let odd = pixels % 2 == 1;
        let copies = self.copies() * dtype.bytes();
        if pass != Pass::WeightGrad {
            let misaligned = odd && (half || MANY_IMAGES <= self.images);
            return if misaligned { copies } else { 0 };
        }
        let parts = self.images * self.weight_bytes();
        let misaligned = !(pixels * dtype.bytes()).is_multiple_of(PIXEL_ALIGNMENT);
        let narrow = self.outputs <= NARROW_RESULT || self.inputs <= NARROW_INPUT;
        let in_order = if half {
            misaligned && !narrow
        } else {
            odd && MANY_IMAGES / 2 <= self.images || MOST_PARTS * copies < parts
        };
        if in_order { copies } else { parts }
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
        let [columns, rows] = [self.inputs, self.outputs].map(|channels| channels / self.groups);
        let area = self.kernel * self.kernel;
        // One group has a tile for each place of the kernel; narrow groups share them.
        let across = if self.groups == 1 {
            area * columns.div_ceil(TILE)
        } else {
            self.groups * (area * columns).div_ceil(TILE)
        };
        let tiles = across * rows.div_ceil(TILE);
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
            _ if large && dtype.is_half() => FEW_CHANNELS,
            Pass::WeightGrad if dtype.is_half() || SMALL_KERNEL <= self.kernel => aligned,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiprocessors of an H200.
    const PROCESSORS: u64 = 132;
    /// Images, channels in, channels out, pixels a side, kernel, stride, padding, groups; bytes of each
    /// pass. Recorded on an H200 with torch 2.11.
    type Recorded = ([u64; 8], [u64; 3]);

    fn check(layout: Layout, dtype: DType, rows: &[Recorded]) {
        for (sizes, recorded) in rows {
            let &[images, inputs, outputs, side, kernel, stride, padding, groups] = sizes;
            let conv = Conv2d {
                images,
                inputs,
                outputs,
                side,
                kernel,
                stride,
                padding,
                groups,
                bias: false,
                layout,
                kept: [layout; 2],
                native: false,
            };
            let passes = [Pass::Forward, Pass::InputGrad, Pass::WeightGrad];
            for (pass, &recorded) in passes.into_iter().zip(recorded) {
                let predicted = conv.workspace(pass, dtype, PROCESSORS);
                let off = predicted.abs_diff(recorded);
                assert!(off <= (1 << 20) + recorded / 20, "{sizes:?} {pass:?}: {predicted}");
            }
        }
    }

    #[test]
    fn standard_order_as_recorded() {
        check(
            Layout::Contiguous,
            DType::F32,
            &[
                ([8, 384, 768, 28, 2, 2, 0, 1], [19_169_296, 19_169_427, 20_742_611]),
                ([1, 336, 672, 56, 1, 2, 0, 1], [6_322_192, 6_322_323, 6_322_192]),
                ([32, 672, 112, 14, 1, 1, 0, 1], [0, 400, 9_634_192]),
                ([64, 64, 64, 56, 3, 1, 1, 1], [102_908_051, 102_908_051, 104_972_967]),
                ([32, 480, 112, 14, 1, 1, 0, 1], [0, 400, 6_881_680]),
                ([8, 64, 64, 112, 3, 2, 1, 4], [32_112_704, 32_149_520, 32_518_720]),
                ([256, 256, 256, 56, 3, 2, 1, 32], [1_027_678_355, 1_027_678_224, 1_028_858_463]),
                ([64, 256, 512, 14, 1, 2, 0, 1], [19_267_600, 19_267_731, 21_365_007]),
            ],
        );
        check(
            Layout::Contiguous,
            DType::BF16,
            &[
                ([128, 192, 128, 56, 1, 1, 0, 1], [272, 272, 12_582_912]),
                ([8, 992, 128, 7, 1, 1, 0, 1], [878_096, 0, 4_063_232]),
                ([32, 1_024, 1_024, 14, 3, 2, 1, 32], [16_646_291, 16_646_160, 16_646_160]),
                ([256, 96, 192, 56, 2, 2, 0, 1], [231_358_480, 231_358_611, 232_538_431]),
                ([128, 672, 672, 7, 3, 1, 1, 42], [17_052_819, 17_052_819, 17_052_688]),
                ([256, 512, 1_024, 14, 2, 2, 0, 1], [81_264_787, 81_264_787, 85_459_343]),
                ([128, 1_024, 2_048, 14, 1, 2, 0, 1], [77_070_483, 77_070_483, 77_070_352]),
                ([1, 32, 224, 112, 1, 2, 0, 1], [2_207_760, 2_207_760, 2_207_760]),
            ],
        );
    }

    #[test]
    fn channels_last_as_recorded() {
        check(
            Layout::ChannelsLast,
            DType::F16,
            &[
                ([128, 256, 64, 56, 1, 1, 0, 1], [0, 272, 4_325_632]),
                ([64, 384, 384, 14, 7, 1, 3, 384], [0, 0, 38_535_168]),
                ([8, 40, 240, 56, 1, 1, 0, 1], [272, 272, 1_167_632]),
                ([64, 320, 320, 14, 3, 1, 1, 20], [131, 0, 1_638_759]),
                ([8, 32, 528, 112, 1, 2, 0, 1], [131, 131, 1_966_815]),
                ([128, 256, 256, 28, 7, 1, 3, 256], [0, 0, 51_380_224]),
                ([128, 512, 896, 28, 1, 2, 0, 1], [131, 131, 7_340_527]),
                ([256, 576, 576, 14, 3, 1, 1, 24], [154_583_187, 154_583_187, 154_583_056]),
            ],
        );
    }
}
