//! Batch norm in training.
//!
//! Sources: `_select_batch_norm_backend` (`aten/src/ATen/native/Normalization.cpp`), `cudnn_batch_norm`
//! and its backward (`native/cudnn/BatchNorm.cpp`), `batch_norm_cuda` and its backward
//! (`native/cuda/Normalization.cu`).

use crate::clock::{Pointwise, Reduce};
use crate::tape::{Backward, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Layout, Shape};

use super::backward::{Context, Gradients, NONE};
use super::reshape::four;
use super::work::{pointwise, reduction};

/// Whether cuDNN runs it: not where bfloat16 takes part.
fn by_cudnn(input: DType, weight: DType) -> bool {
    input != DType::BF16 && weight != DType::BF16 && (input != DType::F16 || weight == DType::F32)
}

/// Element type of the statistics kept: the weight's in cuDNN, fp32 in PyTorch's own kernels.
fn statistics(input: DType, weight: DType) -> DType {
    if by_cudnn(input, weight) { weight } else { DType::F32 }
}

impl Tape {
    /// `nn.BatchNorm2d`: the count of batches in place, then result, mean, reciprocal deviation. Keeps
    /// input, weight, mean and deviation.
    pub fn batch_norm(&mut self, x: &Tensor, weight: ParamId, bias: ParamId) -> Tensor {
        self.run(Prim::Add, pointwise(Pointwise::Unary, DType::I64, 16));
        let [weight, bias] = [weight, bias].map(|id| self.weight(id));
        let inputs = [x, &weight, &bias];
        let node = self.records(&inputs).then(|| {
            let rule =
                Backward::BatchNorm { input: x.shape, layout: x.layout, weight: weight.dtype };
            let mut node = self.begin_node(Prim::BatchNorm, rule, &inputs);
            self.save(&mut node, x);
            self.save(&mut node, &weight);
            node
        });
        let [_, channels, ..] = four(x);
        let out = self.empty(x.shape, x.dtype, Prim::BatchNorm);
        let dtype = statistics(x.dtype, weight.dtype);
        let [mean, deviation] =
            [(); 2].map(|()| self.empty(Shape::new([channels]), dtype, Prim::BatchNorm));
        self.run(Prim::BatchNorm, work(Reduce::BatchNorm, x.shape, x.dtype, 3 * x.bytes()));
        let node = node.map(|mut node| {
            self.save(&mut node, &mean);
            self.save(&mut node, &deviation);
            node
        });
        let out = self.with_node(Tensor { layout: x.layout, ..out }, node);
        for tensor in [deviation, mean, bias, weight] {
            self.release(tensor);
        }
        out
    }

    /// The incoming gradient in the input's memory order, then the gradients of input, weight and bias.
    pub(super) fn batch_norm_gradients(
        &mut self,
        grad: &Tensor,
        (input, layout): (Shape, Layout),
        weight: DType,
        context: Context,
    ) -> Gradients {
        let contiguous = self.in_order(grad, layout);
        let mut outputs = NONE;
        let [_, channels, ..] = *input.sizes() else { unreachable!("images have four dimensions") };
        let shapes = [input, Shape::new([channels]), Shape::new([channels])];
        let dtypes = [context.dtype, weight, weight];
        for (i, shape) in shapes.into_iter().enumerate() {
            if context.edges[i].wanted() {
                outputs[i] = Some(self.empty(shape, dtypes[i], Prim::BatchNorm));
            }
        }
        if let Some(out) = &mut outputs[0] {
            out.layout = layout;
        }
        let bytes = 5 * grad.bytes();
        self.run(Prim::BatchNorm, work(Reduce::BatchNormBackward, input, context.dtype, bytes));
        if let Some(contiguous) = contiguous {
            self.release(contiguous);
        }
        outputs
    }
}

fn work(kind: Reduce, shape: Shape, dtype: DType, bytes: u64) -> crate::clock::Work {
    let channels = shape.sizes()[1];
    let seen = Shape::new([shape.elements() / channels, channels]);
    reduction(kind, &seen, dtype, bytes)
}
