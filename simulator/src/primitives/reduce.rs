//! Reductions: the scratch that a reduction over outer dimensions takes.

use crate::clock::Reduce;
use crate::tape::{Backward, Device, Prim, StorageId, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::reshape::three;
use super::work::reduction;

/// Threads of one reduction block (`ReduceConfig`'s `MAX_NUM_THREADS`).
const MAX_THREADS: u64 = 512;
/// Threads of a warp.
const WARP: u64 = 32;
/// Bytes of the accumulator: every float type accumulates in fp32.
const ACCUMULATOR_BYTES: u64 = 4;
/// Outputs that one thread takes at once when the outputs are adjacent in memory.
const OUTPUT_VECTOR: u64 = 4;

/// Scratch of one reduction: the staging buffer and the semaphores, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReduceScratch {
    pub(super) staging: u64,
    pub(super) semaphores: u64,
}

pub(super) fn last_power_of_two(n: u64) -> u64 {
    if n == 0 { 1 } else { 1 << n.ilog2() }
}

/// Scratch for summing `inputs` values into each of `outputs` results, the results being the
/// fastest-moving dimension.
///
/// # Formula
///
/// ```text
/// blocks per output = max(min(⌈target grid / grid⌉, ⌈values / 16⌉), ⌈values / 256⌉)
/// staging           = 4 B · outputs · blocks per output · block width · vector
/// semaphores        = 4 B · grid
/// ```
///
/// # Source
///
/// `setReduceConfig` and `ReduceConfig::global_memory_size` in
/// `aten/src/ATen/native/cuda/Reduce.cuh`, PyTorch 2.11.
pub(super) fn outer_reduction(outputs: u64, inputs: u64, device: Device) -> ReduceScratch {
    let vector =
        [OUTPUT_VECTOR, 2, 1].into_iter().find(|v| outputs.is_multiple_of(*v)).unwrap_or(1);
    let max_threads = MAX_THREADS / vector;
    let capped = |n: u64| if n < max_threads { last_power_of_two(n) } else { max_threads };
    let (dim0, dim1) = (capped(outputs / vector), capped(inputs));
    let height = dim1.min(max_threads / dim0.min(WARP));
    let width = dim0.min(max_threads / height);
    let threads = width * height;

    let splits_warps = (height * 16).min(256) <= inputs;
    if !splits_warps {
        return ReduceScratch::default();
    }
    let values = inputs.div_ceil(height);
    let grid = (outputs / vector).div_ceil(width);
    let target = device.sm_count * (device.threads_per_sm / threads);
    if values < 256 || target < grid {
        return ReduceScratch::default();
    }
    let ctas = target.div_ceil(grid).min(values.div_ceil(16)).max(values.div_ceil(256));
    if ctas <= 1 {
        return ReduceScratch::default();
    }
    ReduceScratch {
        staging: ACCUMULATOR_BYTES * outputs * ctas * width * vector,
        semaphores: 4 * grid,
    }
}

/// Scratch for reducing adjacent `inputs` into each of `outputs` results.
///
/// # Formula
///
/// ```text
/// blocks per output = max(min(⌈target grid / outputs⌉, ⌈values / 16⌉), ⌈values / 256⌉)
/// staging           = 4 B · outputs · blocks per output
/// semaphores        = 4 B · outputs
/// ```
///
/// # Source
///
/// As [`outer_reduction`]; here the threads of a block share one result (`should_block_x_reduce`).
pub(super) fn inner_reduction(outputs: u64, inputs: u64, device: Device) -> ReduceScratch {
    const INPUT_VECTOR: u64 = 4;
    let capped = |n: u64| if n < MAX_THREADS { last_power_of_two(n) } else { MAX_THREADS };
    // One result of adjacent inputs is one dimension, which is read in vectors.
    let vectorized = outputs == 1 && 128 < inputs;
    let dim0 = capped(if vectorized { inputs / INPUT_VECTOR } else { inputs });
    let height = capped(outputs).min(MAX_THREADS / dim0.min(WARP));
    let width = dim0.min(MAX_THREADS / height);
    let threads = width * height;
    if inputs.div_ceil(width) < (height * 16).min(256) {
        return ReduceScratch::default();
    }
    let values = inputs.div_ceil(threads);
    let target = device.sm_count * (device.threads_per_sm / threads);
    if values < 256 || target < outputs {
        return ReduceScratch::default();
    }
    let ctas = target.div_ceil(outputs).min(values.div_ceil(16)).max(values.div_ceil(256));
    if ctas <= 1 {
        return ReduceScratch::default();
    }
    ReduceScratch { staging: ACCUMULATOR_BYTES * outputs * ctas, semaphores: 4 * outputs }
}

impl Tape {
    /// A norm or mean of `outputs` stretches of adjacent `inputs`.
    pub fn reduce_rows(
        &mut self,
        outputs: u64,
        inputs: u64,
        dtype: DType,
        prim: Prim,
    ) -> StorageId {
        let out = self.allocate(outputs * dtype.bytes(), prim);
        self.reduction_scratch(inner_reduction(outputs, inputs, self.device));
        let seen = Shape::new([outputs, inputs]);
        let bytes = outputs * (inputs + 1) * dtype.bytes();
        self.run(prim, reduction(Reduce::Last, &seen, dtype, bytes));
        out
    }

    /// A norm of each of `outputs` adjacent columns of `inputs` rows.
    pub fn reduce_columns(
        &mut self,
        outputs: u64,
        inputs: u64,
        dtype: DType,
        prim: Prim,
    ) -> StorageId {
        let out = self.allocate(outputs * dtype.bytes(), prim);
        self.reduction_scratch(outer_reduction(outputs, inputs, self.device));
        let seen = Shape::new([inputs, outputs]);
        let bytes = outputs * (inputs + 1) * dtype.bytes();
        self.run(prim, reduction(Reduce::First, &seen, dtype, bytes));
        out
    }

    /// `sum` over the leading dimensions into a smaller shape.
    pub(super) fn sum_leading(&mut self, input: &Tensor, shape: Shape, dtype: DType) -> Tensor {
        let rows = input.shape.elements() / shape.elements();
        let out = self.empty(shape, dtype, Prim::Sum);
        self.reduction_scratch(outer_reduction(shape.elements(), rows, self.device));
        let bytes = input.bytes() + out.bytes();
        let seen = Shape::new([rows, shape.elements()]);
        self.run(Prim::Sum, reduction(Reduce::First, &seen, input.dtype, bytes));
        out
    }

    /// `sum` over the last dimension, kept as one.
    pub(super) fn sum_last(&mut self, input: &Tensor, dtype: DType) -> Tensor {
        let out = self.empty(input.shape.with_last(1), dtype, Prim::Sum);
        let bytes = input.bytes() + out.bytes();
        self.run(Prim::Sum, reduction(Reduce::Last, &input.shape, input.dtype, bytes));
        out
    }

    /// `x.sum(dim=-1, keepdim=True)`, which autocast asks for in fp32.
    pub fn sum_each_row(&mut self, x: &Tensor) -> Tensor {
        let rule = Backward::Expand { input: x.shape, dtype: x.dtype };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Sum, rule, &[x]));
        let dtype = if self.autocast().is_some() { DType::F32 } else { x.dtype };
        let out = self.sum_last(x, dtype);
        self.with_node(out, node)
    }

    /// `x.sum(dim=1)` of `[rows, terms, columns]` with few terms, under autocast in fp32.
    pub fn sum_second(&mut self, x: &Tensor) -> Tensor {
        let [rows, _, columns] = three(x);
        let rule = Backward::Expand { input: x.shape, dtype: x.dtype };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::Sum, rule, &[x]));
        let dtype = if self.autocast().is_some() { DType::F32 } else { x.dtype };
        let out = self.empty(Shape::new([rows, columns]), dtype, Prim::Sum);
        let bytes = x.bytes() + out.bytes();
        self.run(Prim::Sum, reduction(Reduce::First, &x.shape, x.dtype, bytes));
        self.with_node(out, node)
    }

    pub(super) fn reduction_scratch(&mut self, scratch: ReduceScratch) {
        if 0 < scratch.staging {
            let staging = self.allocate(scratch.staging, Prim::Sum);
            let semaphores = self.allocate(scratch.semaphores, Prim::Sum);
            self.release_storage(semaphores);
            self.release_storage(staging);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Device = Device { sm_count: 132, threads_per_sm: 2048, capability: (9, 0) };

    #[test]
    fn norm_weight_gradient_of_llama_1b() {
        // Seen in the capture `llama1b-bf16`: 8,192 rows of 2,048.
        let scratch = outer_reduction(2048, 8192, H200);
        assert_eq!(scratch, ReduceScratch { staging: 134_217_728, semaphores: 64 });
    }

    #[test]
    fn norms_of_whole_tensors() {
        // Seen in the capture `small-adafactor`: tables of 32,000 × 1,024, projections, and the mean
        // over a table's rows.
        let check = |inputs, staging| {
            let semaphores = if staging == 0 { 0 } else { 4 };
            assert_eq!(inner_reduction(1, inputs, H200), ReduceScratch { staging, semaphores });
        };
        check(32_000 * 1_024, 2_112);
        check(1_024 * 1_024, 512);
        check(256 * 1_024, 128);
        check(32_000, 0);
        check(1, 0);
    }
}
