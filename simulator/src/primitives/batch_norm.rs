//! Batch norm in training.
//!
//! Sources: `_select_batch_norm_backend` (`aten/src/ATen/native/Normalization.cpp`), `cudnn_batch_norm`
//! and its backward (`native/cudnn/BatchNorm.cpp`), `batch_norm_cuda` and its backward
//! (`native/cuda/Normalization.cu`).

use crate::clock::{HostWork, Issue, Pointwise, Reduce, Work};
use crate::tape::{Backward, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::backward::{Context, Gradients, NONE};
use super::reduce::{ReduceScratch, last_power_of_two};
use super::reshape::four;
use super::work::{pointwise, reduction};

/// Whether cuDNN runs it: not where bfloat16 takes part.
fn by_cudnn(input: DType, weight: DType) -> bool {
    input != DType::BF16 && weight != DType::BF16 && (input != DType::F16 || weight == DType::F32)
}

/// Element type of the statistics kept: the weight's in cuDNN, fp32 in PyTorch's own kernels.
fn statistics(input: DType, weight: DType) -> DType {
    if by_cudnn(input, weight) { weight } else { DType::F32 }
}

impl Tape {
    /// `nn.BatchNorm2d`: the count of batches in place, then result, mean, reciprocal deviation. Keeps
    /// input, weight, mean and deviation.
    pub fn batch_norm(&mut self, x: &Tensor, weight: ParamId, bias: ParamId) -> Tensor {
        self.run(Prim::Add, pointwise(Pointwise::Unary, DType::I64, 16));
        let [weight, bias] = [weight, bias].map(|id| self.weight(id));
        let inputs = [x, &weight, &bias];
        let node = self.records(&inputs).then(|| {
            let rule =
                Backward::BatchNorm { input: x.shape, layout: x.layout, weight: weight.dtype };
            let mut node = self.begin_node(Prim::BatchNorm, rule, &inputs);
            self.save(&mut node, x);
            self.save(&mut node, &weight);
            node
        });
        let [_, channels, ..] = four(x);
        let out = self.empty(x.shape, x.dtype, Prim::BatchNorm);
        let dtype = statistics(x.dtype, weight.dtype);
        let [mean, deviation] =
            [(); 2].map(|()| self.empty(Shape::new([channels]), dtype, Prim::BatchNorm));
        let scratch = Statistics::of(x.shape, x.layout, by_cudnn(x.dtype, weight.dtype));
        self.statistics_scratch(&scratch, x.dtype, false);
        self.run(Prim::BatchNorm, work(Reduce::BatchNorm, x.shape, x.dtype, 3 * x.bytes()));
        let node = node.map(|mut node| {
            self.save(&mut node, &mean);
            self.save(&mut node, &deviation);
            node
        });
        let out = self.with_node(Tensor { layout: x.layout, ..out }, node);
        for tensor in [deviation, mean, bias, weight] {
            self.release(tensor);
        }
        out
    }

    /// Gradients of input, weight and bias.
    ///
    /// cuDNN wants the incoming gradient in the input's memory order. PyTorch's own kernels make the
    /// input's gradient last in the channels-last order, after the sums that it needs.
    pub(super) fn batch_norm_gradients(
        &mut self,
        grad: &Tensor,
        (input, layout): (Shape, Layout),
        weight: DType,
        context: Context,
    ) -> Gradients {
        let cudnn = by_cudnn(context.dtype, weight);
        let scratch = Statistics::of(input, layout, cudnn);
        let channels = Shape::new([scratch.channels]);
        let mut outputs = NONE;
        let make = |tape: &mut Self, i: usize| {
            let (shape, dtype) = if i == 0 { (input, context.dtype) } else { (channels, weight) };
            context.edges[i].wanted().then(|| tape.empty(shape, dtype, Prim::BatchNorm))
        };
        if scratch.kernels == Kernels::OwnLast {
            let [sum, product] =
                [(); 2].map(|()| self.empty(channels, DType::F32, Prim::BatchNorm));
            outputs[1] = make(self, 1);
            outputs[2] = make(self, 2);
            if grad.layout == layout || input.order_is_ambiguous() {
                self.statistics_scratch(&scratch, context.dtype, true);
            }
            outputs[0] = make(self, 0);
            self.release(product);
            self.release(sum);
        } else {
            let contiguous = if cudnn { self.in_order(grad, layout) } else { None };
            for (i, output) in outputs.iter_mut().enumerate().take(3) {
                *output = make(self, i);
            }
            self.statistics_scratch(&scratch, context.dtype, true);
            if let Some(tensor) = contiguous {
                self.release(tensor);
            }
        }
        if let Some(out) = &mut outputs[0] {
            out.layout = layout;
        }
        let bytes = 5 * grad.bytes();
        self.run(Prim::BatchNorm, work(Reduce::BatchNormBackward, input, context.dtype, bytes));
        outputs
    }

    /// What the statistics, or the sums of the backward, take beside their results.
    fn statistics_scratch(&mut self, statistics: &Statistics, dtype: DType, backward: bool) {
        if statistics.cudnn {
            self.run(Prim::View, Work::host(HostWork::Plan, Issue::Inner));
        }
        match statistics.kernels {
            Kernels::First => {}
            Kernels::CudnnLast => {
                self.scratch(statistics.cudnn_workspace(dtype, backward), Prim::BatchNorm);
            }
            Kernels::OwnLast => {
                let scratch = statistics.own_scratch(backward);
                self.reduction_scratch(scratch);
            }
        }
    }
}

/// Which kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernels {
    /// Those of the standard order: nothing beside the results.
    First,
    /// cuDNN's of the channels-last order.
    CudnnLast,
    /// PyTorch's of the channels-last order.
    OwnLast,
}

/// Sizes of a batch norm's reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Statistics {
    cudnn: bool,
    kernels: Kernels,
    /// Values of each channel.
    rows: u64,
    channels: u64,
}

impl Statistics {
    /// One pixel an image counts as channels-last in PyTorch's kernels (`batch_norm_choose_impl`).
    fn of(shape: Shape, layout: Layout, cudnn: bool) -> Self {
        let &[images, channels, height, width] = shape.sizes() else {
            unreachable!("images have four dimensions")
        };
        let last = layout == Layout::ChannelsLast;
        let kernels = match (cudnn, last || !cudnn && height * width == 1) {
            (_, false) => Kernels::First,
            (true, true) => Kernels::CudnnLast,
            (false, true) => Kernels::OwnLast,
        };
        Self { cudnn, kernels, rows: images * height * width, channels }
    }

    /// cuDNN's workspace in the channels-last order, bytes.
    ///
    /// # Formula
    ///
    /// ```text
    /// forward:  ⌈C/64⌉ · (516 · ⌈rows/tile⌉ + 4) + 1072     (tile: 160 rows in half types, 64 in fp32)
    /// backward: ⌈C/64⌉ · (512 · ⌈rows/96⌉ + 4) + 1056
    /// ```
    ///
    /// # Source
    ///
    /// Read off an H200 with torch 2.11 and cuDNN 9.19 (2026-12-01): exact for 1 to 256 images of 1 to
    /// 112 pixels a side and 8 to 2,048 channels in fp16 and fp32.
    fn cudnn_workspace(&self, dtype: DType, backward: bool) -> u64 {
        let blocks = self.channels.div_ceil(64);
        if backward {
            return blocks * (512 * self.rows.div_ceil(96) + 4) + 1056;
        }
        let tile = if dtype.is_half() { 160 } else { 64 };
        blocks * (516 * self.rows.div_ceil(tile) + 4) + 1072
    }

    /// Staging buffer and semaphores of PyTorch's channels-last kernels: four numbers a channel and row
    /// of blocks forward, two backward, when there are at least eight rows of blocks.
    ///
    /// Source: `flexible_launch_configs` and `batch_norm_stats_channels_last_cuda_template` in
    /// `aten/src/ATen/native/cuda/Normalization.cuh`.
    fn own_scratch(&self, backward: bool) -> ReduceScratch {
        const THREADS: u64 = 512;
        const TILE: u64 = 32;
        const PER_THREAD: u64 = 16;
        const MOST_ROWS: u64 = 128;
        const LEAST_ROWS: u64 = 8;
        let mut width = last_power_of_two(self.channels).min(TILE);
        let height = last_power_of_two(self.rows.div_ceil(PER_THREAD)).min(THREADS / width);
        if width * height != THREADS {
            width = last_power_of_two(self.channels).min(THREADS / height);
        }
        let rows = self.rows.div_ceil(height * PER_THREAD).min(MOST_ROWS);
        if rows < LEAST_ROWS {
            return ReduceScratch::default();
        }
        let numbers = if backward { 2 } else { 4 };
        ReduceScratch {
            staging: 4 * numbers * self.channels * rows,
            semaphores: 4 * self.channels.div_ceil(width),
        }
    }
}

fn work(kind: Reduce, shape: Shape, dtype: DType, bytes: u64) -> Work {
    let channels = shape.sizes()[1];
    let seen = Shape::new([shape.elements() / channels, channels]);
    reduction(kind, &seen, dtype, bytes)
}
