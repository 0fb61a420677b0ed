//! Fused activations, and the norm that Megatron-core's local specification takes from PyTorch.

use crate::clock::{Pointwise, Reduce};
use crate::tape::{MAX_INPUTS, Megatron, ParamId, Prim, Tape, Tensor};
use crate::tensor::{DType, Shape};

use super::super::backward::{Gradients, NONE};
use super::super::work::{pointwise, reduction};
use super::bias_of;

impl Tape {
    /// `bias_gelu_impl(x, bias)`: one compiled kernel; keeps its inputs.
    pub fn bias_gelu(&mut self, x: &Tensor, bias: ParamId) -> Tensor {
        self.fused_activation(Prim::Gelu, x, Some(bias), x.shape.last())
    }

    /// `bias_swiglu_impl(x, bias)`: one compiled kernel over both halves of each row; keeps its inputs.
    pub fn swiglu(&mut self, x: &Tensor, bias: Option<ParamId>) -> Tensor {
        self.fused_activation(Prim::Silu, x, bias, x.shape.last() / 2)
    }

    fn fused_activation(
        &mut self,
        prim: Prim,
        x: &Tensor,
        bias: Option<ParamId>,
        columns: u64,
    ) -> Tensor {
        let rule = Megatron::Activation { input: x.shape, bias: bias.is_some() };
        let bias = bias.map(|id| self.weight(id));
        let inputs: Vec<&Tensor> = core::iter::once(x).chain(bias.as_ref()).collect();
        let node = self.megatron_node(prim, rule, &inputs).map(|mut node| {
            self.save(&mut node, x);
            if let Some(bias) = &bias {
                self.save(&mut node, bias);
            }
            node
        });
        let out = self.empty(x.shape.with_last(columns), x.dtype, prim);
        self.run(prim, pointwise(Pointwise::Gelu, x.dtype, x.bytes() + out.bytes()));
        if let Some(bias) = bias {
            self.release(bias);
        }
        self.with_node(out, node)
    }

    pub(super) fn activation_gradients(
        &mut self,
        grad: &Tensor,
        input: Shape,
        bias: bool,
        wanted: [bool; MAX_INPUTS],
    ) -> Gradients {
        let of_input = self.empty(input, grad.dtype, Prim::Gelu);
        let bytes = grad.bytes() + 2 * of_input.bytes();
        self.run(Prim::Gelu, pointwise(Pointwise::Gelu, grad.dtype, bytes));
        let of_bias = (bias && wanted[1]).then(|| bias_of(self, &of_input));
        [Some(of_input), of_bias, None, None]
    }

    /// `weighted_bias_swiglu_impl(x, None, weights)`: keeps rows and weights.
    pub fn weighted_swiglu(&mut self, x: &Tensor, weights: &Tensor) -> Tensor {
        let rule = Megatron::Weighted { input: x.shape };
        let node = self.megatron_node(Prim::Silu, rule, &[x, weights]).map(|mut node| {
            self.save(&mut node, x);
            self.save(&mut node, weights);
            node
        });
        let out = self.empty(x.shape.with_last(x.shape.last() / 2), x.dtype, Prim::Silu);
        self.run(Prim::Silu, pointwise(Pointwise::Silu, x.dtype, x.bytes() + out.bytes()));
        self.with_node(out, node)
    }

    /// The rows' gradient and the weights', the latter summed over each row.
    pub(super) fn weighted_gradients(&mut self, grad: &Tensor, input: Shape) -> Gradients {
        let of_input = self.empty(input, grad.dtype, Prim::Silu);
        let of_weights = self.empty(input.with_last(1), grad.dtype, Prim::Sum);
        let bytes = grad.bytes() + 2 * of_input.bytes();
        self.run(Prim::Silu, pointwise(Pointwise::Silu, grad.dtype, bytes));
        [Some(of_input), Some(of_weights), None, None]
    }

    /// `F.rms_norm(x, weight)`: the result and the reciprocal root of each row, in fp32; keeps input,
    /// weight and the latter.
    ///
    /// Source: `_fused_rms_norm` (`aten/src/ATen/native/cuda/layer_norm_kernel.cu`), PyTorch 2.11.
    pub fn rms_norm(&mut self, x: &Tensor, weight: ParamId) -> Tensor {
        let weight = self.weight(weight);
        let node = self.megatron_node(Prim::RmsNorm, Megatron::RmsNorm, &[x, &weight]);
        let node = node.map(|mut node| {
            self.save(&mut node, x);
            self.save(&mut node, &weight);
            node
        });
        let out = self.empty(x.shape, x.dtype, Prim::RmsNorm);
        let rstd = self.empty(Shape::new([x.shape.rows()]), DType::F32, Prim::RmsNorm);
        let bytes = x.bytes() + out.bytes();
        self.run(Prim::RmsNorm, reduction(Reduce::LayerNorm, &x.shape, x.dtype, bytes));
        let node = node.map(|mut node| {
            self.save(&mut node, &rstd);
            node
        });
        self.release(rstd);
        self.release(weight);
        self.with_node(out, node)
    }

    pub(super) fn rms_norm_gradients(
        &mut self,
        grad: &Tensor,
        wanted: [bool; MAX_INPUTS],
    ) -> Gradients {
        let mut outputs = NONE;
        let shapes = [grad.shape, Shape::new([grad.shape.last()])];
        for (i, shape) in shapes.into_iter().enumerate() {
            if wanted[i] {
                outputs[i] = Some(self.empty(shape, grad.dtype, Prim::RmsNorm));
            }
        }
        let bytes = 3 * grad.bytes();
        self.run(
            Prim::RmsNorm,
            reduction(Reduce::LayerNormBackward, &grad.shape, grad.dtype, bytes),
        );
        outputs
    }
}
