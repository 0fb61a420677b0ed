//! Routing of tokens to experts, as Megatron-core writes it without fused permutations.
//!
//! Source: megatron-core 0.19.2, `transformer/moe/moe_utils.py`.

use crate::clock::Index;
use crate::tape::{Edge, Megatron, Prim, Source, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::super::cub::one_pass_sort_scratch;
use super::super::work::indexed;

/// Items up to which `sort` works in place (`should_use_small_sort`).
const SMALL_SORT: u64 = 4096;

impl Tape {
    /// `zeros.scatter(1, indices, values)`: zeros, then the result; keeps the indices, by which the
    /// gradient is gathered.
    pub fn scattered(&mut self, values: &Tensor, indices: &Tensor, shape: Shape) -> Tensor {
        let rule = Megatron::Exchange { input: values.shape };
        let node = self.megatron_node(Prim::Index, rule, &[values]).map(|mut node| {
            self.save(&mut node, indices);
            node
        });
        let zeros = self.helper(shape, values.dtype, Prim::Index);
        let out = self.helper(shape, values.dtype, Prim::Index);
        self.release(zeros);
        self.with_node(out, node)
    }

    /// `x.index_select(0, indices)` of rows; the gradient is added into zeros.
    pub fn selected_rows(&mut self, x: &Tensor, indices: &Tensor) -> Tensor {
        let rule = Megatron::Exchange { input: x.shape };
        let node = self.megatron_node(Prim::Index, rule, &[x]).map(|mut node| {
            self.save(&mut node, indices);
            node
        });
        let shape = Shape::new([indices.shape.elements(), x.shape.last()]);
        let out = self.empty(shape, x.dtype, Prim::Index);
        self.run(Prim::Index, indexed(Index::Gather, x.dtype, 2 * out.bytes()));
        self.with_node(out, node)
    }

    /// `zeros(shape).scatter_add_(0, indices, x)`: rows added up; the gradient is gathered.
    pub fn added_rows(&mut self, x: &Tensor, indices: &Tensor, shape: Shape) -> Tensor {
        let rule = Megatron::Exchange { input: x.shape };
        let node = self.megatron_node(Prim::Index, rule, &[x]).map(|mut node| {
            self.save(&mut node, indices);
            node
        });
        let out = self.empty(shape, x.dtype, Prim::Index);
        let bytes = 2 * x.bytes() + out.bytes();
        self.run(Prim::Index, indexed(Index::Scatter, x.dtype, bytes));
        self.with_node(out, node)
    }

    /// `x.argsort(descending=True, stable=True)` of booleans: values and a range go, positions stay.
    ///
    /// Source: `sort_cuda_kernel` (`aten/src/ATen/native/cuda/Sort.cpp`): keys of one byte take one
    /// pass of CUB's radix sort.
    pub fn argsort(&mut self, x: &Tensor) -> Tensor {
        let items = x.shape.elements();
        let values = self.empty(Shape::new([items]), x.dtype, Prim::Sort);
        let positions = self.empty(values.shape, DType::I64, Prim::Sort);
        let range = self.empty(values.shape, DType::I64, Prim::Sort);
        if SMALL_SORT < items {
            self.scratch(one_pass_sort_scratch(items), Prim::Sort);
        }
        self.run(Prim::Sort, indexed(Index::Sort, DType::I64, 4 * positions.bytes()));
        self.release(range);
        self.release(values);
        positions
    }

    /// `torch.split(x, rows)` along the first dimension: views.
    pub fn split_rows(&mut self, x: &Tensor, rows: &[u64]) -> Vec<Tensor> {
        let rule = Megatron::SplitRows { input: x.shape };
        let node = self.megatron_node(Prim::Split, rule, &[x]);
        let source = node.map(|node| self.finish_node(node));
        let part = |tape: &mut Self, index: usize, rows: u64| {
            let shape = first_dimension(x.shape, rows);
            let out = tape.part(x, shape);
            let output = u8::try_from(index).unwrap_or(u8::MAX);
            Tensor { source: source.map_or(Source::None, |source| source.output(output)), ..out }
        };
        rows.iter().enumerate().map(|(index, &rows)| part(self, index, rows)).collect()
    }

    /// `torch.cat(parts, dim=0)`.
    pub fn cat_rows(&mut self, parts: &[Tensor]) -> Tensor {
        let inputs: Vec<&Tensor> = parts.iter().take(1).collect();
        let all: Vec<&Tensor> = parts.iter().collect();
        let recorded = self.records(&all);
        let node = recorded.then(|| {
            let rule = crate::tape::Backward::Megatron(Megatron::CatRows);
            let mut node = self.begin_node(Prim::Cat, rule, &inputs);
            node.more().edges = parts.iter().skip(1).map(|part| Edge::to(part.source)).collect();
            node
        });
        let rows = parts.iter().map(|part| part.shape.sizes()[0]).sum();
        let shape = first_dimension(parts[0].shape, rows);
        let out = self.empty(shape, parts[0].dtype, Prim::Cat);
        self.run(Prim::Cat, indexed(Index::Gather, out.dtype, 2 * out.bytes()));
        self.with_node(out, node)
    }

    /// Rows split into chunks and put together in another order (`sort_chunks_by_idxs`): a copy, in
    /// backward too.
    pub fn reordered_rows(&mut self, x: &Tensor) -> Tensor {
        let rule = Megatron::Exchange { input: x.shape };
        let node = self.megatron_node(Prim::Cat, rule, &[x]);
        let out = self.exchanged(x, x.shape);
        self.with_node(out, node)
    }
}

/// The shape with another first size.
fn first_dimension(shape: Shape, rows: u64) -> Shape {
    match *shape.sizes() {
        [_, columns] => Shape::new([rows, columns]),
        _ => Shape::new([rows]),
    }
}
