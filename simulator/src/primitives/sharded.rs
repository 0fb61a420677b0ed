//! Linear layers whose weight is dealt out over ranks: what `ColwiseParallel` and `RowwiseParallel` put
//! around the product.
//!
//! # Source
//!
//! PyTorch 2.11: `torch/distributed/tensor/parallel/style.py`; `_api.py` (`_FromTorchTensor`,
//! `_ToTorchTensor`) and `_redistribute.py` (`Redistribute`) in `torch/distributed/tensor`; the
//! collectives of `torch/distributed/_functional_collectives.py` write into a tensor of their own.

use crate::clock::Pointwise;
use crate::tape::{Backward, ParamId, Prim, Split, Tape, Tensor};
use crate::tensor::Shape;

use super::work::pointwise;

impl Tape {
    /// The input of a layer: of a column-wise one every rank has it whole, so that its gradient is
    /// summed over the ranks (`_FromTorchTensor`).
    pub(super) fn distributed_input(&mut self, x: &Tensor, weight: ParamId) -> Tensor {
        let columns = matches!(self.param(weight).split, Some(Split::Columns { .. }));
        if !columns || !self.records(&[x]) {
            return self.share(x);
        }
        let node = self.begin_node(Prim::AllReduce, Backward::AllReduce, &[x]);
        let source = self.finish_node(node);
        let shared = self.share(x);
        Tensor { source, ..shared }
    }

    /// The output of a layer: a row-wise one's parts are summed over the ranks, a column-wise one's
    /// are put together when they are wanted whole.
    pub(super) fn distributed_output(&mut self, part: Tensor, weight: ParamId) -> Tensor {
        match self.param(weight).split {
            Some(Split::Rows { .. }) => self.all_reduced(part),
            Some(Split::Columns { ranks, gathered: true }) => self.gathered(part, ranks),
            Some(Split::Columns { gathered: false, .. } | Split::Whole) | None => part,
        }
    }

    /// The bias of a row-wise layer, divided by the ranks whose outputs will be summed
    /// (`Partial._partition_value` in `placement_types.py`): a tensor of the product alone.
    pub(super) fn partial_bias(&mut self, bias: Tensor, weight: ParamId) -> Tensor {
        if !matches!(self.param(weight).split, Some(Split::Rows { .. })) {
            return bias;
        }
        let part = self.empty(bias.shape, bias.dtype, Prim::Div);
        self.run(Prim::Div, pointwise(Pointwise::Unary, bias.dtype, 2 * part.bytes()));
        let source = bias.source;
        self.release(bias);
        Tensor { source, ..part }
    }

    /// `Partial` to `Replicate`; the gradient stays as it is.
    fn all_reduced(&mut self, part: Tensor) -> Tensor {
        let node = self.records(&[&part]);
        let node = node.then(|| self.begin_node(Prim::AllReduce, Backward::Pass, &[&part]));
        let sum = self.empty(part.shape, part.dtype, Prim::AllReduce);
        self.run(Prim::AllReduce, pointwise(Pointwise::Copy, part.dtype, 2 * part.bytes()));
        let sum = self.with_node(sum, node);
        self.release(part);
        sum
    }

    /// `Shard(-1)` to `Replicate`: the parts of all ranks one after the other, then side by side. The
    /// gradient's part is copied out.
    fn gathered(&mut self, part: Tensor, ranks: u64) -> Tensor {
        let whole = part.shape.with_last(part.shape.last() * ranks);
        let rule = Backward::GatherColumns { input: part.shape };
        let node = self.records(&[&part]);
        let node = node.then(|| self.begin_node(Prim::AllGather, rule, &[&part]));
        let stacked = self.empty(whole, part.dtype, Prim::AllGather);
        let joined = self.empty(whole, part.dtype, Prim::Cat);
        self.run(Prim::Cat, pointwise(Pointwise::Copy, part.dtype, 2 * stacked.bytes()));
        self.release(stacked);
        let joined = self.with_node(joined, node);
        self.release(part);
        joined
    }

    /// The sum of the ranks' gradients, as a tensor of its own.
    pub(super) fn all_reduce_gradient(&mut self, grad: &Tensor) -> Tensor {
        let sum = self.empty(grad.shape, grad.dtype, Prim::AllReduce);
        self.run(Prim::AllReduce, pointwise(Pointwise::Copy, grad.dtype, 2 * grad.bytes()));
        sum
    }

    /// A rank's columns of a gradient.
    pub(super) fn gradient_columns(&mut self, grad: &Tensor, part: Shape) -> Tensor {
        let columns = self.empty(part, grad.dtype, Prim::AllGather);
        self.run(Prim::AllGather, pointwise(Pointwise::Copy, grad.dtype, 2 * columns.bytes()));
        columns
    }
}
