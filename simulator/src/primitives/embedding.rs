//! Embedding look-ups and the scratch of their backward.

use crate::clock::Index;
use crate::tape::{Backward, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::work::indexed;

/// Indices above which the backward sorts (`embedding_dense_backward_cuda`).
const SORT_THRESHOLD: u64 = 3072;
/// Rows of one partial sum (`NROWS_PER_THREAD`).
const ROWS_PER_PARTIAL: u64 = 10;

impl Tape {
    /// `F.embedding(ids, weight)`; keeps the ids.
    pub fn embedding(&mut self, ids: &Tensor, weight: ParamId, padding: bool) -> Tensor {
        let table = self.weight(weight);
        let &[vocab, hidden] = table.shape.sizes() else {
            unreachable!("a table has two dimensions")
        };
        let indices = ids.shape.elements();
        let node = self.records(&[&table]).then(|| {
            let rule = Backward::Embedding { vocab, hidden, indices, padding };
            let mut node = self.begin_node(Prim::Embedding, rule, &[&table]);
            self.save(&mut node, ids);
            node
        });
        let shape = match *ids.shape.sizes() {
            [batch, tokens] => Shape::new([batch, tokens, hidden]),
            _ => Shape::new([indices, hidden]),
        };
        let out = self.empty(shape, table.dtype, Prim::Embedding);
        self.run(Prim::Embedding, indexed(Index::Gather, table.dtype, 2 * out.bytes()));
        let out = self.with_node(out, node);
        self.release(table);
        out
    }

    /// The gradient of an embedding's table.
    ///
    /// # Source
    ///
    /// `embedding_dense_backward_cuda` (`aten/src/ATen/native/cuda/Embedding.cu`): up to 3,072 indices
    /// without padding one kernel over a zeroed table; above, the indices are sorted (by CUB) and partial
    /// sums of at most ten rows are kept in fp32 (`embedding_backward_cuda_kernel`,
    /// `EmbeddingBackwardKernel.cu`: at most `⌊n / 10⌋ + min(n, rows)` of them).
    pub(super) fn embedding_gradient(
        &mut self,
        vocab: u64,
        hidden: u64,
        indices: u64,
        dtype: DType,
    ) -> Tensor {
        let shape = Shape::new([vocab, hidden]);
        let bytes = (vocab + indices) * hidden * dtype.bytes();
        let work = indexed(Index::EmbeddingBackward, dtype, bytes);
        if indices <= SORT_THRESHOLD {
            let grad = self.empty(shape, dtype, Prim::Embedding);
            self.run(Prim::Embedding, work);
            return grad;
        }
        let ids = indices * 8;
        let sorted = self.allocate(ids, Prim::Embedding);
        let original = self.allocate(ids, Prim::Embedding);
        self.scratch(ids, Prim::Embedding);
        let grad = self.empty(shape, dtype, Prim::Embedding);
        let segments = self.allocate(ids, Prim::Embedding);
        let offsets = self.allocate(ids, Prim::Embedding);
        let partials = indices / ROWS_PER_PARTIAL + indices.min(vocab);
        let starts = self.allocate(partials * 8, Prim::Embedding);
        let sums = self.allocate(partials * hidden * 4, Prim::Embedding);
        self.run(Prim::Embedding, work);
        for storage in [sums, starts, offsets, segments, original, sorted] {
            self.release_storage(storage);
        }
        grad
    }
}
