//! Compiled functions with reductions: bias, dropout and residual addition.

use crate::clock::{Pointwise, Reduce};
use crate::tape::{BiasDropoutAdd, Device, Megatron, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::super::backward::Gradients;
use super::super::work::{pointwise, reduction};
use super::Running;

/// Threads of a warp.
const WARP: u64 = 32;
/// Most elements that one thread reduces (`max_elements_per_thread`).
const MAX_PER_THREAD: u64 = 512;
/// Threads of a block: eight warps.
const THREADS: u64 = 8 * WARP;
/// Rows that one thread reduces at once (`rvals_per_thread`).
const ROWS_PER_THREAD: u64 = 4;
/// Columns of one block (`xvals_per_block`).
const COLUMNS_PER_BLOCK: u64 = 128;

/// Into how many partial sums a compiled sum over `rows` of `columns` results is split.
///
/// # Source
///
/// `Reduction.num_splits` (`torch/_inductor/ir.py`) and `reduction_split_factor`
/// (`torch/_inductor/choices.py`) for an outer reduction, PyTorch 2.11.
pub(super) fn outer_splits(rows: u64, columns: u64, device: Device) -> u64 {
    if rows <= WARP || device.sm_count * 2 * 32 <= columns {
        return 1;
    }
    let per_device = device.sm_count * device.threads_per_sm;
    let elements = rows * columns;
    let size = if elements < WARP * per_device {
        WARP
    } else if elements < MAX_PER_THREAD * per_device {
        let blocks = (per_device / THREADS).div_ceil(columns.div_ceil(COLUMNS_PER_BLOCK));
        let target = rows.div_ceil(ROWS_PER_THREAD * blocks);
        even_split(rows, target, 20).map_or(target, |even| even.max(WARP))
    } else {
        even_split(rows, MAX_PER_THREAD, 50).unwrap_or(MAX_PER_THREAD)
    };
    rows.div_ceil(ROWS_PER_THREAD * size)
}

/// The divisor of `rows` nearest to a size, the smaller of two, when it is nearer than `within`.
fn even_split(rows: u64, size: u64, within: u64) -> Option<u64> {
    let far = size.saturating_add(within);
    let divisors = (size.saturating_sub(within).max(1)..=far).filter(|&d| rows.is_multiple_of(d));
    let nearest = divisors.min_by_key(|d| d.abs_diff(size))?;
    (nearest.abs_diff(size) < within).then_some(nearest)
}

impl Tape {
    /// `bias_dropout_add_fused_train((x, bias), residual, p)`: a seed for the whole graph, the mask
    /// beside the sum; keeps the mask.
    ///
    /// A layer enables gradients around it (`bias_dropout_add_exec_handler`), so that it records even
    /// within a checkpoint's first run.
    ///
    /// Source: `fusions/fused_bias_dropout.py`; Inductor's `inductor_seeds` is one 64-bit number.
    pub fn bias_dropout_add(
        &mut self,
        x: &Tensor,
        bias: Option<ParamId>,
        residual: &Tensor,
        p: f64,
    ) -> Tensor {
        let bias = bias.map(|id| self.weight(id));
        let (rows, columns) = (x.shape.rows(), x.shape.last());
        let shape = BiasDropoutAdd { rows, columns, bias: bias.is_some(), dropout: 0.0 < p };
        let absent = self.empty(Shape::new([0]), x.dtype, Prim::Add);
        let inputs = [x, bias.as_ref().unwrap_or(&absent), residual];
        let node =
            self.megatron_node(Prim::BiasDropoutAdd, Megatron::BiasDropoutAdd(shape), &inputs);
        let seed = shape.dropout.then(|| self.allocate(8, Prim::Dropout));
        let mask = shape.dropout.then(|| self.empty(x.shape, DType::Bool, Prim::Dropout));
        let out = self.empty(x.shape, x.dtype, Prim::BiasDropoutAdd);
        self.run(Prim::BiasDropoutAdd, pointwise(Pointwise::Dropout, x.dtype, 3 * out.bytes()));
        if let Some(seed) = seed {
            self.release_storage(seed);
        }
        if let (None, Some(mask)) = (&node, &mask) {
            self.chain(mask);
        }
        let node = node.map(|mut node| {
            if let Some(mask) = &mask {
                self.save(&mut node, mask);
            }
            node
        });
        let out = self.with_node(out, node);
        for tensor in [mask, bias, Some(absent)].into_iter().flatten() {
            self.release(tensor);
        }
        out
    }

    /// Its backward, compiled as well: the dropped gradient, then the bias's in two passes where the
    /// reduction is split. The residual's is the gradient itself.
    pub(super) fn bias_dropout_add_gradients(
        &mut self,
        running: &mut Running,
        shape: BiasDropoutAdd,
    ) -> Gradients {
        let BiasDropoutAdd { rows, columns, bias, dropout } = shape;
        let grad = self.share(running.grad());
        let dtype = grad.dtype;
        let of_x = if dropout {
            let of_x = self.empty(grad.shape, dtype, Prim::BiasDropoutAdd);
            self.run(Prim::BiasDropoutAdd, pointwise(Pointwise::Dropout, dtype, 3 * grad.bytes()));
            of_x
        } else {
            self.share(&grad)
        };
        let splits = outer_splits(rows, columns, self.device);
        if dropout && (!bias || 1 < splits) {
            running.free_saved(self, 0);
        }
        let of_bias = (bias && running.wanted[1]).then(|| {
            let work = reduction(Reduce::First, &grad.shape, dtype, grad.bytes());
            let partial = (1 < splits).then(|| {
                let partial = self.allocate(4 * splits * columns, Prim::Sum);
                self.run(Prim::Sum, work);
                partial
            });
            let out = self.empty(Shape::new([columns]), dtype, Prim::Sum);
            self.run(Prim::Sum, work);
            if let Some(partial) = partial {
                self.release_storage(partial);
            }
            out
        });
        [Some(of_x), of_bias, Some(grad), None]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Device = Device { sm_count: 132, threads_per_sm: 2048, capability: (9, 0) };

    /// Partial sums seen in captures of megatron-core 0.19.2 with PyTorch 2.11 on an H200.
    #[test]
    fn splits_as_recorded() {
        let check = |rows, columns, expect| {
            assert_eq!(outer_splits(rows, columns, H200), expect, "{rows} × {columns}");
        };
        check(4096, 2048, 32);
        check(1024, 6144, 8);
        check(1024, 4096, 8);
        check(8192, 6144, 22);
        check(8192, 8448, 1);
    }
}
