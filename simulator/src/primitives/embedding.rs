//! Embedding look-ups and the scratch of their backward.

use crate::clock::Index;
use crate::tape::{Backward, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::cub::{scan_scratch, sort_scratch, unique_scratch};
use super::work::indexed;

/// Indices above which the backward sorts (`embedding_dense_backward_cuda`).
const SORT_THRESHOLD: u64 = 3072;
/// Rows of one partial sum (`NROWS_PER_THREAD`).
const ROWS_PER_PARTIAL: u64 = 10;
/// Threads of a warp.
const WARP: u64 = 32;
/// Threads of a block (`MAX_BLOCK_SIZE`).
const MAX_BLOCK: u64 = 1024;
/// Blocks that keep a multiprocessor busy (`MAX_ATOMIC_ACCUM_BLOCKS_PER_SM`).
const ATOMIC_BLOCKS_PER_SM: u64 = 4;

impl Tape {
    /// `F.embedding(ids, weight)`; keeps the ids. Ids that are expanded are copied for the look-up
    /// (`indices.reshape(-1)` in `at::native::embedding_symint`), and again in backward.
    pub fn embedding(&mut self, ids: &Tensor, weight: ParamId, padding: bool) -> Tensor {
        let out = self.look_up(ids, weight, padding);
        self.hooked(out, weight)
    }

    /// An embedding that multiplies what it looked up by a number.
    pub fn scaled_embedding(&mut self, ids: &Tensor, weight: ParamId) -> Tensor {
        let found = self.look_up(ids, weight, true);
        let out = self.mul_scalar(&found);
        self.release(found);
        self.hooked(out, weight)
    }

    /// The module's result, made to require a gradient where the table has a hook that does so.
    fn hooked(&mut self, out: Tensor, weight: ParamId) -> Tensor {
        if self.param(weight).hooked { self.require_grad(out) } else { out }
    }

    fn look_up(&mut self, ids: &Tensor, weight: ParamId, padding: bool) -> Tensor {
        let table = self.weight(weight);
        let &[vocab, hidden] = table.shape.sizes() else {
            unreachable!("a table has two dimensions")
        };
        let indices = ids.shape.elements();
        let expanded = ids.layout == Layout::Strided;
        let node = self.records(&[&table]).then(|| {
            let rule = Backward::Embedding { vocab, hidden, indices, padding, expanded };
            let mut node = self.begin_node(Prim::Embedding, rule, &[&table]);
            self.save(&mut node, ids);
            node
        });
        let shape = match *ids.shape.sizes() {
            [batch, tokens] => Shape::new([batch, tokens, hidden]),
            _ => Shape::new([indices, hidden]),
        };
        let flat = expanded.then(|| self.copy(ids, Shape::new([indices])));
        let out = self.empty(shape, table.dtype, Prim::Embedding);
        self.run(Prim::Embedding, indexed(Index::Gather, table.dtype, 2 * out.bytes()));
        let out = self.with_node(out, node);
        for tensor in flat.into_iter().chain([table]) {
            self.release(tensor);
        }
        out
    }

    /// The gradient of an embedding's table.
    ///
    /// # Source
    ///
    /// `embedding_dense_backward_cuda` (`aten/src/ATen/native/cuda/Embedding.cu`): up to 3,072 indices
    /// without padding one kernel over a zeroed table; above, the indices are sorted, the segments of
    /// equal ones are found and counted, and partial sums of at most ten rows are kept in fp32
    /// (`embedding_backward_cuda_kernel`, `EmbeddingBackwardKernel.cu`: at most
    /// `⌊n / 10⌋ + min(n, rows)` of them). Indices that were expanded are made contiguous first.
    pub(super) fn embedding_gradient(
        &mut self,
        [vocab, hidden]: [u64; 2],
        indices: u64,
        expanded: bool,
        dtype: DType,
    ) -> Tensor {
        let flat = expanded.then(|| self.allocate(indices * 8, Prim::Embedding));
        let grad = self.summed_rows([vocab, hidden], indices, dtype);
        if let Some(storage) = flat {
            self.release_storage(storage);
        }
        grad
    }

    fn summed_rows(&mut self, [vocab, hidden]: [u64; 2], indices: u64, dtype: DType) -> Tensor {
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
        let max_segments = indices.min(vocab);
        let per_segment = keep(self, max_segments * 8);
        let offsets = keep(self, max_segments * 8);
        self.scratch(scan_scratch(max_segments), Prim::Embedding);
        let n_partials = keep(self, 8);
        let partials = indices / ROWS_PER_PARTIAL + max_segments;
        let starts = keep(self, partials * 8);
        let sums = if self.accumulates_atomically(max_segments, partials, hidden) {
            let segment_of = keep(self, partials * 8);
            if dtype.is_half() {
                self.scratch(vocab * hidden * 4, Prim::Embedding);
            }
            segment_of
        } else {
            keep(self, partials * hidden * 4)
        };
        self.run(Prim::Embedding, work);
        let last = [sums, starts, n_partials, offsets, per_segment];
        for storage in last.into_iter().chain([n_segments, segments, original, sorted]) {
            self.release_storage(storage);
        }
        grad
    }

    /// Whether a few large segments are summed by atomic additions instead of partial sums.
    ///
    /// Source: `use_fused_kernel` in `embedding_backward_cuda_kernel`.
    const fn accumulates_atomically(&self, segments: u64, partials: u64, hidden: u64) -> bool {
        let warped = hidden.next_multiple_of(WARP);
        let block = if warped < MAX_BLOCK { warped } else { MAX_BLOCK };
        let grid = (segments * warped).div_ceil(block);
        grid < self.device.sm_count * ATOMIC_BLOCKS_PER_SM && 4 * grid < partials
    }
}
