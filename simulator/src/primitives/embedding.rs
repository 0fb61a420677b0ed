//! Embedding look-ups and the scratch of their backward.

use crate::clock::Index;
use crate::tape::{Backward, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::cub::{scan_scratch, sort_scratch, unique_scratch};
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
        if self.param(weight).hooked { self.require_grad(out) } else { out }
    }

    /// The gradient of an embedding's table.
    ///
    /// # Source
    ///
    /// `embedding_dense_backward_cuda` (`aten/src/ATen/native/cuda/Embedding.cu`): up to 3,072 indices
    /// without padding one kernel over a zeroed table; above, the indices are sorted, the segments of
    /// equal ones are found and counted, and partial sums of at most ten rows are kept in fp32
    /// (`embedding_backward_cuda_kernel`, `EmbeddingBackwardKernel.cu`: at most
    /// `⌊n / 10⌋ + min(n, rows)` of them).
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
        let keep = |tape: &mut Self, bytes| tape.allocate(bytes, Prim::Embedding);
        let ids = indices * 8;
        let sorted = keep(self, ids);
        let original = keep(self, ids);
        let range = keep(self, ids);
        self.scratch(sort_scratch(indices), Prim::Embedding);
        self.release_storage(range);
        let grad = self.empty(shape, dtype, Prim::Embedding);
        let segments = keep(self, ids);
        let n_segments = keep(self, 8);
        let unique = keep(self, ids);
        self.scratch(unique_scratch(indices), Prim::Embedding);
        self.release_storage(unique);
        let per_segment = keep(self, ids);
        let offsets = keep(self, ids);
        self.scratch(scan_scratch(indices), Prim::Embedding);
        let n_partials = keep(self, 8);
        let partials = indices / ROWS_PER_PARTIAL + indices.min(vocab);
        let starts = keep(self, partials * 8);
        let sums = keep(self, partials * hidden * 4);
        self.run(Prim::Embedding, work);
        let last = [sums, starts, n_partials, offsets, per_segment];
        for storage in last.into_iter().chain([n_segments, segments, original, sorted]) {
            self.release_storage(storage);
        }
        grad
    }
}
