//! Losses over a vocabulary.

use crate::clock::{Index, Pass, Reduce};
use crate::tape::{Backward, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::timeline::Category;

use super::work::{indexed, product, reduction};

/// Sizes of a fused linear cross-entropy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FusedLossShape {
    /// Tokens.
    pub rows: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Vocabulary.
    pub vocab: u64,
}

impl FusedLossShape {
    /// Rows of one chunk: as many chunks as the vocabulary is wider than the hidden size, each a
    /// power of two.
    ///
    /// Source: `fused_linear_cross_entropy_forward` in Liger-Kernel
    /// (`src/liger_kernel/ops/fused_linear_cross_entropy.py`): `inc_factor = ⌈V / H⌉`,
    /// `chunk_size = min(next_power_of_2(⌈BT / inc_factor⌉), BT)`.
    pub fn chunk_rows(&self) -> u64 {
        let factor = self.vocab.div_ceil(self.hidden);
        self.rows.div_ceil(factor).next_power_of_two().min(self.rows)
    }

    /// How many chunks the rows make.
    pub fn chunks(&self) -> u64 {
        self.rows.div_ceil(self.chunk_rows())
    }
}

impl Tape {
    /// `F.cross_entropy(logits, target)` of `[rows, vocab]` logits: log-softmax, then the mean
    /// negative log-likelihood; keeps target and total weight.
    ///
    /// Autocast runs the likelihood in fp32, and leaves the log-softmax in the logits' dtype, which
    /// `cross_entropy_loss` asks for (`aten/src/ATen/native/LossNLL.cpp`).
    pub fn cross_entropy(&mut self, logits: &Tensor, target: Tensor) -> Tensor {
        let mut log_probs = self.log_softmax(logits);
        self.categorise(log_probs.storage, Category::Logits);
        if self.autocast().is_some() && log_probs.dtype != DType::F32 {
            let wide = self.cast(&log_probs, DType::F32);
            self.categorise(wide.storage, Category::Logits);
            self.release(core::mem::replace(&mut log_probs, wide));
        }
        let rule = Backward::NllLoss { input: log_probs.shape };
        let node = self.records(&[&log_probs]).then(|| {
            let mut node = self.begin_node(Prim::NllLoss, rule, &[&log_probs]);
            self.save(&mut node, &log_probs);
            self.save(&mut node, &target);
            node
        });
        let loss = self.empty(Shape::scalar(), log_probs.dtype, Prim::NllLoss);
        let total_weight = self.empty(Shape::scalar(), log_probs.dtype, Prim::NllLoss);
        self.run(
            Prim::NllLoss,
            indexed(Index::Gather, log_probs.dtype, 8 * log_probs.shape.rows()),
        );
        let node = node.map(|mut node| {
            self.save(&mut node, &total_weight);
            node
        });
        let loss = self.with_node(loss, node);
        self.release(total_weight);
        self.release(log_probs);
        self.release(target);
        loss
    }

    /// Liger's fused linear cross-entropy: per chunk of rows the logits are made, turned into
    /// their gradient in place, and multiplied into the gradients of input and weight, which are
    /// kept for backward.
    ///
    /// # Source
    ///
    /// `fused_linear_cross_entropy_forward` in Liger-Kernel 0.8.5.
    pub fn fused_linear_cross_entropy(
        &mut self,
        x: &Tensor,
        weight: ParamId,
        shape: FusedLossShape,
    ) -> Tensor {
        let table = self.weight(weight);
        let rule = Backward::FusedLoss { inputs: [x.shape, table.shape] };
        let node = self
            .records(&[x, &table])
            .then(|| self.begin_node(Prim::FusedLoss, rule, &[x, &table]));
        let grad_input = self.empty(x.shape, x.dtype, Prim::FusedLoss);
        let trained = table.requires_grad();
        let grad_weight = trained.then(|| self.empty(table.shape, table.dtype, Prim::FusedLoss));
        let losses = self.helper(Shape::new([shape.rows]), DType::F32, Prim::FusedLoss);
        let targets = self.helper(Shape::new([shape.rows]), DType::Bool, Prim::FusedLoss);
        // `target_mask.sum()`: the result, and the mask as integers.
        let sum = self.allocate(8, Prim::FusedLoss);
        self.scratch(8 * shape.rows, Prim::FusedLoss);
        self.release_storage(sum);
        self.set_grad_enabled(false);
        match self.autocast().filter(|&dtype| dtype != x.dtype) {
            Some(dtype) => self.fused_chunks_cast(weight, shape, dtype, trained),
            None => self.fused_chunks(shape, x.dtype, trained),
        }
        self.set_grad_enabled(true);
        let loss = self.helper(Shape::scalar(), DType::F32, Prim::FusedLoss);
        self.release(targets);
        self.release(losses);
        let node = node.map(|mut node| {
            self.save(&mut node, &grad_input);
            if let Some(grad_weight) = &grad_weight {
                self.save(&mut node, grad_weight);
            }
            node
        });
        let loss = self.with_node(loss, node);
        for tensor in [Some(grad_input), grad_weight, Some(table)].into_iter().flatten() {
            self.release(tensor);
        }
        loss
    }

    /// One buffer serves the logits of all chunks (`_can_use_mm_out`). The weight's gradient is added up
    /// in place for half types and through a temporary per chunk in fp32, as recorded on an H200 with
    /// torch 2.11.
    fn fused_chunks(&mut self, shape: FusedLossShape, dtype: DType, trained: bool) {
        let FusedLossShape { hidden, vocab, .. } = shape;
        let chunk = shape.chunk_rows();
        let logits = self.empty(Shape::new([chunk, vocab]), dtype, Prim::FusedLoss);
        self.categorise(logits.storage, Category::Logits);
        for _ in 0..shape.chunks() {
            self.fused_chunk(shape, chunk, dtype, trained);
            if trained && !dtype.is_half() {
                self.scratch(vocab * hidden * dtype.bytes(), Prim::FusedLoss);
            }
        }
        self.release(logits);
    }

    /// Under autocast every product casts its operands. The transposed weight is no leaf, and so is cast
    /// anew for each chunk; the weight itself is cast once, and kept.
    fn fused_chunks_cast(
        &mut self,
        weight: ParamId,
        shape: FusedLossShape,
        dtype: DType,
        trained: bool,
    ) {
        let FusedLossShape { rows, hidden, vocab } = shape;
        for i in 0..shape.chunks() {
            let chunk = shape.chunk_rows().min(rows - i * shape.chunk_rows());
            let input_bytes = chunk * hidden * dtype.bytes();
            let transposed = self.allocate(vocab * hidden * dtype.bytes(), Prim::Copy);
            let input = self.allocate(input_bytes, Prim::Copy);
            let logits = self.empty(Shape::new([chunk, vocab]), dtype, Prim::FusedLoss);
            self.categorise(logits.storage, Category::Logits);
            self.release_storage(input);
            self.release_storage(transposed);
            let cast = self.cast_weight(weight);
            self.release(cast);
            // The chunk's gradient, and the chunk for the gradient of the weight.
            self.scratch(input_bytes, Prim::FusedLoss);
            if trained {
                self.scratch(input_bytes, Prim::Copy);
            }
            self.fused_chunk(shape, chunk, dtype, trained);
            self.release(logits);
        }
    }

    /// The work on one chunk.
    fn fused_chunk(&mut self, shape: FusedLossShape, chunk: u64, dtype: DType, trained: bool) {
        let FusedLossShape { hidden, vocab, .. } = shape;
        let seen = Shape::new([chunk, vocab]);
        let bytes = 2 * chunk * vocab * dtype.bytes();
        self.run(Prim::Linear, product([chunk, vocab, hidden, 1], Pass::Forward, dtype));
        self.run(Prim::LogSoftmax, reduction(Reduce::LogSoftmax, &seen, dtype, bytes));
        self.run(Prim::Linear, product([chunk, hidden, vocab, 1], Pass::InputGrad, dtype));
        if trained {
            self.run(Prim::Linear, product([vocab, hidden, chunk, 1], Pass::WeightGrad, dtype));
        }
    }
}
