//! Cross-entropy over a vocabulary that the ranks share.
//!
//! Source: megatron-core 0.19.2, `tensor_parallel/cross_entropy.py`.

use crate::clock::{Index, Pointwise, Reduce};
use crate::tape::{Megatron, Prim, StorageId, Tape, Tensor};
use crate::tensor::{DType, Shape};
use crate::wire::timeline::Category;

use super::super::work::{indexed, pointwise, reduction};

impl Tape {
    /// `vocab_parallel_cross_entropy(logits, target)`: fp32 logits that become the softmax in place;
    /// keeps them, the mask of foreign targets and the masked targets. One loss a token.
    pub fn vocab_parallel_cross_entropy(&mut self, logits: &Tensor, target: &Tensor) -> Tensor {
        let rows = logits.shape.rows();
        let per_token = target.shape;
        let rule = Megatron::CrossEntropy { rows, input: logits.shape };
        let node = self.megatron_node(Prim::NllLoss, rule, &[logits]);
        // `vocab_parallel_logits.float()`, which fp32 logits are already.
        let softmax = if logits.dtype == DType::F32 {
            self.share(logits)
        } else {
            let wide = self.empty(logits.shape, DType::F32, Prim::Copy);
            let bytes = logits.bytes() + wide.bytes();
            self.run(Prim::Copy, pointwise(Pointwise::Widen, logits.dtype, bytes));
            wide
        };
        self.categorise(softmax.storage, Category::Logits);
        let float = |tape: &mut Self, prim| tape.helper(per_token, DType::F32, prim);
        // `torch.max(…, dim=-1)[0]`: values and positions.
        let maximum = float(self, Prim::NllLoss);
        let positions = self.helper(per_token, DType::I64, Prim::NllLoss);
        self.run(
            Prim::NllLoss,
            reduction(Reduce::Last, &softmax.shape, DType::F32, softmax.bytes()),
        );
        self.release(positions);
        let [mask, masked] = self.masked_ids(target);
        let range = self.helper(Shape::new([rows]), DType::I64, Prim::Arange);
        let picked = float(self, Prim::Index);
        let predicted = float(self, Prim::Copy);
        self.release(picked);
        let sum = float(self, Prim::Sum);
        self.run(
            Prim::Sum,
            reduction(Reduce::Softmax, &softmax.shape, DType::F32, 2 * softmax.bytes()),
        );
        self.release(range);
        let logarithm = float(self, Prim::NllLoss);
        let loss = float(self, Prim::Add);
        self.release(logarithm);
        let node = node.map(|mut node| {
            for tensor in [&softmax, &mask, &masked] {
                self.save(&mut node, tensor);
            }
            node
        });
        let loss = self.with_node(loss, node);
        for tensor in [softmax, maximum, mask, masked, predicted, sum] {
            self.release(tensor);
        }
        loss
    }

    /// The kept softmax less one at the targets, times the gradient, in place; cast to the logits'
    /// dtype where they have another (`validate_outputs`).
    pub(super) fn cross_entropy_gradient(
        &mut self,
        rows: u64,
        input: Shape,
        softmax: StorageId,
        dtype: DType,
    ) -> Tensor {
        let tokens = Shape::new([rows]);
        let range = self.helper(tokens, DType::I64, Prim::Arange);
        let wide = self.helper(tokens, DType::F32, Prim::Copy);
        let update = self.helper(tokens, DType::F32, Prim::Add);
        self.release(wide);
        let picked = self.helper(tokens, DType::F32, Prim::Index);
        self.run(Prim::Index, indexed(Index::Scatter, DType::F32, 3 * picked.bytes()));
        self.release(picked);
        let gradient = self.handle(softmax, input, DType::F32);
        self.run(Prim::Mul, pointwise(Pointwise::Binary, DType::F32, 2 * gradient.bytes()));
        self.release(range);
        self.release(update);
        if dtype == DType::F32 {
            return gradient;
        }
        let out = self.empty(input, dtype, Prim::Copy);
        self.categorise(out.storage, Category::Logits);
        self.run(
            Prim::Copy,
            pointwise(Pointwise::Narrow, DType::F32, gradient.bytes() + out.bytes()),
        );
        self.release(gradient);
        out
    }

    /// `x.float().mean()` of a vector of losses in fp32.
    pub fn mean_of_all(&mut self, x: &Tensor) -> Tensor {
        let node = self.megatron_node(Prim::Mean, Megatron::MeanAll { input: x.shape }, &[x]);
        let out = self.empty(Shape::scalar(), DType::F32, Prim::Mean);
        self.run(Prim::Mean, reduction(Reduce::Last, &x.shape, x.dtype, x.bytes()));
        self.with_node(out, node)
    }
}
