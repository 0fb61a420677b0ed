//! `grouped_mm`: a matrix product for each group of rows, in one kernel.

use crate::clock::Pass;
use crate::tape::{Backward, Edges, Grouped, Library, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::backward::{Gradients, NONE};
use super::work::product;

/// Bytes of one tensor map (`cute::TmaDescriptor`).
const TENSOR_MAP: u64 = 128;
/// Tensor maps of each multiprocessor: both operands, and both of the epilogue.
const TENSOR_MAPS: u64 = 4;

impl Tape {
    /// `F.grouped_mm(x.to(weight.dtype), weight.transpose(-2, -1), offs=ends)`: rows of a group times
    /// the group's matrix of a parameter `[groups, outer, inner]`; keeps the parameter, the ends and
    /// the rows. Autocast does not cast its arguments.
    ///
    /// How rows are spread over groups changes no size; the clock takes them as equal.
    pub fn grouped_mm(&mut self, x: &Tensor, weight: ParamId, ends: &Tensor) -> Tensor {
        let weight = self.weight(weight);
        let &[groups, outer, inner] = weight.shape.sizes() else {
            unreachable!("a group's matrices are [groups, outer, inner]")
        };
        let transposed = self
            .records(&[&weight])
            .then(|| self.begin_node(Prim::View, Backward::Pass, &[&weight]));
        let handle = self.share(&weight);
        let matrices = self.with_node(handle, transposed);
        let x = self.cast(x, weight.dtype);
        let size = Grouped { groups, rows: x.shape.rows(), inner, outer };
        let node = self.records(&[&x, &matrices]).then(|| {
            let mut node =
                self.begin_node(Prim::GroupedMm, Backward::Grouped(size), &[&x, &matrices]);
            // By name: mat2, offs, self.
            if x.requires_grad() {
                self.save(&mut node, &matrices);
            }
            self.save(&mut node, ends);
            if matrices.requires_grad() {
                self.save(&mut node, &x);
            }
            node
        });
        let out = self.grouped_result(Shape::new([size.rows, outer]), x.dtype, groups);
        let sizes = [size.rows.div_ceil(groups), outer, inner, groups];
        self.run(Prim::GroupedMm, product(sizes, Pass::Forward, x.dtype));
        let out = self.with_node(out, node);
        for tensor in [x, matrices, weight] {
            self.release(tensor);
        }
        out
    }

    /// The gradient of the matrices, then that of the rows.
    pub(super) fn grouped_gradients(
        &mut self,
        grad: &Tensor,
        size: &Grouped,
        edges: Edges,
    ) -> Gradients {
        let &Grouped { groups, rows, inner, outer } = size;
        let mut outputs = NONE;
        let each = rows.div_ceil(groups);
        if edges[1].wanted() {
            let shape = Shape::new([groups, outer, inner]);
            outputs[1] = Some(self.grouped_result(shape, grad.dtype, groups));
            let sizes = [outer, inner, each, groups];
            self.run(Prim::GroupedMm, product(sizes, Pass::WeightGrad, grad.dtype));
        }
        if edges[0].wanted() {
            let shape = Shape::new([rows, inner]);
            outputs[0] = Some(self.grouped_result(shape, grad.dtype, groups));
            let sizes = [each, inner, outer, groups];
            self.run(Prim::GroupedMm, product(sizes, Pass::InputGrad, grad.dtype));
        }
        outputs
    }

    /// A product's result, and the scratch of the one kernel: pointers, strides and sizes of each
    /// group, and the tensor maps of each multiprocessor. Other types and machines loop over `mm`.
    ///
    /// # Source
    ///
    /// `_grouped_mm_cuda` (`aten/src/ATen/native/cuda/GroupedBlas.cpp`),
    /// `bf16bf16_grouped_gemm_impl_sm90_sm100` (`GroupMM.cu`), `get_workspace_size` of CUTLASS's
    /// `sm90_mma_array_tma_gmma_ss_warpspecialized.hpp` and `sm90_epilogue_array_tma_warpspecialized.hpp`.
    /// Recorded on an H200 with torch 2.11 for both tile shapes, 7 and 8 groups, all three types.
    fn grouped_result(&mut self, shape: Shape, dtype: DType, groups: u64) -> Tensor {
        let out = self.empty(shape, dtype, Prim::GroupedMm);
        let fused = dtype == DType::BF16 && matches!(self.device.capability, (9 | 10, 0));
        if fused {
            let pointers = 3 * 8 * groups.next_multiple_of(2);
            let strides_and_sizes = (3 * 8 + 3 * 4) * groups;
            let arguments = self.allocate(pointers + strides_and_sizes, Prim::GroupedMm);
            self.scratch(TENSOR_MAPS * TENSOR_MAP * self.device.sm_count, Prim::GroupedMm);
            self.release_storage(arguments);
        } else {
            self.workspace(Library::Blas);
        }
        out
    }
}
