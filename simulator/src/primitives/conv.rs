//! Convolutions whose kernels do not overlap: an image's patches.

use crate::clock::Pass;
use crate::tape::{Backward, ParamId, Patches, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::work::product;

/// Bytes to which cuDNN's tensor-core kernels pad a pixel's channels.
const PIXEL_ALIGNMENT: u64 = 16;
/// Bytes beside the copies, forward.
const FORWARD_EXTRA: u64 = 16;
/// Bytes beside the copies, backward.
const BACKWARD_EXTRA: u64 = 144;
/// Partial sums of a half type's weight gradient, fp32.
const PARTIAL_SUMS: u64 = 3;
/// Images from which cuDNN splits the sum, and takes fp32 tensors into its own order.
const MANY_IMAGES: u64 = 16;
/// Images from which fp32 channels are padded, too.
const PADDED_IMAGES: u64 = 64;
/// Output channels from which half types are taken into cuDNN's own order.
const MANY_OUTPUTS: u64 = 512;

impl Patches {
    /// Bytes of image, patches and weight with a pixel's channels adjacent, padded to `channels`.
    const fn copies(&self, channels: u64, dtype: DType) -> u64 {
        let &Self { images, side, patch, hidden, .. } = self;
        let elements = images * side * side * channels
            + images * self.count() * hidden
            + hidden * patch * patch * channels;
        elements * dtype.bytes()
    }

    const fn padded(&self, dtype: DType) -> u64 {
        self.channels.next_multiple_of(PIXEL_ALIGNMENT / dtype.bytes())
    }

    /// cuDNN's workspace, forward.
    ///
    /// # Formula
    ///
    /// ```text
    /// (b·s²·c + b·N·h + h·p²·c) · bytes + 16
    /// ```
    ///
    /// `c`: channels padded to 16 bytes; `N`: patches of `p` pixels a side.
    ///
    /// # Source
    ///
    /// Read off an H200 with torch 2.11 and cuDNN 9.19 (2026-12-01) for 14 shapes in bf16, fp16 and
    /// fp32 (tf32): 1 to 256 images of 224 and 384 pixels, patches of 14, 16 and 32, 192 to 1,280
    /// channels out. Below the named counts another kernel without workspace was chosen. Not met: 256
    /// fp32 images, where the patches were not copied.
    fn forward_workspace(&self, dtype: DType) -> u64 {
        let channels = if dtype.is_half() {
            (MANY_OUTPUTS <= self.hidden).then(|| self.padded(dtype))
        } else if self.images < MANY_IMAGES {
            None
        } else if self.images < PADDED_IMAGES {
            Some(self.channels)
        } else {
            Some(self.padded(dtype))
        };
        channels.map_or(0, |channels| self.copies(channels, dtype) + FORWARD_EXTRA)
    }

    /// cuDNN's workspace for the weight's gradient: the copies, and a half type's partial sums in fp32.
    ///
    /// # Source
    ///
    /// As the forward's. Not met: patches of 32 pixels in half types; a fourth partial sum from 128
    /// images of 768 channels on; one fp32 image, which takes none; up to 1,728 bytes for four images
    /// or fewer in half types, and 192 from 128 fp32 images on.
    fn backward_workspace(&self, dtype: DType) -> u64 {
        let channels = self.padded(dtype);
        let copies = self.copies(channels, dtype);
        if !dtype.is_half() {
            return copies + BACKWARD_EXTRA;
        }
        if self.images < MANY_IMAGES {
            return copies + FORWARD_EXTRA;
        }
        let weight = self.hidden * self.patch * self.patch * channels;
        copies + PARTIAL_SUMS * weight * DType::F32.bytes() + BACKWARD_EXTRA
    }
}

impl Tape {
    /// `conv2d(x, weight, bias, stride=kernel).flatten(2).transpose(1, 2)` of square images:
    /// `[images, patches, hidden]`.
    ///
    /// Source: `_convolution` in `aten/src/ATen/native/Convolution.cpp`: result, then cuDNN's
    /// workspace; it keeps image and weight. Autocast casts from the last argument to the first.
    pub fn patches(&mut self, x: &Tensor, weight: ParamId, bias: ParamId) -> Tensor {
        let bias = self.cast_weight(bias);
        let weight = self.cast_weight(weight);
        let x = self.cast_input(x);
        let &[images, channels, side, _] = x.shape.sizes() else {
            unreachable!("images have four dimensions")
        };
        let &[hidden, _, patch, _] = weight.shape.sizes() else {
            unreachable!("a convolution's weight has four dimensions")
        };
        let conv = Patches { images, channels, side, patch, hidden };
        let inputs = [&x, &weight, &bias];
        let node = self.records(&inputs).then(|| {
            let mut node = self.begin_node(Prim::Conv, Backward::Patches(conv), &inputs);
            self.save(&mut node, &x);
            self.save(&mut node, &weight);
            node
        });
        let out = self.empty(Shape::new([images, conv.count(), hidden]), x.dtype, Prim::Conv);
        self.scratch(conv.forward_workspace(x.dtype), Prim::ConvWorkspace);
        self.run(Prim::Conv, product(conv.gemm(), Pass::Forward, x.dtype));
        let out = self.with_node(out, node);
        for tensor in [x, weight, bias] {
            self.release(tensor);
        }
        out
    }

    /// Gradients of weight and bias: the gradient made contiguous, the weight's, cuDNN's workspace,
    /// and the bias's as a sum.
    ///
    /// Source: `convolution_backward` in `aten/src/ATen/native/Convolution.cpp`.
    pub(super) fn patches_gradients(&mut self, conv: &Patches, grad: &Tensor) -> [Tensor; 2] {
        let &Patches { channels, patch, hidden, .. } = conv;
        let contiguous = self.copy(grad, grad.shape);
        let weight =
            self.empty(Shape::new([hidden, channels, patch, patch]), grad.dtype, Prim::Conv);
        self.scratch(conv.backward_workspace(grad.dtype), Prim::ConvWorkspace);
        self.run(Prim::Conv, product(conv.gemm(), Pass::WeightGrad, grad.dtype));
        self.release(contiguous);
        let bias = self.sum_leading(grad, Shape::new([hidden]), grad.dtype);
        [weight, bias]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded on an H200 with torch 2.11: images, side, patch, channels out; bytes.
    #[test]
    fn workspaces_as_recorded() {
        for (sizes, dtype, forward, backward) in [
            ([64, 224, 16, 1024], DType::BF16, 81_264_656, 106_430_608),
            ([16, 224, 16, 1024], DType::F16, 23_461_904, 48_627_856),
            ([8, 224, 16, 768], DType::BF16, 11_976_720, 11_976_720),
            ([64, 224, 16, 384], DType::BF16, 0, 72_024_208),
            ([64, 224, 14, 1280], DType::BF16, 97_337_360, 121_421_968),
            ([64, 384, 16, 1024], DType::F32, 306_184_208, 306_184_336),
            ([32, 224, 16, 1024], DType::F32, 48_103_440, 55_574_672),
            ([8, 224, 16, 768], DType::F32, 0, 14_385_296),
        ] {
            let [images, side, patch, hidden] = sizes;
            let conv = Patches { images, channels: 3, side, patch, hidden };
            let workspaces = (conv.forward_workspace(dtype), conv.backward_workspace(dtype));
            assert_eq!(workspaces, (forward, backward), "{sizes:?}");
        }
    }
}
