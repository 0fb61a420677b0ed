//! Collectives over the first dimension, and embeddings over part of a vocabulary.
//!
//! Source: megatron-core 0.19.2, `tensor_parallel/mappings.py`, `tensor_parallel/layers.py`. An
//! all-reduce works in place and allocates nothing.

use crate::clock::{Index, Pointwise};
use crate::tape::{Megatron, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::super::work::{indexed, pointwise};

impl Tape {
    /// `reduce_scatter_to_sequence_parallel_region` and `gather_from_sequence_parallel_region`: a new
    /// tensor with other rows.
    pub fn exchange(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let rule = Megatron::Exchange { input: x.shape };
        let node = self.megatron_node(Prim::Collective, rule, &[x]);
        let out = self.exchanged(x, shape);
        self.with_node(out, node)
    }

    /// `scatter_to_sequence_parallel_region`: this rank's rows, a view of contiguous memory; backward
    /// gathers.
    pub fn scatter_rows(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let rule = Megatron::Exchange { input: x.shape };
        let node = self.megatron_node(Prim::Collective, rule, &[x]);
        let out = self.part(x, shape);
        self.with_node(out, node)
    }

    pub(super) fn exchanged(&mut self, x: &Tensor, shape: Shape) -> Tensor {
        let out = self.empty(shape, x.dtype, Prim::Collective);
        let bytes = x.bytes() + out.bytes();
        self.run(Prim::Collective, pointwise(Pointwise::Copy, x.dtype, bytes));
        out
    }

    /// `F.embedding(ids, weight)` over this rank's rows of the vocabulary; keeps the ids.
    pub fn vocab_embedding(&mut self, ids: &Tensor, weight: ParamId) -> Tensor {
        let table = self.weight(weight);
        let &[rows, columns] = table.shape.sizes() else {
            unreachable!("a table has two dimensions")
        };
        let &[batch, tokens] = ids.shape.sizes() else { unreachable!("ids are a matrix") };
        let rule = Megatron::Embedding { rows, columns, indices: batch * tokens };
        let node = self.megatron_node(Prim::Embedding, rule, &[&table]).map(|mut node| {
            self.save(&mut node, ids);
            node
        });
        let out = self.empty(Shape::new([batch, tokens, columns]), table.dtype, Prim::Embedding);
        self.run(Prim::Embedding, indexed(Index::Gather, table.dtype, 2 * out.bytes()));
        self.release(table);
        self.with_node(out, node)
    }

    /// The gradient of the table, from one that is made contiguous first.
    pub(super) fn vocab_gradient(
        &mut self,
        grad: &Tensor,
        table: [u64; 2],
        indices: u64,
    ) -> Tensor {
        let copy = (grad.layout != Layout::Contiguous).then(|| self.copy(grad, grad.shape));
        let out = self.embedding_gradient(table, indices, false, grad.dtype);
        if let Some(copy) = copy {
            self.release(copy);
        }
        out
    }

    /// Which ids belong to other ranks, and the ids with those set to 0: `(ids < first) | (ids >= last)`,
    /// `ids.clone() - first`, `masked[mask] = 0` in place.
    pub fn masked_ids(&mut self, ids: &Tensor) -> [Tensor; 2] {
        let below = self.helper(ids.shape, DType::Bool, Prim::Mask);
        let above = self.helper(ids.shape, DType::Bool, Prim::Mask);
        let mask = self.helper(ids.shape, DType::Bool, Prim::Mask);
        self.release(below);
        self.release(above);
        let clone = self.helper(ids.shape, DType::I64, Prim::Copy);
        let masked = self.helper(ids.shape, DType::I64, Prim::Add);
        self.release(clone);
        [mask, masked]
    }
}
