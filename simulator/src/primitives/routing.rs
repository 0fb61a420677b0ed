//! Routing of tokens to experts: the largest scores, sorting, counting, rows by their numbers.

use crate::clock::{Index, Pointwise};
use crate::tape::{Backward, Node, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::cub::{short_scan_scratch, sort_scratch, sort_scratch_of};
use super::reshape::four;
use super::work::{indexed, pointwise};

/// Items up to which `sort` works in place (`should_use_small_sort`).
const SMALL_SORT: u64 = 4096;

impl Tape {
    /// `topk(x, k, dim=-1)`: values, then their positions, which are kept.
    ///
    /// Source: `topk_out_cuda` (`aten/src/ATen/native/cuda/TensorTopK.cpp`): rows of up to some
    /// thousand scores are selected and sorted in place by one block each.
    pub fn topk(&mut self, x: &Tensor, k: u64) -> [Tensor; 2] {
        let rule = Backward::Scatter { input: x.shape };
        let node = self.records(&[x]).then(|| self.begin_node(Prim::TopK, rule, &[x]));
        let values = self.empty(x.shape.with_last(k), x.dtype, Prim::TopK);
        let indices = self.empty(values.shape, DType::I64, Prim::TopK);
        let bytes = x.bytes() + values.bytes() + indices.bytes();
        self.run(Prim::TopK, indexed(Index::Sort, x.dtype, bytes));
        let node = node.map(|mut node| {
            self.save(&mut node, &indices);
            node
        });
        [self.with_node(values, node), indices]
    }

    /// `x.gather(-1, indices)`; keeps the indices.
    pub fn gather_last(&mut self, x: &Tensor, indices: &Tensor) -> Tensor {
        let node = self.records(&[x]).then(|| {
            let rule = Backward::Scatter { input: x.shape };
            let mut node = self.begin_node(Prim::Index, rule, &[x]);
            self.save(&mut node, indices);
            node
        });
        let out = self.empty(indices.shape, x.dtype, Prim::Index);
        let bytes = 2 * out.bytes() + indices.bytes();
        self.run(Prim::Index, indexed(Index::Gather, x.dtype, bytes));
        self.with_node(out, node)
    }

    /// The gradient of `topk` and `gather`: zeros with the gradient's values at their places.
    pub(super) fn scatter_gradient(&mut self, grad: &Tensor, input: Shape, prim: Prim) -> Tensor {
        let out = self.empty(input, grad.dtype, prim);
        let bytes = out.bytes() + 2 * grad.bytes();
        self.run(prim, indexed(Index::Scatter, grad.dtype, bytes));
        out
    }

    /// `torch.sort(x)` of a vector of 64-bit integers: values, then where they were.
    ///
    /// Source: `sort_cuda_kernel` (`aten/src/ATen/native/cuda/Sort.cpp`): up to 4,096 items in place,
    /// beside a range; above, CUB's radix sort of keys with a range of positions.
    pub fn sort(&mut self, x: &Tensor) -> [Tensor; 2] {
        let items = x.shape.elements();
        let [values, positions, range] =
            [(); 3].map(|()| self.empty(x.shape, DType::I64, Prim::Sort));
        if SMALL_SORT < items {
            self.scratch(sort_scratch(items), Prim::Sort);
        }
        self.run(Prim::Sort, indexed(Index::Sort, x.dtype, 4 * x.bytes()));
        self.release(range);
        [values, positions]
    }

    /// `torch.histc(x, bins)` of 32-bit integers, and `torch.cumsum` of the counts: where each group of
    /// equal numbers ends.
    ///
    /// Source: `CUDA_tensor_histogram` (`aten/src/ATen/native/cuda/SummaryOps.cu`) counts in shared
    /// memory; the sum is a scan by CUB.
    pub fn count(&mut self, x: &Tensor, bins: u64) -> [Tensor; 2] {
        let counts = self.empty(Shape::new([bins]), DType::I32, Prim::Histogram);
        self.run(Prim::Histogram, indexed(Index::Scatter, x.dtype, x.bytes()));
        let ends = self.empty(counts.shape, DType::I32, Prim::Histogram);
        self.scratch(short_scan_scratch(), Prim::Histogram);
        self.run(Prim::Histogram, indexed(Index::Sort, DType::I32, 2 * ends.bytes()));
        [counts, ends]
    }

    /// `x[indices]`: rows of a matrix, or elements of a vector; keeps the indices.
    pub fn index_rows(&mut self, x: &Tensor, indices: &Tensor) -> Tensor {
        let rows = indices.shape.elements();
        let node = self.records(&[x]).then(|| {
            let rule = Backward::Index { input: x.shape, rows };
            let mut node = self.begin_node(Prim::Index, rule, &[x]);
            self.save(&mut node, indices);
            node
        });
        let shape = match *x.shape.sizes() {
            [_, columns] => Shape::new([rows, columns]),
            _ => Shape::new([rows]),
        };
        let out = self.empty(shape, x.dtype, Prim::Index);
        let bytes = 2 * out.bytes() + indices.bytes();
        self.run(Prim::Index, indexed(Index::Gather, x.dtype, bytes));
        self.with_node(out, node)
    }

    /// `x[..., [i], :]` of `[batch, tokens, heads, dim]`: a copy of one head, whose number is brought to
    /// the device and kept.
    pub fn index_head(&mut self, x: &Tensor) -> Tensor {
        let [batch, tokens, _, dim] = four(x);
        let index = self.helper(Shape::new([1]), DType::I64, Prim::Index);
        let node = self.records(&[x]).then(|| {
            let mut node =
                self.begin_node(Prim::Index, Backward::Index { input: x.shape, rows: 1 }, &[x]);
            self.save(&mut node, &index);
            node
        });
        let out = self.empty(Shape::new([batch, tokens, 1, dim]), x.dtype, Prim::Index);
        self.run(Prim::Index, indexed(Index::Gather, x.dtype, 2 * out.bytes()));
        let out = self.with_node(out, node);
        self.release(index);
        out
    }

    /// The gradient of [`Tape::index_rows`]: zeros, into which the rows are added in the order of
    /// their numbers.
    ///
    /// Source: `index_put_with_sort_kernel` (`aten/src/ATen/native/cuda/Indexing.cu`): the remainder of
    /// the indices, their product with the stride, sorted copies of both and a range; a key has as many
    /// bits as the last row's number.
    pub(super) fn index_gradient(&mut self, grad: &Tensor, input: Shape, rows: u64) -> Tensor {
        let out = self.empty(input, grad.dtype, Prim::Index);
        let integers = |tape: &mut Self| tape.allocate(8 * rows, Prim::Index);
        let remainder = integers(self);
        let linear = integers(self);
        self.release_storage(remainder);
        let [sorted, original, range] = [(); 3].map(|()| integers(self));
        let last = input.sizes()[0].saturating_sub(1);
        let bits = u64::from(last.checked_ilog2().unwrap_or(0)) + 1;
        self.scratch(sort_scratch_of(rows, bits), Prim::Index);
        let bytes = out.bytes() + 2 * grad.bytes() + 40 * rows;
        self.run(Prim::Index, indexed(Index::EmbeddingBackward, grad.dtype, bytes));
        for storage in [range, original, sorted, linear] {
            self.release_storage(storage);
        }
        out
    }

    /// `x.masked_fill(mask, 0)`; keeps the mask.
    pub fn masked_fill(&mut self, x: &Tensor, mask: &Tensor) -> Tensor {
        let node = self.mask_node(x, mask);
        let out = self.elementwise(Prim::MaskedFill, &[x, mask], x.dtype);
        self.with_node(out, node)
    }

    /// `x.masked_fill_(mask, 0)`; keeps the mask.
    pub fn masked_fill_in_place(&mut self, x: Tensor, mask: &Tensor) -> Tensor {
        let node = self.mask_node(&x, mask);
        let bytes = 2 * x.bytes() + mask.bytes();
        self.run(Prim::MaskedFill, pointwise(Pointwise::Binary, x.dtype, bytes));
        self.with_node(x, node)
    }

    /// Its backward fills the gradient in the same places.
    fn mask_node(&mut self, x: &Tensor, mask: &Tensor) -> Option<Node> {
        self.records(&[x]).then(|| {
            let mut node = self.begin_node(Prim::MaskedFill, Backward::Unary, &[x]);
            self.save(&mut node, mask);
            node
        })
    }
}
